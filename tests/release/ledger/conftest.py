import pytest
from ledger_support import MASTER_KEY, PostgresPlace, SqlitePlace, fund

from dp_spark.release.ledger import Ledger, create_ledger


@pytest.fixture
def path(tmp_path):
    """Where an SQLite ledger may be made."""
    return tmp_path / "ledger.db"


@pytest.fixture(scope="session")
def empty_template(postgres):
    """The name of a PostgreSQL database that holds an empty ledger; copies of it are made in no time."""
    name = postgres.new_database()
    create_ledger(postgres.url(name))
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, path):
    """A ledger without accounts, on each database in turn."""
    if request.param == "sqlite":
        create_ledger(SqlitePlace(path).url)
        yield SqlitePlace(path)
        return
    postgres = request.getfixturevalue("postgres")
    database = postgres.new_database(request.getfixturevalue("empty_template"))
    yield PostgresPlace(postgres, database)
    postgres.drop(database)


@pytest.fixture
def empty_ledger(place):
    return Ledger.open(place.url, MASTER_KEY)


@pytest.fixture
def ledger(empty_ledger):
    fund(empty_ledger, 1, "1e-6")
    return empty_ledger


@pytest.fixture
def file_ledger(path):
    """A funded ledger in the SQLite file at `path`."""
    create_ledger(SqlitePlace(path).url)
    ledger = Ledger.open(SqlitePlace(path).url, MASTER_KEY)
    fund(ledger, 1, "1e-6")
    return ledger
