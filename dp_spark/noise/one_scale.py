"""The one lambda that all noise scales of a request share: searched in floats, certified on frozen tables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.accountant import fft_delta
from dp_spark.noise.composition import PRECISION, Slot, composed_delta
from dp_spark.noise.cutting import COARSE_STEPS, CUT_SHARE, support_within, tail_masses
from dp_spark.noise.demand import checked_count, checked_delta, checked_epsilon
from dp_spark.noise.families import Family
from dp_spark.noise.freezing import freeze, step_below
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.losses import Repeated, loss_law, mirrored
from dp_spark.noise.tails import Floats

_SEARCH_PRECISION = 4e-3
_AIM = 1 - 2.5 * PRECISION
_WITHIN = 1.25 * PRECISION
_ATTEMPTS = 8


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
        checked_count("sensitivity", self.sensitivity)
        checked_count("cells", self.cells)
        if not 0 < self.weight < math.inf:
            raise PlanRefused(
                "weight_range", f"weight = {self.weight} must be positive", way_out="give a weight near 1"
            )


@dataclass(frozen=True, slots=True)
class Shape:
    """A family and the share of delta that the cut of its tails may expose."""

    family: Family
    cut_share: float = CUT_SHARE

    @property
    def name(self) -> str:
        """The name of the family, after `truncated` where its cut spends a share of delta."""
        cut = self.cut_share > CUT_SHARE
        return f"truncated {self.family.name}" if cut else self.family.name

    @property
    def kind(self) -> str:
        """The name without a parameter."""
        return self.name.partition("(")[0]


@dataclass(frozen=True, slots=True)
class Request:
    """What `horizon` releases of all parts have to meet together, checked."""

    parts: tuple[Part, ...]
    epsilon: float
    delta: float
    horizon: int

    @property
    def draws(self) -> int:
        """How many independent losses there are."""
        return self.horizon * sum(part.cells for part in self.parts)

    def rough_scale(self) -> float:
        """The std of Gaussian noise, per unit of shift, by zCDP: within a factor of two for any family."""
        squares = self.horizon * sum(part.cells * part.weight**2 for part in self.parts)
        log = math.log(1 / self.delta)
        return math.sqrt(squares / 2) / (math.sqrt(log + self.epsilon) - math.sqrt(log))


@dataclass(frozen=True, slots=True)
class Found:
    """A shape, the lambda that meets the request, and the mean variance per squared shift there."""

    shape: Shape
    scale: float
    variance: float


def checked(parts: Sequence[Part], guarantee: PrivacyGuarantee, horizon: int) -> Request:
    """The request of a caller.

    Raises:
        PlanRefused: there is no part, or a parameter is out of range.
    """
    if not parts:
        raise PlanRefused("parts_missing", "there is no total to plan", way_out="ask at least one query")
    checked_count("horizon", horizon, way_out="give the number of releases that the budget is for")
    epsilon, delta = checked_epsilon(guarantee.epsilon), checked_delta(guarantee.delta)
    return Request(tuple(parts), float(epsilon), float(delta), horizon)


def searched(shape: Shape, request: Request, start: float | None = None) -> Found:
    """The lambda in floats; searched again where the first guess made the lattice too coarse."""
    start = start or request.rough_scale() / math.sqrt(shape.family.variance)
    found = _search(shape, request, start)
    return found if found.scale > 0.8 * start else _search(shape, request, found.scale)


def _search(shape: Shape, request: Request, start: float) -> Found:
    """The lambda in floats, on a lattice coarse enough to be quick and as good as the true one."""
    tails = _tails(shape, request)
    coarse = {
        part: replace(part, sensitivity=min(part.sensitivity, math.ceil(COARSE_STEPS * part.weight / start)))
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
    return Found(shape, scale, float(np.mean(relative)))


def certified(found: Found, request: Request) -> tuple[NoiseTable, ...]:
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
            laws.append(Repeated(loss_law(mirrored(logs), sensitivity), times))
        return fft_delta(laws, request.epsilon, precision=PRECISION).upper

    scale = _least(delta_at, request.delta * _AIM, found.scale, within=_WITHIN, finest=2e-9)
    for attempt in range(_ATTEMPTS):
        tables = _frozen(family, scale, supports, request.parts)
        slots = [
            Slot(table, part.cells, request.horizon)
            for table, part in zip(tables, request.parts, strict=True)
        ]
        if composed_delta(slots, request.epsilon) <= request.delta:
            return tables
        scale *= 1 + 4.0**attempt * 1e-7
    raise PlanRefused(
        "noise_resolution",
        f"epsilon = {request.epsilon:g} with delta = {request.delta:g} over {request.draws} draws is finer"
        " than noise of 128 bits, composed, can prove",
        way_out="take a larger delta (above 1e-12) or a shorter horizon",
    )


def _frozen(
    family: Family, scale: float, supports: dict[tuple[int, float], int], parts: Sequence[Part]
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
                supports[part.sensitivity, part.weight],
                sensitivity=part.sensitivity,
                max_groups=part.cells,
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


def _logs(family: Family, model: Part, scale: float, tails: _Tails) -> Floats:
    """Log masses, not normalised, of -K..K: the table of `model` at lambda = `scale` before it is frozen."""
    steps = scale * model.sensitivity / model.weight
    logs = -family.psi(np.arange(_support(tails, steps, model.sensitivity) + 1) / steps)
    return mirrored(logs)


def _variance(logs: Floats) -> float:
    masses = np.exp(logs - logs.max())
    values = np.arange(len(logs)) - len(logs) // 2
    return float(np.sum(values.astype(np.float64) ** 2 * masses) / masses.sum())
