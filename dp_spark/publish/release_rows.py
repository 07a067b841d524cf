"""What a database keeps beside a published table: a row for each part, and a view of their rows."""

import json
from collections.abc import Mapping

import pyarrow as pa

from dp_spark.errors import PublishRefused
from dp_spark.publish.sink import Edition, Part

RELEASES, LATEST = "_releases", "_latest"
ROW_COUNT, LABELS, PUBLISHED_AT = "row_count", "labels", "published_at"
RELEASES_COMMENT = "Releases that stand in the table beside this one; kept by dp_spark, for everybody to read"
_TEXTS = {"release_id": False, "digest": False, "epsilon": True, "delta": True, "plan": True, LABELS: False}
_COMMENTS = {
    "release_id": "release, or wave, with its revision",
    "revision": "0 for the first",
    "digest": "SHA-256 of the staged artefact",
    "epsilon": "of the guarantee, exact",
    "delta": "of the guarantee, exact",
    "plan": "SHA-256 of the plan that was charged for",
    LABELS: "all that is said of the release, as JSON",
    ROW_COUNT: "rows of the part",
}


def releases_schema(part: Part, schema: pa.Schema) -> pa.Schema:
    """The columns of the rows beside a table; the first is the part's; PUBLISHED_AT is the database's own."""
    kinds: dict[str, tuple[pa.DataType, bool]] = {name: (pa.string(), null) for name, null in _TEXTS.items()}
    kinds |= {"revision": (pa.int32(), False), ROW_COUNT: (pa.int64(), False)}
    comments = {name: {b"comment": text.encode()} for name, text in _COMMENTS.items()}
    return pa.schema(
        [
            pa.field(part.column, schema.field(part.column).type, nullable=False),
            *(pa.field(name, *kinds[name], metadata=comments[name]) for name in _COMMENTS),
        ]
    )


def releases_row(edition: Edition) -> dict[str, object]:
    """The row of an edition, by the columns of `releases_schema`."""
    return {
        edition.part.column: edition.part.typed(edition.table.schema),
        "release_id": edition.release_id,
        "revision": int(edition.release_id.rpartition("/")[2]),
        "digest": edition.digest,
        **{name: edition.facts.get(name) for name in ("epsilon", "delta", "plan")},
        LABELS: json.dumps(edition.labels, sort_keys=True),
        ROW_COUNT: edition.table.num_rows,
    }


def labels_of(row: tuple[str, int] | None, rows: int) -> Mapping[str, str] | None:
    """The labels of what stands in a part, as `is_placed` takes them.

    Args:
        row: LABELS and ROW_COUNT of the part's row; None where it has none.
        rows: those of the part that the table holds. If they are gone, they are put back; if there are more
            or fewer than were published, they are somebody else's.
    """
    if row is not None and row[1] == rows:
        try:
            labels: dict[str, str] = json.loads(row[0])
        except ValueError:
            return {}
        return labels
    return {} if rows else None


def require_names(sink: str, table: str, schema: pa.Schema, longest: int) -> None:
    """Refuse names that a database would cut off, and tables that could be those beside another one.

    Args:
        sink: as a refusal names it.
        table: its last name, without the schema.
        schema: its columns.
        longest: bytes that the database keeps of a name.

    Raises:
        PublishRefused: one of them is such a name.
    """
    if table.casefold().endswith((RELEASES, LATEST)):
        raise PublishRefused(
            "table_name_kept",
            f"sink {sink}: names that end in {RELEASES} or {LATEST} are those of what stands beside a table",
            way_out="name the table otherwise",
        )
    for name in (*schema.names, table + RELEASES, table + LATEST):
        if len(name.encode()) > longest:
            raise PublishRefused(
                "name_too_long",
                f"sink {sink}: the name {name} has {len(name.encode())} bytes, and the database keeps "
                f"{longest} of them",
                way_out="shorten the name of the query, the column or the table",
            )
