"""The questions a release can ask; one file a kind."""

from dp_spark.queries.count import Count
from dp_spark.queries.decimals import decimal_text
from dp_spark.queries.distinct import Distinct
from dp_spark.queries.histogram import Histogram
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
from dp_spark.queries.quantiles import Extreme, Quantiles, rank_suffix
from dp_spark.queries.ratio import Countable, Ratio
from dp_spark.queries.sum import Sum
from dp_spark.queries.values import Values
from dp_spark.queries.variance import Std, Variance

__all__ = [
    "LARGEST_UNCLAMPED",
    "ONE_ROW",
    "Answer",
    "Binning",
    "Bounds",
    "ClampedColumn",
    "Count",
    "Countable",
    "DerivedEstimate",
    "Distinct",
    "Edges",
    "Estimate",
    "Extreme",
    "Histogram",
    "Ids",
    "LatticeEstimate",
    "Listed",
    "Mean",
    "Measure",
    "MeasureKind",
    "Noisy",
    "NoisyTotal",
    "Quantiles",
    "Query",
    "Ratio",
    "SmoothedTotal",
    "Std",
    "Sum",
    "Total",
    "Values",
    "Variance",
    "decimal_text",
    "one_below_another",
    "rank_suffix",
]
