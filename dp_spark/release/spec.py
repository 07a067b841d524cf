"""What an operator writes: the spec of one release, from YAML or built in Python."""

import hashlib
import json
import math
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Self
from zoneinfo import available_timezones

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationError,
    model_validator,
)

from dp_spark.guarantee import Neighbours, PrivacyGuarantee
from dp_spark.release.reading import (
    MAX_BYTES,
    MAX_TOLD,
    Place,
    Problem,
    Wrong,
    decimal_text,
    exact_number,
    name_like,
    nearest,
    read_each,
    read_list,
    read_normal_text,
    read_path,
    read_text,
    read_tree,
    refused,
    shown,
    unknown_key,
    whole_number,
    word_of,
    wrong,
)

PERIOD_COLUMN, RELEASE_COLUMN, REVISION_COLUMN = "period_start", "release_id", "revision"
STD_SUFFIX, LOW_SUFFIX, HIGH_SUFFIX = "_std", "_low", "_high"
MAX_GROUP_KEYS = 2_000_000
MAX_STEPS = 2**31
LARGEST_AMOUNT = 10**15
# Names in the zone database that mean something else on every machine, or nothing.
_NO_ZONES = {"localtime", "Factory", "posixrules"}


class InputFormat(StrEnum):
    """How the input is stored."""

    PARQUET = "parquet"
    CSV = "csv"


class Every(StrEnum):
    """How long a period is; a week starts on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Missing(StrEnum):
    """What happens to a row whose value is missing."""

    DROP = "drop"


class QueryKind(StrEnum):
    """What a query asks."""

    COUNT = "count"
    IDS = "ids"
    SUM = "sum"
    MEAN = "mean"


COUNTING_KINDS = (QueryKind.COUNT, QueryKind.IDS)
COLUMN_KINDS = (QueryKind.SUM, QueryKind.MEAN)


class NoiseChoice(StrEnum):
    """Which noise is added; `auto` takes the family of least variance."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class SinkKind(StrEnum):
    """Where a release is published."""

    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Axis:
    """A group column with its public values: one factor of a cross product."""

    column: str
    values: tuple[str, ...]


PublicGroups = tuple[tuple[str, ...], ...] | tuple[Axis, ...]


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


def _read_delta(value: object) -> Fraction:
    way_out = "pure epsilon is not offered yet: write a small positive delta, such as 1e-6"
    return exact_number("0 < delta <= 0.1", lambda delta: 0 < delta <= Fraction(1, 10), way_out)(value)


def _read_public(value: object) -> PublicGroups:
    """Keys in code point order, or the axes of a cross product in the order of their columns."""
    if isinstance(value, Mapping) and value:
        columns = sorted(read_each(((str(column), column) for column in value), read_text))
        values = read_each(((column, value[column]) for column in columns), _read_axis_values)
        return tuple(map(Axis, columns, values))
    return _distinct(read_each(enumerate(read_list(value)), _read_key))


def _read_axis_values(value: object) -> tuple[str, ...]:
    values = read_each(enumerate(read_list(value)), read_normal_text)
    return tuple(text for (text,) in _distinct([(text,) for text in values]))


