"""The law of the privacy loss of one cell, as an array of atoms, and on a grid that errs toward more privacy.

The law of the loss log(P / Q) is put on a grid by connect-the-dots: an atom between two grid points is split
between them so that its mass under P and under Q is kept. The profile of the result is at or above the true
one everywhere and equal to it on the grid, so whatever is composed from it errs toward more privacy.

Source: Doroshenko et al. 2022, arXiv 2207.04380 (connect the dots); the split of single atoms is linear and
adds up to their algorithm 1, without its differences of nearly equal deltas.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dp_spark.noise.tails import Floats

# Absolute, and relative to a loss: logs of two rounded weights >= 2^-128 err by less.
LOSS_ERROR = 2.0**-45
# Relative, of a sum of masses.
MASS_ERROR = 2.0**-45


@dataclass(frozen=True, slots=True)
class LossLaw:
    """The loss of one cell: atoms of P with finite loss, and the mass where a neighbour never is.

    Attributes:
        losses: log(P / Q) at the atoms, shape (n,).
        masses: their mass under P, shape (n,).
        infinite: mass under P where Q is zero.
    """

    losses: Floats
    masses: Floats
    infinite: float


@dataclass(frozen=True, slots=True)
class GridLaw:
    """A loss law on the multiples of `step`: masses of lowest, lowest + 1, ... times step.

    Its profile is nowhere below that of the law it was made from.
    """

    step: float
    lowest: int
    masses: Floats
    infinite: float

    @property
    def losses(self) -> Floats:
        """The losses that `masses` belong to, shape (n,)."""
        indices = np.arange(self.lowest, self.lowest + len(self.masses), dtype=np.float64)
        return self.step * indices


class Repeated(NamedTuple):
    """A law and how many independent losses of it there are."""

    law: LossLaw
    times: int


def loss_law(log_masses: Floats, shift: int) -> LossLaw:
    """The loss of noise on consecutive integers against itself moved by `shift` >= 1.

    `log_masses` has shape (n,), is -inf where there is no mass, and need not be normalised. For symmetric
    noise both directions have this law.
    """
    masses = np.exp(log_masses - log_masses.max())
    masses /= masses.sum()
    if shift >= len(masses):
        return LossLaw(np.empty(0), np.empty(0), 1.0)
    met = (masses[:-shift] > 0) & (masses[shift:] > 0)
    losses = (log_masses[:-shift] - log_masses[shift:])[met]
    return LossLaw(losses, masses[:-shift][met], float(masses[-shift:].sum() + masses[:-shift][~met].sum()))


def mirrored(half: Floats) -> Floats:
    """Values at -K..K, shape (2 K + 1,), from those at 0..K, shape (K + 1,), of what is even."""
    return np.concatenate([half[:0:-1], half])


def on_grid(law: LossLaw, step: float) -> GridLaw:
    """The law by connect-the-dots, rounded up: nowhere below the exact profile, float errors included."""
    if not len(law.losses):
        return GridLaw(step, 0, np.zeros(1), law.infinite)
    losses = law.losses + LOSS_ERROR * (1 + np.abs(law.losses))
    below = np.floor(losses / step).astype(np.int64)
    lowest = int(below.min())
    upper_share = np.expm1(below * step - losses) / math.expm1(-step)
    upper_share = np.clip(upper_share, 0.0, 1.0)
    size = int(below.max()) - lowest + 2
    masses: Floats = np.bincount(below - lowest, law.masses * (1 - upper_share), size).astype(np.float64)
    masses[1:] += np.bincount(below - lowest, law.masses * upper_share, size)[:-1]
    return GridLaw(step, lowest, masses * (1 + MASS_ERROR), law.infinite * (1 + MASS_ERROR))
