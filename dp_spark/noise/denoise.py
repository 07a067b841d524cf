"""Estimates from released values: shrinkage, thresholds, signs and sums. Post-processing: no privacy cost.

Every function sees released values and the public std of their noise, nothing else. What is biased says so.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FEWEST = 3  # below, no shrinkage beats the released values everywhere


@dataclass(frozen=True, slots=True, eq=False)
class Denoised:
    """Estimates of shape (n,), what made them, and whether they are biased.

    An interval made for the released values does not hold for biased ones.
    """

    values: Floats
    method: str
    biased: bool


def james_stein(released: Floats, std: float) -> Denoised:
    """Released values shrunk to 0 by a common factor, max(0, 1 - (n - 2) std^2 / sum of squares).

    For Gaussian noise the expected total squared error is less than that of the released values, whatever
    the truth; for other noise of the same std that holds to the extent that sums are about Gaussian. A
    single cell may become worse. Fewer than three values are returned as they are.

    Source: James and Stein 1961; positive part, Baranchik 1964; for released vectors, Balle and Wang 2018.
    """
    values = _checked(released, std)
    if len(values) < _FEWEST:
        return Denoised(values, "james_stein", biased=False)
    square = float(values @ values)
    factor = max(0.0, 1 - (len(values) - 2) * std**2 / square) if square else 0.0
    return Denoised(factor * values, "james_stein", biased=True)


def soft_threshold(released: Floats, std: float) -> Denoised:
    """Released values moved to 0 by std sqrt(2 log n), and 0 where they would cross it.

    Good for vectors of which most cells are 0; for the others it adds a bias of up to the threshold.

    Source: Donoho and Johnstone 1994, universal threshold.
    """
    values = _checked(released, std)
    threshold = std * math.sqrt(2 * math.log(max(1, len(values))))
    shrunk = np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
    return Denoised(shrunk, "soft_threshold", biased=threshold > 0)


def non_negative(released: Floats) -> Denoised:
    """Released values, 0 where they are negative: never farther from a truth that is not negative.

    Sums of them are too large: the noise of empty cells no longer cancels.
    """
    return Denoised(np.maximum(_checked(released, 0.0), 0.0), "non_negative", biased=True)


def consistent_sums(released: Floats, covariance: Floats, constraints: Floats) -> Denoised:
    """The estimates nearest to the released values, by least squares under the noise, with consistent sums.

    `covariance` of the noise has shape (n, n), or (n,) for independent values; every row of `constraints`,
    shape (k, n), holds the coefficients of a sum that is 0 in truth (a total minus its parts). Linear and
    unbiased; no variance becomes larger. Source: Gauss-Markov.

    Raises:
        ValueError: shapes differ, the covariance is not positive, or a constraint follows from the others.
    """
    values = _checked(released, 0.0)
    n = len(values)
    if covariance.shape not in {(n,), (n, n)} or constraints.shape[1:] != (n,):
        raise ValueError("covariance must have shape (n,) or (n, n) and constraints (k, n)")
    independent = covariance.ndim == 1
    if (covariance if independent else np.linalg.eigvalsh(covariance)).min(initial=math.inf) <= 0:
        raise ValueError("the covariance of the noise must be positive definite")
    if np.linalg.matrix_rank(constraints) < len(constraints):
        raise ValueError("a constraint follows from the others; leave it out")
    spread = covariance[:, np.newaxis] * constraints.T if independent else covariance @ constraints.T
    correction = spread @ np.linalg.solve(constraints @ spread, constraints @ values)
    return Denoised(values - correction, "consistent_sums", biased=False)


def _checked(released: Floats, std: float) -> Floats:
    if released.ndim != 1 or not np.isfinite(released).all() or not 0 <= std < math.inf:
        raise ValueError("released values must be finite, of shape (n,), and their std finite and >= 0")
    return released
