"""The opening of a wave: its plan is made, its places are looked at, its account is charged."""

from dataclasses import replace

from pyspark.sql import SparkSession

from dp_spark.errors import LedgerRefused
from dp_spark.frames.rows import Rows, SparkSource
from dp_spark.publish import Part, local_path, open_sink
from dp_spark.publish.survey_tables import WAVE
from dp_spark.release.ledger import Ledger, WaveAsked, WaveId, source_name
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.release.spec import InputSpec, SurveySpec
from dp_spark.release.survey import plan_survey, survey_plan_from_bytes, survey_plan_to_bytes
from dp_spark.surveys.run import (
    Opened,
    WaveObserver,
    WaveRun,
    WaveStep,
    opened_input,
    release_id_of,
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
        plan = plan_survey(spec, private=_private_sources(ledger, spec))
        _keep_source(ledger, spec)
        rows = Rows(spec.input, f"survey {wave_id}", _no_spark, None, one_machine=ledger.one_machine)
        run = WaveRun(ledger, wave_id, plan, profile, rows, observe)
        _require_sinks(run)
        if spark is not None and any(place.exists() for place in rows.places()):
            opened_input(replace(run, rows=replace(rows, spark=spark)))
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
    own = source_name(spec.input.place) if isinstance(spec.input, InputSpec) else None
    for account in ledger.survey_accounts():
        for wave in account.waves:
            asked = survey_plan_from_bytes(wave.plan_bytes).spec.input
            if not isinstance(asked, InputSpec):
                continue
            found.add(source_name(asked.place))
            if source_name(asked.place) == own and account.population != population:
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
        ledger.add_source(spec.input.place, population)


def _require_sinks(run: WaveRun) -> None:
    """Refuse a sink that cannot take the wave, or that lies within the input, or holds it."""
    for sink in run.plan.spec.publish:
        for name, schema in schemas_of(run.plan).items():
            open_sink(sink.beside(name), run.reach).require_free(
                Part(WAVE, run.wave_id.wave), release_id_of(run.wave_id), schema
            )
        if sink.path is not None and (root := local_path(sink.path)) is not None:
            run.rows.require_apart(sink.path, root)


def _no_spark() -> SparkSession:
    raise AssertionError("nothing is read before a wave is open")
