"""A release from spec to seal on real Spark: charged once, killed anywhere, served again."""

import json
import os
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dp_spark.errors import (
    BoundsExceeded,
    BudgetRefused,
    InputRefused,
    LedgerRefused,
    PublishRefused,
    Refusal,
    ReleaseHeld,
)
from dp_spark.frames.spark_table import SparkTable
from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.pipeline import Step, run_release
from dp_spark.release.ledger import Claim, Ledger, ReleaseId, ReleaseState
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import ReleaseSpec, parse_spec
from dp_spark.report import RunResult

POISON = "7700-secret-person"
SPEC = """
release: visits
input: {format: parquet, path: in}
period: {column: at, every: day}
unit: {column: person, on_null: drop}
bounds: {max_groups: 2, max_rows_per_group: 2}
group_by: [town]
groups: {public: [a, b, c, nobody]}
guarantee: {epsilon: 1, delta: 1e-6}
queries:
  - {name: visits, kind: count}
  - {name: spent, kind: mean, column: euros, lower: 0, upper: 50, step: 1}
  - {name: people, kind: ids}
budget: {population: town_people}
publish: [{sink: parquet, path: out}]
"""


class World:
    """A working directory with rows of two days, a ledger with a budget of three releases, and a profile."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.profile: Profile = embedded_profile(home)
        self.write_rows(some_rows())
        make_places(self.profile)
        open_ledger(self.profile).set_budget(
            "town_people",
            PrivacyGuarantee(Fraction(3), Fraction(3, 10**6)),
            unit=PrivacyUnit(("person",)),
            neighbours=Neighbours.ADD_REMOVE,
            reason="a test",
        )

    def write_rows(self, rows: pa.Table) -> None:
        (self.home / "in").mkdir(exist_ok=True)
        pq.write_table(rows, self.home / "in" / "rows.parquet")

    @property
    def spent(self) -> Fraction:
        return open_ledger(self.profile).budget("town_people").spent.epsilon

    def state(self, key: str) -> ReleaseState | None:
        record = open_ledger(self.profile).find(ReleaseId("town_people", "visits", key))
        return record and record.state

    def run(
        self,
        spark: Callable[[], SparkSession],
        key: str = "2024-03-01",
        spec: ReleaseSpec | None = None,
        observe: Callable[[Step], None] = lambda step: None,
    ) -> RunResult:
        return run_release(spec or parse_spec(SPEC), key, profile=self.profile, spark=spark, observe=observe)


def some_rows() -> pa.Table:
    people = [f"{POISON}-{i % 60}" if i % 40 else None for i in range(400)]
    return pa.table(
        {
            "person": people,
            "town": ["abcd"[i % 4] for i in range(400)],
            "euros": [float(i % 70) if i % 9 else None for i in range(400)],
            "at": [f"2024-03-0{1 + i % 2}" for i in range(400)],
        }
    )


def no_spark() -> SparkSession:
    raise AssertionError("this run had no reason to ask for Spark")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


def published(world: World, key: str = "2024-03-01") -> pa.Table:
    return pq.read_table(world.home / "out" / f"period_start={key}" / "part-0.parquet")


def test_a_release_is_charged_published_and_sealed(world: World, spark: SparkSession) -> None:
    result = world.run(lambda: spark)
    assert result.charged == PrivacyGuarantee(Fraction(1), Fraction(1, 10**6))
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.SEALED)
    assert result.statement.is_file()
    table = published(world)
    assert table["town"].to_pylist() == ["a", "b", "c", "nobody"]
    assert table.column_names[1:5] == ["visits", "visits_std", "visits_low", "visits_high"]
    assert table.equals(result.table.drop_columns(["period_start"]))
    assert all(not field.nullable for field in table.schema)


def test_again_it_is_served_without_spark_charge_or_change(world: World, spark: SparkSession) -> None:
    first = world.run(lambda: spark)
    copy = world.home / "out" / "period_start=2024-03-01" / "part-0.parquet"
    before = copy.stat().st_mtime_ns
    world.write_rows(some_rows().slice(0, 10))  # the rows are not looked at again
    again = world.run(no_spark)
    assert (again.digest, again.charged, again.table) == (first.digest, None, first.table)
    assert (world.spent, copy.stat().st_mtime_ns) == (1, before)


@pytest.mark.usefixtures("forgetful_bounding")
def test_bounding_that_fails_to_bound_releases_nothing_and_says_so(world: World, spark: SparkSession) -> None:
    with pytest.raises(BoundsExceeded) as refusal:
        world.run(lambda: spark)
    assert refusal.value.code == "bounds_exceeded"
    assert "do not run it again" in refusal.value.way_out
    assert POISON not in str(refusal.value)
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.READING)
    assert not (world.home / "out" / "period_start=2024-03-01").exists()


def test_a_second_key_composes(world: World, spark: SparkSession) -> None:
    results = [world.run(lambda: spark, key) for key in ("2024-03-01", "2024-03-02")]
    assert world.spent == 2
    assert results[0].digest != results[1].digest


def test_an_exhausted_budget_is_refused_before_anything_is_read(world: World, spark: SparkSession) -> None:
    for day in (1, 2, 3):
        world.run(lambda: spark, f"2024-03-0{day}")
    with pytest.raises(BudgetRefused) as refusal:
        world.run(no_spark, "2024-03-04")
    assert refusal.value.code == "budget_exhausted"
    assert world.state("2024-03-04") is None
    assert not (world.home / "out" / "period_start=2024-03-04").exists()


def test_another_spec_under_the_same_id_is_refused(world: World, spark: SparkSession) -> None:
    world.run(lambda: spark)
    with pytest.raises(LedgerRefused) as refusal:
        world.run(no_spark, spec=parse_spec(SPEC.replace("upper: 50", "upper: 60")))
    assert (refusal.value.code, world.spent) == ("other_spec", 1)
    assert refusal.value.message.endswith("upper: 60 instead of 50")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("path: in", "path: nowhere"), "input_not_readable"),
        (("column: euros", "column: money"), "input_columns"),
    ],
)
def test_an_input_that_cannot_serve_is_refused_before_the_charge(
    world: World, spark: SparkSession, change: tuple[str, str], code: str
) -> None:
    with pytest.raises(InputRefused) as refusal:
        world.run(lambda: spark, spec=parse_spec(SPEC.replace(*change)))
    assert (refusal.value.code, world.spent, world.state("2024-03-01")) == (code, 0, None)


def test_a_file_that_breaks_while_it_is_read_tells_nothing_and_the_run_goes_on(
    world: World, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = world.home / "in" / "rows.parquet"
    whole = rows.read_bytes()

    def damage(step: Step) -> None:
        if step is Step.READ:
            rows.write_bytes(whole[:400] + POISON.encode() * 20 + whole[760:])

    with pytest.raises(Refusal) as refusal:
        world.run(lambda: spark, observe=damage)
    assert POISON not in str(refusal.value)
    assert POISON not in "".join(capfd.readouterr())
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.READING)
    rows.write_bytes(whole)
    assert world.run(lambda: spark).charged is None
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.SEALED)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.drop_columns(["euros"]),
        lambda rows: rows.set_column(2, "euros", pa.array([[1.5]] * len(rows))),
        lambda rows: rows.set_column(3, "at", pa.array([1.5] * len(rows))),
    ],
    ids=["dropped", "retyped", "period retyped"],
)
def test_a_column_that_is_gone_or_of_another_type_is_refused_before_the_charge(
    world: World, spark: SparkSession, change: Callable[[pa.Table], pa.Table]
) -> None:
    world.write_rows(change(some_rows()))
    with pytest.raises(InputRefused) as refusal:
        world.run(lambda: spark)
    assert refusal.value.code == "input_columns"
    assert (world.spent, world.state("2024-03-01")) == (0, None)
    world.write_rows(some_rows())
    assert world.run(lambda: spark).charged is not None


def test_rows_that_are_too_old_are_refused_before_the_charge_and_never_after(
    world: World, spark: SparkSession
) -> None:
    spec = parse_spec(SPEC + "ready: {newer_than: 6h}\n")
    rows = world.home / "in" / "rows.parquet"
    os.utime(rows, (0, 0))
    with pytest.raises(InputRefused) as refusal:
        world.run(no_spark, spec=spec)
    assert (refusal.value.code, refusal.value.exit_code) == ("input_stale", 8)
    assert (world.spent, world.state("2024-03-01")) == (0, None)
    os.utime(rows)

    def stop(step: Step) -> None:
        if step is Step.SELECT or step is Step.READ:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(lambda: spark, spec=spec, observe=stop)
    os.utime(rows, (0, 0))
    assert world.run(lambda: spark, spec=spec).charged is None
    assert world.spent == 1


def test_a_failed_gate_holds_the_release_until_it_passes(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The released rows are spoiled after staging began: a group is lost, and the gate must see it."""
    from dp_spark.pipeline import staging

    genuine = staging.released_table
    monkeypatch.setattr(staging, "released_table", lambda *args, **kwargs: genuine(*args, **kwargs).slice(1))
    with pytest.raises(ReleaseHeld) as refusal:
        world.run(lambda: spark)
    assert "row_count" in refusal.value.message
    evidence = world.profile.statements / "town_people" / "visits" / "2024-03-01-r0.checks.json"
    assert str(evidence) in refusal.value.message
    assert {
        each["expectation"]: each["met"]
        for each in json.loads(evidence.read_text())["gates"]["artefact"]["expectations"]
        if not each["met"]
    } == {"rows": False, "groups": False}
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.HELD)
    assert not (world.home / "out").exists()
    with pytest.raises(ReleaseHeld):
        world.run(no_spark)  # the same artefact, the same verdict, no new noise
    assert world.spent == 1


