"""What is said of groups: where they are from, how private ones are selected, what a rollup adds."""

from dp_spark.report.figures import counted, figures
from dp_spark.report.groups import GroupFacts, SelectionFacts
from dp_spark.report.levels import LevelFacts


def groups(facts: GroupFacts) -> str:
    """The groups: `1,234 by town; public, from public_file towns.csv, sha256 9f...: a; b, ...`."""
    by = f"by {', '.join(facts.columns)}; {'' if facts.selected else 'public, '}{facts.source}"
    if facts.count is None:
        return by
    digest = "" if facts.digest is None else f", sha256 {facts.digest}"
    first = "; ".join(" / ".join(key) for key in facts.first)
    more = ", ..." if facts.count > len(facts.first) else ""
    return f"{facts.count:,} {by}{digest}" + (f": {first}{more}" if first else "")


def rollup(levels: tuple[LevelFacts, ...]) -> str:
    """The coarser groupings: `by region; in all`."""
    return "; ".join(each.in_words for each in levels)


def probabilities(selection: SelectionFacts) -> tuple[tuple[str, str], ...]:
    """How likely groups are released, as (units, probability)."""
    return (
        ("1", _probability(selection.one_unit)),
        *((f"{each.units:,}", f"{figures(100 * each.probability)} % or more") for each in selection.released),
    )


def rule(selection: SelectionFacts) -> str:
    """What is selected, and by which noise."""
    never = f"; a group of fewer than {selection.min_units:,} never is" if selection.min_units > 1 else ""
    return (
        f"A group is released if its number of units plus noise is {selection.threshold:,} or more{never}. "
        f"The noise is {selection.family}, within +-{selection.largest:,}, of std {figures(selection.std)}: "
        "it alone releases no group."
    )


def consequences(selection: SelectionFacts, levels: tuple[LevelFacts, ...]) -> tuple[str, ...]:
    """What follows from groups being private, in sentences."""
    others = "their rows are in no total"
    if selection.other is not None:
        others = f"all of their rows count in the group {selection.other!r}, and are bounded there as in one"
    texts = [
        _cost(selection),
        "Which groups are released, and how many rows the table has, are private outputs: the guarantee "
        "covers them.",
        f"Groups that are not selected are not published; {others}.",
        "Selecting is a pass of its own over the rows: units are bounded over all groups there, and for the "
        "totals anew over the groups that were selected" + (" and the others." if selection.other else "."),
        *(("Coarser groups hold what these groups hold, and no other rows.",) if levels else ()),
    ]
    return tuple(texts)


def levels(facts: tuple[LevelFacts, ...]) -> tuple[str, ...]:
    """What one unit may be in each coarser grouping, and how these hang together, in sentences."""
    return (
        *(
            f"Grouped {each.in_words}, a unit is in at most {counted(each.most_groups, 'group')}, with at "
            f"most {counted(each.most_rows_in_group, 'row')} in one."
            for each in facts
        ),
        "Every total has noise of its own in each grouping, and is paid for there. Then those that add up "
        "are made consistent by least squares: noise becomes less, by how much stands in each row.",
    )


def _cost(selection: SelectionFacts) -> str:
    if selection.epsilon_alone is None:
        return (
            f"The noisy units of {selection.shared_with} select, and are released: that costs nothing beside "
            "the query."
        )
    return (
        f"Its cost is part of the guarantee: alone, at its delta, epsilon {figures(selection.epsilon_alone)}."
    )


def _probability(probability: float) -> str:
    return "never" if probability == 0 else f"{figures(100 * probability, 3)} %"
