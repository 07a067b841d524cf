"""The least prime, or prime power, that a field of so many points can have."""

from flint import fmpz


def is_prime(number: int) -> bool:
    """Whether it is one; proven, not probable."""
    return number >= 2 and bool(fmpz(number).is_prime())


def prime_power(number: int) -> tuple[int, int] | None:
    """(p, m) with p prime, m >= 1 and p^m = number, if there are such."""
    factors = fmpz(number).factor() if number >= 2 else []
    return (int(factors[0][0]), int(factors[0][1])) if len(factors) == 1 else None


def least_prime(number: int) -> int:
    """The least prime that is at least `number`."""
    while not is_prime(number):
        number += 1
    return number


def least_prime_power(number: int) -> int:
    """The least p^m, m >= 1, that is at least `number`: the order of the smallest field with room for it."""
    while prime_power(number) is None:
        number += 1
    return number
