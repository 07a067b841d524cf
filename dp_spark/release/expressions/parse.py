"""SQL text to a tree: read by sqlglot, kept only where every node and every part of it is on our list.

Functions are read by their names, never as sqlglot's own nodes of a function, so that what Spark is asked
for is decided in one table. Spark never sees the text: it gets what is compiled from the tree.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from dp_spark.release.expressions.compile import SPECIAL
from dp_spark.release.expressions.functions import FUNCTIONS, REASONS
from dp_spark.release.expressions.kinds import CAST_TYPES
from dp_spark.release.expressions.tree import Call, Cast, Constant, Name, Node
from dp_spark.release.problems import Problem, Wrong, nearest, shown, wrong
from dp_spark.release.reading import UNPRINTABLE

MAX_LENGTH = 2_000
MAX_DEPTH = 60
MAX_BRACKETS = 20
LARGEST_WHOLE = 2**63 - 1


class _Expressions(Spark):
    """Spark's SQL, with every function but CASE and the casts read as a name with arguments."""

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: Mapping[str, Any] = {}
        FUNCTION_PARSERS = {
            name: Spark.Parser.FUNCTION_PARSERS[name]
            for name in ("CAST", "TRY_CAST")
            if name in Spark.Parser.FUNCTION_PARSERS
        }
        NO_PAREN_FUNCTIONS: Mapping[Any, Any] = {}
        NO_PAREN_FUNCTION_PARSERS = {
            name: Spark.Parser.NO_PAREN_FUNCTION_PARSERS[name]
            for name in ("CASE",)
            if name in Spark.Parser.NO_PAREN_FUNCTION_PARSERS
        }


_OPERATORS: Mapping[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.DPipe: "concat",
    exp.And: "and",
    exp.Or: "or",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
}
_NEGATED: Mapping[type[exp.Expression], str] = {exp.NullSafeNEQ: "<=>"}
# Two of these side by side are read differently by different parsers.
_PREDICATES = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Like, exp.ILike, exp.RegexpLike, exp.Is, exp.In, exp.Between, exp.Not, exp.And, exp.Or,
)  # fmt: skip
_TYPES = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint", "DOUBLE": "double",
    "TEXT": "string", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMPTZ": "timestamp",
    "TIMESTAMP": "timestamp",
}  # fmt: skip
KNOWN = frozenset(name for name in (*FUNCTIONS, *SPECIAL, *CAST_TYPES) if name.isidentifier())
_WORDS = {
    "current_date", "current_timestamp", "current_user", "current_time", "localtimestamp", "user",
    "session_user", "current_catalog", "current_database", "current_schema",
}  # fmt: skip
# What sqlglot notes about a node that changes nothing in its meaning.
_NOTES = {"safe", "typed", "coalesce", "is_string", "quoted", "nested"}
_ALLOWED = "columns, constants, operators, CASE, and the functions of docs/spec.md"


def parse(text: str) -> Node:
    """The tree of an expression.

    Raises:
        Wrong: it is no single expression, or holds something that is not on the list.
    """
    if len(text) > MAX_LENGTH:
        allowed = f"at most {MAX_LENGTH:,} characters"
        raise wrong(text, "is too long", allowed=allowed, way_out="derive parts of it as columns first")
    if UNPRINTABLE.search(text):
        raise wrong(text, "holds a control character", allowed="printable text", way_out="remove it")
    if "\\" in text or "${" in text:
        raise wrong(
            text,
            "holds a backslash or '${', which Spark may replace before it reads the expression",
            allowed=_ALLOWED,
            way_out="write [0-9] for a digit and [.] for a point in patterns; rename such a column",
        )
    try:
        tokens = Spark().tokenize(text)
        if any(token.comments for token in tokens):
            raise wrong(text, "holds a comment", allowed=_ALLOWED, way_out="write it beside the expression")
        if _most_brackets(tokens) > MAX_BRACKETS:
            way_out = "derive parts of it as columns first"
            raise wrong(text, f"has more than {MAX_BRACKETS} brackets within each other", way_out=way_out)
        found = [each for each in _Expressions().parser().parse(tokens, text) if each is not None]
        if len(found) != 1 or ";" in _outside_quotes(text):
            way_out = "write one expression, without ';'"
            raise wrong(text, "is not one expression", allowed=_ALLOWED, way_out=way_out)
        return _node(cast(exp.Expression, found[0]), 0)
    except (SqlglotError, RecursionError) as failure:
        why = f"is no SQL expression ({type(failure).__name__}{_near(failure)})"
        way_out = "check brackets, quotes and the order of words"
        raise wrong(text, why, allowed=_ALLOWED, way_out=way_out) from None


