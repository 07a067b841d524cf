"""When the newest rows of an input were written: by its files, or by a log in which upkeep does not count."""

import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dp_spark.errors import InputRefused
from dp_spark.frames.source_age import written_at
from dp_spark.release.iceberg_catalog import IcebergCatalog
from dp_spark.release.profile import Connection
from dp_spark.release.spec import InputSpec

ROWS = pa.table({"person": ["a", "b"]})


def age(source: InputSpec, connections: dict[str, Connection] | None = None) -> dt.datetime | None:
    return written_at(source, connections or {})


def file(path: Path, year: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, path)
    moment = dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()
    os.utime(path, (moment, moment))


def files(path: Path | str, **more: Any) -> InputSpec:
    return InputSpec(format="parquet", path=str(path), **more)


def test_of_files_the_newest_that_spark_reads_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, year in {
        "at=1/x": 2020,
        "at=2/y": 2022,
        "_SUCCESS": 2030,
        ".tmp/z": 2031,
        "_t/z": 2032,
    }.items():
        file(tmp_path / "in" / name, year)
    monkeypatch.chdir(tmp_path)
    for path in ("in", tmp_path / "in", f"file://{tmp_path}/in", "in/at=*", "in/at=2/y"):
        assert age(files(path)) == dt.datetime(2022, 1, 1, tzinfo=dt.UTC)
    assert age(files("in/at=1")) == dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def test_where_there_are_no_files_nothing_was_written(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert age(files(tmp_path / "in")) is None
    assert age(files(tmp_path / "elsewhere")) is None


class Moments:
    """When things were done, each told apart from the next by a pause."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def of(self, action: Callable[[], object]) -> None:
        start = time.time()
        action()
        self._spans.append((start, time.time()))
        time.sleep(0.01)

    def which(self, found: dt.datetime | None) -> list[int]:
        """What was done at this moment, which logs know to a millisecond."""
        assert found is not None
        seconds = found.timestamp()
        return [i for i, (start, end) in enumerate(self._spans) if start - 0.001 <= seconds <= end]


def test_of_a_delta_table_the_newest_commit_of_rows_counts(tmp_path: Path) -> None:
    place, done = tmp_path / "in", Moments()
    for _ in range(3):
        done.of(lambda: write_deltalake(place, ROWS, mode="append"))
    done.of(DeltaTable(place).optimize.compact)
    done.of(lambda: DeltaTable(place).vacuum(0, dry_run=False, enforce_retention_duration=False))
    table = InputSpec(format="delta", path=str(place))
    assert done.which(age(table)) == [2]
    assert done.which(age(table.model_copy(update={"version": 1}))) == [1]
    with pytest.raises(InputRefused, match="no Delta table"):
        age(InputSpec(format="delta", path=str(tmp_path)))


def test_of_an_iceberg_table_the_newest_snapshot_counts(tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    options = {"warehouse": f"file://{tmp_path}/warehouse"}
    lake = {"lake": Connection(f"sqlite:///{tmp_path}/catalog.db", options=options)}
    source, done = InputSpec(format="iceberg", connection="lake", table="db.visits"), Moments()
    with IcebergCatalog("lake", lake["lake"]).opened(makes=True) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.visits", ROWS.schema)
        assert age(source, lake) is None
        for _ in range(2):
            done.of(lambda: table.append(ROWS))
        assert done.which(age(source, lake)) == [1]
        first = table.refresh().metadata.snapshots[0].snapshot_id
        assert done.which(age(source.model_copy(update={"version": first}), lake)) == [0]
