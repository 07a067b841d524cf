"""What the ledger tests share: one population, and short ways to bring a release to a state."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from postgres_server import Server

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.noise import Gaussian, Part, freeze
from dp_spark.release.ledger import (
    Claim,
    Decision,
    Enrolment,
    Ledger,
    ReleaseId,
    ReleaseState,
    Reservation,
    Schedule,
    database_of,
    schema,
    store,
)
from dp_spark.release.ledger.exact import encode
from dp_spark.release.ledger.keys import WRAPPED_BYTES
from dp_spark.release.ledger.schedule import Draw, ReleaseNoise
from dp_spark.release.spec import PoolKind

MASTER_KEY = bytes(range(32))
POPULATION = "nyc_planes"
TAILNUM = PrivacyUnit(("tailnum",))
SINK = "parquet"
_GAUSSIAN = freeze(Gaussian(), Fraction(1, 40), 340, sensitivity=1, max_groups=1)
NIGHT = ReleaseNoise(Neighbours.ADD_REMOVE, (Draw(_GAUSSIAN, Part(1, 1)),))
NIGHTLY = "nightly"
# From charge to seal; and where a decision leads from there.
LINE = list(ReleaseState)[: list(ReleaseState).index(ReleaseState.SEALED) + 1]
AFTER = {
    ReleaseState.ABORTED: (ReleaseState.RESERVED, Decision.ABORT),
    ReleaseState.ABANDONED: (ReleaseState.HELD, Decision.ABANDON),
    ReleaseState.BURNED: (ReleaseState.READING, Decision.BURN),
}


def guarantee(epsilon, delta=0):
    return PrivacyGuarantee(Fraction(epsilon), Fraction(delta))


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@dataclass(frozen=True)
class SqlitePlace:
    """A ledger in a file, and the way behind its back."""

    path: Path

    @property
    def url(self) -> str:
        return url_of(self.path)

    def sql(self, statement: str, *values):
        return sql(self.path, statement, *values)


@dataclass(frozen=True)
class PostgresPlace:
    """A ledger in a database of the server, and the way behind its back."""

    server: Server
    database: str

    @property
    def url(self) -> str:
        return self.server.url(self.database)

    def sql(self, statement: str, *values):
        return self.server.run(statement.replace("?", "%s"), *values, database=self.database)


def fund(ledger: Ledger, epsilon, delta=0, population=POPULATION):
    ledger.set_budget(
        population,
        guarantee(epsilon, delta),
        unit=TAILNUM,
        neighbours=Neighbours.ADD_REMOVE,
        reason="decided by the board",
    )


def reservation(key="2013-01-01", **changes) -> Reservation:
    asked = {
        "spec_digest": "spec-1",
        "plan_bytes": b"plan-1",
        "tables": {"counts": b"table-1"},
        "charge": guarantee("0.1"),
        "unit": TAILNUM,
        "neighbours": Neighbours.ADD_REMOVE,
        "noise": ReleaseNoise(Neighbours.ADD_REMOVE, ()),
    }
    release_id = changes.pop("release_id", ReleaseId(POPULATION, "flights", key))
    return Reservation(release_id, **(asked | changes))


def reserve(ledger: Ledger, key="2013-01-01", **changes) -> Claim:
    return ledger.reserve(reservation(key, **changes))


def share(ledger: Ledger, sums, slots: int):
    """Divide an account that is not yet charged: a pool of sums, one of zCDP, and a schedule of nights."""
    fund(ledger, Fraction(sums) + 60, "1e-5")
    pools = {PoolKind.SUMS: guarantee(sums), PoolKind.ZCDP: guarantee(10, "1e-6")}
    ledger.set_pools(POPULATION, pools, reason="decided by the board")
    asked = Enrolment(Schedule(NIGHTLY, NIGHT, slots), "spec-1", b"plan-1")
    ledger.enrol(POPULATION, asked, reason="decided by the board")


def brought_to(ledger: Ledger, state: ReleaseState, period="2013-01-01") -> Claim:
    """A claim on a release that the ledger's own steps, or a decision after them, brought to `state`."""
    if state in AFTER:
        before, decision = AFTER[state]
        claim = brought_to(ledger, before, period)
        ledger.decide(claim.release_id, decision, "decided by the board")
        return claim
    claim = reserve(ledger, period)
    steps = {
        ReleaseState.READING: lambda: ledger.start_reading(claim),
        ReleaseState.STAGED: lambda: ledger.stage(claim, "digest-1", "staging/1"),
        ReleaseState.HELD: lambda: ledger.hold(claim, ["history"]),
        ReleaseState.PUBLISHED: lambda: publish(ledger, claim),
        ReleaseState.SEALED: lambda: ledger.seal(claim, statement_path="s.html", statement_digest="s"),
    }
    for each in LINE[1 : LINE.index(state) + 1]:
        steps[each]()
    return claim


