"""The ledger under all that people and runs may do, in any order, beside a model that only adds up.

After every step the ledger has to say what the model says, and nothing that was promised exceeds what the
account may lose. The short form runs by default; the long one by `make test-whole`.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from ledger_support import MASTER_KEY, POPULATION, TAILNUM, guarantee, meanwhile, older_ledger, reserve
from schedule_support import noise, table

from dp_spark.errors import Refusal
from dp_spark.guarantee import Every, Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.noise import Gaussian
from dp_spark.release.ledger import Decision, Enrolment, Ledger, ReleaseId, Schedule, cost, create_ledger
from dp_spark.release.ledger.adhoc import NOTHING, Cost, open_pool
from dp_spark.release.ledger.schedule import release_zcdp
from dp_spark.release.ledger.terms import standing_of
from dp_spark.release.spec import PeriodSpec, PoolKind

DAYS = "days"
UNITS = {POPULATION: TAILNUM, DAYS: PrivacyUnit(("tailnum",), Every.DAY)}
ONE = guarantee(1, "1e-6")
WHY = "decided by the board"
NIGHT = noise(table(Gaussian(), 15, 125))
NOISES = {
    "night": NIGHT,
    "louder": noise(table(Gaussian(), 20, 170)),
    "quieter": noise(table(Gaussian(), 10, 85)),
    "cut": noise(table(Gaussian(), 20, 100)),  # whose tails have about 5e-7
}
TAKE_A_SLOT = {"night", "louder"}
SUMS, ZCDP = PoolKind
KEYS = [f"2013-01-0{day}" for day in (7, 8, 9)]  # from a Monday on
OLD = [
    (POPULATION, "old-1", "0.4", "reserved"),
    (POPULATION, "old-2", "0.3", "aborted"),
    (DAYS, "2013-01-07", "0.2", "reserved"),
    (DAYS, "2013-01-08", "0.1", "sealed"),
]
OLD_AT = datetime(2026, 1, 30, 12, tzinfo=UTC)
AFTER = {"reserved": "reading", "reading": "staged", "staged": "held"}
ENDED = {"aborted", "abandoned", "burned"}
DECIDED = {Decision.ABORT: {"reserved"}, Decision.ABANDON: {"held", "reading"}, Decision.PUBLISH: {"held"}}

populations = st.sampled_from(sorted(UNITS))
limits = st.sampled_from([ONE, guarantee(2, "1e-6")])
names = st.sampled_from(["flights", "nightly", "weekly"])
payers = st.sampled_from([None, SUMS, ZCDP])
divisions = st.sampled_from(
    [
        {},
        {SUMS: guarantee("1/2", "1e-7")},
        {ZCDP: guarantee("1/2", "8e-7")},
        {SUMS: guarantee("1/4", "1e-7"), ZCDP: guarantee("1/4", "8e-7")},
    ]
)
enrolments = st.tuples(
    st.sampled_from(["nightly", "weekly"]),
    st.integers(1, 2),
    st.sampled_from([None, guarantee("1/2", "1e-8")]),
    payers,
)
charges = st.tuples(
    names,
    st.sampled_from(KEYS),
    st.integers(0, 1),
    st.sampled_from(["0.1", "0.3", "1/3"]),
    st.sampled_from(["night", *NOISES]),
    payers,
    st.sampled_from([Every.DAY, Every.DAY, Every.WEEK, None]),
)


@dataclass
class Release:
    """What the model keeps of a release; no labels where it counts under every one."""

    promised: PrivacyGuarantee
    at: datetime
    labels: frozenset[str] = frozenset()
    schedule: str | None = None
    pool: PoolKind | None = None
    cost: Cost = NOTHING
    state: str = "reserved"


@dataclass
class Account:
    """What the model keeps of an account."""

    per_day: bool
    limit: PrivacyGuarantee = ONE
    highest: PrivacyGuarantee = ONE
    pools: dict[PoolKind, PrivacyGuarantee] | None = None
    slots: dict[str, int] = field(default_factory=dict)
    late: dict[str, tuple[PoolKind, Cost]] = field(default_factory=dict)
    windows: dict[Every, PrivacyGuarantee] = field(default_factory=dict)
    releases: dict[ReleaseId, Release] = field(default_factory=dict)

    @property
    def burned(self):
        return any(each.state == "burned" for each in self.releases.values())

    def opened(self):
        """The pools with what their sums may reach."""
        pools = {SUMS: self.limit} if self.pools is None else self.pools
        return {kind: open_pool(kind, pair) for kind, pair in pools.items()}

    def payer(self, pool):
        """The pool that pays; None where that is not clear."""
        kinds = list(self.opened())
        if pool is None:
            return kinds[0] if len(kinds) == 1 else None
        return pool if pool in kinds else None

    def used(self, label):
        """Slots and sums under a label."""
        taken, spent = Counter(), dict.fromkeys(PoolKind, NOTHING)
        for kind, paid in self.late.values():
            spent[kind] += paid
        for each in self.releases.values():
            if each.state == "aborted" or (each.labels and label not in each.labels):
                continue
            if each.schedule is not None:
                taken[each.schedule] += 1
            else:
                spent[each.pool] += each.cost
        return taken, spent

    def slots_of(self, name):
        """How many slots of a schedule one unit meets."""
        return 1 if self.per_day else self.slots[name]

    def is_sound(self, **changes):
        """Whether schedules and pools together stay within the limit, by exact composition."""
        after = replace(self, **changes)
        schedules = [Schedule(n, NIGHT, after.slots_of(n)) for n in after.slots if n not in after.late]
        pools = tuple(after.opened().values())
        return cost.total_delta(schedules, pools, after.limit.epsilon) <= after.limit.delta

    def in_window(self, every, now):
        """What was promised in the window that is open; a clock that goes back opens none again."""
        newest = max([now, *(each.at for each in self.releases.values())])
        total, clock = NOTHING, datetime.min.replace(tzinfo=UTC)
        for each in self.releases.values():  # in the order of their charges
            clock = max(clock, each.at)
            if each.state != "aborted" and first_day(every, clock) == first_day(every, newest):
                total += Cost(each.promised.epsilon, each.promised.delta)
        return total


def first_day(every, moment):
    day = moment.date()
    week = date.fromisocalendar(*day.isocalendar()[:2], 1)
    return {Every.DAY: day, Every.WEEK: week, Every.MONTH: day.replace(day=1)}[every]


@dataclass
class Asked:
    """What the ledger is asked, why it may refuse, and what the model does where it agrees."""

    ask: Callable[[Ledger], object]
    faults: set[str]
    agreed: Callable[[], object]


def refused(asked, ledger):
    """The code with which a ledger refuses what it is asked; None where it agrees."""
    try:
        asked.ask(ledger)
    except Refusal as refusal:
        return refusal.code
    return None


class LedgerMachine(RuleBasedStateMachine):
    """An account of people and one of person-days; opened anew, or older than the receipts."""

    def __init__(self, new_place):
        super().__init__()
        self.new_place = new_place

    @initialize(old=st.booleans())
    def opened(self, old):
        self.now, self.compared = OLD_AT + timedelta(hours=1), None
        self.ledger = Ledger.open(self.new_place(old), MASTER_KEY, clock=lambda: self.now)
        self.accounts = {population: Account(population == DAYS) for population in UNITS}
        for population, key, epsilon, state in OLD if old else []:
            charge = guarantee(epsilon)
            paid = Cost(charge.epsilon, charge.delta)
            told = Release(charge, OLD_AT, pool=SUMS, cost=paid, state=state)
            self.accounts[population].releases[ReleaseId(population, "old", key)] = told
        for population in UNITS:  # the first link of a ledger that was brought up vouches for what is there
            self.told(self.limited(population, ONE))

    def told(self, asked):
        """The ledger agrees to that in which the model finds no fault, and to nothing else."""
        code = refused(asked, self.ledger)
        assert (code in asked.faults) if code else not asked.faults, (code, asked.faults)
        if code is None:
            asked.agreed()

    def limited(self, population, limit):
        account, unit = self.accounts[population], UNITS[population]

        def agreed():
            account.limit, account.highest = limit, max(account.highest, limit, key=lambda one: one.epsilon)

        divided = account.pools is not None
        asked = {"unit": unit, "neighbours": Neighbours.ADD_REMOVE, "reason": WHY}
        return Asked(
            lambda ledger: ledger.set_budget(population, limit, **asked),
            {"schedule_over_limit"} if divided and not account.is_sound(limit=limit) else set(),
            agreed,
        )

    def divided(self, population, pools):
        account = self.accounts[population]
        faults = {"terms_fixed"} if account.releases else set()
        if not account.is_sound(pools=pools):
            faults.add("schedule_over_limit")
        ask = lambda ledger: ledger.set_pools(population, pools, reason=WHY)  # noqa: E731
        return Asked(ask, faults, lambda: setattr(account, "pools", pools))

    def enrolled(self, population, enrolment):
        account, (name, slots, together, pool) = self.accounts[population], enrolment
        schedule, paid = Schedule(name, NIGHT, slots), None
        faults = {"schedule_known"} if name in account.slots else set()
        if not account.releases:
            if not account.is_sound(slots=account.slots | {name: slots}):
                faults.add("schedule_over_limit")
        elif account.per_day or together is None:
            faults.add("schedule_late")
        elif (kind := account.payer(pool)) is None:
            faults.add("no_pool")
        else:
            if cost.scheduled_delta([schedule], together.epsilon) > together.delta:
                faults.add("schedule_over_pair")
            found = release_zcdp(NIGHT, slots)
            each = Cost(*astuple(together)) if kind is SUMS else Cost(found.rho, found.delta)
            paid = kind, each
            if not (account.used("")[1][kind] + each).fits(account.opened()[kind].limit):
                faults.add("pool_exhausted")

        def agreed():
            account.slots[name] = slots
            if paid is not None:
                account.late[name] = paid

        asked = Enrolment(schedule, "spec-1", b"plan-1", together=together, pool=pool)
        return Asked(lambda ledger: ledger.enrol(population, asked, reason=WHY), faults, agreed)

    def charged(self, population, charge):
        account, (name, key, revision, epsilon, draws, pool, every) = self.accounts[population], charge
        release, promised = ReleaseId(population, name, key, revision), guarantee(epsilon, "1e-8")
        asked = {"charge": promised, "unit": UNITS[population], "noise": NOISES[draws], "pool": pool}
        period = every and PeriodSpec(column="date", every=every)
        ask = lambda ledger: reserve(ledger, release_id=release, period=period, **asked)  # noqa: E731
        if release in account.releases:
            state = account.releases[release].state
            faults = {"release_ended"} if state in ENDED else set()
            if account.burned and state != "sealed":
                faults.add("population_burned")
            return Asked(ask, faults, lambda: None)
        faults, new = {"population_burned"} if account.burned else set(), Release(promised, self.now)
        if account.per_day:
            day_one = date.fromisoformat(key)
            if every is None:
                faults.add("other_partition")
            if every is Every.WEEK and day_one.weekday():
                faults.add("key_not_first_day")
            days = 7 if every is Every.WEEK else 1
            new.labels = frozenset(str(day_one + timedelta(days=day)) for day in range(days))
        under = new.labels or {""}
        before = [each for each in account.releases if (each.name, each.period_key) == (name, key)]
        first = all(account.releases[each].state == "aborted" for each in before if each.revision < revision)
        if name in account.slots and first and pool is None:
            new.schedule = name
            if any(account.used(label)[0][name] >= account.slots_of(name) for label in under):
                faults.add("schedule_full")
            if draws not in TAKE_A_SLOT:
                faults.add("slot_too_small")
        elif (kind := account.payer(pool)) is None:
            faults.add("no_pool")
        else:
            found = release_zcdp(NOISES[draws])
            new.pool = kind
            new.cost = Cost(*astuple(promised)) if kind is SUMS else Cost(found.rho, found.delta)
            limit = account.opened()[kind].limit
            if not all((account.used(label)[1][kind] + new.cost).fits(limit) for label in under):
                faults.add("budget_exhausted" if account.pools is None else "pool_exhausted")
        for each, pair in account.windows.items():
            if not (account.in_window(each, self.now) + Cost(*astuple(promised))).fits(Cost(*astuple(pair))):
                faults.add("window_exhausted")
        return Asked(ask, faults, lambda: account.releases.update({release: new}))

    @rule(population=populations, limit=limits)
    def a_limit_is_moved(self, population, limit):
        self.told(self.limited(population, limit))

    @rule(population=populations, pools=divisions)
    def an_account_is_divided(self, population, pools):
        self.told(self.divided(population, pools))

    @rule(population=populations, enrolment=enrolments)
    def a_schedule_is_enrolled(self, population, enrolment):
        self.told(self.enrolled(population, enrolment))

    @rule(population=populations, charge=charges)
    def a_release_is_reserved(self, population, charge):
        self.told(self.charged(population, charge))

    @rule(population=populations, charge=charges)
    def another_is_reserved(self, population, charge):
        self.told(self.charged(population, charge))

    @rule(population=populations, every=st.sampled_from(Every), epsilon=st.sampled_from(["0.4", "3"]))
    def a_window_is_set(self, population, every, epsilon):
        limit = guarantee(epsilon, "1e-6")
        self.ledger.set_window(population, every, limit, reason=WHY)
        self.accounts[population].windows[every] = limit

    @rule(hours=st.sampled_from([-24 * 40, -5, 5, 30, 24 * 8, 24 * 40]))
    def the_clock_moves(self, hours):
        self.now += timedelta(hours=hours)

    @rule(
        population=populations,
        first=limits | divisions | enrolments,
        second=limits | divisions | enrolments | charges,
    )
    def somebody_decides_between_a_proof_and_its_transaction(self, population, first, second):
        """Nothing is said of what becomes of the first, but that the account stays sound."""
        slow, quick = (self.asked(population, each) for each in (first, second))
        code = refused(slow, meanwhile(self.ledger, lambda: self.told(quick)))
        assert code in {*slow.faults, "account_changed", "terms_fixed", None}
        if code is None:
            slow.agreed()

    def asked(self, population, what):
        if isinstance(what, PrivacyGuarantee):
            return self.limited(population, what)
        if isinstance(what, dict):
            return self.divided(population, what)
        return (self.enrolled if len(what) == 4 else self.charged)(population, what)

    def any_release(self, number):
        found = [pair for account in self.accounts.values() for pair in account.releases.items()]
        return found[number % len(found)] if found else (None, None)

    @rule(number=st.integers(0, 60), decision=st.sampled_from([*Decision, Decision.ABORT, Decision.ABORT]))
    def somebody_decides_on_a_release(self, number, decision):
        release, known = self.any_release(number)
        if release is None or (decision is Decision.BURN and number > 5):
            return  # a burned population is at its end
        allowed = DECIDED.get(decision, set(AFTER) | {"held", "sealed", "abandoned"})
        state = known.state if decision is Decision.PUBLISH else decision.value
        self.told(
            Asked(
                lambda ledger: ledger.decide(release, decision, WHY),
                set() if known.state in allowed else {"illegal_step"},
                lambda: setattr(known, "state", state),
            )
        )

    @rule(number=st.integers(0, 60))
    def a_release_goes_on(self, number):
        release, known = self.any_release(number)
        if release is None or known.state not in AFTER or self.accounts[release.population].burned:
            return
        claim = self.ledger.resume(release)
        if known.state == "reserved":
            self.ledger.start_reading(claim)
        elif known.state == "reading":
            self.ledger.stage(claim, "digest", "staging")
        else:
            self.ledger.hold(claim, ["history"])
        known.state = AFTER[known.state]

    @invariant()
    def the_ledger_says_what_the_model_says(self):
        if self.ledger.head() == self.compared:
            return  # nothing was written
        verdict = self.ledger.verify()
        assert verdict.findings == ()
        self.compared = verdict.head
        for population, account in self.accounts.items():
            seen = self.ledger.budget(population)
            assert (seen.limit, seen.windows) == (account.limit, account.windows)
            pools = seen.pools and {kind: pool.guarantee for kind, pool in seen.pools.items()}
            assert pools == account.pools
            assert {name: each.schedule.slots for name, each in seen.enrolled.items()} == account.slots
            assert {name for name, each in seen.enrolled.items() if each.receipt} == set(account.late)
            records = self.ledger.releases(population)
            assert {record.release_id for record in records} == set(account.releases)
            for record in records:
                known, took = account.releases[record.release_id], record.took
                assert (record.state, record.charge) == (known.state, known.promised)
                assert (took.schedule, took.pool, took.cost) == (known.schedule, known.pool, known.cost)
                assert set(took.labels) == (known.labels or {""})
            self.require_sound(population, account)

    def require_sound(self, population, account):
        """Each sum is what the releases took, and no more is promised than the account may lose."""
        assert account.pools is None or account.is_sound()
        limits = {kind: pool.limit for kind, pool in account.opened().items()}
        if account.pools is None:  # then the pool moves with the limit
            limits[SUMS] = Cost(*astuple(account.highest))
        for label, stands in self.standings(population, account).items():
            taken, spent = account.used(label)
            assert +Counter(stands.taken) == taken
            assert dict.fromkeys(PoolKind, NOTHING) | stands.spent == spent
            assert all(number <= account.slots_of(name) for name, number in taken.items())
            assert all(sums.fits(limits.get(kind, NOTHING)) for kind, sums in spent.items())

    def standings(self, population, account):
        labels = {""}.union(*(each.labels for each in account.releases.values()))
        return self.ledger._database.read(
            lambda connection: {label: standing_of(connection, population, label) for label in labels}
        )


@pytest.fixture
def priced_once(monkeypatch):
    """What slots cost together is dear, and asked in each example: it is computed once for all."""
    for name in ("scheduled_delta", "scheduled_epsilon"):
        monkeypatch.setattr(cost, name, once(getattr(cost, name)))


def once(price):
    known = PRICES.setdefault(price.__name__, {})

    def priced(schedules, at):
        key = sum(each.slots for each in schedules), at  # all slots are nights
        if key not in known:
            known[key] = price(schedules, at)
        return known[key]

    return priced


PRICES = {}


@dataclass(frozen=True)
class Places:
    """Gives new ledgers; those in a file cost a quarter of those on a server."""

    new: Callable[[bool], str]
    at_hand: bool


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request, tmp_path):
    """Gives the URL of a new ledger, or of one that was brought up with releases in it."""
    number = count()
    if request.param == "sqlite":
        templates = {old: tmp_path / f"template-{old}.db" for old in (False, True)}
        older_ledger(f"sqlite:///{templates[True]}", OLD)
        for path in templates.values():
            create_ledger(f"sqlite:///{path}")

        def copied(old):
            path = shutil.copy(templates[old], tmp_path / f"{next(number)}.db")
            return f"sqlite:///{path}"

        yield Places(copied, at_hand=True)
        return
    postgres, made = request.getfixturevalue("postgres"), []
    older = postgres.new_database()
    create_ledger(older_ledger(postgres.url(older), OLD))
    template = {False: request.getfixturevalue("empty_template"), True: older}

    def made_of(old):
        made.append(postgres.new_database(template[old]))
        return postgres.url(made[-1])

    yield Places(made_of, at_hand=False)
    for database in [*made, older]:
        postgres.drop(database)


@pytest.mark.parametrize(
    ("examples", "steps"), [(8, 25), pytest.param(200, 50, marks=pytest.mark.whole)], ids=["8", "200"]
)
@pytest.mark.usefixtures("priced_once")
def test_whatever_is_asked_in_whatever_order_the_ledger_does_what_the_model_does(new_place, examples, steps):
    run_state_machine_as_test(
        lambda: LedgerMachine(new_place.new),
        settings=settings(
            max_examples=examples if new_place.at_hand else examples // 4,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # to make a failing example shorter takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
