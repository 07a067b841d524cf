from fractions import Fraction

import pytest
from ledger_support import POPULATION, TAILNUM, fund, guarantee, reserve

from dp_spark.errors import BudgetRefused, LedgerRefused, SpecRefused
from dp_spark.guarantee import Every, Neighbours, PrivacyUnit
from dp_spark.release.ledger import Amount, ReleaseId


def code_of(refused):
    return refused.value.code


def test_ten_times_a_tenth_is_one_and_the_eleventh_is_refused(ledger):
    for day in range(10):
        reserve(ledger, f"day-{day}")
    account = ledger.budget(POPULATION)
    assert account.spent == Amount(Fraction(1), Fraction(0))
    assert account.left.epsilon == 0
    with pytest.raises(BudgetRefused) as refused:
        reserve(ledger, "day-10")
    assert code_of(refused) == "budget_exhausted"


def test_a_subnormal_charge_after_exhaustion_is_refused(ledger):
    reserve(ledger, "day-0", charge=guarantee(1))
    for tiny in (Fraction(1e-320), Fraction("1e-320"), Fraction(5e-324)):
        with pytest.raises(BudgetRefused):
            reserve(ledger, "day-1", charge=guarantee(tiny))


def test_a_subnormal_charge_is_not_lost(ledger):
    reserve(ledger, "day-0", charge=guarantee(Fraction(1e-320)))
    with pytest.raises(BudgetRefused):
        reserve(ledger, "day-1", charge=guarantee(1))


def test_an_exhausted_delta_is_refused_although_epsilon_is_left(ledger):
    reserve(ledger, "day-0", charge=guarantee("0.1", "1e-6"))
    with pytest.raises(BudgetRefused):
        reserve(ledger, "day-1", charge=guarantee("0.1", "1e-12"))
    assert reserve(ledger, "day-1", charge=guarantee("0.1", 0)).charged_now


def test_a_second_release_composes_with_the_first(ledger):
    reserve(ledger, "day-0", charge=guarantee("0.3", "1e-7"))
    reserve(ledger, "day-1", charge=guarantee("1/3", "2e-7"))
    assert ledger.budget(POPULATION).spent == Amount(Fraction(19, 30), Fraction("3e-7"))


def test_a_new_revision_is_charged(ledger):
    for revision in range(2):
        reserve(ledger, release_id=ReleaseId(POPULATION, "flights", "2013-01-01", revision))
    assert ledger.budget(POPULATION).spent.epsilon == Fraction("0.2")


def test_the_refusal_says_what_was_asked_what_is_left_and_what_would_fit(ledger):
    reserve(ledger, "day-0", charge=guarantee("0.6"))
    with pytest.raises(BudgetRefused) as refused:
        reserve(ledger, "day-1", charge=guarantee("0.5", "1e-7"))
    assert "asks for epsilon = 0.5 and delta = 0.0000001" in refused.value.message
    assert "has epsilon = 0.4 and delta = 0.000001 left of epsilon = 1" in refused.value.message
    assert "at most epsilon = 0.4 and delta = 0.000001" in refused.value.way_out
    assert "limit to epsilon = 1.1 and delta = 0.000001" in refused.value.way_out


def test_a_refused_charge_leaves_no_trace(ledger, place):
    with pytest.raises(BudgetRefused):
        reserve(ledger, charge=guarantee(2))
    tables = ("releases", "release_keys", "noise_tables", "events")
    assert all(place.sql(f"SELECT count(*) FROM {table}") == [(0,)] for table in tables)


def test_populations_do_not_share_a_limit(ledger):
    fund(ledger, 1, population="elsewhere")
    reserve(ledger, charge=guarantee(1))
    assert ledger.budget("elsewhere").left.epsilon == 1


def test_an_unknown_population_is_refused_with_the_nearest_name(ledger):
    fund(ledger, 1, population="swiss_trains")
    for ask in (ledger.budget, lambda name: reserve(ledger, release_id=ReleaseId(name, "flights", "d"))):
        with pytest.raises(BudgetRefused, match="nearest name is 'nyc_planes'") as refused:
            ask("nyc_plane")
        assert code_of(refused) == "unknown_population"
        assert "dp-spark ledger budget set" in refused.value.way_out


def test_a_raised_limit_admits_more(ledger):
    reserve(ledger, "day-0", charge=guarantee(1))
    fund(ledger, 2, "1e-6")
    assert reserve(ledger, "day-1", charge=guarantee(1)).charged_now


