"""The words that every room shares: a guarantee, the unit it protects, what neighbours are."""

import json
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Neighbours(StrEnum):
    """Which pairs of inputs the guarantee makes hard to tell apart."""

    ADD_REMOVE = "add_remove"  # one unit with all its rows is added or removed
    REPLACE = "replace"  # one unit's rows are replaced by another's: how many units there are is public


class Every(StrEnum):
    """How long a period is; a week starts on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Whom the guarantee protects: all rows that share the values of `columns`, or each row by itself.

    Attributes:
        columns: in code point order, whatever order they are given in; none where each row is a unit.
        per: the rows of one such period only, so that somebody with rows in many is as many units.

    Raises:
        ValueError: a column stands twice, or a row is to be a unit of a period.
    """

    columns: tuple[str, ...]
    per: Every | None = None

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns = {self.columns} must be distinct")
        if self.per is not None and not self.columns:
            raise ValueError("a row is a unit by itself, whatever period it lies in")
        object.__setattr__(self, "columns", tuple(sorted(self.columns)))

    @property
    def is_row(self) -> bool:
        """Whether each row is a unit."""
        return not self.columns

    def __str__(self) -> str:
        """One text for each unit, and one unit for each text; `parse` reads it.

        `row`, or the quoted columns: `"household" + "person" per day`.
        """
        columns = " + ".join(json.dumps(column, ensure_ascii=False) for column in self.columns)
        return " per ".join(filter(None, (columns or "row", self.per)))

    @classmethod
    def parse(cls, text: str) -> "PrivacyUnit":
        """The unit whose text this is.

        Raises:
            ValueError: it is the text of none.
        """
        columns: list[str] = []
        rest = text
        if text == "row":
            return cls(())
        while rest.startswith('"'):
            column, end = json.JSONDecoder().raw_decode(rest)
            columns.append(column)
            rest = rest[end:].removeprefix(" + ")
        unit = cls(tuple(columns), Every(rest.removeprefix(" per ")) if rest else None)
        if str(unit) != text or unit.is_row:
            raise ValueError(f"{text!r} is the text of no unit")
        return unit


@dataclass(frozen=True, slots=True)
class PrivacyGuarantee:
    """(epsilon, delta) as exact fractions, so that ten times 0.1 is 1.

    Raises:
        ValueError: epsilon is not positive, or delta lies outside [0, 1).
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon = {self.epsilon} must be positive")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta = {self.delta} must lie in [0, 1)")

    def share(self, parts: int) -> "PrivacyGuarantee":
        """One of `parts` equal shares; basic composition of all of them gives this guarantee back."""
        return PrivacyGuarantee(self.epsilon / parts, self.delta / parts)
