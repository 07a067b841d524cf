"""What the proofs by exhaustion run in processes of their own, against the real code."""

import itertools
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from ledger_support import MASTER_KEY, NIGHT, NIGHTLY, POPULATION, SINK, guarantee, reserve

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.release.ledger import Claim, Ledger, ReleaseId, ReleaseState
from dp_spark.release.spec import PoolKind


def release_of(number: int) -> ReleaseId:
    """One after another takes a slot, a cost of the pool of sums, and one of the pool of zCDP."""
    name = (NIGHTLY, PoolKind.SUMS.value, PoolKind.ZCDP.value)[number % 3]
    return ReleaseId(POPULATION, name, f"day-{number}")


def charged(ledger: Ledger, release_id: ReleaseId) -> Claim:
    """A claim on a release of a shared account, whose name says who pays."""
    pool = None if release_id.name == NIGHTLY else PoolKind(release_id.name)
    return reserve(ledger, release_id=release_id, noise=NIGHT, pool=pool)


def live(ledger: Ledger, number: int, observed: Path | None = None) -> None:
    """One run of a release, as the pipeline makes it: whatever is still to be done, to its seal.

    Whatever the run makes visible it appends to `observed`: the digest that a sink would show.
    """
    claim = charged(ledger, release_of(number))
    artefact, period = claim.artefact, claim.release_id.period_key
    if artefact is None:
        ledger.start_reading(claim)
        key = ledger.release_key(claim).hex()
        artefact = ledger.stage(claim, f"noise of {key}", f"staging/{claim.fence}").artefact
    if claim.state is ReleaseState.SEALED:
        return
    record = ledger.find(claim.release_id)
    if record.state is not ReleaseState.PUBLISHED:
        if observed is not None:
            with observed.open("a") as file:
                file.write(f"{period} {artefact.digest}\n")
        ledger.record_publication(claim, SINK, f"out/{period}", artefact.digest)
        ledger.publish(claim, [SINK])
    ledger.seal(claim, statement_path="s.html", statement_digest="s")


def die_at(statement: int) -> None:
    """This process is killed before the given statement or commit from now on."""
    left = [statement]

    def count(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.Engine, "commit", count)


def forked(action, *arguments) -> int:
    """The status of a fork that runs the action; a refusal ends it with 3, anything else with 1."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        action(*arguments)
        code = 0
    except LedgerRefused:
        code = 3
    finally:
        os._exit(code)


@dataclass
class Worker:
    """A fork that does its work at once and tells a number at its end."""

    child: int
    pipe: int

    def told(self) -> int:
        with os.fdopen(self.pipe) as pipe:
            text = pipe.read()
        assert os.waitpid(self.child, 0)[1] == 0
        return int(text)


def started(work: Callable[..., int], *arguments: object) -> Worker:
    """The work in a process of its own, forked so that nothing has to be imported again."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return Worker(child, reading)
    code = 1
    try:
        os.write(writing, str(work(*arguments)).encode())
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def kill_loop(url: str, observed: Path, seed: int, kills: int) -> int:
    """Runs, each a fork with its death at a random statement, until so many died; the number of releases.

    A few releases at a time, those of the other loops too, then the next: nothing kills what is sealed.
    """
    rng = random.Random(seed)
    ledger = Ledger.open(url, MASTER_KEY)
    killed = first = 0
    for each in itertools.count():
        if killed == kills:
            break
        first = each // 4
        number, statement = first + rng.randrange(4), rng.randrange(75)

        def run(number=number, statement=statement) -> None:
            die_at(statement)
            live(ledger, number, observed)

        killed += os.WIFSIGNALED(forked(run))
    return first + 4


def write_loop(url: str, writer: int, rounds: int, start: Path) -> int:
    """As many reservations as rounds, one after another; how many were charged.

    An even writer asks the pool of sums, an odd one for slots.
    """
    ledger = Ledger.open(url, MASTER_KEY)
    while not start.exists():
        time.sleep(0.01)
    charged, (name, pool) = 0, ((PoolKind.SUMS.value, PoolKind.SUMS), (NIGHTLY, None))[writer % 2]
    asked = {"noise": NIGHT, "pool": pool, "charge": guarantee("0.01")}
    left = [ReleaseId(POPULATION, name, f"writer-{writer}-{each}") for each in range(rounds)]
    while left:
        try:
            charged += reserve(ledger, release_id=left[-1], **asked).charged_now
        except BudgetRefused:
            pass
        except LedgerRefused as refusal:
            if refusal.code != "ledger_busy":
                raise
            continue  # so many may keep one waiting for too long: it asks again
        left.pop()
    return charged
