"""Nothing is spent twice, lost or drawn anew: real processes, real kills, connections cut, disks full.

The short forms run by default; the long ones by `make test-whole`.
"""

import os
import resource
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from ledger_support import (
    MASTER_KEY,
    NIGHTLY,
    POPULATION,
    PostgresPlace,
    SqlitePlace,
    fund,
    guarantee,
    reserve,
    share,
)
from ledger_worker import charged, die_at, forked, kill_loop, live, release_of, started, write_loop

from dp_spark.errors import LedgerRefused, Refusal
from dp_spark.release.ledger import Ledger, ReleaseState, Standing, create_ledger
from dp_spark.release.ledger.adhoc import Cost
from dp_spark.release.spec import PoolKind


def require_sound(ledger: Ledger, observed: Path | None = None) -> None:
    """Every release is paid once, its events tell one line of fences, and no state shows two noises."""
    records, account = ledger.releases(POPULATION), ledger.budget(POPULATION)
    took = Standing()
    for record in records:
        took = took.plus(record.took.took)
        slot = record.release_id.name in account.enrolled
        assert (record.took.schedule == record.release_id.name, record.took.pool is None) == (slot, slot)
    assert account.standing == took
    for record in records:
        assert [event.from_state for event in record.events].count(None) == 1
        fences = [event.fence for event in record.events]
        assert sorted(set(fences)) == list(range(1, max(fences) + 1))
        steps = [(event.from_state, event.to_state) for event in record.events]
        assert steps.count((ReleaseState.READING, ReleaseState.STAGED)) <= 1
    assert ledger.verify().findings == ()
    shown = defaultdict(set)
    if observed is not None and observed.exists():
        for line in observed.read_text().splitlines():
            period, _, digest = line.partition(" ")
            shown[period].add(digest)
    known = {record.release_id.period_key: record.artefact for record in records}
    for period, digests in shown.items():
        assert digests == {known[period].digest}


@pytest.mark.parametrize(
    ("writers", "rounds"), [(16, 20), pytest.param(64, 100, marks=pytest.mark.whole)], ids=["16", "64"]
)
def test_of_many_writers_at_once_exactly_as_many_succeed_as_fit(ledger, place, tmp_path, writers, rounds):
    half = writers * rounds // 4
    share(ledger, guarantee("0.01").epsilon * half, half)
    start = tmp_path / "start"
    processes = [started(write_loop, place.url, writer, rounds, start) for writer in range(writers)]
    start.touch()
    assert sum(process.told() for process in processes) == 2 * half
    standing = ledger.budget(POPULATION).standing
    assert standing.taken == {NIGHTLY: half}
    assert standing.spent == {PoolKind.SUMS: Cost(guarantee("0.01").epsilon * half, Fraction(0))}
    assert len(ledger.releases(POPULATION)) == 2 * half
    require_sound(ledger)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.whole)])
def test_killed_before_every_statement_it_is_charged_once_and_goes_on(ledger, stride):
    """One release after another, each killed some statements later, then run to its end."""
    share(ledger, 20, 70)
    for statement in range(0, 200, stride):

        def run(statement=statement):
            die_at(statement)
            live(ledger, statement)

        finished = not os.WIFSIGNALED(forked(run))
        live(ledger, statement)
        record = ledger.find(release_of(statement))
        assert record.state is ReleaseState.SEALED
        if finished:
            break
    else:
        raise AssertionError("there was always one more statement")
    assert statement > 40
    require_sound(ledger)


@pytest.mark.parametrize(
    ("processes", "kills"), [(3, 40), pytest.param(4, 2500, marks=pytest.mark.whole)], ids=["120", "10000"]
)
def test_random_kills_of_runs_that_overlap_spend_nothing_twice(ledger, place, tmp_path, processes, kills):
    """Each process kills so many runs, of releases that the others run at the same time."""
    share(ledger, 10 * kills, 10 * kills)
    observed = tmp_path / "observed"
    loops = [started(kill_loop, place.url, observed, seed, kills) for seed in range(processes)]
    days = max(loop.told() for loop in loops)
    require_sound(ledger, observed)
    for day in range(days):
        live(ledger, day, observed)
    assert {record.state for record in ledger.releases(POPULATION)} == {ReleaseState.SEALED}
    require_sound(ledger, observed)


