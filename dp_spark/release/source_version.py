"""Which version of a table a release reads: decided once, when it is reserved, for all attempts."""

import re
from dataclasses import dataclass
from typing import Self

_TEXT = re.compile(r"(?P<number>[0-9]+) of (?P<table>[^ ]+)(?: with schema (?P<schema>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """A version of a Delta or Iceberg table.

    Attributes:
        number: the version of a Delta table, the snapshot of an Iceberg table; 0 of one that has none yet.
        table: the id that the table was created with; one that was made anew in its place has another.
        schema: the id of the Iceberg schema by which its columns are named; None of a Delta table.
    """

    number: int
    table: str
    schema: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The version that reads as `text`, as the ledger keeps it."""
        found = _TEXT.fullmatch(text)
        assert found is not None  # the ledger was given the text of one
        schema = found["schema"]
        return cls(int(found["number"]), found["table"], None if schema is None else int(schema))

    def __str__(self) -> str:
        schema = "" if self.schema is None else f" with schema {self.schema}"
        return f"{self.number} of {self.table}{schema}"
