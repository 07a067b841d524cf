"""The artefact: its schema, its digest (the same rows, however they are stored), its staged file."""

import hashlib
import os
import stat
import struct
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_spark.errors import PublishRefused, SetupRefused
from dp_spark.publish import arrow_schema, artefact_digest, delete_artefact, read_artefact, write_artefact
from dp_spark.release.plan import ColumnRole, ColumnType, OutputColumn

COLUMNS = [
    OutputColumn("period_start", ColumnType.DATE, ColumnRole.PERIOD, "first day"),
    OutputColumn("origin", ColumnType.STRING, ColumnRole.GROUP, "public group"),
    OutputColumn("flights", ColumnType.BIGINT, ColumnRole.VALUE, "count, private"),
    OutputColumn("miles", ColumnType.DECIMAL, ColumnRole.VALUE, "sum, private", decimals=2),
    OutputColumn("mean", ColumnType.DOUBLE, ColumnRole.VALUE, "mean, private"),
    OutputColumn("revision", ColumnType.INT, ColumnRole.REVISION, "0 = as scheduled"),
]
SCHEMA = arrow_schema(COLUMNS)
ROWS = {
    "period_start": [date(2013, 1, 5)] * 4,
    "origin": ["", "EWR", "Zürich", "東京"],
    "flights": [-1, 0, 2**62, 7],
    "miles": [Decimal("-0.25"), Decimal("99999999999999999.99"), Decimal("0.00"), Decimal("2.50")],
    "mean": [0.1, -3.5, 0.0, 1e300],
    "revision": [0, 0, 0, 1],
}


def rows(**changed: list[object]) -> pa.Table:
    return pa.table(ROWS | changed, schema=SCHEMA)


def cast(name: str, kind: pa.DataType) -> pa.Table:
    table = rows()
    return table.set_column(table.column_names.index(name), name, table[name].cast(kind))


TABLE = rows()
DIGEST = artefact_digest(TABLE)


def test_the_schema_has_exact_types_no_nulls_and_comments():
    assert [str(field.type) for field in SCHEMA] == [
        *("date32[day]", "string", "int64", "decimal128(19, 2)", "double", "int32")
    ]
    assert not any(field.nullable for field in SCHEMA)
    assert SCHEMA.field("mean").metadata == {b"comment": b"mean, private"}


def test_the_digest_is_that_of_the_encoding_written_out_by_hand():
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    encoded = text("dp_spark artefact 1") + struct.pack("<QQ", 5, 2)
    encoded += text("day") + text("DATE") + struct.pack("<ii", 0, 15710)
    encoded += text("g") + text("STRING") + struct.pack("<qq", 2, 1) + "éb".encode()
    encoded += text("n") + text("BIGINT") + struct.pack("<qq", -1, 5)
    encoded += text("x") + text("DECIMAL(19, 1)") + struct.pack("<qqqq", -15, -1, 20, 0)
    encoded += text("f") + text("DOUBLE") + struct.pack("<dd", 0.0, 1.5)
    table = pa.table(
        {
            "day": pa.array([date(1970, 1, 1), date(2013, 1, 5)]),
            "g": ["é", "b"],
            "n": [-1, 5],
            "x": pa.array([Decimal("-1.5"), Decimal(2)], pa.decimal128(19, 1)),
            "f": [-0.0, 1.5],
        }
    )
    assert artefact_digest(table) == hashlib.sha256(encoded).hexdigest()


def test_the_digest_of_an_artefact_never_changes_between_versions():
    assert DIGEST == "7391e80d7f38a62a15a4571f7affa3f4ffd3202bb2514423cbc1d0cdb97652ae"


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(0, 3), st.integers(0, 3))
def test_chunks_and_slices_do_not_matter(cuts: list[int], before: int, after: int):
    padded = pa.concat_tables([TABLE.slice(0, before), TABLE, TABLE.slice(0, after)]).combine_chunks()
    sliced = padded.slice(before, len(TABLE))
    edges = [0, *sorted(cuts), len(TABLE)]
    pieces = [sliced.slice(start, stop - start) for start, stop in pairwise(edges)]
    assert artefact_digest(pa.concat_tables(pieces)) == DIGEST


@pytest.mark.parametrize(
    "same",
    [
        TABLE.replace_schema_metadata({"a": "b"}),
        TABLE.cast(pa.schema([field.with_nullable(True).remove_metadata() for field in SCHEMA])),
        TABLE.set_column(1, "origin", TABLE["origin"].dictionary_encode()),
        cast("origin", pa.large_string()),
        cast("origin", pa.string_view()),
        rows(mean=[0.1, -3.5, -0.0, 1e300]),
    ],
    ids=["metadata", "nullable", "dictionary", "large string", "string view", "minus zero"],
)
def test_what_is_no_row_does_not_matter(same: pa.Table):
    assert artefact_digest(same) == DIGEST


@settings(deadline=None)
@given(
    st.sampled_from(["zstd", "snappy", "none"]),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from(["1.0", "2.0"]),
)
def test_parquet_encodings_do_not_matter(compression: str, dictionary: bool, row_group: int, page: str):
    sink = pa.BufferOutputStream()
    pq.write_table(
        TABLE,
        sink,
        compression=compression,
        use_dictionary=dictionary,
        row_group_size=row_group,
        data_page_version=page,
    )
    assert artefact_digest(pq.ParquetFile(pa.BufferReader(sink.getvalue())).read()) == DIGEST


