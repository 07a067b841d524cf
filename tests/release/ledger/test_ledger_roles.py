"""Two roles of PostgreSQL: one owns the ledger and decides, one runs releases."""

import secrets

import psycopg
import pytest
from ledger_support import (
    MASTER_KEY,
    POPULATION,
    PostgresPlace,
    brought_to,
    fund,
    guarantee,
    reserve,
)
from schedule_support import noise, table
from survey_support import PEOPLE, STATEMENT, SURVEY, limit_survey, opened, publish, wave_brought_to

from dp_spark.errors import BudgetRefused, LedgerRefused, SetupRefused, SpecRefused
from dp_spark.guarantee import Every
from dp_spark.noise import Gaussian
from dp_spark.release.ledger import (
    Amount,
    Decision,
    Enrolment,
    Ledger,
    ReleaseId,
    ReleaseState,
    Schedule,
    WaveEnd,
    WaveState,
    grants,
    store,
)
from dp_spark.release.spec import PoolKind


@pytest.fixture
def place(postgres, empty_template):
    database = postgres.new_database(empty_template)
    yield PostgresPlace(postgres, database)
    postgres.drop(database)


@pytest.fixture
def role(place):
    """A role to which the shipped script has been applied."""
    name = f"runner_{secrets.token_hex(4)}"
    place.server.run(f"CREATE ROLE {name} LOGIN")
    place.server.run(grants(name), database=place.database, role="ledger_owner")
    yield name
    place.server.run(f"DROP OWNED BY {name}", database=place.database)
    place.server.run(f"DROP ROLE {name}")


@pytest.fixture
def runner(place, role, ledger):
    return Ledger.open(place.server.url(place.database, role), MASTER_KEY)


def test_a_runner_brings_a_release_from_charge_to_seal(runner):
    brought_to(runner, ReleaseState.SEALED)
    assert runner.budget(POPULATION).spent.epsilon > 0


def test_a_runner_takes_slots_but_sets_nothing_aside(runner, ledger):
    pools = {PoolKind.SUMS: guarantee("1/2", "1e-7")}
    night = noise(table(Gaussian(), 40, 340))
    ledger.set_pools(POPULATION, pools, reason="decided by the board")
    asked = Enrolment(Schedule("nightly", night, 3), "spec-1", b"plan-1")
    for action in (
        lambda: runner.set_pools(POPULATION, {}, reason="mine"),
        lambda: runner.enrol(POPULATION, asked, reason="mine"),
        lambda: runner.set_window(POPULATION, Every.DAY, guarantee(1), reason="mine"),
    ):
        with pytest.raises(SetupRefused) as refused:
            action()
        assert refused.value.code == "ledger_permission"
    ledger.enrol(POPULATION, asked, reason="decided by the board")
    reserve(runner, release_id=ReleaseId(POPULATION, "nightly", "d"), noise=night)
    assert runner.budget(POPULATION).standing.taken == {"nightly": 1}


def test_a_runner_cannot_overspend(runner, ledger):
    fund(ledger, "0.1")
    reserve(runner, "day-0")
    with pytest.raises(BudgetRefused):
        reserve(runner, "day-1")


@pytest.mark.parametrize("population", [POPULATION, "of_its_own"])
def test_a_runner_neither_opens_an_account_nor_moves_a_limit(runner, ledger, population):
    with pytest.raises(SetupRefused, match="the role that owns the ledger") as refused:
        fund(runner, 100, population=population)
    assert refused.value.code == "ledger_permission"
    assert ledger.budget(POPULATION).limit.epsilon == 1


