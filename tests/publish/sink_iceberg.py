"""The Iceberg sink, for the contract test."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
import pytest
from sink_worlds import Boundary, die_in, file_instead

from dp_spark.publish import Part, Reach, Sink, open_sink
from dp_spark.release.profile import Connection
from dp_spark.release.spec import SinkSpec

TABLE = "public.flights"


@dataclass(frozen=True)
class IcebergWorld:
    place: Path
    boundaries: ClassVar[Sequence[Boundary]] = (
        Boundary("before the rows are written", placed=False),
        Boundary("before the commit", placed=False),
        Boundary("before the switch", placed=False),
        Boundary("after the commit", placed=True),
    )
    has_processes: ClassVar[bool] = True
    lost: ClassVar[tuple[type[Exception], ...]] = ()
    is_atomic: ClassVar[bool] = True

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        return cls(place)

    @property
    def database(self) -> Path:
        return self.place / "catalog.db"

    def open(self) -> Sink:
        options = {"warehouse": str(self.place / "warehouse")}
        connection = Connection(f"sqlite:///{self.database}", options=options)
        spec = SinkSpec.model_validate({"sink": "iceberg", "connection": "lake", "table": TABLE})
        return open_sink(spec, Reach({"lake": connection}, NotImplemented))

    def catalog(self):
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog("lake", uri=f"sqlite:///{self.database}", warehouse=str(self.place / "warehouse"))

    def table(self) -> pa.Table:
        with self.catalog() as catalog:
            found = catalog.load_table(TABLE).scan().to_arrow()
        texts = [pa.string() if pa.types.is_large_string(kind) else kind for kind in found.schema.types]
        return found.cast(pa.schema(zip(found.column_names, texts, strict=True)))

    def labels(self, part: Part) -> Mapping[str, str]:
        with self.catalog() as catalog:
            properties = catalog.load_table(TABLE).properties
        return json.loads(properties.get(f"dp_spark.part.{part.value}", "{}"))

    def comments(self) -> Mapping[str, str]:
        with self.catalog() as catalog:
            table = catalog.load_table(TABLE)
        return {**{field.name: field.doc for field in table.schema().fields}, "": table.properties["comment"]}

    def state(self) -> object:
        files = [each for each in self.place.rglob("*") if each.is_file() and each != self.database]
        return sorted((str(each), each.stat().st_mtime_ns) for each in files)

    def add_strangers(self, table: pa.Table) -> None:
        with self.catalog() as catalog:
            catalog.create_namespace_if_not_exists("public")
            catalog.create_table_if_not_exists(TABLE, table.schema).append(table)

    def down(self) -> AbstractContextManager[None]:
        return file_instead(self.database, as_directory=True)

    def die_at(self, boundary: str) -> None:
        from pyiceberg.catalog.sql import SqlCatalog
        from pyiceberg.io import pyarrow as io
        from sqlalchemy import orm

        switch = {
            "before the rows are written": (io, "_dataframe_to_data_files", True),
            "before the commit": (SqlCatalog, "commit_table", True),
            "before the switch": (orm.Session, "commit", True),
            "after the commit": (SqlCatalog, "commit_table", False),
        }
        owner, name, before = switch[boundary]
        die_in(owner, name, before=before)
