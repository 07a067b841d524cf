"""`init`, `ledger init`, `ledger budget set`: explicit acts that a run never does."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from dp_spark.errors import SetupRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import Amount, grants
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.problems import Problem, Wrong, refused
from dp_spark.release.profile import PROFILE_FILE, load_profile, render_first_spec, render_profile
from dp_spark.release.reading import exact_number, read_each, read_text, word_of
from dp_spark.release.spec import UnitSpec
from dp_spark.report.figures import exact

FIRST_SPEC = "release.yaml"


def write_first_files(directory: Path, *, as_json: bool) -> None:
    """Write a profile and a first spec into `directory`.

    Raises:
        SetupRefused: one of them exists, or the directory cannot be written.
    """
    files = {directory / PROFILE_FILE: render_profile(), directory / FIRST_SPEC: render_first_spec()}
    for path in files:
        if path.exists():
            raise SetupRefused(
                "file_exists",
                f"{path} exists; nothing was written",
                way_out="move it away, or give another directory",
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"{directory} cannot be written ({failure.strerror})",
            way_out="give a directory that you may write",
        ) from None
    _say(
        {"written": [str(path) for path in files]},
        *(f"written  {path}" for path in files),
        "next: name your table, unit, groups and bounds in the spec, then",
        "  dp-spark ledger init",
        "  dp-spark ledger budget set POPULATION --epsilon 10 --delta 1e-5 --unit COLUMN --reason WHY",
        f"  dp-spark plan {directory / FIRST_SPEC}",
        as_json=as_json,
    )


def make_ledger(profile: str | None, *, as_json: bool) -> None:
    """Make the ledger, its master key and the restricted zone, where they are missing."""
    places = load_profile(profile)
    make_places(places)
    _say(
        {"ledger": places.ledger_url, "master_key": places.master_key},
        f"ledger      {places.ledger_url}",
        f"master key  {places.master_key} (back it up apart from the ledger: whoever has both, and a",
        "            ledger copy from before a release was staged, can compute that release's noise)",
        as_json=as_json,
    )


def print_grants(runner: str, *, as_json: bool) -> None:
    """Print what the owner of a ledger in PostgreSQL has to run for the role of its runners.

    Raises:
        SpecRefused: `runner` is no plain name of a role.
    """
    script = grants(runner)
    _say({"runner": runner, "sql": script}, script.rstrip(), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Protection:
    """What an account counts, as the command line writes it."""

    columns: tuple[str, ...]
    row: bool
    per: str | None
    neighbours: str

    def read(self) -> tuple[PrivacyUnit, Neighbours]:
        """The unit and the relation.

        Raises:
            SpecRefused: there is no unit, or two kinds of one, or a word is not known.
        """
        if self.row == bool(self.columns):
            why = "two kinds of unit are named" if self.row else "no unit is named"
            problem = Problem(why, "write --unit COLUMN, once for each column, or --unit-row")
            raise refused("unit_invalid", "budget set", [problem])
        written = {"row": "true"} if self.row else {"columns": list(self.columns), "on_null": "drop"}
        unit = UnitSpec.read(written | ({} if self.per is None else {"per": self.per}), source="budget set")
        try:
            (neighbours,) = read_each([("neighbours", self.neighbours)], word_of(Neighbours))
        except Wrong as failure:
            raise refused("neighbours_invalid", "budget set", failure.problems) from None
        return unit.protected, neighbours


def set_budget(
    population: str,
    *,
    epsilon: str,
    delta: str,
    counts: Protection,
    reason: str,
    profile: str | None,
    as_json: bool,
) -> None:
    """Open an account or move its limit, and print what is left.

    Raises:
        Refusal: a number is out of range, or the account counts another unit.
    """
    limit = limit_of(epsilon, delta)
    unit, neighbours = counts.read()
    (reason,) = texts_of("budget set", reason=reason)
    ledger = open_ledger(load_profile(profile))
    ledger.set_budget(population, limit, unit=unit, neighbours=neighbours, reason=reason)
    account = ledger.budget(population)
    amounts: dict[str, PrivacyGuarantee | Amount] = {
        "limit": account.limit,
        "spent": account.spent,
        "left": account.left,
    }
    exactly = {key: {"epsilon": str(each.epsilon), "delta": str(each.delta)} for key, each in amounts.items()}
    lines = [
        f"  {key:6} epsilon {exact(each.epsilon)}, delta {exact(each.delta)}" for key, each in amounts.items()
    ]
    protects = {"unit": str(account.unit), "neighbours": str(account.neighbours)}
    lines.append(f"  of each unit {account.unit}, neighbours {account.neighbours}")
    _say({"population": population, **protects, **exactly}, population, *lines, as_json=as_json)


def texts_of(command: str, **written: str) -> list[str]:
    """The texts of a command's options.

    Raises:
        SpecRefused: one has characters that no text may have.
    """
    try:
        return read_each(written.items(), read_text)
    except Wrong as failure:
        raise refused("text_invalid", command, failure.problems) from None


def limit_of(epsilon: str, delta: str, source: str = "budget set") -> PrivacyGuarantee:
    """The limit that two texts write, exactly; `source` is the command or option that they come from.

    Raises:
        SpecRefused: one of them is no number, or out of range.
    """
    read_epsilon = exact_number(
        "0 < epsilon <= 1e6", lambda value: 0 < value <= 10**6, "write for instance 10"
    )
    read_delta = exact_number("0 <= delta < 1", lambda value: 0 <= value < 1, "write for instance 1e-5")
    try:
        return PrivacyGuarantee(read_epsilon(epsilon), read_delta(delta))
    except Wrong as failure:
        raise refused("limit_invalid", source, failure.problems) from None


def _say(facts: dict[str, object], *lines: str, as_json: bool) -> None:
    sys.stdout.write((json.dumps(facts) if as_json else "\n".join(lines)) + "\n")
