"""What a survey asks, what its reports hide and do not, and what its estimates will be worth."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from dp_spark.release.ledger.waves import SurveyAccount, WaveRecord
from dp_spark.release.spec import InputSpec
from dp_spark.release.survey import SurveyPlan
from dp_spark.report.left_out import left_out
from dp_spark.report.plain import as_plain
from dp_spark.report.units import unit_words
from dp_spark.uldp import exposure, limit
from dp_spark.uldp.block_mechanism import BlockMechanism
from dp_spark.uldp.exposure import Exposure

FORMAT = 1
SIZES = (1_000, 10_000, 100_000)  # people in a group, of which errors are told
HALF_WIDTHS = 1.96  # standard errors from the middle to an end of a 95 % interval
_FRAME = "the frame that the run is given"


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """How wrong the shares of a group of so many people will be.

    Attributes:
        people: of the group, each with a report.
        std: sqrt(M / (people w)): the root mean square of the standard errors of its w shares, at the truth
            that is hardest for the mechanism; M is the limit over the efficiency of the designs.
        half_width: of a 95 % interval, 1.96 times as much.
    """

    people: int
    std: float
    half_width: float


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """What a population may give away by its answers to the question; exact.

    Attributes:
        limit: the sum of epsilons that all waves may have.
        spent: that of the waves that were opened.
        charged: whether this wave is one of them.
        left_after: what is left once it is charged; below 0 if it does not fit, and 0 once a wave is burned.
        waves: how many were opened.
        waves_that_fit: how many more of this epsilon; where it is not charged yet, this one among them.
        burned: waves whose key or reports have leaked; with one, none fits.
    """

    limit: Fraction
    spent: Fraction
    charged: bool
    left_after: Fraction
    waves: int
    waves_that_fit: int
    burned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupReports:
    """How many people of a group have a report, and whether they are too few to tell much, as none are."""

    group: tuple[str, ...]
    reports: int
    small: bool


@dataclass(frozen=True, slots=True)
class SealedWave:
    """What became of a wave.

    Attributes:
        wave_id: population/survey/wave.
        state: where it stands in its life (`sealed`).
        reports: people with a report.
        batches: runs that added some.
        groups: reports by group, in the order of the plan.
        counts_digest: of the published copy of the reports, which report how often in which group.
        estimates_digest: of the table of shares.
        published: the places that hold both.
        opened_at: when it was charged.
        closed_at: when its reports were counted and the key that drew them was destroyed.
        sealed_at: when nothing could follow any more.
        dp_spark_version: the dp_spark that sealed it.
    """

    wave_id: str
    state: str
    reports: int
    batches: int
    groups: tuple[GroupReports, ...]
    counts_digest: str
    estimates_digest: str
    published: tuple[str, ...]
    opened_at: str
    closed_at: str
    sealed_at: datetime
    dp_spark_version: str


@dataclass(frozen=True, slots=True)
class SurveyFacts:
    """Everything there is to say about a survey without reading an answer.

    Attributes:
        survey: the question's name.
        population: who is asked.
        source: where the answers are, in words.
        unit: one person, in words.
        answer: the columns of the answer.
        first: the column that says which answer of a person stands, or None.
        epsilon: of each report.
        domain_digest: of categories and flags.
        n_categories: w, the catch-all among them.
        n_sensitive: v.
        sensitive: those categories, each the texts of its columns.
        not_sensitive: the others.
        mechanism: its name.
        designs: name and probability of each.
        efficiency: the limit over the error of the designs.
        limit: M*: n x MSE, summed over all categories, that no mechanism can go below at the hardest truth.
        exposure: what reports give away.
        group_by: the columns beside a report.
        groups: how many there are.
        left_out: who gets no report, in a sentence.
        weighted: whether groups count by public weights in the total.
        method: of the estimates.
        consistency: of the estimates.
        sinks: where reports and estimates are published.
        errors: what shares will be worth.
        account: None if no ledger was asked.
        sealed: what became of a wave, or None before.
    """

    survey: str
    population: str
    source: str
    unit: str
    answer: tuple[str, ...]
    first: str | None
    epsilon: Fraction
    domain_digest: str
    n_categories: int
    n_sensitive: int
    sensitive: tuple[tuple[str, ...], ...]
    not_sensitive: tuple[tuple[str, ...], ...]
    mechanism: str
    designs: tuple[tuple[str, float], ...]
    efficiency: float
    limit: float
    exposure: Exposure
    group_by: tuple[str, ...]
    groups: int
    left_out: str
    weighted: bool
    method: str
    consistency: str
    sinks: tuple[str, ...]
    errors: tuple[ExpectedError, ...]
    account: AccountFacts | None
    sealed: SealedWave | None

    def as_json(self) -> dict[str, Any]:
        """The facts as the `--json` form prints them; fractions as `{"exact": "1/5", "float": 0.2}`."""
        return {"format": FORMAT, **as_plain(self)}


def survey_facts(
    plan: SurveyPlan,
    account: SurveyAccount | None = None,
    *,
    charged: bool = False,
    sealed: SealedWave | None = None,
) -> SurveyFacts:
    """The facts of a wave; `charged` says that the account holds it already, as of a sealed one."""
    spec, made, cells = plan.spec, plan.mechanism, plan.domain.cells
    v, best = plan.domain.n_sensitive, limit(made.n_categories, made.n_sensitive, made.epsilon).mse
    charged = charged or sealed is not None
    return SurveyFacts(
        survey=spec.survey,
        population=spec.budget.population,
        source=spec.input.named if isinstance(spec.input, InputSpec) else _FRAME,
        unit=unit_words(spec.unit.protected),
        answer=plan.domain.columns,
        first=spec.first,
        epsilon=spec.epsilon,
        domain_digest=plan.domain.digest,
        n_categories=len(cells),
        n_sensitive=v,
        sensitive=cells[:v],
        not_sensitive=cells[v:],
        mechanism=str(made.name),
        designs=_designs(plan),
        efficiency=plan.efficiency,
        limit=best,
        exposure=exposure(made),
        group_by=spec.group_columns,
        groups=len(plan.groups),
        left_out=left_out(spec),
        weighted=plan.weights is not None,
        method=str(spec.estimate.method),
        consistency=str(spec.estimate.consistency),
        sinks=tuple(sink.named for sink in spec.publish),
        errors=tuple(expected_error(best / plan.efficiency, len(cells), people) for people in SIZES),
        account=None if account is None else _account_facts(account, spec.epsilon, charged=charged),
        sealed=sealed,
    )


def expected_error(mse: float, n_categories: int, people: int) -> ExpectedError:
    """The error of a share at n x MSE = `mse`, summed over all categories."""
    std = math.sqrt(mse / (people * n_categories))
    return ExpectedError(people, std, HALF_WIDTHS * std)


def sealed_wave(
    plan: SurveyPlan,
    record: WaveRecord,
    reports: Mapping[tuple[str, ...], int],
    small: frozenset[tuple[str, ...]],
    *,
    sealed_at: datetime,
    version: str,
) -> SealedWave:
    """What became of a wave that every sink has; `reports` by group, of those that have some."""
    assert record.counts is not None and record.estimates is not None and record.closed_at is not None  # noqa: PT018
    return SealedWave(
        wave_id=str(record.wave_id),
        state="sealed",
        reports=record.reports,
        batches=len(record.batches),
        groups=tuple(_group(key, reports, small) for key in plan.groups),
        counts_digest=record.counts.digest,
        estimates_digest=record.estimates.digest,
        published=tuple(record.publications.values()),
        opened_at=record.opened_at,
        closed_at=record.closed_at,
        sealed_at=sealed_at,
        dp_spark_version=version,
    )


def _group(
    key: tuple[str, ...], reports: Mapping[tuple[str, ...], int], small: frozenset[tuple[str, ...]]
) -> GroupReports:
    return GroupReports(key, reports.get(key, 0), key in small or key not in reports)


def _designs(plan: SurveyPlan) -> tuple[tuple[str, float], ...]:
    assert isinstance(plan.mechanism, BlockMechanism)  # a spec names no other
    components = plan.mechanism.sampler.components
    whole = sum(weight for weight, _ in components)
    return tuple((design.name, float(weight / whole)) for weight, design in components)


def _account_facts(account: SurveyAccount, epsilon: Fraction, *, charged: bool) -> AccountFacts:
    left = account.limit - account.spent
    after = left if charged else left - epsilon
    return AccountFacts(
        limit=account.limit,
        spent=account.spent,
        charged=charged,
        left_after=Fraction(0) if account.burned else after,
        waves=len(account.waves),
        waves_that_fit=0 if account.burned else max(left // epsilon, 0),
        burned=tuple(wave_id.wave for wave_id in account.burned),
    )
