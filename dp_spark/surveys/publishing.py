"""What leaves of a wave: its tables, when the gates have passed them, and its statement."""

import pyarrow as pa

from dp_spark.checks import check_wave
from dp_spark.errors import PublishRefused, ReleaseHeld
from dp_spark.publish import Part, artefact_digest, publish_parquet
from dp_spark.publish.survey_tables import WAVE, wave_groups
from dp_spark.release.ledger import StoredFile, utc_now
from dp_spark.release.spec import SinkSpec
from dp_spark.report import file_digest, write_survey_statement
from dp_spark.surveys.run import ESTIMATES, REPORTS, WaveRun, WaveStep, release_id_of


def check_tables(run: WaveRun, counts: pa.Table, table: pa.Table) -> None:
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


def publish_tables(run: WaveRun, counts: pa.Table, table: pa.Table) -> None:
    """Copy both tables to every sink; one that is down delays its own copies only.

    Raises:
        PublishRefused: a sink refused its copy.
        LedgerRefused: the wave was ended meanwhile; a copy that was under way may be there.
    """
    refused: list[PublishRefused] = []
    tables = {REPORTS: counts, ESTIMATES: table}
    for sink in run.plan.spec.publish:
        run.observe(WaveStep.PUBLISH)
        run.require_not_ended()
        try:
            for name, each in tables.items():
                publish_parquet(
                    each,
                    f"{sink.path.rstrip('/')}/{name}",
                    part=Part(WAVE, run.wave_id.wave),
                    release_id=release_id_of(run.wave_id),
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


def seal_survey(run: WaveRun, table: pa.Table) -> None:
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
