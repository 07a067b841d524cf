"""Inputs that are tables: what each format reads, at which version, and what it refuses before the charge."""

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame, SparkSession

from dp_spark.errors import InputRefused, Refusal, SetupRefused
from dp_spark.frames.column_checks import check_columns
from dp_spark.frames.session import held, pinned
from dp_spark.frames.source_iceberg import Within
from dp_spark.frames.sources import open_source, source_version
from dp_spark.release.iceberg_catalog import IcebergCatalog
from dp_spark.release.period import PeriodWindow
from dp_spark.release.profile import Connection
from dp_spark.release.source_version import SourceVersion
from dp_spark.release.spec import InputSpec, ReleaseSpec

SECRET = "SECRETPERSON"
ODD = ["a b", "c/d", "x%41", "e=f", "ü", "[z]", "{q}*?", "'\"\\", "", None, "01", "#:^", "日本"]


def delta(path: Path, **more: Any) -> InputSpec:
    return InputSpec(format="delta", path=str(path), **more)


def read(spark: SparkSession, source: InputSpec, **more: Any) -> DataFrame:
    with pinned(spark):
        return open_source(spark, source, **more)


def rows(spark: SparkSession, source: InputSpec, **more: Any) -> list[tuple[Any, ...]]:
    with pinned(spark):
        return sorted(map(tuple, open_source(spark, source, **more).collect()), key=repr)


def refused(action: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        action()
    assert SECRET not in str(caught.value)
    return caught.value


def people(*names: str | None, **more: list[Any]) -> pa.Table:
    return pa.table({"person": pa.array(names, pa.string()), **more})


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, Connection]:
    (tmp_path / "warehouse").mkdir()
    return {
        "lake": Connection(
            f"sqlite:///{tmp_path}/catalog.db", options={"warehouse": f"file://{tmp_path}/warehouse"}
        )
    }


@pytest.fixture
def iceberg(catalog: dict[str, Connection]) -> Iterator[Catalog]:
    with IcebergCatalog("lake", catalog["lake"]).opened(makes=True) as made:
        made.create_namespace("db")
        yield made


LAKE = InputSpec(format="iceberg", connection="lake", table="db.visits")


def test_a_view_of_the_catalog_is_read_and_one_that_is_not_there_is_refused(spark: SparkSession) -> None:
    spark.createDataFrame([("p", 1)], ["person", "n"]).createOrReplaceTempView("some_visits")
    assert rows(spark, InputSpec(format="table", table="some_visits")) == [("p", 1)]
    assert refused(lambda: read(spark, InputSpec(format="table", table="no_visits"))).code == (
        "input_not_readable"
    )


def test_partitions_of_a_delta_table_have_the_values_of_its_log(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in {1} a*"
    table = pa.table(
        {
            "town": pa.array(ODD, pa.string()),
            "day": [dt.date(2024, 1, 1 + i % 2) for i in range(len(ODD))],
            "code": pa.array(range(len(ODD)), pa.int16()),
            "price": pa.array([Decimal("1.50")] * len(ODD), pa.decimal128(5, 2)),
            "yes": [True, *[None] * (len(ODD) - 1)],
            "01": ["01"] * len(ODD),
        }
    )
    write_deltalake(str(root), table, partition_by=["town", "day", "price", "yes"])
    frame = read(spark, delta(root))
    assert dict(frame.dtypes) == {
        "town": "string",
        "day": "date",
        "code": "smallint",
        "price": "decimal(5,2)",
        "yes": "boolean",
        "01": "string",
    }
    asked = DeltaTable(str(root)).to_pyarrow_table()  # of which '' is NULL, as Delta has it
    assert rows(spark, delta(root)) == sorted(
        zip(*(asked[name].to_pylist() for name in table.column_names), strict=True), key=repr
    )


def test_partitions_that_look_like_numbers_stay_texts(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"town": ["01", "1"], "n": [1, 2]}), partition_by=["town"])
    assert rows(spark, delta(tmp_path / "t")) == [("01", 1), ("1", 2)]


def test_a_delta_table_without_files_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), schema=people("p").schema)
    frame = read(spark, delta(tmp_path / "t"))
    assert (frame.count(), frame.columns) == (0, ["person"])


