"""Whether the noise of one cell costs no more than that of another at every epsilon, decided for certain."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dp_spark.noise.composition import Slot, multiplicative_slack, table_law
from dp_spark.noise.losses import LOSS_ERROR, MASS_ERROR, LossLaw
from dp_spark.noise.tails import Floats

if TYPE_CHECKING:
    from dp_spark.noise.lattice import NoiseTable

_UNIT = 2.0**-53


class Cell(NamedTuple):
    """One cell: its table and the grid steps by which it moves at most."""

    table: "NoiseTable"
    shift: int


def is_dominated(cell: Cell, other: Cell) -> bool:
    """Whether `cell`, moved by its shift or less, costs at most what `other` costs at its shift, everywhere.

    True is a proof; False may also mean that floats cannot tell. The same table at the same shift or less
    is dominated: the price of `other` includes smaller shifts.

    Claim: with a = e^epsilon, f(a) >= sum (P - a Q)+ of `cell` and g(a) <= sum (P - a Q)+ of `other`, both
    sums over atoms, f <= g at a = 1 and at every kink of g above 1 shows f <= g for all a >= 0.

    Proof: a sum of terms m (1 - a e^-l)+ and a constant is convex and piecewise linear in a, with kinks at
    e^l. Between two neighbouring points of {1, kinks of g above 1} g is linear and f convex, so f - g is
    convex there and largest at an end. Beyond the last point g is its constant and f does not increase.
    For a < 1: both pairs are symmetric (a reflection exchanges P and Q), so the profile D of either has
    D(1 / a) = 1 - (1 - D(a)) / a, which keeps the order.

    f is computed from losses and masses that are raised by what they may err and by what smaller shifts may
    cost (`multiplicative_slack`), g from such that are lowered; sums carry their float error.
    """
    if cell.table == other.table and cell.shift <= other.shift:
        return True
    below = _lowered(table_law(*other))
    slack = multiplicative_slack([Slot(cell.table, shift=cell.shift)])
    above = _raised(table_law(*cell), slack.epsilon, slack.delta)
    epsilons = np.append(0.0, below.losses[below.losses > 0])
    return bool(np.all(_profile(above, epsilons, 1) <= _profile(below, epsilons, -1)))


def _raised(law: LossLaw, epsilon: float, delta: float) -> LossLaw:
    more = (1 + MASS_ERROR) * (1 + epsilon)
    losses = law.losses + LOSS_ERROR * (1 + np.abs(law.losses)) + epsilon
    return LossLaw(losses, law.masses * more, law.infinite * more + delta)


def _lowered(law: LossLaw) -> LossLaw:
    losses = law.losses - LOSS_ERROR * (1 + np.abs(law.losses))
    return LossLaw(losses, law.masses * (1 - MASS_ERROR), law.infinite * (1 - MASS_ERROR))


def _profile(law: LossLaw, epsilons: Floats, sign: int) -> Floats:
    """The delta at each epsilon >= 0, shape (n,), rounded in the direction of `sign`.

    With M and R the sums of masses and of masses e^-loss over losses above epsilon, delta = M - e^epsilon R;
    n terms added one after the other err by n units of the sum.
    """
    order = np.argsort(-law.losses)
    losses, masses = law.losses[order], law.masses[order]
    sums = np.append(0.0, np.cumsum(masses))
    others = np.append(0.0, np.cumsum(masses * np.exp(-losses)))
    among = np.searchsorted(-losses, -epsilons, side="left")
    mass, other = sums[among], np.exp(epsilons) * others[among]
    error = (len(losses) + 16) * _UNIT * (mass + other) * 2
    return np.asarray(np.maximum(mass - other + sign * error, 0.0) + law.infinite * (1 + sign * 4 * _UNIT))
