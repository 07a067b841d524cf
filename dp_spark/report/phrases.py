"""Phrases about facts that console and page share, so that both say the same."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from dp_spark.guarantee import Neighbours
from dp_spark.release.pricing import Form
from dp_spark.report.clamps import BinFacts, ClampFacts
from dp_spark.report.facts import Amount, CostFacts, ReleaseFacts, SealedRelease
from dp_spark.report.figures import counted, exact, figures, listed_names
from dp_spark.report.group_words import groups, rollup
from dp_spark.report.totals import TotalFacts
from dp_spark.report.worth import QueryFacts

NO_LEDGER = "not known"
BY_SIZE, BY_LEVEL = "by size", "rollup"
SELECTING = "selecting the groups"
_NEIGHBOURS = {
    Neighbours.ADD_REMOVE: "added or removed",
    Neighbours.REPLACE: "replaced by those of another; how many units there are is public",
}


def title(facts: ReleaseFacts) -> str:
    """What the reader holds: a plan, or the statement of one release."""
    return f"Statement of {facts.sealed.release_id}" if facts.sealed else f"Plan of {facts.release}"


def lead(facts: ReleaseFacts) -> str:
    """One sentence under the title: what was promised to whom."""
    promised = f"{spending(facts.guarantee)}, for each {facts.unit}"
    number, queries = facts.groups.count, counted_queries(len(facts.queries))
    groups = f"groups that are {facts.groups.source}" if number is None else counted(number, "group")
    return f"{queries} for {groups}; {promised}"


def counted_queries(number: int) -> str:
    """The number of queries."""
    return "1 query" if number == 1 else f"{number:,} queries"


def promise(facts: ReleaseFacts) -> tuple[tuple[str, str], ...]:
    """The settings that make the guarantee, as (name, text)."""
    return (
        ("guarantee", f"{spending(facts.guarantee)}, each release"),
        ("unit", f"{facts.unit_rows}, {_NEIGHBOURS[facts.neighbours]}"),
        ("rows", f"of {facts.source}" + (f", where {facts.where}" if facts.where else "")),
        *(("derived", each) for each in facts.derived),
        ("period", f"one {facts.period} a release" if facts.period else "the whole input"),
        (
            "bounds",
            f"of each {facts.unit} at most {facts.bounds.in_words}" if facts.unit_columns else "a row",
        ),
        ("groups", groups(facts.groups)),
        *((("rollup", rollup(facts.rollup)),) if facts.rollup else ()),
        ("account", facts.population),
        *(("published", f"to {sink}") for sink in facts.sinks),
        *((("compared", facts.history),) if facts.history else ()),
        *_read(facts),
    )


def _read(facts: ReleaseFacts) -> Iterator[tuple[str, str]]:
    """The public bounds and bins of columns, each once with the queries that have them."""
    clamped: dict[ClampFacts, list[str]] = {}
    for each in facts.clamped:
        clamped.setdefault(replace(each, query=""), []).append(each.query)
    for bounds, queries in clamped.items():
        yield "weights" if bounds.weighs else "values", clamp(replace(bounds, query=listed_names(queries)))
    binned: dict[BinFacts, list[str]] = {}
    for of in facts.binned:
        binned.setdefault(replace(of, query=""), []).append(of.query)
    for bins, queries in binned.items():
        yield "bins", in_bins(replace(bins, query=listed_names(queries)))


def clamp(clamped: ClampFacts) -> str:
    """The bounds of a column in a query, or in queries."""
    low, high = exact(clamped.lower), exact(clamped.upper)
    step = exact(clamped.step)
    what = f"{clamped.column} added up by unit and group, then" if clamped.per_unit else clamped.column
    return f"{clamped.query}: {what} clamped to [{low}, {high}], in steps of {step}"


def in_bins(of: BinFacts) -> str:
    """The bins of a column in a query, or in queries."""
    if of.lower is None or of.upper is None:
        return f"{of.query}: {of.column} among {counted(of.bins, 'listed value')}"
    edges = f"from {exact(of.lower)} to {exact(of.upper)}"
    return f"{of.query}: {of.column} in {counted(of.bins, 'bin')} {edges}, what lies beyond in the outer ones"


def spending(amount: Amount) -> str:
    """An epsilon and a delta."""
    return f"epsilon {exact(amount.epsilon)}, delta {exact(amount.delta)}"


def useful(query: QueryFacts) -> str:
    """From which size on the std of the answer is small."""
    return f"{figures(query.useful.least)} {useful_unit(query)}"


def useful_unit(query: QueryFacts) -> str:
    """What the size of a useful answer counts."""
    return "in total" if query.useful.is_amount else query.useful.unit


def compared(facts: ReleaseFacts) -> tuple[tuple[str, str], ...]:
    """What the relative std refers to, as (share, text)."""
    groups: dict[str, list[QueryFacts]] = {}
    for query in facts.queries:
        groups.setdefault(query.useful.of, []).append(query)
    return tuple(
        (
            f"{figures(100 * queries[0].useful.relative_std)} %",
            f"of {of}: {listed_names([query.name for query in queries])}",
        )
        for of, queries in groups.items()
    )


def depending(facts: ReleaseFacts) -> tuple[tuple[str, str], ...]:
    """The std of the answers that have no constant one, as (what the tables say of it, text)."""
    return tuple(
        (BY_LEVEL if query.levels else BY_SIZE, f"{query.name}: std = {query.std_in_words}")
        for query in facts.queries
        if query.std is None
    )


def total_name(total: TotalFacts) -> str:
    """A total under the name of its query, and of its grouping where that is coarser."""
    return f"{total.query}: {total.component}" + (f" {total.level}" if total.level else "")


def std(query: QueryFacts) -> str:
    """The std of an answer as a table has it: that of a group where groupings differ."""
    if query.std is not None:
        return figures(query.std)
    return _of_groups(query, query.levels[0].std) if query.levels else BY_SIZE


def half_width(query: QueryFacts) -> str:
    """The half width likewise."""
    if query.half_width is not None:
        return figures(query.half_width)
    return _of_groups(query, query.levels[0].half_width) if query.levels else BY_SIZE


def _of_groups(query: QueryFacts, number: float) -> str:
    return f"<= {figures(number)}" if query.adds_up else figures(number)


def uses(total: TotalFacts) -> str:
    """What a total counts, and which queries share it."""
    shared = f"; of {listed_names(total.queries)}" if len(total.queries) > 1 else ""
    return f"{total.counts}{shared}"


def moves(total: TotalFacts) -> str:
    """What is priced: by how much neighbours differ in the groups of a total, at worst."""
    step, groups = exact(total.shift), counted(total.cells, "group")
    groups += f" (all {total.bins:,} cells of one together)" if total.bins > 1 else ""
    match total.form, total.overlap:
        case Form.SPREAD, None:
            return f"{groups}, each by {step}" if total.cells > 1 else f"{groups} by {step}"
        case Form.SPREAD, overlap:
            assert overlap is not None
            both = (
                f"by {exact(overlap)} where both have rows" if overlap else "by nothing where both have rows"
            )
            return f"{groups} of each of two units, each by {step}; {both}"
        case _:
            together = (
                "all groups together" if total.cells == 1 else "all groups of each of two units, together"
            )
            return f"{together} by {step}, whichever they are"


def decision(facts: ReleaseFacts) -> str:
    """Why the noise is as it is."""
    made = facts.decision
    texts = [f"Noise: {made.family}"]
    if made.runner_up is not None and made.ratio is not None:
        texts.append(f"next best: {made.runner_up}, with {made.ratio:.4f} times its variance")
    if made.over_floor is not None:
        texts.append(f"no integer noise can have less than 1/{figures(made.over_floor, 4)} of its variance")
    return "; ".join(texts) + "."


def together(facts: ReleaseFacts) -> str:
    """How the totals share the guarantee."""
    selection = facts.groups.selection
    selecting = None if selection is None else selection.epsilon_alone
    if len(facts.totals) == 1 and selecting is None:
        return "The one total has the whole guarantee."
    alone = figures(sum(each.epsilon_alone for each in facts.totals) + (selecting or 0.0), 3)
    totals = "The total" if len(facts.totals) == 1 else f"All {len(facts.totals):,} totals"
    beside = "" if selecting is None else " and what selects the groups"
    return (
        f"{totals}{beside} are calibrated together: composed they cost epsilon "
        f"{exact(facts.guarantee.epsilon)} at delta {exact(facts.guarantee.delta)}; alone, at that delta, "
        f"they would cost what stands here, {alone} in all."
    )


def ledger(cost: CostFacts) -> tuple[tuple[str, str], ...]:
    """Charge and account, as (name, text)."""
    has_schedules = cost.scheduled.epsilon > 0
    return (
        ("charged" if cost.charged else "charge", _charge(cost)),
        ("limit", spending(cost.limit)),
        *((("scheduled", spending(cost.scheduled)),) if has_schedules else ()),
        ("spent", spending(cost.spent) + (" of the pools" if has_schedules else "")),
        _left(cost),
        ("slots left" if cost.slots else "that pays", _releases(cost)),
    )


def _left(cost: CostFacts) -> tuple[str, str]:
    """What is left, without the release where that does not fit: a negative budget is none."""
    if cost.charged or cost.slots:
        return "left", spending(cost.left_after)
    if min(cost.left_after.epsilon, cost.left_after.delta) < 0:
        return "left", spending(cost.left)
    return "left after", spending(cost.left_after)


def _charge(cost: CostFacts) -> str:
    if cost.slots is not None:
        taken = f"{cost.slots.taken} of {counted(cost.slots.slots, 'slot')} taken"
        return f"a slot of schedule {cost.slots.schedule}, {taken}; by itself {spending(cost.charge)}"
    return spending(cost.charge) + ("" if cost.pool is None else f", of the pool of {cost.pool}")


def price(facts: ReleaseFacts) -> tuple[tuple[str, str], ...]:
    """Charge and account where no ledger says what is left, as (name, text)."""
    return (("charge", spending(facts.guarantee)), ("left", NO_LEDGER))


def _releases(cost: CostFacts) -> str:
    """What the account can still pay."""
    if cost.slots is not None:
        return counted(cost.releases_that_fit, "release" if not cost.charged else "more release")
    if cost.charged:
        return f"{counted(cost.releases_that_fit, 'more release')} of this cost"
    if cost.releases_that_fit == 0:
        return "nothing: this release does not fit; raise the limit, or ask for at most what is left"
    return f"{counted(cost.releases_that_fit, 'release')} of this cost, this one included"


def outcome(sealed: SealedRelease) -> tuple[tuple[str, str], ...]:
    """What became of a release, as (name, text)."""
    return (
        ("id", sealed.release_id),
        ("state", sealed.state),
        ("rows", f"SHA-256 {sealed.artefact_digest}"),
        *(("published", place) for place in sealed.published),
        *((("read", f"version {sealed.source_version}"),) if sealed.source_version else ()),
        ("reserved", _moment(sealed.reserved_at)),
        ("sealed", _moment(sealed.sealed_at) if sealed.sealed_at else "not yet"),
        ("made by", f"dp_spark {sealed.dp_spark_version}"),
    )


def _moment(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
