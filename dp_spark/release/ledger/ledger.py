"""The ledger as the rest of the package sees it: each method is one transaction."""

import hashlib
import os
import pwd
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from dp_spark.guarantee import Every, Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import (
    accounts,
    batches,
    chain,
    dividing,
    life,
    opening,
    revisions,
    store,
    surveys,
    wave_decisions,
    wave_life,
)
from dp_spark.release.ledger.accounts import Budget, BudgetChange
from dp_spark.release.ledger.chain import Head, Verdict
from dp_spark.release.ledger.claims import Claim, StagedOutcome
from dp_spark.release.ledger.database import Database, database_of
from dp_spark.release.ledger.decisions import Decision, decide
from dp_spark.release.ledger.dividing import Enrolment
from dp_spark.release.ledger.entries import Entry
from dp_spark.release.ledger.forgotten import charge_forgotten
from dp_spark.release.ledger.history import history
from dp_spark.release.ledger.keys import report_key, require_master_key
from dp_spark.release.ledger.records import ReleaseRecord, StoredFile, is_release, records, tables_of
from dp_spark.release.ledger.reserve import (
    Known,
    Reservation,
    admitted,
    require_own_master_key,
    reserve,
    resume,
)
from dp_spark.release.ledger.sources import add_source, known_answers, known_sources, source_name
from dp_spark.release.ledger.states import ReleaseId, ReleaseState
from dp_spark.release.ledger.steps import Stamp, step
from dp_spark.release.ledger.terms import has_releases
from dp_spark.release.ledger.wave_records import is_wave, wave_records, wave_row
from dp_spark.release.ledger.waves import (
    Batch,
    BatchClaim,
    SurveyAccount,
    WaveAsked,
    WaveId,
    WaveRecord,
)
from dp_spark.release.spec import PoolKind

Clock = Callable[[], datetime]
T = TypeVar("T")


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def create_ledger(url: str, *, password: str | None = None, clock: Clock = utc_now) -> None:
    """Make an empty ledger at `url`, or bring an older one to this version; nothing else is changed.

    Raises:
        SetupRefused: the URL names no database that can hold a ledger, or what is there is no ledger.
    """
    database_of(url, password).create(_iso(clock()))


