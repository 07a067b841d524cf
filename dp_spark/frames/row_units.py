"""Sums where each row is a unit: nothing to bound, so Spark adds up and Python sees groups only."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.frames.columns import short, steps_above_lower
from dp_spark.frames.numbering import GROUP, GroupNumbers, numbered
from dp_spark.frames.partition import EXCESS, ROWS, UNITS
from dp_spark.frames.sources import quoted
from dp_spark.queries import ClampedColumn
from dp_spark.release.plan import ReleasePlan

# Integers below 2^23 add up within 64 bits over 2^40 rows of a group; larger ones are added in two parts.
_LARGEST, _LOW_BITS = 2**23, 16


def row_unit_sums(rows: DataFrame, plan: ReleasePlan, columns: Sequence[ClampedColumn]) -> DataFrame:
    """Sums of each text that is a group's key; several may be of one group, which NFC makes equal."""
    added = [F.count(F.lit(1)).alias(ROWS)]
    for i, of in enumerate(columns):
        steps = steps_above_lower(of)
        added.append(F.count(steps).alias(f"count_{i}"))
        added += [F.sum(part).alias(name) for name, part in _parts(of, steps, i).items()]
    keys = [f"key_{i}" for i in range(len(plan.spec.group_by))]
    texts = [
        F.col(quoted(name)).cast("string").alias(key)
        for name, key in zip(plan.spec.group_by, keys, strict=True)
    ]
    by_text = rows.groupBy(*texts).agg(*added)
    by_text = by_text.select(*(short(F.col(key)).alias(key) for key in keys), *by_text.columns[len(keys) :])
    sums = [name for name in by_text.columns if name not in keys]
    schema = f"{GROUP} int, " + ", ".join(f"{name} long" for name in sums)
    find = partial(numbered, numbers=GroupNumbers(plan.keys))
    return by_text.mapInArrow(find, schema).select(
        GROUP,
        ROWS,
        F.col(ROWS).alias(UNITS),
        *(f"count_{i}" for i in range(len(columns))),
        *(_sum(of, i).alias(f"sum_{i}") for i, of in enumerate(columns)),
        F.lit(0).alias(EXCESS),
    )


def _parts(of: ClampedColumn, steps: Column, i: int) -> dict[str, Column]:
    """What is added up for a value, by name: the steps themselves, or their lower and upper bits."""
    if of.upper_steps - of.lower_steps < _LARGEST:
        return {f"low_{i}": steps}
    return {f"low_{i}": steps.bitwiseAND(2**_LOW_BITS - 1), f"high_{i}": F.shiftright(steps, _LOW_BITS)}


def _sum(of: ClampedColumn, i: int) -> Column:
    """The exact sum of all steps, as a decimal."""
    parts = {f"count_{i}": of.lower_steps, f"low_{i}": 1}
    if of.upper_steps - of.lower_steps >= _LARGEST:
        parts[f"high_{i}"] = 2**_LOW_BITS
    terms = (
        F.coalesce(F.col(name), F.lit(0)).cast("decimal(20,0)") * F.lit(factor).cast("decimal(11,0)")
        for name, factor in parts.items()
    )
    total = next(terms)
    for term in terms:
        total = total + term
    return total
