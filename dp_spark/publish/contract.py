"""The data contract beside a published table: what its readers may rely on, as Open Data Contract Standard 3.

It is made of the plan and of the columns alone: no row, no clock, no connection is in it, so that the same
release always gives the same bytes.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
from ruamel.yaml import YAML

from dp_spark.guarantee import Every
from dp_spark.publish.durable import make_directories, sync_directory
from dp_spark.publish.editions import comment_of
from dp_spark.publish.places import local_path
from dp_spark.publish.shapes import metrics_of
from dp_spark.publish.sink import unreachable
from dp_spark.publish.survey_tables import WAVE
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.spec import (
    GROUPING_COLUMN,
    METRIC_COLUMN,
    PERIOD_COLUMN,
    RELEASE_COLUMN,
    REVISION_COLUMN,
    Shape,
    SinkSpec,
)
from dp_spark.release.spec.survey_columns import REPORT_COLUMN
from dp_spark.release.survey import SurveyPlan

API_VERSION = "v3.0.2"
FILE_NAME = "_dp_spark.contract.yaml"  # readers of directories of files skip names that begin with _
_DIRECTORY = "contracts"
_UNITS = {Every.DAY: "d", Every.WEEK: "w", Every.MONTH: "m"}
_LOGICAL = {"DATE": "date", "STRING": "string", "INT": "integer", "BIGINT": "integer", "BOOLEAN": "boolean"}
_PHYSICAL = {
    pa.date32(): "DATE",
    pa.string(): "STRING",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}
_WIDTH = 110  # of a line of YAML


@dataclass(frozen=True, slots=True)
class _Promise:
    """What the contract of one table says that its columns do not.

    Attributes:
        name: of the table.
        owner: the population, the release or survey, kind and name of the table.
        version: changes with the spec.
        says: what the table is, in one line.
        covers: what an interval covers.
        keys: columns that together occur once; the first is that of the parts.
        always: further columns that are never NULL.
        every: how often a part is added; None where nothing says so.
        facts: the guarantee and what else there is to know, by name.
    """

    name: str
    owner: tuple[str, ...]
    version: str
    says: str
    covers: str
    keys: Sequence[str]
    always: Sequence[str]
    every: Every | None
    facts: Mapping[str, str]


def release_contract(plan: ReleasePlan, sink: SinkSpec, schema: pa.Schema) -> str:
    """The contract of a release's table, with the columns that a sink has."""
    spec, guarantee = plan.spec, plan.guarantee
    is_long = sink.shape is Shape.LONG
    keys = [PERIOD_COLUMN, *spec.group_by, *[GROUPING_COLUMN] * bool(spec.rollup), *[METRIC_COLUMN] * is_long]
    metrics = {f"metric.{name}": says for name, says in metrics_of(plan.columns).items() if is_long}
    return _text(
        schema,
        _Promise(
            name=spec.release,
            owner=(spec.budget.population, spec.release, sink.sink.value, _table(sink)),
            version=spec.digest[:12],
            says=comment_of(plan),
            covers="Every number has noise. low to high covers 95 % of the noise of its value; what bounding "
            "and clamping the rows change is not in it.",
            keys=keys,
            always=(RELEASE_COLUMN, REVISION_COLUMN),
            every=None if spec.period is None else spec.period.every,
            facts={
                "epsilon": str(guarantee.epsilon),
                "delta": str(guarantee.delta),
                "privacyUnit": str(spec.unit.protected),
                "neighbours": spec.neighbours.value,
                **({} if spec.period is None else {"timezone": spec.period.timezone}),
                **metrics,
            },
        ),
    )


def survey_contract(plan: SurveyPlan, name: str, sink: SinkSpec, schema: pa.Schema) -> str:
    """The contract of one of a survey's two tables, called `name`, at a sink."""
    spec = plan.spec
    of_reports = REPORT_COLUMN in schema.names
    own = (REPORT_COLUMN,) if of_reports else tuple(plan.domain.columns)
    return _text(
        schema,
        _Promise(
            name=f"{spec.survey}_{name}",
            owner=(spec.budget.population, spec.survey, name, sink.sink.value, _table(sink)),
            version=spec.digest[:12],
            says=f"{spec.survey}: {name} of a survey under local differential privacy of dp_spark",
            covers="Counts are of randomized reports, and are exact."
            if of_reports
            else "share_low to share_high covers the share with 95 %: of randomization and of sampling.",
            keys=(WAVE, *spec.group_columns, *own),
            always=(),
            every=None,
            facts={
                "epsilon": str(spec.epsilon),
                "delta": "0",
                "privacyUnit": str(spec.unit.protected),
                "mechanism": spec.mechanism.value,
            },
        ),
    )


