"""One calibration for all totals of a request, its cells and its horizon; and the family of least variance.

Epsilon is not split among totals: the noise scales of all of them are proportional to one lambda, and the
composed loss of everything together meets the guarantee. Floats search, on coarse lattices; frozen tables
certify.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise.cutting import CUT_SHARE
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic, Subbotin
from dp_spark.noise.hyperbolic import Hyperbolic
from dp_spark.noise.lattice import NoiseTable
from dp_spark.noise.neighbours import Part
from dp_spark.noise.one_scale import certified, searched
from dp_spark.noise.request import Fixed, Found, Request, Shape, checked

__all__ = [
    "FIRST_FAMILIES",
    "Choice",
    "Fixed",
    "Part",
    "calibrate_jointly",
    "expected_std",
    "expected_variance",
    "least_variance_jointly",
]

_FIRST_CUT_SHARE = 0.5
_CUT_SHARES = (0.15, 0.8, 0.93, 0.98)
_BEND_RATIOS = {
    1: (Fraction(1, 2), Fraction(5, 3)),
    2: (Fraction(3, 4), Fraction(4, 3)),
    4: (Fraction(5, 6), Fraction(6, 5)),
}

# Where the search for the family of least variance starts; the best of each kind are then refined.
FIRST_FAMILIES: tuple[Family, ...] = (
    Gaussian(),
    Laplace(),
    Logistic(),
    *(Subbotin(Fraction(p, 4)) for p in (5, 6, 7)),
    *(Hyperbolic(Fraction(bend)) for bend in (2, 6)),
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


def calibrate_jointly(
    family: Family,
    parts: Sequence[Part],
    guarantee: PrivacyGuarantee,
    *,
    horizon: int = 1,
    cut_share: float = CUT_SHARE,
    fixed: Sequence[Fixed] = (),
) -> tuple[NoiseTable, ...]:
    """Tables of one family, one for each part, that together meet the guarantee `horizon` times over.

    Scales are lambda * sensitivity / weight for the one lambda at which the composed delta of the frozen
    tables is at most the wanted one and, within 1e-3, equal to it; or at which lambda is within 1e-6 of one
    that fails, where the profile is steeper than that. `cut_share` of delta may go to the cut of the tails.
    Tables in `fixed` are drawn beside them, as often, and have their part of the guarantee.

    Raises:
        PlanRefused: a parameter is out of range, or no tables of a reasonable size meet the guarantee.
    """
    request = checked(parts, guarantee, horizon, fixed)
    shape = Shape(family, cut_share)
    return certified(searched(shape, request), request)


def least_variance_jointly(
    parts: Sequence[Part],
    guarantee: PrivacyGuarantee,
    *,
    horizon: int = 1,
    cut_share: float | None = None,
    fixed: Sequence[Fixed] = (),
) -> Choice:
    """The tables of `calibrate_jointly` for the family, shape and cut of least mean relative variance.

    Each variance counts relative to (sensitivity / weight)^2. Laplace, logistic, Gaussian, Subbotin,
    hyperbolic and their truncations compete; the first of them that frozen tables certify is the winner.
    With a `cut_share`, all of them are cut to spend that share of delta, and tables are as short as that
    makes them. `fixed` as in `calibrate_jointly`.

    Raises:
        PlanRefused: as in `calibrate_jointly`, if no family has tables that fit.
    """
    request = checked(parts, guarantee, horizon, fixed)
    ranking = sorted(_candidates(request, cut_share), key=_variance_of)
    refusals: list[PlanRefused] = []
    for winner in ranking:
        try:
            tables = certified(winner, request)
        except PlanRefused as refusal:
            refusals.append(refusal)
            continue
        other = next((one for one in ranking if one.shape.kind != winner.shape.kind), winner)
        return Choice(tables, winner.shape.name, other.shape.name, other.variance / winner.variance)
    raise refusals[0]


def expected_std(parts: Sequence[Part], guarantee: PrivacyGuarantee, *, horizon: int = 1) -> float:
    """About the std that noise will have, per unit of sensitivity / weight: good to a factor of two or so.

    For choosing a grid before there is a plan: more than 1024 grid steps in a std only make tables large.
    Small numbers of cells, where Laplace noise wins, can come out several times below.
    """
    return checked(parts, guarantee, horizon).rough_scale()


def expected_variance(
    parts: Sequence[Part],
    guarantee: PrivacyGuarantee,
    *,
    families: Sequence[Family] = FIRST_FAMILIES,
    horizon: int = 1,
) -> float:
    """About the variance of noise to come, in units of (sensitivity / weight)^2, by the best of `families`.

    From the search in floats, without its refinements: for comparing two ways to price the same totals.

    Raises:
        PlanRefused: a parameter is out of range, or no tables of a reasonable size meet the guarantee.
    """
    request = checked(parts, guarantee, horizon)
    variances: list[float] = []
    refusals: list[PlanRefused] = []
    for family in families:
        try:
            variances.append(searched(Shape(family), request).variance)
        except PlanRefused as refusal:
            refusals.append(refusal)
    if not variances:
        raise refusals[0]
    return min(variances)


def _candidates(request: Request, cut_share: float | None) -> list[Found]:
    """Every shape tried: the first families, the best of each kind refined, and the leading ones cut."""
    first = CUT_SHARE if cut_share is None else cut_share
    found: list[Found] = []
    refusals: list[PlanRefused] = []

    def attempt(shapes: Iterable[Shape], start: float | None = None) -> None:
        for shape in shapes:
            if all(one.shape != shape for one in found):
                try:
                    found.append(searched(shape, request, start))
                except PlanRefused as refusal:
                    refusals.append(refusal)

    attempt(Shape(family, first) for family in FIRST_FAMILIES)
    if not found:
        raise refusals[0]
    for finer in (1, 2, 4):
        best = min(one.variance for one in found)
        for kind in (Subbotin, Hyperbolic):
            alike = [one for one in found if isinstance(one.shape.family, kind)]
            nearest = min(alike, key=_variance_of, default=None)
            if nearest and nearest.variance < (1 + 0.1 / finer) * best:
                near = _neighbours(nearest.shape.family, finer)
                attempt((Shape(family, first) for family in near), nearest.scale)
    if cut_share is not None:
        return found
    leading = sorted(found, key=_variance_of)[:2]
    laplace = [one for one in found if one.shape.kind == "laplace" and one not in leading]
    for one in leading + laplace:
        attempt([replace(one.shape, cut_share=_FIRST_CUT_SHARE)], one.scale)
        if found[-1].shape.family == one.shape.family and found[-1].variance < one.variance * 1.0005:
            attempt([replace(one.shape, cut_share=share) for share in _CUT_SHARES], found[-1].scale)
    return found


def _variance_of(found: Found) -> float:
    return found.variance


def _neighbours(family: Family, finer: int) -> list[Family]:
    """The same kind with a parameter somewhat smaller and somewhat larger."""
    if isinstance(family, Subbotin):
        near = (Fraction(family.p) + Fraction(sign, 8 * finer) for sign in (-1, 1))
        return [Subbotin(p) for p in near if 1 < p < 2]
    if isinstance(family, Hyperbolic):
        return [Hyperbolic(family.bend * ratio) for ratio in _BEND_RATIOS[finer]]
    return []
