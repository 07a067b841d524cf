"""Inputs in PostgreSQL, through the JDBC reader of a Spark that has its driver."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import REQUIRED, Server

from dp_spark.errors import SetupRefused
from dp_spark.frames.sources import open_source
from dp_spark.release.profile import Connection
from dp_spark.release.spec import InputSpec

JAR = Path(os.environ.get("DP_SPARK_POSTGRES_JAR", "/usr/share/java/postgresql.jar"))
SOURCE = InputSpec(format="jdbc", connection="shop", table="Visits")
# A session of its own: the driver has to be among the jars that it starts with.
READ = """
import sys
from pathlib import Path

import dp_spark.frames.session as sessions
from dp_spark.errors import Refusal
from dp_spark.frames.sources import open_source
from dp_spark.release.profile import Connection
from dp_spark.release.spec import InputSpec

jar, url, log = sys.argv[1:]
spark = sessions.start_session({
    "spark.master": "local[1]", "spark.jars": jar,
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": log,
    "spark.driver.extraJavaOptions": "-Duser.timezone=America/New_York",
})
shop = {"shop": Connection(url, password="env:SHOP_PASSWORD")}
source = InputSpec(format="jdbc", connection="shop", table="Visits")
with sessions.pinned(spark):
    frame = open_source(spark, source, connections=shop)
    print(frame.dtypes)
    frame.explain(True)
    print("READ", list(map(tuple, frame.selectExpr("person", "string(at)", "string(seen)").collect())))
    for wrong, connections in (("nothing", shop), ("Visits", {"shop": Connection(url.replace("@", "x@"))})):
        try:
            open_source(spark, source.model_copy(update={"table": wrong}), connections=connections)
        except Refusal as refusal:
            print(refusal.code, refusal)
spark.stop()
"""


@pytest.fixture
def jar() -> Path:
    if JAR.is_file():
        return JAR
    reason = f"there is no {JAR}: install the package `libpostgresql-jdbc-java`"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{reason}; {REQUIRED}=1 forbids to skip")
    pytest.skip(reason)


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    name = postgres.new_database()
    yield name
    postgres.drop(name)


def test_rows_are_read_and_the_password_is_nowhere(
    postgres: Server, database: str, jar: Path, tmp_path: Path
) -> None:
    postgres.run(
        'CREATE TABLE "Visits" (person text, at timestamp, seen timestamptz, spent numeric(8, 2), id uuid)',
        database=database,
    )
    postgres.run(
        "INSERT INTO \"Visits\" VALUES ('SECRETPERSON', '2024-03-10 23:30', '2024-03-01 23:00-05', 1.5, "
        "gen_random_uuid()), (NULL, NULL, NULL, NULL, NULL)",
        database=database,
    )
    postgres.run('GRANT SELECT ON "Visits" TO PUBLIC', database=database)
    password, program = secrets.token_hex(8), tmp_path / "read.py"
    program.write_text(READ)
    done = subprocess.run(
        [sys.executable, str(program), str(jar), postgres.url(database), f"file://{tmp_path}"],
        capture_output=True,
        text=True,
        env={**os.environ, "SHOP_PASSWORD": password},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "('at', 'timestamp_ntz'), ('seen', 'timestamp'), ('spent', 'decimal(8,2)')" in done.stdout
    # A timestamp without time zone is a reading of a clock, wherever the JVM is.
    assert "('SECRETPERSON', '2024-03-10 23:30:00', '2024-03-02 04:00:00')" in done.stdout
    assert done.stdout.count("input_not_readable") == 2
    logs = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != program]
    assert len(logs) >= 1
    for told in (done.stdout.encode(), done.stderr.encode(), *logs):
        assert password.encode() not in told


def test_a_spark_without_the_driver_is_refused_with_where_to_get_it(spark) -> None:  # type: ignore[no-untyped-def]
    shop = {"shop": Connection("postgresql+psycopg://reader@127.0.0.1:1/none")}
    with pytest.raises(SetupRefused) as refusal:
        open_source(spark, SOURCE, connections=shop)
    assert (refusal.value.code, "spark.jars" in refusal.value.way_out) == ("jdbc_driver_missing", True)


def test_another_database_is_refused(spark) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SetupRefused) as refusal:
        open_source(spark, SOURCE, connections={"shop": Connection("duckdb:////srv/shop.db")})
    assert refusal.value.code == "connection_not_postgres"