def test_a_held_release_is_published_by_decision_and_not_checked_again(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dp_spark import pipeline
    from dp_spark.checks import Verdict
    from dp_spark.pipeline import gating

    monkeypatch.setattr(gating, "check_artefact", lambda *args, **named: Verdict(("history",), ()))
    with pytest.raises(ReleaseHeld):
        world.run(lambda: spark)
    release = ReleaseId("town_people", "visits", "2024-03-01")
    result = pipeline.publish_held(release, "the board knows why", profile=world.profile, spark=no_spark)
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.SEALED)
    assert published(world).num_rows == 4
    assert world.run(no_spark).digest == result.digest


def test_a_revision_is_charged_once_and_takes_the_place_of_what_it_revises(
    world: World, spark: SparkSession
) -> None:
    """Killed and run again for the same reason, it goes on; then plain runs are about it."""
    first = world.run(lambda: spark)

    def revise(observe: Callable[[Step], None] = lambda step: None) -> RunResult:
        return run_release(
            parse_spec(SPEC),
            "2024-03-01",
            profile=world.profile,
            spark=lambda: spark,
            revise="late rows",
            observe=observe,
        )

    def stop(step: Step) -> None:
        if step is Step.PUBLISH:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        revise(stop)
    assert published(world).schema.metadata[b"dp_spark.release_id"].endswith(b"/0")
    second = revise()
    assert (second.release.revision, second.charged, world.spent) == (1, None, 2)
    assert second.digest != first.digest
    assert published(world).schema.metadata[b"dp_spark.release_id"].endswith(b"/1")
    assert (revise().digest, world.run(no_spark).digest, world.spent) == (second.digest, second.digest, 2)


