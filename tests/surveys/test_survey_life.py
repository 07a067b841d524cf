"""A survey from spec to seal on real Spark: charged once, each person asked once, killed anywhere."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from survey_world import (
    POISON,
    POPULATION,
    SPEC,
    SURVEY,
    UNGROUPED,
    WAVE,
    World,
    answers,
    in_a_group,
    no_spark,
)
from typer.testing import CliRunner

from dp_spark.cli.main import app
from dp_spark.errors import ExitCode, InputRefused, LedgerRefused, PublishRefused, Refusal, ReleaseHeld
from dp_spark.publish import count_reports, seal_batch
from dp_spark.publish.survey_tables import counts_table
from dp_spark.release.ledger import Batch, WaveId, WaveState
from dp_spark.release.spec import parse_survey
from dp_spark.surveys import WaveStep
from dp_spark.uldp.exposure import exposure

NIGHTS = 3


class Killed(BaseException):
    """What stops a run, and nothing catches."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DP_SPARK_PROFILE", raising=False)
    return World(tmp_path, spark)


@dataclass(frozen=True)
class Life:
    """What was seen of one wave, step by step."""

    world: World
    charged: list[bool]
    new: list[int]
    first: dict[bytes, tuple[str, int]]
    reports: dict[bytes, tuple[str, int]]
    key: bytes
    digests: list[str]
    files: list[dict[Path, tuple[int, bytes]]]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Life]:
    """Opened twice, run twice, then on nights with new people and other answers; sealed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("life"))
        world = World(Path.cwd(), spark)
        charged = [world.open().record.opened_now for _ in range(2)]
        new = [world.randomize().new for _ in range(2)]
        first, key = dict(world.reports()), world.wrapped_key()
        for night in range(2, NIGHTS + 1):
            world.write(answers(range(300 + 60 * (night - 1)), night=night))
            new.append(world.randomize().new)
        reports = dict(world.reports())
        world.close()
        digests, files = [], []
        for source in (lambda: spark, no_spark):
            digests.append(world.estimate(spark=source).record.estimates.digest)
            files.append(published_files(world))
        yield Life(world, charged, new, first, reports, key, digests, files)


def published_files(world: World) -> dict[Path, tuple[int, bytes]]:
    found = (path for path in (world.home / "out").rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def counted(groups: list[int], reports: list[int], people: list[int]) -> pa.Table:
    """Counts as Spark gives them."""
    types = {"group": pa.int32(), "report": pa.int32(), "n": pa.int64()}
    return pa.table(dict(zip(types, (groups, reports, people), strict=True)), schema=pa.schema(types))


def test_a_wave_is_charged_once(life: Life) -> None:
    assert life.charged == [True, False]
    assert life.world.account.spent == 1


def test_a_second_run_adds_nobody_and_later_ones_add_those_who_came(life: Life) -> None:
    came = [in_a_group(range(300 + 60 * i, 360 + 60 * i)) for i in range(NIGHTS - 1)]
    assert life.new == [in_a_group(range(300)), 0, *came]


def test_an_answer_that_changes_changes_no_report(life: Life) -> None:
    assert {token: life.reports[token] for token in life.first} == life.first


def test_what_is_published_is_the_count_of_each_report_and_names_nobody(life: Life) -> None:
    table = life.world.published("reports")
    assert table.column_names == ["state", "report", "n"]
    rows = [tuple(row.values()) for row in table.to_pylist()]
    expected: dict[tuple[str, int], int] = {}
    for told in life.reports.values():
        expected[told] = expected.get(told, 0) + 1
    assert rows == sorted((*told, n) for told, n in expected.items())
    written = b"".join(content for _, content in life.files[0].values())
    assert not any(token in written for token in life.reports)


def test_the_estimates_are_of_each_group_and_of_everybody(life: Life) -> None:
    table = life.world.published("estimates")
    assert all(not field.nullable for field in table.schema)
    assert table["state"].to_pylist() == [each for each in ("CA", "NY", "(all)") for _ in range(5)]
    assert set(table["work"].to_pylist()) == {"at school", "at work", "ill", "unemployed", "(other)"}
    shares = table["share"].to_numpy().reshape(3, 5)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-9)
    reports = table["reports"].to_numpy().reshape(3, 5)[:, 0]
    assert reports[:2].sum() == reports[2] == len(life.reports)


def test_run_again_a_sealed_wave_serves_the_same_bytes(life: Life) -> None:
    assert life.digests[0] == life.digests[1]
    assert life.files[0] == life.files[1]
    record = life.world.record()
    assert record.state is WaveState.SEALED
    assert record.statement is not None
    assert Path(record.statement.path).is_file()


def test_published_directories_hold_one_file_and_its_contract_and_nothing_lies_beside_them(
    life: Life,
) -> None:
    out = life.world.home / "out" / "work"
    found = sorted(str(path.relative_to(out)) for path in life.files[0])
    own = ("_dp_spark.contract.yaml", f"wave={WAVE}/part-0.parquet")
    assert found == [f"{table}/{name}" for table in ("estimates", "reports") for name in own]


def test_both_tables_go_to_a_lake_too(world: World) -> None:
    from deltalake import DeltaTable

    spec = parse_survey(SPEC.replace("sink: parquet", "sink: delta"))
    world.open(spec=spec)
    world.randomize(spec=spec)
    world.close(spec=spec)
    for _ in range(2):
        world.estimate(spec=spec)
        tables = {name: DeltaTable(f"out/work/{name}") for name in ("reports", "estimates")}
        assert [table.version() for table in tables.values()] == [0, 0]
    assert set(tables["estimates"].to_pyarrow_table()["wave"].to_pylist()) == {WAVE}


def test_after_the_close_neither_key_nor_reports_of_persons_are_there(life: Life) -> None:
    database = Path(life.world.profile.ledger_url.removeprefix("sqlite:///"))
    stored = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert any(life.key)
    assert life.key not in stored
    assert not any(life.world.wrapped_key())
    assert life.world.files("batch-*") == []
    assert [len(life.world.files(f"{kind}-*")) for kind in ("counts", "estimates")] == [1, 1]


def test_no_person_is_named_outside_the_input(life: Life) -> None:
    found = (path for path in life.world.home.rglob("*") if path.is_file() and path.parent.name != "in")
    assert not any(POISON.encode() in path.read_bytes() for path in found)


def test_a_closed_wave_takes_no_answers(life: Life) -> None:
    with pytest.raises(LedgerRefused) as refusal:
        life.world.randomize()
    assert refusal.value.code == "wave_closed"
    assert life.world.close().state is WaveState.SEALED  # again: nothing changes
    assert published_files(life.world) == life.files[0]


def test_a_wave_has_one_spec(life: Life) -> None:
    other = parse_survey(SPEC.replace("epsilon: 1", "epsilon: 2"))
    before = life.world.account
    steps: list[Callable[..., Any]] = [life.world.randomize, life.world.close, life.world.estimate]
    for step in (*steps, life.world.open):
        with pytest.raises(LedgerRefused) as refusal:
            step(spec=other)
        assert refusal.value.code == "wave_of_another_spec"
        assert refusal.value.message.endswith(": epsilon: 2 instead of 1")
    assert life.world.account == before


def test_other_sensitive_answers_need_a_reason(life: Life) -> None:
    other = parse_survey(SPEC.replace("ill: true", "ill: false"))
    with pytest.raises(LedgerRefused) as refusal:
        life.world.open("2024q2", spec=other)
    assert (refusal.value.code, life.world.account.spent) == ("domain_changed", 1)
    assert refusal.value.message.endswith("flags: 1 no longer sensitive ('ill')")
    assert life.world.open("2024q2", spec=other, changed="the board says so").record.opened_now
    assert life.world.account.spent == 2


def stopped(step: Callable[..., Any], at: WaveStep) -> None:
    """Run the step until it is about to do `at`, and no further."""

    def observe(now: WaveStep) -> None:
        if now is at:
            raise Killed

    with pytest.raises(Killed):
        step(observe=observe)


def test_killed_before_every_step_it_goes_on(world: World) -> None:
    """One wave, each of its commands killed at each boundary: one charge, one report a person, one table."""
    life = {
        world.open: [WaveStep.PLAN, WaveStep.OPEN],
        world.randomize: [WaveStep.VERIFY, WaveStep.RANDOMIZE, WaveStep.COMMIT],
        world.close: [WaveStep.VERIFY, WaveStep.COUNT, WaveStep.CLOSE],
        world.estimate: [WaveStep.DECODE, WaveStep.CHECK, WaveStep.PUBLISH, WaveStep.SEAL],
    }
    for step, boundaries in life.items():
        for boundary in boundaries:
            stopped(step, boundary)
        if step == world.randomize:
            assert len(world.files("batch-*")) == 1  # the attempt that was killed between write and commit
        if step == world.close:
            assert len(world.files("counts-*")) == 1
            assert world.record().counts is None
        step()
        if step == world.randomize:
            assert len(world.reports()) == in_a_group(range(300))
            assert world.files("batch-*") == [Path(batch.path).name for batch in world.record().batches]
    assert world.record().state is WaveState.SEALED
    assert world.account.spent == 1
    assert [len(world.files(f"{kind}-*")) for kind in ("batch", "counts", "estimates")] == [0, 1, 1]
    assert sum(world.published("reports")["n"].to_pylist()) == in_a_group(range(300))


def test_a_kill_between_close_and_deletion_leaves_no_reports_of_persons(world: World) -> None:
    """The ledger has closed the wave, the directories are still there: whichever command is next.

    Before it, a directory from before the ledger was restored is in the place of the first attempt's.
    """
    world.open()
    (world.zone / "batch-1-text").mkdir(parents=True)
    (world.zone / "batch-1-text" / "forgotten.parquet").write_bytes(b"of another life")
    world.randomize()
    kept = world.counts_of(
        counts_table(world.open().plan, WAVE, counted([0], [0], [200])), world.zone / "counts-a"
    )
    world.ledger.close_wave(world.record().wave_id, 1, kept)
    assert len(world.files("batch-*")) == 1
    world.close()
    assert world.files("batch-*") == []


def test_a_restricted_zone_whose_path_is_a_pattern_is_read_as_it_is_written(world: World) -> None:
    world.profile = replace(world.profile, staging=world.home / "a?{b,c}[d]*\\e")
    world.open()
    everybody = in_a_group(range(300))
    assert [world.randomize().new, world.randomize().new] == [everybody, 0]
    world.close()
    world.estimate()
    assert sum(world.published("reports")["n"].to_pylist()) == everybody


def test_of_two_randomizations_at_once_one_counts(world: World) -> None:
    """The second runs from begin to end while the first is about to commit: the first begins again."""
    world.open()
    added: list[int] = []

    def run_the_second(step: WaveStep) -> None:
        if step is WaveStep.COMMIT and not added:
            added.append(world.randomize().new)

    first = world.randomize(observe=run_the_second)
    assert (first.new, added) == (0, [in_a_group(range(300))])
    assert len(world.reports()) == in_a_group(range(300))
    assert len(world.files("batch-*")) == 1


def test_a_commit_that_comes_second_loses(world: World) -> None:
    """Both claims are begun before either commits: the ledger says no to the second, and it begins again."""
    world.open()
    claim = world.ledger.begin_batch(world.record().wave_id)
    committed: list[bool] = []

    def commit_the_first(step: WaveStep) -> None:
        if step is WaveStep.COMMIT and not committed:
            home = Path(shutil.copytree(world.zone / "batch-2-text", world.zone / "batch-1-text"))
            digest = seal_batch(home, world.ledger.report_key(claim.wave_id))
            batch = Batch(claim.number, str(home), digest, count_reports(home))
            committed.append(world.ledger.commit_batch(claim, batch))

    assert world.randomize(observe=commit_the_first).new == 0
    assert committed == [True]
    assert len(world.reports()) == in_a_group(range(300))
    assert world.files("batch-*") == ["batch-1-text"]


@pytest.mark.parametrize(
    ("column", "value"), [("report", 10**6), ("report", -1), ("report", None), ("group", 2)]
)
def test_numbers_that_no_plan_has_are_not_counted(world: World, column: str, value: int | None) -> None:
    """A batch that was altered before it was sealed: digests hold, and one number is none of the wave's."""
    world.open()
    claim = world.ledger.begin_batch(world.record().wave_id)

    def commit_altered(step: WaveStep) -> None:
        if step is WaveStep.COMMIT and not world.record().batches:
            home = Path(shutil.copytree(world.zone / "batch-2-text", world.zone / "batch-1-text"))
            file = max(home.glob("*.parquet"), key=lambda each: each.stat().st_size)
            rows = pq.read_table(file)
            values = [value, *rows[column].to_pylist()[1:]]
            place = rows.column_names.index(column)
            altered = pa.array(values, rows.schema.field(column).type)
            pq.write_table(rows.set_column(place, pa.field(column, altered.type), altered), file)
            (home / f".{file.name}.crc").unlink()
            digest = seal_batch(home, world.ledger.report_key(claim.wave_id))
            world.ledger.commit_batch(claim, Batch(claim.number, str(home), digest, count_reports(home)))

    world.randomize(observe=commit_altered)
    with pytest.raises(PublishRefused) as refusal:
        world.close()
    assert refusal.value.code == "reports_unknown"
    assert repr(column) in refusal.value.message
    assert world.record().state is WaveState.OPEN


