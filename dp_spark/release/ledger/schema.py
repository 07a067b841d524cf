"""The version of a ledger's schema: what it must be, and how an older one gets there."""

from collections.abc import Collection
from pathlib import Path

import sqlalchemy as sa

from dp_spark.errors import SetupRefused
from dp_spark.release.ledger import store

# Every revision of the schema in order, as the files of `migrations/versions` name them.
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
INIT = "dp-spark ledger init"
VERSION_QUERY = "SELECT version_num FROM alembic_version"
META, VERSION_TABLE = "ledger_meta", "alembic_version"
_MIGRATIONS = Path(__file__).with_name("migrations")


def is_ledger(tables: Collection[str]) -> bool:
    """Whether a database with these tables holds a ledger, of whatever version."""
    return META in tables


def require_current(tables: Collection[str], version: str | None, place: str) -> None:
    """Check that a database is a ledger of this version.

    Args:
        tables: the names of its tables.
        version: what its version table says; None where it has none.
        place: what to call the database in a refusal.

    Raises:
        SetupRefused: it is no ledger, or one of another version.
    """
    if not is_ledger(tables):
        raise SetupRefused(
            "not_a_ledger",
            f"{place} is a database but no dp_spark ledger",
            way_out=f"name another one in the profile, then {INIT}",
        )
    if version == REVISIONS[-1]:
        return
    older, newest = version is None or version in REVISIONS, REVISIONS[-1]
    raise SetupRefused(
        "ledger_version",
        f"the ledger at {place} has schema {version or 'of before 0001'}; this dp_spark needs {newest}",
        way_out=f"back it up, then `{INIT}` brings it to {newest}"
        if older
        else "use the dp_spark version that wrote this ledger, or a newer one",
    )


def upgrade(connection: sa.Connection, created_at: str) -> None:
    """Bring an empty database or an older ledger to the newest schema, in the running transaction."""
    # Only here: a run never migrates, and need not wait for the import.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    tables = sa.inspect(connection).get_table_names()
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    if is_ledger(tables) and VERSION_TABLE not in tables:
        # Written before there were migrations.
        connection.exec_driver_sql(f"ALTER TABLE {META} DROP COLUMN schema_version")
        command.stamp(config, REVISIONS[0])
    command.upgrade(config, REVISIONS[-1])
    if not is_ledger(tables):
        connection.execute(sa.insert(store.ledger_meta).values(id=1, created_at=created_at))