def _most_brackets(tokens: Iterable[Any]) -> int:
    """How deep brackets and CASEs lie in each other: a parser must not end where the stack does."""
    step = {"L_PAREN": 1, "CASE": 1, "R_PAREN": -1, "END": -1}
    return max(accumulate((step.get(token.token_type.name, 0) for token in tokens), initial=0))


def _outside_quotes(text: str) -> str:
    kept, quote = [], ""
    for each in text:
        if quote:
            quote = "" if each == quote else quote
        elif each in "'\"`":
            quote = each
        else:
            kept.append(each)
    return "".join(kept)


def _near(failure: Exception) -> str:
    errors = getattr(failure, "errors", None)
    return f" at character {errors[0]['col']}, near {shown(errors[0]['highlight'])}" if errors else ""


def _node(tree: exp.Expression, depth: int) -> Node:
    if depth > MAX_DEPTH:
        way_out = "derive parts of it as columns first"
        raise Wrong(Problem(f"is more than {MAX_DEPTH} levels deep", way_out))
    reader = _READERS.get(type(tree))
    if reader is None:
        raise _not_allowed(tree)
    return reader(tree, depth + 1)


def _parts(tree: exp.Expression, *keys: str) -> list[Any]:
    """The parts of a node by key; a node that has any other is refused."""
    others = [key for key, part in tree.args.items() if part and key not in {*keys, *_NOTES}]
    if others:
        raise _not_allowed(tree)
    return [tree.args.get(key) for key in keys]


def _not_allowed(tree: exp.Expression) -> Wrong:
    kind = type(tree).__name__
    why, way_out = _WHY.get(kind, (f"holds {kind}, which no expression may hold", "leave it out"))
    return Wrong(Problem(why, way_out, _ALLOWED))


_ROWS = "looks at other rows or tables", "compute it in the view that is released from"
_LISTS = "holds a list, a map or a function of its own", "take the value out in the view"
_WHY: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("Select", "Subquery", "Exists", "Window", "Filter", "Union", "Values"), _ROWS),
    **dict.fromkeys(("Any", "All"), _ROWS),
    **dict.fromkeys(("Lambda", "Bracket", "Array", "Struct", "Tuple", "JSONExtract", "Unnest"), _LISTS),
    "Star": ("holds '*'", "name one column"),
    "Distinct": _ROWS,
    "Interval": ("holds an interval", "write date_add(day, 1) or add_months(day, 1)"),
    "Concat": (
        "holds two quoted texts side by side, which Spark's versions read differently",
        "write one text; put double quotes around one that holds a single quote",
    ),
    "RawString": ("holds a raw text", "write it in plain quotes"),
    "HexString": ("holds a hexadecimal constant", "write a decimal number or a quoted text"),
    "Alias": ("names its result, or lacks an operator", "write the expression alone; its name is the key"),
    "Placeholder": ("holds a parameter", "write the value"),
    "Parameter": ("holds a parameter or a variable", "write the value"),
    "BitwiseXor": ("works on bits", "write pow(a, b) for a power"),
    "Escape": ("changes LIKE's escape character", "use rlike with [%] or [_]"),
    "DataType": ("casts to another type", "cast to " + ", ".join(CAST_TYPES)),
}  # fmt: skip


def _operator(tree: exp.Expression, depth: int) -> Node:
    left, right, negate = _parts(tree, "this", "expression", "negate")
    if isinstance(tree, _PREDICATES) and not isinstance(tree, exp.And | exp.Or):
        _require_brackets(left, right)
    call = Call(_OPERATORS[type(tree)], (_node(left, depth), _node(right, depth)))
    return Call("not", (call,)) if negate else call


def _negated(tree: exp.Expression, depth: int) -> Node:
    left, right = _parts(tree, "this", "expression")
    _require_brackets(left, right)
    return Call("not", (Call(_NEGATED[type(tree)], (_node(left, depth), _node(right, depth))),))


def _require_brackets(*operands: exp.Expression) -> None:
    if any(isinstance(each, _PREDICATES) for each in operands):
        way_out = "put brackets around the comparison that comes first"
        raise Wrong(Problem("compares the outcome of a comparison without brackets", way_out, _ALLOWED))


def _not(tree: exp.Expression, depth: int) -> Node:
    (of,) = _parts(tree, "this")
    return Call("not", (_node(of, depth),))


def _negative(tree: exp.Expression, depth: int) -> Node:
    (of,) = _parts(tree, "this")
    if isinstance(of, exp.Literal) and not of.is_string:
        return Constant(_in_range(-_number(of.name)))
    return Call("negative", (_node(of, depth),))


def _brackets(tree: exp.Expression, depth: int) -> Node:
    (of,) = _parts(tree, "this")
    return _node(of, depth)


