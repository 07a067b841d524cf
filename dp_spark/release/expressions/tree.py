"""An expression as a tree: constants, columns, calls and casts, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written in the expression; None is NULL."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a field within one: `("place", "town")`."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator, by its name in lower case: `year`, `+`, `is null`."""

    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as another type, by the name of the type: NULL where it has none."""

    of: "Node"
    to: str


Node: TypeAlias = Constant | Name | Call | Cast


def columns_of(node: Node) -> Iterator[str]:
    """The columns that an expression reads, as often as it reads them."""
    match node:
        case Name(path):
            yield path[0]
        case Call(_, arguments):
            for each in arguments:
                yield from columns_of(each)
        case Cast(of):
            yield from columns_of(of)
        case Constant():
            pass
