"""The spec of a survey: what it accepts, what it refuses together, and its canonical form."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.errors import SpecRefused
from dp_spark.release.first_survey import render_first_survey
from dp_spark.release.spec import (
    SurveySpec,
    load_spec,
    load_survey,
    parse_spec,
    parse_survey,
    spec_yaml,
    survey_from_canonical,
)
from dp_spark.uldp import Consistency, MechanismName, Method

BASE: dict[str, Any] = {
    "survey": "work_status",
    "input": {"format": "parquet", "path": "data/answers"},
    "unit": {"column": "person", "on_null": "drop"},
    "answer": "work",
    "domain": {"categories": {"at school": False, "ill": True}},
    "epsilon": "1",
    "budget": {"population": "us_persons"},
    "publish": [{"sink": "parquet", "path": "out/work"}],
}
CROSSED = {"work": {"a": True, "b": False}, "home": {"c": True, "d": False}}


def spec(**changed: Any) -> SurveySpec:
    return SurveySpec(**{key: each for key, each in (BASE | changed).items() if each is not None})


def why(**changed: Any) -> str:
    with pytest.raises(SpecRefused) as refusal:
        spec(**changed)
    assert refusal.value.way_out
    return str(refusal.value)


def test_defaults_are_the_mechanism_and_estimator_to_use() -> None:
    found = spec()
    assert (found.mechanism, found.estimate.method) == (MechanismName.UBD, Method.LIKELIHOOD)
    assert found.estimate.consistency is Consistency.NONE
    assert (found.group_columns, found.groups, found.weight, found.first) == ((), None, None, None)


def test_every_way_to_write_a_survey_is_one_survey() -> None:
    one = spec(answer=["work", "home"], domain={"categories": CROSSED, "sensitive": "any"}, epsilon=0.5)
    turned = {column: dict(reversed(flags.items())) for column, flags in reversed(CROSSED.items())}
    other = spec(answer=["home", "work"], domain={"categories": turned}, epsilon=Fraction(1, 2))
    assert one == other
    assert one.digest == other.digest
    assert one.answer == ("home", "work")


def test_what_a_survey_asks_changes_the_digest() -> None:
    more = {"at school": False, "ill": True, "retired": False}
    changes: list[dict[str, Any]] = [
        {},
        {"domain": {"categories": {"at school": True, "ill": True}}},
        {"domain": {"categories": more}},
        {"domain": {"file": "codes.csv"}},
        {"epsilon": 2},
        {"mechanism": "urr"},
        {"first": "at"},
        {"group_by": ["state"], "groups": {"public": ["CA"]}},
        {"group_by": ["state"], "groups": {"public_file": "s.csv"}},
        {
            "group_by": ["state"],
            "groups": {"public_file": "s.csv"},
            "weight": {"column": "pop", "upper": "1e6"},
        },
        {"estimate": {"method": "linear"}},
        {"input": None},
    ]
    assert len({spec(**change).digest for change in changes}) == len(changes)


flags = st.dictionaries(
    st.text("abcé %:#'\"{}[],", min_size=1, max_size=9), st.booleans(), min_size=1, max_size=4
)


@settings(max_examples=25, deadline=None)
@given(flags, st.fractions(Fraction(1, 10_000), 20, max_denominator=10**6), st.sampled_from(["any", "all"]))
def test_yaml_and_canonical_form_read_back_to_the_same_survey(
    written: dict[str, bool], epsilon: Fraction, rule: str
) -> None:
    crossed = {"categories": {"work": written, "home": {"c": True}}, "sensitive": rule}
    for found in (
        spec(domain={"categories": written}, epsilon=epsilon),
        spec(answer=["work", "home"], domain=crossed, group_by=["s"], groups={"public": [*written]}),
    ):
        assert survey_from_canonical(found.canonical_json()) == found
        assert parse_survey(found.canonical_json()).digest == found.digest
        assert parse_survey(spec_yaml(found)) == found


def test_the_first_survey_is_one() -> None:
    found = parse_survey(render_first_survey())
    assert found.first == "answered_at"
    assert parse_survey(spec_yaml(found)) == found


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"unit": {"row": True}}, "a person answers once"),
        ({"unit": {"column": "p", "on_null": "drop", "per": "day"}}, "unit.per = 'day'"),
        ({"answer": "Person"}, "'Person': is a column of unit"),
        ({"answer": "reports"}, "is a column that the survey itself writes"),
        ({"first": "PERSON"}, "first = 'PERSON': is a column of unit"),
        ({"answer": ["work", "work"]}, "is listed twice"),
        ({"epsilon": 0}, "0.0001 <= epsilon <= 20"),
        ({"epsilon": 21}, "0.0001 <= epsilon <= 20"),
        ({"mechanism": "urap"}, "comparisons only"),
        ({"mechanism": "uoue"}, "comparisons only"),
        ({"mechanism": "ubc"}, "ubd is the nearest"),
        ({"epsilom": 1}, "did you mean 'epsilon'?"),
        ({"wave": "2024"}, "--wave"),
        ({"bounds": {"max_rows": 1}}, "a person has one report"),
        ({"budget": {"population": "p", "horizon": 3}}, "each wave costs epsilon"),
        ({"publish": [{"sink": "parquet", "path": "data/answers/x"}]}, "lies within the other"),
        ({"estimate": {"method": "likelyhood"}}, "likelihood is the nearest"),
        ({"domain": {}}, "missing key 'categories'"),
        ({"domain": {"categories": {"a": True}, "file": "f.csv"}}, "a domain has one source"),
        ({"domain": {"categories": {}}}, "is empty"),
        ({"domain": {"categories": ["a"]}}, "is not a mapping"),
        ({"domain": {"categories": {"a": "yes"}}}, "neither true nor false"),
        ({"domain": {"categories": {"a": True, "b": {"c": True}}}}, "mixes flags and columns"),
        ({"domain": {"categories": {"cafe\u0301": True}}}, "NFC"),
        ({"domain": {"categories": {"(other)": True}}}, "catch-all"),
        ({"domain": {"categories": {"a": True}, "sensitive": "all"}}, "says nothing"),
        ({"domain": {"categories": {"work": {"a": True}}}}, "the answer is one"),
        ({"answer": ["work", "home"]}, "does not say of which column each category is"),
        ({"answer": ["work", "age"], "domain": {"categories": CROSSED}}, "has other columns than the answer"),
        ({"group_by": ["state"]}, "missing key 'groups'"),
        ({"groups": {"public": ["CA"]}}, "says nothing without group_by"),
        ({"weight": {"column": "pop", "upper": 1}}, "needs groups.public_file"),
    ],
)
def test_what_a_survey_cannot_be_is_refused_with_the_way_out(changed: dict[str, Any], told: str) -> None:
    assert told in why(**changed)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"groups": {"private": {"select": "optimal"}}}, "attributes beside a report are not protected"),
        ({"groups": {"public_table": {"table": "t"}}}, "fixed when a wave is opened"),
        ({"groups": {"public": ["CA"], "null_label": "none"}}, "a NULL in a group column"),
        ({"groups": {"public": ["CA"], "total_label": "all"}}, "labels of their own"),
        ({"groups": {"public": ["CA", "(all)"]}}, "could not be told apart"),
        ({"groups": {"public": [["CA", "x"]]}}, "has 2 values"),
        ({"group_by": ["work"]}, "the answer would stand beside its report, in clear"),
        ({"group_by": ["WORK"]}, "the answer would stand beside its report, in clear"),
        ({"group_by": ["person"]}, "a group would name people"),
        ({"group_by": ["token"]}, "the survey itself writes"),
        (
            {"groups": {"public_file": "s.csv"}, "weight": {"column": "state", "upper": 1}},
            "a weight is a number beside a group",
        ),
        ({"groups": {"public_file": "s.csv"}, "weight": {"column": "pop", "upper": 0}}, "0 < upper"),
    ],
)
def test_groups_that_rows_would_tell_or_that_tell_too_much_are_refused(
    changed: dict[str, Any], told: str
) -> None:
    assert told in why(**{"group_by": ["state"], "groups": {"public": ["CA"]}} | changed)


def test_one_refusal_names_everything() -> None:
    told = why(unit={"row": True}, answer="reports", weight={"column": "pop", "upper": 1}, group_by=["s"])
    assert "4 problems" in told


def test_a_release_and_a_survey_are_not_taken_for_one_another(tmp_path: Path) -> None:
    survey, release = tmp_path / "survey.yaml", tmp_path / "release.yaml"
    survey.write_text(render_first_survey())
    release.write_text("release: visits\n")
    assert load_survey(survey) == parse_survey(render_first_survey())
    with pytest.raises(SpecRefused, match="is the spec of a survey, not of a release") as refusal:
        load_spec(survey)
    assert (refusal.value.code, "dp-spark survey" in refusal.value.way_out) == ("spec_is_survey", True)
    with pytest.raises(SpecRefused, match="is the spec of a release, not of a survey") as refusal:
        load_survey(release)
    assert (refusal.value.code, "dp-spark run" in refusal.value.way_out) == ("spec_is_release", True)
    with pytest.raises(SpecRefused, match="is not a file"):
        load_survey(tmp_path / "nowhere.yaml")
    with pytest.raises(SpecRefused, match="unknown key 'survey'"):
        parse_spec("release: a\nsurvey: b\n")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*SurveySpec.model_fields]), values)
def test_any_value_anywhere_is_accepted_or_refused(key: str, value: object) -> None:
    try:
        found = SurveySpec(**BASE | {key: value})
    except SpecRefused as refusal:
        assert refusal.way_out  # noqa: PT017
    else:
        assert survey_from_canonical(found.canonical_json()) == found


def test_a_survey_has_no_long_shape_for_its_tables_are_long() -> None:
    told = why(publish=[{"sink": "parquet", "path": "out/work", "shape": "long"}])
    assert "publish[0].shape" in told
    spec(publish=[{"sink": "parquet", "path": "out/work", "shape": "wide"}])
