"""The functions and operators of expressions: what each takes and gives, and its SQL that never fails.

A template may only use what gives a value or NULL for every value of its kinds (`kinds`), on every Spark line
and whatever the ANSI mode; tests evaluate all of them over hostile values. `{0}`, `{1}` are the arguments.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dp_spark.release.expressions.kinds import Kind, literal, text_sql
from dp_spark.release.expressions.patterns import checked_regex, like_as_regex
from dp_spark.release.expressions.tree import Constant
from dp_spark.release.problems import Wrong, wrong

T, W, N, B, D, S = Kind.TEXT, Kind.WHOLE, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that must be a constant: its value decides how long a call can take, or whether it fails.

    Attributes:
        words: what it must be.
        read: the constant as SQL.
        examples: values for tests and documentation.
    """

    words: str
    read: Callable[[object], str]
    examples: tuple[object, ...]


Parameter: TypeAlias = Kind | Fixed


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function.

    Attributes:
        takes: its arguments.
        gives: the kind of its value.
        sql: the template.
        years: whether the value may leave the years 1 to 9999, and then counts as NULL.
        long: whether the value may be longer than texts may be, and is then cut.
        many: whether the last argument may be repeated, separated by `, ` in the template.
    """

    takes: tuple[Parameter, ...]
    gives: Kind
    sql: str
    years: bool = False
    long: bool = False
    many: bool = False


def _whole_between(least: int, most: int, *, but: int | None = None) -> Fixed:
    words = f"a whole number from {least} to {most}" + ("" if but is None else f", not {but}")

    def read(value: object) -> str:
        if type(value) is not int or not least <= value <= most or value == but:
            raise wrong(value, "is not a constant of this range", allowed=words, way_out="write it as digits")
        return str(value)

    return Fixed(words, read, tuple({least, 1, most} - {but}))


def _text(words: str, holds: Callable[[str], bool], *examples: str) -> Fixed:
    def read(value: object) -> str:
        if not isinstance(value, str) or not holds(value):
            raise wrong(value, "is not a constant of this form", allowed=words, way_out="write it in quotes")
        return text_sql(value)

    return Fixed(words, read, examples)


def _pattern(words: str, translate: Callable[[str], str], *examples: str) -> Fixed:
    def read(value: object) -> str:
        if not isinstance(value, str):
            raise wrong(value, "is not a constant text", allowed=words, way_out="write a pattern in quotes")
        return text_sql(translate(value))

    return Fixed(words, read, examples)


def _ascii_like(pattern: str) -> str:
    if not pattern.isascii():
        way_out = "write lower(x) LIKE 'pattern'"
        raise wrong(pattern, "has letters beyond a-z", allowed="ASCII in ILIKE", way_out=way_out)
    return like_as_regex(pattern.lower())


_DATE_FORMAT = re.compile(r"(yyyy|MM|dd|HH|mm|ss|[-/:. _])+")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK")
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN", "MONDAY",
         "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")  # fmt: skip
ANY_TEXT = _text("a constant text", lambda _: True, "", "a", "\u0301", "x y")
SOME_TEXT = _text("a constant text that is not empty", bool, "a", "-", "\u00e9")
REPLACEMENT = _text("a constant text without $", lambda text: "$" not in text, "", "xy")
LIKE = _pattern("a LIKE pattern: % any characters, _ one", like_as_regex, "", "%", "a%", "%a_%b%", "N.L")
ILIKE = _pattern("a LIKE pattern in ASCII", _ascii_like, "%A%", "nul_")
REGEX = _pattern(
    "a pattern (see Patterns)", lambda text: checked_regex(text).text, "^[A-Z]+$", "a|b{1,3}", "[0-9]+", ""
)
DATE_FORMAT = _text(
    "yyyy MM dd HH mm ss and - / : . _ or blank",
    lambda text: bool(_DATE_FORMAT.fullmatch(text)),
    "yyyy-MM",
    "HH:mm",
)
DATE_UNIT = _text("YEAR, QUARTER, MONTH or WEEK", lambda text: text.upper() in _UNITS, *_UNITS)
TIME_UNIT = _text(
    "YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND",
    lambda text: text.upper() in (*_UNITS, "DAY", "HOUR", "MINUTE", "SECOND"),
    *_UNITS, "DAY", "HOUR", "SECOND",
)  # fmt: skip
WEEK_DAY = _text("the name of a day of the week", lambda text: text.upper() in _DAYS, "MO", "Sunday")
DECIMALS, LENGTH = _whole_between(0, 15), _whole_between(0, 1_000)
PLACE = _whole_between(-1_000, 1_000, but=0)
MIN_WHOLE = literal(Constant(-(2**63))).sql
_ABS = f"CASE WHEN {{0}} <> {MIN_WHOLE} THEN abs({{0}}) END"
_DIV = "CASE WHEN {1} = -1L THEN try_subtract(0L, {0}) ELSE {0} div nullif({1}, 0L) END"
_IN_64_BITS = "{0} BETWEEN -9e18D AND 9e18D"
_INT = "try_cast({1} AS INT)"
_DAYS_AWAY = "CAST(CASE WHEN {1} BETWEEN -4000000L AND 4000000L THEN {1} END AS INT)"
_MONTHS_AWAY = "CAST(CASE WHEN {1} BETWEEN -130000L AND 130000L THEN {1} END AS INT)"


def _same(names: str, *signatures: Signature) -> dict[str, tuple[Signature, ...]]:
    return dict.fromkeys(names.split(), signatures)


def _numeric(whole: str, number: str) -> tuple[Signature, ...]:
    """A function of two numbers, whole if both are."""
    return Signature((W, W), W, whole), Signature((N, N), N, number)


def _of_number(names: str) -> dict[str, tuple[Signature, ...]]:
    return {name: (Signature((N,), N, f"{name}({{0}})"),) for name in names.split()}


def _part_of(kind: Kind, names: str) -> dict[str, tuple[Signature, ...]]:
    """Parts of a day or a time; a time has those of its day."""
    kinds = (D, S) if kind is D else (S,)
    return {
        name: tuple(Signature((each,), W, f"CAST({name}({{0}}) AS BIGINT)") for each in kinds)
        for name in names.split()
    }


ARITHMETIC = {
    **_same("+ try_add", *_numeric("try_add({0}, {1})", "({0} + {1})")),
    **_same("- try_subtract", *_numeric("try_subtract({0}, {1})", "({0} - {1})")),
    **_same("* try_multiply", *_numeric("try_multiply({0}, {1})", "({0} * {1})")),
    **_same("/ try_divide", Signature((N, N), N, "({0} / nullif({1}, 0D))")),
    "div": (Signature((W, W), W, _DIV),),
    **_same("% mod try_mod", *_numeric("({0} % nullif({1}, 0L))", "({0} % nullif({1}, 0D))")),
    "pmod": _numeric("pmod({0}, nullif({1}, 0L))", "pmod({0}, nullif({1}, 0D))"),
    "negative": (Signature((W,), W, "try_subtract(0L, {0})"), Signature((N,), N, "(- {0})")),
    "abs": (Signature((W,), W, _ABS), Signature((N,), N, "abs({0})")),
    **_same("sign signum", Signature((N,), N, "sign({0})")),
    **{
        name: (Signature((W,), W, "{0}"), Signature((N,), W, f"CASE WHEN {_IN_64_BITS} THEN {sql} END"))
        for name, sql in {"floor": "floor({0})", "ceil": "ceil({0})", "ceiling": "ceil({0})"}.items()
    },
    "round": (
        Signature((W,), W, "{0}"),
        Signature((N,), N, "round({0})"),
        Signature((N, DECIMALS), N, "round({0}, {1})"),
    ),
    **_of_number("sqrt cbrt exp expm1 ln log10 log2 log1p degrees radians"),
    **_of_number("sin cos tan asin acos atan sinh cosh tanh"),
    "log": (Signature((N,), N, "ln({0})"), Signature((N, N), N, "log({0}, {1})")),
    **_same("pow power", Signature((N, N), N, "pow({0}, {1})")),
    "atan2": (Signature((N, N), N, "atan2({0}, {1})"),),
    "hypot": (Signature((N, N), N, "hypot({0}, {1})"),),
    "pi": (Signature((), N, "pi()"),),
    "isnan": (Signature((N,), B, "isnan({0})"),),
    "nanvl": (Signature((N, N), N, "nanvl({0}, {1})"),),
    "width_bucket": (Signature((N, N, N, _whole_between(1, 10**6)), W, "width_bucket({0}, {1}, {2}, {3})"),),
}  # fmt: skip
TEXTS = {
    **_same("upper ucase", Signature((T,), T, "upper({0})", long=True)),
    **_same("lower lcase", Signature((T,), T, "lower({0})", long=True)),
    **_same("trim btrim", Signature((T,), T, "trim({0})")),
    "ltrim": (Signature((T,), T, "ltrim({0})"),),
    "rtrim": (Signature((T,), T, "rtrim({0})"),),
    **_same("length len char_length character_length", Signature((T,), W, "CAST(length({0}) AS BIGINT)")),
    "octet_length": (Signature((T,), W, "CAST(octet_length({0}) AS BIGINT)"),),
    "concat": (Signature((T,), T, "concat({0})", long=True, many=True),),
    "concat_ws": (Signature((SOME_TEXT, T), T, "concat_ws({0})", long=True, many=True),),
    **_same(
        "substring substr",
        Signature((T, W), T, f"substring({{0}}, {_INT})"),
        Signature((T, W, W), T, f"substring({{0}}, {_INT}, try_cast({{2}} AS INT))"),
    ),
    "left": (Signature((T, W), T, f"substring({{0}}, 1, {_INT})"),),
    "right": (Signature((T, LENGTH), T, "right({0}, {1})"),),
    "replace": (
        Signature((T, SOME_TEXT), T, "replace({0}, {1}, '')"),
        Signature((T, SOME_TEXT, ANY_TEXT), T, "replace({0}, {1}, {2})", long=True),
    ),
    "translate": (Signature((T, ANY_TEXT, ANY_TEXT), T, "translate({0}, {1}, {2})"),),
    **{
        name: (
            Signature((T, LENGTH), T, f"{name}({{0}}, {{1}}, ' ')"),
            Signature((T, LENGTH, SOME_TEXT), T, f"{name}({{0}}, {{1}}, {{2}})"),
        )
        for name in ("lpad", "rpad")
    },
    "reverse": (Signature((T,), T, "reverse({0})"),),
    "ascii": (Signature((T,), W, "CAST(ascii({0}) AS BIGINT)"),),
    "instr": (Signature((T, T), W, "CAST(instr({0}, {1}) AS BIGINT)"),),
    **_same("locate position", Signature((T, T), W, "CAST(locate({0}, {1}) AS BIGINT)")),
    "contains": (Signature((T, T), B, "contains({0}, {1})"),),
    "startswith": (Signature((T, T), B, "startswith({0}, {1})"),),
    "endswith": (Signature((T, T), B, "endswith({0}, {1})"),),
    "split_part": (Signature((T, SOME_TEXT, PLACE), T, "split_part({0}, {1}, {2})"),),
    "substring_index": (Signature((T, SOME_TEXT, PLACE), T, "substring_index({0}, {1}, {2})"),),
    "like": (Signature((T, LIKE), B, "({0} RLIKE {1})"),),
    "ilike": (Signature((T, ILIKE), B, "(lower({0}) RLIKE {1})"),),
    **_same("rlike regexp regexp_like", Signature((T, REGEX), B, "({0} RLIKE {1})")),
    "regexp_replace": (Signature((T, REGEX, REPLACEMENT), T, "regexp_replace({0}, {1}, {2})", long=True),),
    "regexp_extract": (Signature((T, REGEX, _whole_between(0, 9)), T, "regexp_extract({0}, {1}, {2})"),),
}  # fmt: skip
TIMES = {
    **_part_of(D, "year quarter month day dayofmonth dayofweek weekday dayofyear weekofyear"),
    **_part_of(S, "hour minute second"),
    **_same("date_add dateadd", Signature((D, W), D, f"date_add({{0}}, {_DAYS_AWAY})", years=True)),
    "date_sub": (Signature((D, W), D, f"date_add({{0}}, - {_DAYS_AWAY})", years=True),),
    **_same("datediff date_diff", Signature((D, D), W, "CAST(datediff({0}, {1}) AS BIGINT)")),
    "add_months": (Signature((D, W), D, f"add_months({{0}}, {_MONTHS_AWAY})", years=True),),
    "months_between": (Signature((S, S), N, "months_between({0}, {1})"),),
    "last_day": (Signature((D,), D, "last_day({0})"),),
    "next_day": (Signature((D, WEEK_DAY), D, "next_day({0}, {1})", years=True),),
    "trunc": (Signature((D, DATE_UNIT), D, "trunc({0}, {1})", years=True),),
    "date_trunc": (Signature((TIME_UNIT, S), S, "date_trunc({0}, {1})", years=True),),
    "date_format": (Signature((S, DATE_FORMAT), T, "date_format({0}, {1})"),),
    "unix_date": (Signature((D,), W, "CAST(unix_date({0}) AS BIGINT)"),),
    "date_from_unix_date": (
        Signature((W,), D, f"date_from_unix_date({_DAYS_AWAY.replace('{1}', '{0}')})", years=True),
    ),
    "unix_seconds": (Signature((S,), W, "unix_seconds({0})"),),
    "timestamp_seconds": (
        Signature(
            (W,), S, "timestamp_seconds(CASE WHEN {0} BETWEEN -62135596800L AND 253402300799L THEN {0} END)"
        ),
    ),
}  # fmt: skip
LOGIC = {
    "and": (Signature((B, B), B, "({0} AND {1})"),),
    "or": (Signature((B, B), B, "({0} OR {1})"),),
    "not": (Signature((B,), B, "(NOT {0})"),),
    "is true": (Signature((B,), B, "({0} IS TRUE)"),),
    "is false": (Signature((B,), B, "({0} IS FALSE)"),),
}
FUNCTIONS: Mapping[str, tuple[Signature, ...]] = {**ARITHMETIC, **TEXTS, **TIMES, **LOGIC}

_OTHER_EACH_TIME = """
    rand random randn randstr uniform uuid shuffle now current_date curdate current_timestamp current_time
    localtimestamp current_timezone current_user user session_user current_catalog current_database
    current_schema version monotonically_increasing_id spark_partition_id input_file_name unix_timestamp
    input_file_block_start input_file_block_length getvariable
"""
_OF_MANY_ROWS = """
    count sum avg mean min max first last any any_value some every bool_and bool_or stddev variance median
    mode percentile percentile_approx collect_list collect_set listagg string_agg row_number rank dense_rank
    lag lead ntile first_value last_value approx_count_distinct count_if corr grouping grouping_id
"""
_TO_MANY_ROWS = "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple"
REASONS: Mapping[str, frozenset[str]] = {
    why: frozenset(names.split())
    for why, names in {
        "gives another value each time, or depends on who runs it, when and where": _OTHER_EACH_TIME,
        "looks at other rows": _OF_MANY_ROWS,
        "makes several rows of one": _TO_MANY_ROWS,
        "runs code of its own": "java_method reflect try_reflect udf",
        "fails on purpose": "raise_error assert_true",
        "can make a text of any length": "repeat space",
    }.items()
}


def checked_extract(value: object, group: object) -> None:
    """Refuse `regexp_extract` of a group that its pattern does not have.

    Raises:
        Wrong: there is no such group.
    """
    if isinstance(value, str) and isinstance(group, int) and group > (most := checked_regex(value).groups):
        raise Wrong(
            *wrong(group, "is no group of the pattern", allowed=f"0 to {most}", way_out="add it").problems
        )
