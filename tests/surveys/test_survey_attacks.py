"""What somebody who can write in the restricted zone, or an unlucky input, may not achieve."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from survey_world import SPEC, UNGROUPED, World, answers, in_a_group

from dp_spark.checks.promises import Promise, PromiseKind, broken
from dp_spark.errors import InputRefused, LedgerRefused, PublishRefused, Refusal
from dp_spark.frames.survey_reports import first_answers
from dp_spark.publish import seal_batch
from dp_spark.release.ledger import Batch, WaveState
from dp_spark.release.spec import parse_survey
from dp_spark.surveys import WaveStep
from dp_spark.uldp import Consistency, Estimate, Method
from dp_spark.uldp.pooling import weighted


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, spark)


def first_batch(world: World) -> Path:
    return Path(world.record().batches[0].path)


def test_what_spark_would_read_beside_a_batch_stops_the_close(world: World) -> None:
    """Spark passes over names that begin with a line, but for those that hold `=`."""
    world.open()
    world.randomize()
    batch = first_batch(world)
    forged = pq.read_table(next(batch.glob("part-*.parquet")))
    for name in ("_x=1.parquet", "_x=1/part-0.parquet", "_other", ".hidden", "x=1/part-0.parquet"):
        path = batch / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(forged, path)
        with pytest.raises(Refusal, match=r"does not have the digest|cannot be read, kept"):
            world.close()
        shutil.rmtree(path.parent) if path.parent != batch else path.unlink()
    assert world.record().state is WaveState.OPEN
    assert world.close().counts is not None


def test_two_reports_of_one_person_are_not_counted(world: World) -> None:
    """A second batch with the same people, sealed and committed as if a run had made it."""
    world.open()
    world.randomize()
    claim = world.ledger.begin_batch(world.record().wave_id)
    copy = world.zone / f"batch-{claim.fence}-text"
    shutil.copytree(first_batch(world), copy)
    digest = seal_batch(copy, world.ledger.report_key(world.record().wave_id))
    n = in_a_group(range(300))
    assert world.ledger.commit_batch(claim, Batch(claim.number, str(copy), digest, n))
    with pytest.raises(PublishRefused, match=f"{2 * n} reports of {n} people"):
        world.close()
    assert world.record().state is WaveState.OPEN


def test_a_unit_that_becomes_a_number_is_refused_whenever_it_does(world: World) -> None:
    numbered = answers(range(300)).set_column(0, "person", pa.array(range(300), pa.int64()))
    as_text = numbered.set_column(0, "person", pa.array(map(str, range(300))))
    world.write(numbered)
    world.open()

    def becomes_text(step: WaveStep) -> None:
        if step is WaveStep.RANDOMIZE:
            world.write(as_text)

    with pytest.raises(Refusal):  # Spark cannot read a text as the number that was checked
        world.randomize(observe=becomes_text)
    assert world.record().reports == 0
    world.write(numbered)
    world.randomize()
    world.write(as_text)
    with pytest.raises(InputRefused, match="is of type text, and was number"):
        world.randomize()
    assert world.record().reports == in_a_group(range(300))


def test_a_close_deletes_the_reports_wherever_the_zone_was(world: World) -> None:
    world.open()
    world.randomize()
    batch = first_batch(world)
    world.profile = replace(world.profile, staging=world.home / "elsewhere")
    world.close()
    assert not batch.exists()


def test_answers_of_a_survey_are_no_list_of_another_and_have_one_population(world: World) -> None:
    world.open()
    stolen = SPEC.replace("groups: {public: [CA, NY]}", "groups: {public_file: in/answers.parquet}")
    stolen = stolen.replace("path: in}", "path: other}").replace("work_status", "stolen")
    world.ledger.set_survey_limit("us_persons", "stolen", 3, unit=world.account.unit, reason="a test")
    with pytest.raises(InputRefused, match=r"in/answers\.parquet"):
        world.open(spec=parse_survey(stolen))
    moved = parse_survey(SPEC.replace("us_persons", "others"))
    world.ledger.set_survey_limit("others", "work_status", 3, unit=world.account.unit, reason="a test")
    with pytest.raises(LedgerRefused, match="was read for survey work_status of population us_persons"):
        world.open(spec=moved)


def test_a_spec_without_input_is_opened_and_takes_a_frame(world: World) -> None:
    spec = parse_survey(UNGROUPED.replace("input: {format: parquet, path: in}\n", ""))
    world.open(spec=spec)
    frame = world.spark.read.parquet(os.fspath(world.home / "in"))
    assert world.randomize(spec=spec, frame=frame).new == 300
    assert world.randomize(spec=spec, frame=frame).new == 0


def test_too_many_texts_for_the_functions_of_workers_are_refused_before_the_charge(world: World) -> None:
    groups = ", ".join(f"g{i}" for i in range(10_001))
    with pytest.raises(Refusal, match="10,005 texts"):
        world.open(spec=parse_survey(SPEC.replace("[CA, NY]", f"[{groups}]")))
    assert world.account.spent == 0


def test_which_of_two_answers_stands_does_not_depend_on_other_people() -> None:
    rng = np.random.default_rng(2)
    ids = np.repeat(rng.integers(0, 2**64, (400, 2), dtype=np.uint64), 2, axis=0)
    group, codes = np.tile([0, 1], 400), np.zeros(800, dtype=np.int64)
    alone = first_answers(ids, group, codes, None)
    other = np.array([[2**64 - 1, 5]], dtype=np.uint64)
    more = first_answers(np.vstack([ids, other]), np.append(group, 0), np.append(codes, 4_000), None)
    assert group[alone].tolist() == group[more[:400]].tolist()
    assert 140 < group[alone].sum() < 260  # a fair coin: 200 +- 10


def test_weighted_shares_that_are_all_one_stay_one() -> None:
    ones = np.array([1.0, 0.0])
    flags = np.zeros(2, dtype=bool)
    each = Estimate(ones, ones * 0, ones, ones, 20, Method.LIKELIHOOD, Consistency.NONE, flags, flags)
    total = weighted([each] * 8, [87, 83, 13, 2, 86, 72, 92, 40])
    assert total.shares.tolist() == [1.0, 0.0]
    assert (total.low <= total.shares).all()
    assert (total.shares <= total.high).all()


@pytest.mark.parametrize(("rate", "n"), [(1e-4, 526), (0.01, 5), (0.3, 40), (0.3, 1_000_000)])
def test_the_gate_of_answers_in_clear_has_the_false_alarms_that_it_states(rate: float, n: int) -> None:
    from scipy.stats import binom

    most = int(binom.isf(1e-9, n, rate))  # as much as chance gives once in a thousand million
    for above, kept in ((most, True), (most + 1, False)):
        frame = pa.table({"report": [0, 9], "n": [n - above, above]}).to_pandas(types_mapper=None)
        promise = Promise(PromiseKind.RATE, ("report", "n"), f"5 {rate!r}")
        assert (broken(frame, [promise]) == ()) is kept
