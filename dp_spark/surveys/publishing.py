"""What leaves of a wave: its tables, when the gates have passed them, and its statement."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from dp_spark.checks import Verdict, check_wave
from dp_spark.errors import LedgerRefused, PublishRefused, Refusal, ReleaseHeld, SetupRefused
from dp_spark.publish import (
    Edition,
    Part,
    artefact_digest,
    contract_path,
    open_sink,
    survey_contract,
    write_contract,
)
from dp_spark.publish.survey_tables import WAVE, wave_groups
from dp_spark.release.ledger import StoredFile, utc_now
from dp_spark.release.spec import SinkSpec
from dp_spark.report import (
    file_digest,
    gate_facts,
    mark_decided,
    remove_survey_statement,
    wave_evidence_path,
    write_evidence,
    write_survey_statement,
)
from dp_spark.surveys.run import ESTIMATES, REPORTS, WaveRun, WaveStep, release_id_of
from dp_spark.surveys.standing import placed


def check_tables(run: WaveRun, counts: pa.Table, table: pa.Table) -> None:
    """Run the gates on the staged tables, and write what they found; one that fails holds the wave.

    Raises:
        ReleaseHeld: one failed; the ledger knows, whether or not the evidence could be written.
        SetupRefused: the evidence cannot be written; nothing is published without.
    """
    run.observe(WaveStep.CHECK)
    verdicts = check_wave(counts, table, run.plan, str(run.wave_id))
    failed = tuple(f"{name}: {each}" for name, verdict in verdicts.items() for each in verdict.failed)
    if not failed:
        _write(run, verdicts)
        return
    run.ledger.hold_wave(run.wave_id, failed)
    try:
        told = f"the evidence is {_write(run, verdicts)}"
    except SetupRefused as refusal:
        told = refusal.message
    raise ReleaseHeld(
        "wave_held",
        f"wave {run.wave_id} is held: its staged tables fail {'; '.join(failed)}; {told}",
        way_out="nothing was published and the charge stands; mend the cause and run estimate again: the "
        "checks are repeated on the same tables; or decide, with `dp-spark survey publish-held`",
    )


def _write(run: WaveRun, verdicts: Mapping[str, Verdict]) -> Path:
    path = wave_evidence_path(run.wave_id, run.profile.statements)
    gates = {
        name: gate_facts(verdict.failed, (each.as_json() for each in verdict.outcomes))
        for name, verdict in verdicts.items()
    }
    write_evidence(path, str(run.wave_id), {"gates": gates})
    return path


def publish_tables(run: WaveRun, counts: pa.Table, table: pa.Table) -> None:
    """Copy both tables to every sink; one that is down delays its own copies only.

    Raises:
        PublishRefused: a sink refused its copy.
        LedgerRefused: the wave was ended meanwhile; a copy that was under way may be there.
    """
    refused: list[Refusal] = []
    tables = {REPORTS: counts, ESTIMATES: table}
    for declared in run.plan.spec.publish:
        try:
            sink = placed(declared, run.record().publications)
            for name, each in tables.items():
                run.observe(WaveStep.PUBLISH)
                run.require_not_ended()
                _place(run, name, each, sink.beside(name))
        except (PublishRefused, SetupRefused) as refusal:
            refused.append(refusal)
        else:
            digest = artefact_digest(table)
            run.ledger.record_wave_publication(run.wave_id, declared.name, sink.place, digest)
    if refused:
        raise refused[0]
    run.ledger.publish_wave(run.wave_id, [sink.name for sink in run.plan.spec.publish])


def _place(run: WaveRun, name: str, table: pa.Table, sink: SinkSpec) -> None:
    """Copy a table to its sink, and write the contract beside it."""
    open_sink(sink, run.reach).publish(_edition(run, name, table))
    owner = (run.wave_id.population, run.wave_id.survey, name)
    path = contract_path(sink, run.profile.statements, owner)
    write_contract(survey_contract(run.plan, name, sink, table.schema), path)


def _edition(run: WaveRun, name: str, table: pa.Table) -> Edition:
    """One of the two tables as sinks get it."""
    wave, epsilon = run.wave_id, run.plan.spec.epsilon
    return Edition(
        table=table,
        part=Part(WAVE, wave.wave),
        release_id=release_id_of(wave),
        digest=artefact_digest(table),
        facts={
            "population": wave.population,
            "survey": wave.survey,
            "wave": wave.wave,
            "epsilon": str(epsilon),
            "plan": hashlib.sha256(run.record().plan_bytes).hexdigest(),
        },
        comment=f"{wave.survey}: {name} of a survey under local differential privacy of dp_spark; each "
        f"answer epsilon = {epsilon}",
    )


def seal_survey(run: WaveRun, table: pa.Table) -> None:
    """Write the statement and close the wave's books.

    Raises:
        LedgerRefused: the wave was ended meanwhile; no statement of it stays.
    """
    run.observe(WaveStep.SEAL)
    if run.record().cleared:
        mark_decided(wave_evidence_path(run.wave_id, run.profile.statements), str(run.wave_id))
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
    try:
        run.ledger.seal_wave(run.wave_id, StoredFile(str(page), file_digest(page)))
    except LedgerRefused:
        if run.record().statement is None:  # it says that the wave is sealed, and it never will be
            remove_survey_statement(run.wave_id, run.profile.statements)
        raise
