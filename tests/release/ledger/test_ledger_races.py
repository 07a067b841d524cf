"""Real processes: they come of one that imported and did nothing, share only the ledger, start together."""

import multiprocessing
import os
import signal
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import reduce

import pytest
import sqlalchemy as sa
from ledger_support import (
    MASTER_KEY,
    NIGHT,
    NIGHTLY,
    POPULATION,
    brought_to,
    fund,
    guarantee,
    reserve,
    url_of,
)

from dp_spark.errors import BudgetRefused
from dp_spark.release.ledger import (
    Enrolment,
    Ledger,
    ReleaseId,
    ReleaseState,
    Schedule,
    Standing,
    create_ledger,
)
from dp_spark.release.spec import PoolKind

RACERS = 8
PATIENCE = 120  # seconds until the last of them has imported what it needs, on a busy machine
_start = None


def _meet(barrier):
    global _start  # noqa: PLW0603
    _start = barrier


def _reserve(url, period, epsilon):
    ledger = Ledger.open(url, MASTER_KEY)
    _start.wait(timeout=PATIENCE)
    try:
        claim = reserve(ledger, period, charge=guarantee(epsilon))
    except BudgetRefused:
        return None
    return claim.fence, claim.charged_now, ledger.release_key(claim) if claim.charged_now else None


def _night(url, period, pool):
    ledger = Ledger.open(url, MASTER_KEY)
    _start.wait(timeout=PATIENCE)
    try:
        return reserve(
            ledger, release_id=ReleaseId(POPULATION, NIGHTLY, period), noise=NIGHT, pool=pool
        ).charged_now
    except BudgetRefused as refusal:
        return refusal.code


def _stage(url, claim, path):
    ledger = Ledger.open(url, MASTER_KEY)
    _start.wait(timeout=PATIENCE)
    outcome = ledger.stage(claim, f"digest of {path}", path)
    return outcome.won, outcome.artefact.path, outcome.discard


def _create(url, _):
    _start.wait(timeout=PATIENCE)
    create_ledger(url)
    return Ledger.open(url, MASTER_KEY).releases(POPULATION)


def _die_at_commit(url, period):
    def die(_):
        os.kill(os.getpid(), signal.SIGKILL)

    ledger = Ledger.open(url, MASTER_KEY)
    sa.event.listen(sa.Engine, "commit", die)
    reserve(ledger, period)


@pytest.fixture(scope="module")
def race():
    """Runs one function in eight processes at once, on argument tuples."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dp_spark.release.ledger", "alembic.command", "pytest", "psycopg"])
    barrier = context.Barrier(RACERS)
    with ProcessPoolExecutor(RACERS, context, initializer=_meet, initargs=(barrier,)) as pool:
        yield lambda function, arguments: [
            job.result(timeout=PATIENCE) for job in [pool.submit(function, *each) for each in arguments]
        ]


@pytest.mark.parametrize(("epsilon", "fit"), [("0.6", 1), ("0.3", 3), ("0.125", 8)])
def test_of_eight_releases_at_once_exactly_those_that_fit_are_charged(ledger, place, race, epsilon, fit):
    answers = race(_reserve, [(place.url, f"day-{racer}", epsilon) for racer in range(RACERS)])
    assert sum(answer is not None for answer in answers) == fit
    assert ledger.budget(POPULATION).spent.epsilon == fit * guarantee(epsilon).epsilon
    assert len(ledger.releases(POPULATION)) == fit


@pytest.mark.parametrize(
    ("pool", "code"), [(None, "schedule_full"), (PoolKind.ZCDP, "pool_exhausted")], ids=["slots", "zcdp"]
)
def test_of_eight_nights_at_once_as_many_are_admitted_as_slots_or_rho_are_left(
    ledger, place, race, pool, code
):
    fund(ledger, 2, "1e-6")
    pools = {PoolKind.ZCDP: guarantee("0.28", "1e-7")}  # of rho for five nights and some
    ledger.set_pools(POPULATION, pools, reason="a test")
    ledger.enrol(POPULATION, Enrolment(Schedule(NIGHTLY, NIGHT, 5), "s", b"p"), reason="a test")
    answers = race(_night, [(place.url, f"day-{racer}", pool) for racer in range(RACERS)])
    assert Counter(answers) == {True: 5, code: 3}
    account = ledger.budget(POPULATION)
    took = [record.took.took for record in ledger.releases(POPULATION)]
    assert account.standing == reduce(Standing.plus, took)
    assert account.more_of(ledger.releases(POPULATION)[0].took) == 0


def test_eight_attempts_at_one_release_take_one_charge_and_eight_fences(ledger, place, race):
    answers = race(_reserve, [(place.url, "day-0", "0.3")] * RACERS)
    assert sorted(fence for fence, _, _ in answers) == list(range(1, RACERS + 1))
    assert sum(charged for _, charged, _ in answers) == 1
    assert ledger.budget(POPULATION).spent.epsilon == guarantee("0.3").epsilon


def test_of_eight_attempts_that_stage_at_once_one_wins_and_all_learn_its_artefact(ledger, place, race):
    claims = [brought_to(ledger, ReleaseState.READING)] + [reserve(ledger) for _ in range(RACERS - 1)]
    answers = race(_stage, [(place.url, claim, f"staging/{claim.fence}") for claim in claims])
    winner = ledger.find(claims[0].release_id).artefact.path
    assert sum(won for won, _, _ in answers) == 1
    assert {artefact for _, artefact, _ in answers} == {winner}
    assert sorted(d for _, _, d in answers if d) == sorted(
        {f"staging/{claim.fence}" for claim in claims} - {winner}
    )


def test_eight_processes_may_create_one_file(path, race):
    assert race(_create, [(url_of(path), racer) for racer in range(RACERS)]) == [[]] * RACERS
    assert list(path.parent.glob(".*")) == []


def test_eight_processes_may_create_one_ledger_in_a_database(postgres, race):
    url = postgres.url(postgres.new_database())
    assert race(_create, [(url, racer) for racer in range(RACERS)]) == [[]] * RACERS


@pytest.mark.parametrize("known", [False, True])
def test_a_process_killed_before_its_commit_neither_loses_nor_doubles_a_charge(ledger, place, known):
    if known:
        reserve(ledger)
    context = multiprocessing.get_context("forkserver")
    victim = context.Process(target=_die_at_commit, args=(place.url, "2013-01-01"))
    victim.start()
    victim.join(timeout=PATIENCE)
    assert victim.exitcode == -signal.SIGKILL
    survivor = Ledger.open(place.url, MASTER_KEY)
    spent = survivor.budget(POPULATION).spent.epsilon
    assert spent == (guarantee("0.1").epsilon if known else 0)
    claim = reserve(survivor)
    assert claim.charged_now is not known
    assert len(survivor.find(ReleaseId(POPULATION, "flights", "2013-01-01")).events) == claim.fence
    assert survivor.budget(POPULATION).spent.epsilon == guarantee("0.1").epsilon
