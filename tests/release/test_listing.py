"""Public groups from files: what is read as which key, and what is refused."""

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_spark.errors import InputRefused
from dp_spark.release import listing
from dp_spark.release.listing import listed_in_files
from dp_spark.release.spec import ReleaseSpec


def spec(groups: dict[str, Any], *columns: str, **more: Any) -> ReleaseSpec:
    return ReleaseSpec(
        release="visits",
        unit={"row": True},
        group_by=list(columns or ["town"]),
        groups=groups,
        guarantee={"epsilon": 1, "delta": "1e-6"},
        queries=[{"name": "visits", "kind": "count"}],
        budget={"population": "people"},
        publish=[{"sink": "parquet", "path": "out"}],
        **more,
    )


def from_text(path: Path, text: str, *columns: str, **more: Any) -> tuple[tuple[str, ...], ...]:
    file = path / "towns.csv"
    file.write_text(text, encoding="utf-8")
    return listed_in_files(spec({"public_file": str(file)}, *columns, **more), ())


def from_rows(path: Path, rows: dict[str, Any], *columns: str, **groups: Any) -> tuple[tuple[str, ...], ...]:
    file = path / "towns.parquet"
    pq.write_table(pa.table(rows), file)
    return listed_in_files(spec({"public_file": str(file), **groups}, *columns), ())


def refused(code: str, read: Any) -> str:
    with pytest.raises(InputRefused) as refusal:
        read()
    assert refusal.value.code == code
    assert refusal.value.way_out
    return refusal.value.message


def test_the_distinct_rows_of_the_columns_are_the_groups_in_code_point_order(tmp_path: Path) -> None:
    text = "line,x,town\n2,7,b\n1,7,a\n2,8,b\n1,7,B\n2,7,a\n"
    assert from_text(tmp_path, text, "town", "line") == (("B", "1"), ("a", "1"), ("a", "2"), ("b", "2"))
    assert from_text(tmp_path, text) == (("B",), ("a",), ("b",))


def test_every_field_of_csv_is_the_text_that_stands_there(tmp_path: Path) -> None:
    texts = ["08", "8", "8.0", "NULL", "null", "true", "2013-01-05", "N/A", " a ", "1e3"]
    assert from_text(tmp_path, "town\n" + "\n".join(texts) + "\n") == tuple(sorted((each,) for each in texts))
    quoted = 'n,town\n1,"a ""b"", c"\n2,\n3,""\n'
    assert from_text(tmp_path, quoted) == (("",), ('a "b", c',))


def test_one_spelling_is_one_group(tmp_path: Path) -> None:
    assert from_text(tmp_path, "\ufefftown\ne\u0301\n\u00e9\n") == (("\u00e9",),)


def test_parquet_has_texts_numbers_dates_and_booleans_as_spark_writes_them(tmp_path: Path) -> None:
    rows = {
        "town": pa.array(["a", "a", "b"]).dictionary_encode(),
        "n": pa.array([10, 9, -1], pa.int16()),
        "day": [dt.date(2013, 1, 5)] * 3,
        "open": [True, True, False],
        "share": [0.5] * 3,
    }
    assert from_rows(tmp_path, rows, "town", "n", "day", "open") == (
        ("a", "10", "2013-01-05", "true"),
        ("a", "9", "2013-01-05", "true"),
        ("b", "-1", "2013-01-05", "false"),
    )
    told = refused("groups_columns", lambda: from_rows(tmp_path, rows, "share"))
    assert "'share' is double (allowed: text, whole number, date, boolean)" in told


def test_a_null_is_refused_or_is_one_with_its_label(tmp_path: Path) -> None:
    rows = {"town": ["a", None, "none"]}
    assert "NULL in column 'town'" in refused("groups_null", lambda: from_rows(tmp_path, rows))
    assert from_rows(tmp_path, rows, null_label="none") == (("a",), ("none",))


def test_factors_of_a_product_come_from_the_spec_or_from_files(tmp_path: Path) -> None:
    file = tmp_path / "lines.csv"
    file.write_text("line,town\nU2,x\nU1,y\nU2,z\n")
    product = spec({"public": {"town": ["b", "a"], "line": {"file": str(file)}}}, "town", "line")
    assert listed_in_files(product, ()) == (("a", "U1"), ("a", "U2"), ("b", "U1"), ("b", "U2"))