def publish(ledger: Ledger, claim: Claim):
    ledger.record_publication(claim, SINK, "out/flights", "digest-1")
    ledger.publish(claim, [SINK])


def sql(path: Path, statement: str, *values):
    """The rows of a statement on an SQLite file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def without_guard(place, table: str) -> None:
    """Let an append-only table be changed, as whoever owns the database can."""
    if isinstance(place, SqlitePlace):
        place.sql(f"DROP TRIGGER {table}_no_update")
        place.sql(f"DROP TRIGGER {table}_no_delete")
    else:
        place.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")


def delete(place, table: str, where: str) -> None:
    """Delete rows behind the ledger's back, whatever refers to them."""
    if isinstance(place, SqlitePlace):
        place.sql(f"DELETE FROM {table} WHERE {where}")  # foreign keys are off unless a connection asks
    else:
        statement = f"SET session_replication_role = replica; DELETE FROM {table} WHERE {where}"
        place.server.run(statement, database=place.database)


def meanwhile(ledger: Ledger, decide) -> Ledger:
    """A second hand on the same ledger: between its proofs and their transaction, somebody else decides."""

    class Hand(Ledger):
        __slots__ = ()

        def _write(self, action):
            decide()
            return super()._write(action)

    return Hand(ledger._database, MASTER_KEY, ledger._clock)


def older_ledger(url: str, releases) -> str:
    """The URL of a ledger as it was before 0004, with accounts of (1, 1e-6) and these releases of theirs.

    A release is a population, its key, its epsilon and its state, all charged on 2026-01-30.
    """
    at, database = "2026-01-30T12:00:00.000000+00:00", database_of(url)
    if database.one_machine:
        Path(url.removeprefix("sqlite:///")).touch(0o600)

    def fill(connection: sa.Connection) -> None:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(schema.__file__).with_name("migrations")))
        command.upgrade(config, "0003")
        connection.execute(sa.insert(store.ledger_meta).values(id=1, created_at=at))
        for population, unit in {POPULATION: '"tailnum"', "days": '"tailnum" per day'}.items():
            connection.exec_driver_sql(
                f"INSERT INTO accounts VALUES ('{population}', '{unit}', 'add_remove', '1/1', '1/1000000')"
            )
        for number, (population, key, epsilon, state) in enumerate(releases, 1):
            asked = {"population": population, "name": "old", "period_key": key, "revision": 0}
            charge = {"charge_epsilon": encode(Fraction(epsilon)), "charge_delta": "0/1"}
            made = {"spec_digest": "spec-1", "state": "reserved", "fence": 1, "plan": b"plan-1"}
            columns = {name: sa.column(name) for name in asked | charge | made}
            table = sa.table("releases", *columns.values())
            connection.execute(sa.insert(table).values(asked | charge | made))
            connection.execute(
                sa.insert(store.release_keys).values(release=number, wrapped=bytes(WRAPPED_BYTES))
            )
            line = {"release": number, "to_state": "reserved", "fence": 1, "at": at, "host": "h", "pid": 1}
            connection.execute(sa.insert(store.events).values(line))
            if state == "aborted":
                why = {"decision": state, "reason": "a test", "os_user": "operator", "at": at}
                connection.execute(sa.insert(store.decisions).values(release=number, **why))
            connection.exec_driver_sql(f"UPDATE releases SET state = '{state}' WHERE id = {number}")

    with database.engine.begin() as connection:
        fill(connection)
    return url
