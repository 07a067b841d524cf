"""The end of a wave by decision: what is stored of it goes, and nothing follows."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from dp_spark.errors import Refusal, SetupRefused
from dp_spark.frames.rows import SparkSource
from dp_spark.frames.spark_table import SparkTable
from dp_spark.publish import Reach, delete_artefact, delete_batch
from dp_spark.release.ledger import WaveEnd, WaveId, WaveRecord, WaveState
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.report import mark_burned, remove_survey_statement
from dp_spark.surveys.batches import BATCH
from dp_spark.surveys.run import COUNTS, ESTIMATES, home_of
from dp_spark.surveys.standing import Copies, copies_of


@dataclass(frozen=True, slots=True)
class Ended:
    """A wave that is over by decision.

    Attributes:
        record: the wave.
        copies: what sinks hold of it, as far as that can be known.
        untrue: the page of the statement of a burned wave, which goes on promising; None where it has none.
        mark: the file beside it that says so.
    """

    record: WaveRecord
    copies: Copies
    untrue: Path | None = None
    mark: Path | None = None


def end_survey(
    wave_id: WaveId, end: WaveEnd, reason: str, *, profile: Profile, spark: SparkSource | None = None
) -> Ended:
    """Abandon or burn a wave: its key is destroyed, its reports, counts and staged estimates are deleted.

    The wave is known by its name alone, whatever its spec has become. What sinks have stays there. Running
    again deletes what a run left that was at work meanwhile, and changes nothing else. `spark` gives the
    session that looks into tables of Spark's catalog.

    Raises:
        LedgerRefused: the wave is unknown, its state does not allow that, or the reason is blank.
        SetupRefused: something is left that cannot be deleted, or the statement cannot be marked; the
            decision stands.
    """
    ledger = open_ledger(profile)
    ledger.end_wave(wave_id, end, reason)
    record = ledger.wave(wave_id)
    assert record is not None  # it was ended just now
    if record.statement is None:  # written by a run that came too late, or was killed
        remove_survey_statement(wave_id, profile.statements)
    untrue = mark = None
    if record.state is WaveState.BURNED and record.statement is not None:
        untrue = Path(record.statement.path)
        mark = mark_burned(wave_id, untrue)
    _delete_stored(home_of(profile, wave_id), record)
    reach = Reach(profile.connections, partial(SparkTable, session=spark or _no_spark))
    return Ended(record, copies_of(record, reach), untrue, mark)


def _delete_stored(zone: Path, record: WaveRecord) -> None:
    """Delete all that is stored of a wave, as much as can be, and look again.

    Raises:
        SetupRefused: something is left.
    """
    why = [refused for path in _stored(zone, record) if (refused := _deleted(path))]
    left = [path for path in _stored(zone, record) if os.path.lexists(path)]
    if left:
        raise SetupRefused(
            "wave_not_deleted",
            f"wave {record.wave_id} is {record.state}, and {len(left):,} of its files or directories are "
            f"left, the first at {left[0]}: {why[0] if why else 'somebody has written it meanwhile'}",
            way_out="the decision stands. End the runs that are at work on the wave, give this user write "
            "access, and run the same command again until it deletes all",
        )


def _stored(zone: Path, record: WaveRecord) -> list[Path]:
    """What there may be of a wave: where its steps put it, and by its names in its zone; drafts, too."""
    staged = (each for each in (record.counts, record.estimates) if each is not None)
    named = [*(Path(batch.path) for batch in record.batches), *(Path(each.path) for each in staged)]
    patterns = (f"{BATCH}*", *(f"{hidden}{kind}-*" for kind in (COUNTS, ESTIMATES) for hidden in ("", ".")))
    return list(dict.fromkeys([*named, *(found for pattern in patterns for found in zone.glob(pattern))]))


def _deleted(path: Path) -> str:
    """Why it cannot be deleted; empty where it is."""
    try:
        if path.name.startswith(BATCH):
            delete_batch(path)
        else:
            delete_artefact(path)
    except Refusal as refusal:
        return refusal.message
    return ""


def _no_spark() -> SparkSession:
    raise SetupRefused(
        "spark_missing", "no Spark was given to look into a table", way_out="look into it yourself"
    )
