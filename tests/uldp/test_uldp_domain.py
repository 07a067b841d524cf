"""Domains: what is sensitive, the catch-all, codes, and a digest that tells all of it."""

import pickle
import sys
import time
import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.errors import PlanRefused
from dp_spark.release.reading import LONGEST_TEXT as LONGEST_IN_SPEC
from dp_spark.release.reading import holds_control
from dp_spark.uldp import CATCH_ALL, Domain, SensitiveIf
from dp_spark.uldp.categories import OTHER
from dp_spark.uldp.texts import LONGEST_TEXT, holds_unprintable

ILLS = {"flu": False, "HIV": True, "cold": False, "TB": True}
COLUMNS = {"ill": {"HIV": True, "flu": False}, "age": {"old": False, "young": True, "mid": False}}
COMPOSED, DECOMPOSED = "é", "e\u0301"

listable = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff"),
    min_size=1,
    max_size=3,
).map(lambda text: unicodedata.normalize("NFC", text))
flagged = st.dictionaries(listable, st.booleans(), min_size=1, max_size=4)
tables = st.dictionaries(listable, flagged, min_size=1, max_size=3)


def test_codes_are_the_catch_all_the_sensitive_then_the_others_by_code_point() -> None:
    domain = Domain.of("ill", ILLS)
    assert domain.cells == ((OTHER,), ("HIV",), ("TB",), ("cold",), ("flu",))
    assert (domain.n_categories, domain.n_sensitive) == (5, 3)
    assert [domain.code_of(cell) for cell in domain.cells] == [0, 1, 2, 3, 4]


def test_what_is_not_listed_or_no_text_is_the_sensitive_catch_all() -> None:
    answers = [None, "", "unknown", "hiv", "HIV ", OTHER, float("nan"), 7, b"HIV", "HIV\0", "\ud800", "TB"]
    codes = Domain.of("ill", ILLS).codes({"ill": answers})
    assert codes.tolist() == [CATCH_ALL] * 11 + [2]
    assert codes.dtype == np.int64


def test_arrays_of_objects_and_of_texts_are_read_alike() -> None:
    domain, answers = Domain.of("ill", ILLS), ["flu", "x", "HIV"]
    for column in (answers, np.array(answers, dtype=object), np.array(answers)):
        assert domain.codes({"ill": column}).tolist() == [4, 0, 1]
    assert domain.codes({"ill": []}).tolist() == []


def test_spellings_of_one_text_are_one_answer_and_lookalikes_are_not() -> None:
    domain = Domain.of("c", {DECOMPOSED: False, "a": True})
    assert domain == Domain.of("c", {COMPOSED: False, "a": True})
    answers = [COMPOSED, DECOMPOSED, "\u0435\u0301", "a", "\u0430", "\uff41", "A", "a\u200b"]
    assert domain.codes({"c": answers}).tolist() == [2, 2, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("rule", "open_cells"),
    [
        (SensitiveIf.ANY, {("mid", "flu"), ("old", "flu")}),
        (
            SensitiveIf.ALL,
            {(age, ill) for age in COLUMNS["age"] for ill in COLUMNS["ill"]} - {("young", "HIV")},
        ),
    ],
)
def test_a_cell_is_sensitive_by_any_or_by_all_of_its_categories(rule, open_cells) -> None:
    domain = Domain.crossed(COLUMNS, rule)
    assert domain.columns == ("age", "ill")
    assert set(domain.cells[domain.n_sensitive :]) == open_cells
    assert list(domain.cells[1 : domain.n_sensitive]) == sorted(domain.cells[1 : domain.n_sensitive])
    assert len(set(domain.cells)) == domain.n_categories == 7


def test_cells_that_are_listed_are_sensitive_and_no_others() -> None:
    columns = {"ill": ["flu", "HIV"], "age": ["old", "mid", "young"]}
    domain = Domain.of_cells(columns, [("HIV", "young"), ("flu", "old")])
    assert domain.cells[1:3] == (("old", "flu"), ("young", "HIV"))
    assert domain.n_sensitive == 3
    assert Domain.of_cells(columns, [("HIV", "young")]) == Domain.crossed(COLUMNS, SensitiveIf.ALL)


def test_an_unknown_part_of_a_cell_makes_all_of_it_unknown() -> None:
    domain = Domain.crossed(COLUMNS, SensitiveIf.ALL)
    answers = {"ill": ["flu", None, "flu", "HIV"], "age": ["old", "old", "x", "young"]}
    assert domain.codes(answers).tolist() == [domain.code_of(("old", "flu")), 0, 0, 1]


