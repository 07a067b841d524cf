"""One realistic plan, its facts, and what became of a release of it."""

import re
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import Budget, Standing
from dp_spark.release.ledger.adhoc import Cost
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import PoolKind, parse_spec
from dp_spark.report import ReleaseFacts, SealedRelease, release_facts

SPEC = """
release: flights_by_origin
input:   {format: parquet, path: data/flights}
period:  {column: date, every: day, timezone: America/New_York}
unit:    {column: tailnum, on_null: drop}
bounds:  {max_groups: 3, max_rows_per_group: 10}
group_by: [origin, carrier]
groups:  {public: {origin: [EWR, JFK, LGA], carrier: [AA, UA]}}
guarantee: {epsilon: 1.0, delta: 1e-6}
queries:
  - {name: flights,     kind: count}
  - {name: planes,      kind: ids}
  - {name: total_delay, kind: sum,  column: dep_delay, lower: -30, upper: 180}
  - {name: mean_delay,  kind: mean, column: dep_delay, lower: -30, upper: 180}
noise:   auto
budget:  {population: nyc_planes}
publish: [{sink: parquet, path: out/flights_by_origin}]
"""


def account(*, limit: tuple[str, str], spent: tuple[str, str]) -> Budget:
    """An account of one pool of sums."""
    return Budget(
        population="nyc_planes",
        unit=PrivacyUnit(("tailnum",)),
        neighbours=Neighbours.ADD_REMOVE,
        limit=PrivacyGuarantee(*map(Fraction, limit)),
        pools=None,
        enrolled={},
        standing=Standing(spent={PoolKind.SUMS: Cost(*map(Fraction, spent))}),
        windows={},
    )


@pytest.fixture(scope="session")
def account_of():
    return account


@pytest.fixture(scope="session")
def plan() -> ReleasePlan:
    return plan_release(parse_spec(SPEC))


@pytest.fixture(scope="session")
def plan_of():
    """The plan of SPEC with some of its text replaced."""

    def replaced(**changes: str) -> ReleasePlan:
        text = SPEC
        for key, value in changes.items():
            entry = re.compile(rf"^{key}:.*\n(  .*\n)*", re.MULTILINE)
            text = entry.sub(f"{key}: {value}\n" if value else "", text)
        return plan_release(parse_spec(text))

    return replaced


@pytest.fixture(scope="session")
def sealed() -> SealedRelease:
    return SealedRelease(
        release_id="nyc_planes/flights_by_origin/2013-01-05/0",
        state="sealed",
        artefact_digest="5e" * 32,
        published=("parquet out/flights_by_origin",),
        reserved_at=datetime(2013, 1, 6, 1, 2, 3, tzinfo=UTC),
        sealed_at=datetime(2013, 1, 6, 1, 4, 0, tzinfo=UTC),
        dp_spark_version="0.1.0",
    )


@pytest.fixture(scope="session")
def budget() -> Budget:
    return account(limit=("100", "1e-4"), spent=("12", "1.2e-5"))


@pytest.fixture(scope="session")
def facts(plan: ReleasePlan, budget: Budget) -> ReleaseFacts:
    return release_facts(plan, budget=budget)


@pytest.fixture(scope="session")
def statement(plan: ReleasePlan, budget: Budget, sealed: SealedRelease) -> ReleaseFacts:
    return release_facts(plan, budget=budget, sealed=sealed)
