"""Releases as a run could have staged them, and the ways in which they can be broken."""

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_spark.checks import check_artefact
from dp_spark.publish import released_table
from dp_spark.queries import DerivedEstimate, Estimate, LatticeEstimate
from dp_spark.release.plan import PlannedQuery, ReleasePlan

RELEASE, DAY = "nyc_planes/flights/2013-01-05/0", date(2013, 1, 5)
SPEC = """
release: flights
input: {format: parquet, path: data/flights}
period: {column: date, every: day, timezone: America/New_York}
unit: {column: tailnum, on_null: drop}
neighbours: add_remove
bounds: {max_groups: 3, max_rows_per_group: 10}
group_by: [origin, carrier]
groups: {public: {origin: [EWR, JFK, LGA], carrier: [AA, UA]}}
guarantee: {epsilon: 1.0, delta: 1e-6}
queries:
  - {name: flights, kind: count}
  - {name: mean_delay, kind: mean, column: dep_delay, lower: -30, upper: 180, on_null: drop, on_nan: drop}
  - {name: miles, kind: sum, column: distance, lower: -3, upper: 18, step: 0.25}
budget: {population: nyc_planes}
publish: [{sink: parquet, path: out/flights}]
"""


def artefact(plan: ReleasePlan) -> pa.Table:
    """What a run could have released: numbers from a seed, laid out by the package."""
    rows, generator = len(plan.released_keys), np.random.default_rng(7)

    def answer(query: PlannedQuery, total: int | None) -> Estimate:
        if total is None or query.rolled:
            mean = generator.uniform(-30, 180, rows)
            if total is not None and query.totals[total].total.adds_up:
                fine = mean[: len(plan.keys)]
                mean = np.concatenate([np.bincount(level.of_group, fine) for level in plan.levels])
            return DerivedEstimate(mean, np.full(rows, 2.5), mean - 5, mean + 5)
        planned = query.totals[total]
        steps, width = generator.integers(-(10**6), 10**6, rows), planned.half_width_steps
        return LatticeEstimate(steps, steps - width, steps + width, planned.grid, planned.std)

    answers = [tuple(answer(query, each.total) for each in query.query.answers) for query in plan.queries]
    return released_table(plan, answers, period_start=DAY, release_id=RELEASE, revision=0)


def gate(table: pa.Table, plan: ReleasePlan) -> tuple[str, ...]:
    return check_artefact(table, plan, release_id=RELEASE, period_start=DAY).failed


