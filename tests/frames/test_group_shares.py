"""Counted reports to shares on a worker: each group by itself."""

import numpy as np
import pyarrow as pa

from dp_spark.frames.group_shares import FLAGS, NUMBERS, Decoding, decoded_groups
from dp_spark.uldp import ReportCounts, mechanism

MADE = mechanism("ubd", 8, 5, 1)


def counted(seed: int) -> ReportCounts:
    random = np.random.default_rng(seed)
    words = random.integers(0, 2**64, (3000, MADE.n_words), dtype=np.uint64)
    return ReportCounts.of(MADE.randomize(random.integers(0, 8, 3000), words))


def decoding(groups: int) -> Decoding:
    return Decoding(groups, "report", "n", MADE, "likelihood", "none")


def test_each_group_of_a_partition_is_decoded_by_itself_however_its_rows_come() -> None:
    keys = [("CA", "old"), ("CA", "young"), ("\u00cele", "old")]
    reports = [counted(seed) for seed in range(3)]
    rows = [
        {"group_0": state, "group_1": age, "report": int(report), "n": int(n)}
        for (state, age), each in zip(keys, reports, strict=True)
        for report, n in zip(each.reports, each.counts, strict=True)
    ]
    table = pa.Table.from_pylist([rows[i] for i in np.random.default_rng(9).permutation(len(rows))])
    pieces = [table.schema.empty_table().to_batches(), table.to_batches(max_chunksize=7)]
    batches = iter([batch for piece in pieces for batch in piece])
    found = list(decoded_groups(batches, decoding=decoding(2)))
    assert len(found) == 3
    for batch in found:
        place = keys.index((batch["group_0"][0].as_py(), batch["group_1"][0].as_py()))
        expected = MADE.estimate(reports[place])
        assert batch["code"].to_pylist() == list(range(8))
        assert set(batch["reports"].to_pylist()) == {3000}
        for name in (*NUMBERS, *FLAGS):
            np.testing.assert_allclose(batch[name].to_numpy(False), getattr(expected, name), rtol=1e-9)


def test_a_partition_without_rows_has_no_group() -> None:
    assert list(decoded_groups(iter([]), decoding=decoding(1))) == []