@pytest.fixture
def server_place(postgres, empty_template):
    database = postgres.new_database(empty_template)
    yield PostgresPlace(postgres, database)
    postgres.drop(database)


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.whole)])
def test_a_connection_cut_at_any_statement_neither_loses_nor_doubles_a_charge(
    server_place, monkeypatch, stride
):
    """The server ends the backend before each statement in turn, and before each commit."""
    from dp_spark.release.ledger import postgres as module

    monkeypatch.setattr(module, "_PAUSES", (0.01, 0.01))
    ledger = Ledger.open(server_place.url, MASTER_KEY)
    fund(ledger, 1, "1e-6")
    share(ledger, 20, 70)
    left, cuts, refused = [0], 0, []

    def cut(connection: sa.Connection, *_: object) -> None:
        left[0] -= 1
        if left[0] == -1:
            backend = connection.connection.dbapi_connection.info.backend_pid
            server_place.server.run("SELECT pg_terminate_backend(%s, 5000)", backend)

    for name in ("before_cursor_execute", "commit"):
        sa.event.listen(sa.Engine, name, cut)
    try:
        for statement in range(0, 200, stride):
            left[0] = statement
            try:
                live(ledger, statement)
            except LedgerRefused as refusal:
                refused.append(refusal.code)
                live(ledger, statement)
            done = left[0] >= 0
            assert ledger.find(release_of(statement)).state is ReleaseState.SEALED
            cuts += 1
            if done:
                break
    finally:
        for name in ("before_cursor_execute", "commit"):
            sa.event.remove(sa.Engine, name, cut)
    assert cuts > 40 // stride
    assert set(refused) <= {"ledger_outcome_unknown"}
    require_sound(ledger)


def test_a_thousand_replays_serve_one_artefact_for_nothing(ledger):
    share(ledger, 1, 1)
    live(ledger, 0)
    first, head = charged(ledger, release_of(0)), ledger.head()
    for _ in range(1000):
        again = charged(ledger, release_of(0))
        assert (again.artefact, again.charged_now, again.fence) == (first.artefact, False, first.fence)
    assert ledger.head() == head
    assert ledger.budget(POPULATION).standing == Standing(taken={NIGHTLY: 1})


def test_a_clock_that_goes_back_changes_nothing(ledger, place):
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=n) for n in range(10_000))
    backwards = Ledger.open(place.url, MASTER_KEY, clock=lambda: next(moments))
    share(ledger, 1, 1)
    for day in range(3):
        live(backwards, day)
    assert {record.state for record in ledger.releases(POPULATION)} == {ReleaseState.SEALED}
    require_sound(ledger)


def test_a_file_that_may_grow_no_more_is_a_refusal_and_charges_nothing(file_ledger, path):
    """The limit on file sizes stands for a full disk; the writer is a process of its own."""
    before = file_ledger.verify()

    def run() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
        try:
            reserve(file_ledger, plan_bytes=bytes(3_000_000))
        except Refusal as refusal:
            os._exit(7 if refusal.code == "ledger_unavailable" else 8)

    assert os.waitstatus_to_exitcode(forked(run)) == 7
    assert file_ledger.verify() == before
    assert reserve(file_ledger).charged_now
    require_sound(file_ledger)


def test_a_file_that_cannot_be_written_is_a_refusal():
    """In a directory that anybody may enter, which pytest's own is not."""
    with TemporaryDirectory() as home:
        path = Path(home) / "ledger.db"
        create_ledger(SqlitePlace(path).url)
        ledger = Ledger.open(SqlitePlace(path).url, MASTER_KEY)
        fund(ledger, 1, "1e-6")

        def run() -> None:
            path.read_bytes()
            try:
                reserve(ledger)
            except Refusal as refusal:
                os._exit(7 if refusal.code == "ledger_unavailable" else 8)

        def run_as_nobody() -> None:
            os.setegid(65534)
            os.seteuid(65534)
            run()

        os.chmod(home, 0o755)
        path.chmod(0o444)
        # Root may write what it may not: ask as somebody else.
        assert os.waitstatus_to_exitcode(forked(run_as_nobody if os.geteuid() == 0 else run)) == 7
        path.chmod(0o600)
        assert ledger.budget(POPULATION).spent.epsilon == 0
