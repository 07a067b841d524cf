"""The people of the demo's survey: made up, the same on every machine, skewed, and different by region.

Nobody stands behind them, so their true shares may be shown. What they answer comes from the keyed stream
under a key that everybody knows.
"""

import hashlib
from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dp_spark.noise import encode_label, words

PEOPLE = 200_000
NIGHTS = (date(2024, 3, 1), date(2024, 3, 2))
REGIONS = tuple("ABCDEFGHIJ")
# What people do, and of how many in ten thousand that is true where a region has no ways of its own.
WORK = {
    "at work": 4200,
    "self-employed": 800,
    "at school": 1400,
    "retired": 1600,
    "caring for others": 600,
    "on leave": 200,
    "travelling": 100,
    "ill": 400,
    "disabled": 300,
    "unemployed": 300,
    "in treatment": 80,
    "in prison": 20,
}
_KEY = hashlib.sha256(b"the people of the demo's survey").digest()  # public: it protects nobody
_ON_FIRST_NIGHT, _CHANGE = 0.6, 0.25

_Floats = NDArray[np.float64]


def answers(night: date) -> pd.DataFrame:
    """The answers that come in on one of NIGHTS: columns person, region, work, answered_at.

    On the second come those who had not answered, and some who had, with what they do now.
    """
    region = _chosen(_skewed(len(REGIONS))[None, :], np.zeros(PEOPLE, dtype=np.int64), _uniform("region"))
    early = _uniform("night") < _ON_FIRST_NIGHT
    first = night == NIGHTS[0]
    here = early if first else ~early | (_uniform("again") < _CHANGE)
    work = _chosen(_shares(), region, _uniform("work"))
    if not first:
        work = np.where(early, _chosen(_shares(), region, _uniform("later")), work)
    return pd.DataFrame(
        {
            "person": np.flatnonzero(here),
            "region": np.array(REGIONS)[region[here]],
            "work": np.array(list(WORK))[work[here]],
            "answered_at": night,
        }
    )


def true_shares(group: str, answer: str, *, total: str) -> "pd.Series[float]":
    """Share of each category in each region and in all, of the answers that stand: each person's first."""
    every = pd.concat([answers(night) for night in NIGHTS]).drop_duplicates("person", keep="first")
    both = pd.concat([every, every.assign(**{group: total})])
    return both.groupby(group)[answer].value_counts(normalize=True)


def _shares() -> _Floats:
    """Of each region the share of each category, shape (regions, categories)."""
    region, category = np.arange(len(REGIONS))[:, None], np.arange(len(WORK))[None, :]
    parts = np.array([*WORK.values()]) * (1 + 0.6 * np.cos(1.0 + region * (2 * category + 1)))
    shares: _Floats = parts / parts.sum(axis=1, keepdims=True)
    return shares


def _skewed(n: int) -> _Floats:
    """The parts of n regions: the largest has n times the people of the smallest."""
    parts = 1 / np.arange(1, n + 1)
    shares: _Floats = parts / parts.sum()
    return shares


def _chosen(shares: _Floats, row: NDArray[np.int64], uniform: _Floats) -> NDArray[np.int64]:
    """For each person a column of a row of `shares`, by one uniform number, shape (PEOPLE,)."""
    ends = np.cumsum(shares, axis=1)[:, :-1]
    return np.asarray((uniform[:, None] >= ends[row]).sum(axis=1), dtype=np.int64)


def _uniform(what: str) -> _Floats:
    """A number in [0, 1) for each person, shape (PEOPLE,)."""
    ids = np.zeros((PEOPLE, 2), dtype=np.uint64)
    ids[:, 1] = np.arange(PEOPLE)
    drawn = words(_KEY, encode_label("demo", what), ids)[:, 0] >> np.uint64(11)
    return np.asarray(drawn * 2.0**-53, dtype=np.float64)
