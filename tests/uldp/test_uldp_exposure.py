"""What a mechanism does not hide: closed values, and the exact channel as an oracle."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from dp_spark.uldp import MechanismName, ReportCounts, exposure, mechanism


@pytest.mark.parametrize(
    ("epsilon", "v", "rate"), [(1, 5, 0.256), (1, 2, 0.462), (4, 5, 0.915), (4, 2, 0.964)]
)
def test_randomized_response_reports_so_many_answers_in_clear(epsilon, v, rate):
    assert exposure(mechanism("urr", 10, v, epsilon)).answers_in_clear == pytest.approx(rate, abs=5e-4)


@pytest.mark.parametrize(("v", "influence"), [(5, 3.9), (100, 59.2)])
def test_one_forged_block_of_randomized_response_counts_as_many_honest_ones(v, influence):
    found = exposure(mechanism("urr", 200, v, 1))
    assert found.influence_block == pytest.approx((exp(1) + v - 1) / (exp(1) - 1), rel=1e-12)
    assert found.influence_block == pytest.approx(influence, abs=0.05)


def test_a_fresh_report_each_night_multiplies_the_odds():
    assert exposure(mechanism("urr", 10, 5, 1)).odds ** 30 == pytest.approx(7060, rel=1e-3)


def odds_of_components(made, channel):
    """P(protected | S) / P(protected | N), of each stretch of the reports that one component has."""
    reports = np.flatnonzero(channel.protected)
    starts = made.sampler.reports.starts()[1:-2] if hasattr(made.sampler, "components") else ()
    for part in np.split(reports, np.searchsorted(reports, starts)):
        sensitive, other = channel.matrix[[0, -1]][:, part].sum(axis=1)
        yield float(sensitive / other)


@pytest.mark.parametrize("name", MechanismName)
@pytest.mark.parametrize(("w", "v"), [(6, 3), (5, 1), (4, 4)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
def test_rate_and_odds_are_those_of_the_exact_channel(name, w, v, epsilon):
    made = mechanism(name, w, v, epsilon)
    found, channel = exposure(made), made.channel()
    protected = channel.matrix[:, channel.protected].sum(axis=1)
    if w == v:
        assert (found.answers_in_clear, found.odds, found.influence_answer) == (0, 1, 0)
        return
    assert found.answers_in_clear == pytest.approx(float(1 - protected[v]), rel=1e-9)
    assert found.odds == pytest.approx(max(odds_of_components(made, channel)), rel=1e-9)
    assert 1 < found.odds <= exp(epsilon) * (1 + 1e-12)
    assert found.influence_answer == pytest.approx(1 / found.answers_in_clear)


@pytest.mark.parametrize("name", ["ubd", "urr", "uss", "uhr", "uolh"])
def test_the_influence_is_what_forged_reports_do_to_the_linear_estimate(name):
    w, v, n = 12, 6, 10_000
    made = mechanism(name, w, v, 1)
    found = exposure(made)
    *_, first_answer, _ = made.sampler.reports.starts()

    def shares(block, answer):
        reports = np.array([block, answer], dtype=np.int64)
        counts = np.array([n - 1, 1], dtype=np.int64)
        return made.estimate(ReportCounts(reports, counts), method="linear").shares

    several = len(made.sampler.components) > 1
    _, design = made.sampler.components[0]
    block = 1  # block 0 of uHR holds every point
    members = design.members(np.array([block]))[0]
    # All protected reports are one block: a point of it and another differ by the slope times its share.
    estimated = shares(block, first_answer)[:v]
    gap = (estimated[members][0] - estimated[~members][0]) * n / (n - 1)
    assert gap <= found.influence_block * (1 + 1e-9)
    assert several or gap == pytest.approx(found.influence_block, rel=1e-9)
    more = shares(block, first_answer) - shares(block, first_answer + 1)
    assert (more[v] - more[v + 2]) * n == pytest.approx(found.influence_answer, rel=1e-6)
