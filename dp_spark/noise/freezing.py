"""From a family to a frozen table: every weight by ball arithmetic, within one unit of the exact value.

Large tables are made in panels of neighbouring values. Inside a panel exp(-psi) is its Taylor polynomial
about the middle, with a remainder that ball arithmetic encloses, so that one matrix product of balls gives
all weights, whichever the mass: a cell integrates the polynomial. Values near 0, coarse lattices and
families without a series are computed one by one.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import arb, arb_mat, arb_series, ctx

from dp_spark.noise import wide
from dp_spark.noise.families import (
    Family,
    Gaussian,
    HasTailBall,
    Laplace,
    Logistic,
    Subbotin,
    TruncatedLaplace,
)
from dp_spark.noise.hyperbolic import Hyperbolic
from dp_spark.noise.lattice import MAX_ENTRIES, RESOLVED_LOG, TOTAL, Mass, NoiseTable
from dp_spark.rationals import ball

_WORKING_BITS = 184  # 128 of a weight, 22 of the sum; the rest makes an undecided floor a rarity
_ORDER = 24  # terms of a Taylor polynomial
_LONGEST_PANEL = 256
_SHORTEST_PANEL = 4
_STEP_BITS = 48
_NARROWEST = 64  # a panel is at most this many times narrower than its distance from 0, or than 1/2


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is frozen: weights of 0..support of the untruncated family, the last one times `edge`."""

    family: Family
    step: Fraction
    support: int
    mass: Mass
    edge: Fraction


def freeze(
    family: Family,
    step: Fraction,
    support: int,
    *,
    sensitivity: int,
    max_groups: int,
    mass: Mass = Mass.POINT,
    edge: Fraction = Fraction(1),
) -> NoiseTable:
    """The table of exp(-psi(n step)), or of its integral over cells, on -support..support.

    Every weight is within one unit (2^-128) of the exact value, which ball arithmetic proves. Outer values
    with less than one unit get none, and the table ends before them. The table cuts the tails itself: of a
    truncated family it takes the density inside, and `support` and `edge` say where it ends.

    Raises:
        ValueError: the step is so coarse that noise other than 0 has no weight, a parameter is out of
            the range that `NoiseTable` states, or cells are asked of a family without a tail in balls.
    """
    if step <= 0 or not 3 <= 2 * support + 1 <= MAX_ENTRIES or not 0 < edge <= 1:
        raise ValueError(
            f"support = {support} must give 3 to {MAX_ENTRIES} entries, the step be positive,"
            f" and edge = {edge} lie in (0, 1]"
        )
    shape = _Shape(untruncated(family), step, support, mass, edge)
    if not shape.family.psi(ball(step) * (1 if mass is Mass.POINT else arb(0.5))) < RESOLVED_LOG:
        raise ValueError(f"step = {float(step)} leaves no weight beside 0; take a smaller one")
    if mass is Mass.CELL and not isinstance(shape.family, HasTailBall):
        raise ValueError(f"{family.name} has no tail in balls, so no cell masses; take point masses")
    bits, order = _WORKING_BITS, _ORDER
    while (floors := _floored_weights(shape, bits, order)) is None:
        bits, order = 2 * bits, 2 * order
    weights = wide.from_ints(completed(floors))
    drawn = int(np.flatnonzero(weights.any(axis=1))[-1]) + 1
    edge = edge if drawn == support + 1 else Fraction(1)
    return NoiseTable(family.name, step, sensitivity, max_groups, weights[:drawn], mass, edge)


def untruncated(family: Family) -> Family:
    """The family whose psi is finite everywhere and agrees with that of `family` inside its cut."""
    return Laplace() if isinstance(family, TruncatedLaplace) else family


def step_below(scale: float) -> Fraction:
    """1 / scale, rounded down to a dyadic fraction: the scale rounds up."""
    mantissa, exponent = math.frexp(1 / scale)
    return Fraction(math.floor(mantissa * 2**_STEP_BITS)) * Fraction(2) ** (exponent - _STEP_BITS)


def floored(masses: list[arb], unit: arb) -> list[int] | None:
    """Exact floors of masses times unit, or None if a ball does not decide one of them."""
    floors = [(mass * unit).floor().unique_fmpz() for mass in masses]
    decided = [int(floor) for floor in floors if floor is not None]
    return decided if len(decided) == len(floors) else None


def completed(floors: list[int]) -> list[int]:
    """The weights of 0..K from their floors: pairs nearest to 0 take one unit each until all sum to 2^128.

    The floors lose less than one unit each, so there are enough pairs and no weight moves by more than one
    unit from its exact value. Pairs take even amounts, hence the centre is made even first.
    """
    centre = floors[0] + floors[0] % 2
    spare = (TOTAL - centre) // 2 - sum(floors[1:])
    return [centre, *(floor + (n < spare) for n, floor in enumerate(floors[1:]))]


