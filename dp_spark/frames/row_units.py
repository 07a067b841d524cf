"""Sums where each row is a unit: nothing to bound, so Spark adds up and Python sees groups only."""

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import add, mul

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.coding import Form, Source, numbers_of
from dp_spark.frames.columns import bin_index, key_texts, read_column, short, steps_above_lower
from dp_spark.frames.layout import EXCESS, PLACE, Layout, Pair, factors
from dp_spark.frames.numbering import CELL, GROUP, TEXT, GroupNumbers, numbered
from dp_spark.queries import ClampedColumn, Edges, Listed, Measure, MeasureKind
from dp_spark.release.plan import ReleasePlan

# Integers below 2^23 add up within 64 bits over 2^40 rows of a group; larger ones are added in two parts.
_LARGEST, _LOW_BITS = 2**23, 16
_ROWS, _CELLS, _ENTRY, _BY = "rows", "cells", "entry", "by"
_ALL_ROWS = -1  # as a cell: not of one bin, but of every row


def row_unit_sums(rows: DataFrame, plan: ReleasePlan, layout: Layout) -> DataFrame:
    """Sums of each text that is a group's key, and of each bin there.

    Several texts may be of one group, or of one listed value, which NFC makes equal.
    """
    steps = _steps(layout)
    added = _added(layout, steps)
    keys = [f"key_{i}" for i in range(len(plan.spec.group_by))]
    read = rows.select(
        *(
            text.alias(key)
            for key, text in zip(keys, key_texts(plan.spec.group_by, plan.null_label), strict=True)
        ),
        *(steps_above_lower(rows, of).alias(name) for of, name in steps.items()),
        *([F.explode(_entries(rows, layout)).alias(_ENTRY)] if layout.binned else []),
    )
    by = [F.col(key) for key in keys]
    if layout.binned:
        by += [F.col(f"{_ENTRY}.{name}").alias(name) for name in (CELL, TEXT)]
        read = read.where(F.col(f"{_ENTRY}.{CELL}").isNotNull())
    by_text = read.groupBy(*by).agg(*(column.alias(name) for name, column in added.items()))
    by_text = by_text.select(
        *(short(F.col(key)).alias(key) for key in keys),
        *([CELL, short(F.col(TEXT)).alias(TEXT)] if layout.binned else [F.lit(_ALL_ROWS).alias(CELL)]),
        *added,
    )
    find = partial(
        numbered,
        numbers=GroupNumbers(plan.keys, other=plan.has_other),
        listed={
            each.start: numbers_of(each.binning) for each in layout.binned if isinstance(each.binning, Listed)
        },
    )
    schema = ", ".join([f"{GROUP} long", f"{CELL} long", *(f"{name} long" for name in added)])
    found = by_text.mapInArrow(find, schema)
    return found.select(_place(layout).alias(PLACE), F.lit(0).alias(EXCESS), *_at_places(layout))


def _steps(layout: Layout) -> dict[ClampedColumn, str]:
    """The columns that are added up or weigh, and the names of their steps above the lower bound."""
    read = [*(of for pair in layout.powers for of in pair), *(each.weight for each in layout.binned)]
    return {of: f"steps_{i}" for i, of in enumerate(dict.fromkeys(read)) if of is not None}


def _entries(rows: DataFrame, layout: Layout) -> Column:
    """What a row adds to: all sums of its group, and a cell for each binning; a NULL cell for none.

    The cell of a text is found by Python; until then it is that of the first in its list.
    """

    def entry(cell: Column, text: Column, by: Column) -> Column:
        return F.struct(cell.cast("long").alias(CELL), text.alias(TEXT), by.cast("long").alias(_BY))

    entries = [entry(F.lit(_ALL_ROWS), _no_text(), F.lit(1))]
    for each in layout.binned:
        by = F.lit(1) if each.weight is None else steps_above_lower(rows, each.weight)
        if isinstance(each.binning, Edges):
            cell, text = bin_index(each.binning) + each.start, _no_text()
        else:
            text = read_column(rows, Source(each.binning.column, Form.TEXT))
            cell = F.when(text.isNotNull(), F.lit(each.start))
        entries.append(entry(F.when(by.isNotNull(), cell), text, by))
    return F.array(*entries)


def _no_text() -> Column:
    return F.lit(None).cast("string")


