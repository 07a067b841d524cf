"""The names of the mechanisms."""

from enum import StrEnum


class MechanismName(StrEnum):
    """A mechanism of utility-optimized local privacy; with v = w it is the plain local one."""

    UBD = "ubd"  # mixture of block designs: reaches the limit
    URR = "urr"  # randomized response
    URAP = "urap"  # RAPPOR: every bit flipped alike
    UOUE = "uoue"  # optimized unary encoding
    UOLH = "uolh"  # optimized local hashing
    UHR = "uhr"  # Hadamard response
    USS = "uss"  # subset selection
