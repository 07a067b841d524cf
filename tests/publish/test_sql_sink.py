"""Sinks in databases: what PostgreSQL and DuckDB hold when an edition stands there, and what is refused."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from postgres_server import Server
from publishers import DAY, GROUPS, SCHEMA, artefact, release_of
from sql_sinks import Database, edition, with_column

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.publish import Part, Reach, open_sink, sql, sql_rows
from dp_spark.publish import duckdb as duckdb_sink
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkSpec
from dp_spark.release.warehouse import reason_of

SECRET = "hunter2-s3cr3t"


def opened(connection: Connection, table: str = "flights"):
    spec = SinkSpec(sink="sql", connection="warehouse", table=table)
    return open_sink(spec, Reach({"warehouse": connection}, spark_table=None))


@pytest.fixture
def on_postgres(postgres: Server) -> Iterator[Database]:
    name = postgres.new_database()
    yield Database(
        sink=lambda table="flights": opened(Connection(postgres.url(name)), table),
        query=lambda query: postgres.run(query, database=name),
        column_query="SELECT attname, NOT attnotnull, col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid = '{table}'::regclass AND attnum > 0 ORDER BY attnum",
    )
    postgres.drop(name)


@pytest.fixture
def on_duckdb(tmp_path: Path) -> Database:
    file = tmp_path / "warehouse.duckdb"

    def query(text: str) -> list[tuple[object, ...]]:
        with duckdb.connect(str(file)) as connection:
            return connection.execute(text).fetchall()

    return Database(
        sink=lambda table="flights": opened(Connection(f"duckdb:///{file}"), table),
        query=query,
        column_query="SELECT column_name, is_nullable, comment FROM duckdb_columns() "
        "WHERE table_name = '{table}' ORDER BY column_index",
    )


@pytest.fixture(params=["on_postgres", "on_duckdb"])
def database(request: pytest.FixtureRequest) -> Database:
    return request.getfixturevalue(request.param)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


# --- what stands there --------------------------------------------------------------------------------------


def test_a_table_has_rows_comments_and_no_nulls(database):
    where = database.sink().publish(edition())
    assert where.endswith(" flights")
    assert database.all() == rows_of(artefact())
    assert database.columns("flights") == {
        field.name: (False, field.metadata[b"comment"].decode()) for field in SCHEMA
    }


def test_a_row_beside_the_table_tells_of_each_part(database):
    before = datetime.now(UTC)
    database.sink().publish(edition(revision=3))
    [row] = database.query(
        "SELECT period_start, release_id, revision, digest, epsilon, delta, plan, row_count, labels, "
        "published_at FROM flights_releases"
    )
    assert row[:8] == (
        DAY, f"{release_of(DAY)[:-1]}3", 3, edition().digest, "1/3", "1/1000000", "p" * 64, GROUPS,
    )  # fmt: skip
    assert json.loads(row[8]) == edition(revision=3).labels
    assert before - timedelta(seconds=5) < row[9] < datetime.now(UTC) + timedelta(seconds=5)


def test_the_view_has_the_newest_rows_of_releases_and_no_others(database):
    sink = database.sink()
    sink.publish(edition())
    sink.publish(edition(first=200, revision=1))
    database.query("INSERT INTO flights VALUES ('2000-01-01', 'x', 1, 'by hand')")
    assert database.all("flights_latest") == rows_of(artefact(first=200))
    assert len(database.all()) == GROUPS + 1


def test_every_type_arrives_as_it_was(database):
    hostile = ["a\tb\n\r", "\\N", "", "'\"; --", "é\U0001f600", "%s {} :x", "x" * 9000]
    big = [Decimal("-92233720368547758.07"), Decimal("92233720368547758.07"), *map(Decimal, range(5))]
    columns = {
        "t": pa.array(hostile),
        "d": pa.array(big, pa.decimal128(19, 2)),
        "i": pa.array([-(2**31), 2**31 - 1, *range(5)], pa.int32()),
        "b": pa.array([-(2**63), 2**63 - 1, *range(5)], pa.int64()),
        "f": pa.array([float("nan"), float("inf"), -float("inf"), 5e-324, 1.7976931348623157e308, 0.1, -1.5]),
        "yes": pa.array([True, False] * 3 + [True]),
        "day": pa.array([date(1, 1, 1), date(9999, 12, 31), *[DAY] * 5]),
        'a%b "c" :d': pa.array(range(7), pa.int64()),
    }
    table = artefact()
    for name, values in columns.items():
        table = with_column(table, name, values)
    database.sink().publish(edition(table=table))
    assert repr(database.all()) == repr(rows_of(table))  # nan is not itself
    assert repr(database.all("flights_latest")) == repr(rows_of(table))
    assert database.columns("flights")['a%b "c" :d'] == (False, "50% of 'it' :x")


def test_publishing_twice_changes_nothing(database):
    database.sink().publish(edition())
    before = database.all("flights_releases")
    database.sink().publish(edition())
    assert database.all("flights_releases") == before


def test_a_release_without_rows_is_published_once(database):
    database.sink().publish(edition(table=artefact().slice(0, 0)))
    before = database.all("flights_releases")
    database.sink().publish(edition(table=artefact().slice(0, 0)))
    assert database.all("flights_releases") == before


@pytest.mark.parametrize("removed", ["DELETE FROM flights", "DROP TABLE flights CASCADE"])
def test_rows_that_somebody_removed_are_put_back(database, removed):
    database.sink().publish(edition())
    database.query(removed)
    database.sink().publish(edition())
    assert database.all("flights_latest") == rows_of(artefact())


# --- columns that change ------------------------------------------------------------------------------------


def test_a_new_column_is_nullable_in_table_and_view(database):
    database.sink().publish(edition())
    more = with_column(artefact(DAY + timedelta(1)), "late", pa.array(range(GROUPS), pa.int64()))
    database.sink().publish(edition(DAY + timedelta(1), table=more))
    assert database.columns("flights")["late"] == (True, "50% of 'it' :x")
    assert sorted(row[-1] is None for row in database.all("flights_latest")) == [False] * 7 + [True] * 7


def test_a_column_that_a_later_edition_lacks_is_null_there(database):
    database.sink().publish(edition())
    less = artefact(DAY + timedelta(1)).drop_columns(["flights"])
    database.sink().publish(edition(DAY + timedelta(1), table=less))
    assert database.columns("flights")["flights"][0]
    assert {row[2] for row in database.all() if row[0] != DAY} == {None}


def test_an_older_release_is_placed_still_when_columns_have_changed(database):
    database.sink().publish(edition())
    tomorrow = DAY + timedelta(1)
    table = with_column(artefact(tomorrow), "late", pa.array(range(GROUPS), pa.int64()))
    database.sink().publish(edition(tomorrow, table=table))
    before = database.all("flights_releases")
    database.sink().publish(edition())
    assert database.all("flights_releases") == before


@pytest.mark.parametrize("retyped", [pa.int32(), pa.float64(), pa.string(), pa.decimal128(21, 2)])
def test_a_retyped_column_is_refused_before_and_after_the_charge(database, retyped):
    database.sink().publish(edition())
    tomorrow = DAY + timedelta(1)
    other = artefact(tomorrow).set_column(2, "flights", artefact()["flights"].cast(retyped))
    for step in (
        lambda: database.sink().require_free(Part.of_period(tomorrow), release_of(tomorrow), other.schema),
        lambda: database.sink().publish(edition(tomorrow, table=other)),
    ):
        with pytest.raises(PublishRefused, match="a column flights of type int64") as refused:
            step()
        assert refused.value.code == "column_retyped"


@pytest.mark.parametrize("kind", ["varchar(3)", "char(30)", "mood"])
def test_a_text_that_would_be_cut_or_refused_is_retyped(on_postgres, kind):
    on_postgres.query("CREATE TYPE mood AS ENUM ('good', 'bad')")
    on_postgres.query(THEIRS.replace("origin varchar", f"origin {kind}"))
    on_postgres.query(OWNED)
    assert refused(on_postgres).startswith("column_retyped: sql warehouse/flights has a column origin")


def test_comments_follow_the_edition(database):
    database.sink().publish(edition())
    database.sink().publish(replace(edition(DAY + timedelta(1)), comment="other"))
    told = database.query(
        "SELECT obj_description('flights'::regclass)"
        if database.is_postgres
        else "SELECT comment FROM duckdb_tables() WHERE table_name = 'flights'"
    )
    assert told == [("other",)]


# --- what others left there ---------------------------------------------------------------------------------


def refused(database: Database, table: str = "flights") -> str:
    """What both steps say, which is one thing."""
    told = set()
    for step in (
        lambda: database.sink(table).require_free(edition().part, edition().release_id, SCHEMA),
        lambda: database.sink(table).publish(edition()),
    ):
        with pytest.raises(PublishRefused) as caught:
            step()
        told.add(f"{caught.value.code}: {caught.value.message}")
    assert len(told) == 1
    return told.pop()


THEIRS = "CREATE TABLE flights (period_start date, origin varchar, flights bigint, release_id varchar)"
OWNED = "ALTER TABLE flights OWNER TO ledger_owner"


def test_a_table_of_others_keeps_its_rows_and_takes_new_parts(database):
    database.query(THEIRS)
    database.query("INSERT INTO flights VALUES ('2000-01-01', 'x', 1, 'theirs')")
    if database.is_postgres:
        database.query(OWNED)
    database.sink().publish(edition())
    assert len(database.all()) == GROUPS + 1
    assert len(database.all("flights_latest")) == GROUPS


def test_rows_of_others_in_the_part_are_refused(database):
    database.query(THEIRS)
    database.query("INSERT INTO flights VALUES ('2013-01-05', 'poison', 1, 'theirs')")
    if database.is_postgres:
        database.query(OWNED)
    told = refused(database)
    assert told.startswith(
        "period_occupied: sql warehouse/flights, period_start=2013-01-05, holds what is no"
    )
    assert "poison" not in told


def test_rows_that_somebody_added_to_the_part_are_refused(database):
    database.sink().publish(edition())
    database.query("INSERT INTO flights VALUES ('2013-01-05', 'poison', 1, 'theirs')")
    assert "what is no artefact of dp_spark" in refused(database)


@pytest.mark.parametrize(
    ("made", "holds"),
    [
        ("CREATE VIEW flights AS SELECT 1 AS a", "flights holds a view"),
        ("CREATE TABLE flights_latest (a integer)", "flights_latest holds a table"),
        ("CREATE TABLE flights_releases (a integer)", "flights_releases holds what is no table of dp_spark"),
    ],
)
def test_names_of_something_else_are_refused(database, made, holds):
    database.query(made)
    assert holds in refused(database)


@pytest.mark.parametrize("table", ["flights_releases", "x.FLIGHTS_Latest"])
def test_a_table_that_could_stand_beside_another_is_refused(database, table):
    assert refused(database, table).startswith("table_name_kept")


def test_a_schema_is_named_before_a_dot(database):
    owner = " AUTHORIZATION ledger_owner" if database.is_postgres else ""
    database.query(f'CREATE SCHEMA "Public2"{owner}')
    where = database.sink("Public2.Flights").publish(edition())
    assert where.endswith(" Public2.Flights")
    assert database.all('"Public2"."Flights_latest"') == rows_of(artefact())
    database.sink("Public2.Flights").publish(edition())


@pytest.mark.parametrize("table", ["nowhere.flights", "elsewhere.main.flights"])
@pytest.mark.parametrize("is_made", [False, True])
def test_a_schema_that_is_not_there_is_refused_before_the_charge(database, table, is_made):
    if is_made:
        database.sink().publish(edition())
    assert refused(database, table).startswith("sink_refuses")


@pytest.mark.parametrize("name", ["flights", "flights_releases", "flights_latest"])
def test_a_materialized_view_is_refused(on_postgres, name):
    on_postgres.query(f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS a")
    assert f"{name} holds a materialized view" in refused(on_postgres)


# --- PostgreSQL alone ---------------------------------------------------------------------------------------


def test_names_that_postgresql_would_cut_are_refused(on_postgres):
    assert "the database keeps 63" in refused(on_postgres, "f" * 55)
    on_postgres.sink("f" * 54).publish(edition())


def test_a_text_with_nul_is_refused_without_it(on_postgres):
    table = with_column(artefact(), "t", pa.array(["a\0poison"] * GROUPS))
    with pytest.raises(PublishRefused, match="column t holds") as caught:
        on_postgres.sink().publish(edition(table=table))
    assert caught.value.code == "text_with_nul"
    assert "poison" not in str(caught.value)


def test_rows_that_go_by_insert_are_those_that_go_by_copy(on_postgres, monkeypatch):
    monkeypatch.setattr(sql_rows, "copies", lambda dialect: False)
    monkeypatch.setattr(sql_rows, "_ROWS_OF_A_BATCH", 3)
    on_postgres.sink().publish(edition())
    assert on_postgres.all() == rows_of(artefact())


def test_without_an_advisory_lock_the_row_beside_the_table_is_held(on_postgres, monkeypatch):
    monkeypatch.setattr(sql, "serialises", lambda engine: False)
    on_postgres.sink().publish(edition())
    on_postgres.sink().publish(edition())
    on_postgres.sink().publish(edition(first=200, revision=1))
    assert on_postgres.all("flights_latest") == rows_of(artefact(first=200))


def test_a_server_that_snapshots_early_is_asked_for_read_committed(postgres, on_postgres):
    [(name,)] = on_postgres.query("SELECT current_database()")
    on_postgres.query(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    with opened(Connection(postgres.url(name))).engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"


def test_whoever_holds_the_table_too_long_delays_the_copy(postgres, on_postgres, monkeypatch):
    from dp_spark.release import warehouse

    monkeypatch.setattr(warehouse, "_LIMITS", "SET LOCAL lock_timeout = '200ms'")
    on_postgres.sink().publish(edition())
    [(name,)] = on_postgres.query("SELECT current_database()")
    held = psycopg.connect(host="127.0.0.1", port=postgres.port, dbname=name, user="postgres")
    with held:
        held.execute("LOCK TABLE flights")
        on_postgres.sink().require_free(edition().part, edition().release_id, SCHEMA)
        with pytest.raises(PublishRefused, match=r"held a lock for 60 s \(SQLSTATE 55P03\)"):
            on_postgres.sink().publish(edition(revision=1))
    on_postgres.sink().publish(edition(revision=1))


def test_a_role_without_rights_is_told_so_and_nothing_is_left(postgres, on_postgres):
    [(name,)] = on_postgres.query("SELECT current_database()")
    postgres.run("DROP ROLE IF EXISTS stranger")
    postgres.run("CREATE ROLE stranger LOGIN")
    sink = opened(Connection(postgres.url(name, "stranger")))
    with pytest.raises(PublishRefused, match=r"its role may not do this \(SQLSTATE 42501\)"):
        sink.publish(edition())
    on_postgres.sink().publish(edition())
    with pytest.raises(PublishRefused, match=r"its role may not do this \(SQLSTATE 42501\)") as caught:
        sink.require_free(edition().part, edition().release_id, SCHEMA)
    assert caught.value.code == "sink_refuses"
    on_postgres.query("DROP TABLE flights, flights_releases CASCADE")
    assert on_postgres.query("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


def test_a_password_is_read_when_it_is_needed_and_never_shown(postgres, on_postgres, monkeypatch):
    [(name,)] = on_postgres.query("SELECT current_database()")
    connection = Connection(postgres.url(name), password="env:WAREHOUSE_PASSWORD")
    sink = opened(connection)
    with pytest.raises(SetupRefused, match="WAREHOUSE_PASSWORD is not set"):
        sink.publish(edition())
    monkeypatch.setenv("WAREHOUSE_PASSWORD", SECRET)
    assert SECRET not in sink.publish(edition()) + repr(sink)
    dead = opened(replace(connection, url="postgresql+psycopg://u@127.0.0.1:1/d"))
    dead.require_free(edition().part, edition().release_id, SCHEMA)
    with pytest.raises(PublishRefused) as caught:
        dead.publish(edition())
    assert caught.value.code == "sink_unreachable"
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


# --- DuckDB alone -------------------------------------------------------------------------------------------

HOLDING = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read(1)"


def test_a_file_that_another_process_keeps_open_is_waited_for(tmp_path, on_duckdb, monkeypatch):
    on_duckdb.sink().publish(edition())
    file = str(tmp_path / "warehouse.duckdb")
    pipe = subprocess.PIPE
    holder = subprocess.Popen([sys.executable, "-c", HOLDING, file], stdin=pipe, stdout=pipe)
    assert holder.stdout.readline() == b"open\n"
    monkeypatch.setattr(duckdb_sink, "WAIT_SECONDS", 0.3)
    on_duckdb.sink().require_free(edition().part, "another/release/2013-01-05/0", SCHEMA)  # delayed
    with pytest.raises(PublishRefused, match="another process kept the file open"):
        on_duckdb.sink().publish(edition(first=200, revision=1))
    monkeypatch.setattr(duckdb_sink, "WAIT_SECONDS", 30)
    begun = time.monotonic()
    subprocess.Popen([sys.executable, "-c", "import time, os; time.sleep(0.3); os.write(1, b'x')"],
                     stdout=holder.stdin)  # fmt: skip
    on_duckdb.sink().publish(edition(first=200, revision=1))
    assert time.monotonic() - begun > 0.2
    holder.communicate()
    assert on_duckdb.all() == rows_of(artefact(first=200))


def test_a_file_that_is_no_database_is_refused_before_the_charge(tmp_path, on_duckdb):
    (tmp_path / "warehouse.duckdb").write_bytes(b"poison" * 2000)
    with pytest.raises(PublishRefused, match="no database of DuckDB") as caught:
        on_duckdb.sink().require_free(edition().part, edition().release_id, SCHEMA)
    assert caught.value.code == "sink_refuses"
    with pytest.raises(PublishRefused, match="no database of DuckDB") as caught:
        on_duckdb.sink().publish(edition())
    assert caught.value.code == "sink_unreachable"
    assert "poison" not in str(caught.value)


@pytest.mark.parametrize("is_made", [False, True])
def test_an_option_that_duckdb_does_not_know_is_refused_before_the_charge(tmp_path, on_duckdb, is_made):
    if is_made:
        on_duckdb.sink().publish(edition())
    sink = opened(Connection(f"duckdb:///{tmp_path}/warehouse.duckdb", options={"nonsense": "poison"}))
    with pytest.raises(PublishRefused, match=r"DuckDB refused \(InvalidInputException\)") as caught:
        sink.require_free(edition().part, edition().release_id, SCHEMA)
    assert caught.value.code == "sink_refuses"


@pytest.mark.parametrize("is_made", [False, True])
def test_the_name_of_the_file_may_stand_before_the_schema(on_duckdb, is_made):
    if is_made:
        on_duckdb.sink().publish(edition())
    sink = on_duckdb.sink("Warehouse.main.flights")
    sink.require_free(edition(revision=1).part, edition(revision=1).release_id, SCHEMA)
    sink.publish(edition())


def test_no_name_of_a_table_is_one_that_the_sink_uses_itself(on_duckdb):
    on_duckdb.sink("dp_spark_edition").publish(edition())
    on_duckdb.sink("dp_spark_edition").publish(edition(first=200, revision=1))
    assert on_duckdb.all("dp_spark_edition") == rows_of(artefact(first=200))


# --- how a sink is opened -----------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["duckdb://", "duckdb:///:memory:"])
def test_a_database_in_memory_is_refused(url):
    with pytest.raises(SetupRefused, match="in memory") as caught:
        opened(Connection(url))
    assert caught.value.code == "connection_keeps_nothing"


def test_a_database_that_could_never_take_the_table_is_refused_before_it_is_reached(tmp_path):
    with pytest.raises(SetupRefused, match="'warehouse' is sqlite") as caught:
        opened(Connection(f"sqlite:///{tmp_path}/w.db"))
    assert caught.value.code == "database_not_served"
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_without_a_state_is_not_called_silence():
    assert reason_of(sa.exc.CompileError("poison")) == "the database or its driver failed (CompileError)"
    lost = sa.exc.OperationalError("poison", None, psycopg.OperationalError("poison"))
    assert reason_of(lost) == "there is no answer (OperationalError)"


@pytest.mark.parametrize(
    ("url", "missing"), [("snowflake://u@account/d", "snowflake"), ("mysql+pymysql://u@h/d", "pymysql")]
)
def test_a_driver_that_is_missing_is_refused(url, missing):
    with pytest.raises(SetupRefused, match=missing) as caught:
        opened(Connection(url))
    assert caught.value.code == "driver_missing"


@pytest.mark.parametrize(
    ("module", "url", "extra"),
    [("psycopg", "postgresql+psycopg://u@h/d", "postgres"), ("duckdb", "duckdb:///w.db", "duckdb")],
)
def test_an_extra_that_is_missing_is_refused_by_its_name(monkeypatch, module, url, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetupRefused) as caught:
        opened(Connection(url))
    assert (caught.value.code, extra in caught.value.way_out) == ("extra_missing", True)


def test_an_unknown_connection_names_the_nearest():
    spec = SinkSpec(sink="sql", connection="warehous", table="t")
    with pytest.raises(SetupRefused, match="did you mean 'warehouse'"):
        open_sink(spec, Reach({"warehouse": Connection("duckdb:///x")}, spark_table=None))
