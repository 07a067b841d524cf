"""An artefact as its sinks get it: in their shape, with what they say of the release."""

import hashlib

import pyarrow as pa

from dp_spark.publish.artefact import arrow_schema
from dp_spark.publish.shapes import in_shape
from dp_spark.publish.sink import Edition, Part
from dp_spark.release.ledger import Claim
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.spec import SinkSpec


def edition_of(
    plan: ReleasePlan, table: pa.Table, sink: SinkSpec, *, window: PeriodWindow, claim: Claim, digest: str
) -> Edition:
    """The staged `table` of a release, whose digest is `digest`, for one sink."""
    release, guarantee = claim.release_id, plan.guarantee
    return Edition(
        table=in_shape(table, plan.columns, sink.shape),
        part=Part.of_period(window.start),
        release_id=str(release),
        digest=digest,
        facts={
            "population": release.population,
            "release": release.name,
            "period": release.period_key,
            "revision": str(release.revision),
            "epsilon": str(guarantee.epsilon),
            "delta": str(guarantee.delta),
            "plan": hashlib.sha256(claim.plan_bytes).hexdigest(),
        },
        comment=comment_of(plan),
    )


def schema_for(plan: ReleasePlan, sink: SinkSpec) -> pa.Schema:
    """The columns that a sink gets, known before anything is drawn."""
    return in_shape(arrow_schema(plan.columns).empty_table(), plan.columns, sink.shape).schema


def comment_of(plan: ReleasePlan) -> str:
    """What readers of the whole table should know, in one line."""
    spec = plan.spec
    return (
        f"{spec.release}: private release of dp_spark; each period epsilon = {plan.guarantee.epsilon}, "
        f"delta = {plan.guarantee.delta} for {spec.unit.protected}, {spec.neighbours}"
    )
