"""The life of a wave of a survey, from opening to seal or decision; like `pipeline`, it calls every room.

A step can be killed anywhere and started again: the ledger knows the wave's state, and each step either
changes nothing the second time or is decided by the ledger's compare-and-set.
"""

from dp_spark.surveys.batches import randomize_survey
from dp_spark.surveys.closing import close_survey
from dp_spark.surveys.ending import Ended, end_survey
from dp_spark.surveys.estimating import estimate_survey
from dp_spark.surveys.opening import open_survey
from dp_spark.surveys.run import Added, Estimated, Opened, WaveObserver, WaveStep
from dp_spark.surveys.standing import Copies

__all__ = [
    "Added",
    "Copies",
    "Ended",
    "Estimated",
    "Opened",
    "WaveObserver",
    "WaveStep",
    "close_survey",
    "end_survey",
    "estimate_survey",
    "open_survey",
    "randomize_survey",
]
