"""Shares that are at least 0 and sum to 1, from ones that need not."""

from typing import assert_never

import numpy as np

from dp_spark.uldp.designs import Floats
from dp_spark.uldp.estimate import Consistency


def consistent(shares: Floats, consistency: Consistency) -> Floats:
    """The shares, (w,) to (w,), made consistent in the way that is named."""
    match consistency:
        case Consistency.NONE:
            return shares
        case Consistency.CLIP:
            return clipped(shares)
        case Consistency.SIMPLEX:
            return projected(shares)
        case _:
            assert_never(consistency)


def clipped(shares: Floats) -> Floats:
    """Shares with 0 for negative ones, divided by their sum; all equal where none is positive."""
    positive = np.maximum(shares, 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full_like(shares, 1 / len(shares))


def projected(shares: Floats) -> Floats:
    """The nearest shares, by the sum of squares, that are at least 0 and sum to 1.

    max(share - shift, 0), where the shift makes the sum 1. Source: Held, Wolfe, Crowder 1974.
    """
    falling = -np.sort(-shares)
    shifts = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]]
    nearest: Floats = np.maximum(shares - shift, 0.0)
    return nearest
