"""Row expressions of a spec: a part of Spark SQL that never fails, never looks beyond its row or its spec."""

from functools import lru_cache

from dp_spark.release.expressions.compile import Columns, compiled
from dp_spark.release.expressions.kinds import NOTHING, Kind, Typed, default_sql
from dp_spark.release.expressions.tree import Node, columns_of
from dp_spark.release.problems import Problem, Wrong

__all__ = [
    "NOTHING",
    "Columns",
    "Kind",
    "Node",
    "Typed",
    "columns_of",
    "compiled",
    "condition_sql",
    "default_sql",
    "parse_expression",
]


@lru_cache(maxsize=1_000)
def parse_expression(text: str) -> Node:
    """The tree of an expression, checked as far as that needs no columns.

    Raises:
        Wrong: it is no expression, or none of our list, whatever its columns are.
    """
    from dp_spark.release.expressions.parse import parse  # noqa: PLC0415  # sqlglot takes seconds to import

    tree = parse(text)
    compiled(tree, lambda path: NOTHING)
    return tree


def condition_sql(node: Node, columns: Columns) -> str:
    """A condition as SQL.

    Raises:
        Wrong: it is no condition, or as `compiled`.
    """
    typed = compiled(node, columns)
    if typed.kind not in (Kind.BOOLEAN, None):
        raise Wrong(Problem(f"is a {typed.kind}, not a condition", "compare it: ... > 0", "a boolean"))
    return typed.sql if typed.kind else "CAST(NULL AS BOOLEAN)"