def test_two_first_runs_whose_units_differ_in_type_are_not_both_counted(world: World) -> None:
    """Neither sees a batch as it begins; the one that comes second is refused when it begins again."""
    texts = answers(range(300)).set_column(0, "person", pa.array(map(str, range(300))))
    numbers = texts.set_column(0, "person", pa.array(range(300)))
    world.open()
    world.write(numbers)

    def run_on_texts(step: WaveStep) -> None:
        if step is WaveStep.COMMIT:
            world.write(texts)
            world.randomize()
            world.write(numbers)

    with pytest.raises(InputRefused) as refusal:
        world.randomize(observe=run_on_texts)
    assert refusal.value.code == "unit_type_changed"
    assert world.record().reports == in_a_group(range(300))


def test_a_run_that_adds_nobody_deletes_no_other_runs_reports(world: World) -> None:
    world.open()
    world.randomize()
    everybody = answers(range(600), night=2)

    def run_with_those_who_are_there(step: WaveStep) -> None:
        if step is WaveStep.COMMIT:
            world.write(answers(range(300)))
            assert world.randomize().new == 0

    world.write(everybody)
    added = world.randomize(observe=run_with_those_who_are_there)
    assert added.new == in_a_group(range(300, 600))
    assert len(world.reports()) == in_a_group(range(600))


