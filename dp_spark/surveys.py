"""The life of a wave of a survey, from its opening to its seal; like `pipeline`, it calls every room.

A step can be killed anywhere and started again: the ledger knows the wave's state, and each step either
changes nothing the second time or is decided by the ledger's compare-and-set.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dp_spark.checks import check_wave
from dp_spark.errors import InputRefused, LedgerRefused, PublishRefused, Refusal, ReleaseHeld, SetupRefused
from dp_spark.frames.collect import to_arrow
from dp_spark.frames.rows import Rows, SparkSource
from dp_spark.frames.stored_reports import counted_reports, stored_reports, write_reports
from dp_spark.frames.survey import people_of, report_counts
from dp_spark.frames.survey_estimates import decoded
from dp_spark.frames.survey_input import check_survey_columns, unit_kinds
from dp_spark.publish import (
    Part,
    artefact_digest,
    count_reports,
    delete_batch,
    local_root,
    publish_parquet,
    read_artefact,
    require_free,
    seal_batch,
    verify_batch,
    write_artefact,
)
from dp_spark.publish.durable import make_directories
from dp_spark.publish.survey_tables import (
    WAVE,
    GroupEstimate,
    counts_table,
    estimates_table,
    group_estimate,
    group_estimates,
    wave_groups,
)
from dp_spark.release.ledger import (
    Batch,
    BatchClaim,
    Ledger,
    StoredFile,
    SurveyAccount,
    WaveAsked,
    WaveId,
    WaveRecord,
    WaveState,
    source_name,
    utc_now,
)
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.release.spec import InputSpec, SinkSpec, SurveySpec
from dp_spark.release.spec.groups import TOTAL_LABEL
from dp_spark.release.spec.survey_columns import COUNT_COLUMN, REPORT_COLUMN
from dp_spark.release.survey import SurveyPlan, plan_survey, survey_plan_from_bytes, survey_plan_to_bytes
from dp_spark.report import file_digest, write_survey_statement
from dp_spark.uldp import ReportCounts
from dp_spark.uldp.pooling import weighted

WaveObserver: TypeAlias = "Callable[[WaveStep], None]"
_RACES = 5  # lost to other runs in a row, until a run gives up
REPORTS, ESTIMATES = "reports", "estimates"  # where a sink has the two tables
_BATCH, _COUNTS = "batch-", "counts"  # of names in the restricted zone: a fence follows the first


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
        table: the published estimates.
        statement: the page that says what was promised.
    """

    record: WaveRecord
    table: pa.Table
    statement: Path


def open_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    reason: str,
    changed: str | None = None,
    spark: SparkSource | None = None,
    observe: WaveObserver = lambda step: None,
) -> Opened:
    """Charge the survey's account for a wave, once, and store the plan that all later steps work with.

    Args:
        spec: the survey.
        wave: its name, as 2024q1.
        profile: where ledger and restricted zone are.
        reason: why it is opened; recorded.
        changed: why categories or their flags are not those of the wave before; None where they are.
        spark: gives a session that looks at the columns of the input, where that is there already.
        observe: told each step before it begins.

    Raises:
        Refusal: with a code and a way out; nothing was charged.
    """
    ledger, wave_id = open_ledger(profile), WaveId(spec.budget.population, spec.survey, wave)
    known = ledger.wave(wave_id)
    if known is None:
        observe(WaveStep.PLAN)
        plan = plan_survey(spec, private=_private_sources(ledger, spec))
        _keep_source(ledger, spec)
        rows = Rows(spec.input, f"survey {wave_id}", _no_spark, None, one_machine=ledger.one_machine)
        for sink, path in _targets(spec):
            require_free(path, part=Part(WAVE, wave), release_id=_release_id(wave_id))
            rows.require_apart(sink, local_root(path))
        if spark is not None and any(place.exists() for place in rows.places()):
            _opened(_Run(ledger, wave_id, plan, profile, replace(rows, spark=spark), observe))
        body = survey_plan_to_bytes(plan)
    else:
        body, plan = known.plan_bytes, survey_plan_from_bytes(known.plan_bytes)
    observe(WaveStep.OPEN)
    record = ledger.open_wave(
        WaveAsked(
            wave_id=wave_id,
            unit=spec.unit.protected,
            epsilon=spec.epsilon,
            domain_digest=plan.domain.digest,
            spec_digest=spec.digest,
            plan_bytes=body,
            reason=reason,
            changed=changed,
        )
    )
    account = ledger.survey_account(spec.budget.population, spec.survey)
    return Opened(survey_plan_from_bytes(record.plan_bytes), record, account)


