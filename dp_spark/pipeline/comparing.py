"""Earlier releases of a name, and what the staged one shows beside them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_spark.checks import Earlier, Finding, HistoryCheck, Outcome, Past, compare, not_compared
from dp_spark.errors import PublishRefused
from dp_spark.pipeline.run import Run
from dp_spark.publish import artefact_digest, read_artefact, with_released_groups
from dp_spark.release.ledger import ReleaseRecord, ReleaseState
from dp_spark.release.missing import is_of
from dp_spark.release.period import period_before
from dp_spark.release.spec import PERIOD_COLUMN, Against, HistorySpec

STAGED = "staged"


@dataclass(frozen=True, slots=True)
class History:
    """What a staged release was compared with, and what that showed.

    Attributes:
        rule: of its spec.
        past: the earlier releases whose rows could be read.
        findings: what holds it, and warnings.
        outcomes: every rule that was looked at.
    """

    rule: HistorySpec
    past: Past
    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def blocking(self) -> tuple[str, ...]:
        """What holds the release."""
        return tuple(str(each) for each in self.findings if each.blocks)

    def as_json(self) -> dict[str, Any]:
        """What it was compared with, and what that showed, as evidence has it."""
        parts = {"newest": self.past.newest, "like": self.past.like, "revised": self.past.revised}
        return {
            "against": self.rule.against.value,
            "max_change": str(self.rule.max_change),
            "plus_sigma": str(self.rule.plus_sigma),
            "compared_with": {
                part: {"release": each.release_id, "read_from": each.origin}
                for part, each in parts.items()
                if each is not None
            },
            "findings": [
                {"check": each.check.value, "blocks": each.blocks, "text": each.text}
                for each in self.findings
            ],
        }


def compared(run: Run, table: pa.Table) -> History | None:
    """The staged `table` beside earlier releases, as its spec wants it; None where it does not.

    Their rows are read from the restricted zone, where they are kept, else from a copy in a Parquet sink;
    either has the digest that the ledger knows.
    """
    spec = run.plan.spec
    if spec.checks is None or spec.period is None:  # a spec with checks of history has periods
        return None
    rule, own = spec.checks.history, run.claim.release_id
    known = [each for each in run.ledger.releases(own.population) if is_of(each, spec)]
    sealed = {each.release_id.period_key: each for each in known if _is_before(each, run)}
    newest = sealed[max(sealed)] if sealed else None
    like = newest if rule.against is Against.PREVIOUS else _same_weekday(sealed, own.period_key)
    revised = next((each for each in reversed(known) if _is_revised(each, run)), None)
    read = _Reader()
    past = Past(newest=read.rows_of(newest), like=read.rows_of(like), revised=read.rows_of(revised))
    found = compare(table, with_released_groups(run.plan, table), rule, past)
    missing = list(_missing(newest, period_before(spec.period, own.period_key)))
    return History(rule, past, (*missing, *read.lost, *found.findings), (_no_gap(missing), *found.outcomes))


class _Reader:
    """Reads earlier releases, each once; those whose rows nobody has any more are in `lost`."""

    def __init__(self) -> None:
        self._known: dict[str, Earlier | None] = {}
        self.lost: list[Finding] = []

    def rows_of(self, record: ReleaseRecord | None) -> Earlier | None:
        """The release with its rows; None where there is none, or its rows are lost."""
        if record is None:
            return None
        name = str(record.release_id)
        if name not in self._known:
            self._known[name] = found = next(_copies(record), None)
            if found is None:
                self.lost.append(not_compared(name, "of which no staged table and no Parquet copy is kept"))
        return self._known[name]


def _copies(record: ReleaseRecord) -> Iterator[Earlier]:
    """The rows of a sealed release, from wherever they are whole."""
    assert record.artefact is not None  # what is sealed was staged
    name, digest = str(record.release_id), record.artefact.digest
    with suppress(PublishRefused):  # not kept any more
        yield Earlier(name, read_artefact(Path(record.artefact.path), digest), STAGED)
    for copy in record.publications:
        rows = _published(Path(copy.target), date.fromisoformat(record.release_id.period_key), digest)
        if rows is not None:
            yield Earlier(name, rows, copy.sink)


def _published(path: Path, start: date, digest: str) -> pa.Table | None:
    """The rows of a Parquet copy, with the period that names its directory; None if it is none or altered."""
    if path.suffix != ".parquet":
        return None
    try:
        rows = pq.ParquetFile(path).read()
        rows = rows.add_column(0, PERIOD_COLUMN, pa.array([start] * len(rows), pa.date32()))
        return rows if artefact_digest(rows) == digest else None
    except (OSError, pa.ArrowException, PublishRefused):
        return None


def _missing(newest: ReleaseRecord | None, before: str) -> Iterator[Finding]:
    if newest is not None and newest.release_id.period_key != before:
        text = f"the period before, {before}, is not sealed, and {newest.release_id} is"
        yield Finding(HistoryCheck.MISSING_PERIOD, True, text)


def _no_gap(missing: list[Finding]) -> Outcome:
    return Outcome(HistoryCheck.MISSING_PERIOD, (), "", met=not missing)


def _is_before(record: ReleaseRecord, run: Run) -> bool:
    own = run.claim.release_id
    return record.state is ReleaseState.SEALED and record.release_id.period_key < own.period_key


def _is_revised(record: ReleaseRecord, run: Run) -> bool:
    own, other = run.claim.release_id, record.release_id
    is_same = other.period_key == own.period_key and other.revision < own.revision
    return is_same and record.state is ReleaseState.SEALED


def _same_weekday(sealed: dict[str, ReleaseRecord], key: str) -> ReleaseRecord | None:
    weekday = date.fromisoformat(key).weekday()
    like = [each for each in sealed if date.fromisoformat(each).weekday() == weekday]
    return sealed[max(like)] if like else None
