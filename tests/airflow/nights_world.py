"""What the nights need before Airflow starts: rows and answers, specs, DAGs, a ledger with budgets."""

from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dp_spark.guarantee import Neighbours, PrivacyGuarantee, PrivacyUnit
from dp_spark.release.ledger import Ledger
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import load_profile, render_profile
from dp_spark.release.spec import load_survey
from dp_spark.surveys import open_survey

PLANE, PERSON, PEOPLE, WAVE = "N-SECRET", "P-SECRET", 200, "w1"
SPARK = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False}
RELEASE = """
release: {name}
input: {{format: parquet, path: {home}/in}}
period: {{column: date, every: day, timezone: UTC}}
unit: {{column: tailnum, on_null: drop}}
bounds: {{max_groups: 1, max_rows_per_group: 3}}
group_by: [origin]
groups: {{public: [EWR, JFK]}}
guarantee: {{epsilon: {epsilon}, delta: 1e-6}}
queries: [{{name: flights, kind: count}}]
budget: {{population: planes}}
publish: [{{sink: parquet, path: {home}/out/{name}}}]
"""
SURVEY = """
survey: work
input: {{format: parquet, path: {home}/answers}}
unit: {{column: person, on_null: drop}}
answer: work
domain: {{categories: {{at work: false, ill: true}}}}
first: answered_at
epsilon: 1
budget: {{population: people}}
publish: [{{sink: parquet, path: {home}/shares}}]
"""
DAGS = """
'''airflow: a release each night, the same in a DAG of one's own, one that is too dear, a survey.'''
from datetime import datetime, timedelta

from functools import partial

from airflow.sdk import DAG, Param
from dp_spark_dags import release_dag, release_tasks, spark_submit, survey_dags

HOME, TODAY = {home!r}, datetime.fromisoformat({today!r})
SOON = {{"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": False}}
given = {{"profile": HOME + "/dp_spark.toml"}}
PARENT = "{{{{ macros.OpenLineageProviderPlugin.lineage_parent_id(task_instance) }}}}"
child = partial(spark_submit, env_vars={{"OPENLINEAGE_PARENT_ID": PARENT}})
release_dag(HOME + "/flights.yaml", schedule="0 0 * * *", start_date=TODAY - timedelta(1), end_date=TODAY,
            catchup=True, default_args=SOON, submit=child, **given)
release_dag(HOME + "/dear.yaml", schedule=None, default_args=SOON, **given)
survey_dags(HOME + "/work.yaml", wave={wave!r}, schedule="0 0 * * *", start_date=TODAY - timedelta(1),
            end_date=TODAY + timedelta(seconds=1), default_args=SOON, **given)
with DAG("by_hand", schedule=None, default_args={{"retries": 3, **SOON}},
         params={{"key": Param(None, type=["null", "string"])}}):
    release_tasks(HOME + "/flights.yaml", **given)
"""
DAG_IDS = ("flights", "dear", f"work_{WAVE}_randomize", f"work_{WAVE}_estimate", "by_hand")


def lay(home: Path, today: datetime) -> Ledger:
    """Lay everything: rows of the three days before `today`, a budget of three nights, an open wave."""
    _write_rows(home, [today - timedelta(days) for days in (3, 2, 1)])
    _write_answers(home)
    for name, epsilon in (("flights", 1), ("dear", 4)):
        (home / f"{name}.yaml").write_text(RELEASE.format(home=home, name=name, epsilon=epsilon))
    (home / "work.yaml").write_text(SURVEY.format(home=home))
    (home / "dags").mkdir()
    (home / "dags/nights.py").write_text(DAGS.format(home=str(home), today=today.isoformat(), wave=WAVE))
    (home / "dp_spark.toml").write_text(f'lineage = "jobs.jsonl"\n{render_profile(spark=SPARK)}')
    return _opened_ledger(home)


def _opened_ledger(home: Path) -> Ledger:
    profile = load_profile(str(home / "dp_spark.toml"))
    make_places(profile)
    ledger = open_ledger(profile)
    ledger.set_budget(
        "planes",
        PrivacyGuarantee(Fraction(3), Fraction(1, 10**5)),
        unit=PrivacyUnit(("tailnum",)),
        neighbours=Neighbours.ADD_REMOVE,
        reason="a test",
    )
    ledger.set_survey_limit("people", "work", Fraction(1), unit=PrivacyUnit(("person",)), reason="a test")
    open_survey(load_survey(home / "work.yaml"), WAVE, profile=profile, reason="a test")
    return ledger


def _write_rows(home: Path, days: list[datetime]) -> None:
    rows = {
        "date": [day.date() for day in days for _ in range(300)],
        "tailnum": [f"{PLANE}-{n}" for _ in days for n in range(300)],
        "origin": ["EWR", "JFK", "JFK"] * (100 * len(days)),
    }
    (home / "in").mkdir()
    pq.write_table(pa.table(rows), home / "in/rows.parquet")


def _write_answers(home: Path) -> None:
    """Two answers of each person."""
    answers = {
        "person": [f"{PERSON}-{n}" for _ in range(2) for n in range(PEOPLE)],
        "work": ["at work", "at work", "ill", "at work"] * (PEOPLE // 2),
        "answered_at": [night for night in range(2) for _ in range(PEOPLE)],
    }
    (home / "answers").mkdir()
    pq.write_table(pa.table(answers), home / "answers/answers.parquet")
