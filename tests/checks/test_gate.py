"""The gate: a good artefact passes; one broken in one respect fails with exactly the text of that respect."""

import logging
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dp_spark.checks import check_artefact
from dp_spark.errors import SetupRefused  # noqa: F401  # for the process below
from dp_spark.publish import released_table
from dp_spark.queries import DerivedEstimate, LatticeEstimate
from dp_spark.release.plan import ReleasePlan
from dp_spark.release.planner import plan_release
from dp_spark.release.spec import parse_spec

RELEASE, DAY = "nyc_planes/flights/2013-01-05/0", date(2013, 1, 5)
POISON = "poison_7f3a"
SPEC = """
release: flights
input: {format: parquet, path: data/flights}
period: {column: date, every: day, timezone: America/New_York}
unit: {column: tailnum, on_null: drop}
neighbours: add_remove
bounds: {max_groups: 3, max_rows_per_group: 10}
group_by: [origin, carrier]
groups: {public: {origin: [EWR, JFK, LGA], carrier: [AA, UA]}}
guarantee: {epsilon: 1.0, delta: 1e-6}
queries:
  - {name: flights, kind: count}
  - {name: mean_delay, kind: mean, column: dep_delay, lower: -30, upper: 180, on_null: drop, on_nan: drop}
  - {name: miles, kind: sum, column: distance, lower: -3, upper: 18, step: 0.25}
budget: {population: nyc_planes}
publish: [{sink: parquet, path: out/flights}]
"""


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_release(parse_spec(SPEC))


@pytest.fixture(scope="module")
def table(plan: ReleasePlan) -> pa.Table:
    return artefact(plan)


def artefact(plan: ReleasePlan) -> pa.Table:
    """What a run could have released: numbers from a seed, laid out by the package."""
    groups = len(plan.spec.group_keys())
    generator = np.random.default_rng(7)
    answers = []
    for query in plan.queries:
        total = query.totals[0]
        steps = generator.integers(-(10**6), 10**6, groups)
        width = total.half_width_steps
        if query.query.answers[0].total is not None:
            answers.append((LatticeEstimate(steps, steps - width, steps + width, total.grid, total.std),))
        else:
            mean = generator.uniform(-30, 180, groups)
            answers.append((DerivedEstimate(mean, np.full(groups, 2.5), mean - 5, mean + 5),))
    return released_table(plan, answers, period_start=DAY, release_id=RELEASE, revision=0)


def gate(table: pa.Table, plan: ReleasePlan) -> tuple[str, ...]:
    return check_artefact(table, plan, release_id=RELEASE, period_start=DAY)