def contract_path(sink: SinkSpec, statements: Path, owner: Sequence[str]) -> Path:
    """Where the contract of a sink is: in the table's directory, else among the statements.

    Args:
        sink: the sink.
        statements: of the profile.
        owner: the population, and the release; of a survey also which of its tables.
    """
    root = None if sink.path is None else local_path(sink.path)
    if root is not None:
        return root / FILE_NAME
    *above, last = owner
    return statements.joinpath(_DIRECTORY, *above, f"{last}.{sink.sink}.{_table(sink)}.contract.yaml")


def _table(sink: SinkSpec) -> str:
    """The table as its readers call it: no connection, and no directory above it."""
    return sink.table or PurePosixPath(str(sink.path)).name


def write_contract(text: str, path: Path) -> None:
    """Put a contract at `path`, whole or not at all; the same one changes nothing.

    Raises:
        PublishRefused: it cannot be written.
    """
    attempt = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return
        make_directories(path.parent, 0o777)
        try:
            descriptor = os.open(attempt, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(descriptor)
            os.replace(attempt, path)
        finally:
            attempt.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise unreachable(f"contract {path}", error.strerror or type(error).__name__) from None


def _text(schema: pa.Schema, promise: _Promise) -> str:
    yaml = YAML()
    yaml.width, yaml.allow_unicode, yaml.default_flow_style = _WIDTH, True, False
    stream = io.StringIO()
    yaml.dump(_contract(schema, promise), stream)
    return stream.getvalue()


def _contract(schema: pa.Schema, promise: _Promise) -> dict[str, Any]:
    part, keys = promise.keys[0], ", ".join(promise.keys)
    schedule = (
        []
        if promise.every is None
        else [
            {"property": "frequency", "value": 1, "unit": _UNITS[promise.every], "element": promise.keys[0]}
        ]
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "DataContract",
        "id": "dp_spark:" + "/".join(promise.owner),
        "name": promise.name,
        "version": promise.version,
        "status": "active",
        "description": {
            "purpose": promise.says,
            "limitations": promise.covers,
            "usage": f"Each {part} is placed whole, and replaced only by a later revision of itself.",
        },
        "schema": [
            {
                "name": promise.name,
                "logicalType": "object",
                "physicalType": "table",
                "description": promise.says,
                "dataGranularityDescription": f"one row for each {keys}",
                "properties": [_property(field, promise) for field in schema],
                "quality": [
                    {
                        "type": "text",
                        "dimension": "completeness",
                        "description": f"No cell is NULL, but those of columns that the {part} was "
                        "published without.",
                    },
                    {
                        "type": "text",
                        "dimension": "uniqueness",
                        "description": f"One row for each {keys}.",
                    },
                ],
            }
        ],
        **({"slaProperties": schedule} if schedule else {}),
        "customProperties": [{"property": name, "value": text} for name, text in promise.facts.items()],
    }


def _property(field: "pa.Field[Any]", promise: _Promise) -> dict[str, Any]:
    physical = _physical(field.type)
    told: dict[str, Any] = {
        "name": field.name,
        "logicalType": _LOGICAL.get(physical, "number"),
        "physicalType": physical,
        "description": (field.metadata or {}).get(b"comment", b"").decode(),
        "required": field.name in {*promise.keys, *promise.always},
    }
    if field.name in promise.keys:
        told |= {"primaryKey": True, "primaryKeyPosition": 1 + promise.keys.index(field.name)}
    if field.name == promise.keys[0]:
        told |= {"partitioned": True, "partitionKeyPosition": 1}
    return told


def _physical(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _PHYSICAL[kind]