def test_a_wave_that_closes_meanwhile_takes_nobody_and_keeps_no_reports(world: World) -> None:
    world.open()
    world.randomize()
    world.write(answers(range(600)))

    def close(step: WaveStep) -> None:
        if step is WaveStep.COMMIT:
            world.close()

    with pytest.raises(LedgerRefused) as refusal:
        world.randomize(observe=close)
    assert refusal.value.code == "wave_closed"
    assert world.files("batch-*") == []
    counts = world.record().counts
    assert counts is not None
    assert sum(pq.read_table(counts.path)["n"].to_pylist()) == in_a_group(range(300))


def test_a_batch_that_was_touched_stops_everything_and_changes_nothing(world: World) -> None:
    world.open()
    world.randomize()
    before = world.record()
    home = Path(before.batches[0].path)
    part = next(path for path in home.glob("*.parquet") if pq.read_metadata(path).num_rows)
    whole, extra, away = part.read_bytes(), home / "more.parquet", home.with_name("elsewhere")
    flipped = bytes([whole[100] ^ 1])
    damages: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("batch_damaged", lambda: part.write_bytes(whole[:100] + flipped + whole[101:]), lambda: None),
        ("batch_damaged", lambda: extra.write_bytes(whole), extra.unlink),
        ("batch_damaged", part.unlink, lambda: None),
        ("batch_missing", lambda: home.rename(away), lambda: away.rename(home)),
    ]
    for code, damage, mend in damages:
        damage()
        for step in (world.randomize, world.close):
            with pytest.raises(PublishRefused) as refusal:
                step()
            assert refusal.value.code == code
        assert (world.record(), world.files("counts-*")) == (before, [])
        mend()
        part.write_bytes(whole)
    assert world.randomize().new == 0


