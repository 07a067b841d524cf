"""The gate: a good artefact passes; one broken in one respect fails with exactly the text of that respect."""

import logging
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
from fractions import Fraction

import pyarrow as pa
import pytest
from artefacts import (
    BETWEEN,
    BROKEN,
    COLUMNS,
    FLIGHTS_PAIRS,
    GRID,
    GROUPS,
    IN_SET,
    NOT_NULL,
    SPEC,
    TYPE,
    artefact,
    gate,
    swapped,
    with_column,
)

from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec

POISON = "poison_7f3a"


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_release(parse_spec(SPEC))


@pytest.fixture(scope="module")
def table(plan: ReleasePlan) -> pa.Table:
    return artefact(plan)


def test_a_good_artefact_passes(table: pa.Table, plan: ReleasePlan):
    assert gate(table, plan) == ()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_artefact_fails_for_exactly_its_fault(name: str, table: pa.Table, plan: ReleasePlan):
    broken, expected = BROKEN[name]
    failed = gate(broken(table), plan)
    assert set(failed) == expected
    assert len(failed) == len(expected)


def test_chunks_do_not_matter(table: pa.Table, plan: ReleasePlan):
    assert gate(pa.concat_tables([table.slice(0, 2), table.slice(2)]), plan) == ()


def test_a_missing_column_fails_everything_that_reads_it(table: pa.Table, plan: ReleasePlan):
    failed = gate(table.drop_columns(["flights"]), plan)
    assert set(failed) == {
        COLUMNS,
        *(f"{name}(flights)" for name in (TYPE, NOT_NULL, GRID)),
        *FLIGHTS_PAIRS,
    }


def test_the_planned_grid_is_finer_than_the_step_that_the_tests_break(plan: ReleasePlan):
    assert next(column.grid for column in plan.columns if column.name == "miles") > Fraction(1)


def poisoned(table: pa.Table) -> pa.Table:
    """Every text is the poison, and numbers are texts, so that expectations fail and raise."""
    words = pa.array([f"{POISON}_{row}" for row in range(len(table))])
    for column in ("origin", "carrier", "flights", "miles", "mean_delay", "release_id", "period_start"):
        table = with_column(table, column, words)
    return table


def test_no_cell_reaches_a_text(table: pa.Table, plan: ReleasePlan, capfd, caplog):
    with caplog.at_level(logging.DEBUG):
        failed = gate(poisoned(table), plan)
    out, err = capfd.readouterr()
    assert {f"{GRID}(flights)", f"{BETWEEN}(mean_delay)", f"{IN_SET}(period_start)"} <= set(failed)
    assert POISON not in out + err + caplog.text + "".join(failed)
    assert out + err == ""


@pytest.mark.parametrize(
    "place",
    [
        "dp_spark.checks.grid._magnitudes",
        "great_expectations.execution_engine.execution_engine.ExecutionEngine.resolve_metrics",
    ],
)
def test_an_exception_that_quotes_a_cell_reaches_no_text(
    table: pa.Table, plan: ReleasePlan, place: str, capfd, caplog, monkeypatch
):
    def quoting(*arguments: object, **settings: object) -> None:
        raise ValueError(f"could not convert {POISON}")

    monkeypatch.setattr(place, quoting)
    with caplog.at_level(logging.DEBUG):
        failed = gate(table, plan)
    out, err = capfd.readouterr()
    assert f"{GRID}(flights)" in failed
    assert POISON not in out + err + caplog.text + "".join(failed)


def test_an_evaluation_that_breaks_down_holds_the_release(table: pa.Table, plan: ReleasePlan, monkeypatch):
    def broken(**kwargs):
        raise RuntimeError(POISON)

    monkeypatch.setattr("great_expectations.get_context", broken)
    assert gate(table, plan) == ("evaluation of the suite: RuntimeError",)


def test_an_expectation_without_a_result_is_not_met(table: pa.Table, plan: ReleasePlan, monkeypatch):
    name = "great_expectations.core.validation_definition.ValidationDefinition.run"
    run = pkgutil.resolve_name(name)

    def forgetful(*arguments, **settings):
        result = run(*arguments, **settings)
        result.results.pop(0)
        return result

    monkeypatch.setattr(name, forgetful)
    assert gate(table, plan) == (COLUMNS,)


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.path.dirname(__file__)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_importing_the_room_does_not_import_great_expectations():
    rooms = "dp_spark.checks, dp_spark.checks.gate"
    python("-c", f"import sys, {rooms}; assert 'great_expectations' not in sys.modules")


def test_a_process_that_great_expectations_would_end_is_refused_instead():
    code = """
from artefacts import *
from dp_spark.errors import SetupRefused
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec
try:
    print(gate(artefact(made := plan_release(parse_spec(SPEC))), made))
except SetupRefused as refusal:
    print(refusal.code)
"""
    assert python("-c", code).stdout.strip() in ("()", "checks_unavailable")


class Spy:
    """Notes files that this process opens to write and hosts that it calls, while it is on."""

    def __init__(self) -> None:
        self.on, self.files, self.calls = False, set(), []
        sys.addaudithook(self)  # stays until the process ends

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.on:
            return
        if (
            event == "open" and (set(str(arguments[1])) & set("wax+") or arguments[2] & os.O_ACCMODE)
        ) or event in ("os.mkdir", "os.rename", "os.remove", "os.chmod"):
            self.files.add(str(arguments[0]))
        elif event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
            self.calls.append(event)


def test_the_gate_writes_to_temporary_directories_only_and_calls_nobody(table, plan, tmp_path, monkeypatch):
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    spy = Spy()
    spy.on = True
    passed, held = gate(table, plan), gate(swapped(table), plan)
    spy.on = False
    assert (passed, held) == ((), (GROUPS,))
    assert spy.calls == []
    assert {file for file in spy.files if not file.startswith(str(scratch))} == set()
    assert list(home.rglob("*")) == list(scratch.rglob("*")) == []


def test_the_spy_would_see_a_file_and_a_call(tmp_path):
    spy = Spy()
    spy.on = True
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as caller, pytest.raises(ConnectionRefusedError):
        caller.connect(str(tmp_path / "file"))
    spy.on = False
    assert str(tmp_path / "file") in spy.files
    assert spy.calls == ["socket.connect"]