def _added(layout: Layout, steps: Mapping[ClampedColumn, str]) -> dict[str, Column]:
    """What is added up for each text, by name: of rows, of powers, of cells."""

    def of_all(value: Column) -> Column:
        return F.when(F.col(f"{_ENTRY}.{CELL}") == _ALL_ROWS, value) if layout.binned else value

    added = {_ROWS: F.count(of_all(F.lit(1)))}
    for place, ((of, weight), highest) in enumerate(layout.powers.items()):
        value = F.col(steps[of])
        for power in range(highest + 1):
            factors_of_row = [value] * power + ([] if weight is None else [F.col(steps[weight])])
            product = reduce(mul, factors_of_row, F.lit(1).cast("long"))
            counted = of_all(F.when(value.isNotNull(), product))
            parts = _parts(f"power_{place}_{power}", _largest(of, weight, power))
            added |= {name: F.sum(part(counted)) for name, part in parts.items()}
    if layout.binned:
        by = F.when(F.col(f"{_ENTRY}.{CELL}") != _ALL_ROWS, F.col(f"{_ENTRY}.{_BY}"))
        added |= {name: F.sum(part(by)) for name, part in _parts(_CELLS, _largest_by(layout)).items()}
    return added


def _largest(of: ClampedColumn, weight: ClampedColumn | None, power: int) -> int:
    """The most that a row adds to the sum of weight * above^power."""
    by = 1 if weight is None else weight.upper_steps
    return int(by * (of.upper_steps - of.lower_steps) ** power)


def _largest_by(layout: Layout) -> int:
    """The most that a row adds to a cell."""
    return max(1 if each.weight is None else each.weight.upper_steps for each in layout.binned)


def _parts(name: str, largest: int) -> dict[str, Callable[[Column], Column]]:
    """What is added up of a number from 0 to `largest`: itself, or its lower and upper bits."""
    if largest < _LARGEST:
        return {f"{name}_low": lambda value: value}
    return {
        f"{name}_low": lambda value: value.bitwiseAND(2**_LOW_BITS - 1),
        f"{name}_high": lambda value: F.shiftright(value, _LOW_BITS),
    }


def _at_places(layout: Layout) -> list[Column]:
    """The integers of a place: of a group, or of some of its cells, all but one of them 0."""
    places = {pair: place for place, pair in enumerate(layout.powers)}
    sums = [_sum(measure, places) for measure in layout.sums]
    sums += [F.lit(0).cast("decimal(38,0)")] * (layout.width - len(sums))
    if not layout.binned:
        return [total.alias(name) for total, name in zip(sums, layout.names, strict=True)]
    of_cell = _decimal_sum({_CELLS: (1, _largest_by(layout))})
    slot, of_all = F.expr(f"{CELL} % {layout.width}"), F.col(CELL) == _ALL_ROWS
    return [
        F.when(of_all, total).when(slot == i, of_cell).otherwise(0).alias(layout.names[i])
        for i, total in enumerate(sums)
    ]


def _place(layout: Layout) -> Column:
    """Where the sums of a row stand."""
    group = F.col(GROUP)
    if not layout.binned:
        return group
    row = group * layout.rows_of_cells + F.expr(f"{CELL} div {layout.width}")
    return F.when(F.col(CELL) == _ALL_ROWS, group).otherwise(row + layout.start_of_cells)


def _sum(measure: Measure, places: Mapping[Pair, int]) -> Column:
    """The exact sum of a measure over all rows of a text, as a decimal; `places` are those of powers."""
    if measure.kind is MeasureKind.ROWS:
        return F.col(_ROWS).cast("decimal(38,0)")
    assert measure.of is not None  # of every other measure
    place = places[measure.of, measure.weight]
    return _decimal_sum(
        {
            f"power_{place}_{power}": (factor, _largest(measure.of, measure.weight, power))
            for power, factor in enumerate(factors(measure))
        }
    )


def _decimal_sum(terms: Mapping[str, tuple[int, int]]) -> Column:
    """Factors times the sums of numbers, by the sum's name and the largest number."""
    products = []
    for name, (factor, largest) in terms.items():
        for i, part in enumerate(_parts(name, largest)):
            times = F.lit(factor << (_LOW_BITS * i)).cast("decimal(12,0)")
            products.append(F.coalesce(F.col(part), F.lit(0)).cast("decimal(20,0)") * times)
    return reduce(add, products).cast("decimal(38,0)")