def test_a_wave_without_reports_is_not_closed(world: World) -> None:
    world.open()
    world.write(answers(i for i in range(300) if i % 6 == 5))  # nobody has a public state
    assert world.randomize().new == 0
    with pytest.raises(LedgerRefused) as refusal:
        world.close()
    assert (refusal.value.code, world.record().state) == ("wave_empty", WaveState.OPEN)
    with pytest.raises(LedgerRefused) as refusal:
        world.estimate(spark=no_spark)
    assert refusal.value.code == "wave_open"


def test_a_place_that_is_taken_is_refused_before_the_charge(world: World) -> None:
    taken = world.home / "out" / "work" / "estimates" / f"wave={WAVE}"
    taken.mkdir(parents=True)
    (taken / "part-0.parquet").write_bytes(b"somebody else's")
    with pytest.raises(PublishRefused) as refusal:
        world.open()
    assert (refusal.value.code, world.account.spent) == ("period_occupied", 0)
    assert "survey of another name" in refusal.value.way_out


def test_an_input_that_cannot_serve_is_refused_and_no_answer_is_read(world: World) -> None:
    world.open()
    world.write(answers(range(9)).drop_columns(["work"]))
    with pytest.raises(InputRefused) as refusal:
        world.randomize()
    assert (refusal.value.code, world.record().batches) == ("input_columns", ())