def test_a_limit_lowered_under_what_is_spent_leaves_nothing(ledger):
    reserve(ledger, "day-0", charge=guarantee("0.5", "1e-6"))
    fund(ledger, "0.9", "1e-7")
    assert ledger.budget(POPULATION).left == Amount(Fraction(0), Fraction(0))
    with pytest.raises(BudgetRefused) as refused:
        reserve(ledger, "day-1", charge=guarantee("0.1"))
    assert "nothing fits" in refused.value.way_out


def test_every_change_of_a_limit_is_kept(ledger, place):
    fund(ledger, 2, "1e-6")
    rows = place.sql("SELECT old_epsilon, new_epsilon, reason, os_user = '' FROM budget_changes ORDER BY id")
    assert rows == [
        (None, "1/1", "decided by the board", False),
        ("1/1", "2/1", "decided by the board", False),
    ]


@pytest.mark.parametrize("verb", ["UPDATE {} SET at = ''", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["budget_changes", "events"])
def test_histories_are_append_only(ledger, place, table, verb):
    reserve(ledger)
    with pytest.raises(Exception, match="append-only"):
        place.sql(verb.format(table))


OTHERS = [
    ({"unit": PrivacyUnit(("carrier",))}, 'unit "carrier" with neighbours add_remove'),
    ({"unit": PrivacyUnit(("tailnum",), Every.DAY)}, 'unit "tailnum" per day with neighbours add_remove'),
    ({"unit": PrivacyUnit(("carrier", "tailnum"))}, 'unit "carrier" + "tailnum" with neighbours add_remove'),
    ({"unit": PrivacyUnit(())}, "unit row with neighbours add_remove"),
    ({"neighbours": Neighbours.REPLACE}, 'unit "tailnum" with neighbours replace'),
]


@pytest.mark.parametrize(("other", "told"), OTHERS)
def test_an_account_is_of_one_unit_and_one_relation_and_a_refusal_names_both_sides(ledger, other, told):
    asked = {"unit": TAILNUM, "neighbours": Neighbours.ADD_REMOVE} | other
    for ask in (
        lambda: reserve(ledger, **asked),
        lambda: ledger.set_budget(POPULATION, guarantee(9), reason="a mistake", **asked),
    ):
        with pytest.raises(LedgerRefused) as refused:
            ask()
        assert code_of(refused) == "other_protection"
        assert 'counts unit "tailnum" with neighbours add_remove, not ' + told in refused.value.message
    assert ledger.budget(POPULATION).limit.epsilon == 1
    assert ledger.budget(POPULATION).spent.epsilon == 0


@pytest.mark.parametrize(
    "unit", [TAILNUM, PrivacyUnit(()), PrivacyUnit(("é", "a b"), Every.WEEK), PrivacyUnit(("row",))]
)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_an_account_says_what_it_counts(ledger, unit, neighbours):
    ledger.set_budget("other", guarantee(1), unit=unit, neighbours=neighbours, reason="decided")
    ledger.set_budget("other", guarantee(2), unit=unit, neighbours=neighbours, reason="decided")
    account = ledger.budget("other")
    assert (account.unit, account.neighbours) == (unit, neighbours)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "é", "x" * 129])
def test_unsafe_names_are_refused(ledger, name):
    with pytest.raises(SpecRefused):
        fund(ledger, 1, population=name)
    for parts in ((name, "r", "k"), ("p", name, "k"), ("p", "r", name)):
        with pytest.raises(SpecRefused):
            ReleaseId(*parts)


def test_a_blank_reason_is_refused(ledger):
    with pytest.raises(BudgetRefused):
        ledger.set_budget(
            POPULATION, guarantee(9), unit=TAILNUM, neighbours=Neighbours.ADD_REMOVE, reason=" "
        )


def test_a_release_id_reads_as_a_path():
    assert str(ReleaseId("nyc_planes", "flights", "2013-01-05")) == "nyc_planes/flights/2013-01-05/0"
    with pytest.raises(SpecRefused):
        ReleaseId("p", "r", "k", -1)


def test_a_release_id_is_read_back_from_its_text():
    release_id = ReleaseId("nyc_planes", "flights", "2013-01-05", 12)
    assert ReleaseId.parse(str(release_id)) == release_id


@pytest.mark.parametrize(
    "text", ["", "p/r/k", "p/r/k/", "p/r/k/01", "p/r/k/-1", "p/r/k/\u0661", "p/r/k/0/0", "p/ /k/0"]
)
def test_text_that_is_no_release_id_is_refused(text):
    with pytest.raises(SpecRefused):
        ReleaseId.parse(text)
