"""What the tests of surveys in the ledger share: one question, and short ways to bring a wave to a state."""

from fractions import Fraction

from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.ledger import (
    Batch,
    BatchClaim,
    Ledger,
    StoredFile,
    WaveAsked,
    WaveId,
    WaveRecord,
    WaveState,
    store,
)

SURVEY_TABLES = [each for each in store.metadata.sorted_tables if each.name.startswith(("survey_", "wave"))]
PEOPLE, SURVEY = "us_persons", "work_status"
PERSON = PrivacyUnit(("person",))
WHY = "decided by the board"
COUNTS, ESTIMATES = StoredFile("staging/counts", "digest-c"), StoredFile("staging/estimates", "digest-e")
STATEMENT = StoredFile("s.html", "digest-s")
SINK = "parquet"


def limit_survey(ledger: Ledger, limit="2", survey=SURVEY, population=PEOPLE, **changes) -> None:
    asked = {"unit": PERSON, "reason": WHY} | changes
    ledger.set_survey_limit(population, survey, Fraction(limit), **asked)


def wave_of(wave="2024q1", survey=SURVEY, population=PEOPLE) -> WaveId:
    return WaveId(population, survey, wave)


def asked_for(wave="2024q1", survey=SURVEY, population=PEOPLE, **changes) -> WaveAsked:
    asked = {
        "unit": PERSON,
        "epsilon": Fraction(1),
        "domain_digest": "domain-1",
        "spec_digest": "spec-1",
        "plan_bytes": b"plan-1",
        "reason": WHY,
    }
    return WaveAsked(wave_id=wave_of(wave, survey, population), **(asked | changes))


def opened(ledger: Ledger, wave="2024q1", **changes) -> WaveRecord:
    return ledger.open_wave(asked_for(wave, **changes))


def batch_of(claim: BatchClaim, reports=10) -> Batch:
    path = f"restricted/attempt-{claim.fence}"
    return Batch(claim.number, path, f"digest of {path}", reports)


def add_batch(ledger: Ledger, wave: WaveId) -> bool:
    claim = ledger.begin_batch(wave)
    return ledger.commit_batch(claim, batch_of(claim))


def wave_brought_to(ledger: Ledger, state: WaveState, wave="2024q1") -> WaveId:
    """A wave of two batches that the ledger's own steps brought to `state`."""
    wave_id = opened(ledger, wave).wave_id
    add_batch(ledger, wave_id)
    add_batch(ledger, wave_id)
    steps = {
        WaveState.CLOSED: lambda: close(ledger, wave_id),
        WaveState.HELD: lambda: ledger.hold_wave(wave_id, ["history"]),
        WaveState.PUBLISHED: lambda: publish(ledger, wave_id),
        WaveState.SEALED: lambda: ledger.seal_wave(wave_id, STATEMENT),
    }
    line = [each for each in WaveState if each is not WaveState.HELD or state is WaveState.HELD]
    for each in line[1 : line.index(state) + 1]:
        steps[each]()
    return wave_id


def close(ledger: Ledger, wave_id: WaveId) -> None:
    ledger.close_wave(wave_id, 2, COUNTS)
    ledger.stage_estimates(wave_id, ESTIMATES)


def publish(ledger: Ledger, wave_id: WaveId) -> None:
    ledger.record_wave_publication(wave_id, SINK, "out/work", ESTIMATES.digest)
    ledger.publish_wave(wave_id, [SINK])
