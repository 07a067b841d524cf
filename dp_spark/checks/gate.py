"""The gate before publishing: a staged artefact against everything its plan promises."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_spark.checks.lazily import quiet, suites
from dp_spark.checks.promises import Promise, broken, promises_of
from dp_spark.checks.verdict import COLUMNS, GROUPS, ROWS, Verdict, verdict_of
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.spec import GROUPING_COLUMN

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

_SUBJECT_KEYS = ("column", "column_A", "column_B", "subject", "kind")
# Great Expectations takes milliseconds for each expectation of a column, and so many columns show a cause.
_MOST_COLUMNS = 60


def check_artefact(table: pa.Table, plan: ReleasePlan, *, release_id: str, period_start: date) -> Verdict:
    """Which expectations a release's `table` meets, as `check_table`.

    Raises:
        SetupRefused: Great Expectations cannot be imported in this process.
    """
    return check_table(
        table,
        columns=[column.name for column in plan.columns],
        groups=released_groups(plan),
        promises=promises_of(plan, release_id=release_id, period_start=period_start),
    )


def check_table(
    table: pa.Table, *, columns: Sequence[str], groups: pa.Table, promises: Sequence[Promise]
) -> Verdict:
    """Which expectations `table` meets.

    The table is looked at as a whole. Only if that shows a fault, columns at fault are looked at one by one,
    the first _MOST_COLUMNS of them; the others are counted. An expectation that could not be evaluated is not
    met. No text holds a cell's value.

    Args:
        table: what is staged.
        columns: the names that it must have, in order.
        groups: what tells its rows apart, in their order: columns of it.
        promises: what its columns keep.

    Raises:
        SetupRefused: Great Expectations cannot be imported in this process.
    """
    with quiet():
        whole = suites().table_suite(columns, groups, promises)
        try:
            frame = table.to_pandas(types_mapper=pd.ArrowDtype)
            unmet = unmet_of(frame, whole)
            lost = _broken_of(frame, unmet, promises) if unmet else []
            failed = _in_detail(frame, unmet, promises, lost) if unmet else ()
        except Exception as error:  # noqa: BLE001  # its text may hold cells; whatever it is, the gate holds
            failed = (f"evaluation of the suite: {type(error).__name__}",)
            return verdict_of(
                columns, groups, promises, failed=failed, unmet=(COLUMNS, ROWS, GROUPS), broken=promises
            )
        names = [each.type for each in unmet]
        return verdict_of(columns, groups, promises, failed=failed, unmet=names, broken=lost)


def released_groups(plan: ReleasePlan) -> pa.Table:
    """What tells the rows of a released table apart, in their order."""
    names, keys = list(plan.spec.group_by), plan.released_keys
    columns = zip(*keys, strict=True) if keys else [()] * len(names)
    groups = pa.table([pa.array(values, pa.string()) for values in columns], names=names)
    if not plan.spec.rollup:
        return groups
    masks = np.concatenate([np.full(len(level.keys), level.mask) for level in plan.levels])
    return groups.append_column(GROUPING_COLUMN, pa.array(masks, pa.int32()))


def _broken_of(
    frame: pd.DataFrame, unmet: "Sequence[ExpectationConfiguration]", promises: Sequence[Promise]
) -> Sequence[Promise]:
    """The promises at fault for what is unmet: those that a look finds, else all of the kinds."""
    kinds = {each.kwargs.get("kind") for each in unmet}
    return broken(frame, promises) or [each for each in promises if each.kind in kinds]


def _in_detail(
    frame: pd.DataFrame,
    unmet: "Sequence[ExpectationConfiguration]",
    promises: Sequence[Promise],
    lost: Sequence[Promise],
) -> tuple[str, ...]:
    """The unmet expectations of a table, those of `lost` promises as expectations of the columns at fault."""
    suspected = _columns(lost)
    shown = set(suspected[:_MOST_COLUMNS])
    doubted = [each for each in promises if shown.intersection(each.columns)]
    of_table = [each for each in unmet if "kind" not in each.kwargs]
    of_columns = unmet_of(frame, suites().column_suite(doubted)) if doubted else []
    further = len(suspected) - len(shown)
    return (
        *dict.fromkeys(map(_description, [*of_table, *of_columns] or unmet)),
        *([f"{further} more columns at fault"] if further else []),
    )


def _columns(promises: Iterable[Promise]) -> list[str]:
    return list(dict.fromkeys(column for each in promises for column in each.columns))


def unmet_of(frame: pd.DataFrame, suite: "ExpectationSuite") -> "list[ExpectationConfiguration]":
    """The expectations of `suite` that the frame does not meet; one without a result is not met."""
    result = _validated(frame, suite)
    met = {_description(each.expectation_config) for each in result.results if each.success}
    met -= {_description(each.expectation_config) for each in result.results if not each.success}
    return [each for each in suite.expectation_configurations if _description(each) not in met]


def _validated(frame: pd.DataFrame, suite: "ExpectationSuite") -> "ExpectationSuiteValidationResult":
    """The suite's result; `BOOLEAN_ONLY` keeps cells out of it."""
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("staged").add_dataframe_asset("artefact")
    whole = asset.add_batch_definition_whole_dataframe("whole")
    gate = gx.ValidationDefinition(name="gate", data=whole, suite=context.suites.add(suite))
    return gate.run(batch_parameters={"dataframe": frame}, result_format="BOOLEAN_ONLY")


def _description(config: "ExpectationConfiguration | None") -> str:
    assert config is not None
    subjects = [str(config.kwargs[key]) for key in _SUBJECT_KEYS if config.kwargs.get(key)]
    return config.type + (f"({', '.join(subjects)})" if subjects else "")