def with_cell(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    """`table` with one cell changed, the type kept."""
    field = table.schema.field(column)
    cells = [value if each == row else cell for each, cell in enumerate(table[column].to_pylist())]
    return with_column(table, column, pa.array(cells, field.type))


def with_column(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)


def swapped(table: pa.Table) -> pa.Table:
    return table.take([1, 0, *range(2, len(table))])


def cast(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_column(table, column, table[column].cast(kind))


def cell(column: str, value: object, row: int = 2) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_cell(table, column, row, value)


def shifted(column: str, by: object, row: int = 2) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_cell(table, column, row, table[column][row].as_py() + by)


COLUMNS = "expect_table_columns_to_match_ordered_list"
ROWS = "expect_table_row_count_to_equal"
GROUPS = "expect_table_groups_to_be"
TYPE = "expect_column_arrow_type_to_be"
NOT_NULL = "expect_column_values_to_not_be_null"
GRID = "expect_column_values_to_be_multiples"
IN_SET = "expect_column_values_to_be_in_set"
BETWEEN = "expect_column_values_to_be_between"
PAIR = "expect_column_pair_values_a_to_be_greater_than_b"
FLIGHTS_PAIRS = f"{PAIR}(flights, flights_low)", f"{PAIR}(flights_high, flights)"
PAIR_LOW, PAIR_HIGH = f"{PAIR}(mean_delay, mean_delay_low)", f"{PAIR}(mean_delay_high, mean_delay)"

BROKEN: dict[str, tuple[Callable[[pa.Table], pa.Table], set[str]]] = {
    "extra column": (lambda t: t.append_column("extra", t["flights"]), {COLUMNS}),
    "reordered columns": (lambda t: t.select([*t.column_names[:-2], *t.column_names[:-3:-1]]), {COLUMNS}),
    "renamed in case": (lambda t: t.rename_columns(["Period_start", *t.column_names[1:]]), {COLUMNS}),
    "int64 to int32": (cast("flights", pa.int32()), {f"{TYPE}(flights)"}),
    "int32 to int64": (cast("revision", pa.int64()), {f"{TYPE}(revision)"}),
    "other scale": (cast("miles", pa.decimal128(19, 3)), {f"{TYPE}(miles)"}),
    "other precision": (cast("miles", pa.decimal128(18, 2)), {f"{TYPE}(miles)"}),
    "large string": (cast("release_id", pa.large_string()), {f"{TYPE}(release_id)"}),
    "dictionary": (lambda t: with_column(t, "origin", t["origin"].dictionary_encode()), {f"{TYPE}(origin)"}),
    "timestamp": (cast("period_start", pa.timestamp("us")), {f"{TYPE}(period_start)"}),
    "null count": (cell("flights", None), {f"{NOT_NULL}(flights)", *FLIGHTS_PAIRS}),
    "null decimal": (cell("miles_low", None), {f"{NOT_NULL}(miles_low)", f"{PAIR}(miles, miles_low)"}),
    "null mean": (cell("mean_delay_std", None), {f"{NOT_NULL}(mean_delay_std)"}),
    "null planned std": (cell("flights_std", None), {f"{NOT_NULL}(flights_std)"}),
    "null release": (cell("release_id", None), {f"{NOT_NULL}(release_id)"}),
    "null group": (cell("origin", None), {f"{NOT_NULL}(origin)", GROUPS}),
    "missing group": (lambda t: t.slice(1), {ROWS, GROUPS}),
    "doubled group": (lambda t: pa.concat_tables([t.slice(0, 1), t]), {ROWS, GROUPS}),
    "doubled for another": (lambda t: t.take([0, 0, 2, 3, 4, 5]), {GROUPS}),
    "foreign group": (cell("carrier", "ZZ"), {GROUPS}),
    "group in lower case": (cell("carrier", "aa"), {GROUPS}),
    "text moved between group columns": (
        lambda t: with_cell(with_cell(t, "origin", 0, "EWRA"), "carrier", 0, "A"),
        {GROUPS},
    ),
    "unsorted rows": (swapped, {GROUPS}),
    "empty table": (lambda t: t.slice(0, 0), {ROWS, GROUPS}),
    "off lattice value": (shifted("miles", 1), {f"{GRID}(miles)"}),
    "off lattice low": (shifted("miles_low", -1), {f"{GRID}(miles_low)"}),
    "off lattice high": (shifted("miles_high", 1), {f"{GRID}(miles_high)"}),
    "wrong std in one row": (shifted("flights_std", 1e-12), {f"{IN_SET}(flights_std)"}),
    "infinite std": (cell("miles_std", float("inf")), {f"{IN_SET}(miles_std)"}),
    "low above value": (
        lambda t: with_column(t, "flights_low", pc.add(t["flights"], 1)),
        {f"{PAIR}(flights, flights_low)"},
    ),
    "value above high": (
        lambda t: with_cell(t, "miles", 3, 2 * t["miles_high"][3].as_py() - t["miles"][3].as_py()),
        {f"{PAIR}(miles_high, miles)"},
    ),
    "mean above high": (shifted("mean_delay_high", -5.001), {PAIR_HIGH}),
    "nan value": (cell("mean_delay", float("nan")), {f"{BETWEEN}(mean_delay)", PAIR_LOW, PAIR_HIGH}),
    "nan low": (cell("mean_delay_low", float("nan")), {f"{BETWEEN}(mean_delay_low)", PAIR_LOW}),
    "nan std": (cell("mean_delay_std", float("nan")), {f"{BETWEEN}(mean_delay_std)"}),
    "inf high": (cell("mean_delay_high", float("inf")), {f"{BETWEEN}(mean_delay_high)"}),
    "-inf low": (cell("mean_delay_low", -float("inf")), {f"{BETWEEN}(mean_delay_low)"}),
    "negative std": (cell("mean_delay_std", -0.5), {f"{BETWEEN}(mean_delay_std)"}),
    "wrong release id": (cell("release_id", RELEASE + "1"), {f"{IN_SET}(release_id)"}),
    "wrong period": (cell("period_start", DAY + timedelta(1)), {f"{IN_SET}(period_start)"}),
    "wrong revision": (cell("revision", 1), {f"{IN_SET}(revision)"}),
}
