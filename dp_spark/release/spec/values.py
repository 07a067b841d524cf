"""What a single value of a spec may be: the words to choose from, names, columns, numbers in their range."""

from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import BeforeValidator

from dp_spark.errors import PlanRefused
from dp_spark.noise import FAMILIES, family_named
from dp_spark.release.problems import Wrong, nearest, wrong
from dp_spark.release.reading import (
    decimal_number,
    exact_number,
    name_like,
    read_normal_text,
    read_path,
    read_text,
    whole_number,
    word_of,
)

LARGEST_AMOUNT = 10**15
# Names in the zone database that mean something else on every machine, or nothing.
_NO_ZONES = {"localtime", "Factory", "posixrules"}


class InputFormat(StrEnum):
    """How the input is stored."""

    PARQUET = "parquet"
    CSV = "csv"
    TABLE = "table"
    DELTA = "delta"
    ICEBERG = "iceberg"
    JDBC = "jdbc"


class Missing(StrEnum):
    """What happens to a row whose value is missing."""

    DROP = "drop"


class Clamp(StrEnum):
    """What is clamped: each row's value, or each unit's total in a group."""

    ROW = "row"
    UNIT = "unit"


class QueryKind(StrEnum):
    """What a query asks."""

    COUNT = "count"
    IDS = "ids"
    SUM = "sum"
    MEAN = "mean"
    VARIANCE = "variance"
    STD = "std"
    DISTINCT = "distinct"
    HISTOGRAM = "histogram"
    QUANTILES = "quantiles"
    MIN = "min"
    MAX = "max"
    RATIO = "ratio"


COUNTING_KINDS = (QueryKind.COUNT, QueryKind.IDS)
COLUMN_KINDS = (QueryKind.SUM, QueryKind.MEAN, QueryKind.VARIANCE, QueryKind.STD)
BINNED_KINDS = (QueryKind.HISTOGRAM, QueryKind.QUANTILES, QueryKind.MIN, QueryKind.MAX)


class SinkKind(StrEnum):
    """Where a release is published."""

    PARQUET = "parquet"
    TABLE = "table"
    DELTA = "delta"
    ICEBERG = "iceberg"
    SQL = "sql"


class Shape(StrEnum):
    """How a sink lays a release out."""

    WIDE = "wide"  # one row a group, a column for each answer and its error
    LONG = "long"  # one row a group and metric: value, std, low, high


class AsOf(StrEnum):
    """When rows of a public table have to be valid to be groups."""

    PERIOD_END = "period_end"


class Selection(StrEnum):
    """How groups are selected privately."""

    OPTIMAL = "optimal"  # the most groups that (epsilon, delta) allows
    THRESHOLD = "threshold"  # those whose noisy number of units, which is released, is large enough


class PoolKind(StrEnum):
    """What a pool of an account adds up."""

    SUMS = "sums"  # epsilon and delta of each release, as it promises them
    ZCDP = "zcdp"  # rho of each release, and the mass that its cut tails expose


FROM_BUDGET = "from_budget"  # each release gets what the budget allows over its horizon
AUTO_NOISE = "auto"  # the family of least variance
_NOISE = "auto | laplace | logistic | gaussian | {subbotin: 1.5}"


def read_noise(value: object) -> str:
    """`auto`, or the canonical name of a family."""
    match value:
        case {"subbotin": exponent} if len(value) == 1:  # type: ignore[arg-type]
            text = f"subbotin({exponent})"
        case str():
            text = value
        case _:
            raise wrong(value, "is no noise", allowed=_NOISE, way_out="write auto")
    if text == AUTO_NOISE:
        return text
    try:
        if not text.startswith(("subbotin(", *FAMILIES)):
            raise wrong(value, "is not known", allowed=_NOISE, way_out="write auto, or a family of the list")
        return family_named(text).name
    except PlanRefused as refusal:
        raise wrong(value, refusal.message, allowed=_NOISE, way_out=refusal.way_out) from None


def read_as_of(value: object) -> AsOf:
    """The end of the period: no other time is offered."""
    try:
        return word_of(AsOf)(value)
    except Wrong:
        raise wrong(
            value,
            "is not offered: to read a table as it was (time travel) is not offered yet",
            allowed=AsOf.PERIOD_END,
            way_out=f"write as_of: {AsOf.PERIOD_END} with valid_from and valid_to, or name a view of that "
            "version as the table",
        ) from None


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)


def _read_time_zone(value: object) -> str:
    name = read_text(value)
    if name not in _time_zones():
        guess = nearest(name, _time_zones()) or "UTC"
        allowed = "a name of the IANA time zone database"
        raise wrong(name, "is no known time zone", allowed=allowed, way_out=f"write for instance {guess}")
    return name


ReleaseName = Annotated[
    str,
    BeforeValidator(name_like("[A-Za-z][A-Za-z0-9_]{0,63}", "start with a letter; use letters, digits, _")),
]
QueryName = Annotated[
    str, BeforeValidator(name_like("[a-z][a-z0-9_]{0,63}", "start with a-z; use only a-z, 0-9 and _"))
]
Population = Annotated[
    str, BeforeValidator(name_like("[A-Za-z0-9_.-]{1,128}", "use only letters, digits, '_', '.' and '-'"))
]
TableName = Annotated[
    str,
    BeforeValidator(
        name_like(
            r"([A-Za-z0-9_]+|`[^`]+`)(\.([A-Za-z0-9_]+|`[^`]+`)){0,3}",
            "write a table or view of the catalog: stations, public.stations, `a-catalog`.public.stations",
        )
    ),
]
Column = Annotated[str, BeforeValidator(read_text)]
Label = Annotated[str, BeforeValidator(read_normal_text)]
Location = Annotated[str, BeforeValidator(read_path)]
ConnectionName = Annotated[
    str, BeforeValidator(name_like(r"[a-z][a-z0-9_]{0,63}", "a lower-case name of letters, digits and _"))
]
StoredTable = Annotated[
    str,
    BeforeValidator(
        name_like(r"[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,2}", "names joined by dots")
    ),
]
Version = Annotated[int, BeforeValidator(whole_number(0, 2**63 - 1))]
TimeZone = Annotated[str, BeforeValidator(_read_time_zone)]
OnMissing = Annotated[Missing, BeforeValidator(word_of(Missing))]
Bound = Annotated[int, BeforeValidator(whole_number(1, 10**6))]
Epsilon = Annotated[
    Fraction,
    BeforeValidator(
        exact_number("0 < epsilon <= 100", lambda epsilon: 0 < epsilon <= 100, "write for instance 1.0")
    ),
]
Delta = Annotated[
    Fraction,
    BeforeValidator(
        exact_number(
            "0 < delta <= 0.1",
            lambda delta: 0 < delta <= Fraction(1, 10),
            "pure epsilon is not offered yet: write a small positive delta, such as 1e-6",
        )
    ),
]
Amount = Annotated[
    Fraction,
    BeforeValidator(
        decimal_number(
            "a decimal from -1e15 to 1e15",
            lambda amount: abs(amount) <= LARGEST_AMOUNT,
            "choose a bound that real values reach; they are clamped to it",
        )
    ),
]
Step = Annotated[
    Fraction,
    BeforeValidator(
        decimal_number(
            "a decimal, 0 < step <= 1e15",
            lambda step: 0 < step <= LARGEST_AMOUNT,
            "write the precision that matters, such as 1 or 0.01, or leave `step` out",
        )
    ),
]
