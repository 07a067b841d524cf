"""What an account has set aside and what of it is used, as the ledger stores them.

An account that was never divided has one pool of sums, which is its whole limit. From the first release on
the division stays as it is: one that was chosen after looking is none.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.guarantee import PrivacyGuarantee
from dp_spark.noise import NoiseTable
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.adhoc import NOTHING, Cost, Pool
from dp_spark.release.ledger.admission import Receipt, Standing
from dp_spark.release.ledger.exact import decode, encode
from dp_spark.release.ledger.persons import WHOLE, Partition
from dp_spark.release.ledger.records import promised, store_table
from dp_spark.release.ledger.schedule import Schedule, canonical
from dp_spark.release.ledger.states import ReleaseState
from dp_spark.release.spec import PoolKind

Pools = Mapping[PoolKind, Pool]


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A schedule of an account.

    Attributes:
        schedule: its noise and slots.
        spec_digest: of the spec that was enrolled.
        plan_bytes: the plan that each of its releases has.
        receipt: what a pool paid for it, where it came after the account's first release; else None.
    """

    schedule: Schedule
    spec_digest: str
    plan_bytes: bytes
    receipt: Receipt | None = None


def pools_of(connection: sa.Connection, population: str) -> Pools | None:
    """The pools of an account; None where it was never divided."""
    table = store.divisions
    stored = connection.scalar(sa.select(table.c.pools).where(table.c.population == population))
    if stored is None:
        return None
    pools = {}
    for kind, texts in json.loads(stored).items():
        epsilon, delta, most_loss, most_delta = map(decode, texts)
        pools[PoolKind(kind)] = Pool(
            PoolKind(kind), PrivacyGuarantee(epsilon, delta), Cost(most_loss, most_delta)
        )
    return pools


def put_pools(connection: sa.Connection, population: str, pools: Pools) -> None:
    """Divide an account anew."""
    stored = {
        kind: [
            encode(each)
            for each in (pool.guarantee.epsilon, pool.guarantee.delta, pool.limit.loss, pool.limit.delta)
        ]
        for kind, pool in pools.items()
    }
    rows.put(connection, store.divisions, {"population": population}, pools=canonical(stored))


def schedules_of(connection: sa.Connection, population: str) -> dict[str, Enrolled]:
    """The schedules of an account by name, in the order of names."""
    table = store.schedules
    found = connection.execute(
        sa.select(table).where(table.c.population == population).order_by(table.c.name)
    ).all()
    digests = {digest for row in found for digest, *_ in json.loads(row.schedule)["noise"]["draws"]}
    tables = _noise_tables(connection, digests)
    return {
        row.name: Enrolled(
            Schedule.from_text(row.schedule, tables),
            row.spec_digest,
            row.plan,
            None if row.receipt is None else Receipt.from_text(row.receipt),
        )
        for row in found
    }


def add_schedule(connection: sa.Connection, population: str, enrolled: Enrolled) -> None:
    """Store a schedule with its noise tables."""
    for table in enrolled.schedule.noise.tables:
        store_table(connection, table.to_bytes())
    rows.insert(
        connection,
        store.schedules,
        population=population,
        name=enrolled.schedule.name,
        schedule=enrolled.schedule.to_text(),
        spec_digest=enrolled.spec_digest,
        plan=enrolled.plan_bytes,
        receipt=None if enrolled.receipt is None else enrolled.receipt.to_text(),
    )


def standing_of(connection: sa.Connection, population: str, label: str) -> Standing:
    """What has been used under a label; what releases of before 0004 took counts under each."""
    table = store.standings
    here = sa.and_(table.c.population == population, table.c.label == label)
    stored = connection.scalar(sa.select(table.c.standing).where(here))
    standing = None if stored is None else Standing.from_text(stored)
    if label == WHOLE:
        return _before_receipts(connection, population) if standing is None else standing
    return (standing or Standing()).plus(standing_of(connection, population, WHOLE))


def put_standing(connection: sa.Connection, population: str, label: str, standing: Standing) -> None:
    """Store what has been used under a label."""
    if label != WHOLE:
        standing = standing.minus(standing_of(connection, population, WHOLE))
    key = {"population": population, "label": label}
    rows.put(connection, store.standings, key, standing=standing.to_text())


def labels_of(connection: sa.Connection, population: str) -> list[str]:
    """The labels under which anything was used."""
    table = store.standings
    return list(connection.scalars(sa.select(table.c.label).where(table.c.population == population)))


def recounted(connection: sa.Connection, population: str) -> dict[str, Standing]:
    """The standing of each label, as `standing_of`, but from what each release and late schedule took."""
    columns = store.releases.c
    kept = sa.and_(
        columns.population == population,
        columns.receipt.is_not(None),
        columns.state != ReleaseState.ABORTED.value,
    )
    table = store.schedules
    late = sa.and_(table.c.population == population, table.c.receipt.is_not(None))
    texts = [
        *connection.scalars(sa.select(columns.receipt).where(kept)),
        *connection.scalars(sa.select(table.c.receipt).where(late)),
    ]
    found: dict[str, Standing] = {}
    for receipt in (Receipt.from_text(text) for text in texts if text is not None):
        for label in receipt.labels:
            found[label] = found.get(label, Standing()).plus(receipt.took)
    whole = found.pop(WHOLE, Standing()).plus(_before_receipts(connection, population))
    return {WHOLE: whole} | {label: standing.plus(whole) for label, standing in found.items()}


def partition_of(connection: sa.Connection, population: str) -> tuple[str, str] | None:
    """The column and time zone by which an account's first release cut time."""
    table = store.partitions
    row = connection.execute(sa.select(table).where(table.c.population == population)).one_or_none()
    return None if row is None else (row.period_column, row.timezone)


def put_partition(connection: sa.Connection, population: str, partition: Partition) -> None:
    """Fix how an account cuts time."""
    named = {"period_column": partition.column, "timezone": partition.timezone}
    rows.insert(connection, store.partitions, population=population, **named)


def has_releases(connection: sa.Connection, population: str) -> bool:
    """Whether anything was ever reserved."""
    table = store.releases
    asked = sa.select(table.c.id).where(table.c.population == population).limit(1)
    return connection.scalar(asked) is not None


def _before_receipts(connection: sa.Connection, population: str) -> Standing:
    """What releases took that were reserved before there were receipts: their charges, of a pool of sums."""
    columns = store.releases.c
    old = sa.and_(
        columns.population == population,
        columns.receipt.is_(None),
        columns.state != ReleaseState.ABORTED.value,
    )
    spent = promised(connection, old)
    return Standing(spent={PoolKind.SUMS: spent} if spent != NOTHING else {})


def _noise_tables(connection: sa.Connection, digests: Iterable[str]) -> dict[str, NoiseTable]:
    table = store.noise_tables
    found = connection.execute(sa.select(table).where(table.c.digest.in_(sorted(digests))))
    tables = {}
    for row in found:
        tables[row.digest] = NoiseTable.from_bytes(row.body)
        if tables[row.digest].digest != row.digest:
            raise SetupRefused(
                "noise_table_damaged",
                f"noise table {row.digest} of a schedule does not have its digest",
                way_out="restore the newest backup of the ledger",
            )
    return tables
