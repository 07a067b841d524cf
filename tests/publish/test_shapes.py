"""The long shape: a row for each group and metric, with the numbers of the wide table, of every kind."""

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_every_kind import BASE, QUERIES

from dp_spark.errors import SpecRefused
from dp_spark.publish import arrow_schema
from dp_spark.publish.shapes import in_shape, metrics_of
from dp_spark.release.plan import ColumnRole, OutputColumn, ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec, Shape

ROLES = {ColumnRole.VALUE: "", ColumnRole.STD: "_std", ColumnRole.LOW: "_low", ColumnRole.HIGH: "_high"}


def plan(**changes: Any) -> ReleasePlan:
    return plan_release(ReleaseSpec(**{**BASE, **changes}))


def column_of(
    column: OutputColumn, field: "pa.Field[Any]", rng: np.random.Generator, rows: int
) -> "pa.Array[Any]":
    if pa.types.is_date32(field.type):
        return pa.array([date(2024, 3, 1)] * rows, field.type)
    if pa.types.is_string(field.type):
        return pa.array([f"{column.name}-{i}" for i in range(rows)], field.type)
    if pa.types.is_float64(field.type):
        return pa.array(rng.normal(size=rows), field.type)
    numbers = rng.integers(-(10**9), 10**9, rows)
    if pa.types.is_decimal(field.type):
        return pa.array([Decimal(int(each)).scaleb(-field.type.scale) for each in numbers], field.type)
    return pa.array(numbers, field.type)


def wide_table(planned: ReleasePlan, rows: int) -> pa.Table:
    rng, schema = np.random.default_rng(3), arrow_schema(planned.columns)
    arrays = [column_of(*each, rng, rows) for each in zip(planned.columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


@pytest.mark.parametrize("rollup", [None, [["region"], []]])
def test_every_answer_of_every_kind_has_its_row_with_its_four_numbers(rollup):
    planned = plan(rollup=rollup, queries=[each for each in QUERIES if not rollup or each["kind"] != "ratio"])
    wide, metrics = wide_table(planned, 3), list(metrics_of(planned.columns))
    long = in_shape(pa.concat_tables([wide.slice(0, 1), wide.slice(1)]), planned.columns, Shape.LONG)
    keys = ["period_start", "region", "town", *["grouping_id"] * bool(rollup)]
    assert long.column_names == [*keys, "metric", "value", "std", "low", "high", "release_id", "revision"]
    assert len(metrics) > 20
    assert {"visits", "euros_p50", "shape_3"} <= set(metrics)
    assert long["metric"].to_pylist() == metrics * 3
    for row, told in enumerate(wide.to_pylist()):
        for number, metric in enumerate(metrics):
            own = long.slice(row * len(metrics) + number, 1).to_pylist()[0]
            assert {key: own[key] for key in keys} == {key: told[key] for key in keys}
            assert (own["release_id"], own["revision"]) == (told["release_id"], told["revision"])
            for role, suffix in ROLES.items():
                exact = told[metric + suffix]
                assert own[role.value] == float(exact)
                if isinstance(exact, int):
                    assert Fraction(own[role.value]) == exact


def test_columns_are_doubles_without_null_and_carry_comments():
    schema = in_shape(wide_table(plan(), 2), plan().columns, Shape.LONG).schema
    assert {str(schema.field(name).type) for name in ("value", "std", "low", "high")} == {"double"}
    assert not any(field.nullable for field in schema)
    assert all(field.metadata[b"comment"] for field in schema)
    assert b"2^53" in schema.field("value").metadata[b"comment"]


def test_a_release_without_groups_has_the_same_columns():
    planned = plan()
    empty = in_shape(arrow_schema(planned.columns).empty_table(), planned.columns, Shape.LONG)
    assert empty.num_rows == 0
    assert empty.schema.equals(in_shape(wide_table(planned, 1), planned.columns, Shape.LONG).schema)


def test_numbers_of_64_bits_are_the_nearest_doubles_and_minus_zero_does_not_occur():
    planned = plan(queries=[{"name": "visits", "kind": "count"}])
    wide = wide_table(planned, 3).set_column(3, "visits", pa.array([2**53 + 1, -(2**62), 0]))
    assert wide.column_names[3] == "visits"
    assert in_shape(wide, planned.columns, Shape.LONG)["value"].to_pylist() == [2.0**53, -(2.0**62), 0.0]


def test_without_a_shape_a_table_stays_as_it_is():
    planned = plan()
    wide = wide_table(planned, 2)
    assert in_shape(wide, planned.columns, None) is wide
    assert in_shape(wide, planned.columns, Shape.WIDE) is wide


def test_a_group_that_is_called_like_a_column_of_the_long_shape_is_refused_when_the_spec_is_read():
    changes = {"group_by": ["region", "Metric"], "queries": QUERIES[:1]}
    long = [{"sink": "parquet", "path": "out"}, {"sink": "parquet", "path": "b", "shape": "long"}]
    with pytest.raises(SpecRefused, match=r"publish\[1\]\.shape = long"):
        ReleaseSpec(**{**BASE, **changes, "publish": long})
    ReleaseSpec(**{**BASE, **changes})
