"""A public sample file as the numbers that a trial of bounds is made of; no Spark is started.

Texts are compared, and texts read as numbers, as the engine does.
"""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from dp_spark.errors import InputRefused
from dp_spark.frames.numbering import NO_GROUP, GroupNumbers
from dp_spark.frames.text import normal_texts
from dp_spark.release.asking import query_of
from dp_spark.release.planner import level_bounds
from dp_spark.release.problems import nearest
from dp_spark.release.spec import InputSpec, ReleaseSpec
from dp_spark.release.trial import Sample, columns_read
from dp_spark.release.trial.sample import Flags, Floats, Integers

_BLANK = "".join(map(chr, range(33)))
_DECIMAL = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"


def read_sample(path: Path, spec: ReleaseSpec, rate: float) -> Sample:
    """The rows of a CSV file with a header line, or of a Parquet file, that have a unit and a group.

    `where` and `derive` are not applied: the file has the columns that they make, and rows are taken as they
    are. So is the period: all rows count as those of one. Groups that the spec does not list are those of
    the file.

    Raises:
        InputRefused: the file is the spec's own input, or lies in it; cannot be read; lacks a column; or has
            no row.
    """
    _refuse_private(path, spec)
    measures = {
        total.measure
        for entry in spec.queries
        for total in query_of(entry, spec).totals(level_bounds(spec)[0])
    }
    numbers, present = columns_read(measures)
    days = _days_of_units(spec)
    wanted = dict.fromkeys([*spec.unit.columns, *spec.group_by, *sorted(numbers | present), *days])
    table = _read(path, list(wanted), spec)
    if not table.num_rows:
        raise InputRefused("sample_empty", f"{path} has no row", way_out="give a sample that has rows")
    texts = [_texts(table[name]) for name in spec.group_by]
    keys = spec.group_keys() if spec.groups.in_spec else _found_keys(texts)
    group = GroupNumbers(keys).of(texts) if keys else np.full(table.num_rows, NO_GROUP)
    units = [_texts(table[name]) for name in spec.unit.columns] + [_days(table[name], spec) for name in days]
    counts = np.asarray(group != NO_GROUP)
    for column in units:
        counts &= column.is_valid().to_numpy(zero_copy_only=False)
    return Sample(
        unit=_numbered([column.filter(pa.array(counts)) for column in units], int(counts.sum())),
        group=group[counts].astype(np.int64),
        numbers={name: _as_numbers(table[name])[counts] for name in numbers},
        present={name: _is_present(table[name])[counts] for name in present},
        groups=len(keys),
        rate=rate,
    )


def _refuse_private(path: Path, spec: ReleaseSpec) -> None:
    """Refuse the rows that are to be protected; links are followed."""
    if not isinstance(spec.input, InputSpec) or spec.input.path is None:
        return
    address = urlsplit(spec.input.path)
    own = address.path if address.scheme == "file" else spec.input.path
    sample = path.resolve()
    for place in (own, *glob.glob(own, recursive=True)):
        source = Path(place).resolve()
        same = source.exists() and sample.exists() and source.samefile(sample)
        if same or sample.is_relative_to(source):
            raise InputRefused(
                "sample_is_private",
                f"--public-sample {path} is, or lies in, the spec's own input.path = {spec.input.path!r}: "
                "bounds that are chosen by looking at the protected rows would leak them, and no budget "
                "pays for that",
                way_out="give public rows, older ones that are published already, or synthetic ones, from "
                "a file elsewhere; never a copy of the protected rows",
            )