def _literal(tree: exp.Expression, _: int) -> Node:
    (text,) = _parts(tree, "this")
    if not tree.is_string:
        return Constant(_in_range(_number(text)))
    if UNPRINTABLE.search(text) or set("\t\n\r") & set(text):
        raise wrong(text, "holds a control character", allowed="printable text", way_out="remove it")
    return Constant(str(text))


def _number(text: str) -> int | float:
    number = int(text) if text.isascii() and text.isdigit() else float(text)
    if isinstance(number, float) and number in (float("inf"), float("-inf")):
        raise wrong(text, "is too large", allowed="a number below 1.8e308", way_out="write a smaller one")
    return number


def _in_range(number: int | float) -> int | float:
    if isinstance(number, int) and not -LARGEST_WHOLE <= number + (number < 0) <= LARGEST_WHOLE:
        raise wrong(number, "is too large", allowed="64 bits", way_out=f"write {float(number)!r}")
    return number


def _boolean(tree: exp.Expression, _: int) -> Node:
    return Constant(bool(tree.this))


def _null(tree: exp.Expression, _: int) -> Node:
    _parts(tree)
    return Constant(None)


def _column(tree: exp.Expression, _: int) -> Node:
    parts = [part for part in _parts(tree, "catalog", "db", "table", "this") if part is not None]
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise _not_allowed(exp.Star())
    if len(parts) == 1 and not parts[0].quoted and parts[0].name.lower() in _WORDS:
        raise unknown_function(parts[0].name)
    return Name(tuple(part.name for part in parts))


def _is(tree: exp.Expression, depth: int) -> Node:
    left, right = _parts(tree, "this", "expression")
    _require_brackets(left)
    of = _node(left, depth)
    match right:
        case exp.Null():
            return Call("is null", (of,))
        case exp.Boolean():
            return Call("is true" if right.this else "is false", (of,))
    raise _not_allowed(right)


def _in(tree: exp.Expression, depth: int) -> Node:
    if tree.args.get("query"):
        raise _not_allowed(exp.Subquery())
    if not tree.args.get("expressions") or any(tree.args.get(key) for key in ("unnest", "field")):
        raise Wrong(Problem("looks for a value in no list", "write x IN (1, 2)", "a list of 1 or more"))
    left, options = _parts(tree, "this", "expressions")
    _require_brackets(left, *options)
    return Call("in", (_node(left, depth), *(_node(each, depth) for each in options)))


def _between(tree: exp.Expression, depth: int) -> Node:
    parts = _parts(tree, "this", "low", "high")
    _require_brackets(*parts)
    of, low, high = (_node(each, depth) for each in parts)
    return Call("and", (Call(">=", (of, low)), Call("<=", (of, high))))


def _case(tree: exp.Expression, depth: int) -> Node:
    of, cases, default = _parts(tree, "this", "ifs", "default")
    value = None if of is None else _node(of, depth)
    return Call("case", tuple(_branches(value, cases, default, depth)))


def _branches(value: Node | None, cases: list[Any], default: Any, depth: int) -> Iterator[Node]:
    for case in cases:
        when, then = _parts(case, "this", "true")
        condition = _node(when, depth)
        yield condition if value is None else Call("=", (value, condition))
        yield _node(then, depth)
    yield Constant(None) if default is None else _node(default, depth)


def _cast(tree: exp.Expression, depth: int) -> Node:
    of, to = _parts(tree, "this", "to")
    (kind,) = _parts(to, "this")
    if getattr(kind, "name", "") not in _TYPES:
        raise _not_allowed(to)
    return Cast(_node(of, depth), _TYPES[kind.name])


def _call(tree: exp.Expression, depth: int) -> Node:
    name, arguments = _parts(tree, "this", "expressions")
    if not isinstance(name, str):
        raise Wrong(Problem("calls a function by a quoted name", "write the name plainly", _ALLOWED))
    function = name.lower()
    if function not in KNOWN:
        raise unknown_function(name)
    nodes = tuple(_node(each, depth) for each in arguments or [])
    if function in CAST_TYPES and len(nodes) == 1:
        return Cast(nodes[0], function)
    return Call(function, nodes)


def unknown_function(name: str) -> Wrong:
    """The problem of a function that is not on the list."""
    why = next((why for why, names in REASONS.items() if name.lower() in names), "is not on the list")
    guess = nearest(name, KNOWN) if why == "is not on the list" else None
    way_out = f"{guess} is the nearest that is" if guess else "compute it in the view that is released from"
    return Wrong(Problem(f"the function {shown(name)} {why}", way_out, "the functions of docs/spec.md"))


_READERS: Mapping[type[exp.Expression], Callable[[Any, int], Node]] = {
    **dict.fromkeys(_OPERATORS, _operator),
    **dict.fromkeys(_NEGATED, _negated),
    exp.Paren: _brackets,
    exp.Not: _not,
    exp.Neg: _negative,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Column: _column,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _call,
}
