"""Sensitivities in the p-norm are refused, and the harm that the refusal prevents."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dp_spark.errors import PlanRefused
from dp_spark.noise.families import Family, Gaussian, Subbotin
from dp_spark.noise.norms import require_norm
from dp_spark.noise.privacy import least_scale, privacy_delta

CLAIMED = 1e-6


def composed_delta(family: Family, shift: float, cells: int, epsilon: float, *, width: float) -> float:
    """delta(epsilon) of `cells` coordinates, each moved by `shift`, by convolution of the loss.

    The loss psi(x - shift) - psi(x) of a fine grid of x is split between its two neighbours on a grid of
    `width`, mean kept, and convolved by FFT.
    """
    x, dx = np.linspace(-40, 40, 2**20, retstep=True)
    mass = np.exp(family.log_density(x)) * dx
    x, mass = x[mass > 1e-25], mass[mass > 1e-25]
    place = (family.psi(x - shift) - family.psi(x)) / width
    low = np.floor(place).astype(int)
    size = 2**19
    law = np.bincount(low % size, mass * (low + 1 - place), size)
    law += np.bincount((low + 1) % size, mass * (place - low), size)
    total = np.fft.irfft(np.fft.rfft(law) ** cells, size)
    loss = np.fft.fftfreq(size, 1 / size) * width
    return float(total @ np.maximum(-np.expm1(epsilon - loss), 0.0))


@pytest.mark.parametrize(
    ("p", "cells", "width", "delta"),
    [(3, 20, 2e-4, 2.98e-6), (4, 100, 2e-4, 2.37e-4), (7.5, 2000, 5e-4, 0.1395)],
)
def test_the_withdrawn_reduction_breaks_its_promise(p: float, cells: int, width: float, delta: float) -> None:
    """A shift of p-norm 1, spread evenly, against noise that is calibrated to one coordinate moved by 1."""
    noise = Subbotin(p)
    scale = least_scale(noise, 1.0, CLAIMED, 1.0)
    assert privacy_delta(noise, 1 / scale, 1.0) == pytest.approx(CLAIMED, rel=1e-9, abs=0)
    spread = cells ** (-1 / p) / scale
    truth = composed_delta(noise, spread, cells, 1.0, width=width)
    assert truth == pytest.approx(delta, rel=0.01, abs=0)
    assert truth == pytest.approx(composed_delta(noise, spread, cells, 1.0, width=2 * width), rel=1e-3, abs=0)


@pytest.mark.parametrize("cells", [20, 2000])
def test_the_convolution_finds_what_rotation_says_of_gaussian_noise(cells: int) -> None:
    d = 1 / least_scale(Gaussian(), 1.0, CLAIMED, 1.0)
    found = composed_delta(Gaussian(), d / math.sqrt(cells), cells, 1.0, width=2e-5)
    closed = norm.cdf(d / 2 - 1 / d) - math.e * norm.cdf(-d / 2 - 1 / d)
    assert found == pytest.approx(closed, rel=1e-3)


@pytest.mark.parametrize("p", [0.5, Fraction(3, 2), 1.999, 3, 7.5, math.inf, math.nan])
def test_other_norms_are_refused_with_the_reason(p: float) -> None:
    with pytest.raises(PlanRefused, match=r"withdrawn(.|\n)*way out: .*l1 or l2") as refused:
        require_norm(p)
    assert refused.value.code == "norm_refused"


@pytest.mark.parametrize("p", [1, 2, 1.0, Fraction(2)])
def test_norms_with_a_proof_pass(p: float) -> None:
    require_norm(p)