OTHERS = {
    "date": rows(period_start=[date(2013, 1, 5)] * 3 + [date(2013, 1, 6)]),
    "text": rows(origin=["", "EWR", "Zürich", "東亰"]),
    "text in other normal form": rows(origin=["", "EWR", "Zu\u0308rich", "東京"]),
    "text moved to the next row": rows(origin=["E", "WR", "Zürich", "東京"]),
    "bigint": rows(flights=[-1, 0, 2**62 + 1, 7]),
    "decimal": rows(miles=[*ROWS["miles"][:3], Decimal("2.51")]),
    "double by one ulp": rows(mean=[0.1 + 2**-56, -3.5, 0.0, 1e300]),
    "int": rows(revision=[0, 0, 0, 2]),
    "order of rows": TABLE.take([1, 0, 2, 3]),
    "a row less": TABLE.slice(1),
    "no row": TABLE.slice(0, 0),
    "name": TABLE.rename_columns([*TABLE.column_names[:-1], "Revision"]),
    "order of columns": TABLE.select(TABLE.column_names[::-1]),
    "a column less": TABLE.drop_columns(["revision"]),
    "column twice": TABLE.append_column("revision", TABLE["revision"]),
    "type int": cast("revision", pa.int64()),
    "type date as int": cast("period_start", pa.int32()),
    "type scale": cast("miles", pa.decimal128(21, 3)),
    "type precision": cast("miles", pa.decimal128(20, 2)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_any_change_of_a_row_a_name_or_a_type_changes_the_digest(name: str):
    assert artefact_digest(OTHERS[name]) != DIGEST


def test_all_these_digests_differ_from_each_other():
    assert len({artefact_digest(table) for table in OTHERS.values()}) == len(OTHERS)


@pytest.mark.parametrize("column", TABLE.column_names)
def test_a_null_has_no_digest(column: str):
    nullable = pa.schema([field.with_nullable(True) for field in SCHEMA])
    table = pa.table(ROWS | {column: [*ROWS[column][:3], None]}, schema=nullable)
    with pytest.raises(PublishRefused, match=f"column {column} holds a NULL"):
        artefact_digest(table)


def test_a_null_within_a_dictionary_has_no_digest():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    with pytest.raises(PublishRefused, match="NULL"):
        artefact_digest(pa.table({"g": words}))


@pytest.mark.parametrize("kind", [pa.float32(), pa.timestamp("us"), pa.binary(), pa.uint64()])
def test_other_types_have_no_digest(kind: pa.DataType):
    with pytest.raises(PublishRefused, match="no released table"):
        artefact_digest(pa.table({"x": pa.array([], kind)}))


def test_a_staged_artefact_reads_back_with_types_comments_and_no_nulls(tmp_path):
    path = tmp_path / "zone" / "flights" / "a.parquet"
    write_artefact(TABLE, path)
    table = read_artefact(path, DIGEST)
    assert table.equals(TABLE)
    assert table.schema.equals(SCHEMA, check_metadata=True)


def test_new_directories_are_700_and_the_file_600_from_its_creation(tmp_path, monkeypatch):
    path = tmp_path / "zone" / "flights" / "a.parquet"
    seen = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(os.fstat(fd).st_mode), fsync(fd))[1])
    before = os.umask(0)
    try:
        write_artefact(TABLE, path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(mode) for mode in seen if stat.S_ISREG(mode)} == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path.parent.parent)} == {0o700}


def test_the_same_table_gives_the_same_bytes(tmp_path):
    write_artefact(TABLE, tmp_path / "a")
    write_artefact(pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_write_leaves_the_artefact_that_was_there_and_nothing_else(tmp_path, monkeypatch):
    write_artefact(TABLE, tmp_path / "a")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SetupRefused, match="No space left"):
        write_artefact(TABLE.slice(1), tmp_path / "a")
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert read_artefact(tmp_path / "a", DIGEST).equals(TABLE)


def test_a_missing_artefact_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(PublishRefused, match="restore the file") as refused:
        read_artefact(tmp_path / "a", DIGEST)
    assert refused.value.code == "artefact_missing"


def test_another_artefact_is_refused_without_its_cells(tmp_path):
    write_artefact(rows(origin=["poison"] * 4), tmp_path / "a")
    with pytest.raises(PublishRefused) as refused:
        read_artefact(tmp_path / "a", DIGEST)
    assert refused.value.code == "artefact_damaged"
    assert "poison" not in str(refused.value)


def test_a_file_cut_short_or_with_a_flipped_byte_is_refused_or_reads_the_same(tmp_path):
    path = tmp_path / "a"
    write_artefact(TABLE, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 37):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            assert outcome(path) in ("intact", "artefact_damaged")


def outcome(path: Path) -> str:
    try:
        return "intact" if read_artefact(path, DIGEST).equals(TABLE) else "other"
    except PublishRefused as refused:
        return refused.code


def test_a_directory_in_its_place_is_refused(tmp_path):
    with pytest.raises(PublishRefused, match="digest"):
        read_artefact(tmp_path, DIGEST)


def test_what_cannot_be_removed_is_refused_and_what_is_gone_is_removed(tmp_path):
    delete_artefact(tmp_path / "nothing.parquet")
    (tmp_path / "counts-1.parquet").mkdir()
    with pytest.raises(SetupRefused) as refused:
        delete_artefact(tmp_path / "counts-1.parquet")
    assert refused.value.code == "artefact_not_deleted"
