"""What needs Great Expectations, which takes seconds to import: imported when it is first asked for."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from dp_spark.errors import SetupRefused


def suites() -> ModuleType:
    """The module of suites.

    Raises:
        SetupRefused: Great Expectations cannot be imported in this process.
    """
    return _imported("suite")


def checks_page(facts: Mapping[str, Any]) -> str:
    """The evidence of a release or a wave as a page that needs nothing else; see `docs`.

    Raises:
        SetupRefused: as `suites`; or the evidence is not as this version writes it.
    """
    page = _imported("docs").checks_page
    with quiet():
        try:
            return str(page(facts))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SetupRefused(
                "evidence_unreadable",
                f"the evidence of checks is not as this version writes it ({type(error).__name__})",
                way_out="look at the file itself; it is JSON",
            ) from None


def _imported(name: str) -> ModuleType:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    try:
        return import_module(f"dp_spark.checks.{name}")
    except SystemExit:  # with status 0: a job would end here and look done
        raise SetupRefused(
            "checks_unavailable",
            "Great Expectations imports PySpark, which ends a process of python -c where grpc is missing",
            way_out="start from a script or with python -m, or install grpcio",
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
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
