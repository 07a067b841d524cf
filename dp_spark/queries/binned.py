"""Totals with a cell for each bin of a column, or for each few bins that stand together."""

from dp_spark.queries.measure import Bounds, ClampedColumn, Edges, Measure, MeasureKind, Total
from dp_spark.queries.weighting import most_weight, weight_step


def binned_total(of: Edges, weight: ClampedColumn | None, bounds: Bounds, *, merged: int = 1) -> Total:
    """Rows, or their weight, in each cell of `merged` bins.

    A row is in one cell at most: a unit moves all cells of a group together by its rows there times the
    largest weight, all of it in one cell at worst. Two units in one group count as two groups, so that
    `overlap` is 0; but one cell by itself moves as far as one unit has rows there.
    """
    bins, most = -(-of.bins // merged), most_weight(weight)
    sensitivity = bounds.most_rows_in_group * most
    return Total(
        f"bins_{merged}",
        Measure(MeasureKind.BIN, weight=weight, binning=of, merged=merged),
        weight_step(weight),
        sensitivity=sensitivity,
        cells=bounds.most_groups,
        in_all=bounds.most_rows * most,
        overlap=sensitivity if bins == 1 else 0,
        bins=bins,
    )
