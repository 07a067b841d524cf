"""The shared words: one text for each privacy unit, and back."""

import pytest

from dp_spark.guarantee import Every, PrivacyUnit

UNITS = [
    PrivacyUnit(()),
    PrivacyUnit(("row",)),
    PrivacyUnit(("person",)),
    PrivacyUnit(("person",), Every.DAY),
    PrivacyUnit(('person" per day',)),
    PrivacyUnit(("household", "person")),
    PrivacyUnit(('household" + "person',)),
    PrivacyUnit(("a\\", "é", "\\"), Every.MONTH),
]


def test_every_unit_has_a_text_of_its_own_that_is_read_back() -> None:
    texts = [str(unit) for unit in UNITS]
    assert len(set(texts)) == len(UNITS)
    assert [PrivacyUnit.parse(text) for text in texts] == UNITS
    assert texts[:4] == ["row", '"row"', '"person"', '"person" per day']


def test_the_order_of_columns_makes_no_other_unit() -> None:
    assert PrivacyUnit(("person", "household")) == PrivacyUnit(("household", "person"))


@pytest.mark.parametrize(
    "text",
    ["", "person", "row per day", '"a" + ', '"b" + "a"', '"a" per year', '"a" per ', '"a""b"', '"\\u0061"'],
)
def test_other_texts_are_no_unit(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        PrivacyUnit.parse(text)


@pytest.mark.parametrize(("columns", "per"), [(("a", "a"), None), ((), Every.DAY)])
def test_units_that_make_no_sense_are_refused(columns: tuple[str, ...], per: Every | None) -> None:
    with pytest.raises(ValueError, match=r"distinct|row"):
        PrivacyUnit(columns, per)
