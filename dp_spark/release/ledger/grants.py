"""What the runner's role may do with a ledger in PostgreSQL, as SQL for the ledger's owner."""

import re
from pathlib import Path

from dp_spark.errors import SpecRefused

_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_SCRIPT = Path(__file__).with_name("grants.sql")


def grants(runner: str) -> str:
    """The statements that let the role `runner` reserve and advance releases, and nothing else.

    Raises:
        SpecRefused: `runner` is no plain name of a role.
    """
    if _ROLE.fullmatch(runner) is None:
        raise SpecRefused(
            "bad_role",
            f"runner = {runner[:200]!r} is not a role: a letter or _, then up to 62 of A-Z a-z 0-9 _ -",
            way_out="name the role that runs releases",
        )
    return _SCRIPT.read_text(encoding="utf-8").replace("{runner}", f'"{runner}"')
