"""The promise of a release in plain words, and what it does not cover."""

import math

from dp_spark.queries import Mean, Sum
from dp_spark.release.plan import COVERAGE, ReleasePlan
from dp_spark.report.figures import counted, exact, figures


def protects(plan: ReleasePlan) -> tuple[str, ...]:
    """What the guarantee means for a unit (add_remove), in one release and over many."""
    spec, unit = plan.spec, plan.spec.unit.column
    epsilon, delta = spec.guarantee.epsilon, spec.guarantee.delta
    where = "the input" if spec.period is None else f"the {spec.period.every} that a release covers"
    return (
        f"All rows of one {unit} in {where}, whatever they hold: with them or without them, any published "
        f"outcome is at most e^{exact(epsilon)} = {figures(math.exp(epsilon), 3)} times as probable, "
        f"but for an extra probability of {exact(delta)}.",
        f"Releases add up: for a {unit} with rows in N of them it is N times epsilon {exact(epsilon)} and N "
        f"times delta {exact(delta)}. Over time, the limit of the account "
        f"{spec.budget.population} is what protects.",
    )


def limits(plan: ReleasePlan) -> tuple[str, ...]:
    """What neither the guarantee nor the intervals cover; only what is true of this plan."""
    return (*_limits_of_intervals(plan), *_limits_of_rows(plan), *_limits_of_guarantee(plan))


def _limits_of_intervals(plan: ReleasePlan) -> tuple[str, ...]:
    bounds, unit = plan.spec.bounds, plan.spec.unit.column
    groups, rows = counted(bounds.max_groups, "group"), counted(bounds.max_rows_per_group, "row")
    clamped = ", or by clamping values to their bounds" if _columns(plan) else ""
    return (
        f"Intervals cover the noise alone. What is lost by using at most {groups} of a {unit} and {rows} in "
        f"each{clamped}, is not in them.",
        f"Each interval holds by itself: up to {figures((1 - COVERAGE) * 100)} in 100 may miss the number "
        "they are about.",
    )


def _limits_of_rows(plan: ReleasePlan) -> tuple[str, ...]:
    spec = plan.spec
    texts = [
        f"Rows count for nothing if their {spec.unit.column} is NULL, or if their group is NULL or not among "
        "the public ones."
    ]
    if columns := _columns(plan):
        names = " or ".join(columns)
        texts.append(
            f"In sums and means, a value of {names} that is NULL, NaN or no number counts for nothing; an "
            "infinite one counts as the bound."
        )
    return tuple(texts)


def _limits_of_guarantee(plan: ReleasePlan) -> tuple[str, ...]:
    unit = plan.spec.unit.column
    return (
        f"Someone behind N values of {unit} is N units: epsilon counts N times for them, delta more than N "
        "times.",
        "The same people under another population have another account; the two are not added up.",
        "The guarantee is computational: noise comes from a keyed stream, so it holds against everyone who "
        "does not have the key of the release.",
    )


def _columns(plan: ReleasePlan) -> tuple[str, ...]:
    """Columns that sums and means read, once each."""
    read = (query.query.of.column for query in plan.queries if isinstance(query.query, Sum | Mean))
    return tuple(dict.fromkeys(read))
