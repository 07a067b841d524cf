"""The groupings of a release: its groups, and the coarser ones that a rollup makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_spark.release.spec import ReleaseSpec

Key = tuple[str | None, ...]  # a value for each column of group_by; None where it is rolled up


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One grouping.

    Attributes:
        columns: the columns of group_by that tell its groups apart, by place.
        keys: its groups, in code point order.
        of_group: the number of the group here that holds each group of the release, shape (groups,).
    """

    columns: tuple[int, ...]
    keys: tuple[Key, ...]
    of_group: NDArray[np.int64]

    @property
    def mask(self) -> int:
        """What SQL calls GROUPING_ID of the columns: the last one has bit 0, set where it is rolled up."""
        width = len(self.keys[0]) if self.keys else 0
        return sum(1 << (width - 1 - i) for i in range(width) if i not in self.columns)


def levels_of(spec: ReleaseSpec, keys: Sequence[tuple[str, ...]]) -> tuple[Level, ...]:
    """The groups of a release, then its coarser groupings in the order of the spec's `rollup`."""
    finest = Level(tuple(range(len(spec.group_by))), tuple(keys), np.arange(len(keys)))
    return (finest, *(_rolled(keys, columns, spec) for columns in spec.rollup or ()))


def released_keys(levels: Sequence[Level], total_label: str) -> tuple[tuple[str, ...], ...]:
    """What the group columns of a released table hold, row by row: level by level, each in its order."""
    return tuple(
        tuple(total_label if part is None else part for part in key) for level in levels for key in level.keys
    )


def _rolled(keys: Sequence[tuple[str, ...]], columns: Sequence[str], spec: ReleaseSpec) -> Level:
    places = tuple(i for i, name in enumerate(spec.group_by) if name in columns)
    parts = [tuple(key[i] for i in places) for key in keys]
    number = {part: i for i, part in enumerate(sorted(set(parts)))}
    rolled = tuple(
        tuple(part[places.index(i)] if i in places else None for i in range(len(spec.group_by)))
        for part in number
    )
    return Level(places, rolled, np.array([number[part] for part in parts], dtype=np.int64))