def test_columns_are_known_by_name_in_any_order() -> None:
    domain = Domain.crossed(COLUMNS, SensitiveIf.ANY)
    rng = np.random.default_rng(3)
    cells = [domain.cells[at] for at in rng.integers(domain.n_categories, size=500)]
    age, ill = ([cell[at] for cell in cells] for at in (0, 1))
    codes = domain.codes({"ill": ill, "age": age})
    assert codes.tolist() == domain.codes({"age": age, "ill": ill}).tolist()
    assert [domain.cells[code] for code in codes] == cells


@pytest.mark.parametrize(
    "answers", [{}, {"age": ["old"]}, {"age": ["old"], "ill": []}, {"age": [], "ill": [], "more": []}]
)
def test_other_columns_are_refused(answers) -> None:
    with pytest.raises(PlanRefused, match="age"):
        Domain.crossed(COLUMNS, SensitiveIf.ANY).codes(answers)


def test_all_may_be_sensitive_or_only_the_catch_all() -> None:
    assert Domain.of("c", {"a": True, "b": True}).n_sensitive == 3
    lone = Domain.of("c", {"a": False})
    assert (lone.n_categories, lone.n_sensitive) == (2, 1)


@settings(deadline=None)
@given(tables, st.randoms(use_true_random=False), st.sampled_from(SensitiveIf))
def test_the_order_in_which_it_is_written_changes_nothing(table, rng, rule) -> None:
    if any(OTHER in {name, *flags} for name, flags in table.items()):
        return
    columns = [(name, rng.sample(sorted(flags.items()), len(flags))) for name, flags in table.items()]
    rng.shuffle(columns)
    shuffled = Domain.crossed({name: dict(flags) for name, flags in columns}, rule)
    domain = Domain.crossed(table, rule)
    assert (shuffled, shuffled.cells, shuffled.digest) == (domain, domain.cells, domain.digest)


@settings(deadline=None)
@given(tables, tables)
def test_the_digest_is_equal_only_for_equal_domains(one, two) -> None:
    first, second = (Domain.crossed(table, SensitiveIf.ANY) for table in (one, two))
    meanings = [(each.columns, each.cells, each.n_sensitive) for each in (first, second)]
    assert (first.digest == second.digest) == (first == second) == (meanings[0] == meanings[1])


@settings(deadline=None)
@given(flagged, listable, st.data())
def test_every_flag_text_and_column_is_in_the_digest(flags, text, data) -> None:
    told = {Domain.of("c", flags).digest}
    at = data.draw(st.sampled_from(sorted(flags)))
    told.add(Domain.of("c", flags | {at: not flags[at]}).digest)
    told.add(Domain.of("d", flags).digest)
    told.add(Domain.crossed({"c": flags, "d": {"a": True}}, SensitiveIf.ANY).digest)
    expected = 4
    if text not in flags:
        renamed = {text if each == at else each: flag for each, flag in flags.items()}
        told |= {Domain.of("c", renamed).digest, Domain.of("c", flags | {text: True}).digest}
        expected += 2
    assert len(told) == expected


def test_texts_that_look_joined_are_told_apart_by_the_digest() -> None:
    pairs = [['a","b'], ["a", "b"], ["a,b"], ["a b"], ["ab"]]
    assert len({Domain.of("c", dict.fromkeys(texts, True)).digest for texts in pairs}) == len(pairs)


def test_the_digest_stays_what_it_was() -> None:
    """A ledger compares it with that of an earlier wave."""
    expected = "c109fdbaedb46eadf9cdcb31be37d30098adeac61b5464b71d085b73364d8812"
    assert Domain.of("ill", ILLS).digest == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\0",
        "a\nb",
        "\t",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ud800",
        "a\udfff",
        "x" * 1001,
        OTHER,
        None,
        7,
    ],
)
def test_what_no_category_can_be_is_refused(text) -> None:
    with pytest.raises(PlanRefused):
        Domain.of("c", {"a": True, text: True})
    with pytest.raises(PlanRefused):
        Domain.of(text, {"a": True})


