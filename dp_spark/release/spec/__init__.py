"""What an operator writes: the spec of one release, from YAML or built in Python."""

from dp_spark.guarantee import Every
from dp_spark.release.spec.binned import MAX_RANKS, BinnedQuerySpec, DistinctQuerySpec
from dp_spark.release.spec.columns import (
    GROUPING_COLUMN,
    PERIOD_COLUMN,
    RELEASE_COLUMN,
    REVISION_COLUMN,
    output_columns,
)
from dp_spark.release.spec.edges import MAX_BINS
from dp_spark.release.spec.expressions import DerivedColumn
from dp_spark.release.spec.groups import MAX_GROUP_KEYS, GroupsSpec, PrivateGroups, PublicTable, used_labels
from dp_spark.release.spec.listed import Axis, FileAxis
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
    AsOf,
    Clamp,
    InputFormat,
    Missing,
    PoolKind,
    QueryKind,
    Selection,
    SinkKind,
)
from dp_spark.release.spec.writing import spec_yaml

__all__ = [
    "FROM_BUDGET",
    "GROUPING_COLUMN",
    "MAX_BINS",
    "MAX_GROUP_KEYS",
    "MAX_RANKS",
    "PERIOD_COLUMN",
    "RELEASE_COLUMN",
    "REVISION_COLUMN",
    "AsOf",
    "Axis",
    "BinnedQuerySpec",
    "BoundsSpec",
    "BudgetSpec",
    "Clamp",
    "ColumnQuerySpec",
    "CountingQuerySpec",
    "DerivedColumn",
    "DistinctQuerySpec",
    "Every",
    "FileAxis",
    "FrameInput",
    "GroupsSpec",
    "InputFormat",
    "InputSpec",
    "Missing",
    "PeriodSpec",
    "PoolKind",
    "PrivateGroups",
    "PublicTable",
    "QueryKind",
    "QuerySpec",
    "RatioQuerySpec",
    "ReleaseSpec",
    "Selection",
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
    "used_labels",
]
