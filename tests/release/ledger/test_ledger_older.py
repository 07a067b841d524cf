"""Ledgers with releases of before there were receipts, brought to this version."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest
import sqlalchemy as sa
from ledger_support import MASTER_KEY, POPULATION, guarantee, older_ledger, reserve

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import Every, PrivacyUnit
from dp_spark.release.ledger import Decision, Ledger, ReleaseId, Standing, create_ledger, store
from dp_spark.release.ledger.rows import put
from dp_spark.release.ledger.terms import WHOLE
from dp_spark.release.spec import PeriodSpec

DAYS = "days"
PERSON_DAY = PrivacyUnit(("tailnum",), Every.DAY)
OLD = [
    (POPULATION, "old-1", "0.4", "reserved"),
    (POPULATION, "old-2", "0.3", "sealed"),
    (POPULATION, "old-3", "0.9", "aborted"),
    (DAYS, "2013-01-01", "0.4", "sealed"),
    (DAYS, "2013-01-02", "0.2", "reserved"),
]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, path):
    if request.param == "sqlite":
        yield older_ledger(f"sqlite:///{path}", OLD)
        return
    postgres = request.getfixturevalue("postgres")
    database = postgres.new_database()
    yield older_ledger(postgres.url(database), OLD)
    postgres.drop(database)


@pytest.fixture
def ledger(url):
    create_ledger(url)
    return Ledger.open(url, MASTER_KEY, clock=lambda: datetime(2026, 1, 31, tzinfo=UTC))


def spent(ledger, population=POPULATION):
    return ledger.budget(population).spent.epsilon


def of_day(ledger, key, epsilon):
    asked = {"unit": PERSON_DAY, "period": PeriodSpec(column="date", every="day")}
    return reserve(ledger, release_id=ReleaseId(DAYS, "new", key), charge=guarantee(epsilon), **asked)


def refusal(action, *args, **kwargs):
    with pytest.raises((BudgetRefused, LedgerRefused)) as refused:
        action(*args, **kwargs)
    return refused.value.code


def test_what_was_charged_before_counts_and_is_given_back_once(ledger):
    old = ReleaseId(POPULATION, "old", "old-1")
    assert spent(ledger) == Fraction("0.7")
    assert refusal(reserve, ledger, charge=guarantee("0.4")) == "budget_exhausted"
    reserve(ledger, charge=guarantee("0.3"))
    ledger.decide(old, Decision.ABORT, "never read")
    assert spent(ledger) == Fraction("0.6")
    assert refusal(ledger.decide, old, Decision.ABORT, "again") == "illegal_step"
    assert ledger.verify().findings == ()


def test_what_is_given_back_before_anything_new_is_charged_is_given_back_too(ledger):
    ledger.decide(ReleaseId(POPULATION, "old", "old-1"), Decision.ABORT, "never read")
    assert spent(ledger) == Fraction("0.3")
    reserve(ledger, charge=guarantee("0.7"))
    assert refusal(reserve, ledger, "2013-01-02", charge=guarantee("0.1")) == "budget_exhausted"


def test_what_was_charged_to_nobody_knows_which_days_counts_for_each(ledger):
    of_day(ledger, "2013-01-05", "0.4")
    assert refusal(of_day, ledger, "2013-01-06", "0.5") == "budget_exhausted"
    ledger.decide(ReleaseId(DAYS, "old", "2013-01-02"), Decision.ABORT, "never read")
    of_day(ledger, "2013-01-06", "0.6")
    assert refusal(of_day, ledger, "2013-01-07", "0.7") == "budget_exhausted"
    assert ledger.verify().findings == ()


def test_a_window_counts_what_was_charged_in_it_before(ledger):
    """The old releases are of January 30; of 0.7 of them nothing is left of a month of 0.75 but 0.05."""
    ledger.set_window(POPULATION, Every.MONTH, guarantee("0.75"), reason="a test")
    assert refusal(reserve, ledger, charge=guarantee("0.1")) == "window_exhausted"
    reserve(ledger, charge=guarantee("0.05"))


def test_an_older_process_that_holds_the_ledger_open_cannot_charge_past_the_sums(ledger, url):
    """It would write neither receipt nor sum."""
    reserve(ledger, charge=guarantee("0.3"))
    columns = [
        each.name for each in store.releases.columns if each.name not in {"id", "period_key", "receipt"}
    ]
    names = ", ".join(columns)
    statement = (
        f"INSERT INTO releases ({names}, period_key) SELECT {names}, 'late' FROM releases WHERE id = 1"
    )
    with (
        pytest.raises(sa.exc.DBAPIError, match="older than the ledger"),
        ledger._database.engine.begin() as old,
    ):
        old.exec_driver_sql(statement)
    assert spent(ledger) == 1


@pytest.mark.parametrize(
    ("population", "label"), [(POPULATION, WHOLE), (DAYS, WHOLE), (DAYS, "2013-01-05")], ids=str
)
def test_a_sum_that_hides_what_was_charged_before_is_found(ledger, population, label):
    """A runner may add and lower sums, and holds the master key."""
    of_day(ledger, "2013-01-05", "0.4")
    key = {"population": population, "label": label}
    ledger._write(lambda connection: put(connection, store.standings, key, standing=Standing().to_text()))
    assert f'row standings ["{population}", "{label}"] holds less than its releases took' in (
        ledger.verify().findings
    )
