"""Coarser groups against their groups: exact where made consistent, within noise where they stay as drawn."""

import numpy as np
import pyarrow as pa
import pytest
from artefacts import SPEC

from dp_spark.checks.rollups import Sums, add_up, sums_of
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec

HEAD, TAIL = SPEC.split("group_by:")[0], SPEC[SPEC.index("guarantee:") :]
SIDE = 46  # 46 times 46 groups: more than are made consistent where groupings cross
NAMES = "[" + ", ".join(f"v{i:02}" for i in range(SIDE)) + "]"


def planned(rollup: str, groups: str) -> ReleasePlan:
    text = f"{HEAD}group_by: [origin, carrier]\nrollup: {rollup}\ngroups: {groups}\n{TAIL}"
    return plan_release(parse_spec(text))


@pytest.fixture(scope="module")
def crossing() -> ReleasePlan:
    return planned("[[origin], [carrier]]", f"{{public: {{origin: {NAMES}, carrier: {NAMES}}}}}")


def released(plan: ReleasePlan, seed: int, off: float = 0) -> dict[str, pa.Array]:
    """A night of the counts as drawn, with true totals of 1,000; the first coarse group is off by so much."""
    generator, values = np.random.default_rng(seed), []
    for level, totals in zip(plan.levels, plan.queries[0].levels, strict=True):
        words = generator.integers(0, 2**64, (len(level.keys), 2), np.uint64)
        steps = totals[0].table.draw(words)
        values.append(1000.0 * np.bincount(level.of_group) + steps * float(totals[0].grid))
    values[1][0] += off
    masks = np.concatenate([np.full(len(level.keys), level.mask) for level in plan.levels])
    names = zip(*plan.released_keys, strict=True)
    return {
        "flights": pa.array(np.concatenate(values)),
        "grouping_id": pa.array(masks.astype(np.int32)),
        **{name: pa.array(each) for name, each in zip(plan.spec.group_by, names, strict=True)},
    }


def holds(table: dict[str, pa.Array], sums: Sums) -> bool:
    return add_up([table[name] for name in sums.columns], sums.bound)


def test_which_columns_add_up_and_how_far() -> None:
    """Counts and sums do, but for rounding; the mean between them does not."""
    plan = planned("[[origin], []]", "{public: {origin: [EWR, JFK], carrier: [AA, UA]}}")
    found = list(sums_of(plan))
    assert [(each.value, each.mask, each.keeps) for each in found] == [
        ("flights", 1, ("origin",)),
        ("flights", 3, ()),
        ("miles", 1, ("origin",)),
        ("miles", 3, ()),
    ]
    stds = [totals[0].std for query in plan.queries[::2] for totals in query.levels[1:]]
    assert [each.within for each in found] == pytest.approx([1e-6 * std for std in stds])


def test_what_stays_as_drawn_passes_a_hundred_nights_and_what_is_off_does_not(crossing: ReleasePlan) -> None:
    """A false alarm of one in 10^9 a release; a coarse group that is off by twice the bound is found."""
    by_origin, by_carrier = (each for each in sums_of(crossing) if each.value == "flights")
    std = [totals[0].std for totals in crossing.queries[0].levels]
    assert by_origin.within < 10 * np.hypot(std[1], SIDE**0.5 * std[0])
    for seed in range(100):
        night = released(crossing, seed)
        assert holds(night, by_origin)
        assert holds(night, by_carrier)
    for seed, sign in enumerate((-1, 1)):
        wrong = released(crossing, seed, off=2 * sign * by_origin.within)
        assert not holds(wrong, by_origin)
        assert holds(wrong, by_carrier)


def test_of_selected_groups_only_what_is_made_consistent_is_known() -> None:
    plan = planned("[[origin], [carrier]]", "{private: {}}")
    few, many = (
        plan.with_selected(tuple((f"{i:03}", f"{j:03}") for i in range(n) for j in range(n))) for n in (5, 46)
    )
    assert len(list(sums_of(few))) == 4
    assert list(sums_of(many)) == []
    assert list(sums_of(plan.with_selected(()))) == []


def test_without_a_rollup_nothing_adds_up() -> None:
    assert list(sums_of(plan_release(parse_spec(SPEC)))) == []
