"""Two surveys of 249,789 real people, each from its account to its seal: estimates beside the true shares.

A share that is read wrongly must be seen, and one that is right must pass. If each interval misses one time
in twenty, more than `allowed` of them miss with probability 1e-9; real ones miss less often, for they
count the drawing of people too, and here everybody answers.
"""

import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from scipy.stats import binom

from dp_spark.release.spec import parse_survey
from dp_spark.release.survey import plan_survey
from dp_spark.uldp import exposure, mechanism

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # scripts, which import one another so

import real_surveys
from real_surveys import TOTAL, RealSurvey

pytestmark = pytest.mark.skipif(real_surveys.missing() is not None, reason=str(real_surveys.missing()))

PEOPLE = 249_789
FALSE_ALARM = 1e-9
STANDARD_ERRORS = 6.0  # of a normal estimate: 2e-9
NAMES = ("occupation", "status")


@pytest.fixture(scope="module")
def surveys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RealSurvey]:
    codes = tmp_path_factory.mktemp("codes") / "codes.csv"
    return {"occupation": real_surveys.occupation(codes), "status": real_surveys.status()}


@pytest.fixture(scope="module")
def found(
    surveys: dict[str, RealSurvey], tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> dict[str, pd.DataFrame]:
    live = partial(real_surveys.live, spark=lambda: spark)
    return {name: live(surveys[name], tmp_path_factory.mktemp(name)) for name in NAMES}


def misses(rows: pd.DataFrame) -> int:
    """Intervals that do not hold the true share."""
    return int(((rows["true"] < rows["share_low"]) | (rows["share_high"] < rows["true"])).sum())


def allowed(intervals: int) -> int:
    return int(binom.isf(FALSE_ALARM, intervals, 0.05))


def everybody(survey: RealSurvey, found: pd.DataFrame) -> pd.DataFrame:
    return found[found[survey.group] == TOTAL]


@pytest.mark.parametrize(("name", "cells", "groups"), [("occupation", 531, 49), ("status", 61, 4)])
def test_everybody_has_a_report_and_each_group_an_estimate(
    surveys: dict[str, RealSurvey], found: dict[str, pd.DataFrame], name: str, cells: int, groups: int
) -> None:
    survey, table = surveys[name], found[name]
    assert len(table) == cells * (groups + 1)
    reports = table.groupby(survey.group)["reports"].first()
    assert reports.pop(TOTAL) == PEOPLE
    assert reports.to_dict() == survey.answers[survey.group].value_counts().to_dict()


@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_the_true_shares(
    surveys: dict[str, RealSurvey], found: dict[str, pd.DataFrame], name: str
) -> None:
    total = everybody(surveys[name], found[name])
    groups = found[name].drop(total.index)
    for rows in (total, groups):
        assert misses(rows) <= allowed(len(rows))


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_other_categories_or_half_as_large_again_would_be_seen(
    surveys: dict[str, RealSurvey], found: dict[str, pd.DataFrame], name: str
) -> None:
    """The second in clear answers of one in a thousand and more: the rest are rarer than could be told."""
    total = everybody(surveys[name], found[name])
    clear = total[~total["sensitive"] & (total["true"] > 0.001)]
    shifted = total["true"].to_numpy()[[*range(1, len(total)), 0]]
    assert misses(total.assign(true=shifted)) > allowed(len(total))
    assert misses(clear.assign(true=1.5 * clear["true"])) > allowed(len(clear))


@pytest.mark.parametrize("name", NAMES)
def test_the_share_of_all_sensitive_answers_is_right(
    surveys: dict[str, RealSurvey], found: dict[str, pd.DataFrame], name: str
) -> None:
    """Its standard error is known: that of answers in clear, of which each stands for 1/rate of them.

    Read with an epsilon of 1.1 in the place of 1 it would be too far off.
    """
    plan = plan_survey(parse_survey(surveys[name].spec))
    rate = exposure(plan.mechanism).answers_in_clear
    total = everybody(surveys[name], found[name])
    hidden = total[total["sensitive"]]
    truth = float(hidden["true"].sum())
    std = (rate * (1 - truth) * (1 - rate * (1 - truth)) / PEOPLE) ** 0.5 / rate
    assert abs(hidden["share"].sum() - truth) < STANDARD_ERRORS * std
    other = mechanism("ubd", plan.domain.n_categories, plan.domain.n_sensitive, 1.1)
    mistaken = 1 - (1 - hidden["share"].sum()) * rate / exposure(other).answers_in_clear
    assert abs(mistaken - truth) > STANDARD_ERRORS * std
