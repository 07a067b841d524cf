"""Which noise a release gets: the law of least variance for the whole request, and how good it is."""

from collections.abc import Sequence
from fractions import Fraction

from dp_spark.errors import PlanRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import (
    Family,
    Fixed,
    NoiseTable,
    Part,
    calibrate_jointly,
    family_named,
    least_variance_jointly,
    tightest_table,
    variance_floor,
)
from dp_spark.noise.cutting import CUT_SHARE
from dp_spark.noise.joint import FIRST_FAMILIES
from dp_spark.release.plan import NoiseDecision
from dp_spark.release.spec.values import AUTO_NOISE

# The linear program of the floor is of moderate size up to this sensitivity and down to this epsilon.
_LEAST_FLOOR = 1e-6  # below this its solver's own error counts
_LARGEST_SENSITIVITY, _LEAST_EPSILON = 64, Fraction(1, 100)


def families_of(noise: str) -> tuple[Family, ...]:
    """The laws that a spec leaves open, as far as they are tried first."""
    return FIRST_FAMILIES if noise == AUTO_NOISE else (family_named(noise),)


def decided_noise(
    noise: str,
    parts: Sequence[Part],
    guarantee: PrivacyGuarantee,
    horizon: int = 1,
    *,
    fixed: Sequence[Fixed] = (),
    cut_share: float | None = None,
) -> tuple[tuple[NoiseTable, ...], NoiseDecision]:
    """A table for each part, certified together for `horizon` releases, and the reasons.

    `fixed` tables are drawn beside them; with a `cut_share` of delta, tables are cut as short as that allows.

    Raises:
        PlanRefused: no tables of a reasonable size meet the guarantee.
    """
    if noise != AUTO_NOISE:
        cut = CUT_SHARE if cut_share is None else cut_share
        tables = calibrate_jointly(
            family_named(noise), parts, guarantee, horizon=horizon, cut_share=cut, fixed=fixed
        )
        floor = _over_floor(tables, parts, guarantee) if horizon == 1 and not fixed else None
        return tables, NoiseDecision(noise, over_floor=floor)
    choice = least_variance_jointly(parts, guarantee, horizon=horizon, cut_share=cut_share, fixed=fixed)
    tables, family = choice.tables, choice.family
    if horizon > 1 or fixed:
        return tables, NoiseDecision(family, choice.runner_up, choice.ratio)
    if _is_one_cell(parts) and parts[0].sensitivity == 1:
        tightest = _tightest(guarantee)
        if tightest is not None and tightest.variance < tables[0].variance:
            tables, family = (tightest,), f"truncated {tightest.family}"
    over_floor = _over_floor(tables, parts, guarantee)
    return tables, NoiseDecision(family, choice.runner_up, choice.ratio, over_floor)


def _tightest(guarantee: PrivacyGuarantee) -> NoiseTable | None:
    try:
        return tightest_table(guarantee.epsilon, guarantee.delta)
    except PlanRefused:
        return None


def _is_one_cell(parts: Sequence[Part]) -> bool:
    return len(parts) == 1 and parts[0].most_cells == 1


def _over_floor(
    tables: Sequence[NoiseTable], parts: Sequence[Part], guarantee: PrivacyGuarantee
) -> float | None:
    """Variance over the least of any integer noise, for one total in one group; else nothing is known."""
    moderate = guarantee.epsilon >= _LEAST_EPSILON and parts[0].sensitivity <= _LARGEST_SENSITIVITY
    if not _is_one_cell(parts) or not moderate:
        return None
    try:
        floor = variance_floor(guarantee.epsilon, guarantee.delta, parts[0].sensitivity)
    except PlanRefused:  # what is only told must not decide
        return None
    return float(tables[0].variance / floor) if floor > _LEAST_FLOOR else None
