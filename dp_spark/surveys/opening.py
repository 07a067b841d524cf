"""The opening of a wave: its plan is made, its places are looked at, its account is charged."""

from dataclasses import replace

from pyspark.sql import SparkSession

from dp_spark.frames.rows import SparkSource
from dp_spark.publish import Part, local_path, open_sink, require_apart
from dp_spark.publish.survey_tables import WAVE
from dp_spark.release.ledger import Ledger, WaveAsked, WaveId
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.release.spec import InputSpec, SinkKind, SurveySpec
from dp_spark.release.survey import plan_survey, require_spec_of, survey_plan_from_bytes, survey_plan_to_bytes
from dp_spark.release.survey_sources import require_own_answers
from dp_spark.surveys.run import (
    Opened,
    WaveObserver,
    WaveRun,
    WaveStep,
    opened_input,
    release_id_of,
    rows_of,
    schemas_of,
)


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
        require_own_answers(ledger, spec)
        plan = plan_survey(spec, private=ledger.sources())
        _keep_source(ledger, spec)
        rows = rows_of(spec, wave_id, ledger, profile, _no_spark)
        run = WaveRun(ledger, wave_id, plan, profile, rows, observe)
        _require_sinks(run)
        if spark is not None and any(place.exists() for place in rows.places()):
            opened_input(replace(run, rows=replace(rows, spark=spark)))
        body = survey_plan_to_bytes(plan)
    else:
        require_spec_of(known, spec)
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


def _keep_source(ledger: Ledger, spec: SurveySpec) -> None:
    """Register the input, so that no release of another population reads it; it takes an account of releases.

    Raises:
        LedgerRefused: it belongs to another population.
    """
    population = spec.budget.population
    if isinstance(spec.input, InputSpec) and population in ledger.populations():
        ledger.add_source(spec.input.place, population)


def _require_sinks(run: WaveRun) -> None:
    """Refuse a sink that cannot take the wave, or that lies within the input or another, or holds it."""
    require_apart([sink.path for sink in run.plan.spec.publish if sink.path is not None])
    for sink in run.plan.spec.publish:
        if sink.sink is SinkKind.TABLE:
            run.reach.spark_table(str(sink.table)).require_lasting()
        for name, schema in schemas_of(run.plan).items():
            open_sink(sink.beside(name), run.reach).require_free(
                Part(WAVE, run.wave_id.wave), release_id_of(run.wave_id), schema
            )
        if sink.path is not None and (root := local_path(sink.path)) is not None:
            run.rows.require_apart(sink.path, root)


def _no_spark() -> SparkSession:
    raise AssertionError("nothing is read before a wave is open")
