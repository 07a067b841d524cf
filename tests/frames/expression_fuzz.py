# ruff: noqa: E501, N812
"""Hostile rows, and every function, operator and cast of expressions over them."""

import hashlib
import random
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dp_spark.frames.expressions import _read
from dp_spark.release.expressions import Kind, Node, Typed, compiled
from dp_spark.release.expressions.compile import SPECIAL
from dp_spark.release.expressions.functions import FUNCTIONS, Fixed
from dp_spark.release.expressions.kinds import CAST_TYPES, CASTS
from dp_spark.release.expressions.tree import Call, Cast, Constant, Name

T, W, N, B, D, S = Kind.TEXT, Kind.WHOLE, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP
SMALL, LARGE = -(2**63), 2**63 - 1
DAY = 86_400_000_000
TEXTS: list[bytes | None] = [
    None, b"", b" ", b"NULL", b"null", b"NaN", b"Infinity", b"-inf", b"0", b"-0", b"1", b"-1", b" 12 ", b"007",
    b"1.5", b"1e400", b"1e-400", b"1d", b"1f", b"0x1p3", b"+5", b"9223372036854775807", b"9223372036854775808",
    b"99999999999999999999999", b"true", b"T", b"yes", b"2013-02-28", b"2013-02-30", b"2013-13-01", b"0000-01-01",
    b"0001-01-01", b"9999-12-31", b"9999-12-31 23:59:59.999999", b"+12345-01-01", b"2013-01-05 10:00:00",
    b"2013-01-05T10:00:00+99:99", b"2013-01-05 10:00 Nowhere/Land", b"12:30", b"T12:30:00", b"now", b"epoch",
    b"2013-01-05 25:61:61", b"9999-12-31 23:59:59-18:00", b"0001-01-01 00:00:00+18:00", b"2013", b"2013-1-5",
    "caf\u00e9".encode(), "cafe\u0301".encode(), "\u0130\u0131\u00df\ufb03".encode(), "\U0001f468\u200d\U0001f469".encode(),
    b"\xff", b"\xe2\x82", b"a\xf0\x9f", b"\xc0\x80", b"\xed\xa0\x80", b"a\x00b", b"a\nb", b"x\n", b"tail   ", b"\t1\t", b"%_%",
    b"\\", b"a\\", b"$1", b"(((", b"a" * 30_000, "\u00e9".encode() * 9_999 + b"\xe2", b"EWR", b"a,b,c", b"-", b"--",
    "\u0661\u0662".encode(), "\u2028".encode(), b"2013-01-05\n", b"1\n",
]  # fmt: skip
WHOLES = [
    None,
    0,
    1,
    -1,
    2,
    7,
    12,
    60,
    1_000,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53 + 1,
    10**18,
    LARGE,
    SMALL,
    SMALL + 1,
]
NUMBERS = [
    None, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-5, 5e-324, 2.2e-308, 1.7976931348623157e308,
    -1.7976931348623157e308, 9.3e18, -9.3e18, 2.0**63, 1e15, 0.1, 1 / 3, float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
DATES = [
    None,
    0,
    1,
    -1,
    -719162,
    -719163,
    2932896,
    2932897,
    2**31 - 1,
    -(2**31),
    15_710,
    11_016,
    59,
    -141_428,
]
TIMES = [
    None, 0, 1, -1, -719162 * DAY, -719162 * DAY - 1, 2932897 * DAY - 1, 2932897 * DAY, LARGE, SMALL, SMALL + DAY,
    LARGE - DAY, 15_710 * DAY + 36_000_000_000, 951_782_400_000_000,
]  # fmt: skip
COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    T: ("t", "u"), W: ("w", "v"), N: ("n", "m"), B: ("b", "c"), D: ("d", "e"), S: ("s", "z"),
}  # fmt: skip


