"""Every measure, weighted or not, of every grouping, against plain Python over the rows that were kept.

Which rows those are is asked in the same pass: a bin for each row says whether it counts.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dp_spark.frames.aggregate import exact_totals
from dp_spark.frames.collect import collect_totals
from dp_spark.frames.needed import layout_of
from dp_spark.queries import Binning, Bounds, ClampedColumn, Edges, Listed, Measure, MeasureKind, Total
from dp_spark.release.period import period_window
from dp_spark.release.plan import PlannedQuery, ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import ReleaseSpec

KEY, ROWS = bytes(range(32)), 150
UNIT, ROW = {"unit": {"column": "person", "on_null": "drop"}}, {"unit": {"row": "true"}}
SCHEMA = (
    "person string, town string, kind string, id int, x double, y string, z bigint, w double, u double, "
    "t string, d date"
)
LEVELS: tuple[tuple[int, ...], ...] = ((0, 1), (0,), ())
KEYS = [(town, kind) for town in ("a", "b", "caf\u00e9") for kind in ("k", "l")]


class Row(NamedTuple):
    """A row of the input, of the columns of SCHEMA."""

    person: str | None
    town: str | None
    kind: str
    id: int
    x: float | None
    y: str | None
    z: int | None
    w: float | None
    u: float | None
    t: str | None
    d: date | None


NAN, INF = math.nan, math.inf
VALUES: dict[str, list[Any]] = {
    "person": [None, *"ppqqrst"],
    "town": [None, "a", "a", "b", "caf\u00e9", "cafe\u0301", "unlisted"],
    "kind": ["k", "l", "l"],
    "x": [None, NAN, INF, -INF, -0.0, -10.0, 20.0, 0.25, -0.25, 3.125, 7.5, 19.75, 1e300],
    "y": [None, "NaN", "Infinity", "1e400", "no number", "", " 2 ", "-3.5", "0.375", "11"],
    "z": [None, 0, 2**24, 2**24 - 1, 7, -5, 2**40, 2**23 + 11],
    "w": [None, NAN, INF, -1.0, 0.0, 0.5, 1.0, 2.625, 3.0, 9.0],
    "u": [None, 0.0, 1.0, 2.0**24 - 3, 2.0**30],
    "t": [None, "caf\u00e9", "cafe\u0301", "b", "b ", "B", "none of them"],
    "d": [None, date(2024, 1, 1)],
}
TEXTS_AS_NUMBERS = {"Infinity": INF, "1e400": INF, " 2 ": 2.0, "-3.5": -3.5, "0.375": 0.375, "11": 11.0}

X, Y = (ClampedColumn(name, Fraction(-10), Fraction(20), Fraction(1, 2)) for name in "xy")
Z = ClampedColumn("z", Fraction(0), Fraction(2**24), Fraction(1))
FINE = ClampedColumn("x", Fraction(-10), Fraction(20), Fraction(1, 1024))
W = ClampedColumn("w", Fraction(0), Fraction(3), Fraction(1, 4))
HEAVY = ClampedColumn("u", Fraction(0), Fraction(2**24), Fraction(1))
SPENT = replace(X, per_unit=True)
PRESENT = [ClampedColumn(name, Fraction(0), Fraction(1), Fraction(1), presence=True) for name in "xyd"]


def edges(column: str, *at: float) -> Edges:
    return Edges(column, tuple(map(Fraction, at)))


EACH_ROW = edges("id", *range(ROWS + 1))
SEVEN = edges("x", -10, -9.75, 0, 0.25, 3.125, 7.5, 19, 20)
BINNINGS: list[Binning] = [
    SEVEN,
    edges("x", 0, 1),
    edges("y", -3.5, 0, 2),
    edges("z", *range(0, 2**24 + 1, 2**16)),
    Listed("t", ("b", "caf\u00e9", "rows have none")),
    Listed("t", ("none of them",)),
]


def measures() -> list[Measure]:
    """All kinds, of all columns that they can be of, with every weight that leaves products below 2^31."""
    kinds = MeasureKind
    found = [Measure(kinds.ROWS), Measure(kinds.UNITS), Measure(kinds.UNIT_VALUE, SPENT)]
    found += [Measure(kinds.VALUE, of) for of in (W, HEAVY)]
    found += [Measure(kinds.NON_NULL, of, weight) for of in PRESENT for weight in (None, W, HEAVY)]
    found += [
        Measure(kind, of, weight)
        for kind in (kinds.NON_NULL, kinds.VALUE, kinds.CENTRED, kinds.SQUARE)
        for of in (X, Y, FINE, Z)
        for weight in (None, W)
        if not (of is Z and kind is kinds.SQUARE) and not (of is FINE and weight)
    ]
    for binning in BINNINGS:
        merged = (1, 2, 5, 1000) if binning.bins > 1 else (1,)
        found += [Measure(kinds.DISTINCT, binning=binning), Measure(kinds.BIN, None, HEAVY, binning)]
        found += [Measure(kinds.BIN, None, weight, binning, each) for weight in (None, W) for each in merged]
    return found


ALL = measures()

# What a row adds, in plain Python.


def as_number(value: Any) -> float | None:
    if isinstance(value, str):
        value = TEXTS_AS_NUMBERS.get(value)
    return None if value is None or math.isnan(value) else float(value)


def steps(row: Row, of: ClampedColumn) -> int | None:
    value = getattr(row, of.column)
    if of.presence:
        return None if value is None or value != value else 1  # NaN
    number = as_number(value)
    if number is None:
        return None
    clamped = min(max(number, float(of.lower)), float(of.upper))
    return math.floor(Fraction(clamped) / of.step + Fraction(1, 2))


def unclamped(row: Row, of: ClampedColumn) -> int | None:
    number = as_number(getattr(row, of.column))
    if number is None:
        return None
    wide = min(max(number, -(2.0**60)), 2.0**60)
    return min(max(math.floor(Fraction(wide) / of.step + Fraction(1, 2)), -(2**40)), 2**40)


def bin_of(row: Row, binning: Binning) -> int | None:
    value = getattr(row, binning.column)
    if isinstance(binning, Listed):
        text = None if value is None else normalize("NFC", value)
        return binning.values.index(text) if text in binning.values else None
    number = as_number(value)
    return None if number is None else sum(number >= edge for edge in binning.edges[1:-1])


def weight(row: Row, of: ClampedColumn | None) -> int | None:
    return 1 if of is None else steps(row, of)


def added(row: Row, measure: Measure) -> int:
    """What a row adds to a measure of rows."""
    by = weight(row, measure.weight)
    if measure.kind is MeasureKind.ROWS:
        return 1
    assert measure.of is not None
    value, of = steps(row, measure.of), measure.of
    if value is None or by is None:
        return 0
    span, centred = of.upper_steps - of.lower_steps, 2 * value - of.lower_steps - of.upper_steps
    return {
        MeasureKind.NON_NULL: by,
        MeasureKind.VALUE: by * value,
        MeasureKind.CENTRED: by * centred,
        MeasureKind.SQUARE: by * (2 * centred**2 - span**2),
    }[measure.kind]


def cells_of(measure: Measure) -> int:
    if measure.kind is not MeasureKind.BIN:
        return 1
    assert measure.binning is not None
    return -(-measure.binning.bins // measure.merged)


def expected(rows: Sequence[Row], measure: Measure, unit: Callable[[Row], Any]) -> list[int]:
    """The total of one group's rows, of every cell."""
    binning = measure.binning
    if binning is not None:
        found = [(bin_of(row, binning), weight(row, measure.weight)) for row in rows]
        if measure.kind is MeasureKind.DISTINCT:
            return [len({place for place, _ in found if place is not None})]
        cells = [0] * cells_of(measure)
        for place, by in found:
            if place is not None and by is not None:
                cells[place // measure.merged] += by
        return cells
    if measure.kind is MeasureKind.UNITS:
        return [len({unit(row) for row in rows})]
    if measure.kind is MeasureKind.UNIT_VALUE:
        of, spent = measure.of, defaultdict[Any, list[int]](list)
        assert of is not None
        for row in rows:
            value = unclamped(row, of)
            if value is not None:
                spent[unit(row)].append(value)
        return [sum(min(max(sum(each), of.lower_steps), of.upper_steps) for each in spent.values())]
    return [sum(added(row, measure) for row in rows)]


# A plan that asks all of it, whatever it would cost.


@cache
def base_plan(unit: str, bounds: tuple[tuple[str, int], ...]) -> ReleasePlan:
    return plan_release(
        ReleaseSpec(
            release="trial",
            input={"format": "parquet", "path": "in"},
            **(ROW if unit == "row" else UNIT),
            **({"bounds": dict(bounds)} if bounds else {}),
            group_by=["town", "kind"],
            groups={"public": {"town": ["a", "b", "caf\u00e9"], "kind": ["k", "l"]}},
            rollup=[["town"], []],
            guarantee={"epsilon": 1, "delta": "1e-6"},
            queries=[{"name": "n", "kind": "count"}],
            budget={"population": "p"},
            publish=[{"sink": "parquet", "path": "out"}],
        )
    )


def asking(plan: ReleasePlan, asked: Iterable[Measure]) -> ReleasePlan:
    query = plan.queries[0]
    planned = tuple(
        replace(query.totals[0], total=Total(str(i), each, Fraction(1), 1, 1, 1, 0, bins=cells_of(each)))
        for i, each in enumerate(asked)
    )
    asks = PlannedQuery("all", "all", query.query, planned, (planned,) * len(query.rolled))
    return replace(plan, queries=(asks,))


def some_rows(seed: int, size: int = ROWS) -> list[Row]:
    rng = np.random.default_rng(seed)
    drawn = {
        name: [options[i] for i in rng.integers(len(options), size=size)] for name, options in VALUES.items()
    }
    return [Row(**{name: each[i] for name, each in drawn.items()}, id=i) for i in range(size)]


def found_totals(
    spark: SparkSession, rows: Sequence[Row], plan: ReleasePlan, partitions: int = 3
) -> list[list[Any]]:
    columns = [part.split()[0] for part in SCHEMA.split(", ")]
    frame: DataFrame = spark.createDataFrame(
        [tuple(getattr(row, name) for name in columns) for row in rows], SCHEMA
    ).repartition(partitions)
    window = period_window(None, "2024-01-01")
    return [each.tolist() for each in collect_totals(frame, plan=plan, window=window, release_key=KEY)]


def key_of(row: Row) -> tuple[str | None, str]:
    return (None if row.town is None else normalize("NFC", row.town), row.kind)


def kept_rows(rows: Sequence[Row], of_each_row: list[list[int]], keys: Sequence[Any]) -> list[Row]:
    """The rows whose bin is not empty in their group; no other bin has anything."""
    places = [
        (group, i) for group, cells in enumerate(of_each_row) for i, n in enumerate(cells) for _ in range(n)
    ]
    kept = [rows[i] for _, i in places]
    assert [keys[group] for group, _ in places] == [key_of(row) for row in kept]
    return kept


def check(
    spark: SparkSession, seed: int, unit: str, bounds: dict[str, int], asked: Sequence[Measure] = ALL
) -> list[Row]:
    """Compare all totals of all levels; the rows that were kept."""
    rows, each_row = some_rows(seed), Measure(MeasureKind.BIN, binning=EACH_ROW)
    plan = asking(base_plan(unit, tuple(bounds.items())), [each_row, *asked])
    found = found_totals(spark, rows, plan)
    of: Callable[[Row], Any] = (lambda row: row.id) if unit == "row" else (lambda row: row.person)
    kept = kept_rows(rows, found[0], KEYS)
    for drawn, totals in zip(plan.drawn, found, strict=True):
        level, measure = plan.levels[drawn.level], drawn.planned.total.measure
        for key, total in zip(level.keys, totals, strict=True):
            inside = [row for row in kept if all(key_of(row)[i] == key[i] for i in LEVELS[drawn.level])]
            cells = total if isinstance(total, list) else [total]
            assert cells == expected(inside, measure, of), (measure, key)
    return kept


def test_all_rows(spark: SparkSession) -> None:
    kept = check(spark, 1, "person", {"max_groups": 6, "max_rows_per_group": ROWS})
    listed = [row for row in some_rows(1) if row.person is not None and key_of(row) in KEYS]
    assert sorted(row.id for row in kept) == [row.id for row in listed]


@pytest.mark.parametrize(
    "bounds",
    [
        {"max_groups": 2, "max_rows_per_group": 2},
        {"max_rows": 5},
        {"max_groups": 3, "max_rows_per_group": 4, "max_rows": 6},
    ],
    ids=str,
)
def test_bounded_rows(spark: SparkSession, bounds: dict[str, int]) -> None:
    kept = check(spark, 3, "person", bounds)
    limits = Bounds(**bounds)
    for person in "pqrst":
        own = [key_of(row) for row in kept if row.person == person]
        sizes = [own.count(key) for key in set(own)]
        assert 0 < len(sizes) <= limits.most_groups
        assert max(sizes) <= limits.most_rows_in_group
        assert len(own) <= limits.most_rows


def test_rows_as_units(spark: SparkSession) -> None:
    kept = check(spark, 4, "row", {})
    assert sorted(row.id for row in kept) == [row.id for row in some_rows(4) if key_of(row) in KEYS]


@pytest.mark.parametrize("unit", ["person", "row"])
def test_partitions_and_order_of_rows_change_nothing(spark: SparkSession, unit: str) -> None:
    bounds = () if unit == "row" else (("max_groups", 2), ("max_rows_per_group", 2))
    plan, rows = asking(base_plan(unit, bounds), ALL[::4]), some_rows(6)
    found = [found_totals(spark, rows[::way], plan, partitions) for way, partitions in ((1, 1), (-1, 5))]
    assert found[0] == found[1]


@pytest.mark.parametrize("unit", ["person", "row"])
def test_rows_of_groups_that_are_not_listed_are_of_the_last_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    bounds = () if unit == "row" else (("max_groups", 9), ("max_rows_per_group", ROWS))
    plan = replace(base_plan(unit, bounds), listed=(("a", "k"), ("b", "l"), ("(other)", "(other)")))
    monkeypatch.setattr(ReleasePlan, "has_other", property(lambda plan: True))
    rows = [row for row in some_rows(7) if row.person is not None]

    def counts(null_as: str | None) -> list[int]:
        keys = [(null_as if row.town is None else row.town, row.kind) for row in rows]
        listed = [keys.count(key) for key in plan.keys[:2]]
        return [*listed, sum(town is not None for town, _ in keys) - sum(listed)]

    assert found_totals(spark, rows, plan)[0] == counts(None)
    monkeypatch.setattr(ReleasePlan, "null_label", property(lambda plan: "a"))
    assert found_totals(spark, rows, plan)[0] == counts("a")


def test_cells_that_stand_in_rows_of_their_own(spark: SparkSession) -> None:
    wide = edges("z", *range(0, 2**24 + 1, 2**15))
    asked = [Measure(MeasureKind.BIN, None, W, wide), Measure(MeasureKind.BIN, None, None, wide, 32)]
    assert layout_of(asking(base_plan("row", ()), asked)).width == 1
    check(spark, 8, "person", {"max_groups": 2, "max_rows_per_group": 2}, asked)
    check(spark, 8, "row", {}, asked)


@pytest.mark.parametrize(("unit", "exchanges", "hops"), [("person", 2, 2), ("row", 1, 1)])
def test_whatever_is_asked_costs_no_further_exchange(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], unit: str, exchanges: int, hops: int
) -> None:
    bounds = () if unit == "row" else (("max_groups", 2), ("max_rows_per_group", 2))
    plan, frame = asking(base_plan(unit, bounds), ALL[::4]), spark.createDataFrame([], SCHEMA)
    window = period_window(None, "2024-01-01")
    exact_totals(frame, plan=plan, window=window, bounding_key=KEY).explain()
    shown = capsys.readouterr().out
    assert (shown.count("Exchange hashpartitioning"), shown.count("MapInArrow")) == (exchanges, hops)
