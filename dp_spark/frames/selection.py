"""Private groups: units counted by group over bounded rows, noise, and the names of those that pass.

A group travels as a keyed word of 64 bits, whatever its key, and is named only if it passes; two of n groups
share a word with probability n^2 / 2^65 (3e-8 for a million), and would count as one. Which groups pass is
decided on executors, by noise that a key of its own draws: those that do not pass never come together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dp_spark.errors import BoundsExceeded
from dp_spark.frames.aggregate import asked_rows, shuffle_buckets
from dp_spark.frames.bound import Integers, excess, kept_rows
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.columns import key_texts, short, unit_columns
from dp_spark.frames.identity import identities
from dp_spark.frames.layout import EXCESS
from dp_spark.frames.names import quoted
from dp_spark.frames.numbering import GROUP
from dp_spark.frames.packing import BUCKET, Packing, packed
from dp_spark.frames.partition import Buckets
from dp_spark.frames.text import normal_texts
from dp_spark.noise import derive_key, encode_label, words
from dp_spark.queries import Bounds
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import LARGEST_TOTAL
from dp_spark.release.reading import LONGEST_TEXT, holds_control
from dp_spark.release.selection import GroupSelection
from dp_spark.release.spec import used_labels

UNITS, NOISY = "units", "noisy"
_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """The groups that a release has.

    Attributes:
        keys: in code point order.
        noisy_units: of each, shape (groups,); every group has min_units or more, and its number is units plus
            noise.
    """

    keys: tuple[tuple[str, ...], ...]
    noisy_units: Integers


def select_groups(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> Selected:
    """The groups of the frame's rows that pass, the same for the same key and data.

    A group whose key has a part like a label of the release, where it uses that label, is none: nobody could
    tell the two apart. Nor is one whose key no public list could have: what is no UTF-8, has a control
    character or more than 1,000 characters, of which a text that is very long travels as a digest.

    Raises:
        BoundsExceeded: a unit has more rows among those that were counted than the bounds allow.
    """
    assert plan.selection is not None  # who calls this has private groups
    found = to_arrow(selected_groups(frame, plan=plan, window=window, release_key=release_key))
    if np.any(found[EXCESS].to_numpy()):
        raise BoundsExceeded()
    keys = zip(*(found[name].to_pylist() for name in _key_names(plan)), strict=True)
    numbers = zip(map(_texts, keys), found[NOISY].to_numpy().tolist(), strict=True)
    noisy = {key: number for key, number in numbers if key is not None}
    reserved = set(used_labels(plan.spec.groups, rolled=bool(plan.spec.rollup)).values())
    kept = sorted(key for key in noisy if not reserved.intersection(key))
    unseen = plan.selection.min_units - 1
    return Selected(tuple(kept), np.array([noisy[key] + unseen for key in kept], dtype=np.int64))


def selected_groups(
    frame: DataFrame, *, plan: ReleasePlan, window: PeriodWindow, release_key: bytes
) -> DataFrame:
    """Rows with the key of each group that passes, in bytes key_0, key_1, ..., and its NOISY number of units.

    Keys travel inside the functions that Python workers run, never in an expression.
    """
    selection = plan.selection
    assert selection is not None  # who calls this has private groups
    bounding, naming, drawing = (
        derive_key(release_key, purpose) for purpose in ("bounding", "group names", "selection")
    )
    rows = asked_rows(frame, plan, window)
    for column in (*plan.spec.unit.columns, *_required_keys(plan)):
        rows = rows.where(F.col(quoted(column)).isNotNull())
    named = _named(rows, plan, naming)
    if plan.spec.unit.is_row:
        counted = named.withColumn(EXCESS, F.lit(0).cast("long"))
    else:
        counted = _bounded_units(rows, plan, bounding, naming)
    label = encode_label("selection", window.start.isoformat(), selection.table.digest)
    decide = partial(passing, selection=selection, key=drawing, label=label)
    passed = counted.select(GROUP, UNITS, EXCESS).mapInArrow(
        decide, f"{GROUP} long, {NOISY} long, {EXCESS} long"
    )
    # Bytes, since not every text is UTF-8.
    keys = (F.col(name).cast("binary").alias(name) for name in _key_names(plan))
    return passed.join(named.drop(UNITS), on=GROUP, how="left").select(*keys, NOISY, EXCESS)


def passing(
    batches: Iterator[pa.RecordBatch], *, selection: GroupSelection, key: bytes, label: bytes
) -> Iterator[pa.RecordBatch]:
    """The groups whose noisy number of units reaches the threshold, and any whose bounds are exceeded.

    The noise of a group is a function of the key, the group and its number of units: other data gives
    independent noise.
    """
    for batch in batches:
        group, units, over = (batch[name].to_numpy() for name in (GROUP, UNITS, EXCESS))
        blocks = np.stack([group.view(np.uint64), units.view(np.uint64)], axis=1)
        seen = np.clip(units - (selection.min_units - 1), 0, LARGEST_TOTAL)
        noisy = seen + selection.table.draw(words(key, label, blocks))
        kept = (noisy >= selection.threshold) | (over > 0)
        columns = [pa.array(each[kept]) for each in (group, noisy, over)]
        yield pa.RecordBatch.from_arrays(columns, names=[GROUP, NOISY, EXCESS])


@dataclass(frozen=True, slots=True)
class _Words:
    """Keyed words of groups in place of numbers: what `packed` asks of them."""

    columns: int
    key: bytes
    groups: int = 2**64

    def of(self, columns: Sequence["pa.Array[Any]"]) -> NDArray[np.uint64]:
        """The word of each row's group, shape (rows,); no part of a key is NULL."""
        return identities(columns, self.key)[:, 0]


