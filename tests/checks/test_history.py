"""A staged release beside earlier ones: what holds it, what warns, and what no text says."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from artefacts import SPEC, artefact, with_cell, with_column

from dp_spark.checks import Comparison, Earlier, Finding, HistoryCheck, Past, compare
from dp_spark.checks.history import chance_of_same
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import HistorySpec, parse_spec

BEFORE = "nyc_planes/flights/2013-01-04/0"
RULE = HistorySpec(against="previous", max_change="0.5", plus_sigma=4)


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_release(parse_spec(SPEC))


@pytest.fixture(scope="module")
def then(plan: ReleasePlan) -> pa.Table:
    """Totals of 100,000 steps and more, so that noise is small beside half of them."""
    return artefact(plan)


def moved(table: pa.Table, factor: float = 1.01) -> pa.Table:
    """Every value a little otherwise."""
    for name in ("flights", "miles", "mean_delay"):
        kind = table.schema.field(name).type
        values = pc.multiply(table[name].cast(pa.float64()), factor)
        values = values if pa.types.is_float64(kind) else pc.round(values).cast(kind)
        table = with_column(table, name, values.combine_chunks())
    return table


def found(now: pa.Table, then: pa.Table, plan: ReleasePlan, rule: HistorySpec = RULE) -> tuple[Finding, ...]:
    earlier = Earlier(BEFORE, then, "staged")
    return compare(now, plan, rule, Past(newest=earlier, like=earlier)).findings


def test_a_release_that_moved_a_little_shows_nothing(plan: ReleasePlan, then: pa.Table) -> None:
    assert found(moved(then), then, plan) == ()


def test_the_same_values_again_hold_it_in_whatever_order(plan: ReleasePlan, then: pa.Table) -> None:
    shuffled = then.take(list(reversed(range(len(then)))))
    (finding,) = found(then, shuffled, plan)
    assert (finding.check, finding.blocks) == (HistoryCheck.IDENTICAL_VALUES, True)
    assert str(finding) == f"history: the released values are those of {BEFORE}"


def test_one_value_that_differs_by_a_step_is_no_repetition(plan: ReleasePlan, then: pa.Table) -> None:
    one = with_cell(then, "flights", 2, then["flights"][2].as_py() + 1)
    assert found(one, then, plan) == ()


def test_few_values_with_little_noise_repeat_by_chance_and_warn(then: pa.Table) -> None:
    spec = SPEC.replace("{origin: [EWR, JFK, LGA], carrier: [AA, UA]}", "{origin: [EWR], carrier: [AA]}")
    few = plan_release(parse_spec(spec.replace("epsilon: 1.0", "epsilon: 50")))
    table = artefact(few)
    (finding,) = found(table, table, few)
    assert (finding.check, finding.blocks) == (HistoryCheck.IDENTICAL_VALUES, False)
    assert chance_of_same(few, ["flights", "miles", "mean_delay"]) > 1e-6


def test_the_bound_of_a_repetition_is_that_of_the_likeliest_noise(plan: ReleasePlan) -> None:
    """Two nights with the same exact totals repeat no more often than it says."""
    planned = plan.queries[0].totals[0]
    weights = np.array([float(planned.table.tail(n) - planned.table.tail(n + 1)) for n in range(200)])
    again = float(weights[0] ** 2 + 2 * np.sum(weights[1:] ** 2))
    assert again ** len(plan.keys) <= chance_of_same(plan, ["flights"]) <= 1
    assert chance_of_same(plan, ["mean_delay"]) == 1
    both = chance_of_same(plan, ["flights"]) * chance_of_same(plan, ["miles"])
    assert chance_of_same(plan, ["flights", "miles"]) == pytest.approx(both)


def test_a_public_group_that_is_gone_holds_it_and_is_named(plan: ReleasePlan, then: pa.Table) -> None:
    (finding,) = found(moved(then).slice(1), then, plan)
    assert (finding.check, finding.blocks) == (HistoryCheck.VANISHED_GROUP, True)
    assert finding.text == f"of {BEFORE} 1 group: 'EWR / AA' are gone"


def test_a_new_group_is_none_that_is_gone(plan: ReleasePlan, then: pa.Table) -> None:
    assert found(moved(then), then.slice(1), plan) == ()


def far(column: str, row: int = 3) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_cell(table, column, row, table[column][row].as_py() * 3)


@pytest.mark.parametrize("column", ["flights", "miles", "mean_delay"])
def test_a_value_that_moved_far_warns_with_its_column_and_group(
    plan: ReleasePlan, then: pa.Table, column: str
) -> None:
    (finding,) = found(far(column)(moved(then)), then, plan)
    assert (finding.check, finding.blocks) == (HistoryCheck.LARGE_CHANGE, False)
    assert finding.text == (
        f"{column} moved by more than max_change and noise since {BEFORE} in 1 group: 'JFK / UA'"
    )


def test_noise_of_both_releases_is_let_through(plan: ReleasePlan, then: pa.Table) -> None:
    """From zero, what moves is noise: 4 standard deviations of the difference, and not 4.1."""
    std = then["flights_std"][0].as_py()
    for sigmas, expected in ((3.9, 0), (4.1, 1)):
        zero = with_cell(then, "flights", 0, 0)
        now = with_cell(moved(then), "flights", 0, round(sigmas * std * 2**0.5))
        assert len(found(now, zero, plan)) == expected


def test_no_text_holds_a_number_of_the_staged_release(plan: ReleasePlan, then: pa.Table) -> None:
    poison = 77_345_671
    now = with_cell(moved(then).slice(1), "flights", 2, poison)
    texts = " ".join(map(str, found(now, then, plan)))
    assert "flights moved" in texts
    assert "gone" in texts
    assert str(poison) not in texts


def test_groups_that_were_selected_are_counted_not_named() -> None:
    spec = SPEC.replace("public: {origin: [EWR, JFK, LGA], carrier: [AA, UA]}", "private: {select: optimal}")
    private = plan_release(parse_spec(spec))
    chosen = private.with_selected((("secret", "AA"), ("secret", "UA"), ("town", "AA")))
    then = artefact(chosen)
    now = far("flights", 1)(moved(then).slice(1))
    findings = found(now, then, chosen)
    assert [(each.check, each.blocks) for each in findings] == [
        (HistoryCheck.VANISHED_GROUP, False),
        (HistoryCheck.LARGE_CHANGE, False),
    ]
    assert [each.text.split()[-3:] for each in findings] == [["group", "are", "gone"], ["in", "1", "group"]]
    assert "secret" not in " ".join(map(str, findings))


def test_a_release_that_was_grouped_otherwise_is_not_compared(plan: ReleasePlan, then: pa.Table) -> None:
    for other in (then.drop_columns(["carrier"]), then.rename_columns({"carrier": "airline"})):
        (finding,) = found(moved(then), other, plan)
        assert (finding.check, finding.blocks) == (HistoryCheck.NOT_COMPARED, False)


def test_a_query_that_is_new_has_nothing_to_be_compared_with(plan: ReleasePlan, then: pa.Table) -> None:
    older = then.drop_columns([name for name in then.column_names if name.startswith("miles")])
    assert found(far("miles")(moved(then)), older, plan) == ()


def test_nothing_earlier_finds_nothing(plan: ReleasePlan, then: pa.Table) -> None:
    assert compare(then, plan, RULE, Past()) == Comparison((), ())
