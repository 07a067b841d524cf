"""What the steps of a wave share: their names, what they answer, and what they work with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from dp_spark.errors import LedgerRefused, Refusal
from dp_spark.frames.rows import Rows, SparkSource
from dp_spark.frames.spark_table import SparkTable
from dp_spark.frames.survey_input import check_survey_columns
from dp_spark.publish import Reach
from dp_spark.publish.survey_tables import counts_schema, estimates_schema
from dp_spark.release.ledger import Ledger, SurveyAccount, WaveId, WaveRecord, require_not_ended
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.release.spec import SurveySpec
from dp_spark.release.survey import SurveyPlan, require_spec_of, survey_plan_from_bytes
from dp_spark.release.zone import claim_zone

WaveObserver: TypeAlias = "Callable[[WaveStep], None]"
REPORTS, ESTIMATES = "reports", "estimates"  # where a sink has the two tables
COUNTS = "counts"  # of names in the restricted zone, as ESTIMATES


class WaveStep(StrEnum):
    """What a run is about to do, in the words that progress shows: the part, and what of it."""

    PLAN = "plan: choose the designs"
    OPEN = "open: charge the ledger"
    VERIFY = "verify: the reports that are there"
    RANDOMIZE = "randomize: answers to reports on Spark"
    COMMIT = "commit: record the reports"
    COUNT = "count: reports on Spark"
    CLOSE = "close: record the counts, destroy the key"
    DECODE = "estimate: decode the groups"
    CHECK = "check: run the gates"
    PUBLISH = "publish: copy to a sink"
    SEAL = "seal: write the statement"

    @property
    def part(self) -> str:
        """The part of the run that the step belongs to."""
        return self.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Opened:
    """A wave that is open: its plan, and the account that paid."""

    plan: SurveyPlan
    record: WaveRecord
    account: SurveyAccount


@dataclass(frozen=True, slots=True)
class Added:
    """What a run added to a wave.

    Attributes:
        record: the wave, with its batches.
        new: people who had no report before.
    """

    record: WaveRecord
    new: int


@dataclass(frozen=True, slots=True)
class Estimated:
    """A sealed wave.

    Attributes:
        record: the wave.
        table: the published estimates; None where the staged table is not kept any more.
        statement: the page that says what was promised.
    """

    record: WaveRecord
    table: pa.Table | None
    statement: Path


@dataclass(frozen=True, slots=True)
class WaveRun:
    """One step of a wave: its stored plan, and what it works with."""

    ledger: Ledger
    wave_id: WaveId
    plan: SurveyPlan
    profile: Profile
    rows: Rows
    observe: WaveObserver

    @property
    def reach(self) -> Reach:
        """How sinks get to where they write."""
        return Reach(self.profile.connections, partial(SparkTable, session=self.rows.session))

    @property
    def home(self) -> Path:
        """Where the wave is in the restricted zone."""
        return home_of(self.profile, self.wave_id)

    def record(self) -> WaveRecord:
        """The wave as the ledger has it now."""
        record = self.ledger.wave(self.wave_id)
        assert record is not None  # the run was taken up from it
        return record

    def require_not_ended(self) -> None:
        """Check that nobody has abandoned or burned the wave meanwhile.

        Raises:
            LedgerRefused: somebody has.
        """
        require_not_ended(self.wave_id, self.record().state)

    @contextmanager
    def unless_ended(self) -> Iterator[None]:
        """Refuse as `require_not_ended` whatever is refused once the wave is ended: its files are gone."""
        try:
            yield
        except Refusal:
            self.require_not_ended()
            raise


def taken_up(
    spec: SurveySpec,
    wave: str,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None,
    observe: WaveObserver,
) -> WaveRun:
    """A step of a wave that is known, with the plan that is stored.

    Raises:
        LedgerRefused: the wave was never opened, or with another spec, or is over.
    """
    ledger, wave_id = open_ledger(profile), WaveId(spec.budget.population, spec.survey, wave)
    claim_zone(ledger, profile.staging)
    record = ledger.wave(wave_id)
    if record is None:
        raise LedgerRefused(
            "wave_unknown",
            f"wave {wave_id} was never opened",
            way_out=f"dp-spark survey open SPEC --wave {wave} --reason WHY; it charges the survey's account",
        )
    require_not_ended(wave_id, record.state)
    require_spec_of(record, spec)
    plan = survey_plan_from_bytes(record.plan_bytes)
    rows = rows_of(plan.spec, wave_id, ledger, profile, spark, frame)
    return WaveRun(ledger, wave_id, plan, profile, rows, observe)


def home_of(profile: Profile, wave: WaveId) -> Path:
    """Where a wave is in the restricted zone."""
    return profile.staging / "surveys" / wave.population / wave.survey / wave.wave


def rows_of(
    spec: SurveySpec,
    wave_id: WaveId,
    ledger: Ledger,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None = None,
) -> Rows:
    """Where the answers of a wave are."""
    return Rows(
        spec.input,
        f"survey {wave_id}",
        spark,
        frame,
        one_machine=ledger.one_machine,
        connections=profile.connections,
    )


def schemas_of(plan: SurveyPlan) -> dict[str, pa.Schema]:
    """The two tables that a sink gets, by their names there."""
    return {REPORTS: counts_schema(plan), ESTIMATES: estimates_schema(plan)}


def release_id_of(wave_id: WaveId) -> str:
    """How a sink's files name the wave; waves have no revisions."""
    return f"survey:{wave_id}/0"


def opened_input(run: WaveRun) -> DataFrame:
    """The rows as a frame whose columns can serve; whatever the input becomes, it has these types."""
    session = run.rows.session()
    with run.rows.pinned():
        rows = run.rows.opened(session)
        run.rows.require_no_stream(rows)
        check_survey_columns(rows, run.plan.spec)
    return rows