def test_a_sink_that_is_down_delays_its_copy_only(world: World, spark: SparkSession) -> None:
    spec = parse_spec(SPEC.replace("path: out}]", "path: out}, {sink: parquet, path: blocked/deep}]"))

    def block(step: Step) -> None:
        if step is Step.COMMIT:
            (world.home / "blocked").write_text("in the way")

    with pytest.raises(PublishRefused):
        world.run(lambda: spark, spec=spec, observe=block)
    assert published(world).num_rows == 4
    assert world.state("2024-03-01") is ReleaseState.STAGED
    (world.home / "blocked").unlink()
    assert len(world.run(no_spark, spec=spec).published) == 2
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.SEALED)


def test_neighbouring_inputs_give_the_same_status_schema_and_groups(
    world: World,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = world.run(lambda: spark).table
    monkeypatch.chdir(tmp_path_factory.mktemp("neighbour"))
    other = World(Path.cwd())
    rows = some_rows()
    other.write_rows(rows.filter(pa.compute.not_equal(rows["person"], f"{POISON}-7")))
    second = other.run(lambda: spark).table
    assert first.schema.equals(second.schema, check_metadata=True)
    constant = ["period_start", "town", "visits_std", "people_std", "release_id", "revision"]
    assert first.select(constant) == second.select(constant)
    assert other.state("2024-03-01") is ReleaseState.SEALED


def test_without_rows_the_release_looks_like_any_other(world: World, spark: SparkSession) -> None:
    result = world.run(lambda: spark, "2023-01-01")
    assert result.table["town"].to_pylist() == ["a", "b", "c", "nobody"]
    assert len(set(result.table["visits"].to_pylist())) > 1


def test_no_key_and_no_row_value_lies_around(
    world: World, spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything the run writes or prints is searched for persons and for the release key."""
    keys: list[bytes] = []
    genuine = Ledger.release_key

    def overheard(self: Ledger, claim: Claim) -> bytes:
        keys.append(genuine(self, claim))
        return keys[-1]

    monkeypatch.setattr(Ledger, "release_key", overheard)
    world.run(lambda: spark)
    (key,) = keys
    told = "".join(capfd.readouterr())
    files = [path for path in world.home.rglob("*") if path.is_file() and path.parent.name != "in"]
    written = told.encode() + b"".join(path.read_bytes() for path in files)
    for secret in (POISON.encode(), key, key.hex().encode()):
        assert secret not in written
    for path in (world.home / ".dp_spark" / "restricted").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


# Where a run is killed: before each step, in the order of its life. The first runs need no Spark.
BOUNDARIES = [step for step in Step if step not in {Step.RESUME, Step.SELECT}]


def killed_at(step: Step, world: World, spark: SparkSession) -> None:
    """Run the release in a process of its own, which kills itself with SIGKILL as `step` begins.

    The process is a fork: it shares the running Spark, to which nothing is under way between two steps.
    """
    child = os.fork()
    if child == 0:
        try:
            world.run(
                lambda: spark, observe=lambda at: os.kill(os.getpid(), signal.SIGKILL) if at is step else None
            )
        finally:
            os._exit(1)  # it should not have come so far
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), step
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_killed_before_every_step_it_resumes_with_one_charge(world: World, spark: SparkSession) -> None:
    """One release, killed at one boundary after another: what is done stays done, and is paid once."""
    digests = set()
    for step in BOUNDARIES:
        killed_at(step, world, spark)
        charged = 0 if step in (Step.PLAN, Step.START, Step.RESERVE) else 1
        assert world.spent == charged, step
        record = open_ledger(world.profile).find(ReleaseId("town_people", "visits", "2024-03-01"))
        if record is not None and record.artefact is not None:
            digests.add(record.artefact.digest)
        copy = world.home / "out" / "period_start=2024-03-01"
        assert not copy.exists() or BOUNDARIES.index(step) >= BOUNDARIES.index(Step.RECORD)
    result = world.run(no_spark)
    assert digests == {result.digest}
    assert (result.charged, world.spent, world.state("2024-03-01")) == (None, 1, ReleaseState.SEALED)
    staged = list((world.home / ".dp_spark" / "restricted" / "town_people").rglob("*.parquet"))
    assert len(staged) == 1


def test_rows_that_changed_before_they_were_staged_get_noise_of_their_own(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between READING and STAGED, the release is run again on other rows under the same key.

    Noise that depended on the key alone would stay the same where totals did, and the difference of two
    attempts would give the exact change elsewhere.
    """
    from dp_spark.pipeline import staging

    genuine, drawn = staging.noisy_totals, world.home / "drawn"

    def overheard(totals: np.ndarray, **named: Any) -> np.ndarray:
        noisy = genuine(totals, **named)
        with drawn.open("ab") as file:  # by the killed process too
            np.save(file, totals)
            np.save(file, noisy)
        return noisy

    monkeypatch.setattr(staging, "noisy_totals", overheard)
    killed_at(Step.STAGE, world, spark)
    killed_at(Step.STAGE, world, spark)
    assert world.state("2024-03-01") is ReleaseState.READING
    rows = some_rows()
    world.write_rows(rows.filter(pa.compute.not_equal(rows["town"], "a")))
    result = world.run(lambda: spark)
    with drawn.open("rb") as file:
        (before, noisy_before), (same, noisy_same), (after, noisy_after) = (
            (np.load(file), np.load(file)) for _ in range(3)
        )
    assert np.array_equal(before, same)
    assert np.array_equal(noisy_before, noisy_same), "the same rows had other noise"
    unchanged = np.broadcast_to((before == after).all(axis=0), before.shape)
    assert unchanged.any()
    assert not unchanged.all()
    assert np.mean((noisy_before == noisy_after)[unchanged]) < 0.5
    staged = list((world.home / ".dp_spark" / "restricted" / "town_people").rglob("*.parquet"))
    assert (len(staged), result.charged, world.spent) == (1, None, 1)


def test_a_period_that_another_release_has_published_is_refused_before_the_charge(
    world: World, spark: SparkSession
) -> None:
    world.run(lambda: spark)
    with pytest.raises(PublishRefused) as refusal:
        world.run(no_spark, spec=parse_spec(SPEC.replace("release: visits", "release: others")))
    assert (refusal.value.code, world.spent) == ("period_occupied", 1)


def test_a_release_that_protects_another_unit_is_refused_before_spark_starts(world: World) -> None:
    with pytest.raises(LedgerRefused) as refusal:
        world.run(no_spark, spec=parse_spec(SPEC.replace("column: person", "column: town")))
    assert (refusal.value.code, world.spent) == ("other_protection", 0)


def test_copies_and_statement_that_somebody_removed_are_put_back_at_no_charge(
    world: World, spark: SparkSession
) -> None:
    import shutil

    first = world.run(lambda: spark)
    shutil.rmtree(world.home / "out")
    first.statement.unlink()
    again = world.run(no_spark)
    assert published(world).equals(first.table.drop_columns(["period_start"]))
    assert again.statement.is_file()
    assert (again.digest, again.charged, world.spent) == (first.digest, None, 1)


def test_the_contract_is_beside_the_table_and_put_back_with_it(world: World, spark: SparkSession) -> None:
    contract = world.home / "out" / "_dp_spark.contract.yaml"
    world.run(lambda: spark)
    before = contract.read_text()
    assert "kind: DataContract" in before
    assert POISON not in before
    contract.unlink()
    world.run(no_spark)
    assert contract.read_text() == before
    frame = spark.read.parquet(str(world.home / "out"))  # which skips it
    assert frame.count() == 4


def test_a_table_that_the_next_night_would_not_find_is_refused_before_the_charge(
    world: World, spark: SparkSession
) -> None:
    spec = parse_spec(SPEC.replace("[{sink: parquet, path: out}]", "[{sink: table, table: visits}]"))
    with pytest.raises(PublishRefused) as refusal:
        world.run(lambda: spark, spec=spec)
    assert refusal.value.code == "catalog_in_memory"
    assert world.spent == 0


def test_a_release_goes_to_a_table_of_the_catalog_beside_files_in_two_shapes(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The catalog lives as long as this process, which is as long as this test needs.
    monkeypatch.setattr(SparkTable, "require_lasting", lambda table: None)
    spark.sql(f"CREATE DATABASE sold LOCATION '{world.home}/warehouse'")
    try:
        sinks = "[{sink: table, table: sold.visits}, {sink: parquet, path: out, shape: long}]"
        spec = parse_spec(SPEC.replace("[{sink: parquet, path: out}]", sinks))
        result = world.run(lambda: spark, spec=spec)
        assert "table:sold.visits" in result.published
        rows = spark.table("sold.visits").orderBy("town").toArrow()
        assert rows.select(result.table.column_names).to_pylist() == result.table.to_pylist()
        assert published(world)["metric"].to_pylist() == ["visits", "spent", "people"] * 4
        assert world.run(lambda: spark, spec=spec).digest == result.digest
        contracts = world.profile.statements / "contracts" / "town_people"
        assert [each.name for each in contracts.iterdir()] == ["visits.table.sold.visits.contract.yaml"]
        later = world.run(lambda: spark, "2024-03-02", spec=spec)
        assert spark.table("sold.visits").count() == 8
        assert later.digest != result.digest
    finally:
        spark.sql("DROP DATABASE sold CASCADE")


def test_a_sink_that_leads_into_the_input_by_a_link_is_refused(world: World) -> None:
    (world.home / "out").symlink_to(world.home / "in")
    with pytest.raises(PublishRefused) as refusal:
        world.run(no_spark)
    assert (refusal.value.code, world.spent) == ("sink_in_input", 0)


@pytest.mark.parametrize("other", ["{home}/out", "linked/below"])
def test_sinks_that_are_one_directory_from_here_are_refused_before_the_charge(
    world: World, other: str
) -> None:
    (world.home / "out").mkdir()
    (world.home / "linked").symlink_to(world.home / "out")
    both = "{sink: parquet, path: out}, {sink: parquet, path: " + other.format(home=world.home) + "}"
    with pytest.raises(PublishRefused) as refusal:
        world.run(no_spark, spec=parse_spec(SPEC.replace("{sink: parquet, path: out}", both)))
    assert (refusal.value.code, world.spent) == ("sinks_overlap", 0)


@pytest.mark.parametrize("path", ["s3://bucket/out", "/"])
def test_a_sink_that_can_never_serve_is_refused_before_the_charge(world: World, path: str) -> None:
    with pytest.raises(PublishRefused):
        world.run(no_spark, spec=parse_spec(SPEC.replace("path: out", f"path: {path}")))
    assert world.spent == 0


def test_a_step_finer_than_any_double_counts_is_no_reason_to_fail(world: World, spark: SparkSession) -> None:
    tiny = SPEC.replace("lower: 0, upper: 50, step: 1", "lower: 0, upper: 1e-18, step: 1e-21")
    assert world.run(lambda: spark, spec=parse_spec(tiny)).table.num_rows == 4


def test_a_restricted_zone_that_moved_after_staging_is_no_reason_to_fail(
    world: World, spark: SparkSession
) -> None:
    from dataclasses import replace

    def stop(step: Step) -> None:
        if step is Step.CHECK:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(lambda: spark, observe=stop)
    world.profile = replace(world.profile, staging=world.home / "elsewhere")
    assert world.run(no_spark).charged is None
    assert world.state("2024-03-01") is ReleaseState.SEALED


def test_an_input_that_went_away_after_the_charge_does_not_claim_that_nothing_was_charged(
    world: World, spark: SparkSession
) -> None:
    rows = world.home / "in" / "rows.parquet"
    whole = rows.read_bytes()

    def lose(step: Step) -> None:
        if step is Step.READ:
            rows.unlink()

    with pytest.raises(InputRefused) as refusal:
        world.run(lambda: spark, observe=lose)
    assert "nothing was charged" not in str(refusal.value)
    assert (world.spent, world.state("2024-03-01")) == (1, ReleaseState.READING)
    rows.write_bytes(whole)
    assert world.run(lambda: spark).charged is None


def test_a_period_that_is_not_over_or_not_ready_is_refused_before_the_charge(world: World) -> None:
    ready = parse_spec(SPEC + 'ready: {exists: "in/{key}.done"}\n')
    for key, spec, code in (
        ("2999-01-01", None, "period_not_over"),
        ("2024-03-01", ready, "input_not_ready"),
    ):
        with pytest.raises(InputRefused) as refusal:
            world.run(no_spark, key, spec)
        assert refusal.value.code == code
    assert world.spent == 0


def test_a_release_that_was_charged_for_does_not_ask_again_whether_it_is_ready(
    world: World, spark: SparkSession
) -> None:
    ready = parse_spec(SPEC + 'ready: {exists: "in/{key}.done"}\n')
    (world.home / "in" / "2024-03-01.done").mkdir()

    def killed(step: Step) -> None:
        if step is Step.READ:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(lambda: spark, spec=ready, observe=killed)
    (world.home / "in" / "2024-03-01.done").rmdir()
    assert world.run(lambda: spark, spec=ready).charged is None
