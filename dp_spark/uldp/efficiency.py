"""How near a mixture of designs comes to the limit.

The error is that at truths uniform inside S and inside N, at the share alpha of S that is hardest: n x MSE is
the trace of the inverse Fisher information of the reports, along the simplex. For blocks B of component j,
with c = 1 / (r e^epsilon + b - r) and g = e^epsilon - 1, the information about S is

    J = sum over j, B of t_j c_j g^2 1_B 1_B' / (1 + g alpha |B| / v).

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173, for designs of one block size; the rest is ours.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from dp_spark.errors import PlanRefused
from dp_spark.uldp.designs import Design, Floats
from dp_spark.uldp.limit import limit
from dp_spark.uldp.mixtures import Setting

_MOST_WORK = 10**10  # b v^2 of a design whose blocks are looked at one by one
_MOST_POINTS = 512  # of such a design: a matrix of v^2 for each size of its blocks, 50 MB in all, is inverted
_CHUNK = 2**22  # entries of the member matrix at a time; so many rows of ones a float32 adds up exactly
_NEAR = 1e-8  # of the hardest alpha; the error, which is flat there, is then exact to rounding
_ROUNDING = 1e-9  # by which probabilities may miss the sum 1

Components = Sequence[tuple[Fraction | float, Design]]
ErrorAt = Callable[[float], tuple[float, float]]  # n x MSE by alpha, and its derivative


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The limit divided by the error of a mixture of designs.

    Attributes:
        value: from 0, for reports that tell nothing inside S, to 1.
        alpha: share of people in sensitive categories at which it was taken, the hardest one.
        exact: False where blocks are too many to look at: then `value` is an upper bound.
    """

    value: float
    alpha: float
    exact: bool


def efficiency(n_categories: int, components: Components, epsilon: Fraction | float) -> Efficiency:
    """The efficiency of a mixture: (probability, design) for each component.

    Exact if all blocks of each design have one size, and where v <= 512 and b v^2 <= 1e10 for those that
    differ. Else the information is replaced by its mean over all orders of the points, and what blocks of
    different sizes tell by what blocks of their mean size would: both can only lower the error, little where
    sizes are near.

    Raises:
        PlanRefused: designs have different points, the probabilities do not sum to 1, or a parameter is out
            of range.
    """
    setting = Setting.of(n_categories, _points(components), epsilon)
    if setting.n_sensitive > 1 and all(design.replication == design.pairs for _, design in components):
        return Efficiency(0.0, 1.0, exact=True)  # no block tells two points apart
    uneven = [design for _, design in components if not _one_size(design)]
    explicit = bool(uneven) and all(_can_be_looked_at(design) for design in uneven)
    error = _explicit_error(setting, components) if explicit else _mean_error(setting, components)
    alpha, mse = _hardest(error, setting)
    best = _least(n_categories, setting.n_sensitive, epsilon)
    return Efficiency(min(1.0, best / mse), alpha, exact=explicit or not uneven)


def least_mse(n_categories: int, components: Components, epsilon: Fraction | float) -> float:
    """A lower bound of n x MSE at the hardest alpha, by the designs' numbers alone: it ranks sizes of a kind.

    Raises:
        PlanRefused: as `efficiency`.
    """
    setting = Setting.of(n_categories, _points(components), epsilon)
    return _hardest(_mean_error(setting, components), setting)[1]


@lru_cache(maxsize=256)
def _least(n_categories: int, n_sensitive: int, epsilon: Fraction | float) -> float:
    """M*, for the many designs that are compared with it."""
    return limit(n_categories, n_sensitive, epsilon).mse


def _points(components: Components) -> int:
    points = {design.n_points for _, design in components}
    total = math.fsum(float(probability) for probability, _ in components)
    if len(points) == 1 and abs(total - 1) <= _ROUNDING and all(share > 0 for share, _ in components):
        return points.pop()
    raise PlanRefused(
        "uldp_components",
        f"components have {sorted(points)} points and probabilities that sum to {total} (allowed: designs "
        "of the same points, positive probabilities that sum to 1)",
        way_out="give each design with the probability with which it is used",
    )


def _can_be_looked_at(design: Design) -> bool:
    return design.n_points <= _MOST_POINTS and design.n_blocks * design.n_points**2 <= _MOST_WORK


def _one_size(design: Design) -> bool:
    """Whether all blocks have one size: the sum of |B|^2 is then as small as the sum of |B| allows."""
    v, r = design.n_points, design.replication
    return design.n_blocks * (r + (v - 1) * design.pairs) == v * r * r


def _rate(design: Design, growth: float) -> float:
    """The probability c with which a point reports a given block without it."""
    return 1 / (design.replication * growth + design.n_blocks)


def _answer_rate(setting: Setting, components: Components) -> float:
    """The probability tau with which a non-sensitive answer is reported in clear."""
    g = setting.growth
    return sum(float(share) * design.replication * g * _rate(design, g) for share, design in components)


