"""The life of a release, from spec to seal."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from dp_spark.errors import LedgerRefused
from dp_spark.frames.rows import Rows, SparkSource
from dp_spark.frames.source_iceberg import Within
from dp_spark.pipeline.gating import check
from dp_spark.pipeline.publishing import keep_only, publish, require_copies, restore, result_of, seal
from dp_spark.pipeline.reserving import reserved
from dp_spark.pipeline.run import Asked, Observer, Run
from dp_spark.pipeline.staging import stage
from dp_spark.publish import read_artefact
from dp_spark.release.ledger import (
    BudgetWarning,
    Decision,
    ReleaseId,
    ReleaseRecord,
    ReleaseState,
    StoredFile,
)
from dp_spark.release.period import period_window
from dp_spark.release.places import open_ledger, release_record
from dp_spark.release.profile import Profile
from dp_spark.release.spec import ReleaseSpec
from dp_spark.release.stored import plan_from_bytes
from dp_spark.release.zone import claim_zone
from dp_spark.report import RunResult


def run_release(  # noqa: PLR0913  # a run has as many sides
    spec: ReleaseSpec,
    key: str,
    *,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None = None,
    revise: str | None = None,
    observe: Observer = lambda step: None,
    warn: Callable[[BudgetWarning], None] = lambda warning: None,
) -> RunResult:
    """Privatize, check, publish and seal the release of one period, or whatever of it is still to be done.

    Args:
        spec: what to release.
        key: first day of the period, YYYY-MM-DD.
        profile: where ledger, restricted zone and statements are.
        spark: gives the session; called only if rows must be read or a table of Spark's catalog is
            published to, and not with a frame, which has its own.
        frame: the rows, of a spec without `input`. While none are staged, each attempt reads it anew.
        revise: why the period is released again, with noise and a charge of its own. Without it, the run is
            about the revision that stands. The same reason names the same revision, whenever it is run.
        observe: told each step before it begins.
        warn: told, once the release is sealed, that 20 % or 5 % of the budget is left, or less.

    Raises:
        Refusal: with a code and a way out. A failure never depends on a row, and running again goes on
            where this run stopped, at no further charge.
    """
    run = _reserved(_asked(spec, key, profile, spark, frame, revise, observe))
    result = _published(run, run.claim.artefact or stage(run))
    if result.warning is not None:
        warn(result.warning)
    return result


def privatize_release(
    spec: ReleaseSpec,
    key: str,
    *,
    profile: Profile,
    spark: SparkSource,
    revise: str | None = None,
    observe: Observer = lambda step: None,
) -> ReleaseRecord:
    """The first half of `run_release`: reserve, privatize and stage; nothing is published.

    Raises:
        Refusal: as `run_release`.
    """
    run = _reserved(_asked(spec, key, profile, spark, None, revise, observe))
    if run.claim.artefact is None:
        stage(run)
    return release_record(run.ledger, run.claim.release_id)


def publish_release(  # a run has as many sides
    spec: ReleaseSpec,
    key: str,
    *,
    profile: Profile,
    spark: SparkSource,
    revise: str | None = None,
    observe: Observer = lambda step: None,
    warn: Callable[[BudgetWarning], None] = lambda warning: None,
) -> RunResult:
    """The second half of `run_release`: check, publish and seal what is staged; no row is read.

    Raises:
        LedgerRefused: nothing is staged; nothing is charged either.
        Refusal: as `run_release`.
    """
    asked = _asked(spec, key, profile, spark, None, revise, observe)
    known = asked.ledger.find(asked.release)
    if known is None or known.artefact is None:
        raise LedgerRefused(
            "release_not_staged",
            f"nothing of release {asked.release} is staged: "
            + ("it was never reserved" if known is None else f"it is {known.state}"),
            way_out="dp-spark privatize SPEC --key KEY, or dp-spark run, which does both",
        )
    run = _reserved(asked)
    assert run.claim.artefact is not None
    result = _published(run, run.claim.artefact)
    if result.warning is not None:
        warn(result.warning)
    return result


def publish_held(
    release: ReleaseId,
    reason: str,
    *,
    profile: Profile,
    spark: SparkSource,
    observe: Observer = lambda step: None,
) -> RunResult:
    """Publish and seal a held release, by somebody's decision and without asking its checks again.

    Raises:
        LedgerRefused: the release is not held, or the reason is blank.
        Refusal: as `run_release`; the decision stands, and running the release goes on with it.
    """
    ledger = open_ledger(profile)
    claim_zone(ledger, profile.staging)
    ledger.decide(release, Decision.PUBLISH, reason)
    claim = ledger.resume(release)
    assert claim.artefact is not None  # what is held is staged
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    window = period_window(plan.spec.period, release.period_key)
    rows = Rows(
        plan.spec.input,
        str(release),
        spark,
        None,
        one_machine=ledger.one_machine,
        connections=profile.connections,
    )
    return _published(Run(ledger, claim, plan, window, profile, rows, observe), claim.artefact)


def _asked(
    spec: ReleaseSpec,
    key: str,
    profile: Profile,
    spark: SparkSource,
    frame: DataFrame | None,
    revise: str | None,
    observe: Observer,
) -> Asked:
    window = period_window(spec.period, key)
    ledger = open_ledger(profile)
    claim_zone(ledger, profile.staging)
    rows = Rows(
        spec.input,
        f"release {spec.release!r}",
        spark,
        frame,
        one_machine=ledger.one_machine,
        connections=profile.connections,
        within=None if spec.period is None else Within(spec.period.column, window),
    )
    first = ReleaseId(spec.budget.population, spec.release, key)
    release = ledger.current_revision(first) if revise is None else ledger.revision_for(first, revise)
    return Asked(ledger, release, spec, revise, window, profile, rows, observe)


def _reserved(asked: Asked) -> Run:
    """The run of a release that is charged for, by now or by the attempt that it continues."""
    claim = reserved(asked)
    plan = plan_from_bytes(claim.plan_bytes, claim.tables)
    rows = asked.rows.at(claim.source_version)
    return Run(asked.ledger, claim, plan, asked.window, asked.profile, rows, asked.observe)


def _published(run: Run, artefact: StoredFile) -> RunResult:
    """Whatever is still to be done of a staged release."""
    claim, path = run.claim, Path(artefact.path)
    if claim.state is ReleaseState.SEALED and not path.exists():
        require_copies(run, artefact)
        return result_of(run, None)
    table = read_artefact(path, artefact.digest)
    if claim.state is ReleaseState.SEALED:
        restore(run, table)
    else:
        if claim.state is not ReleaseState.PUBLISHED:
            if not claim.cleared:
                check(run, table, artefact)
            publish(run, table, artefact)
        seal(run)
    keep_only(path)
    return result_of(run, table)
