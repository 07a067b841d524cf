from fractions import Fraction

import pytest

from dp_spark.report.figures import counted, exact, figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (57, "57"),
        (57.0, "57"),
        (Fraction(10_500), "10,500"),
        (123_456_789, "123,456,789"),
        (212.13123, "212.1"),
        (12_345.678, "12,350"),
        (9.99996, "10"),
        (999.96, "1,000"),
        (0.05, "0.05"),
        (0.0012345, "0.001234"),
        (1e-6, "1e-6"),
        (1.6666e-7, "1.667e-7"),
        (1.25e12, "1.25e12"),
        (-38_183.7, "-38,180"),
        (float("inf"), "inf"),
    ],
)
def test_figures_are_four_digits_in_the_shortest_usual_form(value, text):
    assert figures(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1), "1"),
        (Fraction(1, 5), "0.2"),
        (Fraction(35, 2), "17.5"),
        (Fraction(1, 10**6), "1e-6"),
        (Fraction(12, 10**6), "1.2e-5"),
        (Fraction(1, 3), "1/3"),
        (Fraction(-1, 7), "-1/7"),
        (Fraction(1, 3 * 10**6), "3.333e-7"),
        (Fraction(2**40), "1.1e12"),
    ],
)
def test_exact_loses_nothing_where_that_is_short(value, text):
    assert exact(value) == text


def test_a_noun_is_counted():
    assert (counted(1, "group"), counted(0, "row"), counted(2_000, "row")) == (
        "1 group",
        "0 rows",
        "2,000 rows",
    )
