"""How the losses of several cells, of several queries and of many nights add up."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import wide
from dp_spark.noise.accountant import Bracket, fft_delta, fft_epsilon, grid_step
from dp_spark.noise.losses import GridLaw, LossLaw, Repeated, loss_law, mirrored, on_grid

if TYPE_CHECKING:
    from dp_spark.noise.lattice import NoiseTable

# Of delta, relative: what connect-the-dots may add.
PRECISION = 2e-4
_COARSE = 4e-3  # the same, to see which of several cases is the worst
_TRUNCATED = 1e-15  # dp-accounting's own default; where this is not small against delta it floors delta
_RESOLVED_BITS = 44
_GOOGLE_FFT_ERROR = 2.0**-49  # times log2(size): relative l2 error of its transforms


@dataclass(frozen=True, slots=True)
class Slot:
    """`cells` cells of one table, each moved by `shift` steps, released `times` times.

    `shift` is the sensitivity of the table unless it is given.

    Raises:
        ValueError: a number is below 1.
    """

    table: "NoiseTable"
    cells: int = 1
    times: int = 1
    shift: int | None = None

    def __post_init__(self) -> None:
        if self.cells < 1 or self.times < 1 or self.distance < 1:
            raise ValueError(f"a slot of {self.cells} cells, {self.times} times, at shift {self.distance}")

    @property
    def distance(self) -> int:
        """Grid steps by which each cell moves."""
        return self.table.sensitivity if self.shift is None else self.shift

    @property
    def draws(self) -> int:
        """How many independent losses the slot has."""
        return self.cells * self.times


def dominating_shift(sensitivity: int, max_groups: int) -> int:
    """The shift of one coordinate that costs at least as much as all cells that a unit can move.

    Claim: independent, identically distributed, symmetric log-concave noise on the integers, shifts with
    sum of abs(d_i) <= D: the product is dominated, at every epsilon, by one coordinate shifted by D.
    Here at most `max_groups` cells move by at most `sensitivity` steps each, so D is their product.

    Precondition: symmetric and log-concave, which the families and truncation at -K, K guarantee; a frozen
    table departs from it by at most one unit per entry, and `NoiseTable.privacy_delta` adds what that costs.

    Why: likelihood ratios are monotone, so one nest of threshold tests is optimal for every shift and the
    trade-off functions satisfy T_{a+b} = T_a o (1 - T_b); the hybrid argument, one coordinate at a time,
    bounds the product by that composition. Signs do not matter: reflect coordinates.
    """
    return sensitivity * max_groups


def basic_sum(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
    """The exact sum of the epsilons and of the deltas; holds for adaptively chosen releases as well.

    Raises:
        ValueError: there is nothing to add, or the deltas reach 1 (no guarantee is left).
    """
    terms = list(guarantees)
    return PrivacyGuarantee(
        epsilon=sum((term.epsilon for term in terms), start=Fraction(0)),
        delta=sum((term.delta for term in terms), start=Fraction(0)),
    )


def table_law(table: "NoiseTable", shift: int) -> LossLaw:
    """The loss of one cell of the frozen table moved by `shift`; by symmetry of both directions."""
    with np.errstate(divide="ignore"):
        logs = np.log(wide.to_floats(table.weights))
    return loss_law(mirrored(logs), shift)


def slot_laws(slots: Sequence[Slot]) -> list[Repeated]:
    """The laws of the slots, one for each distinct table and shift, with how often it is drawn."""
    draws: dict[tuple[int, int], int] = {}
    tables: dict[int, NoiseTable] = {}
    for slot in slots:
        tables[id(slot.table)] = slot.table
        key = (id(slot.table), slot.distance)
        draws[key] = draws.get(key, 0) + slot.draws
    return [Repeated(table_law(tables[table], shift), count) for (table, shift), count in draws.items()]


def composed_delta(slots: Sequence[Slot], epsilon: Fraction | float) -> float:
    """An upper bound of delta at `epsilon` >= 0 of everything in `slots`, all of it fixed in advance.

    The larger of two accountants on the same grid: dp-accounting (pessimistic), and the upper end of our own
    `fft_composed_delta`, which carries its float error and what one unit of a weight may hide of smaller
    shifts. Not a filter: see math.md section 3.

    Raises:
        ArithmeticError: dp-accounting, with the float error of its transforms, stays below what the other
            proves to be reached.
    """
    own, google = fft_composed_delta(slots, epsilon), google_composed_delta(slots, epsilon)
    if google.upper < own.lower * (1 - 1e-6):
        raise ArithmeticError(f"two accountants disagree: {google.upper:.9g} is below {own.lower:.9g}")
    return max(google.lower, own.upper)


def slots_delta(cases: Sequence[Sequence[Slot]], epsilon: Fraction | float) -> float:
    """An upper bound of delta at `epsilon` in every case: by both accountants in the worst, by ours in all.

    A bound on a coarser grid is a bound: only cases in which that is above what the worst costs are looked
    at more closely.
    """
    if len(cases) == 1:
        return composed_delta(cases[0], epsilon)
    bounds = [fft_composed_delta(case, epsilon, precision=_COARSE).upper for case in cases]
    first, *rest = sorted(range(len(cases)), key=lambda index: -bounds[index])
    largest = composed_delta(cases[first], epsilon)
    for index in rest:
        if bounds[index] > largest:
            largest = max(largest, composed_delta(cases[index], epsilon))
    return largest


def slots_epsilon(cases: Sequence[Sequence[Slot]], delta: float) -> float:
    """An epsilon >= 0, hardly above the least, at which `slots_delta` is at most `delta`, or infinity."""
    worst = cases[0]
    if len(cases) > 1:
        worst = max(cases, key=lambda case: fft_epsilon(slot_laws(case), delta, precision=_COARSE))
    epsilon = composed_epsilon(worst, delta)
    for widen in (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        wider = epsilon * (1 + widen)
        if not math.isfinite(epsilon) or slots_delta(cases, wider) <= delta:
            return wider
    raise ArithmeticError(f"no epsilon near {epsilon:.6g} was certified")


def google_composed_delta(slots: Sequence[Slot], epsilon: Fraction | float) -> Bracket:
    """Delta by dp-accounting with the slack of freezing: as it computes it, and with its float error added.

    The error bounds a sum over bins by the root of their number times the l2 error of the transform: large
    where many draws meet a small delta.
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon = {epsilon} must not be negative")
    laws, slack = slot_laws(slots), freezing_slack(slots, float(epsilon))
    at = max(0.0, float(epsilon) - slack.epsilon)
    composed, error = _google_composed(laws, grid_step(laws, at, PRECISION))
    computed = max(float(composed.get_delta_for_epsilon(at)), 0.0) * (1 + slack.epsilon) + slack.delta
    return Bracket(min(1.0, computed), min(1.0, computed + error))


