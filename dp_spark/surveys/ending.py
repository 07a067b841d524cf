"""The end of a wave by decision: what is stored of it goes, and nothing follows."""

from pathlib import Path

from dp_spark.release.ledger import WaveEnd, WaveId, WaveRecord
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import Profile
from dp_spark.surveys.batches import tidy
from dp_spark.surveys.closing import keep_staged
from dp_spark.surveys.run import COUNTS, ESTIMATES, home_of


def end_survey(wave_id: WaveId, end: WaveEnd, reason: str, *, profile: Profile) -> WaveRecord:
    """Abandon or burn a wave: its key is destroyed, its reports, counts and staged estimates are deleted.

    The wave is known by its name alone, whatever its spec has become. What sinks have stays there. Running
    again deletes what a run left that was at work meanwhile, and changes nothing else.

    Raises:
        LedgerRefused: the wave is unknown, its state does not allow that, or the reason is blank.
        SetupRefused: something cannot be deleted; the decision stands.
    """
    ledger = open_ledger(profile)
    ledger.end_wave(wave_id, end, reason)
    record = ledger.wave(wave_id)
    assert record is not None  # it was ended just now
    zone = home_of(profile, wave_id)
    tidy(zone, record)
    for kind, staged in {COUNTS: record.counts, ESTIMATES: record.estimates}.items():
        if staged is not None:  # wherever the restricted zone was when it was written
            Path(staged.path).unlink(missing_ok=True)
        keep_staged(zone, kind, None)
    return record
