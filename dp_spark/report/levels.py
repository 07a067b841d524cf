"""The coarser groupings of a release in words."""

from dataclasses import dataclass

from dp_spark.release.plan import ReleasePlan


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """A coarser grouping that a rollup adds.

    Attributes:
        columns: the columns of group_by that it keeps; none for the total.
        in_words: `by region`, `in all`.
        most_groups: of its groups a unit is in at most so many.
        most_rows_in_group: of its rows, so many count in one of them.
    """

    columns: tuple[str, ...]
    in_words: str
    most_groups: int
    most_rows_in_group: int


def level_facts(plan: ReleasePlan) -> tuple[LevelFacts, ...]:
    """The coarser groupings, in the order of the spec."""
    bounds = plan.bounds
    return tuple(
        LevelFacts(columns, _words(columns), bounds.most_groups if columns else 1, bounds.most_rows)
        for columns in plan.spec.rollup or ()
    )


def level_words(plan: ReleasePlan, level: int) -> str:
    """What level `level` groups by; empty for the groups of the release."""
    return _words((plan.spec.rollup or ())[level - 1]) if level else ""


def _words(columns: tuple[str, ...]) -> str:
    return f"by {', '.join(columns)}" if columns else "in all"
