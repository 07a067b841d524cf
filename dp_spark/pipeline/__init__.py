"""The life of a release, from spec to seal: with `surveys` the only room that calls every room.

A run can be killed anywhere and started again: the ledger knows the state, and each step either changes
nothing the second time or is decided by the ledger's compare-and-set.
"""

from dp_spark.pipeline.forgotten import charge_forgotten
from dp_spark.pipeline.life import privatize_release, publish_held, publish_release, run_release
from dp_spark.pipeline.run import Observer, Step

__all__ = [
    "Observer",
    "Step",
    "charge_forgotten",
    "privatize_release",
    "publish_held",
    "publish_release",
    "run_release",
]