def test_a_delta_table_is_read_at_its_version(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), people("a"))
    first = source_version(delta(path))
    write_deltalake(str(path), people("b"), mode="overwrite")
    assert rows(spark, delta(path)) == [("b",)]
    assert rows(spark, delta(path), version=first) == [("a",)]
    assert rows(spark, delta(path, version=0)) == [("a",)]
    assert (source_version(delta(path)), source_version(delta(path, version=0))) == (
        SourceVersion(1, first.table),  # type: ignore[union-attr]
        first,
    )


def test_partition_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    for at, name in enumerate(("a=b", "_a", ".a")):
        path = tmp_path / str(at)
        write_deltalake(str(path), pa.table({name: ["x", None], "n": [1, 2]}), partition_by=[name])
        assert rows(spark, delta(path)) == [("x", 1), (None, 2)]


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet", "_a/a.parquet", ".a/a.parquet", "a._COPYING_"])
def test_files_that_spark_passes_over_are_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), people("a"))
    moved = path / name
    moved.parent.mkdir(exist_ok=True)
    next(path.glob("*.parquet")).rename(moved)
    altered(path, "add", path=name)
    refusal = refused(lambda: read(spark, delta(path)))
    assert (refusal.code, "passes over" in refusal.message) == ("input_not_supported", True)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_files_that_cannot_be_read_fail_whatever_the_session_ignores(
    spark: SparkSession, tmp_path: Path, kind: str, how: str
) -> None:
    path = tmp_path / "t"
    for name in ("a", "b"):
        write_deltalake(str(path), people(name), mode="append")
    if kind == "parquet":
        shutil.rmtree(path / "_delta_log")
    source = InputSpec(format=kind, path=str(path))
    ignored = {f"spark.sql.files.ignore{each}Files": "true" for each in ("Missing", "Corrupt")}
    with held(spark, ignored), pinned(spark):
        frame = open_source(spark, source)
        file = next(path.glob("*.parquet"))
        if how == "missing":
            file.unlink()
        else:
            file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 8) + b"PAR1")
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|FileNotFound|FILE_NOT_EXIST|Could not read"):
            frame.collect()


def test_a_column_that_was_added_is_null_in_older_files(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, people("a"))
    write_deltalake(path, people("b", n=[1]), mode="append", schema_mode="merge")
    assert rows(spark, delta(tmp_path / "t")) == [("a", None), ("b", 1)]


@pytest.mark.parametrize("how", ["no version", "vacuumed", "made anew"])
def test_a_version_that_is_gone_is_refused(spark: SparkSession, tmp_path: Path, how: str) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), people(SECRET))
    version = source_version(delta(path))
    assert version is not None
    if how == "no version":
        assert refused(lambda: source_version(delta(path, version=7))).code == "version_gone"
        version = SourceVersion(7, version.table)
    elif how == "vacuumed":
        write_deltalake(str(path), people("b"), mode="overwrite")
        DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    else:
        shutil.rmtree(path)
        write_deltalake(str(path), people(SECRET))
    gone = refused(lambda: read(spark, delta(path), version=version))
    assert gone.code == "version_gone"
    assert "the charge stands" in gone.way_out


def altered(path: Path, action: str, /, **changes: Any) -> None:
    """Rewrite one action of the first commit, as another writer would have written it."""
    import json

    log = path / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if action in line:
            line[action] |= changes
    log.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("action", "changes", "why"),
    [
        ("metaData", {"configuration": {"delta.columnMapping.mode": "name"}}, "column mapping"),
        (
            "protocol",
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["typeWidening"],
                "writerFeatures": ["typeWidening"],
            },
            "typeWidening",
        ),
    ],
)
def test_what_spark_would_read_wrong_of_a_delta_table_is_refused(
    spark: SparkSession, tmp_path: Path, action: str, changes: dict[str, Any], why: str
) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), people("a"))
    altered(path, action, **changes)
    refusal = refused(lambda: read(spark, delta(path)))
    assert refusal.code in {"input_not_supported", "input_not_readable"}
    assert why in refusal.message or refusal.code == "input_not_readable"


