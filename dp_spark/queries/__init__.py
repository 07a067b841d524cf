"""The questions a release can ask; one file a kind."""

from dp_spark.queries.count import Count
from dp_spark.queries.ids import Ids
from dp_spark.queries.mean import Mean
from dp_spark.queries.measure import (
    LARGEST_UNCLAMPED,
    ONE_ROW,
    Bounds,
    ClampedColumn,
    DerivedEstimate,
    Estimate,
    LatticeEstimate,
    Measure,
    MeasureKind,
    NoisyTotal,
    Query,
    Total,
)
from dp_spark.queries.sum import Sum

__all__ = [
    "LARGEST_UNCLAMPED",
    "ONE_ROW",
    "Bounds",
    "ClampedColumn",
    "Count",
    "DerivedEstimate",
    "Estimate",
    "Ids",
    "LatticeEstimate",
    "Mean",
    "Measure",
    "MeasureKind",
    "NoisyTotal",
    "Query",
    "Sum",
    "Total",
]
