"""The opening of a wave: its plan is made, its places are looked at, its account is charged."""

from dataclasses import replace

from pyspark.sql import SparkSession

from dp_spark.frames.rows import Rows, SparkSource
from dp_spark.publish import Part, local_root, require_free
from dp_spark.publish.survey_tables import WAVE
from dp_spark.release.ledger import Ledger, WaveAsked, WaveId
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.release.spec import InputSpec, SurveySpec
from dp_spark.release.survey import plan_survey, require_spec_of, survey_plan_from_bytes, survey_plan_to_bytes
from dp_spark.release.survey_sources import require_own_answers
from dp_spark.surveys.run import (
    ESTIMATES,
    REPORTS,
    Opened,
    WaveObserver,
    WaveRun,
    WaveStep,
    opened_input,
    release_id_of,
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
        rows = Rows(spec.input, f"survey {wave_id}", _no_spark, None, one_machine=ledger.one_machine)
        for sink, path in _targets(spec):
            require_free(path, part=Part(WAVE, wave), release_id=release_id_of(wave_id))
            rows.require_apart(sink, local_root(path))
        if spark is not None and any(place.exists() for place in rows.places()):
            opened_input(WaveRun(ledger, wave_id, plan, profile, replace(rows, spark=spark), observe))
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
        ledger.add_source(spec.input.path, population)


def _targets(spec: SurveySpec) -> list[tuple[str, str]]:
    """Of each sink, the path as it is written, and the roots of its two tables."""
    return [
        (sink.path, f"{sink.path.rstrip('/')}/{name}")
        for sink in spec.publish
        for name in (REPORTS, ESTIMATES)
    ]


def _no_spark() -> SparkSession:
    raise AssertionError("nothing is read before a wave is open")
