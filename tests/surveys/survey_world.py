"""A working directory with answers, an account of a survey and short ways to each command."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from pyspark.sql import SparkSession

from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.ledger import StoredFile, SurveyAccount, WaveId, WaveRecord, store
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import SurveySpec, parse_survey
from dp_spark.release.survey import survey_plan_from_bytes
from dp_spark.surveys import (
    Added,
    Estimated,
    Opened,
    WaveStep,
    close_survey,
    estimate_survey,
    open_survey,
    randomize_survey,
)

POPULATION, SURVEY, WAVE = "us_persons", "work_status", "2024q1"
POISON = "8811-secret-person"
SPEC = """
survey: work_status
input: {format: parquet, path: in}
unit: {column: person, on_null: drop}
answer: work
domain: {categories: {at school: false, at work: false, ill: true, unemployed: true}}
first: answered_at
epsilon: 1
group_by: [state]
groups: {public: [CA, NY]}
budget: {population: us_persons}
publish: [{sink: parquet, path: out/work}]
"""
UNGROUPED = SPEC.replace("group_by: [state]\ngroups: {public: [CA, NY]}\n", "")
WORK = ("at school", "at work", "ill", "unemployed", "a pirate", None)
STATES = ("CA", "NY", "NY", "CA", "XX", None)

Observe = Callable[[WaveStep], None]


def silent(step: WaveStep) -> None:
    """Observe nothing."""


def no_spark() -> SparkSession:
    raise AssertionError("this run had no reason to ask for Spark")


def answers(people: Iterable[int], *, night: int = 1) -> pa.Table:
    """One answer of each person; the state is the person's, the answer another every night."""
    numbers = list(people)
    return pa.table(
        {
            "person": [f"{POISON}-{i}" for i in numbers],
            "state": [STATES[i % 6] for i in numbers],
            "work": [WORK[(i // 6 + night) % 6] for i in numbers],
            "answered_at": [night] * len(numbers),
        }
    )


def in_a_group(people: Iterable[int]) -> int:
    """How many of them have a public state."""
    return sum(i % 6 < 4 for i in people)


class World:
    """Ledger with a limit of three waves, profile, and answers of the first 300 people."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home, self.spark = home, spark
        self.profile: Profile = embedded_profile(home)
        self.spec: SurveySpec = parse_survey(SPEC)
        make_places(self.profile)
        self.write(answers(range(300)))
        self.ledger.set_survey_limit(
            POPULATION, SURVEY, Fraction(3), unit=PrivacyUnit(("person",)), reason="a test"
        )

    @property
    def ledger(self):
        return open_ledger(self.profile)

    @property
    def account(self) -> SurveyAccount:
        return self.ledger.survey_account(POPULATION, SURVEY)

    @property
    def zone(self) -> Path:
        """Where the wave is in the restricted zone."""
        return self.profile.staging / "surveys" / POPULATION / SURVEY / WAVE

    def write(self, *tables: pa.Table) -> None:
        """Put these answers in the place of those that are there."""
        (self.home / "in").mkdir(exist_ok=True)
        pq.write_table(pa.concat_tables(tables), self.home / "in" / "answers.parquet")

    def record(self, wave: str = WAVE) -> WaveRecord:
        record = self.ledger.wave(WaveId(POPULATION, SURVEY, wave))
        assert record is not None
        return record

    def open(self, wave: str = WAVE, *, spec=None, changed=None, observe: Observe = silent) -> Opened:
        asked = {"profile": self.profile, "reason": "a test", "changed": changed, "observe": observe}
        return open_survey(spec or self.spec, wave, **asked)

    def randomize(self, wave: str = WAVE, *, spec=None, frame=None, observe: Observe = silent) -> Added:
        given = {"profile": self.profile, "spark": lambda: self.spark, "frame": frame, "observe": observe}
        return randomize_survey(spec or self.spec, wave, **given)

    def close(self, wave: str = WAVE, *, spec=None, observe: Observe = silent) -> WaveRecord:
        given = {"profile": self.profile, "spark": lambda: self.spark, "observe": observe}
        return close_survey(spec or self.spec, wave, **given)

    def estimate(self, wave: str = WAVE, *, spec=None, spark=None, observe: Observe = silent) -> Estimated:
        given = {"profile": self.profile, "spark": spark or (lambda: self.spark), "observe": observe}
        return estimate_survey(spec or self.spec, wave, **given)

    def reports(self) -> Mapping[bytes, tuple[str, int]]:
        """Group and report of each token of the wave's batches; a token that is there twice is an error."""
        rows = [row for batch in self.record().batches for row in pq.read_table(batch.path).to_pylist()]
        groups = survey_plan_from_bytes(self.record().plan_bytes).groups
        told = {row["token"]: (*groups[row["group"]], row["report"]) for row in rows}
        assert len(told) == len(rows) == self.record().reports
        return told

    def published(self, table: str, wave: str = WAVE) -> pa.Table:
        return pq.read_table(self.home / "out" / "work" / table / f"wave={wave}" / "part-0.parquet")

    def files(self, pattern: str) -> list[str]:
        """Names in the wave's restricted directory."""
        return sorted(path.name for path in self.zone.glob(pattern))

    def counts_of(self, table: pa.Table, path: Path) -> StoredFile:
        """The table staged, as the close of a wave stages its counts."""
        from dp_spark.publish import artefact_digest, write_artefact

        write_artefact(table, path)
        return StoredFile(str(path), artefact_digest(table))

    def wrapped_key(self) -> bytes:
        """The wave's key, as the ledger has it."""
        engine = sa.create_engine(self.profile.ledger_url)
        with closing(engine.connect()) as connection:
            wrapped = connection.execute(sa.select(store.wave_keys.c.wrapped)).scalar_one()
        engine.dispose()
        return wrapped
