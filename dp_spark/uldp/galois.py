"""Arithmetic of a small finite field, in tables.

An element is a number in 0..q-1 whose digits in base p are the coefficients of its polynomial, the constant
one lowest. The field is that of Conway's polynomial, so that its numbers mean the same everywhere.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import fmpz, fq_default_ctx
from numpy.typing import NDArray

from dp_spark.uldp.designs import Ids


@dataclass(frozen=True, slots=True, eq=False)
class Galois:
    """A field of q elements.

    Attributes:
        logs: (q,) exponents of a primitive element; of 0 it is 2 (q - 1), from where on `powers` are 0.
        powers: (4 q,) of the primitive element.
        differences: (q, q) int16, of any two elements.
    """

    logs: Ids
    powers: Ids
    differences: NDArray[np.int16]

    def product(self, left: Ids, right: Ids) -> Ids:
        """Products of elements, broadcast together."""
        found: Ids = self.powers[self.logs[left] + self.logs[right]]
        return found

    def difference(self, left: Ids, right: Ids) -> Ids:
        """Left less right, broadcast together."""
        return self.differences[left, right].astype(np.int64)

    def sum(self, left: Ids, right: Ids) -> Ids:
        """Sums of elements, broadcast together."""
        return self.difference(left, self.differences[0, right].astype(np.int64))


@lru_cache(maxsize=4)
def galois(prime: int, degree: int) -> Galois:
    """The field of p^m elements, which are at most 2^12."""
    order = prime**degree
    field = fq_default_ctx(prime, degree)
    primitive, element = field.gen(), field.one()
    powers = np.zeros(4 * order, np.int64)
    for exponent in range(order - 1):
        powers[[exponent, exponent + order - 1]] = _number(element.to_list(), prime)
        element = element * primitive
    logs = np.full(order, 2 * (order - 1))
    logs[powers[: order - 1]] = np.arange(order - 1)
    return Galois(logs, powers, _differences(prime, degree))


def _number(coefficients: list[int | fmpz], prime: int) -> int:
    return sum(int(value) * prime**place for place, value in enumerate(coefficients))


def _differences(prime: int, degree: int) -> NDArray[np.int16]:
    """(q, q) differences of numbers digit by digit, without borrowing."""
    digit = np.arange(prime)
    of_digits = ((digit[:, None] - digit) % prime).astype(np.int16)
    table = of_digits
    for _ in range(degree - 1):
        above = of_digits[:, None, :, None] * np.int16(table.shape[0])
        table = (above + table[:, None, :]).reshape(prime * table.shape[0], -1)
    return table
