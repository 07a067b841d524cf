"""What an operator writes: the spec of one release or survey, from YAML or built in Python."""

from dp_spark.guarantee import Every
from dp_spark.release.spec.binned import MAX_RANKS, BinnedQuerySpec, DistinctQuerySpec
from dp_spark.release.spec.canonical import canonical_document
from dp_spark.release.spec.checks import Against, ChecksSpec, HistorySpec
from dp_spark.release.spec.columns import (
    GROUPING_COLUMN,
    LONG_COLUMNS,
    METRIC_COLUMN,
    PERIOD_COLUMN,
    RELEASE_COLUMN,
    REVISION_COLUMN,
    output_columns,
)
from dp_spark.release.spec.domain import Categories, DomainSpec
from dp_spark.release.spec.edges import MAX_BINS
from dp_spark.release.spec.expressions import DerivedColumn
from dp_spark.release.spec.groups import MAX_GROUP_KEYS, GroupsSpec, PrivateGroups, PublicTable, used_labels
from dp_spark.release.spec.listed import Axis, FileAxis
from dp_spark.release.spec.load import (
    load_spec,
    load_survey,
    parse_spec,
    parse_survey,
    spec_from_canonical,
    survey_from_canonical,
)
from dp_spark.release.spec.queries import ColumnQuerySpec, CountingQuerySpec, QuerySpec
from dp_spark.release.spec.ranges import WeightSpec
from dp_spark.release.spec.ratio import RatioQuerySpec
from dp_spark.release.spec.release import (
    BudgetSpec,
    PeriodSpec,
    ReleaseSpec,
)
from dp_spark.release.spec.survey import EstimateSpec, GroupWeight, SurveyBudget, SurveySpec
from dp_spark.release.spec.tables import FrameInput, InputSpec, SinkSpec
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
    Shape,
    SinkKind,
)
from dp_spark.release.spec.writing import spec_yaml

__all__ = [
    "FROM_BUDGET",
    "GROUPING_COLUMN",
    "LONG_COLUMNS",
    "MAX_BINS",
    "MAX_GROUP_KEYS",
    "MAX_RANKS",
    "METRIC_COLUMN",
    "PERIOD_COLUMN",
    "RELEASE_COLUMN",
    "REVISION_COLUMN",
    "Against",
    "AsOf",
    "Axis",
    "BinnedQuerySpec",
    "BoundsSpec",
    "BudgetSpec",
    "Categories",
    "ChecksSpec",
    "Clamp",
    "ColumnQuerySpec",
    "CountingQuerySpec",
    "DerivedColumn",
    "DistinctQuerySpec",
    "DomainSpec",
    "EstimateSpec",
    "Every",
    "FileAxis",
    "FrameInput",
    "GroupWeight",
    "GroupsSpec",
    "HistorySpec",
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
    "Shape",
    "SinkKind",
    "SinkSpec",
    "SurveyBudget",
    "SurveySpec",
    "UnitSpec",
    "WeightSpec",
    "canonical_document",
    "contribution_bounds",
    "load_spec",
    "load_survey",
    "output_columns",
    "parse_spec",
    "parse_survey",
    "spec_from_canonical",
    "spec_yaml",
    "survey_from_canonical",
    "used_labels",
]
