"""Counted reports to shares, group by group: what a worker does when a wave is estimated.

It imports the estimators and nothing else of the package: a spec, a ledger or pandas takes a worker longer to
import than it takes to decode a dozen groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_spark.uldp import Mechanism, ReportCounts

NUMBERS, FLAGS = ("shares", "stds", "low", "high"), ("biased", "boundary")
CODE, REPORTS = "code", "reports"


def group_column(i: int) -> str:
    """The name of the i-th column of groups while it is decoded: the survey's may be `code` or `low`."""
    return f"group_{i}"


@dataclass(frozen=True, slots=True)
class Decoding:
    """What `decoded_groups` needs to know; travels to the workers.

    Attributes:
        groups: how many columns make a group, named by `group_column`; 0 where everybody is one.
        report: the column of reports.
        count: the column that says how many people sent it.
        mechanism: which made the reports.
        method: of the estimate.
        consistency: of the estimate.
    """

    groups: int
    report: str
    count: str
    mechanism: Mechanism
    method: str
    consistency: str


def decoded_groups(batches: Iterator[pa.RecordBatch], *, decoding: Decoding) -> Iterator[pa.RecordBatch]:
    """For each group of a partition, which has all its rows, a row for each category, by its code."""
    parts = [batch for batch in batches if batch.num_rows]
    if not parts:
        return
    rows = pa.Table.from_batches(parts).combine_chunks()
    for key, own in _by_group(rows, [group_column(i) for i in range(decoding.groups)]):
        counted = ReportCounts(own[decoding.report].to_numpy(), own[decoding.count].to_numpy())
        yield _shares(key, counted, decoding)


def _by_group(rows: pa.Table, groups: Sequence[str]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """The value of each column of a group, and the group's rows, as they came."""
    if not groups:
        yield {}, rows
        return
    keys = rows.group_by(list(groups)).aggregate([]).to_pylist()
    for key in keys:
        among: Any = np.ones(rows.num_rows, dtype=np.bool_)
        for name, value in key.items():
            among &= pc.equal(rows[name], value).to_numpy()
        yield key, rows.filter(pa.array(among))


def _shares(key: dict[str, Any], counted: ReportCounts, decoding: Decoding) -> pa.RecordBatch:
    found = decoding.mechanism.estimate(counted, method=decoding.method, consistency=decoding.consistency)
    w = decoding.mechanism.n_categories
    columns: dict[str, Any] = {name: pa.array([value] * w, pa.string()) for name, value in key.items()}
    columns[CODE] = pa.array(np.arange(w, dtype=np.int32))
    columns |= {name: pa.array(getattr(found, name)) for name in (*NUMBERS, *FLAGS)}
    columns[REPORTS] = pa.array(np.full(w, found.n, dtype=np.int64))
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
