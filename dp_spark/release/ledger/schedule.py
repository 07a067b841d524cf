"""Schedules: slots whose noise is fixed before the first release, and which releases may take one.

The noise of a schedule is known before anything is looked at, so its price is the exact composition of all
slots. Taking fewer of them, in any order, costs no more: what is not drawn is a post-processing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from dp_spark.errors import LedgerRefused
from dp_spark.guarantee import Neighbours
from dp_spark.noise import Cell, NoiseTable, Part, is_dominated, table_zcdp, worst_cases
from dp_spark.release.ledger.states import check_name
from dp_spark.release.plan import ReleasePlan


@dataclass(frozen=True, slots=True)
class Draw:
    """One noisy total: its table, and what one unit moves of it. The weight of the part is no matter here."""

    table: NoiseTable
    part: Part


@dataclass(frozen=True, slots=True)
class ReleaseNoise:
    """Everything that one release draws, and between which neighbours."""

    neighbours: Neighbours
    draws: tuple[Draw, ...]

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the canonical text: equal for the same draws in any order."""
        return hashlib.sha256(canonical(self._plain()).encode()).hexdigest()

    @property
    def tables(self) -> tuple[NoiseTable, ...]:
        """The table of each draw."""
        return tuple(draw.table for draw in self.draws)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What a unit moves, of each draw."""
        return tuple(draw.part for draw in self.draws)

    def _plain(self) -> dict[str, Any]:
        draws = [
            [draw.table.digest, draw.part.sensitivity, draw.part.cells, draw.part.overlap]
            for draw in self.draws
        ]
        return {"draws": sorted(draws, key=canonical), "neighbours": self.neighbours.value}


@dataclass(frozen=True, slots=True)
class Schedule:
    """So many releases, `slots`, of one noise, under one name; nothing of it changes once one is taken.

    Raises:
        LedgerRefused: it has no slot, or its name is none.
    """

    name: str
    noise: ReleaseNoise
    slots: int

    def __post_init__(self) -> None:
        check_name("schedule", self.name)
        if self.slots < 1:
            raise LedgerRefused(
                "schedule_empty",
                f"schedule {self.name} has {self.slots} slots",
                way_out="give `budget.horizon`, the number of its releases, as 1 or more",
            )

    def to_text(self) -> str:
        """The canonical text; tables stand by digest."""
        return canonical({"name": self.name, "noise": self.noise._plain(), "slots": self.slots})

    @staticmethod
    def from_text(text: str, tables: Mapping[str, NoiseTable]) -> "Schedule":
        """The schedule with this text; `tables` holds its tables by digest.

        Raises:
            ValueError: a table is missing, or the text is not canonical.
        """
        stored = json.loads(text)
        missing = [digest for digest, *_ in stored["noise"]["draws"] if digest not in tables]
        if missing:
            raise ValueError(f"noise table {missing[0]} of schedule {stored['name']} is missing")
        draws = [
            Draw(tables[digest], Part(sensitivity, cells, overlap=overlap))
            for digest, sensitivity, cells, overlap in stored["noise"]["draws"]
        ]
        noise = ReleaseNoise(Neighbours(stored["noise"]["neighbours"]), tuple(draws))
        schedule = Schedule(stored["name"], noise, stored["slots"])
        if schedule.to_text() != text:
            raise ValueError("the text of a schedule is not in canonical form")
        return schedule


@dataclass(frozen=True, slots=True)
class Concentrated:
    """What a release costs as approximate zCDP, as exact fractions that are nowhere below the truth."""

    rho: Fraction
    delta: Fraction


def canonical(plain: object) -> str:
    """The one JSON text of a plain value."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def noise_of(plan: ReleasePlan) -> ReleaseNoise:
    """What a release of this plan draws."""
    draws = (Draw(each.table, replace(each.part, weight=1.0)) for each in plan.draws)
    return ReleaseNoise(plan.spec.neighbours, tuple(draws))


def may_take(noise: ReleaseNoise, schedule: Schedule) -> bool:
    """Whether a release with this noise costs at most what a slot of the schedule costs, at every epsilon.

    Equal digests do. Otherwise each of its draws needs a draw of the slot of its own that dominates it: no
    more cells, the same relation, and cell by cell a profile that is nowhere above (`is_dominated`). Then,
    for any two neighbours, what the release draws is dominated draw by draw by what the slot draws for two
    neighbours with as many cells in common, and dominating pairs compose [Zhu, Dong, Wang 2022]. Sufficient,
    not necessary: what is refused here may still be released from the ad hoc pool.
    """
    slot = schedule.noise
    if noise.digest == slot.digest:
        return True
    if noise.neighbours is not slot.neighbours or len(noise.draws) > len(slot.draws):
        return False
    covers = np.array([[_is_covered(draw, by) for by in slot.draws] for draw in noise.draws])
    matched = maximum_bipartite_matching(csr_array(covers), perm_type="column")
    return bool(np.all(matched >= 0))


@lru_cache(maxsize=32)
def release_zcdp(noise: ReleaseNoise, times: int = 1) -> Concentrated:
    """The approximate zCDP of `times` releases: rho and delta of all cells, in the worst case of each."""
    laws = {
        (table, shift): table_zcdp(table, shift)
        for table, shift in {
            (draw.table, moved.shift)
            for case in worst_cases(noise.parts, times)
            for draw, moves in zip(noise.draws, case, strict=True)
            for moved in moves
        }
    }
    totals = [
        (
            sum((Fraction(laws[key].rho) * cells for key, cells in found), Fraction(0)),
            sum((Fraction(laws[key].delta) * cells for key, cells in found), Fraction(0)),
        )
        for found in (_cells(noise, case) for case in worst_cases(noise.parts, times))
    ]
    return Concentrated(max(rho for rho, _ in totals), min(Fraction(1), max(delta for _, delta in totals)))


def _cells(noise: ReleaseNoise, case: Sequence[Sequence[Any]]) -> list[tuple[tuple[NoiseTable, int], int]]:
    return [
        ((draw.table, moved.shift), moved.cells)
        for draw, moves in zip(noise.draws, case, strict=True)
        for moved in moves
    ]


def _is_covered(draw: Draw, by: Draw) -> bool:
    """Whether a draw of a slot dominates a draw of a release, alone and where two units share a cell."""
    mine, its = draw.part, by.part
    if mine.cells > its.cells or (mine.overlap is None) != (its.overlap is None):
        return False
    moves = [(mine.sensitivity, its.sensitivity)]
    if mine.overlap and not its.overlap:
        return False
    if mine.overlap and its.overlap:
        moves.append((mine.overlap, its.overlap))
    return all(is_dominated(Cell(draw.table, shift), Cell(by.table, other)) for shift, other in moves)