def test_whatever_is_not_listed_is_the_catch_all(world: World) -> None:
    """At epsilon 20 a report is the answer but for 1 in 10^8: the estimate is what was answered."""
    world.spec = parse_survey(UNGROUPED.replace("epsilon: 1", "epsilon: 20\nmechanism: urr"))
    world.ledger.set_survey_limit(POPULATION, SURVEY, 20, unit=world.account.unit, reason="large")
    works = ["at school"] * 30 + ["ill"] * 20 + [None, "", "a pirate", "At School", "x" * 5000] * 10
    people = pa.array([f"{POISON}-{i}" for i in range(len(works))])
    nights = pa.array([1] * len(works))
    world.write(pa.table({"person": people, "work": pa.array(works), "answered_at": nights}))
    world.open()
    assert world.randomize().new == 100
    world.close()
    table = world.estimate().table
    shares = dict(zip(table["work"].to_pylist(), table["share"].to_pylist(), strict=True))
    expected = {"at school": 0.3, "at work": 0, "ill": 0.2, "unemployed": 0, "(other)": 0.5}
    assert shares == pytest.approx(expected, abs=0.02)


def test_a_gate_that_fails_holds_the_wave_until_somebody_decides(world: World) -> None:
    """Counts of which all are answers in clear, far more than the mechanism gives away."""
    world.spec = parse_survey(UNGROUPED)
    spec = world.home / "survey.yaml"
    spec.write_text(UNGROUPED)
    plan = world.open().plan
    *_, first, end = plan.mechanism.sampler.reports.starts()  # type: ignore[attr-defined]
    last = end - 1
    counts = world.counts_of(
        counts_table(plan, WAVE, counted([0], [last], [1000])), world.zone / "counts-of-test"
    )
    world.ledger.close_wave(WaveId(POPULATION, SURVEY, WAVE), 0, counts)
    for _ in range(2):
        with pytest.raises(ReleaseHeld) as held:
            world.estimate(spark=no_spark)
        assert "rate" in held.value.message
        assert world.record().state is WaveState.HELD
        assert not (world.home / "out").exists()
    evidence = world.profile.statements / POPULATION / SURVEY / "waves" / f"{WAVE}.checks.json"
    assert str(evidence) in held.value.message
    found = json.loads(evidence.read_text())
    assert {name: gate["passed"] for name, gate in found["gates"].items()} == {
        "reports": False,
        "estimates": True,
    }
    assert [each for each in found["gates"]["reports"]["expectations"] if not each["met"]] == [
        {
            "expectation": "rates",
            "columns": ["report", "n"],
            "bound": f"{first} {exposure(plan.mechanism).answers_in_clear!r}",
            "met": False,
        }
    ]
    looked = ["survey", "checks", str(spec), "--wave", WAVE, "--html", "checks.html"]
    assert as_json(*looked) == found
    assert "rates" in (world.home / "checks.html").read_text()
    decide = ["survey", "publish-held", str(spec), "--wave", WAVE, "--reason", "the board knows why"]
    spec.write_text(UNGROUPED.replace("epsilon: 1", "epsilon: 2"))
    assert json.loads(run(*decide)[1])["error"] == "wave_of_another_spec"
    assert not world.record().cleared
    spec.write_text(UNGROUPED)
    told = as_json(*decide)
    assert told["state"] == "sealed"
    assert world.published("reports")["n"].to_pylist() == [1000]
    assert json.loads(evidence.read_text()) == {**found, "published_by_decision": True}
    again = json.loads(run(*decide)[1])
    assert (again["error"], "dp-spark survey estimate" in again["way_out"]) == ("illegal_step", True)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*words, "--json"], env={"COLUMNS": "80"})
    return result.exit_code, result.stdout