def _floored_weights(shape: _Shape, bits: int, order: int) -> list[int] | None:
    with ctx.workprec(bits), _series_terms(order + 2):
        masses = _masses(shape, order)
        masses[-1] *= ball(shape.edge)
        return floored(masses, arb(TOTAL) / (2 * sum(masses[1:], start=arb(0)) + masses[0]))


def _masses(shape: _Shape, order: int) -> list[arb]:
    """Balls around the masses of 0..support, up to one common factor."""
    end, longest = shape.support + 1, min(_LONGEST_PANEL, int(2 / (_NARROWEST * shape.step)))
    masses: list[arb] = []
    length = _SHORTEST_PANEL
    if isinstance(shape.family, Laplace | Logistic | Gaussian | Hyperbolic | Subbotin) and longest >= length:
        masses = _one_by_one(shape, 0, min(end, _NARROWEST * length))
        while length <= longest:
            stop = end if 2 * length > longest else min(end, 2 * _NARROWEST * length)
            masses += _in_panels(shape, len(masses), length, (stop - len(masses)) // length, order)
            length *= 2
    return masses + _one_by_one(shape, len(masses), end)


def _one_by_one(shape: _Shape, start: int, stop: int) -> list[arb]:
    step, family = ball(shape.step), shape.family
    if shape.mass is Mass.POINT:
        return [(-family.psi(step * n)).exp() for n in range(start, stop)]
    assert isinstance(family, HasTailBall)  # `freeze` has refused all others
    whole = _integral(family)
    tails = [whole * family.tail_ball(step * (2 * n - 1) / 2) for n in range(max(start, 1), stop + 1)]
    centre = [whole - 2 * tails[0]] if start == 0 else []
    return centre + [inner - outer for inner, outer in pairwise(tails)]


def _in_panels(shape: _Shape, start: int, length: int, panels: int, order: int) -> list[arb]:
    """Masses of `start` and on, `panels` times `length` of them."""
    if panels < 1:
        return []
    step = ball(shape.step)
    radius = step * length / 2
    rows = []
    for panel in range(panels):
        middle = step * (2 * (start + panel * length) + length - 1) / 2
        series = _series(shape.family, middle, order)
        around = _series(shape.family, middle + arb(0, radius.upper()), order + 1)
        remainder = arb(0, ((around[order] * radius**order).abs_upper()))
        rows.append([*(series[k] for k in range(order)), remainder])
    offsets = [step * (2 * j - length + 1) / 2 for j in range(length)]
    if shape.mass is Mass.POINT:
        powers = _powers(offsets, order)
        powers.append([arb(1)] * length)
    else:
        lower = _powers([offset - step / 2 for offset in offsets], order + 1)
        upper = _powers([offset + step / 2 for offset in offsets], order + 1)
        powers = [[(b - a) / k for a, b in zip(lower[k], upper[k], strict=True)] for k in range(1, order + 1)]
        powers.append([step] * length)
    return list((arb_mat(rows) * arb_mat(powers)).entries())


def _powers(bases: list[arb], count: int) -> list[list[arb]]:
    """Powers 0, 1, ..., count - 1 of all bases, by multiplication: flint knows no 0 ** k."""
    powers = [[arb(1)] * len(bases)]
    while len(powers) < count:
        powers.append([power * base for power, base in zip(powers[-1], bases, strict=True)])
    return powers


@contextmanager
def _series_terms(most: int) -> Iterator[None]:
    """Let power series have this many terms; flint drops all beyond its global cap in silence."""
    before, ctx.cap = ctx.cap, most
    try:
        yield
    finally:
        ctx.cap = before


def _series(family: Family, middle: arb, order: int) -> arb_series:
    """exp(-psi) about `middle` > 0 to `order` terms.

    Precondition: the family is one of these five, which `_masses` checks.
    """
    x = arb_series([middle, 1], prec=order)
    if isinstance(family, Laplace):
        return (-x).exp()
    if isinstance(family, Logistic):
        power = (-x).exp()
        return power / (1 + power) ** 2
    if isinstance(family, Gaussian):
        return (x * x / -2).exp()
    if isinstance(family, Hyperbolic):
        return (-family.psi(x)).exp()
    assert isinstance(family, Subbotin)
    return (-(x ** ball(Fraction(family.p)))).exp()


def _integral(family: Family) -> arb:
    """Integral of exp(-psi) where panels need it; 1 where all masses come from the normalised tail."""
    if isinstance(family, Laplace):
        return arb(2)
    if isinstance(family, Gaussian):
        return (2 * arb.pi()).sqrt()
    if isinstance(family, Subbotin):
        return 2 * (1 + 1 / ball(Fraction(family.p))).gamma()
    return arb(1)