def test_a_text_can_be_listed_if_a_group_of_a_spec_can_hold_its_characters() -> None:
    assert LONGEST_TEXT == LONGEST_IN_SPEC
    for code in range(sys.maxunicode + 1):
        assert holds_unprintable(chr(code)) == holds_control(chr(code)), hex(code)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Domain.of("c", {}),
        lambda: Domain.crossed({}, SensitiveIf.ANY),
        lambda: Domain.crossed({"a": {"x": True}, "b": {}}, SensitiveIf.ANY),
        lambda: Domain.of("c", {COMPOSED: True, DECOMPOSED: False}),
        lambda: Domain.crossed({COMPOSED: {"x": True}, DECOMPOSED: {"x": True}}, SensitiveIf.ANY),
        lambda: Domain.of_cells({"c": ["a", "b", "a"]}, []),
        lambda: Domain.of_cells({"c": "ab"}, []),
        lambda: Domain.of_cells({"c": ["a", "b"]}, [("A",)]),
        lambda: Domain.of_cells({"c": ["a", "b"]}, ["a"]),
        lambda: Domain.of_cells({"c": ["a", "b"]}, [("a", "b")]),
        lambda: Domain.of_cells({"c": ["a", "b"]}, [(None,)]),
        lambda: Domain.of("c", {"a": "no"}),
        lambda: Domain.of("c", {"a": 0}),
        lambda: Domain.of("c", {"a": None}),
        lambda: Domain.crossed(COLUMNS, "some"),
        lambda: Domain.of_cells({"a": map(str, range(1000)), "b": map(str, range(1000))}, []),
        lambda: Domain.crossed({f"c{number}": {"a": True} for number in range(33)}, SensitiveIf.ANY),
        lambda: Domain(("c",), (("b", "a"),), b"\1\0"),
        lambda: Domain(("c",), (("a", "b"),), b"\1"),
        lambda: Domain(("c",), (("a", "b"),), b"\1\2"),
        lambda: Domain(("c",), ((DECOMPOSED,),), b"\1"),
    ],
)
def test_what_is_no_domain_is_refused(make) -> None:
    with pytest.raises(PlanRefused):
        make()


def test_it_is_frozen_hashable_and_travels() -> None:
    domain = Domain.crossed(COLUMNS, SensitiveIf.ANY)
    sent = pickle.loads(pickle.dumps(domain))
    assert sent == domain
    assert hash(sent) == hash(domain)
    assert sent.code_of(("old", "flu")) == domain.code_of(("old", "flu"))
    with pytest.raises(AttributeError):
        domain.columns = ("x",)  # type: ignore[misc]


def test_a_hostile_answer_is_not_composed_for_hours() -> None:
    begun = time.perf_counter()
    marks = "\u0316\u0301" * 200_000  # to bring so many marks in order takes their number squared
    assert Domain.of("c", {"a": False}).codes({"c": [marks, "a"]}).tolist() == [0, 1]
    assert time.perf_counter() - begun < 5


def test_many_cells_and_people_are_coded_quickly() -> None:
    texts = [f"category {number}" for number in range(999)]
    domain = Domain.of_cells({"a": texts, "b": texts}, [(texts[1], texts[2])])
    rng = np.random.default_rng(5)
    a, b = (np.array(texts, dtype=object)[rng.integers(999, size=300_000)] for _ in range(2))
    begun = time.perf_counter()
    codes = domain.codes({"a": a, "b": b})
    assert time.perf_counter() - begun < 5
    assert domain.cells[codes[17]] == (a[17], b[17])


def test_answers_of_any_array_count_and_one_text_is_no_column() -> None:
    domain = Domain.of("work", {"1": False, "ill": True})
    expected = domain.codes({"work": ["ill", None, "1"]}).tolist()
    assert expected == [1, 0, 2]
    assert domain.codes({"work": pa.array(["ill", None, "1"])}).tolist() == expected
    assert domain.codes({"work": pd.Series(["ill", None, "1"])}).tolist() == expected
    assert domain.codes({"work": np.array(["ill", None, 1], dtype=object)}).tolist() == expected
    assert domain.codes({"work": [1, b"1", 1.5]}).tolist() == [2, 0, 0]
    for column in ("ill", b"ill", 3, None):
        with pytest.raises(PlanRefused, match=r"is of type|of 0 lengths|columns"):
            domain.codes({"work": column})
    with pytest.raises(PlanRefused, match="has not 1 texts") as refused:
        domain.code_of("secret answer")
    assert "secret" not in str(refused.value)
    with pytest.raises(PlanRefused, match="are no mapping"):
        Domain.of("work", ["ill"])
