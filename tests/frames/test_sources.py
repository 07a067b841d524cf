"""Inputs as they lie on disk: what one file or directory more may never change for everybody else."""

import csv
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from dp_spark.errors import InputRefused
from dp_spark.frames.column_checks import check_columns
from dp_spark.frames.session import pinned
from dp_spark.frames.sources import open_source
from dp_spark.queries import Bounds, ClampedColumn, Edges, Listed, Measure, MeasureKind, Total
from dp_spark.release.spec import InputSpec, ReleaseSpec

SECRET = "SECRETPERSON"


def parquet(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def lines(path: Path, *rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


def opened(spark: SparkSession, path: Path, kind: str = "parquet") -> DataFrame:
    with pinned(spark):
        return open_source(spark, InputSpec(format=kind, path=str(path)))


def release_spec(**changes: Any) -> ReleaseSpec:
    base: dict[str, Any] = {
        "release": "trial",
        "input": {"format": "parquet", "path": "in"},
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": 1, "max_rows_per_group": 1},
        "group_by": ["town"],
        "groups": {"public": ["a"]},
        "guarantee": {"epsilon": 1, "delta": "1e-6"},
        "queries": [{"name": "n", "kind": "count"}],
        "budget": {"population": "p"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }
    return ReleaseSpec(**{**base, **changes})


@dataclass(frozen=True)
class Asked:
    """A question that needs one total of a measure."""

    measure: Measure

    def totals(self, bounds: Bounds) -> tuple[Total, ...]:
        return (Total("total", self.measure, Fraction(1), 1, 1, 1, 0),)


def refusal(spark: SparkSession, path: Path, kind: str = "parquet") -> InputRefused:
    with pytest.raises(InputRefused) as caught:
        opened(spark, path, kind)
    assert SECRET not in str(caught.value)
    return caught.value


def test_a_directory_more_does_not_turn_01_into_1_or_back(spark: SparkSession, tmp_path: Path) -> None:
    for town in ("01", "02"):
        parquet(tmp_path / f"town={town}" / "r.parquet", person=["p"])
    before = {row.town for row in opened(spark, tmp_path).collect()}
    parquet(tmp_path / "town=x" / "r.parquet", person=["q"])
    after = {row.town for row in opened(spark, tmp_path).collect()}
    assert (before, after) == ({"01", "02"}, {"01", "02", "x"})


def test_files_beside_partition_directories_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "r.parquet", person=["p"])
    parquet(tmp_path / f"person={SECRET}" / "r.parquet", town=["a"])
    assert refusal(spark, tmp_path).code == "input_mixed"


def test_directories_that_shadow_a_column_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "person=q" / "r.parquet", person=["p"], town=["a"])
    assert refusal(spark, tmp_path).code == "input_mixed"


def test_directories_above_the_input_name_no_columns(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "town=a" / "in" / "r.parquet", person=["p"], town=["b"])
    assert [row.town for row in opened(spark, tmp_path / "town=a" / "in").collect()] == ["b"]


def test_files_of_other_types_are_refused_when_they_are_opened(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", person=["p"], x=[1.5])
    parquet(tmp_path / "b.parquet", person=["p"], x=["text"])
    assert refusal(spark, tmp_path).code == "input_not_readable"


def test_a_file_that_is_no_parquet_is_refused_when_it_is_opened(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", person=["p"])
    (tmp_path / "b.parquet").write_text(SECRET * 10)
    assert refusal(spark, tmp_path).code == "input_not_readable"


def test_a_column_that_some_files_lack_is_null_there(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", person=["p"])
    parquet(tmp_path / "b.parquet", person=["q"], x=[1.5])
    assert {(row.person, row.x) for row in opened(spark, tmp_path).collect()} == {("p", None), ("q", 1.5)}


def test_nanoseconds_are_named_as_the_likely_reason(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "r.parquet")
    assert "nanoseconds" in refusal(spark, tmp_path).way_out


def test_a_quoted_line_end_is_no_new_row(spark: SparkSession, tmp_path: Path) -> None:
    forged = "x\n" + "\n".join(f"forged{i},a" for i in range(1000))
    lines(tmp_path / "r.csv", ["person", "town"], ["p", "a"], [forged, "a"], ['say "hi", \\', "b"])
    rows = opened(spark, tmp_path, "csv").collect()
    assert {(row.person, row.town) for row in rows} == {("p", "a"), (forged, "a"), ('say "hi", \\', "b")}


def test_a_row_of_very_many_fields_changes_nothing_for_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines(tmp_path / "r.csv", ["person", "town"], ["p", "a"], ["q"] + [""] * 30_000)
    assert [row.person for row in opened(spark, tmp_path, "csv").collect()] == ["p", "q"]


def test_csv_files_with_other_headers_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "a.csv", ["person", "town"], ["p", "a"])
    lines(tmp_path / "b.csv", ["town", "person"], ["a", "p"])
    assert refusal(spark, tmp_path, "csv").code == "input_mixed"


def test_a_csv_file_without_header_shows_no_row(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "a.csv", [SECRET, "a"], ["q", "b"])
    spec = release_spec(
        input={"format": "csv", "path": str(tmp_path)}, unit={"column": SECRET[:-1], "on_null": "drop"}
    )
    with pytest.raises(InputRefused) as caught:
        check_columns(opened(spark, tmp_path, "csv"), spec)
    assert SECRET not in str(caught.value)


def test_each_column_is_checked_for_what_its_query_reads_of_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Presence is read of any type, numbers and weights of numbers and texts, listed texts of keys."""
    schema = "person string, town string, v {}, w {}"
    of, weight = (ClampedColumn(name, Fraction(0), Fraction(1), Fraction(1)) for name in "vw")
    asked = {
        "presence": Measure(MeasureKind.NON_NULL, replace(of, presence=True)),
        "number": Measure(MeasureKind.VALUE, of, weight),
        "bin": Measure(MeasureKind.BIN, binning=Edges("v", (Fraction(0), Fraction(1)))),
        "listed": Measure(MeasureKind.DISTINCT, binning=Listed("v", ("x",))),
    }
    spec = release_spec(queries=[{"name": "s", "kind": "sum", "column": "v", "lower": 0, "upper": 1}])
    refused: dict[str, list[str]] = {}
    told = set()
    for name, measure in asked.items():
        monkeypatch.setattr("dp_spark.frames.column_checks.query_of", lambda entry, spec, m=measure: Asked(m))
        for kind in ("double", "string", "date", "array<int>"):
            try:
                check_columns(spark.createDataFrame([], schema.format(kind, "string")), spec)
            except InputRefused as refusal:
                told.add("queries[0].column = 'v': is" in refusal.message)
                refused.setdefault(name, []).append(kind)
    assert told == {True}
    assert refused == {
        "number": ["date", "array<int>"],
        "bin": ["date", "array<int>"],
        "listed": ["double", "array<int>"],
    }
