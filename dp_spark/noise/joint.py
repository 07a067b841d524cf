"""One calibration for all totals of a request, its cells and its horizon; and the family of least variance.

Epsilon is not split among totals: the noise scales of all of them are proportional to one lambda, and the
composed loss of everything together meets the guarantee. Floats search, on coarse lattices; frozen tables
certify.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.accountant import Floats, Repeated, fft_delta, loss_law
from dp_spark.noise.composition import PRECISION, Slot, cross_checked_delta
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic, Subbotin
from dp_spark.noise.freezing import freeze
from dp_spark.noise.hyperbolic import Hyperbolic
from dp_spark.noise.lattice import MAX_ENTRIES, NoiseTable

_KEPT_SHARE = 1e-3  # of delta: what a cut costs that is there only because tables end
_FIRST_CUT_SHARE = 0.5
_CUT_SHARES = (0.15, 0.8, 0.93, 0.98)
_SEARCH_STEPS = 48  # lattice steps in a scale that make it as good as continuous
_SEARCH_PRECISION = 4e-3
_AIM = 1 - 2.5 * PRECISION
_WITHIN = 1.25 * PRECISION
_STEP_BITS = 48
_ATTEMPTS = 8
_LEAST_DELTA = 1e-30
_LARGEST_EPSILON = 88
_BEND_RATIOS = {
    1: (Fraction(1, 2), Fraction(5, 3)),
    2: (Fraction(3, 4), Fraction(4, 3)),
    4: (Fraction(5, 6), Fraction(6, 5)),
}

FIRST_FAMILIES: tuple[Family, ...] = (
    Gaussian(),
    Laplace(),
    Logistic(),
    *(Subbotin(Fraction(p, 4)) for p in (5, 6, 7)),
    *(Hyperbolic(Fraction(bend)) for bend in (2, 6)),
)
"""Where the search for the family of least variance starts; the best of each kind are then refined."""


@dataclass(frozen=True, slots=True)
class Part:
    """One total: what one unit moves, in how many cells, and how much it matters.

    Attributes:
        sensitivity: grid steps by which one unit moves one cell at most.
        cells: cells that one unit moves at most.
        weight: the noise scale is divided by it; 1 gives every total the same noise relative to sensitivity.

    Raises:
        PlanRefused: a number is out of range.
    """

    sensitivity: int
    cells: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("sensitivity", "cells"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise PlanRefused(
                    f"{name}_range",
                    f"{name} = {value} must be a whole number, at least 1",
                    way_out=f"give {name} as an integer; sums are counted in steps of their grid",
                )
        if not 0 < self.weight < math.inf:
            raise PlanRefused(
                "weight_range", f"weight = {self.weight} must be positive", way_out="give a weight near 1"
            )


@dataclass(frozen=True, slots=True)
class Choice:
    """The noise of least variance for a request, and what it was chosen over.

    Attributes:
        tables: one for each part, certified together.
        family: name of the winner; `truncated` stands before it where its cut spends a share of delta.
        runner_up: the best of another kind.
        ratio: variance of the runner-up over that of the winner, from the search, within about 1e-3.
    """

    tables: tuple[NoiseTable, ...]
    family: str
    runner_up: str
    ratio: float


@dataclass(frozen=True, slots=True)
class _Shape:
    """A family and the share of delta that the cut of its tails may expose."""

    family: Family
    cut_share: float = _KEPT_SHARE

    @property
    def name(self) -> str:
        cut = self.cut_share > _KEPT_SHARE
        return f"truncated {self.family.name}" if cut else self.family.name

    @property
    def kind(self) -> str:
        return self.name.partition("(")[0]


@dataclass(frozen=True, slots=True)
class _Request:
    parts: tuple[Part, ...]
    epsilon: float
    delta: float
    horizon: int

    @property
    def draws(self) -> int:
        return self.horizon * sum(part.cells for part in self.parts)

    def rough_scale(self) -> float:
        """The std of Gaussian noise, per unit of shift, by zCDP: within a factor of two for any family."""
        squares = self.horizon * sum(part.cells * part.weight**2 for part in self.parts)
        log = math.log(1 / self.delta)
        return math.sqrt(squares / 2) / (math.sqrt(log + self.epsilon) - math.sqrt(log))


@dataclass(frozen=True, slots=True)
class _Found:
    """A shape, the lambda that meets the request, and the mean variance per squared shift there."""

    shape: _Shape
    scale: float
    variance: float


def calibrate_jointly(
    family: Family,
    parts: Sequence[Part],
    guarantee: PrivacyGuarantee,
    *,
    horizon: int = 1,
    cut_share: float = _KEPT_SHARE,
) -> tuple[NoiseTable, ...]:
    """Tables of one family, one for each part, that together meet the guarantee `horizon` times over.

    Scales are lambda * sensitivity / weight for the one lambda at which the composed delta of the frozen
    tables is at most the wanted one and, within 1e-3, equal to it; or at which lambda is within 1e-6 of one
    that fails, where the profile is steeper than that. `cut_share` of delta may go to the cut of the tails.

    Raises:
        PlanRefused: a parameter is out of range, or no tables of a reasonable size meet the guarantee.
    """
    request = _checked(parts, guarantee, horizon)
    shape = _Shape(family, cut_share)
    return _certified(_searched(shape, request), request)


def least_variance_jointly(parts: Sequence[Part], guarantee: PrivacyGuarantee, *, horizon: int = 1) -> Choice:
    """The tables of `calibrate_jointly` for the family, shape and cut of least mean relative variance.

    Each variance counts relative to (sensitivity / weight)^2. Laplace, logistic, Gaussian, Subbotin,
    hyperbolic and their truncations compete; only the winner is frozen.

    Raises:
        PlanRefused: as in `calibrate_jointly`, if no family has tables that fit.
    """
    request = _checked(parts, guarantee, horizon)
    ranking = sorted(_candidates(request), key=lambda found: found.variance)
    winner = ranking[0]
    other = next((one for one in ranking if one.shape.kind != winner.shape.kind), winner)
    tables = _certified(winner, request)
    return Choice(tables, winner.shape.name, other.shape.name, other.variance / winner.variance)


def expected_std(parts: Sequence[Part], guarantee: PrivacyGuarantee, *, horizon: int = 1) -> float:
    """About the std that noise will have, per unit of sensitivity / weight: good to a factor of two or so.

    For choosing a grid before there is a plan: more than 1024 grid steps in a std only make tables large.
    Small numbers of cells, where Laplace noise wins, can come out several times below.
    """
    return _checked(parts, guarantee, horizon).rough_scale()


def _candidates(request: _Request) -> list[_Found]:
    """Every shape tried: the first families, the best of each kind refined, and the leading ones cut."""
    found: list[_Found] = []
    refusals: list[PlanRefused] = []

    def attempt(shapes: Iterable[_Shape], start: float | None = None) -> None:
        for shape in shapes:
            if all(one.shape != shape for one in found):
                try:
                    found.append(_searched(shape, request, start))
                except PlanRefused as refusal:
                    refusals.append(refusal)

    attempt(_Shape(family) for family in FIRST_FAMILIES)
    if not found:
        raise refusals[0]
    for finer in (1, 2, 4):
        best = min(one.variance for one in found)
        for kind in (Subbotin, Hyperbolic):
            alike = [one for one in found if isinstance(one.shape.family, kind)]
            nearest = min(alike, key=_variance_of, default=None)
            if nearest and nearest.variance < (1 + 0.1 / finer) * best:
                attempt(map(_Shape, _neighbours(nearest.shape.family, finer)), nearest.scale)
    leading = sorted(found, key=_variance_of)[:2]
    laplace = [one for one in found if one.shape.kind == "laplace" and one not in leading]
    for one in leading + laplace:
        attempt([replace(one.shape, cut_share=_FIRST_CUT_SHARE)], one.scale)
        if found[-1].shape.family == one.shape.family and found[-1].variance < one.variance * 1.0005:
            attempt([replace(one.shape, cut_share=share) for share in _CUT_SHARES], found[-1].scale)
    return found


def _variance_of(found: _Found) -> float:
    return found.variance


def _neighbours(family: Family, finer: int) -> list[Family]:
    """The same kind with a parameter somewhat smaller and somewhat larger."""
    if isinstance(family, Subbotin):
        near = (Fraction(family.p) + Fraction(sign, 8 * finer) for sign in (-1, 1))
        return [Subbotin(p) for p in near if 1 < p < 2]
    if isinstance(family, Hyperbolic):
        return [Hyperbolic(family.bend * ratio) for ratio in _BEND_RATIOS[finer]]
    return []


def _searched(shape: _Shape, request: _Request, start: float | None = None) -> _Found:
    """`_search`, again where its first guess made the lattice too coarse."""
    start = start or request.rough_scale() / math.sqrt(shape.family.variance)
    found = _search(shape, request, start)
    return found if found.scale > 0.8 * start else _search(shape, request, found.scale)


def _search(shape: _Shape, request: _Request, start: float) -> _Found:
    """The lambda in floats, on a lattice coarse enough to be quick and as good as the true one."""
    tails = _tails(shape, request)
    coarse = {
        part: replace(part, sensitivity=min(part.sensitivity, math.ceil(_SEARCH_STEPS * part.weight / start)))
        for part in request.parts
    }
    models: dict[Part, int] = {}
    for part in request.parts:
        model = replace(coarse[part], cells=1)
        models[model] = models.get(model, 0) + part.cells * request.horizon

    def delta_at(scale: float) -> float:
        laws = [
            Repeated(loss_law(_logs(shape.family, model, scale, tails), model.sensitivity), times)
            for model, times in models.items()
        ]
        return fft_delta(laws, request.epsilon, precision=_SEARCH_PRECISION).upper

    scale = _least(delta_at, request.delta, start, within=2e-3, finest=1e-5)
    shares = [(model, _logs(shape.family, model, scale, tails)) for model in coarse.values()]
    relative = [_variance(logs) * (model.weight / model.sensitivity) ** 2 for model, logs in shares]
    return _Found(shape, scale, float(np.mean(relative)))


def _certified(found: _Found, request: _Request) -> tuple[NoiseTable, ...]:
    """Frozen tables whose composed delta, by two accountants, is at most the wanted one.

    The supports are fixed at the searched lambda; then lambda alone moves, so that delta moves smoothly.

    Raises:
        PlanRefused: 128 bits or 2^22 entries are too few.
    """
    family, tails = found.shape.family, _tails(found.shape, request)
    models: dict[tuple[int, float], int] = {}
    for part in request.parts:
        key = (part.sensitivity, part.weight)
        models[key] = models.get(key, 0) + part.cells * request.horizon
    supports = {key: _support(tails, found.scale * key[0] / key[1], key[0]) for key in models}

    def delta_at(scale: float) -> float:
        laws = []
        for (sensitivity, weight), times in models.items():
            support = supports[sensitivity, weight]
            logs = -family.psi(np.arange(support + 1, dtype=np.float64) * (weight / (scale * sensitivity)))
            laws.append(Repeated(loss_law(np.concatenate([logs[:0:-1], logs]), sensitivity), times))
        return fft_delta(laws, request.epsilon, precision=PRECISION).upper

    scale = _least(delta_at, request.delta * _AIM, found.scale, within=_WITHIN, finest=2e-9)
    for attempt in range(_ATTEMPTS):
        frozen: dict[tuple[int, float, int], NoiseTable] = {}
        for part in request.parts:
            wanted = (part.sensitivity, part.weight, part.cells)
            if wanted not in frozen:
                frozen[wanted] = freeze(
                    family,
                    _step_below(scale * part.sensitivity / part.weight),
                    supports[part.sensitivity, part.weight],
                    sensitivity=part.sensitivity,
                    max_groups=part.cells,
                )
        tables = tuple(frozen[part.sensitivity, part.weight, part.cells] for part in request.parts)
        slots = [
            Slot(table, part.cells, request.horizon)
            for table, part in zip(tables, request.parts, strict=True)
        ]
        if cross_checked_delta(slots, request.epsilon) <= request.delta:
            return tables
        scale *= 1 + 4.0**attempt * 1e-7
    raise PlanRefused(
        "noise_resolution",
        f"epsilon = {request.epsilon:g} with delta = {request.delta:g} over {request.draws} draws is finer"
        " than noise of 128 bits, composed, can prove",
        way_out="take a larger delta (above 1e-12) or a shorter horizon",
    )


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


def _tails(shape: _Shape, request: _Request) -> _Tails:
    family, mass = shape.family, shape.cut_share * request.delta / request.draws
    end, floor = 1.0, float(family.psi(np.zeros(1))[0])
    while end < family.end and family.psi(np.array([end]))[0] - floor < 8 - math.log(mass):
        end *= 2
    grid = np.linspace(0.0, min(end, family.end), 16385)
    return _Tails(grid, np.cumsum(np.exp(floor - family.psi(grid))[::-1])[::-1], mass)


def _support(tails: _Tails, scale: float, shift: int) -> int:
    """K such that the `shift` outermost values, which a neighbour may never take, have little mass.

    Raises:
        PlanRefused: a table of -K..K would have more entries than tables may.
    """
    support = math.ceil(tails.reach(shift / scale) * scale) + shift - 1
    support = max(support, 1)
    if 2 * support + 1 > MAX_ENTRIES:
        raise PlanRefused(
            "noise_table_size",
            f"the noise would need a table of about {2 * support + 1:.3g} values; at most {MAX_ENTRIES} fit",
            way_out="give more epsilon, fewer max_groups, closer bounds, or a coarser grid step for sums",
        )
    return support


def _logs(family: Family, model: Part, scale: float, tails: _Tails) -> Floats:
    """Log masses, not normalised, of -K..K: the table of `model` at lambda = `scale` before it is frozen."""
    steps = scale * model.sensitivity / model.weight
    logs = -family.psi(np.arange(_support(tails, steps, model.sensitivity) + 1) / steps)
    return np.concatenate([logs[:0:-1], logs])


def _variance(logs: Floats) -> float:
    masses = np.exp(logs - logs.max())
    values = np.arange(len(logs)) - len(logs) // 2
    return float(np.sum(values.astype(np.float64) ** 2 * masses) / masses.sum())


def _step_below(scale: float) -> Fraction:
    """1 / scale, rounded down to a dyadic fraction: the scale rounds up."""
    mantissa, exponent = math.frexp(1 / scale)
    return Fraction(math.floor(mantissa * 2**_STEP_BITS)) * Fraction(2) ** (exponent - _STEP_BITS)


def _checked(parts: Sequence[Part], guarantee: PrivacyGuarantee, horizon: int) -> _Request:
    if not parts:
        raise PlanRefused("parts_missing", "there is no total to plan", way_out="ask at least one query")
    if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
        raise PlanRefused(
            "horizon_range",
            f"horizon = {horizon} must be a whole number, at least 1",
            way_out="give the number of releases that the budget is for",
        )
    if guarantee.epsilon > _LARGEST_EPSILON:
        raise PlanRefused(
            "epsilon_range",
            f"epsilon = {float(guarantee.epsilon):g} must be at most {_LARGEST_EPSILON}",
            way_out="choose a smaller epsilon; 0.1 to 2 for one release is usual",
        )
    if guarantee.delta < _LEAST_DELTA:
        raise PlanRefused(
            "delta_range",
            f"delta = {float(guarantee.delta):g} must be at least {_LEAST_DELTA}: tables have ends",
            way_out="give delta > 0, well below 1 / number of units, or pure epsilon for each total alone",
        )
    return _Request(tuple(parts), float(guarantee.epsilon), float(guarantee.delta), horizon)
