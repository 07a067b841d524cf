"""What every sink is given, what it does with it, and what may stand where it writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dp_spark.errors import PublishRefused
from dp_spark.publish.columns import is_long
from dp_spark.release.spec import PERIOD_COLUMN

RELEASE_LABEL, DIGEST_LABEL = "dp_spark.release_id", "dp_spark.digest"
SHAPE_LABEL, LONG = "dp_spark.shape", "long"  # a wide one has no such label


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a published table that one release makes: the rows with one value in one column.

    The value is text; a period's is its first day, YYYY-MM-DD. In files it is the name of a directory,
    `column=value`, and stands in no file.
    """

    column: str
    value: str

    @classmethod
    def of_period(cls, period_start: date) -> "Part":
        """The rows of one period."""
        return cls(PERIOD_COLUMN, period_start.isoformat())

    @property
    def alone(self) -> pa.Schema:
        """Its column, in the type that published tables have it in."""
        return pa.schema(
            [pa.field(self.column, pa.date32() if self.column == PERIOD_COLUMN else pa.string())]
        )

    def typed(self, schema: pa.Schema) -> date | str:
        """The value as the column holds it."""
        is_date = pa.types.is_date(schema.field(self.column).type)
        return date.fromisoformat(self.value) if is_date else self.value


@dataclass(frozen=True, slots=True)
class Edition:
    """An artefact as one sink gets it.

    Attributes:
        table: its rows, in the shape of the sink; no cell is NULL, fields carry comments.
        part: the part of the published table that they are; they hold its value.
        release_id: of the release, or of the wave, with its revision behind the last `/`.
        digest: of the staged artefact; it names the content in every shape.
        facts: what else a sink says of the release, by name: epsilon, delta, plan; no value of a row.
        comment: of the whole table, one line.

    Raises:
        PublishRefused: a row belongs to another part.
    """

    table: pa.Table
    part: Part
    release_id: str
    digest: str
    facts: Mapping[str, str]
    comment: str

    def __post_init__(self) -> None:
        value = pa.scalar(self.part.typed(self.table.schema), self.table.schema.field(self.part.column).type)
        if not pc.all(pc.equal(self.table[self.part.column], value), min_count=0).as_py():
            raise PublishRefused(
                "rows_of_another_part",
                f"release {self.release_id} holds rows whose {self.part.column} is not {self.part.value}",
                way_out="this is a fault of dp_spark, not of the data: keep the release id and report it",
            )

    @property
    def labels(self) -> dict[str, str]:
        """What a sink keeps beside the rows, names and texts."""
        facts = {f"dp_spark.{name}": text for name, text in self.facts.items()}
        shape = {SHAPE_LABEL: LONG} if is_long(self.table.schema) else {}
        return {RELEASE_LABEL: self.release_id, DIGEST_LABEL: self.digest, **shape, **facts}


class Sink(Protocol):
    """A published table, of which each release makes one part.

    Readers see each part whole or not at all, and an earlier revision or a later one, never a mix. Whoever
    is killed leaves either; whoever publishes the same edition again changes nothing.
    """

    def require_free(self, part: Part, release_id: str, schema: pa.Schema) -> None:
        """Check, before anything is charged, that the part is free or holds an earlier revision of it.

        The table has to take these columns, too. A copy of this very revision has a charge that the ledger
        forgot.

        A sink that cannot be reached now is no reason to refuse: its copy is delayed. One that answers
        that it would not take the copy is.

        Raises:
            PublishRefused: the part holds something else, or a column is of another type than there.
            SetupRefused: the sink needs something that is not installed here.
        """
        ...

    def holds(self, part: Part, release_id: str, digest: str) -> bool:
        """Whether the part holds this artefact of this release now; nothing is written.

        Raises:
            PublishRefused: the sink cannot be reached.
        """
        ...

    def publish(self, edition: Edition) -> str:
        """Place the edition, in the stead of an earlier revision if there is one; where it is, in one line.

        Raises:
            PublishRefused: as `require_free`, or the sink cannot be reached or written.
        """
        ...


def is_placed(
    standing: Mapping[str, str] | None,
    release_id: str,
    digest: str | None,
    *,
    at: str,
    schema: pa.Schema | None = None,
) -> bool:
    """Whether what stands in a part is the edition already; if not, it may be placed there.

    Args:
        standing: labels of what stands there; None where nothing does, empty where they are missing.
        release_id: of the edition.
        digest: of its artefact; None before there is one, when none of the same release may stand there.
        at: the part, as a refusal names it.
        schema: the columns of the edition, where nothing but labels tells the shape of what stands there.

    Raises:
        PublishRefused: something stands there that is neither the edition nor an earlier revision of it.
    """
    if standing is None:
        return False
    holds = standing.get(RELEASE_LABEL)
    if holds is None:
        raise occupied(at, "what is no artefact of dp_spark")
    if schema is not None and is_long(schema) != (standing.get(SHAPE_LABEL) == LONG):
        raise occupied(at, f"{_named(holds)} in another shape")
    if holds == release_id:
        if digest is None:
            raise occupied(at, f"{_named(release_id)}, which this ledger does not know")
        if digest != standing.get(DIGEST_LABEL):
            raise occupied(at, f"another artefact of {_named(release_id)}")
        return True
    if not is_earlier(holds, release_id):
        raise occupied(at, _named(holds))
    return False


def is_edition(standing: Mapping[str, str] | None, release_id: str, digest: str) -> bool:
    """Whether the labels of what stands in a part name this artefact of this release."""
    found = standing or {}
    return (found.get(RELEASE_LABEL), found.get(DIGEST_LABEL)) == (release_id, digest)


def is_earlier(holds: str, release_id: str) -> bool:
    """Whether a part that holds one release is revised by another: the same one in a later revision."""
    (name, _, revision), (own_name, _, own_revision) = holds.rpartition("/"), release_id.rpartition("/")
    return name == own_name and revision.isdigit() and int(revision) < int(own_revision)


def _named(release_id: str) -> str:
    """What a label names: a wave's says itself that it is of a survey."""
    return release_id if release_id.startswith("survey:") else f"release {release_id}"


def occupied(at: str, holds: str) -> PublishRefused:
    """The refusal of a part that something else holds."""
    return PublishRefused(
        "period_occupied",
        f"{at} holds {holds}; a period or wave that is published is not replaced",
        way_out="a release or survey of another name needs a table of its own. If the ledger was restored "
        "from a backup, leave what is there: it was charged, and a second one would show other noise. Else "
        "move it away and run it again",
    )


def refusing(sink: str, why: str) -> PublishRefused:
    """The refusal of a sink that answers, and would not take a copy as things are."""
    return PublishRefused(
        "sink_refuses",
        f"sink {sink} would not take the copy: {why}",
        way_out="mend the sink, its connection or its table's name; what is charged for stays staged, "
        "and `dp-spark publish` with the same key finishes it",
    )


def unreachable(sink: str, why: str) -> PublishRefused:
    """The refusal of a sink that cannot be reached or written now; `why` quotes no row and no secret."""
    return PublishRefused(
        "sink_unreachable",
        f"sink {sink} cannot be written: {why}",
        way_out="the artefact stays staged and nothing is charged again: mend the sink, then run "
        "`dp-spark publish` with the same key",
    )
