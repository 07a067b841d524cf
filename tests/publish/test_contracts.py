"""The data contract beside a published table: what it says, where it is, and what it never says."""

import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from sink_delta import DeltaWorld
from sink_worlds import edition, publish, rows_of
from test_shapes import plan, wide_table

from dp_spark.errors import PublishRefused
from dp_spark.publish import arrow_schema, contract_path, release_contract, survey_contract, write_contract
from dp_spark.publish.contract import FILE_NAME
from dp_spark.publish.shapes import in_shape, metrics_of
from dp_spark.publish.survey_tables import counts_schema, estimates_schema
from dp_spark.release.spec import Shape, SinkSpec, parse_survey
from dp_spark.release.survey import plan_survey

WIDE = SinkSpec.model_validate({"sink": "parquet", "path": "out/visits"})
TABLE = SinkSpec.model_validate({"sink": "table", "table": "sales.visits"})
SURVEY = plan_survey(
    parse_survey(
        "{survey: work, input: {format: parquet, path: in}, unit: {column: person, on_null: drop}, "
        "answer: work, domain: {categories: {at school: false, ill: true}}, group_by: [state], "
        "groups: {public: [CA, NY]}, "
        "epsilon: 1, budget: {population: us}, publish: [{sink: parquet, path: out/work}]}"
    )
)


def told(text: str) -> dict:
    return YAML(typ="safe").load(text)


def facts(contract: dict) -> dict[str, str]:
    return {each["property"]: each["value"] for each in contract["customProperties"]}


def keys(contract: dict) -> list[str]:
    found = [each for each in contract["schema"][0]["properties"] if each.get("primaryKey")]
    return [each["name"] for each in sorted(found, key=lambda each: each["primaryKeyPosition"])]


def test_a_contract_tells_columns_promises_guarantee_and_schedule():
    planned = plan(
        period={"column": "at", "every": "week", "timezone": "Europe/Zurich"}, rollup=[["region"], []]
    )
    schema = arrow_schema(planned.columns)
    contract = told(release_contract(planned, WIDE, schema))
    assert {key: contract[key] for key in ("apiVersion", "kind", "id", "status")} == {
        "apiVersion": "v3.0.2",
        "kind": "DataContract",
        "id": "dp_spark:people/visits/parquet/visits",
        "status": "active",
    }
    (table,) = contract["schema"]
    assert [each["name"] for each in table["properties"]] == schema.names
    for field, each in zip(schema, table["properties"], strict=True):
        assert each["description"] == field.metadata[b"comment"].decode()
    by_name = {each["name"]: each for each in table["properties"]}
    assert by_name["period_start"] == {
        "name": "period_start",
        "logicalType": "date",
        "physicalType": "DATE",
        "description": "first day of the period",
        "required": True,
        "primaryKey": True,
        "primaryKeyPosition": 1,
        "partitioned": True,
        "partitionKeyPosition": 1,
    }
    assert (by_name["spent"]["physicalType"], by_name["spent"]["logicalType"])[1] in {"number", "integer"}
    assert keys(contract) == ["period_start", "region", "town", "grouping_id"]
    assert (
        facts(contract).items()
        >= {
            "epsilon": "50",
            "delta": "1/1000000",
            "neighbours": "add_remove",
            "timezone": "Europe/Zurich",
        }.items()
    )
    assert "person" in facts(contract)["privacyUnit"]
    assert contract["slaProperties"] == [
        {"property": "frequency", "value": 1, "unit": "w", "element": "period_start"}
    ]
    assert "95 %" in contract["description"]["limitations"]
    assert {each["dimension"] for each in table["quality"]} == {"completeness", "uniqueness"}


def test_a_long_table_has_its_metric_among_its_keys_and_says_what_each_is():
    planned, sink = plan(), WIDE.model_copy(update={"shape": Shape.LONG})
    schema = in_shape(wide_table(planned, 0), planned.columns, Shape.LONG).schema
    contract = told(release_contract(planned, sink, schema))
    assert keys(contract) == ["period_start", "region", "town", "metric"]
    metrics = metrics_of(planned.columns)
    assert (
        metrics.items()
        == {
            name.removeprefix("metric."): says
            for name, says in facts(contract).items()
            if name.startswith("metric.")
        }.items()
    )
    assert len(metrics) > 20


def test_the_tables_of_a_survey_have_contracts_of_their_own():
    counts = told(survey_contract(SURVEY, "reports", TABLE, counts_schema(SURVEY)))
    shares = told(survey_contract(SURVEY, "estimates", TABLE, estimates_schema(SURVEY)))
    assert keys(counts) == ["wave", "state", "report"]
    assert keys(shares) == ["wave", "state", "work"]
    assert [each["id"] for each in (counts, shares)] == [
        "dp_spark:us/work/reports/table/sales.visits",
        "dp_spark:us/work/estimates/table/sales.visits",
    ]
    assert facts(shares).items() >= {"epsilon": "1", "delta": "0", "mechanism": "ubd"}.items()
    assert "slaProperties" not in shares


def test_the_same_plan_gives_the_same_bytes_and_no_value_of_a_group():
    planned = plan(groups={"public": [["north-poison", "town-poison"]]})
    schema = arrow_schema(planned.columns)
    text = release_contract(planned, TABLE, schema)
    assert text == release_contract(planned, TABLE, schema)
    assert "poison" not in text
    assert told(text)["version"] != told(release_contract(plan(), TABLE, schema))["version"]


def test_it_lies_in_the_directory_of_a_table_else_among_the_statements(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    owner, bucket = ("people", "visits"), {"sink": "delta", "path": "s3://bucket/visits"}
    assert contract_path(WIDE, Path("/s"), owner) == tmp_path / "out" / "visits" / FILE_NAME

    def elsewhere(sink: SinkSpec) -> Path:
        return Path(f"/s/contracts/people/visits.{sink.sink}.{sink.table or 'visits'}.contract.yaml")

    for sink in (TABLE, SinkSpec.model_validate(bucket)):
        assert contract_path(sink, Path("/s"), owner) == elsewhere(sink)
    of_survey = contract_path(TABLE, Path("/s"), ("us", "work", "reports"))
    assert of_survey == Path(f"/s/contracts/us/work/reports.table.{TABLE.table}.contract.yaml")


def test_it_is_written_whole_or_not_at_all_and_once(tmp_path, monkeypatch):
    path = tmp_path / "deep" / FILE_NAME
    write_contract("a: é\n", path)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    write_contract("a: é\n", path)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    write_contract("b: 2\n", path)
    assert path.read_text() == "b: 2\n"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PublishRefused, match="No space left") as refused:
        write_contract("c: 3\n", path)
    assert refused.value.code == "sink_unreachable"
    assert path.read_text() == "b: 2\n"
    assert [each.name for each in path.parent.iterdir()] == [FILE_NAME]


def test_delta_readers_and_vacuum_leave_it_alone(tmp_path, request):
    deltalake = pytest.importorskip("deltalake")
    world = DeltaWorld.made(tmp_path, request)
    publish(world, edition())
    publish(world, edition(revision=1, first=300))
    (log,) = tmp_path.rglob("_delta_log")
    write_contract("a: 1\n", log.parent / FILE_NAME)
    table = deltalake.DeltaTable(log.parent)
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert removed
    assert (log.parent / FILE_NAME).is_file()
    assert rows_of(world.table()) == rows_of(edition(revision=1, first=300).table)
