"""What words are said of, and what they take: shared by all that say a part of a release."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, Self, TypeAlias, TypeVar

Number: TypeAlias = int | float | str | Decimal | Fraction
Listed: TypeAlias = list[Any] | tuple[Any, ...]


class Begun(Protocol):
    """A release of which something is said; words are functions of it that say more, and its methods."""

    @property
    def parts(self) -> Mapping[str, Any]:
        """What is said so far, by the key of the spec."""

    def _with(self, key: str, written: object) -> Self:
        """The release that says this under the key, and nothing else there."""

    def _added(self, key: str, written: object) -> Self:
        """The release that says this, too, under the key."""


R = TypeVar("R", bound=Begun)
