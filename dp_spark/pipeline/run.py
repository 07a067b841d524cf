"""One attempt at a release: the steps it tells of, and what it works with."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeAlias

from dp_spark.frames.rows import Rows
from dp_spark.frames.spark_table import SparkTable
from dp_spark.publish import (
    Reach,
)
from dp_spark.release.ledger import (
    Claim,
    Ledger,
    ReleaseId,
)
from dp_spark.release.period import PeriodWindow
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec

Observer: TypeAlias = "Callable[[Step], None]"


class Step(StrEnum):
    """What a run is about to do, in the words that progress shows: the part, and what of it."""

    PLAN = "plan: calibrate the noise"
    START = "start: Spark, and the columns of the input"
    RESERVE = "reserve: charge the ledger"
    RESUME = "resume: take up the plan that was charged for"
    SELECT = "privatize: select the groups on Spark"
    READ = "privatize: read and bound rows on Spark"
    DRAW = "privatize: draw the noise"
    STAGE = "stage: write the artefact"
    COMMIT = "stage: record the artefact"
    CHECK = "check: run the gates"
    PUBLISH = "publish: copy to a sink"
    RECORD = "publish: record the copy"
    STATE = "seal: write the statement"
    SEAL = "seal: close the release"

    @property
    def part(self) -> str:
        """The part of the run that the step belongs to."""
        return self.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Asked:
    """A release that somebody wants, and where its rows are; nothing is charged yet."""

    ledger: Ledger
    release: ReleaseId
    spec: ReleaseSpec
    revise: str | None
    window: PeriodWindow
    profile: Profile
    rows: Rows
    observe: Observer


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt at a release: its claim and stored plan, and what it works with."""

    ledger: Ledger
    claim: Claim
    plan: ReleasePlan
    window: PeriodWindow
    profile: Profile
    rows: Rows
    observe: Observer

    @property
    def release_id(self) -> str:
        """The id as text, as the released rows hold it."""
        return str(self.claim.release_id)

    @property
    def reach(self) -> Reach:
        """How its sinks get to where they write."""
        return reach_of(self.profile, self.rows)


def reach_of(profile: Profile, rows: Rows) -> Reach:
    """How sinks get to where they write."""
    return Reach(profile.connections, partial(SparkTable, session=rows.session))


def staging_of(run: Run) -> Path:
    """The directory of a release in the restricted zone."""
    release = run.claim.release_id
    place = run.profile.staging / release.population / release.name
    return place / f"{release.period_key}-r{release.revision}"