def test_deletion_vectors_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), people("a", SECRET))
    features = ["deletionVectors"]
    altered(
        path,
        "protocol",
        minReaderVersion=3,
        minWriterVersion=7,
        readerFeatures=features,
        writerFeatures=features,
    )
    assert rows(spark, delta(path)) == [("SECRETPERSON",), ("a",)]  # the feature alone deletes nothing
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 1,
    }
    altered(path, "add", deletionVector=vector)
    assert "deletion vectors" in refused(lambda: read(spark, delta(path))).message


def test_no_delta_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    assert refused(lambda: read(spark, delta(tmp_path / "[1]"))).code == "input_not_readable"
    assert refused(lambda: read(spark, delta(tmp_path / "nothing"))).code == "input_not_readable"


def test_an_iceberg_table_is_read_with_its_deletes_renames_and_partitions(
    spark: SparkSession, iceberg: Catalog, catalog: dict[str, Connection]
) -> None:
    from pyiceberg.transforms import IdentityTransform

    schema = people("a", at=[dt.datetime(2024, 1, 1)], n=[1]).schema
    table = iceberg.create_table("db.visits", schema)
    with table.update_spec() as spec:
        spec.add_field("at", IdentityTransform(), "moment")
        spec.add_field("person", IdentityTransform(), "whose")
    days = [dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 1, 2, 6), dt.datetime(2024, 1, 3)]
    table.append(people("a", "b", None, at=days, n=[1, 2, 3]))
    first = source_version(LAKE, catalog)
    table.delete("n = 2")
    with table.update_schema() as change:
        change.rename_column("n", "times")
    table.append(people("ü", at=days[:1]).append_column("times", pa.array([9])))
    frame = read(spark, LAKE, connections=catalog)
    assert frame.dtypes == [("person", "string"), ("at", "timestamp_ntz"), ("times", "bigint")]
    assert rows(spark, LAKE, connections=catalog) == [
        ("a", days[0], 1),
        ("ü", days[0], 9),
        (None, days[2], 3),
    ]
    assert len(rows(spark, LAKE, connections=catalog, version=first)) == 3


def test_rows_of_an_iceberg_table_within_a_period_are_all_that_is_read(
    spark: SparkSession, iceberg: Catalog, catalog: dict[str, Connection]
) -> None:
    moments = [dt.datetime(2024, 1, day, 4, 30, tzinfo=dt.UTC) for day in (1, 2, 2, 3)]
    table = pa.table(
        {
            "at": moments,
            "seen": pa.array([each.replace(tzinfo=None) for each in moments], pa.timestamp("us")),
            "day": [each.date() for each in moments],
            "text": [each.date().isoformat() for each in moments],
        }
    ).cast(
        pa.schema(
            [
                ("at", pa.timestamp("us", "UTC")),
                ("seen", pa.timestamp("us")),
                ("day", pa.date32()),
                ("text", pa.string()),
            ]
        )
    )
    iceberg.create_table("db.visits", table.schema).append(table)
    for timezone, expected in (("UTC", {"at": 2, "seen": 2, "day": 2, "text": 4}), ("Asia/Tokyo", {"at": 2})):
        window = PeriodWindow(dt.date(2024, 1, 2), dt.date(2024, 1, 3), timezone)
        for column, number in expected.items():
            within = Within(column, window)
            assert len(rows(spark, LAKE, connections=catalog, within=within)) == number


def test_a_rename_after_the_last_snapshot_counts(
    spark: SparkSession, iceberg: Catalog, catalog: dict[str, Connection]
) -> None:
    table = iceberg.create_table("db.visits", people("a").schema)
    empty = source_version(LAKE, catalog)
    assert empty is not None
    assert (empty.number, rows(spark, LAKE, connections=catalog)) == (0, [])
    table.append(people("a"))
    with table.update_schema() as change:
        change.rename_column("person", "who")
    assert read(spark, LAKE, connections=catalog).columns == ["who"]
    assert rows(spark, LAKE, connections=catalog) == [("a",)]
    old = LAKE.model_copy(update={"version": table.refresh().metadata.current_snapshot_id})
    assert read(spark, old, connections=catalog).columns == ["person"]


def test_a_snapshot_that_expired_is_gone(
    spark: SparkSession, iceberg: Catalog, catalog: dict[str, Connection]
) -> None:
    table = iceberg.create_table("db.visits", people("a").schema)
    table.append(people("a"))
    version = source_version(LAKE, catalog)
    assert version is not None
    table.append(people("b"))
    table.maintenance.expire_snapshots().by_id(version.number).commit()
    gone = refused(lambda: read(spark, LAKE, connections=catalog, version=version))
    assert gone.code == "version_gone"
    named = LAKE.model_copy(update={"version": version.number})
    assert refused(lambda: source_version(named, catalog)).code == "version_gone"


