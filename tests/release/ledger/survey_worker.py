"""What the proofs about waves run in processes of their own, against the real code."""

import os
import time
from pathlib import Path

from ledger_support import MASTER_KEY
from survey_support import opened

from dp_spark.release.ledger import Batch, Ledger, StoredFile, WaveId, WaveState

ASKED = 10  # so many people answer each night, and have answered before or not


def night(ledger: Ledger, wave: WaveId, asked: int = ASKED) -> None:
    """One run of `randomize`, as the pipeline makes it: whoever of `asked` people has no report gets one."""
    while True:
        claim = ledger.begin_batch(wave)
        record = ledger.wave(wave)
        path = f"restricted/attempt-{claim.fence}"
        batch = Batch(claim.number, path, f"digest of {path}", max(0, asked - record.reports))
        if ledger.commit_batch(claim, batch):
            return


def live_wave(ledger: Ledger, name: str, observed: Path | None = None) -> None:
    """Open a wave, ask once, close it: whatever of that is still to be done.

    The digest of the counts that the run goes on with is appended to `observed`.
    """
    record = opened(ledger, name)
    if record.state is WaveState.OPEN:
        night(ledger, record.wave_id)
    counts = record.counts
    if counts is None:
        batches = len(ledger.wave(record.wave_id).batches)
        mine = StoredFile(f"staging/{os.getpid()}", f"counts of {os.getpid()}")
        counts = ledger.close_wave(record.wave_id, batches, mine)
    if observed is not None:
        with observed.open("a") as file:
            file.write(f"{counts.digest}\n")


def at_once(start: Path) -> None:
    """Wait until the file is there."""
    while not start.exists():
        time.sleep(0.005)


def open_at_once(url: str, wave: str, start: Path) -> int:
    """Whether this opening was the one that charged."""
    ledger = Ledger.open(url, MASTER_KEY)
    at_once(start)
    return int(opened(ledger, wave).opened_now)


def night_at_once(url: str, wave: WaveId, asked: int, start: Path) -> int:
    """One night that reaches so many people; how many reports there are then at least."""
    ledger = Ledger.open(url, MASTER_KEY)
    at_once(start)
    night(ledger, wave, asked)
    return ledger.wave(wave).reports


def close_at_once(url: str, wave: WaveId, start: Path) -> int:
    """Whether the counts of this process are the wave's."""
    ledger = Ledger.open(url, MASTER_KEY)
    at_once(start)
    mine = StoredFile(f"staging/{os.getpid()}", str(os.getpid()))
    return int(ledger.close_wave(wave, len(ledger.wave(wave).batches), mine) == mine)
