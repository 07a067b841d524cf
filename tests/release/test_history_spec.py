"""`checks.history`: read, written, told, and refused where it has no meaning."""

from fractions import Fraction

import pytest

from dp_spark.errors import SpecRefused
from dp_spark.release.period import period_before
from dp_spark.release.spec import Against, PeriodSpec, ReleaseSpec, parse_spec, spec_yaml

SPEC = """
release: visits
input: {format: parquet, path: in}
period: {column: at, every: day}
unit: {column: person, on_null: drop}
bounds: {max_groups: 2, max_rows_per_group: 2}
group_by: [town]
groups: {public: [a, b]}
guarantee: {epsilon: 1, delta: 1e-6}
queries: [{name: visits, kind: count}]
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""
HISTORY = "checks: {history: {against: same_weekday, max_change: 0.25, plus_sigma: 3}}\n"


def test_it_is_read_exactly_and_has_defaults() -> None:
    history = parse_spec(SPEC + HISTORY).checks.history
    assert (history.against, history.max_change, history.plus_sigma) == (
        Against.SAME_WEEKDAY,
        Fraction(1, 4),
        3,
    )
    short = parse_spec(SPEC + "checks: {history: {against: previous}}\n").checks.history
    assert (short.max_change, short.plus_sigma) == (Fraction(1, 2), 4)


def test_a_spec_without_it_keeps_the_digest_that_it_had_before_there_were_such_checks() -> None:
    spec = parse_spec(SPEC)
    assert "checks" not in spec.canonical_json()
    assert spec.digest == "ed8aa0be77b3ce91c8de6b7f33cdaaf35526779f454a5469ca2dd919ad5ff7b8"


def test_written_as_yaml_it_reads_back() -> None:
    spec = parse_spec(SPEC + HISTORY)
    assert parse_spec(spec_yaml(spec)).digest == spec.digest == parse_spec(spec.canonical_json()).digest


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (SPEC + "checks: {history: {}}\n", "missing key 'against'"),
        (SPEC + "checks: {}\n", "missing key 'history'"),
        (SPEC + HISTORY.replace("same_weekday", "yesterday"), "previous | same_weekday"),
        (SPEC + HISTORY.replace("0.25", "-1"), "0 <= max_change <= 1000"),
        (SPEC + HISTORY.replace("sigma: 3", "sigma: 101"), "0 <= plus_sigma <= 100"),
        (SPEC.replace("every: day", "every: week") + HISTORY, "does not go with period.every = week"),
        (SPEC.replace("period: {column: at, every: day}\n", "") + HISTORY, "needs a period"),
    ],
)
def test_what_has_no_meaning_is_refused(spec: str, told: str) -> None:
    with pytest.raises(SpecRefused) as refusal:
        parse_spec(spec)
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("every", "key", "before"),
    [
        ("day", "2024-03-01", "2024-02-29"),
        ("week", "2024-01-01", "2023-12-25"),
        ("month", "2024-01-01", "2023-12-01"),
    ],
)
def test_the_period_before(every: str, key: str, before: str) -> None:
    assert period_before(PeriodSpec(column="at", every=every), key) == before


def test_the_rule_is_told_in_one_line() -> None:
    spec: ReleaseSpec = parse_spec(SPEC + HISTORY)
    assert "25 % and 3 sigma" in spec.checks.history.in_words