def test_workers_are_given_no_password_and_no_catalog(
    spark: SparkSession, iceberg: Catalog, catalog: dict[str, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    from dp_spark.frames import source_iceberg

    iceberg.create_table("db.visits", people("a").schema).append(people(SECRET))
    seen = []
    planned = source_iceberg._planned

    def kept(*given: Any) -> Any:
        seen.append(planned(*given))
        return seen[-1]

    monkeypatch.setattr(source_iceberg, "_planned", kept)
    frame = read(spark, LAKE, connections=catalog)
    assert b"catalog.db" not in pickle.dumps(seen[0])
    assert SECRET not in frame._jdf.queryExecution().toString()


def test_an_unknown_connection_or_table_is_refused(
    spark: SparkSession, catalog: dict[str, Connection]
) -> None:
    assert refused(lambda: read(spark, LAKE)).code == "connection_unknown"
    assert refused(lambda: read(spark, LAKE, connections=catalog)).code == "input_not_readable"


SPEC = {
    "release": "visits",
    "unit": {"column": "person", "on_null": "drop"},
    "bounds": {"max_groups": 1, "max_rows_per_group": 1},
    "group_by": ["town"],
    "groups": {"public": ["a"]},
    "guarantee": {"epsilon": 1, "delta": "1e-6"},
    "queries": [{"name": "n", "kind": "sum", "column": "euros", "lower": 0, "upper": 9}],
    "budget": {"population": "p"},
    "publish": [{"sink": "parquet", "path": "out"}],
}
GOOD = pa.table({"person": ["p"], "town": ["a"], "euros": [1.0]})
CHANGED = {
    "dropped": (GOOD.drop_columns(["euros"]), "no such column"),
    "retyped": (GOOD.set_column(2, "euros", pa.array([True])), "is boolean, must be one of"),
    "renamed": (GOOD.rename_columns(["person", "town", "euro"]), "did you mean 'euro'?"),
}


def stored(kind: str, table: pa.Table, place: Path, spark: SparkSession, lake: Catalog) -> InputSpec:
    """The table as it is now, in one of the formats."""
    match kind:
        case "parquet":
            import pyarrow.parquet as pq

            place.mkdir(exist_ok=True)
            pq.write_table(table, place / "r.parquet")
            return InputSpec(format="parquet", path=str(place))
        case "table":
            spark.createDataFrame(table.to_pandas()).createOrReplaceTempView("changing_visits")
            return InputSpec(format="table", table="changing_visits")
        case "delta":
            write_deltalake(str(place), table, mode="overwrite", schema_mode="overwrite")
            return delta(place)
        case _:
            if lake.table_exists("db.visits"):
                lake.drop_table("db.visits")
            lake.create_table("db.visits", table.schema).append(table)
            return LAKE


@pytest.mark.parametrize("kind", ["parquet", "table", "delta", "iceberg"])
@pytest.mark.parametrize("how", list(CHANGED))
def test_a_column_that_was_changed_is_refused_in_every_format(
    spark: SparkSession,
    tmp_path: Path,
    iceberg: Catalog,
    catalog: dict[str, Connection],
    kind: str,
    how: str,
) -> None:
    table, why = CHANGED[how]
    for each, wrong in ((GOOD, False), (table, True)):
        source = stored(kind, each, tmp_path / "in", spark, iceberg)
        frame = read(spark, source, connections=catalog)
        spec = ReleaseSpec(**SPEC, input=source)
        if wrong:
            with pytest.raises(InputRefused, match="nothing was charged") as refusal:
                check_columns(frame, spec)
            assert why in refusal.value.message
        else:
            check_columns(frame, spec)


def test_a_reader_that_is_not_installed_is_refused_with_its_extra(
    tmp_path: Path, catalog: dict[str, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for module, source in (("deltalake", delta(tmp_path)), ("pyiceberg", LAKE)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(SetupRefused) as refusal:
            source_version(source, catalog)
        assert refusal.value.code == "extra_missing"
