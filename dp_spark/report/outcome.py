"""What a run did, for people, for machines and for notebooks."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dp_spark.errors import PublishRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.release.ledger import BudgetWarning, ReleaseId
from dp_spark.release.missing import MissingPeriod
from dp_spark.report.figures import counted, exact

if TYPE_CHECKING:  # a plan is told without them
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """What a run did.

    Attributes:
        release: the release's id.
        charged: what this run charged; None where an earlier run had paid.
        schedule: the schedule whose slot it took; then `charged` is what it promises by itself.
        digest: SHA-256 of the released rows.
        published: where the copies are.
        statement: the page that says what was promised.
        table: the released rows; None where the staged artefact is not kept any more.
        warning: that little is left of the budget, where that is so.
        source_version: of its source, that was read; None where that has no versions.
        expiring: missing periods of the release whose raw rows may be gone within a week.
        findings: what checks on history warn of, in words.
        head: the ledger's newest link when the run ended; kept elsewhere, it betrays a ledger put back.
    """

    release: ReleaseId
    charged: PrivacyGuarantee | None
    schedule: str | None
    digest: str
    published: tuple[str, ...]
    statement: Path
    table: "pa.Table | None"
    warning: BudgetWarning | None
    head: str | None
    source_version: str | None = None
    expiring: tuple[MissingPeriod, ...] = ()
    findings: tuple[str, ...] = ()

    def to_pandas(self) -> "pd.DataFrame":
        """The released rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_arrow(self) -> "pa.Table":
        """The released rows.

        Raises:
            PublishRefused: the staged artefact is not kept any more.
        """
        if self.table is None:
            raise PublishRefused(
                "rows_not_kept",
                f"the staged artefact of {self.release} is not kept any more",
                way_out=f"read one of its copies: {', '.join(self.published)}",
            )
        return self.table

    def __repr__(self) -> str:
        return result_text(self)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in _words(self)
        )
        return f"<table>{rows}</table>"


def result_json(result: RunResult) -> dict[str, object]:
    """What a run did, for machines."""
    return {
        "release": str(result.release),
        "charged": None
        if result.charged is None
        else {"epsilon": str(result.charged.epsilon), "delta": str(result.charged.delta)},
        "schedule": result.schedule,
        "digest": result.digest,
        "rows": None if result.table is None else result.table.num_rows,
        "artefact_kept": result.table is not None,
        "published": list(result.published),
        "statement": str(result.statement),
        "warning": None if result.warning is None else result.warning.as_json(),
        "ledger_head": result.head,
        "source_version": result.source_version,
        "expiring": [period.as_json() for period in result.expiring],
        "findings": list(result.findings),
    }


def result_text(result: RunResult) -> str:
    """What a run did, for people."""
    return "\n".join(f"{name:<10} {text}" for name, text in _words(result))


def _words(result: RunResult) -> tuple[tuple[str, str], ...]:
    """What a run did, as (name, text)."""
    charged = (
        "nothing: this release was paid before"
        if result.charged is None
        else f"epsilon {exact(result.charged.epsilon)}, delta {exact(result.charged.delta)}"
    )
    if result.schedule is not None and result.charged is not None:
        charged = f"a slot of schedule {result.schedule}; by itself {charged}"
    rows = "" if result.table is None else f" ({counted(result.table.num_rows, 'row')})"
    gone = "not kept any more, as of a release sealed so long ago; every copy stands"
    return (
        ("sealed", str(result.release) + rows),
        ("charged", charged),
        *((("read", f"version {result.source_version}"),) if result.source_version else ()),
        ("digest", result.digest),
        *((("artefact", gone),) if result.table is None else ()),
        *(("published", target) for target in result.published),
        ("statement", str(result.statement)),
        *((("warning", str(result.warning)),) if result.warning is not None else ()),
        *(("warning", each) for each in result.findings),
    )