def _read(path: Path, wanted: Sequence[str], spec: ReleaseSpec) -> pa.Table:
    """The wanted columns, of CSV as texts."""
    try:
        with path.open("rb") as stream:
            is_parquet = stream.read(4) == b"PAR1"
        if is_parquet:
            names = pq.read_schema(path).names
        else:
            names = pv.open_csv(path, parse_options=pv.ParseOptions(newlines_in_values=True)).schema.names
    except (OSError, pa.ArrowException) as failure:
        raise _not_readable(path, failure) from None
    made = {each.name for each in spec.derive or ()}
    problems = [_missing(name, names, made=name in made) for name in wanted if name not in names]
    if problems:
        raise InputRefused(
            "sample_columns",
            f"{path} does not have what the spec names:\n  " + "\n  ".join(problems),
            way_out="name the columns as the spec does",
        )
    try:
        if is_parquet:
            return pq.read_table(path, columns=list(wanted)).combine_chunks()
        as_texts = pv.ConvertOptions(
            include_columns=list(wanted),
            column_types=dict.fromkeys(wanted, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        )
        options = pv.ParseOptions(newlines_in_values=True)
        return pv.read_csv(path, parse_options=options, convert_options=as_texts).combine_chunks()
    except (OSError, pa.ArrowException) as failure:
        raise _not_readable(path, failure) from None


def _missing(name: str, names: Sequence[str], *, made: bool) -> str:
    if made:
        return (
            f"{name!r}: no such column; `derive` makes it, which is not applied here: write it into the file"
        )
    guess = nearest(name, names)
    return f"{name!r}: no such column" + (f"; did you mean {guess!r}?" if guess else "")


def _not_readable(path: Path, failure: Exception) -> InputRefused:
    return InputRefused(
        "sample_not_readable",
        f"--public-sample {path} cannot be read ({type(failure).__name__})",
        way_out="give one Parquet file, or one CSV file with a header line, in UTF-8",
    )


def _whole(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    """The column in one piece; without dictionary, if it had one."""
    joined: Any = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], column.type)
    whole: pa.Array[Any] = joined.dictionary_decode() if pa.types.is_dictionary(joined.type) else joined
    return whole


def _texts(column: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    return _whole(column).cast(pa.string())


def _found_keys(texts: Sequence["pa.Array[Any]"]) -> tuple[tuple[str, ...], ...]:
    """The distinct groups of the sample, in code point order; none holds a NULL."""
    columns = [normal_texts(column) for column in texts]
    names = [f"key_{i}" for i in range(len(columns))]
    distinct = pa.table(columns, names=names).group_by(names).aggregate([]).drop_null()
    return tuple(sorted(zip(*(distinct[name].to_pylist() for name in names), strict=True)))


def _days_of_units(spec: ReleaseSpec) -> list[str]:
    """The column that has the day, where a unit is that of one day of a longer period."""
    period = spec.period
    if period is None or spec.unit.per is None or spec.unit.per is period.every:
        return []
    return [period.column]


def _days(column: "pa.ChunkedArray[Any]", spec: ReleaseSpec) -> "pa.Array[Any]":
    """The date of each row as text; of a time in a zone, the one that the period's zone has."""
    whole: Any = _whole(column)
    if pa.types.is_timestamp(whole.type) and whole.type.tz is not None and spec.period is not None:
        whole = pc.local_timestamp(whole.cast(pa.timestamp("us", spec.period.timezone)))
    days: pa.Array[Any] = pc.utf8_slice_codeunits(whole.cast(pa.string()), 0, len("YYYY-MM-DD"))
    return days


def _numbered(columns: Sequence["pa.Array[Any]"], rows: int) -> Integers:
    """A number for each row's unit, from 0 up; without columns each row is one."""
    number = np.zeros(rows, dtype=np.int64) if columns else np.arange(rows)
    for column in columns:
        coded: Any = normal_texts(column).dictionary_encode()
        place = coded.indices.to_numpy().astype(np.int64)
        number = np.unique(number * (len(coded.dictionary) + 1) + place, return_inverse=True)[1]
    return number


def _as_numbers(column: "pa.ChunkedArray[Any]") -> Floats:
    """Each value as a double; NaN where it is no number, as Spark's try_cast has it."""
    whole: Any = _whole(column)
    if pa.types.is_string(whole.type) or pa.types.is_large_string(whole.type):
        text = pc.utf8_trim(whole, _BLANK)
        decimal, infinite = (pc.match_substring_regex(text, pattern) for pattern in (_DECIMAL, _INFINITE))
        plain = pc.replace_substring_regex(text, "[dDfF]$", "")
        whole = pc.if_else(decimal, plain, pc.if_else(infinite, text, None))
    found: Floats = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def _is_present(column: "pa.ChunkedArray[Any]") -> Flags:
    """Whether there is a value that is neither NULL nor NaN, of whatever type."""
    there: Any = pc.invert(pc.is_null(_whole(column), nan_is_null=True))
    flags: Flags = there.to_numpy(zero_copy_only=False)
    return flags
