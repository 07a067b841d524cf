"""Values as codes: how what a release reads of a row travels, in the narrowest unsigned integers."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_spark.frames.numbering import GroupNumbers
from dp_spark.queries import LARGEST_UNCLAMPED, Binning, ClampedColumn, Edges, Listed

Codes = NDArray[np.unsignedinteger[Any]]


class Form(StrEnum):
    """In what form a column comes to the workers."""

    NUMBER = "number"  # a double
    TEXT = "text"
    PRESENCE = "presence"  # whether there is a value
    ORDER = "order"  # a 64-bit integer, the largest where there is no value


@dataclass(frozen=True, slots=True)
class Source:
    """A column in one form; codes that need the same are made of one reading."""

    column: str
    form: Form


@dataclass(frozen=True, slots=True)
class Coding:
    """A clamped column as steps above `least`; the largest code says that the row's value does not count."""

    of: ClampedColumn

    @property
    def source(self) -> Source:
        """What is read: a number, or only whether there is one."""
        return Source(self.of.column, Form.PRESENCE if self.of.presence else Form.NUMBER)

    @property
    def least(self) -> int:
        """The steps that code 0 stands for."""
        return -LARGEST_UNCLAMPED if self.of.per_unit else self.of.lower_steps

    @property
    def greatest(self) -> int:
        """The steps that the last code stands for."""
        return LARGEST_UNCLAMPED if self.of.per_unit else self.of.upper_steps

    @property
    def type(self) -> np.dtype[Any]:
        """The type of a code; the one code more is for missing values."""
        return np.min_scalar_type(self.greatest - self.least + 1)

    @property
    def missing(self) -> int:
        """The code of a value that does not count."""
        return int(np.iinfo(self.type).max)

    def encoded(self, column: "pa.Array[Any]") -> Codes:
        """floor(clamped value / step + 1/2) of each value, as a code; NULL and NaN do not count."""
        of, values = self.of, column.to_numpy(zero_copy_only=False)
        if of.presence:
            values = np.where(values, 1.0, np.nan)
        with np.errstate(all="ignore"):  # a warning would tell that there is such a value
            clamped = values if of.per_unit else np.clip(values, float(of.lower), float(of.upper))
            steps = np.floor(clamped * float(of.step.denominator) / float(of.step.numerator) + 0.5)
            above = np.clip(steps, self.least, self.greatest) - self.least
            absent = np.isnan(above)
        above[absent] = 0
        codes = above.astype(self.type)
        codes[absent] = self.missing
        return codes


@dataclass(frozen=True, slots=True)
class EdgesCoding:
    """Bins of a number by index; the largest code says that the row is in none."""

    of: Edges

    @property
    def source(self) -> Source:
        """What is read."""
        return Source(self.of.column, Form.NUMBER)

    @property
    def type(self) -> np.dtype[Any]:
        """The type of a code."""
        return np.min_scalar_type(self.of.bins)

    @property
    def missing(self) -> int:
        """The code of a row in no bin."""
        return int(np.iinfo(self.type).max)

    def encoded(self, column: "pa.Array[Any]") -> Codes:
        """How many of the inner edges, as doubles, each value reaches; NULL and NaN are in no bin."""
        values = column.to_numpy(zero_copy_only=False)
        inner = np.array([float(edge) for edge in self.of.edges[1:-1]])
        codes = np.searchsorted(inner, values, side="right").astype(self.type)
        codes[np.isnan(values)] = self.missing
        return codes


@dataclass(frozen=True, slots=True)
class ListedCoding:
    """Listed texts by index; the largest code says that the row has another. Travels with its look-up."""

    of: Listed
    numbers: GroupNumbers

    @property
    def source(self) -> Source:
        """What is read."""
        return Source(self.of.column, Form.TEXT)

    @property
    def type(self) -> np.dtype[Any]:
        """The type of a code."""
        return np.min_scalar_type(self.of.bins)

    @property
    def missing(self) -> int:
        """The code of a row in no bin."""
        return int(np.iinfo(self.type).max)

    def encoded(self, column: "pa.Array[Any]") -> Codes:
        """Where each text stands in the list, in NFC."""
        number = self.numbers.of([column])
        codes = number.astype(self.type)
        codes[number < 0] = self.missing
        return codes


@dataclass(frozen=True, slots=True)
class OrderCoding:
    """A column by which rows of a unit are put in order: its codes have the order of its integers."""

    of: str

    @property
    def source(self) -> Source:
        """What is read."""
        return Source(self.of, Form.ORDER)

    @property
    def type(self) -> np.dtype[Any]:
        """The type of a code."""
        return np.dtype(np.uint64)

    @property
    def missing(self) -> int:
        """The code of no value, the last in order."""
        return int(np.iinfo(self.type).max)

    def encoded(self, column: "pa.Array[Any]") -> Codes:
        """Each integer's distance from the least of 64 bits."""
        integers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return integers.view(np.uint64) ^ np.uint64(1 << 63)


AnyCoding: TypeAlias = Coding | EdgesCoding | ListedCoding | OrderCoding


def coding_of(read: ClampedColumn | Binning) -> AnyCoding:
    """How a column or a binning travels."""
    match read:
        case ClampedColumn():
            return Coding(read)
        case Edges():
            return EdgesCoding(read)
        case Listed():
            return ListedCoding(read, numbers_of(read))


def numbers_of(listed: Listed) -> GroupNumbers:
    """The look-up of listed texts."""
    return GroupNumbers([(value,) for value in listed.values])
