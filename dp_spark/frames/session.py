"""Spark sessions: one that dp_spark starts, and what it pins or refuses on any other."""

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from dp_spark.errors import SetupRefused

# The same answers on every Spark line: no local time zone, no dialect that differs by version.
TIME_ZONE = "spark.sql.session.timeZone"
_OF_FRAMES = {TIME_ZONE: "UTC", "spark.sql.ansi.enabled": "true"}
PINNED = {
    **_OF_FRAMES,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows have a bounded size here; to ask for the bytes of a batch after every row takes most of the time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # The name of a directory is a text: one more directory must not turn `01` into 1 for everybody.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # An old date is a date, not a reason to fail.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # A file that is missing or damaged is a failure, and not fewer rows.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # The name of a column is a name, whatever stands in it.
    "spark.sql.variable.substitute": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.retainGroupColumns": "true",
}
_LOGGING = Path(__file__).with_name("log4j2.properties")
DEFAULTS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
    "spark.sql.shuffle.partitions": "16",
}
WORKERS_PYTHON = "spark.pyspark.python"
# Engines that replace Spark's own operators may add, compare or retry differently.
UNKNOWN_ENGINE = ("spark.plugins", "spark.sql.extensions")
# The server of Spark Connect is a plugin; it hands plans to Spark's own operators.
_CONNECT_SERVER = "org.apache.spark.sql.connect.SparkConnectPlugin"
# pyspark sets it when it has started the server itself, for a master such as local[2].
_OWN_SERVER = "SPARK_LOCAL_REMOTE"
# Spark prints the cell that failed a cast through these loggers, whatever its log level.
_CELL_PRINTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def start_session(settings: Mapping[str, str]) -> SparkSession:
    """The running session, or a new one with `settings` over our defaults.

    Raises:
        SetupRefused: Spark or Java is missing, or the engine is not one that dp_spark knows.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    session = SparkSession.getActiveSession()
    if session is None:
        session = _new_session(settings)
    refuse_unknown_engine(session)
    silence_cell_printing_loggers()
    return session


def _new_session(settings: Mapping[str, str]) -> SparkSession:
    # spark-submit has chosen master and memory; a Connect server has, or starts, a master of its own.
    elsewhere = "PYSPARK_GATEWAY_PORT" in os.environ or "spark.remote" in settings
    defaults = {key: value for key, value in DEFAULTS.items() if not (elsewhere and key == "spark.master")}
    chosen = {**defaults, **settings, **PINNED}
    if chosen.get("spark.remote", chosen.get("spark.master", "")).startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if WORKERS_PYTHON in settings:
        # Only Spark's launcher reads the setting; whoever starts a session from Python says it so.
        os.environ["PYSPARK_PYTHON"] = settings[WORKERS_PYTHON]
    builder = SparkSession.builder.appName("dp_spark")
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        with warnings.catch_warnings():
            # A Connect server keeps what it was started with, and pyspark warns of each such setting.
            warnings.filterwarnings("ignore", "Failed to set ", UserWarning)
            return builder.getOrCreate()
    except Exception as failure:
        raise SetupRefused(
            "spark_did_not_start",
            f"no Spark session could be started ({_class_of(failure)})",
            way_out="run `dp-spark doctor`; check Java 17+, JAVA_HOME, that the master answers, the files of "
            "--archives, --files and --jars, and the [spark] table of the profile",
        ) from failure


def _class_of(failure: Exception) -> str:
    """Of the failure, or of Java's own: no text of it."""
    own = getattr(failure, "java_exception", None)
    try:
        return type(failure).__name__ if own is None else str(own.getClass().getName())
    except Exception:  # noqa: BLE001  # Java may be gone
        return type(failure).__name__


def refuse_unknown_engine(spark: SparkSession) -> None:
    """Refuse a session whose operators are not Spark's own.

    Raises:
        SetupRefused: a plugin or an extension is configured.
    """
    for key in UNKNOWN_ENGINE:
        if spark.conf.get(key, None) not in (None, "", _CONNECT_SERVER):
            raise SetupRefused(
                "unknown_engine",
                f"{key} is set: an accelerated engine may bound or add differently from Spark's own",
                way_out=f"run releases and surveys in a session without {key}",
            )


def require_one_machine(spark: SparkSession) -> None:
    """Refuse a session whose tasks or drivers may run elsewhere, for a ledger that is a file on this machine.

    A server of Spark Connect counts only where this process has started it: an address does not say where
    else its clients, each a writer of the ledger, run.

    Raises:
        SetupRefused: the master is neither `local` nor `local-cluster`.
    """
    elsewhere = "connect" in type(spark).__module__ and _OWN_SERVER not in os.environ
    master = "a Connect server" if elsewhere else spark.conf.get("spark.master", None) or "unknown"
    if elsewhere or re.fullmatch(r"local(-cluster)?(\[.*\])?", master) is None:
        raise SetupRefused(
            "ledger_of_one_machine",
            f"the ledger is an SQLite file of this machine, but the Spark master is {master}",
            way_out="keep the ledger in PostgreSQL (ledger_url in the profile), or run Spark on local[*]; "
            "nothing was charged",
        )


def silence_cell_printing_loggers() -> None:
    """Switch off the loggers of pyspark 4 that print cell values of failed expressions."""
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415
    except ImportError:  # pyspark 3.5 has none
        return
    for name in _CELL_PRINTING_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def pinned(spark: SparkSession, *, frame_given: bool = False) -> Iterator[None]:
    """Hold the settings that answers depend on; the session gets its own back afterwards.

    A given frame keeps the time zone and the dialect that it was made for: under others its rows could be
    others, or fail. What we add to it gives the same under either dialect.

    pyspark's warnings are held back meanwhile: 3.5 warns with the text of a failure, which may quote rows.
    """
    wanted = {key: value for key, value in PINNED.items() if not (frame_given and key in _OF_FRAMES)}
    with held(spark, wanted), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"pyspark\b")
        yield


@contextmanager
def held(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Hold settings of a session, which gets its own back afterwards."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, own in before.items():
            if own is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, own)
