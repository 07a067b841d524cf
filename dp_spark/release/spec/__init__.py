"""What an operator writes: the spec of one release, from YAML or built in Python."""

from dp_spark.guarantee import Every
from dp_spark.release.spec.binned import MAX_RANKS, BinnedQuerySpec, DistinctQuerySpec
from dp_spark.release.spec.columns import PERIOD_COLUMN, RELEASE_COLUMN, REVISION_COLUMN, output_columns
from dp_spark.release.spec.edges import MAX_BINS
from dp_spark.release.spec.expressions import DerivedColumn
from dp_spark.release.spec.groups import MAX_GROUP_KEYS, GroupsSpec
from dp_spark.release.spec.load import load_spec, parse_spec, spec_from_canonical
from dp_spark.release.spec.queries import ColumnQuerySpec, CountingQuerySpec, QuerySpec
from dp_spark.release.spec.ranges import WeightSpec
from dp_spark.release.spec.ratio import RatioQuerySpec
from dp_spark.release.spec.release import (
    BudgetSpec,
    FrameInput,
    InputSpec,
    PeriodSpec,
    ReleaseSpec,
    SinkSpec,
)
from dp_spark.release.spec.unit import BoundsSpec, UnitSpec, contribution_bounds
from dp_spark.release.spec.values import (
    FROM_BUDGET,
    Clamp,
    InputFormat,
    Missing,
    PoolKind,
    QueryKind,
    SinkKind,
)
from dp_spark.release.spec.writing import spec_yaml

__all__ = [
    "FROM_BUDGET",
    "MAX_BINS",
    "MAX_GROUP_KEYS",
    "MAX_RANKS",
    "PERIOD_COLUMN",
    "RELEASE_COLUMN",
    "REVISION_COLUMN",
    "BinnedQuerySpec",
    "BoundsSpec",
    "BudgetSpec",
    "Clamp",
    "ColumnQuerySpec",
    "CountingQuerySpec",
    "DerivedColumn",
    "DistinctQuerySpec",
    "Every",
    "FrameInput",
    "GroupsSpec",
    "InputFormat",
    "InputSpec",
    "Missing",
    "PeriodSpec",
    "PoolKind",
    "QueryKind",
    "QuerySpec",
    "RatioQuerySpec",
    "ReleaseSpec",
    "SinkKind",
    "SinkSpec",
    "UnitSpec",
    "WeightSpec",
    "contribution_bounds",
    "load_spec",
    "output_columns",
    "parse_spec",
    "spec_from_canonical",
    "spec_yaml",
]
