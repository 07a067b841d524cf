"""Rows to packed buckets: nothing lost, no warning, and no body that outgrows a batch."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dp_spark.frames import packing as module
from dp_spark.frames.coding import Coding, EdgesCoding, Form, coding_of
from dp_spark.frames.numbering import GroupNumbers
from dp_spark.frames.packing import BUCKET, Packing, packed, unpacked
from dp_spark.queries import ClampedColumn, Edges, Listed

KEY = bytes(range(32))


def column(lower: str, upper: str, step: str, *, per_unit: bool = False) -> ClampedColumn:
    return ClampedColumn("x", Fraction(lower), Fraction(upper), Fraction(step), per_unit=per_unit)


@pytest.mark.parametrize("per_unit", [False, True])
def test_no_value_makes_a_warning(per_unit: bool) -> None:
    """A warning on a worker's stderr would tell that such a value exists."""
    signalling = np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)[0]
    values = np.array([signalling, np.nan, np.inf, -np.inf, 1e306, -1e306, 5e-324, -0.0, 1.0])
    coding = Coding(column("-1", "1", "0.001", per_unit=per_unit))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codes = coding.encoded(pa.array(values))
    assert (codes == coding.missing).tolist() == [True, True] + [False] * 7
    steps = [int(code) + coding.least for code in codes[2:]]
    most = coding.greatest
    assert steps == [most, -most, most, -most, 0, 0, 1000]


@pytest.mark.parametrize("span", [0, 1, 253, 254, 255, 65_533, 65_534, 65_535, 2**31])
def test_the_code_of_a_missing_value_is_no_other_values(span: int) -> None:
    if span == 0:
        return
    coding = Coding(column("0", str(span), "1"))
    codes = coding.encoded(pa.array([0.0, span, np.nan]))
    assert codes.tolist() == [0, span, coding.missing]
    assert coding.missing > span


def test_rows_of_one_unit_are_cut_into_pieces_and_come_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS_OF_A_PIECE", 7)
    packing = Packing(
        units=1, numbers=GroupNumbers([("a",), ("b",)]), values=[Coding(column("0", "99", "1"))], buckets=256
    )
    n = 1000
    units = ["busy" if i % 3 else f"p{i % 50}" for i in range(n)]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(units),
            pa.array(["abc"[i % 3] for i in range(n)]),
            pa.array([float(i % 100) for i in range(n)]),
        ],
        names=["unit_0", "key_0", "value_0"],
    )
    (out,) = packed(
        iter([batch.slice(0, 400), batch.slice(400), batch.slice(0, 0)]), packing=packing, key=KEY
    )
    ids, group, value = unpacked(out, packing)
    assert len(ids) == sum("abc"[i % 3] != "c" for i in range(n))
    assert max(len(body) for body in out["unit"].to_pylist()) == 7 * 16
    assert sorted(zip(group.tolist(), value.tolist(), strict=True)) == sorted(
        (i % 3, i % 100) for i in range(n) if i % 3 < 2
    )
    assert len(set(ids.tolist())) == len({unit for i, unit in enumerate(units) if i % 3 < 2})
    by_bucket: dict[int, set[bytes]] = {}
    for bucket, body in zip(out[BUCKET].to_pylist(), out["unit"].to_pylist(), strict=True):
        by_bucket.setdefault(bucket, set()).update(body[i : i + 16] for i in range(0, len(body), 16))
    assert sum(map(len, by_bucket.values())) == len(set(ids.tolist())), "a unit lies in one bucket"


def test_no_listed_row_gives_no_bucket() -> None:
    packing = Packing(units=1, numbers=GroupNumbers([("a",)]), values=[], buckets=256)
    batch = pa.RecordBatch.from_arrays([pa.array(["p"]), pa.array(["other"])], names=["unit_0", "key_0"])
    assert list(packed(iter([batch]), packing=packing, key=KEY)) == []


@pytest.mark.parametrize("bins", [1, 2, 254, 255, 256, 1000])
def test_the_code_of_no_bin_is_no_other_bins(bins: int) -> None:
    coding = EdgesCoding(Edges("x", tuple(map(Fraction, range(bins + 1)))))
    values = [None, float("nan"), float("-inf"), -0.0, bins - 1, bins - 0.5, bins, float("inf")]
    codes = coding.encoded(pa.array(values, pa.float64())).tolist()
    assert codes == [coding.missing, coding.missing, 0, 0, *[bins - 1] * 4]
    assert coding.missing >= bins


def test_columns_that_are_read_in_one_form_travel_once() -> None:
    of, presence = column("0", "9", "1"), replace(column("0", "1", "1"), presence=True)
    bins = Edges("x", (Fraction(0), Fraction(5), Fraction(9)))
    codings = [coding_of(each) for each in (of, bins, presence, Listed("x", ("7",)))]
    packing = Packing(units=1, numbers=GroupNumbers([("a",)]), values=codings, buckets=256)
    sources = {
        Form.NUMBER: pa.array([7.0, None], pa.float64()),
        Form.PRESENCE: pa.array([True, False]),
        Form.TEXT: pa.array(["7", None]),
    }
    columns = [pa.array(["p", "q"]), pa.array(["a", "a"]), *(sources[each.form] for each in packing.sources)]
    batch = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(5)])
    (out,) = packed(iter([batch]), packing=packing, key=KEY)
    ids, _, *codes = unpacked(out, packing)
    assert len(ids) == 2
    assert [sorted(each.tolist()) for each in codes] == [[7, 255], [1, 255], [1, 255], [0, 255]]