def _bounded_units(rows: DataFrame, plan: ReleasePlan, bounding: bytes, naming: bytes) -> DataFrame:
    """The number of units that keep a row in each group."""
    units = unit_columns(rows, plan.spec)
    packing = Packing(
        units=len(units),
        numbers=_Words(len(plan.spec.group_by), naming),
        values=[],
        buckets=shuffle_buckets(rows.sparkSession),
    )
    pack = partial(packed, packing=packing, key=bounding)
    count = partial(partition_units, packing=packing, key=bounding, bounds=plan.bounds)
    return (
        rows.select(*(column.alias(f"unit_{i}") for i, column in enumerate(units)), *_keys(plan))
        .mapInArrow(pack, packing.schema)
        .repartition(BUCKET)
        .mapInArrow(count, f"{GROUP} long, {UNITS} long, {EXCESS} long")
        .groupBy(GROUP)
        .agg(F.sum(UNITS).alias(UNITS), F.sum(EXCESS).alias(EXCESS))
    )


def partition_units(
    batches: Iterator[pa.RecordBatch], *, packing: Packing, key: bytes, bounds: Bounds
) -> Iterator[pa.RecordBatch]:
    """Units by group of the buckets of one partition, portion by portion."""
    buckets = Buckets(packing)
    for batch in batches:
        buckets.add(batch)
    for ids, group in buckets.portions(_ROWS_AT_ONCE):
        units = ids.view(np.uint64).reshape(-1, 2)
        kept = kept_rows(units, group, [], key=key, bounds=bounds)
        over = excess(np.take(units, kept.rows, axis=0), group[kept.rows], bounds)
        groups, counts = np.unique(group[kept.rows][kept.first], return_counts=True)
        beyond = np.zeros(len(groups), dtype=np.int64)
        beyond[:1] = over
        columns = [pa.array(each) for each in (groups.view(np.int64), counts.astype(np.int64), beyond)]
        yield pa.RecordBatch.from_arrays(columns, names=[GROUP, UNITS, EXCESS])


def _named(rows: DataFrame, plan: ReleasePlan, naming: bytes) -> DataFrame:
    """The key of each group of the rows, with its word and its number of rows as UNITS."""
    names = _key_names(plan)
    counted = rows.groupBy(*_keys(plan)).agg(F.count(F.lit(1)).alias(UNITS))
    schema = ", ".join(f"{name} string" for name in names) + f", {UNITS} long, {GROUP} long"
    return (
        counted.mapInArrow(partial(named_groups, key=naming), schema)
        .groupBy(GROUP, *names)  # texts that NFC makes one
        .agg(F.sum(UNITS).alias(UNITS))
    )


def named_groups(batches: Iterator[pa.RecordBatch], *, key: bytes) -> Iterator[pa.RecordBatch]:
    """The rows with keys in NFC and the word of each group behind them; keys come before the last column."""
    for batch in batches:
        keys = [normal_texts(column) for column in batch.columns[:-1]]
        group = pa.array(identities(keys, key)[:, 0].view(np.int64))
        yield pa.RecordBatch.from_arrays(
            [*keys, batch.columns[-1], group], names=[*batch.schema.names, GROUP]
        )


def _texts(key: Iterable[bytes]) -> tuple[str, ...] | None:
    """The key as texts; None where a part of it is none that a list of groups could have."""
    try:
        texts = tuple(bytes(part).decode() for part in key)
    except UnicodeDecodeError:
        return None
    odd = any(len(text) > LONGEST_TEXT or holds_control(text) for text in texts)
    return None if odd else texts


def _keys(plan: ReleasePlan) -> list[Column]:
    texts = key_texts(plan.spec.group_by, plan.null_label)
    return [short(text).alias(name) for text, name in zip(texts, _key_names(plan), strict=True)]


def _key_names(plan: ReleasePlan) -> list[str]:
    return [f"key_{i}" for i in range(len(plan.spec.group_by))]


def _required_keys(plan: ReleasePlan) -> Sequence[str]:
    """Columns of which a NULL is no group."""
    return plan.spec.group_by if plan.null_label is None else ()
