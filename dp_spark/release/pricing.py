"""How each total of a release is priced: over the groups of a unit, or gathered in one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.noise import Family, Part, expected_std, expected_variance
from dp_spark.queries import Total

# A noise grid this much finer than the noise costs nothing in variance and keeps a table small.
STD_IN_GRID_STEPS = 1024
# Rounding to the grid raises gathered moves by at most this share, or by the larger one where tables would
# otherwise have more steps in a std than that.
_SMALL_LOSS, _LARGE_LOSS, _MOST_STEPS_IN_STD = 64, 4, 2**15


class Form(StrEnum):
    """Which bound of a unit's contribution prices a total."""

    SPREAD = "spread"  # each of its groups moves as far as one group can
    GATHERED = "gathered"  # its groups together move as far as its rows can, all of it in one cell


@dataclass(frozen=True, slots=True)
class Priced:
    """A total with its noise grid and what one unit moves in steps of it.

    Attributes:
        form: the bound that `part` comes from.
        grid_steps: integers of the total in one grid step; the total is rounded to the grid.
        part: the shifts that are priced.
    """

    form: Form
    grid_steps: int
    part: Part


def priced_totals(
    totals: Sequence[Total],
    neighbours: Neighbours,
    guarantee: PrivacyGuarantee,
    families: Sequence[Family],
    horizon: int = 1,
    apart: Sequence[bool] | None = None,
) -> list[Priced]:
    """Each total in the form that gives the whole request the least noise.

    A total has a choice where a bound on all rows of a unit says more than the bounds on its groups. All
    totals whose contributions have one sign choose alike, and so do all others: the two forms are in the same
    ratio for them. The geometric mean of the variances, as the search in floats finds them, decides; a form
    whose tables would be too large is no choice. `apart` says which totals are not of the release's own
    groups (`part_of`).

    Raises:
        PlanRefused: no form has tables of a reasonable size.
    """
    apart = apart or [False] * len(totals)
    choices = [forms_of(total) for total in totals]
    signs = [_has_one_sign(total) for total in totals]
    one, two = (
        max(
            (forms for forms, each in zip(choices, signs, strict=True) if each is sign),
            key=len,
            default=(Form.SPREAD,),
        )
        for sign in (True, False)
    )
    found: list[tuple[float, list[Priced]]] = []
    refusals: list[PlanRefused] = []
    for wanted in product(one, two):
        forms = [
            wanted[0 if sign else 1] if len(possible) > 1 else possible[0]
            for possible, sign in zip(choices, signs, strict=True)
        ]
        try:
            made = _in_forms(totals, forms, apart, neighbours, guarantee, horizon)
            cost = _log_variance(made, guarantee, families, horizon) if len(one) * len(two) > 1 else 0.0
            found.append((cost, made))
        except PlanRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return min(found, key=lambda each: each[0])[1]