def with_cell(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    """`table` with one cell changed, the type kept."""
    field = table.schema.field(column)
    cells = [value if each == row else cell for each, cell in enumerate(table[column].to_pylist())]
    return with_column(table, column, pa.array(cells, field.type))


def with_column(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)


def swapped(table: pa.Table) -> pa.Table:
    return table.take([1, 0, *range(2, len(table))])


def cast(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_column(table, column, table[column].cast(kind))


def cell(column: str, value: object, row: int = 2) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_cell(table, column, row, value)


def shifted(column: str, by: object, row: int = 2) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_cell(table, column, row, table[column][row].as_py() + by)


COLUMNS = "expect_table_columns_to_match_ordered_list"
ROWS = "expect_table_row_count_to_equal"
GROUPS = "expect_table_groups_to_be"
TYPE = "expect_column_arrow_type_to_be"
NOT_NULL = "expect_column_values_to_not_be_null"
GRID = "expect_column_values_to_be_multiples"
IN_SET = "expect_column_values_to_be_in_set"
BETWEEN = "expect_column_values_to_be_between"
PAIR = "expect_column_pair_values_a_to_be_greater_than_b"
FLIGHTS_PAIRS = f"{PAIR}(flights, flights_low)", f"{PAIR}(flights_high, flights)"
PAIR_LOW, PAIR_HIGH = f"{PAIR}(mean_delay, mean_delay_low)", f"{PAIR}(mean_delay_high, mean_delay)"

BROKEN: dict[str, tuple[Callable[[pa.Table], pa.Table], set[str]]] = {
    "extra column": (lambda t: t.append_column("extra", t["flights"]), {COLUMNS}),
    "reordered columns": (lambda t: t.select([*t.column_names[:-2], *t.column_names[:-3:-1]]), {COLUMNS}),
    "renamed in case": (lambda t: t.rename_columns(["Period_start", *t.column_names[1:]]), {COLUMNS}),
    "int64 to int32": (cast("flights", pa.int32()), {f"{TYPE}(flights)"}),
    "int32 to int64": (cast("revision", pa.int64()), {f"{TYPE}(revision)"}),
    "other scale": (cast("miles", pa.decimal128(19, 3)), {f"{TYPE}(miles)"}),
    "other precision": (cast("miles", pa.decimal128(18, 2)), {f"{TYPE}(miles)"}),
    "large string": (cast("release_id", pa.large_string()), {f"{TYPE}(release_id)"}),
    "dictionary": (lambda t: with_column(t, "origin", t["origin"].dictionary_encode()), {f"{TYPE}(origin)"}),
    "timestamp": (cast("period_start", pa.timestamp("us")), {f"{TYPE}(period_start)"}),
    "null count": (cell("flights", None), {f"{NOT_NULL}(flights)", *FLIGHTS_PAIRS}),
    "null decimal": (cell("miles_low", None), {f"{NOT_NULL}(miles_low)", f"{PAIR}(miles, miles_low)"}),
    "null mean": (cell("mean_delay_std", None), {f"{NOT_NULL}(mean_delay_std)"}),
    "null planned std": (cell("flights_std", None), {f"{NOT_NULL}(flights_std)"}),
    "null release": (cell("release_id", None), {f"{NOT_NULL}(release_id)"}),
    "null group": (cell("origin", None), {f"{NOT_NULL}(origin)", GROUPS}),
    "missing group": (lambda t: t.slice(1), {ROWS, GROUPS}),
    "doubled group": (lambda t: pa.concat_tables([t.slice(0, 1), t]), {ROWS, GROUPS}),
    "doubled for another": (lambda t: t.take([0, 0, 2, 3, 4, 5]), {GROUPS}),
    "foreign group": (cell("carrier", "ZZ"), {GROUPS}),
    "group in lower case": (cell("carrier", "aa"), {GROUPS}),
    "text moved between group columns": (
        lambda t: with_cell(with_cell(t, "origin", 0, "EWRA"), "carrier", 0, "A"),
        {GROUPS},
    ),
    "unsorted rows": (swapped, {GROUPS}),
    "empty table": (lambda t: t.slice(0, 0), {ROWS, GROUPS}),
    "off lattice value": (shifted("miles", 1), {f"{GRID}(miles)"}),
    "off lattice low": (shifted("miles_low", -1), {f"{GRID}(miles_low)"}),
    "off lattice high": (shifted("miles_high", 1), {f"{GRID}(miles_high)"}),
    "wrong std in one row": (shifted("flights_std", 1e-12), {f"{IN_SET}(flights_std)"}),
    "infinite std": (cell("miles_std", float("inf")), {f"{IN_SET}(miles_std)"}),
    "low above value": (
        lambda t: with_column(t, "flights_low", pc.add(t["flights"], 1)),
        {f"{PAIR}(flights, flights_low)"},
    ),
    "value above high": (
        lambda t: with_cell(t, "miles", 3, 2 * t["miles_high"][3].as_py() - t["miles"][3].as_py()),
        {f"{PAIR}(miles_high, miles)"},
    ),
    "mean above high": (shifted("mean_delay_high", -5.001), {PAIR_HIGH}),
    "nan value": (cell("mean_delay", float("nan")), {f"{BETWEEN}(mean_delay)", PAIR_LOW, PAIR_HIGH}),
    "nan low": (cell("mean_delay_low", float("nan")), {f"{BETWEEN}(mean_delay_low)", PAIR_LOW}),
    "nan std": (cell("mean_delay_std", float("nan")), {f"{BETWEEN}(mean_delay_std)"}),
    "inf high": (cell("mean_delay_high", float("inf")), {f"{BETWEEN}(mean_delay_high)"}),
    "-inf low": (cell("mean_delay_low", -float("inf")), {f"{BETWEEN}(mean_delay_low)"}),
    "negative std": (cell("mean_delay_std", -0.5), {f"{BETWEEN}(mean_delay_std)"}),
    "wrong release id": (cell("release_id", RELEASE + "1"), {f"{IN_SET}(release_id)"}),
    "wrong period": (cell("period_start", DAY + timedelta(1)), {f"{IN_SET}(period_start)"}),
    "wrong revision": (cell("revision", 1), {f"{IN_SET}(revision)"}),
}


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
from test_gate import *
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
