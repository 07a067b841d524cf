"""The numbers behind the pictures of the noise: what each family costs, and what no noise can beat.

Variances are those of certified tables, in units of the squared sensitivity; only `separation` is of
continuous noise, in floats.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Protocol, TypeVar

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.calibrate import calibrate_lattice, tightest_table
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic, Subbotin, TruncatedLaplace
from dp_spark.noise.floor import variance_floor
from dp_spark.noise.freezing import freeze
from dp_spark.noise.joint import Part, calibrate_jointly, expected_std, least_variance_jointly
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.privacy import least_scale

LAPLACE, LOGISTIC, GAUSSIAN = Laplace().name, Logistic().name, Gaussian().name
BEST_SUBBOTIN, TIGHTEST, FLOOR, CHOSEN = "best subbotin", "tightest table", "floor", "chosen"
TRUNCATED = "truncated laplace"

DELTAS = (1e-6, 1e-2)
EPSILONS = tuple(0.05 * 160 ** (i / 24) for i in range(25))
CELLS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
NIGHTS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 45, 60, 90, 120, 180, 240, 300, 365)
SMALL_DELTAS = tuple(10.0**-power for power in range(1, 101))
SUBBOTIN_POWERS = tuple(
    map(Fraction, (["1.02", "1.05", "1.1", "1.15", "1.2", "1.3", "1.4", "1.5", "1.6", "1.75", "1.9"]))
)

_PLAIN: tuple[Family, ...] = (Laplace(), Logistic(), Gaussian())
_FAMILIES: tuple[Family, ...] = (*_PLAIN, Subbotin(1.5))
_STEPS_IN_A_STD = 64  # of the grid of sums: variances are within 0.5 % of those of continuous noise
_PROFILE_SENSITIVITY = 16
_PROFILE_POINTS = 360
_PROFILE_CUT = 12  # of the truncated Laplace noise among the profiles, in its scales
_FARTHEST = 96  # psi exceeds 88, where weights of 2^-128 end, at most so many scales out
_CORRECTIONS = 3

Point = TypeVar("Point")


class Track(Protocol):
    """Hands out points one by one, and may show how far it is."""

    def __call__(self, points: Sequence[Point], /) -> Iterable[Point]: ...  # noqa: D102  # said above


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line: `y` at each `x`."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def over(self, other: "Curve") -> "Curve":
        """This line divided by another on the same `x`."""
        return Curve(self.name, self.x, tuple(a / b for a, b in zip(self.y, other.y, strict=True)))


@dataclass(frozen=True, slots=True)
class AgainstEpsilon:
    """Variance of the noise of one count, one cell a unit, against epsilon.

    Attributes:
        delta: of all points.
        families: the least of each family.
        floor: below which no integer noise is.
        over_floor: the families divided by the floor.
    """

    delta: float
    families: tuple[Curve, ...]
    floor: Curve
    over_floor: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """A range in which one kind of noise has the least variance."""

    kind: str
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class AgainstDraws:
    """Variance of one draw against the number of draws that share a guarantee.

    Attributes:
        guarantee: of all draws together.
        families: by family.
        chosen: the least over all families, shapes and cuts that the planner knows.
        over_chosen: the families divided by the chosen.
        bands: which kind is chosen where.
    """

    guarantee: PrivacyGuarantee
    families: tuple[Curve, ...]
    chosen: Curve
    over_chosen: tuple[Curve, ...]
    bands: tuple[Band, ...]


@dataclass(frozen=True, slots=True)
class Profiles:
    """delta(epsilon) of tables of one variance, that of Laplace noise which gives `epsilon` alone."""

    epsilon: float
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Separation:
    """Std of the least noise against delta at one epsilon.

    Attributes:
        epsilon: of all points.
        curves: by family; deltas fall along x.
        limits: level lines at the std with which a family reaches delta = 0; not every family does.
    """

    epsilon: float
    curves: tuple[Curve, ...]
    limits: tuple[Curve, ...]


def untracked(points: Sequence[Point], /) -> Iterable[Point]:
    """The points, in silence."""
    return points


def against_epsilon(
    delta: float, *, epsilons: Sequence[float] = EPSILONS, track: Track = untracked
) -> AgainstEpsilon:
    """The least variance of each family at sensitivity 1 in one cell, and the floor."""
    rows = [_variances(epsilon, delta) for epsilon in track(epsilons)]
    lines = [Curve(name, tuple(epsilons), tuple(row[name] for row in rows)) for name in rows[0]]
    floor = next(line for line in lines if line.name == FLOOR)
    families = tuple(line for line in lines if line is not floor)
    return AgainstEpsilon(delta, families, floor, tuple(line.over(floor) for line in families))


def against_cells(
    guarantee: PrivacyGuarantee, *, cells: Sequence[int] = CELLS, track: Track = untracked
) -> AgainstDraws:
    """Variance of each cell if one unit moves so many of them."""
    return _against_draws(guarantee, [(count, 1) for count in cells], cells, track)


def against_horizon(
    guarantee: PrivacyGuarantee, *, nights: Sequence[int] = NIGHTS, track: Track = untracked
) -> AgainstDraws:
    """Variance of each night, one cell a unit, if the guarantee is for so many nights."""
    return _against_draws(guarantee, [(1, count) for count in nights], nights, track)


def profiles(guarantee: PrivacyGuarantee, *, track: Track = untracked) -> Profiles:
    """Exact profiles of frozen tables whose variances agree."""
    epsilon = float(guarantee.epsilon)
    variance = 2 * (_PROFILE_SENSITIVITY / epsilon) ** 2
    families = {family.name: family for family in _FAMILIES} | {TRUNCATED: TruncatedLaplace(_PROFILE_CUT)}
    grid = tuple(3 * epsilon * i / _PROFILE_POINTS for i in range(_PROFILE_POINTS + 1))
    curves = []
    for name in track(tuple(families)):
        table = _table_of_variance(families[name], variance)
        curves.append(Curve(name, grid, tuple(table.privacy_delta(each) for each in grid)))
    return Profiles(epsilon, tuple(curves))


def separation(guarantee: PrivacyGuarantee, *, track: Track = untracked) -> Separation:
    """The std of continuous noise at its least scale as delta falls to 1e-100, and where it ends."""
    epsilon = float(guarantee.epsilon)
    ends = (SMALL_DELTAS[0], SMALL_DELTAS[-1])
    curves, limits = [], []
    for family in track(_FAMILIES):
        stds = tuple(_least_std(family, epsilon, delta) for delta in SMALL_DELTAS)
        curves.append(Curve(family.name, SMALL_DELTAS, stds))
        if math.isfinite(family.slope):
            limits.append(Curve(family.name, ends, (_least_std(family, epsilon, 0.0),) * 2))
    return Separation(epsilon, tuple(curves), tuple(limits))


def _variances(epsilon: float, delta: float) -> dict[str, float]:
    def least(family: Family) -> float:
        return calibrate_lattice(family, epsilon, delta, 1, 1).variance

    row = {family.name: least(family) for family in _PLAIN}
    between = min(least(Subbotin(p)) for p in SUBBOTIN_POWERS)
    return row | {
        BEST_SUBBOTIN: min(between, row[LAPLACE], row[GAUSSIAN]),  # its members p = 1 and p = 2
        TIGHTEST: tightest_table(epsilon, delta).variance,
        FLOOR: float(variance_floor(epsilon, delta, 1)),
    }


def _against_draws(
    guarantee: PrivacyGuarantee, draws: Sequence[tuple[int, int]], counts: Sequence[int], track: Track
) -> AgainstDraws:
    """Families and the choice for pairs of cells and nights; `counts` is what the picture calls them."""
    rows: list[dict[str, float]] = []
    kinds: list[str] = []
    for cells, nights in track(draws):
        parts = [_part(guarantee, cells, nights)]
        unit = parts[0].sensitivity ** 2
        choice = least_variance_jointly(parts, guarantee, horizon=nights)
        row = {
            family.name: calibrate_jointly(family, parts, guarantee, horizon=nights)[0].variance / unit
            for family in _FAMILIES
        }
        rows.append(row | {CHOSEN: choice.tables[0].variance / unit})
        kinds.append(choice.family.partition("(")[0])
    *families, chosen = (Curve(name, tuple(counts), tuple(row[name] for row in rows)) for name in rows[0])
    over = tuple(family.over(chosen) for family in families)
    return AgainstDraws(guarantee, tuple(families), chosen, over, winning_bands(counts, kinds))


def winning_bands(counts: Sequence[int], kinds: Sequence[str]) -> tuple[Band, ...]:
    """Neighbouring points of one kind as a range; ranges meet halfway, on a logarithmic axis."""
    between = [math.sqrt(a * b) for a, b in pairwise(counts)]
    edges = [counts[0], *between, counts[-1]]
    runs = [list(run) for _, run in groupby(range(len(kinds)), key=lambda i: kinds[i])]
    return tuple(Band(kinds[run[0]], edges[run[0]], edges[run[-1] + 1]) for run in runs)


def _part(guarantee: PrivacyGuarantee, cells: int, nights: int) -> Part:
    std = expected_std([Part(1, cells)], guarantee, horizon=nights)
    return Part(max(1, math.ceil(_STEPS_IN_A_STD / std)), cells)


def _table_of_variance(family: Family, variance: float) -> NoiseTable:
    """A table of this variance, within about 1e-6, in squared steps of the grid."""
    scale = math.sqrt(variance / family.variance)
    for _ in range(_CORRECTIONS):
        table = freeze(
            family,
            Fraction(1 / scale),
            math.floor(min(family.end, _FARTHEST) * scale),
            sensitivity=_PROFILE_SENSITIVITY,
            max_groups=1,
        )
        scale *= math.sqrt(variance / table.variance)
    return table


def _least_std(family: Family, epsilon: float, delta: float) -> float:
    return least_scale(family, epsilon, delta, 1) * math.sqrt(family.variance)
