"""Mean shares of the sensitive categories under a prior whose spread the reports themselves show.

The shape is one of `SHAPES`, with the probabilities given there beforehand; how probable each makes the
reports says how much its means count. Where reports say much, the means are the most likely shares; where
they say nothing, alpha / v each.
"""

import numpy as np

from dp_spark.uldp.cells import Cells
from dp_spark.uldp.designs import Floats
from dp_spark.uldp.evidence import Evidence
from dp_spark.uldp.mode import most_likely, refitted
from dp_spark.uldp.shapes import Shape, means_given

_SPREADS = tuple(0.03 * 100 ** (step / 7) for step in range(8))  # 0.03 to 3
_EMPTY = {0.0: 0.5, 0.5: 0.25, 0.9: 0.25}  # share of empty categories to its probability beforehand
SHAPES = {
    Shape(spread, empty): probability / len(_SPREADS)
    for spread in _SPREADS
    for empty, probability in _EMPTY.items()
}

_LEAST_FULL = 1.5  # categories that a shape leaves not empty, on average
_NEVER = -40.0  # logarithm of the probability at which a shape is given up
_START = 0.3  # pseudo-reports of each category, so that no share starts at 0
_NEAR = 1e-3  # of a standard error: the last step moves no cell by more
_STEPS = 25


def mean_shares(evidence: Evidence) -> Floats:
    """The (v,) sensitive shares: the mean of each, averaged over the shapes, at the most likely mass."""
    v = evidence.n_sensitive
    shares = most_likely(evidence, strength=_START * v)
    tilts = dict.fromkeys(_possible(v), 0.0)
    for _ in range(_STEPS if v > 1 else 0):
        cells = Cells.near(evidence, shares)
        if not cells.seen.any():
            break
        averaged, tilts = _averaged(cells, tilts)
        averaged = refitted(evidence, averaged)
        change = np.abs(averaged - shares) * np.sqrt(cells.curvature)
        shares = averaged
        if change.max() <= _NEAR:
            break
    return shares


def _possible(v: int) -> list[Shape]:
    """The shapes that leave enough of v categories not empty."""
    return [shape for shape in SHAPES if shape.empty == 0 or (1 - shape.empty) * v >= _LEAST_FULL]


def _averaged(cells: Cells, tilts: dict[Shape, float]) -> tuple[Floats, dict[Shape, float]]:
    """The cells' means, averaged over the shapes by their probability after the reports; those that count.

    Each shape stands with its tilt, from which the next search starts.
    """
    given = [means_given(shape, cells, tilt) for shape, tilt in tilts.items()]
    logs = np.array([tilted.log_density for tilted in given]) + np.log([SHAPES[shape] for shape in tilts])
    if not np.isfinite(logs).any():
        return cells.shares, tilts
    logs -= logs.max()
    averaged: Floats = np.average([tilted.means for tilted in given], axis=0, weights=np.exp(logs))
    counting = zip(tilts, given, logs > _NEVER, strict=True)
    return averaged, {shape: tilted.tilt for shape, tilted, counts in counting if counts}
