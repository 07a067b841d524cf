"""The most likely shares of the sensitive categories, under an explicit prior on their shape or none.

A step maximises the replaced likelihoods of all cells at once (`cells.py`), then the mass of the sensitive
part. It leaves an error of a few parts in ten, in all designs whose pairs are balanced, so that some five
steps do where accelerated EM needs thousands. A step that does not raise the likelihood is halved and at last
replaced by one of EM, which cannot lower it: the likelihood never falls.
"""

import numpy as np

from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats
from dp_spark.uldp.evidence import Evidence

_NEAR = 1e-4  # of a standard error: the last step moves no cell by more
_STEPS = 2_000
_HALVINGS = 4


def most_likely(evidence: Evidence, strength: float = 0.0, start: Floats | None = None) -> Floats:
    """The (v,) sensitive shares that maximise the likelihood times a Dirichlet prior on their shape.

    The prior's density is the product of the shape's entries, each to the power strength / v: it is worth
    `strength` reports that show the sensitive categories equally often. With 0 there is no prior. The start,
    all above 0, changes the result by less than 1e-3 of a standard error.
    """
    pseudo = strength / evidence.n_sensitive
    shares = refitted(evidence, np.ones(evidence.n_sensitive) if start is None else start)
    for _ in range(_STEPS):
        cells = Cells.near(evidence, shares)
        if not cells.seen.any():
            break
        proposed = refitted(evidence, cells.modes_of_sum(float(shares.sum()), pseudo))
        moved = np.abs(proposed - shares) * np.sqrt(cells.curvature)
        shares = _raised(evidence, shares, proposed, pseudo)
        if moved.max() <= _NEAR:
            break
    return shares


def em_step(evidence: Evidence, shares: Floats, pseudo: float = 0.0) -> Floats:
    """One step of EM, which never lowers the likelihood; the 1 of 1 + g S(B) is a known background."""
    caused = shares * evidence.slopes(shares).slope
    total = float(caused.sum())
    mass = total / (total + evidence.answered)
    shape: Floats = (caused + pseudo) / (total + pseudo * evidence.n_sensitive)
    return mass * shape


def gain(evidence: Evidence, old: Floats, new: Floats, pseudo: float) -> float:
    """How much greater the logarithm of likelihood times prior is at the new shares."""
    rise = evidence.gain(old, new)
    if pseudo == 0:
        return rise
    shape = np.log(new / old) - np.log(new.sum() / old.sum())
    return rise + pseudo * float(shape.sum())


def _raised(evidence: Evidence, shares: Floats, proposed: Floats, pseudo: float) -> Floats:
    """The proposed shares or, where they lower what is maximised, nearer ones or those of EM."""
    for halving in range(_HALVINGS):
        tried = refitted(evidence, shares + 0.5**halving * (proposed - shares))
        if gain(evidence, shares, tried, pseudo) >= 0:
            return tried
    return em_step(evidence, shares, pseudo)


def refitted(evidence: Evidence, shares: Floats) -> Floats:
    """The same shape with the mass that is most likely for it."""
    shape = shares / shares.sum()
    fitted: Floats = shape * evidence.mass(shape)
    return fitted