def _private_sources(ledger: Ledger, spec: SurveySpec) -> frozenset[str]:
    """What is known to hold answers or rows, of any population.

    Raises:
        LedgerRefused: the survey's input belongs to another population.
    """
    population, found = spec.budget.population, set(ledger.sources())
    own = source_name(spec.input.path) if isinstance(spec.input, InputSpec) else None
    for account in ledger.survey_accounts():
        for wave in account.waves:
            asked = survey_plan_from_bytes(wave.plan_bytes).spec.input
            if not isinstance(asked, InputSpec):
                continue
            found.add(source_name(asked.path))
            if source_name(asked.path) == own and account.population != population:
                raise LedgerRefused(
                    "source_of_another_population",
                    f"input {own!r} was read for survey {account.survey} of population {account.population}",
                    way_out=f"write budget: {{population: {account.population}}}, or name the input of "
                    f"{population}",
                )
    return frozenset(found)


def _keep_source(ledger: Ledger, spec: SurveySpec) -> None:
    """Register the input, so that no list of a release is read from it; an account of releases is needed.

    Raises:
        LedgerRefused: it belongs to another population.
    """
    population = spec.budget.population
    if isinstance(spec.input, InputSpec) and population in ledger.populations():
        ledger.add_source(spec.input.path, population)


def randomize_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None = None,
    observe: WaveObserver = lambda step: None,
) -> Added:
    """Give a report to everybody of the input who has none yet in this wave.

    Raises:
        Refusal: with a code and a way out. Nothing depends on an answer, and running again goes on.
    """
    run = _taken_up(spec, wave, profile, spark, frame, observe)
    run.rows.require()
    _opened(run)  # refused before the ledger is asked for anything
    for _ in range(_RACES):
        claim = run.ledger.begin_batch(run.wave_id)
        rows = _opened(run)
        kinds = "-".join(unit_kinds(rows, run.plan.spec))
        home = _home(run) / f"{_BATCH}{claim.fence}-{kinds}"
        try:
            _require_same_kinds(run, kinds)  # after the claim, as all that batches decide
            added = _add_batch(run, claim, rows, home)
        except Refusal:
            if not _is_overtaken(run.record(), claim):
                raise
            added = None
        record = run.record()
        _tidy(run, record, lost=None if added else home)
        if added is not None:
            return Added(record, added)
    raise LedgerRefused(
        "batches_race",
        f"{_RACES} times in a row another run added reports to {run.wave_id} first",
        way_out="run one randomization of a wave at a time; run it again, nothing was lost",
    )


def _opened(run: "_Run") -> DataFrame:
    """The rows as a frame whose columns can serve; whatever the input becomes, it has these types."""
    session = run.rows.session()
    with run.rows.pinned():
        rows = run.rows.opened(session)
        run.rows.require_no_stream(rows)
        check_survey_columns(rows, run.plan.spec)
    return rows


def _require_same_kinds(run: "_Run", kinds: str) -> None:
    """Refuse an input whose unit is of another type than before: a number and its text are two people."""
    before = {Path(batch.path).name.split("-", 2)[2] for batch in run.record().batches}
    if before - {kinds}:
        raise InputRefused(
            "unit_type_changed",
            f"unit.column {', '.join(run.plan.spec.unit.columns)} is of type {kinds}, and was "
            f"{' or '.join(sorted(before))} when wave {run.wave_id} was given its first reports: whoever has "
            "one would get another",
            way_out="cast it in the view that writes the input, as it was; nobody was given a report",
        )


def _add_batch(run: "_Run", claim: BatchClaim, rows: DataFrame, home: Path) -> int | None:
    """How many reports this attempt added; None where another one has its number."""
    batches = _verified(run, run.record())
    make_directories(home.parent, 0o700)
    delete_batch(home)  # a ledger that was restored gives fences out again
    run.observe(WaveStep.RANDOMIZE)
    key = run.ledger.wave_key(run.wave_id)
    write = partial(write_reports, rows, plan=run.plan, wave_key=key, batches=batches, path=home)
    run.rows.on_spark(write)
    run.observe(WaveStep.COMMIT)
    digest, reports = seal_batch(home, run.ledger.report_key(run.wave_id)), count_reports(home)
    if not reports:
        return 0
    batch = Batch(claim.number, str(home), digest, reports)
    return reports if run.ledger.commit_batch(claim, batch) else None