def test_a_runner_decides_nothing_and_gives_no_charge_back(runner, ledger, place, role):
    claim = reserve(runner)
    for decision in Decision:
        with pytest.raises((SetupRefused, LedgerRefused)) as refused:
            runner.decide(claim.release_id, decision, "on a whim")
        assert refused.value.code == ("illegal_step" if decision in ILLEGAL else "ledger_permission")
    for state in ("aborted", "abandoned", "burned"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            place.server.run(f"UPDATE releases SET state = '{state}'", database=place.database, role=role)
    assert ledger.budget(POPULATION).spent == claim_charge(ledger, claim)
    ledger.decide(claim.release_id, Decision.ABORT, "decided by the board")
    assert ledger.budget(POPULATION).spent.epsilon == 0


ILLEGAL = {Decision.PUBLISH, Decision.ABANDON}  # of a release that is reserved


def claim_charge(ledger, claim):
    charge = ledger.find(claim.release_id).charge
    return Amount(charge.epsilon, charge.delta)


FORBIDDEN_OF_SURVEYS = [
    "INSERT INTO survey_accounts VALUES ('p', 's', '\"person\"', '9/1')",
    "UPDATE survey_accounts SET limit_epsilon = '9/1'",
    "INSERT INTO survey_changes (population) VALUES ('us_persons')",
    "INSERT INTO wave_decisions (wave, decision) VALUES (1, 'publish')",
    "UPDATE waves SET epsilon = '0/1'",
    "UPDATE waves SET plan = ''",
    "UPDATE waves SET domain_digest = ''",
    "UPDATE wave_batches SET reports = 0",
    "UPDATE wave_events SET at = ''",
]


def test_a_runner_brings_a_wave_from_charge_to_seal_and_decides_nothing(runner, ledger, place, role):
    limit_survey(ledger, "1")
    for action in (
        lambda: limit_survey(runner, "9"),
        lambda: limit_survey(runner, "9", survey="of_its_own"),
    ):
        with pytest.raises(SetupRefused) as refused:
            action()
        assert refused.value.code == "ledger_permission"
    wave = wave_brought_to(runner, WaveState.HELD)
    with pytest.raises(SetupRefused) as refused:
        runner.clear_wave(wave, "on a whim")
    assert refused.value.code == "ledger_permission"
    for end in WaveEnd:
        with pytest.raises(SetupRefused) as refused:
            runner.end_wave(wave, end, "on a whim")
        assert refused.value.code == "ledger_permission"
    for statement in FORBIDDEN_OF_SURVEYS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            place.server.run(statement, database=place.database, role=role)
    ledger.clear_wave(wave, "decided by the board")
    publish(runner, wave)
    runner.seal_wave(wave, STATEMENT)
    with pytest.raises(BudgetRefused):
        opened(runner, "2024q2")
    assert ledger.survey_account(PEOPLE, SURVEY).limit == 1


FORBIDDEN = [
    "INSERT INTO decisions (release, decision) VALUES (1, 'aborted')",
    "UPDATE accounts SET limit_epsilon = '9/1'",
    "INSERT INTO accounts VALUES ('p', 'row', 'add_remove', '9/1', '0/1')",
    "INSERT INTO budget_changes (population) VALUES ('nyc_planes')",
    "INSERT INTO divisions VALUES ('nyc_planes', '{}')",
    "INSERT INTO schedules VALUES ('nyc_planes', 'n', '{}', 's', '', NULL)",
    "INSERT INTO windows VALUES ('nyc_planes', 'day', '9/1', '0/1')",
    "INSERT INTO account_changes (population) VALUES ('nyc_planes')",
    "UPDATE standings SET population = 'p'",
    "UPDATE partitions SET timezone = 'UTC'",
    "UPDATE releases SET receipt = NULL",
    "UPDATE releases SET charge_epsilon = '0/1'",
    "UPDATE releases SET population = 'p'",
    "UPDATE releases SET plan = ''",
    "UPDATE events SET at = ''",
    "UPDATE noise_tables SET body = ''",
    "UPDATE alembic_version SET version_num = ''",
    "CREATE TABLE mine (x int)",
    "ALTER TABLE releases DISABLE TRIGGER ALL",
    "DROP TABLE releases",
    *(f"DELETE FROM {table}" for table in store.metadata.tables),
    *(f"TRUNCATE {table} CASCADE" for table in store.metadata.tables),
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_what_a_runner_must_not_do_the_database_refuses(runner, place, role, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        place.server.run(statement, database=place.database, role=role)


def test_a_role_without_grants_can_do_nothing(place, ledger):
    name = f"nobody_{secrets.token_hex(4)}"
    place.server.run(f"CREATE ROLE {name} LOGIN")
    with pytest.raises(SetupRefused) as refused:
        Ledger.open(place.server.url(place.database, name), MASTER_KEY)
    assert refused.value.code == "ledger_permission"


def test_the_script_names_every_table():
    words = grants("r").replace(",", " ").split()
    assert all(words.count(table) >= 2 for table in store.metadata.tables)


@pytest.mark.parametrize("name", ["", 'a"b', "a; DROP TABLE releases", "1a", "x" * 64])
def test_a_runner_that_is_no_name_is_refused(name):
    with pytest.raises(SpecRefused):
        grants(name)
