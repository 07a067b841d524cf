"""The exact matrix of a mechanism, and the proof that it is one of utility-optimized local privacy."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused

LARGEST = 1_000_000  # entries


@dataclass(frozen=True, slots=True)
class Channel:
    """The exact probabilities with which a mechanism reports, as its thresholds realise them.

    Attributes:
        reports: (m,), or (m, width) where a report is a bitmap: every report that can occur.
        protected: (m,) whether it is a protected output; the others are invertible.
        matrix: (w, m) object array of Fractions.
    """

    reports: NDArray[np.int64] | NDArray[np.uint8]
    protected: NDArray[np.bool_]
    matrix: NDArray[np.object_]

    def is_stochastic(self) -> bool:
        """Whether no entry is negative and each row sums to 1."""
        return bool((self.matrix >= 0).all() and (self.matrix.sum(axis=1) == 1).all())

    def worst_ratio(self) -> Fraction | None:
        """The largest ratio of two inputs' probabilities of one protected report; None if infinite."""
        protected = self.matrix[:, self.protected]
        least, largest = protected.min(axis=0), protected.max(axis=0)
        if not (least > 0).all():
            return None
        ratios: list[Fraction] = [top / bottom for top, bottom in zip(largest, least, strict=True)]
        return max(ratios)

    def is_invertible(self, n_sensitive: int) -> bool:
        """Whether each report that is not protected has one source, and that is not sensitive."""
        sources = self.matrix[:, ~self.protected] > 0
        return bool((sources.sum(axis=0) == 1).all() and not sources[:n_sensitive].any())


def checked_matrix(rows: int, columns: int) -> None:
    """Nothing, if so many entries can be written out.

    Raises:
        PlanRefused: there are too many.
    """
    if rows * columns > LARGEST:
        raise PlanRefused(
            "channel_too_large",
            f"a channel of {rows} inputs and {columns} reports has more than {LARGEST:,} entries",
            way_out="look at the channel of a mechanism with fewer categories",
        )