def _is_overtaken(record: WaveRecord, claim: BatchClaim) -> bool:
    """Whether this attempt could not count any more, so that whatever befell it does not matter.

    The winner deletes what the losers have written, also while they are at it.
    """
    return record.state is not WaveState.OPEN or len(record.batches) >= claim.number


def close_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    spark: SparkSource,
    observe: WaveObserver = lambda step: None,
) -> WaveRecord:
    """Count the reports of a wave, destroy its key, and delete what tells whose report is whose.

    Raises:
        Refusal: with a code and a way out; running again goes on.
    """
    run = _taken_up(spec, wave, profile, spark, None, observe)
    record = run.record()
    if record.counts is None:
        _require_reports(record)
        batches = _verified(run, record)
        observe(WaveStep.COUNT)
        table = run.rows.on_spark(lambda: _counted(run, batches))
        path = _home(run) / f"{_COUNTS}-{os.urandom(8).hex()}.parquet"
        write_artefact(table, path)
        observe(WaveStep.CLOSE)
        run.ledger.close_wave(run.wave_id, len(record.batches), StoredFile(str(path), artefact_digest(table)))
    return _tidied(run)


def _require_reports(record: WaveRecord) -> None:
    if not record.reports:
        raise LedgerRefused(
            "wave_empty",
            f"wave {record.wave_id} has no report: closed now, nobody could be asked any more",
            way_out="randomize the answers first; a wave without answers may stay open; its charge stands",
        )


def _tidied(run: "_Run") -> WaveRecord:
    """The closed wave, when nothing is left of it but its counts."""
    record = run.record()
    assert record.counts is not None
    _tidy(run, record)
    _keep_staged(run, _COUNTS, record.counts)
    return record


def estimate_survey(
    spec: SurveySpec,
    wave: str,
    *,
    profile: Profile,
    spark: SparkSource,
    observe: WaveObserver = lambda step: None,
) -> Estimated:
    """Estimate shares from the counts of a closed wave, check, publish both tables and seal.

    Raises:
        ReleaseHeld: a gate failed; nothing was published.
        Refusal: with a code and a way out; running again goes on.
    """
    run = _taken_up(spec, wave, profile, spark, None, observe)
    record = run.record()
    if record.counts is None:
        raise LedgerRefused(
            "wave_open",
            f"wave {run.wave_id} is open: its reports are not counted yet",
            way_out=f"dp-spark survey close SPEC --wave {wave}; nobody can be added to it after that",
        )
    counts = read_artefact(Path(record.counts.path), record.counts.digest)
    _tidied(run)
    staged = record.estimates or _stage_estimates(run, counts, record.counts)
    _keep_staged(run, ESTIMATES, staged)
    table = read_artefact(Path(staged.path), staged.digest)
    if record.state in (WaveState.CLOSED, WaveState.HELD):
        if not record.cleared:
            _check(run, counts, table)
        _publish(run, counts, table)
    if run.record().state is not WaveState.SEALED:
        _seal(run, table)
    sealed = run.record()
    assert sealed.statement is not None
    return Estimated(sealed, table, Path(sealed.statement.path))


@dataclass(frozen=True, slots=True)
class _Run:
    """One step of a wave: its stored plan, and what it works with."""

    ledger: Ledger
    wave_id: WaveId
    plan: SurveyPlan
    profile: Profile
    rows: Rows
    observe: WaveObserver

    def record(self) -> WaveRecord:
        """The wave as the ledger has it now."""
        record = self.ledger.wave(self.wave_id)
        assert record is not None  # the run was taken up from it
        return record


