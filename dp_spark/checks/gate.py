"""The gate before publishing: a staged artefact against everything its plan promises."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from dp_spark.errors import SetupRefused
from dp_spark.release.plan import ReleasePlan

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

_COLUMN_KEYS = ("column", "column_A", "column_B")


def check_artefact(
    table: pa.Table, plan: ReleasePlan, *, release_id: str, period_start: date
) -> tuple[str, ...]:
    """The expectations that `table` does not meet, as name(column); () lets it pass.

    An expectation that could not be evaluated is not met. No text holds a cell's value.

    Raises:
        SetupRefused: Great Expectations cannot be imported in this process.
    """
    with _quiet():
        suite = _suite(plan, release_id, period_start)
        try:
            result = _validated(table, suite)
        except Exception as error:  # noqa: BLE001  # its text may hold cells; whatever it is, the gate holds
            return (f"evaluation of the suite: {type(error).__name__}",)
    met = {_description(each.expectation_config) for each in result.results if each.success}
    met -= {_description(each.expectation_config) for each in result.results if not each.success}
    expected = map(_description, suite.expectation_configurations)
    return tuple(description for description in expected if description not in met)


def _suite(plan: ReleasePlan, release_id: str, period_start: date) -> "ExpectationSuite":
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    try:
        from dp_spark.checks.suite import release_suite  # noqa: PLC0415  # Great Expectations takes seconds
    except SystemExit:  # with status 0: a job would end here and look done
        raise SetupRefused(
            "checks_unavailable",
            "Great Expectations imports PySpark, which ends a process of python -c where grpc is missing",
            way_out="start from a script or with python -m, or install grpcio",
        ) from None
    return release_suite(plan, release_id=release_id, period_start=period_start)


def _validated(table: pa.Table, suite: "ExpectationSuite") -> "ExpectationSuiteValidationResult":
    """The suite's result; `BOOLEAN_ONLY` keeps cells out of it."""
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("staged").add_dataframe_asset("artefact")
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    whole = asset.add_batch_definition_whole_dataframe("whole")
    gate = gx.ValidationDefinition(name="gate", data=whole, suite=context.suites.add(suite))
    return gate.run(batch_parameters={"dataframe": frame}, result_format="BOOLEAN_ONLY")


def _description(config: "ExpectationConfiguration | None") -> str:
    assert config is not None
    columns = [config.kwargs[key] for key in _COLUMN_KEYS if key in config.kwargs]
    return config.type + (f"({', '.join(columns)})" if columns else "")


@contextmanager
def _quiet() -> Iterator[None]:
    """Great Expectations logs the exceptions it catches, and their texts may hold cells."""
    logger = logging.getLogger("great_expectations")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
