"""Public samples from files: what counts, as the engine has it, and what is refused."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dp_spark.errors import InputRefused
from dp_spark.frames.public_sample import read_sample
from dp_spark.release.spec import ReleaseSpec
from dp_spark.release.trial import Sample

NUMBERS = ["5", " 5.5 ", ".5", "5.", "+7", "-1e2", "1E+3", "2d", "3F", "inf", "-Infinity", "nan", "x", "1,5"]


def spec(**changed: Any) -> ReleaseSpec:
    written: dict[str, Any] = {
        "release": "visits",
        "input": {"format": "parquet", "path": "protected"},
        "unit": {"column": "person", "on_null": "drop"},
        "bounds": {"max_groups": 1, "max_rows_per_group": 1},
        "group_by": ["place"],
        "groups": {"public": ["a", "caf\u00e9"]},
        "guarantee": {"epsilon": 1, "delta": "1e-6"},
        "queries": [{"name": "spent", "kind": "sum", "column": "euros", "lower": 0, "upper": 100}],
        "budget": {"population": "town_people"},
        "publish": [{"sink": "parquet", "path": "out"}],
    }
    return ReleaseSpec(**{**written, **changed})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ROWS = {
    "person": ["p", "q", "p", None, "r"],
    "place": ["a", "cafe\u0301", "b", "a", "a"],
    "euros": list("12345"),
}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_count_that_have_a_unit_and_a_released_group(home: Path, suffix: str) -> None:
    table, path = pa.table(ROWS), home / f"rows.{suffix}"
    (pv.write_csv if suffix == "csv" else pq.write_table)(table, path)
    found = read_sample(path, spec(), 0.5)
    assert found.group.tolist() == [0, 1, 0]
    assert len(set(found.unit.tolist())) == 3
    assert found.numbers["euros"].tolist() == [1, 2, 5]
    assert (found.groups, found.rate) == (2, 0.5)


def test_texts_are_numbers_where_the_engine_reads_them_so(home: Path, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text in NUMBERS], "euros string")
    engine = [row[0] for row in rows.selectExpr("try_cast(euros AS DOUBLE)").collect()]
    path = home / "rows.parquet"
    pq.write_table(pa.table({"person": NUMBERS, "place": ["a"] * len(NUMBERS), "euros": NUMBERS}), path)
    found = read_sample(path, spec(), 1.0).numbers["euros"]
    assert np.array_equal(found, [np.nan if each is None else each for each in engine], equal_nan=True)


def test_a_unit_of_a_day_is_one_on_each(home: Path) -> None:
    asked = spec(
        unit={"column": "person", "on_null": "drop", "per": "day"},
        period={"column": "at", "every": "week", "timezone": "America/New_York"},
    )
    at = [datetime(2013, 1, 7, hour, tzinfo=UTC) for hour in (3, 4, 6)]  # midnight there is 5 here
    path = home / "rows.parquet"
    for column in (
        pa.array(at, pa.timestamp("us", "UTC")),
        pa.array([date(2013, 1, day) for day in (6, 6, 7)]),
    ):
        pq.write_table(
            pa.table({"person": ["p"] * 3, "place": ["a"] * 3, "euros": [1] * 3, "at": column}), path
        )
        unit = read_sample(path, asked, 1.0).unit.tolist()
        assert unit[0] == unit[1] != unit[2]


def test_a_row_as_unit_needs_no_column(home: Path) -> None:
    path = home / "rows.parquet"
    pq.write_table(pa.table({"place": ["a", "a"], "euros": [1.5, None]}), path)
    found: Sample = read_sample(path, spec(unit={"row": "true"}, bounds=None), 1.0)
    assert found.unit.tolist() == [0, 1]
    assert np.isnan(found.numbers["euros"]).tolist() == [False, True]


def test_groups_that_the_spec_does_not_list_are_those_of_the_sample(home: Path) -> None:
    pq.write_table(pa.table(ROWS), home / "rows.parquet")
    found = read_sample(home / "rows.parquet", spec(groups={"private": {"select": "optimal"}}), 1.0)
    assert (found.groups, found.group.tolist()) == (3, [0, 2, 1, 0])


@pytest.mark.parametrize(
    "path", ["protected", "file:{home}/protected", "{home}/prot*", "protected/rows.parquet"]
)
def test_the_protected_rows_are_no_sample(home: Path, path: str) -> None:
    (home / "protected").mkdir()
    pq.write_table(pa.table(ROWS), home / "protected" / "rows.parquet")
    os.symlink(home / "protected" / "rows.parquet", home / "link.parquet")
    os.link(home / "protected" / "rows.parquet", home / "other.parquet")
    asked = spec(input={"format": "parquet", "path": path.format(home=home)})
    samples = ["protected/rows.parquet", "link.parquet", *(["other.parquet"] if "." in path else [])]
    for sample in samples:
        with pytest.raises(InputRefused, match="would leak them") as refusal:
            read_sample(Path(sample), asked, 1.0)
        assert refusal.value.code == "sample_is_private"


def test_missing_columns_are_named_with_the_nearest_and_with_what_derives_them(home: Path) -> None:
    pq.write_table(pa.table({"persom": ["p"], "place": ["a"]}), home / "rows.parquet")
    derived = {"euros": {"sql": "cents / 100", "default": 0}}
    with pytest.raises(InputRefused, match=r"did you mean 'persom'(.|\n)*derive") as refusal:
        read_sample(home / "rows.parquet", spec(derive=derived), 1.0)
    assert refusal.value.code == "sample_columns"


@pytest.mark.parametrize(
    ("content", "code"), [("person,place,euros\n", "sample_empty"), ("", "sample_not_readable")]
)
def test_a_file_without_rows_or_without_anything_is_refused(home: Path, content: str, code: str) -> None:
    (home / "rows.csv").write_text(content)
    with pytest.raises(InputRefused) as refusal:
        read_sample(home / "rows.csv", spec(), 1.0)
    assert refusal.value.code == code


def test_a_file_that_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(InputRefused, match="FileNotFoundError"):
        read_sample(home / "rows.csv", spec(), 1.0)
