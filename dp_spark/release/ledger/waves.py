"""Waves of surveys as the ledger knows them: one asking of one question, opened once, closed once.

A survey is a question that a population is asked. Its account is its own: what reports give away is no
(epsilon, delta) of any neighbours, and never enters a total with releases. Waves of a survey add their
epsilons (basic composition), and so do surveys of one population for a person who answers all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.ledger.records import StoredFile
from dp_spark.release.ledger.states import check_name


class WaveState(StrEnum):
    """Where a wave stands."""

    OPEN = "open"  # charged; answers are randomized, each person's once
    CLOSED = "closed"  # reports are counted; the key that drew them is gone
    HELD = "held"  # a gate failed on the estimates
    PUBLISHED = "published"  # every declared sink has reports and estimates
    SEALED = "sealed"  # the statement is written
    ABANDONED = "abandoned"  # never to be published, by decision; key and reports are gone, the charge stands
    BURNED = "burned"  # the key or the reports of persons have leaked; the survey has stopped


# Decided to be over: nothing follows but that an abandoned wave may be burned.
ENDED_WAVES = frozenset({WaveState.ABANDONED, WaveState.BURNED})


@dataclass(frozen=True, slots=True)
class WaveId:
    """Population, survey and wave.

    Raises:
        SpecRefused: a part is no name.
    """

    population: str
    survey: str
    wave: str

    def __post_init__(self) -> None:
        check_name("population", self.population)
        check_name("survey", self.survey)
        check_name("wave", self.wave)

    def __str__(self) -> str:
        return f"{self.population}/{self.survey}/{self.wave}"


@dataclass(frozen=True, slots=True)
class WaveAsked:
    """What `open_wave` is asked for.

    Attributes:
        wave_id: which wave.
        unit: who a person is, in the input's columns.
        epsilon: of the one report of a person.
        domain_digest: of categories and which of them are sensitive (`Domain.digest`).
        spec_digest: of the spec.
        plan_bytes: the stored plan, with which every later step works.
        changed: why categories or their flags are not those of the wave before; None where they are.
        reason: why the wave is opened.
    """

    wave_id: WaveId
    unit: PrivacyUnit
    epsilon: Fraction
    domain_digest: str
    spec_digest: str
    plan_bytes: bytes = field(repr=False)
    reason: str
    changed: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Reports that one run added to a wave.

    Attributes:
        number: from 1 up, without a gap.
        path: a directory of Parquet files in the restricted zone.
        digest: keyed, of the names and bytes of its files (`report_key`).
        reports: how many.
    """

    number: int
    path: str
    digest: str
    reports: int


@dataclass(frozen=True, slots=True)
class BatchClaim:
    """One attempt at a wave's next batch; a later attempt has a higher fence."""

    wave_id: WaveId
    number: int
    fence: int


@dataclass(frozen=True, slots=True)
class WaveRecord:
    """What is known of a wave.

    Attributes:
        opened_now: whether the call that answers with this record charged the account.
        batches: in their order.
        counts: the artefact of its close: how often each report occurs in each group.
        estimates: the artefact made of it.
        statement: the sealed wave's.
        publications: targets by sink.
        opened_at: UTC, ISO text.
        closed_at: the same; None while it is open.
        sealed_at: the same; None before.
        cleared: whether somebody decided to publish it although a gate failed.
    """

    wave_id: WaveId
    state: WaveState
    unit: PrivacyUnit
    epsilon: Fraction
    domain_digest: str
    spec_digest: str
    plan_bytes: bytes = field(repr=False)
    opened_now: bool
    batches: tuple[Batch, ...]
    counts: StoredFile | None
    estimates: StoredFile | None
    statement: StoredFile | None
    publications: Mapping[str, str]
    opened_at: str
    closed_at: str | None
    sealed_at: str | None = None
    cleared: bool = False

    @property
    def reports(self) -> int:
        """How many people have a report."""
        return sum(batch.reports for batch in self.batches)


@dataclass(frozen=True, slots=True)
class SurveyAccount:
    """What a population may give away by its answers to one question.

    Attributes:
        unit: who a person is.
        limit: the sum of epsilons that all waves may have.
        waves: in the order of their opening.
    """

    population: str
    survey: str
    unit: PrivacyUnit
    limit: Fraction
    waves: tuple[WaveRecord, ...]

    @property
    def spent(self) -> Fraction:
        """The epsilons of all waves, as they were charged; that of a burned one counts as infinite."""
        return sum((wave.epsilon for wave in self.waves), Fraction(0))

    @property
    def burned(self) -> tuple[WaveId, ...]:
        """The waves whose epsilon counts as infinite; with one, the account admits no further wave."""
        return tuple(wave.wave_id for wave in self.waves if wave.state is WaveState.BURNED)
