"""The Delta sink, for the contract test."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa
import pytest
from sink_worlds import Boundary, die_in, file_instead

from dp_spark.publish import Part, Reach, Sink, open_sink
from dp_spark.release.spec import SinkSpec


@dataclass(frozen=True)
class DeltaWorld:
    root: Path
    boundaries: ClassVar[Sequence[Boundary]] = (
        Boundary("before the commit", placed=False),
        Boundary("after the commit", placed=True),
    )
    has_processes: ClassVar[bool] = True
    lost: ClassVar[tuple[type[Exception], ...]] = ()
    is_atomic: ClassVar[bool] = True

    @classmethod
    def made(cls, place: Path, request: pytest.FixtureRequest) -> Self:
        return cls(place / "out")

    def open(self) -> Sink:
        spec = SinkSpec.model_validate({"sink": "delta", "path": str(self.root)})
        return open_sink(spec, Reach({}, NotImplemented))

    def table(self) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(self.root).to_pyarrow_table()

    def labels(self, part: Part) -> Mapping[str, str]:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(str(self.root)):
            return {}
        named = f"{part.column}={part.value}"
        commits = (each for each in DeltaTable(self.root).history() if each.get("dp_spark.part") == named)
        return next(commits, {})

    def comments(self) -> Mapping[str, str]:
        from deltalake import DeltaTable

        table = DeltaTable(self.root)
        columns = {field.name: field.metadata.get("comment") for field in table.schema().fields}
        return {name: text for name, text in {**columns, "": table.metadata().description}.items() if text}

    def state(self) -> object:
        return sorted((str(each), each.stat().st_mtime_ns) for each in self.root.rglob("*"))

    def add_strangers(self, table: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.root, table, mode="append", partition_by=["period_start"])

    def down(self) -> AbstractContextManager[None]:
        return file_instead(self.root)

    def die_at(self, boundary: str) -> None:
        import deltalake

        die_in(deltalake, "write_deltalake", before=boundary == "before the commit")
