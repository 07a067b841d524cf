"""The sink of a table in Spark's built-in catalog, for the contract test."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from sink_worlds import Boundary

from dp_spark.frames.collect import to_arrow
from dp_spark.frames.spark_table import SparkTable
from dp_spark.publish import Part, Reach, Sink, open_sink
from dp_spark.publish.catalog import _labels
from dp_spark.release.spec import SinkSpec


@dataclass
class TableWorld:
    """A table in a database of its own, whose files are in a directory of its own."""

    spark: SparkSession
    database: str
    warehouse: Path
    is_down: bool = field(default=False)
    boundaries: ClassVar[Sequence[Boundary]] = ()
    has_processes: ClassVar[bool] = False  # the catalog is in the memory of this one
    lost: ClassVar[tuple[type[Exception], ...]] = ()
    is_atomic: ClassVar[bool] = False  # files are deleted, then others renamed

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        spark: SparkSession = request.getfixturevalue("spark")
        database = f"w{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
        spark.sql(f"CREATE DATABASE {database} LOCATION '{place}'")
        request.addfinalizer(lambda: spark.sql(f"DROP DATABASE {database} CASCADE"))
        return cls(spark, database, place)

    @property
    def name(self) -> str:
        return f"{self.database}.flights"

    def session(self) -> SparkSession:
        if self.is_down:
            raise ConnectionError("g0")
        return self.spark

    def open(self) -> Sink:
        spec = SinkSpec.model_validate({"sink": "table", "table": self.name})
        return open_sink(spec, Reach({}, lambda table: SparkTable(table, self.session)))

    def table(self) -> pa.Table:
        return to_arrow(self.spark.table(self.name))

    def labels(self, part: Part) -> Mapping[str, str]:
        return _labels(SparkTable(self.name, self.session).properties(), "dp_spark.part.", part) or {}

    def comments(self) -> Mapping[str, str]:
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        columns = {row[0]: row[2] for row in rows[: [row[0] for row in rows].index("")] if row[2]}
        return {**columns, "": next(row[1] for row in rows if row[0] == "Comment")}

    def state(self) -> object:
        files = sorted((str(each), each.stat().st_mtime_ns) for each in self.warehouse.rglob("*"))
        if not self.spark.catalog.tableExists(self.name):
            return files
        return (
            files,
            SparkTable(self.name, lambda: self.spark).properties(),
            self.spark.table(self.name).schema,
        )

    def add_strangers(self, table: pa.Table) -> None:
        frame = self.spark.createDataFrame(table.to_pandas())
        frame.write.format("parquet").partitionBy("period_start").saveAsTable(self.name)

    @contextmanager
    def down(self) -> Iterator[None]:
        self.is_down = True
        yield
        self.is_down = False

    def die_at(self, boundary: str) -> None:
        raise NotImplementedError

    def __getstate__(self) -> Any:
        raise NotImplementedError
