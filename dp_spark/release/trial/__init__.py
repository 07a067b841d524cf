"""Bounds tried on a public sample: clipping bias against noise. Nothing is planned or charged."""

from dp_spark.release.trial.errors import QueryError
from dp_spark.release.trial.sample import Cells, Kept, Sample, cells_of, kept_in
from dp_spark.release.trial.search import Clamped, Trial, Tried, tried_bounds
from dp_spark.release.trial.totals import Totals, columns_read

__all__ = [
    "Cells",
    "Clamped",
    "Kept",
    "QueryError",
    "Sample",
    "Totals",
    "Trial",
    "Tried",
    "cells_of",
    "columns_read",
    "kept_in",
    "tried_bounds",
]
