"""Lower and upper tails in log space, from one half of a symmetric law."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

Floats = NDArray[np.float64]

_ASYMPTOTIC_FROM = 500.0  # here eight terms of the series of the upper gamma function leave 1e-17


def two_sided(log_tail: Callable[[Floats], Floats], x: Floats) -> Floats:
    """The log of F(x) by symmetry from log P(X > size), size >= 0."""
    logs = log_tail(np.abs(x))
    return np.where(x <= 0, logs, np.log1p(-np.exp(logs)))


def log_upper_gamma(order: float, x: Floats) -> Floats:
    """The log of Q(order, x), order in (0, 1], also where Q itself underflows."""
    far = np.maximum(x, _ASYMPTOTIC_FROM)
    series, term = np.ones_like(far), np.ones_like(far)
    for k in range(1, 9):
        term = term * (order - k) / far
        series = series + term
    beyond = -far + (order - 1) * np.log(far) - math.lgamma(order) + np.log(series)
    near = np.log(gammaincc(order, np.minimum(x, _ASYMPTOTIC_FROM)))
    return np.where(x > _ASYMPTOTIC_FROM, beyond, near)