def _read_key(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(read_each(enumerate(read_list(value)), read_normal_text))
    return (read_normal_text(value),)


def _distinct(keys: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    in_order = sorted(keys)
    twice = {key for key, after in pairwise(in_order) if key == after}
    if twice:
        written = (shown(key[0] if len(key) == 1 else list(key)) for key in sorted(twice))
        raise Wrong(
            *(Problem("is listed twice", "list it once", "distinct groups", each) for each in written)
        )
    return tuple(in_order)


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
Column = Annotated[str, BeforeValidator(read_text)]
Location = Annotated[str, BeforeValidator(read_path)]
TimeZone = Annotated[str, BeforeValidator(_read_time_zone)]
OnMissing = Annotated[Missing, BeforeValidator(word_of(Missing))]
Bound = Annotated[int, BeforeValidator(whole_number(1, 10**6))]
Epsilon = Annotated[
    Fraction,
    BeforeValidator(
        exact_number("0 < epsilon <= 100", lambda epsilon: 0 < epsilon <= 100, "write for instance 1.0")
    ),
]
Delta = Annotated[Fraction, BeforeValidator(_read_delta)]
Amount = Annotated[
    Fraction,
    BeforeValidator(
        exact_number(
            "a decimal from -1e15 to 1e15",
            lambda amount: abs(amount) <= LARGEST_AMOUNT,
            "choose a bound that real values reach; they are clamped to it",
            decimal=True,
        )
    ),
]
Step = Annotated[
    Fraction,
    BeforeValidator(
        exact_number(
            "a decimal, 0 < step <= 1e15",
            lambda step: 0 < step <= LARGEST_AMOUNT,
            "write the precision that matters, such as 1 or 0.01, or leave `step` out",
            decimal=True,
        )
    ),
]


class Part(BaseModel, frozen=True, extra="forbid"):
    """A mapping of the spec; refuses in our words whatever pydantic finds.

    Raises:
        SpecRefused: built directly, with everything that is wrong; inside another part, that one raises.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {}

    def __init__(self, /, **written: Any) -> None:
        try:
            super().__init__(**written)
        except ValidationError as failure:
            raise refused("spec_invalid", "spec", list(type(self)._problems(failure))) from None

    # Pydantic takes this for its own __init__: nested parts are validated in place, so that one refusal
    # names the problems of all of them.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, written: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(dict(written) if isinstance(written, Mapping) else written)
        except ValidationError as failure:
            raise Wrong(*cls._problems(failure)) from None

    @classmethod
    def _problems(cls, failure: ValidationError) -> Iterator[Problem]:
        for error in failure.errors(include_url=False)[: MAX_TOLD + 1]:
            place, cause = error["loc"], error.get("ctx", {}).get("error")
            if isinstance(cause, Wrong):
                yield from (problem.under(*place) for problem in cause.problems)
            else:
                yield cls._problem(error["type"], place, error["input"])

    @classmethod
    def _problem(cls, kind: str, place: Place, written: object) -> Problem:
        key = str(place[-1]) if place else ""
        if kind == "missing":
            example = (cls.model_fields[key].examples or [""])[0]
            return Problem(f"missing key {key!r}", f"add `{key}: {example}`", at=place)
        keys = list(cls.model_fields)
        if kind in ("extra_forbidden", "invalid_key"):
            problem = unknown_key(key, keys, shown(written))
            return replace(problem, way_out=cls.elsewhere.get(key, problem.way_out))
        allowed = "a mapping with the keys " + ", ".join(keys)
        return Problem("is not a mapping", "write {key: value}", allowed, shown(written), place)


class InputSpec(Part, frozen=True):
    """Where the rows are."""

    format: Annotated[InputFormat, BeforeValidator(word_of(InputFormat))] = Field(examples=["parquet"])
    path: Location = Field(examples=["data/flights"])


class PeriodSpec(Part, frozen=True):
    """Which rows one release reads: those whose date in `column` lies in the period of its key."""

    column: Column = Field(examples=["date"])
    every: Annotated[Every, BeforeValidator(word_of(Every))] = Field(examples=["day"])
    timezone: TimeZone = "UTC"


class UnitSpec(Part, frozen=True):
    """Whom the guarantee protects."""

    column: Column = Field(examples=["tailnum"])
    on_null: OnMissing = Field(examples=["drop"])


class BoundsSpec(Part, frozen=True):
    """How much of one unit is used at most."""

    max_groups: Bound = Field(examples=["3"])
    max_rows_per_group: Bound = Field(examples=["10"])


class GroupsSpec(Part, frozen=True):
    """The groups that are released whether or not rows have them; known before any row is read."""

    public: Annotated[PublicGroups, PlainValidator(_read_public)] = Field(examples=["[EWR, JFK, LGA]"])

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if self.size > MAX_GROUP_KEYS:
            why = f"makes {self.size:,} groups"
            way_out = "list fewer values, or the combinations that matter as [[a, b], ...]"
            raise Wrong(Problem(why, way_out, f"at most {MAX_GROUP_KEYS:,}", at=("public",)))
        return self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of a cross product; none where the groups are listed."""
        return tuple(each for each in self.public if isinstance(each, Axis))

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The groups as listed; none where they are a cross product."""
        return tuple(each for each in self.public if not isinstance(each, Axis))

    @property
    def size(self) -> int:
        """The number of groups."""
        return math.prod(len(axis.values) for axis in self.axes) if self.axes else len(self.public)


class GuaranteeSpec(Part, frozen=True):
    """The guarantee of one release, as it is written."""

    epsilon: Epsilon = Field(examples=["1.0"])
    delta: Delta = Field(examples=["1e-6"])


def _read_guarantee(value: object) -> PrivacyGuarantee:
    written = (
        {"epsilon": value.epsilon, "delta": value.delta} if isinstance(value, PrivacyGuarantee) else value
    )
    part = GuaranteeSpec.model_validate(written)
    return PrivacyGuarantee(part.epsilon, part.delta)


class ColumnQuerySpec(Part, frozen=True):
    """A query about the values of a column, each clamped to [lower, upper] and rounded to `step`."""

    name: QueryName = Field(examples=["total_delay"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(COLUMN_KINDS))] = Field(examples=["sum"])
    column: Column = Field(examples=["dep_delay"])
    lower: Amount = Field(examples=["-30"])
    upper: Amount = Field(examples=["180"])
    step: Step | None = None
    on_null: OnMissing = Missing.DROP
    on_nan: OnMissing = Missing.DROP

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if problems := list(_range_problems(self.lower, self.upper, self.step)):
            raise Wrong(*problems)
        return self


class CountingQuerySpec(Part, frozen=True):
    """A query about rows or units."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("column", "lower", "upper", "step", "on_null", "on_nan"),
        "remove it, or ask for kind: sum or kind: mean, which take it",
    )

    name: QueryName = Field(examples=["flights"])
    kind: Annotated[QueryKind, BeforeValidator(word_of(COUNTING_KINDS))] = Field(examples=["count"])


QuerySpec = CountingQuerySpec | ColumnQuerySpec


def _range_problems(lower: Fraction, upper: Fraction, step: Fraction | None) -> Iterator[Problem]:
    if lower >= upper:
        why = f"is not above lower = {decimal_text(lower)}"
        yield Problem(why, "swap or widen the bounds", "lower < upper", decimal_text(upper), ("upper",))
    if step is None:
        return
    for key, bound in (("lower", lower), ("upper", upper)):
        if bound % step:
            below = bound // step * step
            why = f"is not a multiple of step = {decimal_text(step)}"
            way_out = f"write {decimal_text(below)} or {decimal_text(below + step)}, or another step"
            yield Problem(why, way_out, "multiples of step", decimal_text(bound), (key,))
    if (upper - lower) / step > MAX_STEPS:
        why = f"cuts [lower, upper] into more than {MAX_STEPS:,} steps"
        way_out = "write a coarser step, or leave `step` out"
        yield Problem(why, way_out, "(upper - lower) / step <= 2^31", decimal_text(step), ("step",))


def _read_query(value: object) -> QuerySpec:
    if isinstance(value, QuerySpec):
        return value
    if not isinstance(value, Mapping):
        raise wrong(value, "is not a mapping", way_out="write {name: flights, kind: count}")
    if "kind" not in value:
        kinds = " | ".join(QueryKind)
        raise Wrong(Problem("missing key 'kind'", "add `kind: count`", f"kind: {kinds}", at=("kind",)))
    (kind,) = read_each([("kind", value["kind"])], word_of(QueryKind))
    part = CountingQuerySpec if kind in COUNTING_KINDS else ColumnQuerySpec
    return part.model_validate({**value, "kind": kind})


class BudgetSpec(Part, frozen=True):
    """Whose budget pays: an account that `dp-spark ledger` keeps."""

    population: Population = Field(examples=["nyc_planes"])


class SinkSpec(Part, frozen=True):
    """One place where the release is published."""

    sink: Annotated[SinkKind, BeforeValidator(word_of(SinkKind))] = Field(examples=["parquet"])
    path: Location = Field(examples=["out/flights_by_origin"])


class ReleaseSpec(Part, frozen=True):
    """One release: the rows, whom it protects and how well, what it asks, where it goes.

    Built in Python, parts are mappings or parts, and numbers may be int, Fraction, Decimal, text, or a
    float, which counts as the decimal that Python prints for it.

    Raises:
        SpecRefused: names everything that is wrong.
    """

    release: ReleaseName = Field(examples=["flights_by_origin"])
    input: InputSpec = Field(examples=["{format: parquet, path: data/flights}"])
    period: PeriodSpec | None = None
    unit: UnitSpec = Field(examples=["{column: tailnum, on_null: drop}"])
    neighbours: Annotated[Neighbours, BeforeValidator(word_of(Neighbours))] = Neighbours.ADD_REMOVE
    bounds: BoundsSpec = Field(examples=["{max_groups: 3, max_rows_per_group: 10}"])
    group_by: Annotated[tuple[Column, ...], BeforeValidator(read_list)] = Field(examples=["[origin]"])
    groups: GroupsSpec = Field(examples=["{public: [EWR, JFK, LGA]}"])
    guarantee: Annotated[PrivacyGuarantee, PlainValidator(_read_guarantee)] = Field(
        examples=["{epsilon: 1.0, delta: 1e-6}"]
    )
    queries: Annotated[
        tuple[Annotated[QuerySpec, PlainValidator(_read_query)], ...], BeforeValidator(read_list)
    ] = Field(examples=["[{name: flights, kind: count}]"])
    noise: Annotated[NoiseChoice, BeforeValidator(word_of(NoiseChoice))] = NoiseChoice.AUTO
    budget: BudgetSpec = Field(examples=["{population: nyc_planes}"])
    publish: Annotated[tuple[SinkSpec, ...], BeforeValidator(read_list)] = Field(
        examples=["[{sink: parquet, path: out/flights_by_origin}]"]
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [*_column_problems(self), *_group_problems(self), *_path_problems(self)]
        if problems:
            raise Wrong(*problems)
        return self

    def group_keys(self) -> tuple[tuple[str, ...], ...]:
        """The public groups in code point order, each with its values in the order of `group_by`."""
        axes = {each.column: each.values for each in self.groups.axes}
        return tuple(product(*(axes[column] for column in self.group_by))) if axes else self.groups.keys

    def canonical_json(self) -> str:
        """The same text for every way to write this spec; `parse_spec` reads it too."""
        return json.dumps(self, default=_plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()


def output_columns(query: str) -> tuple[str, str, str, str]:
    """The columns that a query of this name writes: value, std, low, high."""
    return query, query + STD_SUFFIX, query + LOW_SUFFIX, query + HIGH_SUFFIX


def _column_problems(spec: ReleaseSpec) -> Iterator[Problem]:
    """Output columns that only one of two writers can have; Spark and warehouses fold case."""
    own = "the release itself"
    writers = dict.fromkeys((PERIOD_COLUMN, RELEASE_COLUMN, REVISION_COLUMN), own)
    wanted: list[tuple[Place, str, tuple[str, ...]]] = [
        (("group_by", i), column, (column,)) for i, column in enumerate(spec.group_by)
    ]
    wanted += [
        (("queries", i, "name"), query.name, output_columns(query.name))
        for i, query in enumerate(spec.queries)
    ]
    for place, name, columns in wanted:
        clash = next((column for column in columns if column.casefold() in writers), None)
        if clash is not None:
            why = f"would write the column {shown(clash)}, which {writers[clash.casefold()]} writes"
            way_out = "list it once, or rename it in the input" if place[0] == "group_by" else "rename it"
            yield Problem(why, way_out, "distinct output columns, whatever their case", shown(name), place)
        for column in columns:
            writers.setdefault(column.casefold(), f"{place[0]}[{place[1]}]")


def _group_problems(spec: ReleaseSpec) -> Iterator[Problem]:
    place, columns = ("groups", "public"), list(spec.group_by)
    axes = [each.column for each in spec.groups.axes]
    if axes and sorted(axes) != sorted(columns):
        way_out = f"write one list of values for each of {', '.join(columns)}"
        yield Problem("has other columns than group_by", way_out, shown(columns), shown(axes), place)
    uneven = next((key for key in spec.groups.keys if len(key) != len(columns)), None)
    if uneven is not None:
        why = f"has {len(uneven)} values, group_by has {len(columns)} columns"
        way_out = (
            f"write every group as a list of {len(columns)}, or {{column: [values]}} for all combinations"
        )
        yield Problem(why, way_out, f"a value for each of {', '.join(columns)}", shown(list(uneven)), place)


def _path_problems(spec: ReleaseSpec) -> Iterator[Problem]:
    """Paths of which one would overwrite, or be read as part of, another."""
    places: list[tuple[Place, str]] = [(("input", "path"), spec.input.path)]
    places += [(("publish", i, "path"), sink.path) for i, sink in enumerate(spec.publish)]
    for (first, one), (second, other) in combinations(places, 2):
        a, b = (PurePosixPath(posixpath.normpath(path)) for path in (one, other))
        if a.is_relative_to(b) or b.is_relative_to(a):
            name = "input.path" if first[0] == "input" else f"publish[{first[1]}].path"
            why = f"is the same directory as {name} = {shown(one)}, or one lies within the other"
            yield Problem(why, "write to a directory of its own", "separate paths", shown(other), second)


def _plain(value: object) -> object:
    """What JSON does not know, in terms of what it does."""
    match value:
        case GroupsSpec(public=[Axis(values=values)]):  # the same groups as a list of them
            return {"public": [(each,) for each in values]}
        case GroupsSpec(public=[Axis(), *_]):
            return {"public": {each.column: each.values for each in value.axes}}
        case BaseModel():
            return {key: each for key, each in value if each is not None}
        case PrivacyGuarantee(epsilon=epsilon, delta=delta):
            return {"epsilon": epsilon, "delta": delta}
        case Fraction(numerator=numerator, denominator=denominator):
            return f"{numerator}/{denominator}"
        case _:
            raise TypeError(f"a spec holds no {type(value).__name__}")


def load_spec(path: Path | str) -> ReleaseSpec:
    """The spec in a YAML file.

    Raises:
        SpecRefused: there is no such file, or as `parse_spec`.
    """
    file, source = Path(path), f"spec {str(path)!r}"
    try:
        if not file.is_file():
            raise refused("spec_not_found", source, [Problem("is not a file", "check the path of the spec")])
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as failure:
        problem = Problem(f"cannot be read ({type(failure).__name__})", "check the path and its permissions")
        raise refused("spec_not_found", source, [problem]) from None
    try:
        text = content.decode()
    except UnicodeDecodeError as failure:
        if len(content) > MAX_BYTES:  # perhaps cut within a character
            text = content.decode(errors="replace")
        else:
            line = content.count(b"\n", 0, failure.start) + 1
            problem = Problem(f"line {line} is not UTF-8", "save the file as UTF-8")
            raise refused("spec_not_utf8", source, [problem]) from None
    return parse_spec(text, source=source)


def parse_spec(text: str, *, source: str = "spec") -> ReleaseSpec:
    """The spec that a YAML text writes.

    Raises:
        SpecRefused: names everything that is wrong, each with key, value, allowed range and way out.
    """
    return _spec_of(read_tree(text, source=source), source)


def spec_from_canonical(text: str) -> ReleaseSpec:
    """The spec of which `canonical_json` is `text`.

    Raises:
        SpecRefused: it is not the canonical JSON of a spec.
    """
    try:
        tree = json.loads(text)
    except ValueError:
        problem = Problem("is not JSON", "the stored spec is damaged: restore it from a backup")
        raise refused("spec_not_canonical", "stored spec", [problem]) from None
    return _spec_of(tree, "stored spec")


def _spec_of(tree: object, source: str) -> ReleaseSpec:
    try:
        return ReleaseSpec.model_validate(tree)
    except ValidationError as failure:
        raise refused("spec_invalid", source, list(ReleaseSpec._problems(failure))) from None
