"""A tree, with the kinds of its columns, to Spark SQL that gives a value or NULL for every row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from dp_spark.release.expressions.functions import FUNCTIONS, Fixed, Signature, checked_extract
from dp_spark.release.expressions.kinds import (
    SQL_TYPE,
    Kind,
    Typed,
    cast,
    common_kind,
    cut,
    literal,
    mixed,
    moved,
    within_years,
)
from dp_spark.release.expressions.tree import Call, Cast, Constant, Name, Node
from dp_spark.release.problems import Problem, Wrong, shown

Columns: TypeAlias = Callable[[tuple[str, ...]], Typed]
MAX_SQL = 200_000


def compiled(node: Node, columns: Columns) -> Typed:
    """The expression as SQL; `columns` gives each column, already of one of the kinds.

    Raises:
        Wrong: a part is of a kind that its place does not take, or a constant is out of its range.
    """
    match node:
        case Constant():
            return literal(node)
        case Name(path):
            return columns(path)
        case Cast(of, to):
            return cast(compiled(of, columns), to)
        case Call(function, arguments):
            values = [compiled(each, columns) for each in arguments]
    special = SPECIAL.get(function)
    typed = special(function, values) if special else _called(function, values)
    if len(typed.sql) > MAX_SQL:
        raise Wrong(Problem("is too complex", "derive parts of it as columns first"))
    return typed


def _called(function: str, values: list[Typed]) -> Typed:
    fitting = [(each, given) for each in FUNCTIONS[function] if (given := _given(each, values)) is not None]
    if not fitting:
        raise _misfit(function, values)
    signature, given = fitting[0]
    if function == "regexp_extract":
        checked_extract(*(each.constant and each.constant.value for each in values[1:]))
    sql = signature.sql.format(*given)
    sql = within_years(signature.gives, sql) if signature.years else sql
    sql = cut(sql) if signature.long else sql
    unknown = any(each.kind is None for each in values) and len({each.gives for each, _ in fitting}) > 1
    return Typed(None if unknown else signature.gives, sql)


def _given(signature: Signature, values: list[Typed]) -> list[str] | None:
    """The arguments as the template takes them; None where they do not fit."""
    takes = signature.takes
    if signature.many and len(values) > len(takes):
        takes = (*takes, *[takes[-1]] * (len(values) - len(takes)))
    if len(takes) != len(values):
        return None
    given: list[str] = []
    for parameter, value in zip(takes, values, strict=True):
        if isinstance(parameter, Fixed):
            given.append(parameter.read(value.constant.value if value.constant else None))
        elif (sql := moved(value, parameter)) is not None:
            given.append(sql)
        else:
            return None
    return [", ".join(given)] if signature.many else given


def _misfit(function: str, values: Sequence[Typed]) -> Wrong:
    got = ", ".join(str(each.kind or "NULL") for each in values) or "nothing"
    ways = " or ".join(f"({_words(each)})" for each in FUNCTIONS[function])
    kinds = [each for signature in FUNCTIONS[function] for each in signature.takes if isinstance(each, Kind)]
    other = next((kind for kind in kinds if kind is not Kind.TEXT), None)
    way_out = "give it one of these"
    if other is not None and any(each.kind is Kind.TEXT for each in values):
        way_out = f"write try_cast(COLUMN AS {SQL_TYPE[other]}) for a text"
    return Wrong(Problem(f"{shown(function)} takes {ways}, and gets ({got})", way_out))


def _words(signature: Signature) -> str:
    words = ", ".join(each.words if isinstance(each, Fixed) else str(each) for each in signature.takes)
    return f"{words}, ..." if signature.many else words


def _need(function: str, values: Sequence[Typed], least: int, most: int) -> None:
    if not least <= len(values) <= most:
        number = str(least) if least == most else f"{least} or more"
        raise Wrong(Problem(f"{shown(function)} has {len(values)} arguments", f"give it {number}"))


def _alike(values: Sequence[Typed]) -> tuple[Kind | None, list[str]]:
    """The values, all of one kind; NULL where none is known."""
    kind = common_kind(list(values))
    return kind, ["NULL" if kind is None else str(moved(each, kind)) for each in values]


def _compare(operator: str, values: list[Typed]) -> Typed:
    _, (left, right) = _alike(values)
    return Typed(Kind.BOOLEAN, f"({left} {operator} {right})")


def _in(_: str, values: list[Typed]) -> Typed:
    of, *options = _alike(values)[1]
    return Typed(Kind.BOOLEAN, f"({of} IN ({', '.join(options)}))")


def _is_null(function: str, values: list[Typed]) -> Typed:
    _need(function, values, 1, 1)
    negated = "NOT " if function == "isnotnull" else ""
    return Typed(Kind.BOOLEAN, f"({values[0].sql} IS {negated}NULL)")


def _coalesce(function: str, values: list[Typed]) -> Typed:
    _need(function, values, *((2, 2) if function in ("nvl", "ifnull") else (1, 50)))
    kind, given = _alike(values)
    return Typed(kind, f"coalesce({', '.join(given)})")


def _extreme(function: str, values: list[Typed]) -> Typed:
    _need(function, values, 2, 50)
    kind, given = _alike(values)
    return Typed(kind, f"{function}({', '.join(given)})")


def _nullif(function: str, values: list[Typed]) -> Typed:
    _need(function, values, 2, 2)
    kind, (value, other) = _alike(values)
    return Typed(kind, f"nullif({value}, {other})")


def _nvl2(function: str, values: list[Typed]) -> Typed:
    _need(function, values, 3, 3)
    return _case(function, [Typed(Kind.BOOLEAN, f"({values[0].sql} IS NOT NULL)"), *values[1:]])


def _if(function: str, values: list[Typed]) -> Typed:
    _need(function, values, 3, 3)
    return _case(function, values)


def _case(_: str, values: list[Typed]) -> Typed:
    """CASE of conditions and values in turn, and the value for all others."""
    conditions = values[:-1:2]
    kind, then = _alike([*values[1:-1:2], values[-1]])
    return Typed(kind, f"CASE {' '.join(_whens(conditions, then))} ELSE {then[-1]} END")


def _whens(conditions: Sequence[Typed], then: Sequence[str]) -> Iterator[str]:
    for condition, value in zip(conditions, then, strict=False):
        when = moved(condition, Kind.BOOLEAN)
        if when is None:
            raise mixed([condition, Typed(Kind.BOOLEAN, "")])
        yield f"WHEN {when} THEN {value}"


SPECIAL: Mapping[str, Callable[[str, list[Typed]], Typed]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), _compare),
    "in": _in,
    **dict.fromkeys(("is null", "isnull", "isnotnull"), _is_null),
    **dict.fromkeys(("coalesce", "nvl", "ifnull"), _coalesce),
    **dict.fromkeys(("greatest", "least"), _extreme),
    "nullif": _nullif,
    "nvl2": _nvl2,
    **dict.fromkeys(("if", "iff"), _if),
    "case": _case,
}
