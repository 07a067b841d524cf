"""The one lambda that all noise scales of a request share: searched in floats, certified on frozen tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import PRECISION, slot_laws
from dp_spark.noise.cutting import COARSE_STEPS, support_within, tail_masses
from dp_spark.noise.families import Family
from dp_spark.noise.freezing import freeze, step_below
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.losses import Repeated, loss_law, mirrored
from dp_spark.noise.neighbours import Case, Part, case_slots, worst_cases, worst_delta
from dp_spark.noise.request import Fixed, Found, Request, Shape
from dp_spark.noise.tails import Floats

_SEARCH_PRECISION = 4e-3
_AIM = 1 - 2.5 * PRECISION
_WITHIN = 1.25 * PRECISION
_ATTEMPTS = 8


def searched(shape: Shape, request: Request, start: float | None = None) -> Found:
    """The lambda in floats; searched again where the first guess made the lattice too coarse."""
    start = start or request.rough_scale() / math.sqrt(shape.family.variance)
    found = _search(shape, request, start)
    return found if found.scale > 0.8 * start else _search(shape, request, found.scale)


def _search(shape: Shape, request: Request, start: float) -> Found:
    """The lambda in floats, on a lattice coarse enough to be quick and as good as the true one.

    Of the cases of neighbours only the first and the last are looked at: one of them is nearly always the
    worst, and `certified` looks at all.
    """
    tails = _tails(shape, request)
    coarse = [_coarse(part, start) for part in request.parts]
    cases = worst_cases([*coarse, *(each.part for each in request.fixed)], request.horizon)
    draws = [_draws(case, coarse, request.fixed) for case in dict.fromkeys((cases[0], cases[-1]))]
    noises = dict.fromkeys(map(_noise, coarse))

    def delta_at(scale: float) -> float:
        logs = {noise: _logs(shape.family, noise, scale, tails) for noise in noises}
        return _worst(draws, logs, request.epsilon, _SEARCH_PRECISION)

    scale = _least(delta_at, request.delta, start, within=2e-3, finest=1e-5)
    shares = [(model, _logs(shape.family, _noise(model), scale, tails)) for model in dict.fromkeys(coarse)]
    relative = [_variance(logs) * (model.weight / model.sensitivity) ** 2 for model, logs in shares]
    return Found(shape, scale, float(np.mean(relative)))


def certified(found: Found, request: Request) -> tuple[NoiseTable, ...]:
    """Frozen tables whose composed delta, by two accountants, is at most the wanted one in every case.

    The supports are fixed at the searched lambda; then lambda alone moves, so that delta moves smoothly. It
    is searched for the case that is worst at first, and again with every other that turns out worse.

    Raises:
        PlanRefused: 128 bits or 2^22 entries are too few.
    """
    family, tails = found.shape.family, _tails(found.shape, request)
    noises = dict.fromkeys(map(_noise, request.parts))
    supports = {each: _support(tails, found.scale * each.per_scale, each.farthest) for each in noises}
    rest = [_draws(case, request.parts, request.fixed) for case in request.cases]
    looked_at: list[_Draws] = []

    def delta_at(scale: float, draws: Sequence[_Draws], precision: float = PRECISION) -> float:
        values = {each: np.arange(supports[each] + 1, dtype=np.float64) for each in noises}
        logs = {each: mirrored(-family.psi(values[each] * (1 / (scale * each.per_scale)))) for each in noises}
        return _worst(draws, logs, request.epsilon, precision)

    scale, goal = found.scale, request.delta * _AIM
    while rest and (not looked_at or delta_at(scale, rest) > goal):
        worst = max(rest, key=lambda draws: delta_at(scale, [draws], _SEARCH_PRECISION))
        rest.remove(worst)
        looked_at.append(worst)
        scale = _least(lambda at: delta_at(at, looked_at), goal, scale, within=_WITHIN, finest=2e-9)
    for attempt in range(_ATTEMPTS):
        tables = _frozen(family, scale, supports, request.parts)
        if _delta_of(tables, request) <= request.delta:
            return tables
        scale *= 1 + 4.0**attempt * 1e-7
    raise PlanRefused(
        "noise_resolution",
        f"epsilon = {request.epsilon:g} with delta = {request.delta:g} over {request.draws} draws is finer"
        " than noise of 128 bits, composed, can prove",
        way_out="take a larger delta (above 1e-12) or a shorter horizon",
    )


def _delta_of(tables: Sequence[NoiseTable], request: Request) -> float:
    """What frozen tables come to, together with those that are fixed."""
    beside = [each.table for each in request.fixed], [each.part for each in request.fixed]
    return worst_delta(
        [*tables, *beside[0]], [*request.parts, *beside[1]], request.epsilon, times=request.horizon
    )


class _Noise(NamedTuple):
    """What tells one law of noise from another, at one lambda: parts that share it share a table."""

    sensitivity: int
    weight: float
    farthest: int

    @property
    def per_scale(self) -> float:
        """Grid steps of the noise scale at lambda = 1."""
        return self.sensitivity / self.weight


_Counts = dict[tuple[_Noise, int], int]  # of each noise and shift, how many independent losses


class _Draws(NamedTuple):
    """The losses of one case: of noises to be scaled, and of tables that are fixed."""

    counts: _Counts
    fixed: tuple[Repeated, ...]


def _noise(part: Part) -> _Noise:
    return _Noise(part.sensitivity, part.weight, part.farthest)


def _draws(case: Case, parts: Sequence[Part], fixed: Sequence[Fixed]) -> _Draws:
    counts: _Counts = {}
    for part, moves in zip(parts, case[: len(parts)], strict=True):
        for moved in moves:
            key = _noise(part), moved.shift
            counts[key] = counts.get(key, 0) + moved.cells
    slots = case_slots(case[len(parts) :], [each.table for each in fixed])
    return _Draws(counts, tuple(slot_laws(slots)))


def _worst(draws: Sequence[_Draws], logs: Mapping[_Noise, Floats], epsilon: float, precision: float) -> float:
    """The largest delta of any of the cases; those that a coarser grid shows to be smaller are left out."""
    if len(draws) > 1 and precision < _SEARCH_PRECISION:
        rough = [_worst([one], logs, epsilon, _SEARCH_PRECISION) for one in draws]
        draws = [one for one, delta in zip(draws, rough, strict=True) if delta * 1.02 >= max(rough)]
    keys = dict.fromkeys(key for one in draws for key in one.counts)
    laws = {key: loss_law(logs[key[0]], key[1]) for key in keys}
    scaled = [[Repeated(laws[key], times) for key, times in one.counts.items()] for one in draws]
    return max(
        fft_delta([*free, *one.fixed], epsilon, precision=precision).upper
        for free, one in zip(scaled, draws, strict=True)
    )


def _coarse(part: Part, start: float) -> Part:
    """The part on a lattice with a few grid steps in the noise; an overlap is rounded up."""
    steps = min(part.sensitivity, math.ceil(COARSE_STEPS * part.weight / start))
    overlap = None if part.overlap is None else -(-part.overlap * steps // part.sensitivity)
    return replace(part, sensitivity=steps, overlap=overlap)


def _frozen(
    family: Family, scale: float, supports: Mapping[_Noise, int], parts: Sequence[Part]
) -> tuple[NoiseTable, ...]:
    """The table of each part at lambda = `scale`; equal parts share one.

    Raises:
        PlanRefused: the noise is so small that 128 bits leave no weight beside 0.
    """
    try:
        frozen = {
            part: freeze(
                family,
                step_below(scale * part.sensitivity / part.weight),
                supports[_noise(part)],
                sensitivity=part.sensitivity,
                max_groups=part.most_cells,
            )
            for part in dict.fromkeys(parts)
        }
    except ValueError as failure:
        raise PlanRefused(
            "noise_resolution",
            f"{family.name} noise cannot be frozen at this guarantee: {failure}",
            way_out="take a smaller epsilon (below 40)",
        ) from None
    return tuple(frozen[part] for part in parts)


def _least(
    delta_at: Callable[[float], float], delta: float, start: float, *, within: float, finest: float
) -> float:
    """A scale with delta in [(1 - within) delta, delta], or a relative `finest` above one that fails.

    A secant in log delta over log scale, kept inside what is known to fail and to meet; it halves where the
    last two steps have not.
    """

    def gap(log_scale: float) -> float:
        return math.log(max(delta_at(math.exp(log_scale)), 1e-300) / delta) + within / 2

    fails, meets = -math.inf, math.inf
    at, last, slope, widths = math.log(start), None, -12.0, [math.inf, math.inf]
    for _ in range(120):
        found = gap(at)
        if abs(found) <= within / 2:
            return math.exp(at)
        fails, meets = (at, meets) if found > 0 else (fails, at)
        width = meets - fails
        if width <= finest:
            return math.exp(meets)
        if last is not None and at != last[0] and (found - last[1]) / (at - last[0]) < -1:
            slope = (found - last[1]) / (at - last[0])
        last = (at, found)
        step = min(max(-found / slope, -0.7), 0.7)
        slow = math.isfinite(width) and width > widths[-2] / 2
        if not fails < at + step < meets or slow:
            step = (fails + meets) / 2 - at if math.isfinite(width) else math.copysign(0.7, found)
        at += step
        widths.append(width)
    if math.isfinite(meets):
        return math.exp(meets)
    raise PlanRefused(
        "noise_unreachable",
        "no noise scale of this family meets the guarantee",
        way_out="take another family, a larger delta or a smaller share of it for the cut",
    )


@dataclass(frozen=True, slots=True)
class _Tails:
    """P(X > x) of the standard member on a grid, up to a factor, and what the cut of one draw may expose."""

    grid: Floats
    tails: Floats
    mass: float

    def reach(self, shift: float) -> float:
        """The least x with P(x < X < x + shift given abs(X) < x + shift) at most the mass."""
        beyond = np.interp(self.grid + shift, self.grid, self.tails, right=0.0)
        exposed = self.tails - beyond <= self.mass * 2 * (self.tails[0] - beyond)
        return float(self.grid[np.argmax(exposed)])


def _tails(shape: Shape, request: Request) -> _Tails:
    family, mass = shape.family, shape.cut_share * request.delta / request.draws
    origin = float(family.psi(np.zeros(1))[0])
    return _Tails(*tail_masses(family, origin + 8 - math.log(mass), 16384), mass)


def _support(tails: _Tails, scale: float, shift: int) -> int:
    """K such that the `shift` outermost values, which a neighbour may never take, have little mass.

    Raises:
        PlanRefused: a table of -K..K would have more entries than tables may.
    """
    return max(1, support_within(math.ceil(tails.reach(shift / scale) * scale) + shift - 1))


def _logs(family: Family, noise: _Noise, scale: float, tails: _Tails) -> Floats:
    """Log masses, not normalised, of -K..K: the table of `noise` at lambda = `scale` before it is frozen."""
    steps = scale * noise.per_scale
    support = _support(tails, steps, noise.farthest)
    return mirrored(-family.psi(np.arange(support + 1) / steps))


def _variance(logs: Floats) -> float:
    masses = np.exp(logs - logs.max())
    values = np.arange(len(logs)) - len(logs) // 2
    return float(np.sum(values.astype(np.float64) ** 2 * masses) / masses.sum())
