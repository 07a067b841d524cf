"""What people are told: sources, warnings, what fits, the whole history."""

from dataclasses import astuple
from fractions import Fraction

import pytest
from ledger_support import POPULATION, brought_to, fund, guarantee, reserve

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.release.ledger import (
    Decision,
    Level,
    Receipt,
    ReleaseId,
    ReleaseState,
    source_name,
    warning_of,
)
from dp_spark.release.ledger.adhoc import Cost
from dp_spark.release.spec import PoolKind


def test_a_registered_source_has_one_population(ledger, tmp_path):
    fund(ledger, 1, population="elsewhere")
    name = ledger.add_source(str(tmp_path), POPULATION)
    assert name == ledger.add_source(str(tmp_path), POPULATION)
    with pytest.raises(LedgerRefused, match=f"belongs to population {POPULATION}") as refused:
        ledger.add_source(str(tmp_path), "elsewhere")
    assert refused.value.code == "source_of_another_population"


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("asked", ["/data/flights", "/data/flights/2013", "/data"])
def test_a_release_of_a_source_that_another_population_has_is_not_charged(ledger, registered, asked):
    fund(ledger, 1, population="elsewhere")
    if registered:
        ledger.add_source("/data/flights", POPULATION)
    else:
        reserve(ledger, source="/data/flights")
    with pytest.raises(LedgerRefused) as refused:
        reserve(ledger, release_id=ReleaseId("elsewhere", "flights", "d"), source=asked)
    assert refused.value.code == "source_of_another_population"
    assert ledger.budget("elsewhere").spent.epsilon == 0
    assert reserve(ledger, "2013-01-05", source=asked).charged_now
    assert reserve(
        ledger, release_id=ReleaseId("elsewhere", "flights", "d"), source="/data_of_others"
    ).charged_now


def test_sources_are_those_that_were_registered_or_released_from_by_anybody(ledger):
    fund(ledger, 1, population="elsewhere")
    assert ledger.sources() == frozenset()
    ledger.add_source("/data/flights", POPULATION)
    reserve(ledger, release_id=ReleaseId("elsewhere", "flights", "d"), source="s3://data/people")
    reserve(ledger, source=None)
    assert ledger.sources() == {"/data/flights", "s3://data/people"}


def test_a_source_of_an_unknown_population_is_refused_with_the_nearest_name(ledger):
    with pytest.raises(BudgetRefused, match="nearest name is 'nyc_planes'"):
        ledger.add_source("/data", "nyc_plane")


def test_one_input_has_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    names = {source_name(text) for text in ("real", "link/", "./real", f"file:{tmp_path}/real")}
    assert names == {str((tmp_path / "real").resolve())}
    assert source_name("s3://b/k/") == "s3://b/k"


@pytest.mark.parametrize(
    ("epsilon", "delta", "level"),
    [
        ("0.79", 0, None),
        ("0.8", 0, Level.LOW),
        ("0.949", 0, Level.LOW),
        ("0.95", 0, Level.CRITICAL),
        (1, 0, Level.CRITICAL),
        ("0.1", "9e-7", Level.LOW),
        ("0.1", "1e-6", Level.CRITICAL),
    ],
)
def test_little_left_of_either_part_is_a_warning(ledger, epsilon, delta, level):
    reserve(ledger, charge=guarantee(epsilon, delta))
    warning = warning_of(ledger.budget(POPULATION))
    assert (warning and warning.level) == level


def test_a_limit_without_delta_is_judged_by_epsilon_alone(empty_ledger):
    fund(empty_ledger, 1, 0)
    assert warning_of(empty_ledger.budget(POPULATION)) is None


@pytest.mark.parametrize("charge", [("0.3", 0), ("0.1", "3e-7"), (1, 0), ("0.07", "1e-9")])
def test_as_many_releases_fit_as_are_admitted(ledger, charge):
    cost = Receipt(pool=PoolKind.SUMS, cost=Cost(*astuple(guarantee(*charge))))
    promised = ledger.budget(POPULATION).more_of(cost)
    for day in range(promised):
        reserve(ledger, f"day-{day}", charge=guarantee(*charge))
    with pytest.raises(BudgetRefused):
        reserve(ledger, "one-more", charge=guarantee(*charge))
    assert ledger.budget(POPULATION).more_of(cost) == 0


def test_the_history_tells_everything_and_its_charges_add_up_to_what_is_spent(ledger):
    ledger.add_source("/data", POPULATION)
    brought_to(ledger, ReleaseState.HELD)
    ledger.decide(ReleaseId(POPULATION, "flights", "2013-01-01"), Decision.ABANDON, "spoilt")
    ledger.decide(reserve(ledger, "2013-01-02").release_id, Decision.ABORT, "not ready")
    told = ledger.history(POPULATION)
    assert [entry.what for entry in told[:2]] == ["limit", "source"]
    assert {"reserved", "held", "abandoned", "decision: abandoned", "aborted"} <= {e.what for e in told}
    assert {"spoilt", "not ready", "history", "decided by the board"} <= {e.reason for e in told}
    charged = sum((e.epsilon for e in told if e.epsilon is not None and e.what != "limit"), Fraction(0))
    assert charged == ledger.budget(POPULATION).spent.epsilon
    assert {e.paid for e in told if e.what == "reserved"} == {"pool of sums"}
    with pytest.raises(BudgetRefused):
        ledger.history("nobody")