def composed_epsilon(slots: Sequence[Slot], delta: Fraction | float) -> float:
    """An epsilon >= 0, hardly above the least, at which `composed_delta` is at most `delta`.

    Infinity if there is none: a cut has more mass than `delta`.
    """
    laws, wanted = slot_laws(slots), float(delta)
    epsilon = fft_epsilon(laws, wanted, precision=PRECISION)
    if not math.isfinite(epsilon):
        return math.inf
    for widen in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        slack = freezing_slack(slots, epsilon)
        if slack.delta >= wanted:
            return math.inf
        if composed_delta(slots, epsilon) <= wanted:
            return epsilon
        epsilon = epsilon * (1 + widen) + 1e-9
    raise ArithmeticError(f"no epsilon near {epsilon:.6g} was certified")


def fft_composed_delta(
    slots: Sequence[Slot], epsilon: Fraction | float, *, precision: float = PRECISION
) -> Bracket:
    """Bounds of the same delta by the accountant of this package, which shares no code beyond the grid laws.

    Both ends are for shifts of exactly the stated size; the upper one has the slack of freezing added.
    """
    laws, slack = slot_laws(slots), freezing_slack(slots, float(epsilon))
    at = max(0.0, float(epsilon) - slack.epsilon)
    lower, upper = fft_delta(laws, at, precision=precision)
    return Bracket(lower, min(1.0, upper * (1 + slack.epsilon) + slack.delta))


class Slack(NamedTuple):
    """How much is added to epsilon and delta for what a frozen weight errs."""

    epsilon: float
    delta: float


def freezing_slack(slots: Sequence[Slot], epsilon: float) -> Slack:
    """What covers smaller shifts: weights are within one unit, 2^-128, of a log-concave law.

    The lesser of two bounds for k draws. Additive: k entries (1 + e^epsilon) units. Multiplicative, for
    large epsilon: weights of at least 2^44 units err by r = 2^-44, so on them losses err by 2 r a draw, there
    and back, and delta by a factor within 1 + the slack in epsilon; the mass under either law where one of
    the two weights is smaller is counted whole, twice. Both compare with the log-concave law truncated at
    the support that is drawn; a shift smaller than the resolved support has no more unresolved mass.
    """
    entries = sum(slot.draws * slot.table.entries for slot in slots)
    additive = entries * (1 + math.exp(min(epsilon, 700.0))) * 2.0**-wide.BITS
    if additive < 1e-20:
        return Slack(0.0, additive * (1 + 1e-9))
    other = multiplicative_slack(slots)
    return Slack(0.0, additive * (1 + 1e-9)) if additive <= other.delta / 2 else other


def multiplicative_slack(slots: Sequence[Slot]) -> Slack:
    """The second of the two bounds of `freezing_slack`, the same at every epsilon."""
    draws = sum(slot.draws for slot in slots)
    scarce = sum(slot.draws * _unresolved(slot) for slot in slots)
    return Slack(4 * draws * 2.0**-_RESOLVED_BITS * (1 + 1e-9), 2 * scarce * (1 + 1e-9))


def _unresolved(slot: Slot) -> float:
    """Mass of finite loss where a weight, or the one `distance` away, is below 2^44 units."""
    half = slot.table.weights
    large = (half[:, 0] > 0) | (half[:, 1] >= 2**_RESOLVED_BITS)
    masses, resolved = mirrored(wide.to_floats(half)), mirrored(large.astype(np.float64)) > 0
    shift = slot.distance
    if shift >= len(masses):
        return 0.0
    return float(masses[:-shift][~(resolved[:-shift] & resolved[shift:])].sum())


def google_pmf(law: GridLaw) -> Any:
    """The law as the pessimistic loss distribution of dp-accounting."""
    from dp_accounting.pld import pld_pmf  # noqa: PLC0415 - 2.6 s that most commands need not wait for

    return pld_pmf.DensePLDPmf(law.step, law.lowest, law.masses.copy(), law.infinite, True)


def _google_composed(laws: Sequence[Repeated], step: float) -> tuple[Any, float]:
    """All laws composed by dp-accounting, and a bound of the float error of any delta read from it."""
    composed, error = None, 0.0
    for law, times in laws:
        grid = on_grid(law, step)
        one = google_pmf(grid)
        many = one.self_compose(times, _TRUNCATED) if times > 1 else one
        norm = math.sqrt(float(np.sum(grid.masses**2)))
        rounding = _GOOGLE_FFT_ERROR * math.log2(many.size + 2) * math.sqrt(many.size)
        error += times * rounding * norm if times > 1 else 0.0
        composed = many if composed is None else composed.compose(many)
    return composed, error