def _hardest(error: ErrorAt, setting: Setting) -> tuple[float, float]:
    """Where the error, which is concave in alpha, is greatest, and its value there."""
    last, slope = error(1.0)
    if setting.n_categories == setting.n_sensitive or slope >= 0:
        return 1.0, last
    first, slope = error(0.0)
    if slope <= 0:
        return 0.0, first
    inside = float(brentq(lambda alpha: error(alpha)[1], 0.0, 1.0, xtol=_NEAR))
    return inside, error(inside)[0]


def _mean_error(setting: Setting, components: Components) -> ErrorAt:
    """N x MSE by alpha if the order of the points were drawn anew for each report.

    J has then one eigenvalue for contrasts, of sum of s (v - s) / (1 + g alpha s / v) over block sizes s,
    and one for the mass, of sum of s^2 / (1 + g alpha s / v). By Jensen they are at most what all blocks
    tell at the mean size, and what all members of blocks tell at the mean size of the block of a member.
    """
    v, w, g = setting.n_sensitive, setting.n_categories, setting.growth
    others, answered = w - v, _answer_rate(setting, components)
    rates = np.array([float(share) * _rate(design, g) * g**2 for share, design in components])
    blocks = np.array([float(design.n_blocks) for _, design in components])
    replications = np.array([float(design.replication) for _, design in components])
    sizes = v * replications / blocks
    met = np.array([1 + (v - 1) * (design.pairs / design.replication) for _, design in components])

    apart, mass = rates * blocks * sizes * (v - sizes), rates * replications * met

    def error(alpha: float) -> tuple[float, float]:
        of_contrasts, contrasts_rise = _told(apart, g / v * sizes, alpha)
        of_mass, mass_rises = _told(mass, g / v * met, alpha)
        contrasts = (v - 1) ** 2 * v / of_contrasts if v > 1 else 0.0
        slope = -contrasts * contrasts_rise / of_contrasts if v > 1 else 0.0
        if not others:
            return contrasts, slope
        free = 1 - alpha
        outside, joint = (others - 1) / others / answered, w / (v * others)
        told = answered + free * of_mass / v
        told_rises = (free * mass_rises - of_mass) / v
        slope -= outside + joint * (1 + free * told_rises / told) / told
        return contrasts + free * (outside + joint / told), slope

    return error


def _told(most: Floats, densities: Floats, alpha: float) -> tuple[float, float]:
    """What blocks tell, the sum of most / (1 + density alpha), and its derivative by alpha."""
    told = most / (1 + densities * alpha)
    return float(told.sum()), -float((told * densities / (1 + densities * alpha)).sum())


def _explicit_error(setting: Setting, components: Components) -> ErrorAt:
    """N x MSE by alpha, from all blocks."""
    v, g = setting.n_sensitive, setting.growth
    others, answered = setting.n_categories - v, _answer_rate(setting, components)
    sizes, products = _products(setting, components)
    densities, answers_rise = g / v * sizes, -1 / answered

    def error(alpha: float) -> tuple[float, float]:
        weights = g**2 / (1 + densities * alpha)
        falls = np.tensordot(weights * densities / (1 + densities * alpha), products, axes=1)
        covariance = np.linalg.inv(np.tensordot(weights, products, axes=1))
        rows = covariance.sum(axis=1)
        rows_rise = covariance @ (falls @ rows)
        rise = float(np.sum(falls * (covariance @ covariance)))
        free = (1 - alpha) / answered  # what N adds to the trace before the shares must sum to 1
        fixed, total = rows @ rows, rows.sum() + free
        fixed_rises, total_rises = 2 * rows @ rows_rise, rows_rise.sum()
        if others:
            fixed += free**2 / others
            fixed_rises += 2 * free * answers_rise / others
            rise += answers_rise
            total_rises += answers_rise
        value = np.trace(covariance) + free - fixed / total
        return float(value), float(rise - (fixed_rises - fixed * total_rises / total) / total)

    return error


def _products(setting: Setting, components: Components) -> tuple[Floats, Floats]:
    """Block sizes (m,), and of the blocks of each the sum of t c 1_B 1_B' over components, (m, v, v)."""
    v = setting.n_sensitive
    products: dict[float, Floats] = {}
    for share, design in components:
        rate = float(share) * _rate(design, setting.growth)
        for size, product in _products_of(design).items():
            products[size] = products.get(size, np.zeros((v, v))) + rate * product
    return np.array([*products]), np.array([*products.values()])


def _products_of(design: Design) -> dict[float, Floats]:
    """The sum of 1_B 1_B' over the blocks of each size."""
    v, r, pairs = design.n_points, design.replication, design.pairs
    if _one_size(design):
        return {v * r / design.n_blocks: np.full((v, v), float(pairs)) + (r - pairs) * np.eye(v)}
    products: dict[float, Floats] = {}
    rows = max(1, _CHUNK // v)
    for first in range(0, design.n_blocks, rows):
        members = design.members(np.arange(first, min(first + rows, design.n_blocks)))
        found = members.sum(axis=1)
        for size in np.unique(found[found > 0]):
            blocks = members[found == size].astype(np.float32)
            product = products.setdefault(float(size), np.zeros((v, v)))
            product += blocks.T @ blocks
    return products
