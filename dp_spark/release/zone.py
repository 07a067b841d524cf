"""Whose the restricted zone is: one ledger's, which a file in it names from its first use on.

What a ledger does not know of its own zone is left over, and goes; in a zone of two it would be the other's.
"""

import os
from pathlib import Path

from dp_spark.errors import SetupRefused
from dp_spark.release.ledger import Ledger

MARK = ".ledger"


def claim_zone(ledger: Ledger, zone: Path) -> None:
    """Check that the zone is this ledger's, and make it so where it is nobody's; a missing zone is left so.

    Raises:
        SetupRefused: it is another ledger's, or cannot be read or marked.
    """
    own, mark = ledger.identity, zone / MARK
    try:
        if not zone.is_dir():
            return
        if not mark.exists():
            _write(own, mark)
        found = mark.read_text(encoding="utf-8", errors="replace")
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"the restricted zone {zone} cannot be marked ({failure.strerror})",
            way_out="let this user write there, or name another directory as `staging` in the profile",
        ) from None
    if found != own:
        raise SetupRefused(
            "zone_of_another_ledger",
            f"the restricted zone {zone} is that of another ledger, as {mark} says",
            way_out="name a directory of its own as `staging` in the profile of each ledger",
        )


def _write(own: str, mark: Path) -> None:
    """Put the mark there whole, unless somebody was faster."""
    attempt = mark.with_name(f"{MARK}.{os.urandom(8).hex()}")
    try:
        attempt.touch(0o600, exist_ok=False)
        attempt.write_text(own, encoding="utf-8")
        os.link(attempt, mark)
    except FileExistsError:
        return
    finally:
        attempt.unlink(missing_ok=True)
