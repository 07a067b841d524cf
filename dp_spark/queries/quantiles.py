"""quantiles: several at once, from a hierarchy of noisy histograms made consistent."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_spark.queries.binned import binned_total
from dp_spark.queries.crossing import rank_estimates
from dp_spark.queries.decimals import decimal_text
from dp_spark.queries.hierarchy import branching_of, merged_bins
from dp_spark.queries.measure import Answer, Bounds, ClampedColumn, DerivedEstimate, Edges, Noisy, Total


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Where shares `at` of the rows, or of their weight, lie below; within bins rows count as even.

    Attributes:
        of: the bins.
        at: the shares, each between 0 and 1.
        weight: what each row counts; None: once.
    """

    of: Edges
    at: tuple[Fraction, ...]
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """A number for each share: _p50, _p99_5."""
        return tuple(
            Answer(rank_suffix(share), f"{_quantile(share, self.weight)} of {self.of.column}", None)
            for share in self.at
        )

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """A histogram of the bins, then coarser ones of cells that each hold as many of the one before."""
        branching = branching_of(self.of.bins)
        return tuple(
            binned_total(self.of, self.weight, bounds, merged=merged)
            for merged in merged_bins(self.of.bins, branching)
        )

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate, ...]:
        """The quantiles, all from one consistent histogram: they are in the order of their shares."""
        return rank_estimates(noisy, self.of, branching_of(self.of.bins), self.at)


@dataclass(frozen=True, slots=True)
class Extreme:
    """A quantile near an end, which stands for the least or the largest value.

    Those themselves hang on one row: noise that hides any unit would drown them.
    """

    of: Edges
    at: Fraction
    weight: ClampedColumn | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one number."""
        end = "minimum" if self.at < Fraction(1, 2) else "maximum"
        says = f"{_quantile(self.at, self.weight)} of {self.of.column}, for the {end}, which hangs on one row"
        return (Answer("", says, None),)

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        """Those of the quantile."""
        return self._quantiles.totals(bounds)

    def estimate(self, noisy: Sequence[Noisy]) -> tuple[DerivedEstimate, ...]:
        """The quantile."""
        return self._quantiles.estimate(noisy)

    @property
    def _quantiles(self) -> Quantiles:
        return Quantiles(self.of, (self.at,), self.weight)


def rank_suffix(share: Fraction) -> str:
    """What a quantile's columns are called behind the query's name: _p50, _p99_5."""
    return "_p" + decimal_text(100 * share).replace(".", "_")


def _quantile(share: Fraction, weight: ClampedColumn | None) -> str:
    return f"{decimal_text(share)} {'quantile' if weight is None else 'weighted quantile'}"
