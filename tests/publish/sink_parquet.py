"""The Parquet sink, for the contract test."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sink_worlds import Boundary, die_in, loop_instead

from dp_spark.publish import Part, Reach, Sink, open_sink, parquet
from dp_spark.release.spec import SinkSpec


@dataclass(frozen=True)
class ParquetWorld:
    root: Path
    boundaries: ClassVar[Sequence[Boundary]] = (
        Boundary("before the rename", placed=False),
        Boundary("after the rename", placed=True),
        Boundary("before tidying", placed=True),
    )
    has_processes: ClassVar[bool] = True
    lost: ClassVar[tuple[type[Exception], ...]] = (FileNotFoundError,)
    is_atomic: ClassVar[bool] = True

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        return cls(place / "out")

    def open(self) -> Sink:
        spec = SinkSpec.model_validate({"sink": "parquet", "path": str(self.root)})
        return open_sink(spec, Reach({}, NotImplemented))

    def table(self) -> pa.Table:
        files = sorted(self.root.rglob("*.parquet"))
        parts = [file.parent.name.partition("=") for file in files]
        kinds = {"period_start": pa.date32(), "wave": pa.string()}
        tables = [
            pq.read_table(file, partitioning=None).append_column(
                column, pc.cast(pa.repeat(value, pq.read_metadata(file).num_rows), kinds[column])
            )
            for file, (column, _, value) in zip(files, parts, strict=True)
        ]
        return pa.concat_tables(tables, promote_options="default")

    def labels(self, part: Part) -> Mapping[str, str]:
        file = self.root / f"{part.column}={part.value}" / "part-0.parquet"
        kept = pq.read_metadata(file).metadata if file.exists() else {}
        return {key.decode(): value.decode() for key, value in kept.items() if key.startswith(b"dp_spark.")}

    def comments(self) -> Mapping[str, str]:
        schema = ds.dataset(self.root).schema
        return {field.name: field.metadata[b"comment"].decode() for field in schema if field.metadata}

    def state(self) -> object:
        return sorted((str(each), each.stat().st_mtime_ns) for each in self.root.rglob("*"))

    def add_strangers(self, table: pa.Table) -> None:
        ds.write_dataset(
            table,
            self.root,
            format="parquet",
            partitioning=ds.partitioning(pa.schema([table.schema.field("period_start")]), flavor="hive"),
            existing_data_behavior="overwrite_or_ignore",
        )

    def down(self) -> AbstractContextManager[None]:
        return loop_instead(self.root)

    def die_at(self, boundary: str) -> None:
        if boundary == "before tidying":
            die_in(parquet, "_tidy", before=True)
        else:
            die_in(os, "rename", before=boundary == "before the rename")