def as_json(*words: str) -> Any:
    code, told = run(*words)
    assert code == 0, told
    return json.loads(told)


def job(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Exit code and JSON of a job, run in this process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "jobs"))
    monkeypatch.setattr(sys, "argv", [name, *words])
    capsys.readouterr()
    code = __import__(name).main()
    return code, json.loads(capsys.readouterr().out)


def test_the_commands_and_the_jobs_do_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("survey.yaml").write_text(SPEC)
    wave = ["survey.yaml", "--wave", WAVE]
    options = ["--spec", "survey.yaml", "--wave", WAVE]
    assert run("survey", "randomize", *wave)[0] == ExitCode.LEDGER
    assert job("randomize_survey", monkeypatch, capsys, *options)[1]["error"] == "wave_unknown"
    limit = ["--epsilon", "5", "--unit", "person", "--reason", "why"]
    assert as_json("survey", "budget", "set", POPULATION, SURVEY, *limit)["limit"] == "5"
    assert as_json("survey", "plan", "survey.yaml")
    opened = as_json("survey", "open", *wave, "--reason", "why")
    assert (opened["charged"], opened["state"]) == ("1", "open")
    assert as_json("survey", "open", *wave, "--reason", "why")["charged"] is None
    everybody = in_a_group(range(300))
    added = as_json("survey", "randomize", *wave)
    assert added["new"] == everybody
    assert "state is NULL or not among the listed groups gets no report" in added["left_out"]
    code, added = job("randomize_survey", monkeypatch, capsys, *options)
    assert (code, added["new"], added["reports"]) == (0, 0, everybody)
    assert run("survey", "estimate", *wave)[0] == ExitCode.LEDGER
    code, sealed = job("estimate_survey", monkeypatch, capsys, *options, "--close")
    assert (code, sealed["state"]) == (0, "sealed")
    closed = as_json("survey", "close", *wave)
    assert (closed["state"], closed["left_out"]) == ("sealed", added["left_out"])
    assert sealed["left_out"] == added["left_out"]
    assert as_json("survey", "estimate", *wave) == sealed
    (account,) = as_json("survey", "show", POPULATION)
    assert (account["spent"], account["waves"][0]["reports"]) == ("1", everybody)
    Path("broken.yaml").write_text(SPEC.replace("epsilon", "epsilom"))
    assert run("survey", "plan", "broken.yaml")[0] == ExitCode.SPEC


@pytest.mark.whole
def test_thirty_nights_with_changing_answers_leave_one_report_a_person(world: World) -> None:
    world.open()
    seen: dict[bytes, tuple[str, int]] = {}
    for night in range(1, 31):
        people = range(10 * night)
        world.write(answers(people, night=night))
        world.randomize()
        reports = world.reports()
        assert len(reports) == in_a_group(people)
        assert {token: reports[token] for token in seen} == seen
        seen = dict(reports)


def test_refusals_name_no_person(world: World) -> None:
    with pytest.raises(Refusal) as refusal:
        world.randomize()
    assert refusal.value.code == "wave_unknown"
    assert POISON not in str(refusal.value)


def test_staged_tables_of_a_sealed_wave_expire_and_it_is_still_told(world: World) -> None:
    from dataclasses import replace
    from datetime import UTC, datetime, timedelta

    from dp_spark.release.expiry import Reason, delete, disused

    world.open()
    world.randomize()
    world.close()
    profile, later = replace(world.profile, retention_days=30), datetime.now(UTC) + timedelta(days=31)
    assert disused(world.ledger, profile, later) == []  # closed, and not sealed
    first = world.estimate()
    assert disused(world.ledger, profile, later - timedelta(days=2)) == []
    found = disused(world.ledger, profile, later)
    assert {each.path.name.partition("-")[0] for each in found} == {"counts", "estimates"}
    assert {(each.whose, each.reason) for each in found} == {
        (f"survey {world.record().wave_id}", Reason.EXPIRED)
    }
    delete(found)
    again = world.estimate(spark=no_spark)
    assert (again.table, again.statement) == (None, first.statement)
    assert world.published("estimates").num_rows