def hostile_rows(spark: SparkSession, path: Path) -> DataFrame:
    """Every pair of hostile values of a kind stands in some row; of texts, every one with twelve others."""
    number = 12 * len(TEXTS)
    values = {T: TEXTS, W: WHOLES, N: NUMBERS, B: [None, True, False], D: DATES, S: TIMES}
    kinds = {T: pa.binary(), W: pa.int64(), N: pa.float64(), B: pa.bool_(), D: pa.int32(), S: pa.int64()}
    columns: dict[str, pa.Array] = {}
    for kind, (x, y) in COLUMNS.items():
        pairs = list(product(values[kind], values[kind]))
        if kind is T:
            pairs = [
                (TEXTS[i % len(TEXTS)], TEXTS[(7 * i + i // len(TEXTS)) % len(TEXTS)]) for i in range(number)
            ]
        rows = [pairs[i % len(pairs)] for i in range(number)]
        for name, column in zip((x, y), zip(*rows, strict=True), strict=True):
            columns[name] = pa.array(column, kinds[kind])
    for name, ends in {"byte": (8,), "short": (16,), "int": (32,)}.items():
        kind = {"byte": pa.int8(), "short": pa.int16(), "int": pa.int32()}[name]
        bits = ends[0] - 1
        columns[name] = pa.array([[None, 0, -(2**bits), 2**bits - 1][i % 4] for i in range(number)], kind)
    columns["float"] = pa.array([NUMBERS[i % 8] for i in range(number)], pa.float32())
    columns["ntz"] = columns["s"].cast(pa.timestamp("us"))
    columns["d"], columns["e"] = (columns[name].cast(pa.date32()) for name in "de")
    columns["s"], columns["z"] = (columns[name].cast(pa.timestamp("us", "UTC")) for name in "sz")
    table = pa.table({f"{name}_" if name in "tu" else name: column for name, column in columns.items()})
    pq.write_table(table, path / "rows.parquet", row_group_size=number)
    raw = spark.read.parquet(str(path / "rows.parquet"))
    text = [F.col(f"{name}_").cast("string").alias(name) for name in "tu"]
    decimal = F.expr("try_cast(w AS DECIMAL(38, 10))").alias("decimal")
    place = F.struct(F.col("t_").cast("string").alias("town"), F.col("w").alias("zip")).alias("place")
    return raw.select(*text, *(name for name in raw.columns if name not in ("t_", "u_")), decimal, place)


def resolver(frame: DataFrame) -> "dict[tuple[str, ...], Typed]":
    """Every column and field of the frame, as expressions read them."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    paths = [(name,) for name in types if name != "place"] + (
        [("place", "town"), ("place", "zip")] if "place" in types else []
    )
    return {path: _read(path, types, [], named=True) for path in paths}


def every_call() -> Iterator[Node]:
    """Every function and operator in every form, over columns and over columns and constants."""
    for name, signatures in FUNCTIONS.items():
        for signature in signatures:
            choices = []
            for i, parameter in enumerate(signature.takes):
                if isinstance(parameter, Fixed):
                    choices.append([Constant(each) for each in parameter.examples])
                else:
                    choices.append([Name((COLUMNS[parameter][i % 2],))])
            for arguments in product(*choices):
                if name == "regexp_extract" and arguments[2] != Constant(0):
                    continue
                yield Call(name, arguments)
            if signature.many:
                yield Call(name, (*arguments, *arguments[1:], *arguments[1:]))
    yield Call("regexp_extract", (Name(("t",)), Constant("^([a-z]+)|(.)"), Constant(2)))
    for x, y in COLUMNS.values():
        for name in SPECIAL:
            if name == "case" or name in ("if", "iff"):
                yield Call(name, (Name(("b",)), Name((x,)), Name((y,))))
            elif name == "nvl2":
                yield Call(name, (Name((y,)), Name((x,)), Name((y,))))
            elif name in ("is null", "isnull", "isnotnull"):
                yield Call(name, (Name((x,)),))
            else:
                yield Call(name, (Name((x,)), Name((y,))))
    yield Call("=", (Name(("w",)), Name(("m",))))
    yield Call("<", (Name(("d",)), Name(("z",))))
    for kind, (x, _) in COLUMNS.items():
        for to, other in CAST_TYPES.items():
            if kind is other or (kind, other) in CASTS:
                yield Cast(Name((x,)), to)
    for name in ("byte", "short", "int", "float", "decimal", "ntz"):
        yield Call("coalesce", (Name((name,)),))
    for each in (("place", "town"), ("place", "zip")):
        yield Call("coalesce", (Name(each),))


def random_call(draw: random.Random, kind: Kind, depth: int) -> Node:
    """A nested expression of a kind, by the table of functions."""
    if depth == 0 or draw.random() < 0.15:
        return Name((draw.choice(COLUMNS[kind]),))
    forms = [
        (name, each) for name, signatures in FUNCTIONS.items() for each in signatures if each.gives is kind
    ]
    if draw.random() < 0.25 or not forms:
        condition = random_call(draw, Kind.BOOLEAN, depth - 1)
        return Call(
            "case", (condition, random_call(draw, kind, depth - 1), random_call(draw, kind, depth - 1))
        )
    name, signature = draw.choice(forms)
    if name == "regexp_extract":
        return Name((draw.choice(COLUMNS[kind]),))
    arguments = [
        Constant(draw.choice(each.examples))
        if isinstance(each, Fixed)
        else random_call(draw, each, depth - 1)
        for each in signature.takes
    ]
    return Call(name, tuple(arguments))


def typed(frame: DataFrame, nodes: list[Node]) -> list[Typed]:
    """The expressions over the columns of the frame."""
    columns = resolver(frame)
    return [compiled(each, columns.__getitem__) for each in nodes]


def in_units(value: Typed) -> str:
    """The value as SQL that a driver can hold and hash: days and times as numbers."""
    match value.kind:
        case Kind.DATE:
            return f"unix_date({value.sql})"
        case Kind.TIMESTAMP:
            return f"unix_micros({value.sql})"
        case Kind.TEXT:
            return f"sha1({value.sql})"
    return value.sql


def values_of(frame: DataFrame, expressions: list[Typed]) -> list[tuple[object, ...]]:
    """All values of each expression, in the order of the rows."""
    selected = frame.select(*(F.expr(in_units(each)).alias(f"x{i}") for i, each in enumerate(expressions)))
    return list(zip(*selected.collect(), strict=True))


def digests(values: list[tuple[object, ...]]) -> list[str]:
    """A digest of the values of each expression."""
    return [hashlib.sha256(repr(each).encode()).hexdigest()[:16] for each in values]