def _taken_up(
    spec: SurveySpec,
    wave: str,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None,
    observe: WaveObserver,
) -> _Run:
    ledger, wave_id = open_ledger(profile), WaveId(spec.budget.population, spec.survey, wave)
    record = ledger.wave(wave_id)
    if record is None:
        raise LedgerRefused(
            "wave_unknown",
            f"wave {wave_id} was never opened",
            way_out=f"dp-spark survey open SPEC --wave {wave} --reason WHY; it charges the survey's account",
        )
    if record.spec_digest != spec.digest:
        raise LedgerRefused(
            "wave_of_another_spec",
            f"wave {wave_id} was opened with another spec: one question, one set of categories, one epsilon",
            way_out="run it with the spec that opened it, or open another wave with this one",
        )
    plan = survey_plan_from_bytes(record.plan_bytes)
    rows = Rows(plan.spec.input, f"survey {wave_id}", spark, frame, one_machine=ledger.one_machine)
    return _Run(ledger, wave_id, plan, profile, rows, observe)


def _home(run: _Run) -> Path:
    """Where the wave is in the restricted zone."""
    wave = run.wave_id
    return run.profile.staging / "surveys" / wave.population / wave.survey / wave.wave


def _release_id(wave_id: WaveId) -> str:
    """How a sink's files name the wave; waves have no revisions."""
    return f"survey:{wave_id}/0"


def _targets(spec: SurveySpec) -> list[tuple[str, str]]:
    """Of each sink, the path as it is written, and the roots of its two tables."""
    return [
        (sink.path, f"{sink.path.rstrip('/')}/{name}")
        for sink in spec.publish
        for name in (REPORTS, ESTIMATES)
    ]


def _verified(run: _Run, record: WaveRecord) -> list[str]:
    """The directories of all batches, each as it was when it was committed."""
    run.observe(WaveStep.VERIFY)
    key = run.ledger.report_key(run.wave_id)
    for batch in record.batches:
        verify_batch(batch.path, batch.digest, key)
    return [batch.path for batch in record.batches]


def _tidy(run: _Run, record: WaveRecord, *, lost: Path | None = None) -> None:
    """Delete, unread, what can be no batch any more; of a closed wave all.

    While the wave is open that is `lost`, if it is no batch, and what attempts have left that began before
    the newest batch did: their numbers are taken. A later attempt may be alive, and win.
    """
    is_open = record.state is WaveState.OPEN
    if not is_open:  # wherever the restricted zone was when they were written
        for batch in record.batches:
            delete_batch(batch.path)
    batches = {Path(batch.path).name for batch in record.batches} if is_open else set[str]()
    newest = max(map(_fence, batches), default=0)
    for found in _home(run).glob(f"{_BATCH}*"):
        if found.name in batches:
            continue
        if not is_open or found == lost:
            delete_batch(found)
        elif _fence(found.name) < newest:
            with suppress(SetupRefused):  # its writer may be alive, and adds files; the close deletes it
                delete_batch(found)


def _fence(name: str) -> int:
    """The fence of an attempt's directory; what somebody else put beside them is as a later attempt's."""
    fence = name.removeprefix(_BATCH).partition("-")[0]
    return int(fence) if fence.isdecimal() else sys.maxsize


def _keep_staged(run: _Run, kind: str, standing: StoredFile) -> None:
    """Delete the tables of a kind that another one stands for: of runs that lost or died."""
    for found in _home(run).glob(f"{kind}-*.parquet"):
        if found.name != Path(standing.path).name:
            found.unlink(missing_ok=True)


def _counted(run: _Run, batches: list[str]) -> pa.Table:
    groups = run.plan.spec.group_columns
    session = run.rows.session()
    stored = stored_reports(session, batches, run.plan)
    _require_one_each(run, to_arrow(people_of(stored)))
    found = to_arrow(report_counts(stored, group_columns=groups))
    columns = [[str(value) for value in found[name].to_pylist()] for name in groups]
    return counts_table(
        run.plan,
        run.wave_id.wave,
        columns,
        found[REPORT_COLUMN].combine_chunks(),
        found[COUNT_COLUMN].combine_chunks(),
    )


def _require_one_each(run: _Run, people: pa.Table) -> None:
    """Refuse to count reports that are not those which the ledger knows, one of each person.

    Raises:
        PublishRefused: they are others; nothing is counted, and the key stays.
    """
    (told,) = people.to_pylist()
    if not told["people"] == told["reports"] == run.record().reports:
        raise PublishRefused(
            "reports_not_one_each",
            f"the batches of {run.wave_id} hold {told['reports']:,} reports of {told['people']:,} people, "
            f"and the ledger knows of {run.record().reports:,}",
            way_out="restore the restricted zone of the wave, or the ledger, from a backup; nothing was "
            "counted",
        )


