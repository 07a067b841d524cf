"""The categories that an answer may have, and which of them are sensitive.

An answer is one column, or several that are crossed into cells. Whatever is not listed, NULL, or unknown in
one of the columns is the catch-all, which is always sensitive. A cell that is listed and not sensitive is
published in clear with some probability, so nothing becomes so by being left out or misspelt.
"""

import hashlib
import json
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dp_spark.errors import PlanRefused
from dp_spark.uldp.categories import OTHER, in_order, require_order, require_size
from dp_spark.uldp.designs import Ids
from dp_spark.uldp.texts import could_be_listed, normal, shown

CATCH_ALL = 0
_DIGEST_OF = "dp_spark.uldp.domain/1"
_NOWHERE = -1

Cell = tuple[str, ...]
Column = Sequence[object] | NDArray[np.object_]


class SensitiveIf(StrEnum):
    """When a cell of crossed columns is sensitive."""

    ANY = "any"  # a category of it is
    ALL = "all"  # all its categories are


@dataclass(frozen=True, slots=True)
class Domain:
    """Categories by code: the catch-all, then the sensitive cells, then the others.

    Made by `of`, `crossed` or `of_cells`. All orders are that of code points, so that the order in which a
    domain is written changes nothing: not a code, not the digest.

    Attributes:
        columns: names, in order.
        categories: of each column, in order.
        flags: for each cell of the product of `categories`, the last column fastest, 1 if it is sensitive.
    """

    columns: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    flags: bytes
    _places: tuple[dict[str, int], ...] = field(init=False, repr=False, compare=False)
    _codes: Ids = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_order("columns", self.columns)
        for column, categories in zip(self.columns, self.categories, strict=True):
            require_order(f"categories of {shown(column)}", categories)
        require_size(self.categories)
        flags = np.frombuffer(self.flags, dtype=np.uint8)
        if len(flags) != math.prod(map(len, self.categories)) or flags.max() > 1:
            raise PlanRefused(
                "uldp_domain", "flags are not one 0 or 1 for each cell", way_out="use Domain.of or its kind"
            )
        open_cells = flags.sum(dtype=np.int64) + np.cumsum(1 - flags, dtype=np.int64)
        codes = np.where(flags, np.cumsum(flags, dtype=np.int64), open_cells)
        codes.setflags(write=False)
        places = tuple({text: place for place, text in enumerate(each)} for each in self.categories)
        object.__setattr__(self, "_codes", codes)
        object.__setattr__(self, "_places", places)

    @classmethod
    def of(cls, column: str, categories: Mapping[str, bool]) -> "Domain":
        """The domain of one column: each category, and whether it is sensitive.

        Raises:
            PlanRefused: as `of_cells`, or a flag is neither True nor False.
        """
        return cls.crossed({column: categories}, SensitiveIf.ANY)

    @classmethod
    def crossed(cls, columns: Mapping[str, Mapping[str, bool]], sensitive: SensitiveIf | str) -> "Domain":
        """All cells of several columns, sensitive by their categories.

        Raises:
            PlanRefused: as `of_cells`, or a flag is neither True nor False.
        """
        for name, flags_of in columns.items():
            if not isinstance(flags_of, Mapping):
                raise PlanRefused(
                    "uldp_domain",
                    f"categories of {shown(name)} = {shown(flags_of)} are no mapping",
                    way_out="write {text: True or False}, or list cells with Domain.of_cells",
                )
        names, categories, orders = in_order(columns)
        marked: list[NDArray[np.bool_]] = []
        for name, order in zip(names, orders, strict=True):
            for text, flag in columns[name].items():
                _require_flag(name, text, flag)
            marked.append(np.array([*columns[name].values()])[order])
        if sensitive not in {*SensitiveIf}:
            why = f"sensitive = {shown(sensitive)} (allowed: {' | '.join(SensitiveIf)})"
            raise PlanRefused("uldp_domain", why, way_out="name the rule, or list cells with Domain.of_cells")
        meet = np.logical_or if sensitive == SensitiveIf.ANY else np.logical_and
        flags = marked[0]
        for each in marked[1:]:
            flags = meet.outer(flags, each)
        return cls(tuple(map(normal, names)), categories, flags.astype(np.uint8).tobytes())

    @classmethod
    def of_cells(cls, columns: Mapping[str, Collection[str]], sensitive: Iterable[Cell]) -> "Domain":
        """All cells of the columns, of which these are sensitive: texts in the order of `columns` as written.

        Raises:
            PlanRefused: a text is empty, too long, unprintable, there twice (after NFC), or that which shows
                the catch-all; there are no categories, or too many cells; a sensitive cell is not listed.
        """
        names, categories, _ = in_order(columns)
        flags = np.zeros([len(each) for each in categories], dtype=np.uint8)
        places = [{text: place for place, text in enumerate(each)} for each in categories]
        turned = [[*columns].index(name) for name in names]
        for cell in sensitive:
            if isinstance(cell, str) or len(cell) != len(names):
                raise _no_such_cell(cell, f"has not {len(names)} texts in a tuple")
            texts = [normal(cell[turn]) if could_be_listed(cell[turn]) else "" for turn in turned]
            spot = tuple(at.get(text, _NOWHERE) for at, text in zip(places, texts, strict=True))
            if _NOWHERE in spot:
                raise _no_such_cell(cell, "is not listed")
            flags[spot] = 1
        return cls(tuple(map(normal, names)), categories, flags.tobytes())

    @property
    def n_categories(self) -> int:
        """The number w of codes: all cells and the catch-all."""
        return 1 + len(self.flags)

    @property
    def n_sensitive(self) -> int:
        """The number v of sensitive codes, 0..v-1, the catch-all among them."""
        return 1 + self.flags.count(1)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The texts of each code, in the order of `columns`; `(other)` in each for the catch-all."""
        listed = list(product(*self.categories))
        other = (OTHER,) * len(self.columns)
        return (other, *(listed[at] for at in np.argsort(self._codes)))

    @property
    def digest(self) -> str:
        """Hex SHA-256 of columns, categories and flags: equal if and only if all codes mean the same.

        Of JSON in UTF-8, which no two of them share, under a name of its own.
        """
        flags = self.flags.hex()
        told = json.dumps(
            [_DIGEST_OF, self.columns, self.categories, flags], ensure_ascii=False, separators=(",", ":")
        )
        return hashlib.sha256(told.encode()).hexdigest()

    def code_of(self, cell: Sequence[str | None]) -> int:
        """The code of one answer: a text, or None, for each of `columns`, in their order.

        Raises:
            PlanRefused: there are more or fewer texts than columns.
        """
        if isinstance(cell, str) or len(cell) != len(self.columns):
            raise PlanRefused(
                "uldp_columns",
                f"an answer has not {len(self.columns)} texts in a tuple, one for each of "
                f"{shown([*self.columns])}",
                way_out="give a text, or None, for each column, in that order",
            )
        answers = {name: [text] for name, text in zip(self.columns, cell, strict=True)}
        return int(self.codes(answers)[0])

    def codes(self, answers: Mapping[str, Column]) -> Ids:
        """The code of each person, shape (n,), from texts or None by the name of their column.

        Texts are compared in NFC. A whole number counts as its decimal text, as Spark writes it; whatever
        else is no text, as NaN, is the catch-all. Python looks at each distinct value only.

        Raises:
            PlanRefused: the columns are not those of the domain, or of different lengths.
        """
        by_name = {normal(name): _values(column) for name, column in answers.items()}
        names, lengths = {*by_name}, {len(column) for column in by_name.values()}
        if names != {*self.columns} or len(answers) != len(names) or len(lengths) != 1:
            raise PlanRefused(
                "uldp_columns",
                f"answers have the columns {shown(sorted(names))} of {len(lengths)} lengths (allowed: "
                f"{shown([*self.columns])} of one length)",
                way_out="give each column of the domain once, with an entry for each person",
            )
        n = lengths.pop()
        cell, known = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
        for name, places in zip(self.columns, self._places, strict=True):
            place = _looked_up(by_name[name], places)
            known &= place != _NOWHERE
            cell = cell * len(places) + place
        return np.where(known, self._codes[np.where(known, cell, 0)], CATCH_ALL)


def _looked_up(answers: Sequence[Hashable], places: dict[str, int]) -> Ids:
    """The place of each text, (n,), or NOWHERE."""
    found = {answer: _place(answer, places) for answer in set(answers)}
    return np.fromiter(map(found.__getitem__, answers), dtype=np.int64, count=len(answers))


def _values(column: Column) -> Sequence[Hashable]:
    """The answers of a column as Python values: a list, an array of NumPy, Arrow or pandas.

    Raises:
        PlanRefused: it is one text, or no column.
    """
    for convert in ("to_pylist", "tolist"):
        if hasattr(column, convert):
            values: Sequence[Hashable] = getattr(column, convert)()
            return values
    if isinstance(column, str | bytes) or not isinstance(column, Sequence):
        raise PlanRefused(
            "uldp_columns",
            f"a column of answers is of type {type(column).__name__}",
            way_out="give a list or an array with an answer for each person",
        )
    return column


def _place(answer: object, places: dict[str, int]) -> int:
    if isinstance(answer, int) and not isinstance(answer, bool):
        answer = str(answer)
    return places.get(normal(answer), _NOWHERE) if could_be_listed(answer) else _NOWHERE


def _require_flag(column: str, text: str, flag: object) -> None:
    if not isinstance(flag, bool | np.bool_):
        raise PlanRefused(
            "uldp_domain",
            f"category {shown(text)} of {shown(column)}: sensitive = {shown(flag)} (allowed: True or False)",
            way_out="say of each category whether it is sensitive",
        )


def _no_such_cell(cell: object, why: str) -> PlanRefused:
    return PlanRefused(
        "uldp_domain",
        f"sensitive cell {shown(cell)} {why}",
        way_out="spell it as its categories are listed, in the order of the columns",
    )
