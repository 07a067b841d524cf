"""The FFT accountant against closed forms, enumeration and dp-accounting; its bounds really bound."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dp_spark.noise import wide
from dp_spark.noise.accountant import compose_tilted, fft_delta, fft_epsilon, grid_step
from dp_spark.noise.composition import google_pmf, table_law
from dp_spark.noise.families import Family, Gaussian, Laplace, Logistic
from dp_spark.noise.freezing import freeze
from dp_spark.noise.losses import GridLaw, LossLaw, Repeated, loss_law, on_grid

EPSILONS = (0.0, 0.3, 1.0, 2.7, 5.0)


def point_law(family: Family, shift: int, scale: float, support: int) -> LossLaw:
    return loss_law(-family.psi(np.arange(-support, support + 1) / scale), shift)


def exact_delta(law: LossLaw, epsilon: float) -> float:
    over = np.maximum(law.losses - epsilon, 0.0)
    return law.infinite - float(np.sum(law.masses * np.expm1(-over)))


def enumerated_delta(law: LossLaw, times: int, epsilon: float) -> float:
    """delta over all combinations of atoms, without a grid and without a transform."""
    losses, masses = np.zeros(1), np.ones(1)
    for _ in range(times):
        losses = np.add.outer(losses, law.losses).ravel()
        masses = np.multiply.outer(masses, law.masses).ravel()
    return exact_delta(LossLaw(losses, masses, -math.expm1(times * math.log1p(-law.infinite))), epsilon)


def grid_delta(law: GridLaw, epsilon: float) -> float:
    return exact_delta(LossLaw(law.losses, law.masses, law.infinite), epsilon)


@pytest.mark.parametrize("family", [Laplace(), Logistic(), Gaussian()], ids=lambda family: family.name)
@pytest.mark.parametrize("step", [0.5, 0.07, 0.003])
def test_a_grid_law_is_above_everywhere_and_equal_on_the_grid(family: Family, step: float) -> None:
    law = point_law(family, 3, 4.0, 60)
    grid = on_grid(law, step)
    for epsilon in np.linspace(0, 3, 31):
        assert grid_delta(grid, epsilon) >= exact_delta(law, epsilon)
    for index in range(int(2 / step)):
        exact = exact_delta(law, index * step)
        assert grid_delta(grid, index * step) == pytest.approx(exact, rel=1e-9, abs=2e-13)


def test_the_split_of_atoms_is_connect_the_dots_on_the_exact_profile() -> None:
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots

    table = freeze(Gaussian(), Fraction(1, 5), 30, sensitivity=2, max_groups=1)
    law, step = table_law(table, 2), 0.05
    grid = on_grid(law, step)
    half = wide.to_ints(table.weights)
    weights = np.concatenate([half[:0:-1], half])
    profile = []
    for index in range(grid.lowest, grid.lowest + len(grid.masses)):
        growth = Fraction(math.exp(index * step))
        gains = [int(p) - growth * int(q) for p, q in zip(weights[:-2], weights[2:], strict=True)]
        profile.append(float((sum(g for g in gains if g > 0) + int(weights[-2:].sum())) / 2**128))
    indices = np.arange(grid.lowest, grid.lowest + len(grid.masses))
    theirs = create_pmf_pessimistic_connect_dots(step, indices, profile).to_dense_pmf()
    ours = google_pmf(grid)
    assert theirs.size == ours.size
    assert theirs._probs == pytest.approx(ours._probs, abs=1e-13)
    assert theirs._infinity_mass == pytest.approx(ours._infinity_mass, rel=1e-12, abs=0)


@pytest.mark.parametrize("family", [Laplace(), Gaussian()], ids=lambda family: family.name)
@pytest.mark.parametrize("times", [1, 2, 4])
def test_bounds_hold_the_enumerated_delta(family: Family, times: int) -> None:
    law = point_law(family, 1, 1.5, 8)
    for epsilon in EPSILONS:
        truth = enumerated_delta(law, times, epsilon)
        lower, upper = fft_delta([Repeated(law, times)], epsilon, precision=1e-5)
        assert truth <= upper * (1 + 1e-12)
        assert upper <= truth * (1 + 1e-4) + 1e-15
        assert lower <= upper <= lower * (1 + 1e-6) + 1e-15


@pytest.mark.parametrize(("times", "mu"), [(7, 0.5), (365, 0.25), (5475, 1.0)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_gaussian_noise_composes_to_a_gaussian_however_small_delta_is(
    times: int, mu: float, epsilon: float
) -> None:
    """On 64 steps a std the discrete Gaussian is the continuous one; deltas reach 1e-130."""
    shift, scale = 16, 16 * math.sqrt(times) / mu
    law = point_law(Gaussian(), shift, scale, int(42 * scale))
    tail = math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu) - norm.logcdf(mu / 2 - epsilon / mu))
    truth = norm.logcdf(mu / 2 - epsilon / mu) + math.log1p(-tail)
    lower, upper = fft_delta([Repeated(law, times)], epsilon)
    assert math.log(upper) == pytest.approx(truth, abs=3e-4)
    assert lower <= upper <= lower * (1 + 1e-4)


def test_parts_compose_in_any_order_and_split() -> None:
    a, b = point_law(Laplace(), 1, 3.0, 60), point_law(Gaussian(), 2, 6.0, 50)
    one = fft_delta([Repeated(a, 3), Repeated(b, 2)], 1.0).upper
    other = fft_delta([Repeated(b, 1), Repeated(a, 3), Repeated(b, 1)], 1.0).upper
    assert one == pytest.approx(other, rel=1e-9, abs=0)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-20])
@pytest.mark.parametrize("times", [1, 6, 365])
def test_epsilon_is_the_inverse_of_delta(delta: float, times: int) -> None:
    parts = [Repeated(point_law(Gaussian(), 4, 40.0, 900), times)]
    epsilon = fft_epsilon(parts, delta)
    assert fft_delta(parts, epsilon).upper == pytest.approx(delta, rel=5e-4, abs=0)


def test_infinite_losses_alone_make_epsilon_infinite() -> None:
    law = point_law(Laplace(), 1, 1.0, 5)
    assert fft_epsilon([Repeated(law, 10)], law.infinite) == math.inf
    assert fft_delta([Repeated(law, 10)], 50.0).upper == pytest.approx(
        1 - (1 - law.infinite) ** 10, rel=1e-9, abs=0
    )


@pytest.mark.parametrize("family", [Laplace(), Logistic(), Gaussian()], ids=lambda family: family.name)
@pytest.mark.parametrize(("times", "delta"), [(2, 1e-4), (2, 1e-10), (8, 1e-7), (365, 1e-4), (365, 1e-10)])
def test_epsilon_agrees_with_dp_accounting_to_1e_6(family: Family, times: int, delta: float) -> None:
    law = point_law(family, 5, 40.0, 3000)
    epsilon = fft_epsilon([Repeated(law, times)], delta)
    step = grid_step([Repeated(law, times)], epsilon, 1e-4)
    grid = on_grid(law, step)
    theirs = google_pmf(grid).self_compose(times, 1e-16)
    ours = compose_tilted([(grid, times)], epsilon).epsilon(delta, 2 * epsilon + 1)
    assert compose_tilted([(grid, times)], epsilon).delta(ours - 1e-6).lower > delta
    noise = 1e-4 if times * 1e-16 > 1e-5 * delta else 1e-6  # their transforms err by 1e-16 a factor
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(delta), abs=noise)
