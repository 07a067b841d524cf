"""The plan of a wave: its lists from files, its efficiency, and the bytes that later versions read."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_spark.errors import InputRefused, LedgerRefused
from dp_spark.release.spec import SurveySpec
from dp_spark.release.spec.survey import NUMBERED
from dp_spark.release.survey import SurveyPlan, plan_survey, survey_plan_from_bytes, survey_plan_to_bytes
from dp_spark.uldp import CATCH_ALL, MechanismName, limit, mechanism
from dp_spark.uldp.choice import best_designs

FLAGS = {"at school": False, "ill": True, "retired": False, "in prison": True}


def spec(**changed: Any) -> SurveySpec:
    base: dict[str, Any] = {
        "survey": "work_status",
        "unit": {"column": "person", "on_null": "drop"},
        "answer": "work",
        "domain": {"categories": FLAGS},
        "epsilon": 1,
        "budget": {"population": "us_persons"},
        "publish": [{"sink": "parquet", "path": "out/work"}],
    }
    return SurveySpec(**base | changed)


def with_categories(v: int, others: int, **changed: Any) -> SurveySpec:
    """A survey of w = v + others categories, v of them sensitive, the catch-all among them."""
    listed = {f"s{i}": True for i in range(v - 1)} | {f"n{i}": False for i in range(others)}
    return spec(domain={"categories": listed}, **changed)


def written(path: Path, text: str) -> str:
    file = path / "codes.csv"
    file.write_text(text, encoding="utf-8")
    return str(file)


def refused(code: str, asked: SurveySpec, **more: Any) -> str:
    with pytest.raises(InputRefused) as refusal:
        plan_survey(asked, **more)
    assert refusal.value.code == code
    assert refusal.value.way_out
    return refusal.value.message


def test_a_plan_has_the_domain_the_mechanism_and_everybody_as_one_group() -> None:
    plan = plan_survey(spec())
    assert plan.domain.cells == (("(other)",), ("ill",), ("in prison",), ("at school",), ("retired",))
    assert plan.domain.n_sensitive == 3
    assert plan.mechanism == mechanism("ubd", 5, 3, 1)
    assert (plan.groups, plan.weights) == (((),), None)
    assert plan.efficiency == best_designs(5, 3, Fraction(1)).efficiency.value


@pytest.mark.parametrize("name", NUMBERED)
def test_efficiency_is_a_share_of_the_limit(name: MechanismName) -> None:
    plan = plan_survey(with_categories(6, 4, mechanism=name))
    assert 0.3 < plan.efficiency <= 1
    assert plan.efficiency <= plan_survey(with_categories(6, 4)).efficiency + 1e-9


def test_randomized_response_is_as_efficient_as_its_closed_error() -> None:
    from dp_spark.uldp import mixture_mse

    plan = plan_survey(with_categories(6, 4, mechanism="urr"))
    alphas = np.linspace(0, 1, 2001)
    worst = max(mixture_mse(10, 6, 1, alpha=float(alpha), block_weights={1: 1.0}) for alpha in alphas)
    assert plan.efficiency == pytest.approx(limit(10, 6, 1).mse / worst, rel=1e-5)


def test_a_file_is_as_good_as_a_list(tmp_path: Path) -> None:
    text = "work,sensitive\n" + "".join(f"{text},{str(flag).lower()}\n" for text, flag in FLAGS.items())
    from_csv = plan_survey(spec(domain={"file": written(tmp_path, text)}))
    file = tmp_path / "codes.parquet"
    pq.write_table(pa.table({"sensitive": [*FLAGS.values()], "work": [*FLAGS], "more": [1] * 4}), file)
    from_parquet = plan_survey(spec(domain={"file": str(file)}))
    assert from_csv.domain == from_parquet.domain == plan_survey(spec()).domain


def test_a_cell_that_a_file_does_not_list_is_sensitive(tmp_path: Path) -> None:
    file = written(tmp_path, "home,work,sensitive\nb,x,false\na,x,true\na,y,false\n")
    domain = plan_survey(spec(answer=["work", "home"], domain={"file": file})).domain
    assert domain.columns == ("home", "work")
    assert domain.cells == (("(other)", "(other)"), ("a", "x"), ("b", "y"), ("a", "y"), ("b", "x"))
    assert domain.n_sensitive == 3
    assert domain.code_of(("a", "z")) == CATCH_ALL


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        ("domain_file", "work,sensitive\na,yes\n", ": 'a' has sensitive = 'yes'"),
        ("domain_file", "work,sensitive\na,\n", "sensitive = ''"),
        ("domain_file", "work,sensitive\na,true\na,false\n", "lists 'a' twice"),
        (
            "domain_file",
            "work,sensitive\ncaf\u00e9,true\ncafe\u0301,true\n",
            "twice, perhaps in two spellings",
        ),
        ("domain_file", "work,sensitive\n(other),true\n", "catch-all"),
        ("domain_file", "work,sensitive\n,true\n", "0 characters"),
        ("groups_columns", "wrok,sensitive\na,true\n", "did you mean 'wrok'?"),
        ("groups_columns", "work\na\n", "no column 'sensitive'"),
        ("list_empty", "work,sensitive\n", "has no rows"),
        ("groups_not_readable", "", "cannot be read"),
    ],
)
def test_a_file_that_is_no_domain_is_refused(tmp_path: Path, code: str, text: str, told: str) -> None:
    assert told in refused(code, spec(domain={"file": written(tmp_path, text)}))


def test_a_cell_of_two_columns_is_told_as_a_list_writes_it(tmp_path: Path) -> None:
    file = written(tmp_path, "sex,work,sensitive\nf,a,true\nf,a,false\n")
    told = refused("domain_file", spec(answer=["work", "sex"], domain={"file": file}))
    assert "lists ['f', 'a'] twice" in told


@pytest.mark.parametrize(
    ("code", "column", "way_out"),
    [("groups_label", ["(all)"], "labels of a survey"), ("groups_null", ["CA", None], "no public group")],
)
def test_a_list_of_groups_is_refused_with_a_way_out_that_surveys_have(
    tmp_path: Path, code: str, column: list[str | None], way_out: str
) -> None:
    pq.write_table(pa.table({"state": column}), tmp_path / "states.parquet")
    asked = spec(group_by=["state"], groups={"public_file": str(tmp_path / "states.parquet")})
    with pytest.raises(InputRefused) as refusal:
        plan_survey(asked)
    assert (refusal.value.code, way_out in refusal.value.way_out) == (code, True)
    assert "groups." not in refusal.value.way_out


def test_a_list_is_never_read_from_private_rows(tmp_path: Path) -> None:
    file = written(tmp_path, "work,sensitive,state\na,true,CA\n")
    asked = spec(domain={"file": file})
    assert plan_survey(asked).domain.n_categories == 2
    refused("list_from_private_source", asked, private=[str(tmp_path.resolve())])
    own = {"format": "csv", "path": str(tmp_path)}
    refused("list_from_private_source", spec(domain={"file": file}, input=own))
    grouped = spec(group_by=["state"], groups={"public_file": file}, input=own)
    refused("list_from_private_source", grouped)


def weighted(path: str, **weight: Any) -> SurveySpec:
    weight = {"column": "pop", "upper": 100} | weight
    return spec(group_by=["state"], groups={"public_file": path}, weight=weight)


def test_weights_are_exact_and_stand_in_the_order_of_the_groups(tmp_path: Path) -> None:
    plan = plan_survey(weighted(written(tmp_path, "pop,state\n0.1,NY\n1/3,CA\n1e2,AL\n0.1,NY\n")))
    assert plan.groups == (("AL",), ("CA",), ("NY",))
    assert plan.weights == (100, Fraction(1, 3), Fraction(1, 10))
    file = tmp_path / "states.parquet"
    pq.write_table(pa.table({"state": ["NY", "CA"], "pop": [0.1, 2.5]}), file)
    assert plan_survey(weighted(str(file))).weights == (Fraction(5, 2), Fraction(1, 10))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("weight_out_of_range", "state,pop\nCA,0\n"),
        ("weight_out_of_range", "state,pop\nCA,-1\n"),
        ("weight_out_of_range", "state,pop\nCA,100.5\n"),
        ("weight_out_of_range", "state,pop\nCA,\n"),
        ("weight_out_of_range", "state,pop\nCA,many\n"),
        ("weight_out_of_range", "state,pop\nCA,nan\n"),
        ("weight_twice", "state,pop\nCA,1\nCA,2\n"),
        ("groups_columns", "state\nCA\n"),
    ],
)
def test_weights_that_are_none_are_refused(tmp_path: Path, code: str, text: str) -> None:
    refused(code, weighted(written(tmp_path, text)))


@pytest.mark.parametrize("name", NUMBERED)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
@pytest.mark.parametrize(("v", "others"), [(1, 2), (4, 0), (8, 5), (28, 10)])
def test_bytes_read_back_to_the_same_plan(name: str, epsilon: Fraction, v: int, others: int) -> None:
    groups = {"group_by": ["state"], "groups": {"public": ["CA", "NY"]}}
    plan = plan_survey(with_categories(v, others, mechanism=name, epsilon=epsilon, **groups))
    body = survey_plan_to_bytes(plan)
    assert survey_plan_from_bytes(body) == plan
    assert survey_plan_to_bytes(survey_plan_from_bytes(body)) == body


def test_stored_weights_and_cells_read_back(tmp_path: Path) -> None:
    plan = plan_survey(weighted(written(tmp_path, "pop,state\n0.1,NY\n1/3,CA\n")))
    assert survey_plan_from_bytes(survey_plan_to_bytes(plan)) == plan


def test_the_designs_that_are_stored_decode_not_those_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_survey(with_categories(28, 10))
    body = survey_plan_to_bytes(plan)
    monkeypatch.setattr("dp_spark.release.survey.mechanism", lambda *_: pytest.fail("planned again"))
    monkeypatch.setattr("dp_spark.uldp.choice.best_designs", lambda *_: pytest.fail("chosen again"))
    assert survey_plan_from_bytes(body).mechanism == plan.mechanism


# Written by the first version: whatever changes, reports of its waves are to be read like this.
DESIGNS: dict[str, dict[str, Any]] = {
    "affine(q=31, size=8)": {"kind": "affine", "n_points": 28, "prime": 31, "size": 8},
    "complete(v=28, size=2)": {"kind": "complete", "n_points": 28, "size": 2},
    "field(q=32, size=8)": {"kind": "field", "n_points": 28, "order": 32, "size": 8},
    "hadamard(order=32, first=False)": {"kind": "hadamard", "n_points": 28, "first": False},
    "hashing(q=29, cells=4)": {"kind": "hashing", "n_points": 28, "prime": 29, "cells": 4},
    "singletons(v=28)": {"kind": "trivial", "n_points": 28, "size": 1},
}


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_are_stored_by_kind_and_parameters(name: str) -> None:
    from dp_spark.release.stored_mechanism import mechanism_from_json, mechanism_to_json
    from dp_spark.uldp.block_mechanism import BlockMechanism

    stored = {
        "name": "ubd",
        "n_categories": 38,
        "n_sensitive": 28,
        "epsilon": "1/2",
        "beside": "0",
        "components": [{"weight": "1", "design": DESIGNS[name]}],
    }
    made = mechanism_from_json(stored)
    assert isinstance(made, BlockMechanism)
    assert made.sampler.components[0].design.name == name
    assert mechanism_to_json(made) == stored


def test_bitmaps_are_not_stored() -> None:
    bits = replace(plan_survey(spec()), mechanism=mechanism("uoue", 5, 3, 1))
    with pytest.raises(TypeError, match="bitmaps"):
        survey_plan_to_bytes(bits)


def test_damaged_bytes_are_refused_wherever_the_damage_is() -> None:
    body = survey_plan_to_bytes(plan_survey(spec()))
    step = max(1, len(body) // 150)
    for at in range(0, len(body), step):
        damaged = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        with pytest.raises(LedgerRefused):
            survey_plan_from_bytes(damaged)
        with pytest.raises(LedgerRefused):
            survey_plan_from_bytes(body[:at])


def test_another_format_and_a_plan_of_another_kind_are_refused() -> None:
    document = json.loads(survey_plan_to_bytes(plan_survey(spec())))
    for other in (document | {"format": 2}, {"format": 1}, {"queries": []}, [], None):
        with pytest.raises(LedgerRefused, match="the stored plan of the wave"):
            survey_plan_from_bytes(json.dumps(other).encode())


def test_a_plan_is_a_value() -> None:
    assert plan_survey(spec()) == plan_survey(spec())
    assert isinstance(plan_survey(spec()), SurveyPlan)