class Ledger:
    """An open ledger. It holds no connection between calls, so it may be shared by threads and survive forks.

    Every step of a claim refuses with the code `superseded` once a later attempt has reserved the same
    release; only `stage` does not, because there the first to come wins.
    """

    __slots__ = ("_clock", "_database", "_master_key", "_root")

    def __init__(self, database: Database, master_key: bytes, clock: Clock, root: Path | None = None) -> None:
        self._database = database
        self._master_key = require_master_key(master_key)
        self._clock = clock
        self._root = root

    @classmethod
    def open(
        cls,
        url: str,
        master_key: bytes,
        *,
        password: str | None = None,
        clock: Clock = utc_now,
        root: Path | None = None,
    ) -> "Ledger":
        """The existing ledger at `url`; relative inputs of waves in it start from `root`.

        Raises:
            SetupRefused: it is missing, damaged, of another schema version, or used with another master key.
        """
        ledger = cls(database_of(url, password), master_key, clock, root)
        ledger._database.require()
        ledger._database.read(lambda connection: require_own_master_key(connection, master_key))
        return ledger

    @property
    def one_machine(self) -> bool:
        """Whether only processes of this machine can use this ledger."""
        return self._database.one_machine

    @property
    def identity(self) -> str:
        """What tells this ledger from others, also in a backup: a hash of when it was made."""

        def found(connection: sa.Connection) -> str:
            made = connection.scalar(sa.select(store.ledger_meta.c.created_at))
            return hashlib.sha256(f"ledger made at {made}".encode()).hexdigest()

        return self._database.read(found)

    def set_budget(
        self,
        population: str,
        limit: PrivacyGuarantee,
        *,
        unit: PrivacyUnit,
        neighbours: Neighbours,
        reason: str,
    ) -> None:
        """Open the account of a population or move its lifetime limit; kept with reason, user and time.

        Raises:
            BudgetRefused: what was set aside exceeds the limit, or the reason is blank.
            LedgerRefused: the account counts another unit or other neighbours, or somebody set something
                aside meanwhile.
            SpecRefused: the population is no name.
        """
        change = BudgetChange(population, limit, unit, neighbours, reason)
        before = self.budget(population) if population in self.populations() else None
        if before is not None:
            dividing.limited(before, limit)
        self._write(lambda connection: dividing.store_limit(connection, before, change, self._stamp()))

    def set_pools(self, population: str, pools: Mapping[PoolKind, PrivacyGuarantee], *, reason: str) -> None:
        """Divide an account before its first release: what each pool of ad hoc releases keeps, if any.

        Raises:
            BudgetRefused: with the schedules they exceed the limit, or the reason is blank.
            LedgerRefused: the account has releases.
            PlanRefused: a pair is out of the range in which zCDP can be converted.
        """
        before = self.budget(population)
        # Said before anything dear is proved; the transaction asks again.
        self._database.read(lambda connection: dividing.require_no_release(connection, population))
        after = dividing.divided(before, pools)
        self._write(lambda connection: dividing.store_pools(connection, before, after, reason, self._stamp()))

    def enrol(self, population: str, asked: Enrolment, *, reason: str) -> None:
        """Add a schedule to an account; after its first release, at the cost of a pool.

        Raises:
            BudgetRefused: it does not fit, or the reason is blank.
            LedgerRefused: there is one of this name, or it may not come late.
        """
        before = self.budget(population)
        late = self._database.read(lambda connection: has_releases(connection, population))
        new = dividing.enrolled(before, asked, late=late)
        self._write(
            lambda connection: dividing.store_schedule(connection, before, new, reason, self._stamp())
        )

    def set_window(self, population: str, every: Every, limit: PrivacyGuarantee, *, reason: str) -> None:
        """Limit what all releases that are charged in one day, week or month (UTC) promise together.

        Raises:
            BudgetRefused: the population is unknown, or the reason is blank.
        """
        self._write(
            lambda connection: dividing.store_window(
                connection, population, every, limit, reason, self._stamp()
            )
        )

    def require_admitted(self, asked: Reservation) -> None:
        """Check that a new release would be admitted now; `reserve` decides.

        Raises:
            BudgetRefused, LedgerRefused: as `reserve`.
        """
        self._database.read(lambda connection: admitted(connection, asked, self._stamp().at))

    def add_source(self, path: str, population: str) -> str:
        """Register an input under a population; the name that it has in the ledger.

        Raises:
            BudgetRefused: the population is unknown.
            LedgerRefused: the source belongs to another population.
        """
        source = source_name(path)
        self._write(lambda connection: add_source(connection, source, population, self._stamp()))
        return source

    def sources(self) -> frozenset[str]:
        """What is known to hold private rows or answers, of any population.

        It was registered, released from, or is the input of a wave: no public list is read from it.
        """

        def found(connection: sa.Connection) -> frozenset[str]:
            rows = {source for source, _ in known_sources(connection)}
            return frozenset(rows | {source for source, *_ in known_answers(connection, self._root)})

        return self._database.read(found)

    def answer_sources(self) -> list[tuple[str, str, str]]:
        """The inputs of all waves, each with its population and survey."""
        return self._database.read(lambda connection: known_answers(connection, self._root))

    def populations(self) -> list[str]:
        """The names of all accounts."""
        column = store.accounts.c.population
        return self._database.read(
            lambda connection: list(connection.scalars(sa.select(column).order_by(column)))
        )

    def history(self, population: str) -> list[Entry]:
        """All that happened to a population's budget.

        Raises:
            BudgetRefused: the ledger does not know it.
        """
        return self._database.read(lambda connection: history(connection, population))

    def budget(self, population: str) -> Budget:
        """Limit, charges and remainder of a population.

        Raises:
            BudgetRefused: the ledger does not know it.
        """
        return self._database.read(lambda connection: accounts.budget(connection, population))

    def reserve(self, asked: Reservation) -> Claim:
        """Charge a new release, or resume a known one for nothing with its stored plan and a new fence.

        Raises:
            BudgetRefused: the population is unknown or stopped, or does not admit the charge.
            LedgerRefused: the release is known with another spec, or was ended by a decision, or the account
                counts another unit.
        """
        return self._write(lambda connection: reserve(connection, asked, self._master_key, self._stamp()))

    def charge_forgotten(self, asked: Reservation, reason: str) -> None:
        """Charge a release that was made after the backup that this ledger is, and end it.

        Raises:
            BudgetRefused: as `reserve`.
            LedgerRefused: the ledger knows the release, or as `reserve`, or the reason is blank.
        """
        self._write(
            lambda connection: charge_forgotten(connection, asked, reason, self._master_key, self._stamp())
        )

    def resume(self, release_id: ReleaseId, known: Known | None = None) -> Claim:
        """A new attempt at a known release, for nothing; without `known` whatever its spec has become.

        Raises:
            LedgerRefused: it is unknown, is not what `known` says, or was ended by a decision.
            BudgetRefused: its population has stopped.
        """
        return self._write(lambda connection: resume(connection, release_id, self._stamp(), known))

    def decide(self, release_id: ReleaseId, decision: Decision, reason: str) -> None:
        """Record what somebody decided about a release, with the reason, and take the step it means.

        Raises:
            LedgerRefused: the release is unknown, its state does not allow that, or the reason is blank.
        """
        self._write(lambda connection: decide(connection, release_id, decision, reason, self._stamp()))
        self._database.erase_log()

    def current_revision(self, first: ReleaseId) -> ReleaseId:
        """The revision that stands: the newest that was neither aborted nor abandoned."""
        return self._database.read(lambda connection: revisions.current_revision(connection, first))

    def revision_for(self, first: ReleaseId, reason: str) -> ReleaseId:
        """The revision that was begun for this reason, or the next one.

        Raises:
            LedgerRefused: there is nothing to revise, or the newest revision is not ended.
        """
        return self._database.read(lambda connection: revisions.revision_for(connection, first, reason))

    def head(self) -> Head | None:
        """The newest link of the chain: kept elsewhere, it betrays a ledger that was put back."""
        return self._database.read(chain.head)

    def verify(self, kept: Head | None = None) -> Verdict:
        """Compare every row with the chain."""
        return self._database.read(lambda connection: chain.verify(connection, self._master_key, kept))

    def release_key(self, claim: Claim) -> bytes:
        """The 32 bytes from which all noise of the release comes; refused from STAGED on."""
        return self._database.read(lambda connection: life.release_key(connection, claim, self._master_key))

    def start_reading(self, claim: Claim) -> None:
        """To be called before the first raw byte; again after a crash."""
        self._write(lambda connection: step(connection, claim, ReleaseState.READING, self._stamp()))

    def stage(self, claim: Claim, artefact_digest: str, artefact_path: str) -> StagedOutcome:
        """Offer an artefact; the first one offered is the release's, and the release key is destroyed."""
        mine = StoredFile(artefact_path, artefact_digest)
        artefact, won = self._write(lambda connection: life.stage(connection, claim, mine, self._stamp()))
        return StagedOutcome(
            artefact=artefact,
            won=won,
            discard=None if artefact.path == mine.path else mine.path,
            log_erased=self._database.erase_log(),
        )

    def hold(self, claim: Claim, failed: Sequence[str]) -> None:
        """Note that the checks named in `failed` keep the artefact from being published."""
        self._write(lambda connection: life.hold(connection, claim, failed, self._stamp()))

    def record_publication(self, claim: Claim, sink: str, target: str, artefact_digest: str) -> None:
        """Note that `sink` has the artefact at `target`; a second time changes nothing."""
        copy = StoredFile(target, artefact_digest)
        self._write(lambda connection: life.record_publication(connection, claim, sink, copy, self._stamp()))

    def publish(self, claim: Claim, sinks: Collection[str]) -> None:
        """Declare the release published; refused while one of its `sinks` is not recorded."""
        self._write(lambda connection: life.publish(connection, claim, sinks, self._stamp()))

    def seal(self, claim: Claim, *, statement_path: str, statement_digest: str) -> None:
        """Close the release with its statement; nothing follows."""
        self._write(
            lambda connection: life.seal(
                connection, claim, StoredFile(statement_path, statement_digest), self._stamp()
            )
        )

    def find(self, release_id: ReleaseId) -> ReleaseRecord | None:
        """What is known of a release."""
        return self._database.read(
            lambda connection: next(iter(records(connection, is_release(release_id))), None)
        )

    def tables(self, release_id: ReleaseId) -> Mapping[str, bytes]:
        """The noise tables that a release was reserved with; none for a release that is unknown."""
        return self._database.read(lambda connection: tables_of(connection, release_id))

    def releases(self, population: str) -> list[ReleaseRecord]:
        """All releases of a population in the order of their charges."""
        return self._database.read(
            lambda connection: records(connection, store.releases.c.population == population)
        )

    def set_survey_limit(
        self, population: str, survey: str, limit: Fraction, *, unit: PrivacyUnit, reason: str
    ) -> None:
        """Open the account of a survey or move its limit: the sum of epsilons that all its waves may have.

        Raises:
            BudgetRefused: the limit is not positive or under what was spent, or the reason is blank.
            LedgerRefused: the account has another unit, or the unit names no person.
            SpecRefused: population or survey is no name.
        """
        asked = surveys.SurveyLimit(population, survey, limit, unit, reason)
        self._write(lambda connection: surveys.set_survey_limit(connection, asked, self._stamp()))

    def survey_account(self, population: str, survey: str) -> SurveyAccount:
        """Limit, charges and waves of a survey.

        Raises:
            BudgetRefused: the ledger does not know it.
        """
        return self._database.read(lambda connection: surveys.survey_account(connection, population, survey))

    def survey_accounts(self) -> list[SurveyAccount]:
        """The accounts of all surveys, by population and name."""
        return self._database.read(surveys.survey_accounts)

    def require_wave_admitted(self, asked: WaveAsked) -> None:
        """Check that a wave would be opened now, or is known as it is asked for; `open_wave` decides.

        Raises:
            BudgetRefused, LedgerRefused: as `open_wave`.
        """
        self._database.read(lambda connection: opening.require_wave_admitted(connection, asked))

    def open_wave(self, asked: WaveAsked) -> WaveRecord:
        """Charge a new wave, or find a known one of the same spec for nothing.

        Raises:
            BudgetRefused: survey or population is unknown, has stopped, or does not admit the charge.
            LedgerRefused: the wave is known with another spec or domain, the account counts another unit, the
                domain changed and nobody says why, or a reason is blank.
        """
        return self._write(
            lambda connection: opening.open_wave(connection, asked, self._master_key, self._stamp())
        )

    def wave(self, wave_id: WaveId) -> WaveRecord | None:
        """What is known of a wave."""
        return self._database.read(
            lambda connection: next(iter(wave_records(connection, is_wave(wave_id))), None)
        )

    def wave_key(self, wave_id: WaveId) -> bytes:
        """The 32 bytes from which tokens and reports come; refused from CLOSED on."""
        return self._database.read(
            lambda connection: wave_life.wave_key(connection, wave_id, self._master_key)
        )

    def report_key(self, wave_id: WaveId) -> bytes:
        """The 32 bytes under which the wave's batches have digests; of a closed wave too."""
        self._database.read(lambda connection: wave_row(connection, wave_id))
        return report_key(self._master_key, str(wave_id))

    def begin_batch(self, wave_id: WaveId) -> BatchClaim:
        """An attempt at the wave's next batch; read the batches before it after this call, never before."""
        return self._write(lambda connection: batches.begin_batch(connection, wave_id, self._stamp()))

    def commit_batch(self, claim: BatchClaim, batch: Batch) -> bool:
        """Whether the batch is the wave's now; False where another has its number."""
        return self._write(lambda connection: batches.commit_batch(connection, claim, batch, self._stamp()))

    def close_wave(self, wave_id: WaveId, batches: int, counts: StoredFile) -> StoredFile:
        """Offer the counts of all batches; the first offered are the wave's, and its key is destroyed."""
        stands = self._write(
            lambda connection: wave_life.close_wave(connection, wave_id, batches, counts, self._stamp())
        )
        self._database.erase_log()
        return stands

    def stage_estimates(self, wave_id: WaveId, estimates: StoredFile) -> StoredFile:
        """Offer estimates of a closed wave; the first offered are the wave's."""
        return self._write(lambda connection: wave_life.stage_estimates(connection, wave_id, estimates))

    def hold_wave(self, wave_id: WaveId, failed: Sequence[str]) -> None:
        """Note that the checks named in `failed` keep the estimates from being published."""
        self._write(lambda connection: wave_life.hold_wave(connection, wave_id, failed, self._stamp()))

    def clear_wave(self, wave_id: WaveId, reason: str) -> None:
        """Record the decision to publish a held wave although a gate failed."""
        self._write(lambda connection: wave_decisions.clear_wave(connection, wave_id, reason, self._stamp()))

    def end_wave(self, wave_id: WaveId, end: wave_decisions.WaveEnd, reason: str) -> None:
        """Record a decision that ends a wave, and destroy its key; a second time changes nothing.

        Raises:
            LedgerRefused: the wave is unknown, its state does not allow that, or the reason is blank.
        """
        self._write(
            lambda connection: wave_decisions.end_wave(connection, wave_id, end, reason, self._stamp())
        )
        self._database.erase_log()

    def record_wave_publication(self, wave_id: WaveId, sink: str, target: str, digest: str) -> None:
        """Note that `sink` has counts and estimates at `target`; `digest` is that of either."""
        copy = StoredFile(target, digest)
        self._write(
            lambda connection: wave_life.record_wave_publication(
                connection, wave_id, sink, copy, self._stamp()
            )
        )

    def publish_wave(self, wave_id: WaveId, sinks: Collection[str]) -> None:
        """Declare the wave published; refused while one of its `sinks` is not recorded."""
        self._write(lambda connection: wave_life.publish_wave(connection, wave_id, sinks, self._stamp()))

    def seal_wave(self, wave_id: WaveId, statement: StoredFile) -> StoredFile:
        """Close the wave's books with its statement; the first offered stands."""
        return self._write(
            lambda connection: wave_life.seal_wave(connection, wave_id, statement, self._stamp())
        )

    def _write(self, action: Callable[[sa.Connection], T]) -> T:
        """The action's result in one transaction, of which the chain's next link tells."""

        def linked(connection: sa.Connection) -> T:
            result = action(connection)
            chain.append_link(connection, self._master_key, self._stamp().at)
            return result

        return self._database.write(linked)

    def _stamp(self) -> Stamp:
        return Stamp(at=_iso(self._clock()), host=socket.gethostname(), pid=os.getpid(), os_user=_os_user())


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _os_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user often has no name
        return str(os.getuid())