def part_of(total: Total, form: Form, grid: int, neighbours: Neighbours, *, apart: bool = False) -> Part:
    """What one unit moves of a total that is rounded to a grid, in grid steps, at worst.

    Spread: a move by d integers is at most ceil(d / grid) steps. Of a group with several cells, they together
    move no more than one cell moved as far, by the l1 lemma (`dominating_shift`); and where a unit is
    replaced, what goes and what comes count as groups of their own. A total is `apart` if its groups are not
    those of the release: how many of them two units share is then another number, and both units are counted
    in; by the same lemma a group that both have costs no more than two, or than one moved twice as far.

    Gathered, by the same lemma: cells that move by s steps in all cost no more than one
    cell moved by s. One unit that comes or goes moves `in_all` integers. Where a unit is replaced by another:
    if contributions have one sign, a cell that both have moves by no more than the larger of the two, so that
    the moves split into some of at most `in_all` in all for the one unit's cells, and as much for the
    other's: two cells at that. Else contributions may be opposite, and only their sum is bounded: one cell at
    twice as much.
    """
    replaced, cells = neighbours is Neighbours.REPLACE, total.cells * total.bins
    if form is Form.SPREAD and total.bins > 1:
        return Part(gathered_steps(total.sensitivity, total.bins, grid), total.cells * (2 if replaced else 1))
    if form is Form.SPREAD:
        steps = -(-total.sensitivity // grid)
        if not replaced or not apart:
            return Part(steps, total.cells, overlap=-(-total.overlap // grid) if replaced else None)
        return Part(steps, 2 * total.cells) if _has_one_sign(total) else Part(2 * steps, total.cells)
    if not replaced:
        return Part(gathered_steps(total.in_all, cells, grid), 1)
    if _has_one_sign(total):
        return Part(gathered_steps(total.in_all, cells, grid), 2)
    return Part(gathered_steps(2 * total.in_all, 2 * cells, grid), 1)


def gathered_steps(moved: int, cells: int, grid: int) -> int:
    """The most grid steps by which at most `cells` totals move together if they move by `moved` integers.

    Rounding may turn a move by 1 integer into a whole step, in each of n cells: n + floor((moved - n) / grid)
    is the largest sum of ceil(d / grid) over n moves d >= 1, and grows with n.
    """
    touched = min(cells, moved)
    return touched + (moved - touched) // grid


def grid_steps(sensitivity: int, finest: int) -> int:
    """Integers of a total in one grid step, such that a unit moves it by at most `finest` steps.

    Of the octave below that, the grid that raises the sensitivity least by rounding: not at all where it
    divides it.
    """
    if sensitivity <= finest:
        return 1
    grids = {-(-sensitivity // steps) for steps in range((finest + 1) // 2, finest + 1)}
    return min(grids, key=lambda grid: (grid * -(-sensitivity // grid), grid))


def _gathered_grid(moved: int, cells: int, coarsest: int, most: int) -> int:
    """Integers in a grid step of a gathered total: rounding costs n (grid - 1) of `moved`, n the cells."""
    touched = min(cells, moved)
    fine = min(coarsest, 1 + moved // (_SMALL_LOSS * touched))
    return max(fine, min(-(-moved // max(most, 1)), 1 + moved // (_LARGE_LOSS * touched)))


def _has_one_sign(total: Total) -> bool:
    return total.overlap <= total.sensitivity


def forms_of(total: Total) -> tuple[Form, ...]:
    """The forms that are not plainly worse than another."""
    helps = total.in_all < total.sensitivity * total.cells
    return (Form.SPREAD, Form.GATHERED) if helps else (Form.SPREAD,)


def _in_forms(
    totals: Sequence[Total],
    forms: Sequence[Form],
    apart: Sequence[bool],
    neighbours: Neighbours,
    guarantee: PrivacyGuarantee,
    horizon: int,
) -> list[Priced]:
    """The totals in these forms, with grids that are all as fine against the noise to come."""
    exact = [
        part_of(total, form, 1, neighbours, apart=alone)
        for total, form, alone in zip(totals, forms, apart, strict=True)
    ]
    std = expected_std(exact, guarantee, horizon=horizon)
    priced = []
    for total, form, alone, part in zip(totals, forms, apart, exact, strict=True):
        finest = max(1, int(STD_IN_GRID_STEPS / std))
        grid = grid_steps(part.sensitivity, finest)
        if form is Form.GATHERED:
            cells = total.bins * (total.cells if part.cells == 2 else 2 * total.cells)
            grid = _gathered_grid(part.sensitivity, cells, grid, int(_MOST_STEPS_IN_STD / std))
        elif total.bins > 1:
            grid = _gathered_grid(part.sensitivity, total.bins, grid, int(_MOST_STEPS_IN_STD / std))
        priced.append(Priced(form, grid, part_of(total, form, grid, neighbours, apart=alone)))
    return priced


def _log_variance(
    priced: Sequence[Priced], guarantee: PrivacyGuarantee, families: Sequence[Family], horizon: int
) -> float:
    """The mean log of the variances that the totals will have, in their own integers."""
    parts = [each.part for each in priced]
    scales = sum(2 * math.log(each.part.sensitivity * each.grid_steps) for each in priced)
    return math.log(expected_variance(parts, guarantee, families=families, horizon=horizon)) + scales / len(
        priced
    )
