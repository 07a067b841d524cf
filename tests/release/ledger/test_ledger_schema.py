"""What `ledger init` makes of nothing and of older ledgers, and that nothing else ever migrates."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from ledger_support import MASTER_KEY, POPULATION, PostgresPlace, SqlitePlace, reserve, sql

from dp_spark.errors import SetupRefused
from dp_spark.release.ledger import Ledger, create_ledger, schema, store
from dp_spark.release.ledger.database import database_of

MIGRATIONS = Path(schema.__file__).with_name("migrations")


def revisions() -> list[str]:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def test_the_line_of_migrations_is_the_one_that_is_known():
    assert revisions() == list(schema.REVISIONS)


def test_the_newest_migration_leaves_the_tables_of_the_store(place):
    def columns(connection: sa.Connection) -> dict[str, set[tuple[str, bool]]]:
        look = sa.inspect(connection)
        return {
            name: {(column["name"], bool(column["nullable"])) for column in look.get_columns(name)}
            for name in look.get_table_names()
        }

    found = database_of(place.url).read(columns)
    assert found.pop(schema.VERSION_TABLE)
    assert found == {
        table.name: {(column.name, bool(column.nullable)) for column in table.columns}
        for table in store.metadata.tables.values()
    }


def test_a_newer_ledger_is_refused_and_init_leaves_it_alone(place):
    place.sql("UPDATE alembic_version SET version_num = '9999'")
    for ask in (lambda: Ledger.open(place.url, MASTER_KEY), lambda: create_ledger(place.url)):
        with pytest.raises(SetupRefused, match="wrote this ledger, or a newer one") as refused:
            ask()
        assert refused.value.code == "ledger_version"
    assert place.sql("SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_ledger_of_before_the_migrations_is_brought_up_by_init_and_by_nothing_else(path):
    place = first_ledger(path)
    with pytest.raises(SetupRefused, match="dp-spark ledger init") as refused:
        Ledger.open(place.url, MASTER_KEY)
    assert refused.value.code == "ledger_version"
    create_ledger(place.url)
    ledger = Ledger.open(place.url, MASTER_KEY)
    assert ledger.budget(POPULATION).spent.epsilon > 0
    assert not reserve(ledger).charged_now
    assert place.sql("SELECT version_num FROM alembic_version") == [(schema.REVISIONS[-1],)]


def first_ledger(path: Path) -> SqlitePlace:
    """A ledger as dp_spark wrote it before it had migrations, with one release."""
    sql_text = Path(__file__).with_name("first_ledger.sql").read_text()
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql_text)
    path.chmod(0o600)
    assert sql(path, "SELECT schema_version FROM ledger_meta") == [(2,)]
    return SqlitePlace(path)


def test_a_database_without_a_ledger_is_refused_and_never_filled(postgres):
    place = PostgresPlace(postgres, postgres.new_database())
    with pytest.raises(SetupRefused, match="no dp_spark ledger") as refused:
        Ledger.open(place.url, MASTER_KEY)
    assert refused.value.code == "not_a_ledger"
    assert place.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


@pytest.mark.parametrize("url", ["postgresql+psycopg://u@127.0.0.1:1/d", "{server}/nowhere"])
def test_a_server_or_database_that_is_not_there_is_refused(postgres, url, monkeypatch):
    from dp_spark.release.ledger import postgres as module

    monkeypatch.setattr(module, "_PAUSES", (0.01,))
    with pytest.raises(SetupRefused) as refused:
        Ledger.open(url.format(server=postgres.url("").rstrip("/")), MASTER_KEY)
    assert refused.value.code == "ledger_unavailable"


def test_init_twice_keeps_a_database(ledger, place):
    reserve(ledger)
    create_ledger(place.url)
    assert ledger.budget(POPULATION).spent.epsilon > 0
