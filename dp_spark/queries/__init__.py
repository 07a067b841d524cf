"""The questions a release can ask; one file a kind."""

from dp_spark.queries.count import Count
from dp_spark.queries.ids import Ids
from dp_spark.queries.mean import Mean
from dp_spark.queries.measure import (
    LARGEST_UNCLAMPED,
    ONE_ROW,
    Answer,
    Binning,
    Bounds,
    ClampedColumn,
    DerivedEstimate,
    Edges,
    Estimate,
    LatticeEstimate,
    Listed,
    Measure,
    MeasureKind,
    Noisy,
    NoisyTotal,
    Query,
    SmoothedTotal,
    Total,
    one_below_another,
)
from dp_spark.queries.sum import Sum

__all__ = [
    "LARGEST_UNCLAMPED",
    "ONE_ROW",
    "Answer",
    "Binning",
    "Bounds",
    "ClampedColumn",
    "Count",
    "DerivedEstimate",
    "Edges",
    "Estimate",
    "Ids",
    "LatticeEstimate",
    "Listed",
    "Mean",
    "Measure",
    "MeasureKind",
    "Noisy",
    "NoisyTotal",
    "Query",
    "SmoothedTotal",
    "Sum",
    "Total",
    "one_below_another",
]