def _stage_estimates(run: _Run, counts: pa.Table, counted: StoredFile) -> StoredFile:
    run.observe(WaveStep.DECODE)
    found = _decoded(run, counts, counted)
    table = estimates_table(run.plan, str(run.wave_id), found)
    path = _home(run) / f"{ESTIMATES}-{os.urandom(8).hex()}.parquet"
    write_artefact(table, path)
    return run.ledger.stage_estimates(run.wave_id, StoredFile(str(path), artefact_digest(table)))


def _decoded(run: _Run, counts: pa.Table, counted: StoredFile) -> list[GroupEstimate]:
    """An estimate of each group that has reports, in the order of the groups, and of everybody."""
    plan = run.plan
    asked = plan.spec.estimate
    everybody = ReportCounts(counts[REPORT_COLUMN].to_numpy(), counts[COUNT_COLUMN].to_numpy())
    total = plan.mechanism.estimate(everybody, method=asked.method, consistency=asked.consistency)
    if not plan.spec.group_columns:
        return [group_estimate(plan, (), total)]

    def on_workers() -> pa.Table:
        stored = counted_reports(run.rows.session(), counted.path, plan)
        return to_arrow(decoded(stored, plan=plan))

    groups = group_estimates(plan, run.rows.on_spark(on_workers))
    if plan.weights is not None:
        of_group = dict(zip(plan.groups, map(float, plan.weights), strict=True))
        total = weighted([group.estimate for group in groups], [of_group[group.key] for group in groups])
    return [*groups, group_estimate(plan, (TOTAL_LABEL,) * len(plan.spec.group_columns), total)]


def _check(run: _Run, counts: pa.Table, table: pa.Table) -> None:
    """Run the gates on the staged tables; one that fails holds the wave."""
    run.observe(WaveStep.CHECK)
    failed = check_wave(counts, table, run.plan, str(run.wave_id))
    if failed:
        run.ledger.hold_wave(run.wave_id, failed)
        raise ReleaseHeld(
            "wave_held",
            f"wave {run.wave_id} is held: its staged tables fail {'; '.join(failed)}",
            way_out="nothing was published and the charge stands; mend the cause and run estimate again: the "
            "checks are repeated on the same tables; or decide, with `dp-spark survey publish-held`",
        )


def _publish(run: _Run, counts: pa.Table, table: pa.Table) -> None:
    """Copy both tables to every sink; one that is down delays its own copies only."""
    refused: list[PublishRefused] = []
    tables = {REPORTS: counts, ESTIMATES: table}
    for sink in run.plan.spec.publish:
        run.observe(WaveStep.PUBLISH)
        try:
            for name, each in tables.items():
                publish_parquet(
                    each,
                    f"{sink.path.rstrip('/')}/{name}",
                    part=Part(WAVE, run.wave_id.wave),
                    release_id=_release_id(run.wave_id),
                    digest=artefact_digest(each),
                )
        except PublishRefused as refusal:
            refused.append(refusal)
        else:
            digest = artefact_digest(table)
            run.ledger.record_wave_publication(run.wave_id, _sink_name(sink), sink.path, digest)
    if refused:
        raise refused[0]
    run.ledger.publish_wave(run.wave_id, [_sink_name(sink) for sink in run.plan.spec.publish])


def _sink_name(sink: SinkSpec) -> str:
    return f"{sink.sink}:{sink.path}"


def _seal(run: _Run, table: pa.Table) -> None:
    """Write the statement and close the wave's books."""
    run.observe(WaveStep.SEAL)
    groups = wave_groups(run.plan, table)
    page = write_survey_statement(
        run.plan,
        run.record(),
        run.ledger.survey_account(run.wave_id.population, run.wave_id.survey),
        reports={key: reports for key, (reports, _) in groups.items()},
        small=[key for key, (_, small) in groups.items() if small],
        sealed_at=utc_now(),
        directory=run.profile.statements,
    ).html
    run.ledger.seal_wave(run.wave_id, StoredFile(str(page), file_digest(page)))


def _no_spark() -> SparkSession:
    raise AssertionError("nothing is read before a wave is open")
