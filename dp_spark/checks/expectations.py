"""What Great Expectations cannot say about a release: exact Arrow types, grids, groups, all columns at once.

Importing this module registers the expectations and their metrics.
"""

from fractions import Fraction
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.core.expect_column_type_to_be import ExpectColumnTypeToBe
from great_expectations.expectations.expectation import BatchExpectation, ColumnMapExpectation
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from dp_spark.checks.grid import are_multiples
from dp_spark.checks.history import HistoryCheck, Rule, rule_holds
from dp_spark.checks.promises import PromiseKind, all_are_kept, arrow_of
from dp_spark.publish import artefact_digest

_MULTIPLES = "column_values.dp_spark_multiples"
_GROUPS = "table.dp_spark_groups_digest"
_KEPT = "table.dp_spark_promises_kept"
_HISTORY = "table.dp_spark_history"


class ExpectColumnArrowTypeToBe(ExpectColumnTypeToBe):
    """The column is of the Arrow type `type_`, with its parameters; pandas cannot parse those of decimals."""

    def _validate_pandas(self, actual_column_type: object, expected_type: str) -> dict[str, Any]:
        return {"success": str(actual_column_type) == expected_type, "result": {}}


class ColumnValuesMultiples(ColumnMapMetricProvider):
    """Which values of an integer or decimal column are multiples of `grid`."""

    condition_metric_name = _MULTIPLES
    condition_value_keys = ("grid",)

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series, grid: str, **kwargs: object) -> pd.Series:  # noqa: N805
        return pd.Series(are_multiples(arrow_of(column), Fraction(grid)), index=column.index)


class ExpectColumnValuesToBeMultiples(ColumnMapExpectation):
    """Every value of the column is an integer times `grid`, a fraction as text."""

    map_metric: ClassVar[str] = _MULTIPLES
    success_keys: ClassVar[tuple[str, ...]] = ("grid", "mostly")
    args_keys: ClassVar[tuple[str, ...]] = ("column", "grid")
    grid: str


class TableGroupsDigest(TableMetricProvider):
    """Digest of the group columns, in the order of the rows."""

    metric_name = _GROUPS
    value_keys = ("column_list",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> str:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type="table")
        names = metric_value_kwargs["column_list"]
        return artefact_digest(pa.table({name: arrow_of(frame[name]) for name in names}))


class ExpectTableGroupsToBe(BatchExpectation):
    """The group columns, row by row, are those of which `digest` was made: each group once, in order."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (_GROUPS,)
    success_keys: ClassVar[tuple[str, ...]] = ("column_list", "digest")
    args_keys: ClassVar[tuple[str, ...]] = ("column_list", "digest")
    column_list: list[str]
    digest: str

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: object = None,
    ) -> dict[str, Any]:
        return {"success": metrics[_GROUPS] == self.digest, "result": {}}


class TablePromisesKept(TableMetricProvider):
    """Whether all promises of one kind are kept."""

    metric_name = _KEPT
    value_keys = ("kind", "promises")

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> bool:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type="table")
        values = metric_value_kwargs
        return all_are_kept(frame, PromiseKind(values["kind"]), values["promises"])


class ExpectTablePromisesToBeKept(BatchExpectation):
    """The table keeps all `promises` of one kind.

    They are one text, for Great Expectations walks through lists dozens of times. Of a single
    one, `subject` is the column that it is about.
    """

    metric_dependencies: ClassVar[tuple[str, ...]] = (_KEPT,)
    success_keys: ClassVar[tuple[str, ...]] = ("kind", "promises")
    args_keys: ClassVar[tuple[str, ...]] = ("kind", "promises")
    subject: str = ""
    kind: str
    promises: str

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: object = None,
    ) -> dict[str, Any]:
        return {"success": metrics[_KEPT], "result": {}}


class TableRuleHolds(TableMetricProvider):
    """Whether a rule holds of a release that stands beside an earlier one."""

    metric_name = _HISTORY
    value_keys = ("kind", "column", "limits")

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> bool:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type="table")
        values = metric_value_kwargs
        return rule_holds(frame, Rule(HistoryCheck(values["kind"]), values["column"], values["limits"]))


class ExpectTableRuleToHold(BatchExpectation):
    """The rule holds of the release and the earlier one beside it; `limits` are fractions as text."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (_HISTORY,)
    success_keys: ClassVar[tuple[str, ...]] = ("kind", "column", "limits")
    args_keys: ClassVar[tuple[str, ...]] = ("kind", "column", "limits")
    kind: str
    column: str
    limits: str

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: object = None,
    ) -> dict[str, Any]:
        return {"success": metrics[_HISTORY], "result": {}}
