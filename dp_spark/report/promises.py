"""The promise of a release in plain words, and what it does not cover."""

import math

from dp_spark.guarantee import Every, Neighbours
from dp_spark.release.plan import COVERAGE, ReleasePlan
from dp_spark.report.clamps import value_of, weight_of
from dp_spark.report.figures import exact, figures
from dp_spark.report.query_limits import limits_of_queries
from dp_spark.report.units import bounds_words, rows_of, somebody, unit_words

# The most units of a period that one person can be in one release.
_UNITS_IN_RELEASE = {
    (Every.DAY, Every.WEEK): 7,
    (Every.DAY, Every.MONTH): 31,
}


def protects(plan: ReleasePlan) -> tuple[str, ...]:
    """What the guarantee means for a unit, in one release and over many."""
    spec, unit = plan.spec, plan.spec.unit.protected
    epsilon, delta = exact(plan.guarantee.epsilon), exact(plan.guarantee.delta)
    where = "the input" if spec.period is None else f"the {spec.period.every} that a release covers"
    rows = rows_of(unit)
    it = "it" if unit.is_row else "them"
    hidden = {
        Neighbours.ADD_REMOVE: f"with {it} or without {it}",
        Neighbours.REPLACE: f"with {it}, or with {'any other row' if unit.is_row else 'those of any other'} "
        f"in {'its' if unit.is_row else 'their'} place",
    }[spec.neighbours]
    texts = [
        f"{rows[0].upper()}{rows[1:]} in {where}, whatever {'it holds' if unit.is_row else 'they hold'}: "
        f"{hidden}, any published outcome is at most e^{epsilon} = "
        f"{figures(math.exp(plan.guarantee.epsilon), 3)} times as probable, but for an extra probability of "
        f"{delta}."
    ]
    if spec.neighbours is Neighbours.REPLACE:
        texts.append("How many units there are is public: it is not protected.")
    in_many = "a row that N of them read" if unit.is_row else f"a {unit_words(unit)} with rows in N of them"
    texts.append(
        f"Releases add up: for {in_many} it is at most N times epsilon {epsilon} and N times delta {delta}. "
        f"Over time, the limit of the account {spec.budget.population} is what protects."
    )
    return (*texts, *_not_the_person(plan))


def _not_the_person(plan: ReleasePlan) -> tuple[str, ...]:
    """What a unit smaller than a person means for a person."""
    spec, unit = plan.spec, plan.spec.unit.protected
    if unit.is_row:
        return (
            "Each row is protected by itself, nobody as the whole of their rows: for somebody with N rows "
            "epsilon counts N times, delta more than N times.",
        )
    if unit.per is None:
        return ()
    texts = [
        f"The protection is of each {unit_words(unit)}, not of a {somebody(unit)}: for a {somebody(unit)} "
        f"with rows in N {unit.per}s epsilon counts N times, delta more than N times."
    ]
    most = _UNITS_IN_RELEASE.get((unit.per, spec.period.every)) if spec.period else None
    if spec.period and most:
        epsilon = exact(most * plan.guarantee.epsilon)
        texts.append(
            f"In one release that is up to {most} {unit.per}s of a {spec.period.every}: epsilon {epsilon} "
            f"for a {somebody(unit)} with rows on all of them."
        )
    return tuple(texts)


def limits(plan: ReleasePlan) -> tuple[str, ...]:
    """What neither the guarantee nor the intervals cover; only what is true of this plan."""
    return (
        *_limits_of_intervals(plan),
        *_limits_of_rows(plan),
        *limits_of_queries(plan),
        *_limits_of_guarantee(plan),
    )


def _limits_of_intervals(plan: ReleasePlan) -> tuple[str, ...]:
    unit = plan.spec.unit.protected
    lost = [] if unit.is_row else [f"by using at most {bounds_words(plan.bounds)} of a {unit_words(unit)}"]
    clamps = any(value_of(each.query) or weight_of(each.query) for each in plan.queries)
    lost += ["by clamping values, weights, or totals of units, to their bounds"] if clamps else []
    missing = f" What is lost {', or '.join(lost)}, is not in them." if lost else ""
    return (
        f"Intervals cover the noise alone.{missing}",
        f"Each interval holds by itself: up to {figures((1 - COVERAGE) * 100)} in 100 may miss the number "
        "they are about.",
    )


def _limits_of_rows(plan: ReleasePlan) -> tuple[str, ...]:
    null = " or ".join(plan.spec.unit.columns)
    label = plan.spec.groups.null_label
    groups = (
        [] if plan.has_other else [f"not among the {'public' if plan.selection is None else 'selected'} ones"]
    )
    group = " or ".join([*(["NULL"] if label is None else []), *groups])
    reasons = [*([f"their {null} is NULL"] if null else []), *([f"their group is {group}"] if group else [])]
    texts = [f"Rows count for nothing if {', or if '.join(reasons)}."] if reasons else []
    if label is not None:
        texts.append(f"A NULL in a group column counts as {label!r}, like that text itself.")
    return tuple(texts)


def _limits_of_guarantee(plan: ReleasePlan) -> tuple[str, ...]:
    columns = " and ".join(plan.spec.unit.columns)
    several = (
        f"Someone behind N values of {columns} is N units: epsilon counts N times for them, delta more than "
        "N times.",
    )
    groups = plan.spec.groups
    listed = ("That the list of groups is public is the operator's word: what it tells is not protected.",)
    return (
        *(several if columns else ()),
        *(listed if groups.files or groups.public_table is not None else ()),
        "The same people under another population have another account; the two are not added up.",
        "The guarantee is computational: noise comes from a keyed stream, so it holds against everyone who "
        "does not have the key of the release.",
    )
