"""What differs between two specs, told by their keys."""

import pytest

from dp_spark.release.spec import canonical_document, parse_spec, parse_survey
from dp_spark.release.spec.changes import domain_changes, spec_changes
from dp_spark.release.stored_spec import told_domain_changes, told_spec_changes
from dp_spark.uldp import Domain

SURVEY = """
survey: work_status
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
answer: work
domain: {categories: {at school: false, at work: false, ill: true, unemployed: true}}
epsilon: 1
group_by: [state]
groups: {public: [CA, NY]}
budget: {population: us_persons}
publish: [{sink: parquet, path: out/work}]
"""
RELEASE = """
release: visits
input: {format: parquet, path: in}
period: {column: day, every: day, timezone: UTC}
unit: {column: person, on_null: drop}
bounds: {max_groups: 1, max_rows_per_group: 3}
group_by: [place]
groups: {public: [harbour, market]}
guarantee: {epsilon: 1, delta: 1e-6}
queries:
  - {name: visits, kind: count}
  - {name: price, kind: mean, column: price, lower: 0, upper: 50}
budget: {population: town}
publish: [{sink: parquet, path: out}]
"""


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("epsilon: 1", "epsilon: 0.5", ["epsilon: 0.5 instead of 1"]),
        ("epsilon: 1", "epsilon: 1/3", ["epsilon: 1/3 instead of 1"]),
        ("answer: work", "answer: work\nfirst: day", ["first: 'day' instead of none"]),
        ("path: in}", "path: there}", ["input.path: 'there' instead of 'in'"]),
        ("path: out/work", "path: out", ["publish[0].path: 'out' instead of 'out/work'"]),
        ("[CA, NY]", "[CA, TX, WA]", ["groups.public: 2 added ('TX', 'WA'), 1 removed ('NY')"]),
        (
            "at school: false, ill: true",
            "retired: false, ill: false",
            [
                "domain.categories: 1 added ('retired'), 1 removed ('at school'), "
                "1 no longer sensitive ('ill')"
            ],
        ),
    ],
    ids=str,
)
def test_of_a_survey_each_key_is_named(before: str, now: str, told: list[str]) -> None:
    text = SURVEY.replace("at school: false, at work: false, ill", "at work: false, at school: false, ill")
    assert before in text
    specs = (canonical_document(parse_survey(each)) for each in (text, text.replace(before, now)))
    assert list(spec_changes(*specs)) == told


def test_queries_of_a_release_are_told_by_their_names() -> None:
    other = RELEASE.replace("upper: 50", "upper: 60").replace("name: visits", "name: rows")
    before, now = (canonical_document(parse_spec(each)) for each in (RELEASE, other))
    price, rows, visits = spec_changes(before, now)
    assert price == "queries.price.upper: 60 instead of 50"
    assert rows.startswith("queries.rows: {") and rows.endswith("instead of none")  # noqa: PT018
    assert visits.startswith("queries.visits: none instead of {")


def test_the_same_spec_differs_in_nothing() -> None:
    document = canonical_document(parse_survey(SURVEY))
    assert spec_changes(document, document) == ()


def test_many_changes_are_counted() -> None:
    assert spec_changes({}, {f"{i:02}": i for i in range(20)})[-1] == "and 8 more"


def test_a_domain_is_told_by_categories_of_columns_and_flags_of_cells() -> None:
    before = Domain.crossed({"sex": {"f": False, "m": False}, "work": {"a": True, "b": False}}, "any")
    now = Domain.crossed({"sex": {"f": False, "x": False}, "work": {"a": False, "b": True}}, "any")
    assert list(domain_changes(before, now)) == [
        "categories of 'sex': 1 added ('x'), 1 removed ('m')",
        "flags: 1 became sensitive ('f / b'), 1 no longer sensitive ('f / a')",
    ]
    assert domain_changes(before, before) == ()
    assert domain_changes(before, Domain.of("work", {"a": True})) == (
        "answer: ['work'] instead of ['sex', 'work']",
    )


@pytest.mark.parametrize("plan", [b"plan-1", b"[]", b'{"plan": 1}', b'{"spec": []}', b"\xff"])
def test_of_a_plan_that_cannot_be_read_nothing_is_told(plan: bytes) -> None:
    assert told_spec_changes(plan, {"epsilon": "1/1"}) == ""
    assert told_domain_changes(plan, plan) == ""
