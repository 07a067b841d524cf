"""A release of a frame through Spark Connect, twice; prints, as JSON, what the session and the ledger say.

A process of its own, because it cannot have a Connect session beside another one. The working directory has
a ledger with a budget.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from dp_spark import Release

PATIENCE = 120.0
SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = start_server(port)
    try:
        wait_for(server, port)
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        try:
            print(json.dumps(released(spark)))
        finally:
            spark.stop()  # before its server ends, or it would wait for it
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def released(spark: SparkSession) -> dict[str, object]:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = [spark.conf.get(name) for name in SETTINGS]
    frame = spark.createDataFrame(
        [(f"p{i % 50}", "ab"[i % 2], float(i)) for i in range(200)], "p string, g string, v double"
    )
    release = (
        Release.named("visits")
        .of_units("p")
        .bounded(max_groups=2, max_rows_per_group=2)
        .where("v < 150")
        .grouped_by("g", public=["a", "b"])
        .count("rows")
        .sum("total", "v", lower=0, upper=200)
        .guaranteed(epsilon=1, delta="1e-6")
        .paid_by("people")
        .published(parquet="out")
    )
    first, again = (release.run(spark, frame, key="2024-03-01") for _ in range(2))
    return {
        "kind": type(frame).__module__,
        "charged": [result.charged is not None for result in (first, again)],
        "digests": [result.digest for result in (first, again)],
        "groups": first.table["g"].to_pylist(),
        "rows": first.table["rows"].to_pylist(),
        "settings_kept": [spark.conf.get(name) for name in SETTINGS] == before,
    }


def start_server(port: int) -> "subprocess.Popen[bytes]":
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
    }
    command += [f"--conf={name}={value}" for name, value in settings.items()]
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment = {**os.environ, **own}
    with Path("server.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "spark-internal"], stdout=log, stderr=log, env=environment, start_new_session=True
        )


def wait_for(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert server.poll() is None, Path("server.log").read_text()[-2000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(Path("server.log").read_text()[-2000:])


if __name__ == "__main__":
    main()
