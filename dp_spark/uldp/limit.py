"""The limit of utility-optimized local privacy: the least error that any mechanism can promise.

    M* = max over alpha of min over t of M(alpha, t)   (`dp_spark.uldp.mixtures`),

the least n x MSE, summed over all w categories, at the truth that is hardest for large n.

Source: Yoon, Park, Nam, Lee, arXiv 2509.24173. The bounds that certify a solution are ours, below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from dp_spark.uldp.designs import Floats
from dp_spark.uldp.mixtures import Setting

_GAP = 1e-12  # relative, of the bounds, at which the search ends
_MAX_STEPS = 1000
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit M*, and the mixture that reaches it.

    Attributes:
        mse: M*: n x MSE, summed over all categories.
        alpha: share of people in sensitive categories at the hardest truth.
        block_weights: the probability of each block size that is used.
        lower: M* is at least that.
        upper: M* is at most that; both but for the rounding of floats.
    """

    mse: float
    alpha: float
    block_weights: Mapping[int, float] = field(hash=False)
    lower: float
    upper: float


def limit(n_categories: int, n_sensitive: int, epsilon: Fraction | float) -> Limit:
    """M* for w categories of which v are sensitive.

    Weight is moved from the worst size in use to the best of all sizes, as far as the error at the hardest
    alpha falls, until the bounds meet. It begins at the one size that is best if everybody's category is
    sensitive: the end, too, in the published closed cases. Elsewhere sizes 1 and 2 have been left.

    Raises:
        PlanRefused: not 1 <= v <= w, w < 2, or epsilon outside its range.
    """
    setting = Setting.of(n_categories, n_sensitive, epsilon)
    sizes = np.arange(1.0, setting.n_sensitive + 1)
    mixture = _Mixture(setting, *_single(_best_alone(setting, sizes)))
    for step in range(_MAX_STEPS):
        alpha = mixture.hardest_alpha()
        worths = mixture.worths(alpha, sizes)
        better = np.flatnonzero(worths > mixture.mse(alpha) * (1 + _GAP))
        if not len(better):
            break
        # Of 1 the next better size, 2, has been all that is missing; the best one is a detour.
        mixture = _moved(mixture, sizes[better[0] if step == 0 else np.argmax(worths)])
    return _certified(mixture, sizes)


@dataclass(frozen=True, slots=True)
class _Mixture:
    setting: Setting
    sizes: Floats
    weights: Floats

    def hardest_alpha(self) -> float:
        return self.setting.hardest_alpha(self.sizes, self.weights)

    def mse(self, alpha: float) -> float:
        return float(self.setting.parts(alpha, self.sizes, self.weights).sum())

    def worths(self, alpha: float, sizes: Floats) -> Floats:
        """-dM/dt_k for other sizes k, (m,) to (m,); their mean with weights t_k is M."""
        gained = self.setting.gains(alpha, self.sizes) @ self.weights
        worths: Floats = self.setting.costs(alpha) / gained**2 @ self.setting.gains(alpha, sizes)
        return worths


def _single(size: float) -> tuple[Floats, Floats]:
    return np.array([size]), np.array([1.0])


def _best_alone(setting: Setting, sizes: Floats) -> float:
    """The size that tells most inside S at alpha = 1; of equal ones, which occur, the larger."""
    told = setting.gains(1.0, sizes)[0]
    return float(sizes[np.flatnonzero(told >= told.max() * (1 - _TIE))[-1]])


def _moved(mixture: _Mixture, best: float) -> _Mixture:
    """The mixture with weight moved to the best size from the worst in use, as far as that helps."""
    if best not in mixture.sizes:
        mixture = replace(
            mixture, sizes=np.append(mixture.sizes, best), weights=np.append(mixture.weights, 0.0)
        )
    to = int(np.flatnonzero(mixture.sizes == best)[0])
    worths = mixture.worths(mixture.hardest_alpha(), mixture.sizes)
    source = int(np.argmin(np.where(mixture.weights > 0, worths, np.inf)))

    def after(amount: float) -> _Mixture:
        weights = mixture.weights.copy()
        weights[source] -= amount
        weights[to] += amount
        return replace(mixture, weights=weights)

    def loss(amount: float) -> float:
        moved = after(amount)
        source_worth, best_worth = moved.worths(moved.hardest_alpha(), mixture.sizes[[source, to]])
        return float(source_worth - best_worth)

    whole = float(mixture.weights[source])
    # Blocks of all v points tell nothing inside S: the last weight cannot go there.
    most = whole if best < mixture.setting.n_sensitive else whole * (1 - 1e-9)
    amount = most if loss(most) <= 0 else float(brentq(loss, 0.0, most, xtol=1e-18))
    moved = after(amount)
    used = moved.weights > 0
    return replace(moved, sizes=moved.sizes[used], weights=moved.weights[used])


def _certified(mixture: _Mixture, sizes: Floats) -> Limit:
    """The bounds of M* that a mixture t and its hardest alpha give.

    Upper: M(., t) is concave, so it lies under its tangent at alpha. Lower: with M_i the parts of M and u_i
    the ratios of another mixture's gains to those of t, sum M_i / u_i >= M^2 / sum M_i u_i by Cauchy and
    Schwarz, and sum M_i u_i is a mean of worths. So min over t of M(alpha, .) >= M^2 / max worth.
    """
    alpha = mixture.hardest_alpha()
    mse = mixture.mse(alpha)
    slope = mixture.setting.slope(alpha, mixture.sizes, mixture.weights)
    fixed = mixture.setting.n_categories == mixture.setting.n_sensitive
    rise = 0.0 if fixed else max(slope * (1 - alpha), -slope * alpha, 0.0)
    order = np.argsort(mixture.sizes)
    weights = zip(mixture.sizes[order], mixture.weights[order], strict=True)
    return Limit(
        mse=mse,
        alpha=alpha,
        block_weights={int(size): float(weight) for size, weight in weights},
        lower=mse * min(1.0, mse / float(mixture.worths(alpha, sizes).max())),
        upper=mse + rise,
    )