def test_what_a_file_lacks_is_named(tmp_path: Path) -> None:
    told = refused("groups_columns", lambda: from_text(tmp_path, "Town,line\na,1\n"))
    assert "has no column 'town'; did you mean 'Town'?" in told
    twice = refused("groups_columns", lambda: from_text(tmp_path, "town,town\na,1\n"))
    assert "has 2 columns 'town'" in twice
    refused("groups_empty", lambda: from_text(tmp_path, "town\n"))
    refused("groups_empty", lambda: from_rows(tmp_path, {"town": pa.array([], pa.string())}))
    nowhere = spec({"public_file": str(tmp_path / "nowhere.csv")})
    assert "FileNotFoundError" in refused("groups_not_readable", lambda: listed_in_files(nowhere, ()))


@pytest.mark.parametrize(
    "content", [b"", b"town\n\xff\xfe\n", b"town,n\na\n", b"PAR1 and no more", b"town\n\0"]
)
def test_a_file_of_another_kind_is_refused_without_its_text(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "towns"
    file.write_bytes(content)
    with pytest.raises(InputRefused, match="public_file"):
        listed_in_files(spec({"public_file": str(file)}), ())


@pytest.mark.parametrize("text", ['"a\nb"', "a\tb", "x" * 1001, "a\u2028b"])
def test_a_text_that_a_list_in_the_spec_could_not_have_is_refused(tmp_path: Path, text: str) -> None:
    told = refused("groups_text", lambda: from_text(tmp_path, f"town\n{text}\n"))
    assert "column 'town'" in told
    assert len(told) < 500


def test_a_value_that_is_a_label_too_is_refused_where_the_label_is_used(tmp_path: Path) -> None:
    text = "town,line\n(all),1\n"
    assert from_text(tmp_path, text, "town", "line") == (("(all)", "1"),)
    told = refused("groups_label", lambda: from_text(tmp_path, text, "town", "line", rollup=[[]]))
    assert "'(all)' in column 'town', which is groups.total_label too" in told


def test_more_keys_than_a_release_has_are_refused_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_GROUP_KEYS", 1000)
    many = pa.array([str(i % 1000) for i in range(200_000)])
    assert len(from_rows(tmp_path, {"town": many})) == 1000
    more = pa.array([str(i % 1001) for i in range(200_000)])
    told = refused("groups_too_many", lambda: from_rows(tmp_path, {"town": more}))
    assert "allowed: at most 1,000" in told
    file = {"file": str(tmp_path / "towns.parquet")}
    product = spec({"public": {"town": file, "line": ["a"]}}, "town", "line")
    refused("groups_too_many", lambda: listed_in_files(product, ()))
    pq.write_table(pa.table({"town": many}), tmp_path / "towns.parquet")
    wide = spec({"public": {"town": file, "line": ["a", "b"]}}, "town", "line")
    assert "makes 2,000 groups" in refused("groups_too_many", lambda: listed_in_files(wide, ()))


# --- what is private ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("rows/towns.csv", "rows"),
        ("rows/towns.csv", "rows/towns.csv"),
        ("rows/day=1/../towns.csv", "rows"),
        ("link/towns.csv", "rows"),
        ("linked.csv", "rows"),
        ("rows", "rows/towns.csv"),
    ],
)
def test_a_list_of_a_private_source_is_refused_by_whatever_way_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows" / "day=1").mkdir(parents=True)
    (tmp_path / "rows" / "towns.csv").write_text("town\na\n")
    (tmp_path / "link").symlink_to("rows")
    (tmp_path / "linked.csv").symlink_to("rows/towns.csv")
    asked = spec({"public_file": path})
    told = refused("groups_from_private_source", lambda: listed_in_files(asked, [os.path.realpath(source)]))
    assert f"public_file {path!r} is read from" in told
    axis = spec({"public": {"town": {"file": path}}})
    refused("groups_from_private_source", lambda: listed_in_files(axis, [os.path.realpath(source)]))


def test_a_list_beside_a_private_source_is_read(tmp_path: Path) -> None:
    private = [
        str(tmp_path / "towns"),
        str(tmp_path / "towns.csv.old"),
        "s3://bucket/towns.csv",
        "public.towns",
    ]
    (tmp_path / "towns.csv").write_text("town\na\n")
    assert listed_in_files(spec({"public_file": str(tmp_path / "towns.csv")}), private) == (("a",),)
