"""`demo --survey`: a wave of a survey of made-up people, from account to seal, beside the true shares.

Only the demo may show true shares: nobody stands behind its people.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from dp_spark.cli.demo import example
from dp_spark.cli.demo_people import NIGHTS, REGIONS, answers, true_shares
from dp_spark.cli.guard import ERRORS
from dp_spark.cli.progress import progress
from dp_spark.errors import BudgetRefused
from dp_spark.frames.session import start_session
from dp_spark.release.ledger import SurveyAccount, WaveId, WaveState
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import SurveySpec, load_survey
from dp_spark.release.spec.groups import TOTAL_LABEL
from dp_spark.release.survey import plan_survey
from dp_spark.report import given_away, survey_facts
from dp_spark.report.figures import exact
from dp_spark.surveys import (
    Estimated,
    WaveObserver,
    close_survey,
    estimate_survey,
    open_survey,
    randomize_survey,
)

WAVE, LIMIT = "2024q1", Fraction(4)
ANSWERS = Path(".dp_spark/demo/answers")
GROUP, ANSWER = "region", "work"


@dataclass(frozen=True, slots=True)
class SurveyDemo:
    """What the demo did: people that each night added, none where the wave was sealed before."""

    spec: Path
    new: tuple[int, ...]
    sealed: Estimated
    account: SurveyAccount


def run_survey_demo(*, as_json: bool) -> None:
    """Run one wave over two nights of answers, then show estimates, true shares, and what is left."""
    path, places = example("work_status"), embedded_profile()
    spec = load_survey(path)
    make_places(places)
    _open_account(spec, places)
    with progress(ERRORS, f"{spec.survey} {WAVE}") as observe:
        open_survey(spec, WAVE, profile=places, reason="the demo opens its own wave", observe=observe)
        new = _randomized(spec, places, observe)
        sealed = estimate_survey(spec, WAVE, profile=places, spark=_session(places), observe=observe)
    account = open_ledger(places).survey_account(spec.budget.population, spec.survey)
    done = SurveyDemo(path, new, sealed, account)
    if as_json:
        told = {"wave": str(sealed.record.wave_id), "new": new, "reports": sealed.record.reports}
        sys.stdout.write(json.dumps(told | {"state": sealed.record.state.value}) + "\n")
    else:
        _show(done, places)


def _open_account(spec: SurveySpec, places: Profile) -> None:
    """An account for the demo's survey, if there is none: in the field an explicit act of a person."""
    ledger, population = open_ledger(places), spec.budget.population
    try:
        ledger.survey_account(population, spec.survey)
    except BudgetRefused:
        why = "the demo opens its own account"
        ledger.set_survey_limit(population, spec.survey, LIMIT, unit=spec.unit.protected, reason=why)


def _randomized(spec: SurveySpec, places: Profile, observe: WaveObserver) -> tuple[int, ...]:
    """How many people each night added, and the wave closed; () where it was closed before."""
    record = open_ledger(places).wave(WaveId(spec.budget.population, spec.survey, WAVE))
    assert record is not None  # it was opened just now
    if record.state is not WaveState.OPEN:
        return ()
    new = []
    for night in NIGHTS:
        _write(night)
        new.append(randomize_survey(spec, WAVE, profile=places, spark=_session(places), observe=observe).new)
    close_survey(spec, WAVE, profile=places, spark=_session(places), observe=observe)
    return tuple(new)


def _session(places: Profile) -> Callable[[], SparkSession]:
    return lambda: start_session(places.spark)


def _write(night: date) -> None:
    """The answers of a night as a file beside those of the nights before."""
    ANSWERS.mkdir(parents=True, exist_ok=True)
    draft = ANSWERS / f".{night}.draft"
    pq.write_table(pa.Table.from_pandas(answers(night), preserve_index=False), draft)
    draft.replace(ANSWERS / f"{night}.parquet")


def _show(done: SurveyDemo, places: Profile) -> None:
    console, spec = Console(highlight=False), load_survey(done.spec)
    console.print(
        "\nShares that are estimated from the reports, with their 95 % intervals, beside the true ones of "
        "the answers that stand. What is marked * is sensitive: no report tells who answered it. Nobody "
        "stands behind the demo's people: nothing but this demo ever shows a true share.\n"
    )
    assert done.sealed.table is not None  # the demo's zone keeps all
    found = done.sealed.table.to_pandas()
    true = true_shares(GROUP, ANSWER, total=TOTAL_LABEL)
    keys = pd.MultiIndex.from_frame(found[[GROUP, ANSWER]])
    found["true"] = true.reindex(keys, fill_value=0.0).to_numpy()
    for title, group in (("Everybody", TOTAL_LABEL), (f"The smallest region, {REGIONS[-1]}", REGIONS[-1])):
        console.print(_table(title, found[found[GROUP] == group]))
    groups = found.groupby(GROUP)["small"].first()
    console.print(
        f"{_hits(found)}\nGroups that are small, and say little of what is sensitive: "
        f"{int(groups.sum())} of {len(groups)}.\n\n"
        f"At this epsilon, {exact(spec.epsilon)}, {given_away(survey_facts(plan_survey(spec)))}."
    )
    _show_places(console, done, places)


def _table(title: str, rows: pd.DataFrame) -> Table:
    reports = int(rows["reports"].iloc[0])
    table = Table(title=f"{title}: {reports:,} reports", title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column(ANSWER, no_wrap=True)
    for name in ("estimate", "95 % interval", "true"):
        table.add_column(name, justify="right", no_wrap=True, style="dim" if name == "true" else None)
    for row in rows.to_dict("records"):
        mark = " *" if row["sensitive"] else ""
        interval = f"{row['share_low']:.2%} to {row['share_high']:.2%}"
        table.add_row(f"{row[ANSWER]}{mark}", f"{row['share']:.2%}", interval, f"{row['true']:.2%}")
    return table


def _hits(rows: pd.DataFrame) -> str:
    inside = (rows["share_low"] <= rows["true"]) & (rows["true"] <= rows["share_high"])
    return f"Intervals that hold the true share: {int(inside.sum())} of {len(rows)}."


def _show_places(console: Console, done: SurveyDemo, places: Profile) -> None:
    record, account = done.sealed.record, done.account
    came = (
        f"{' and '.join(f'{new:,}' for new in done.new)} people; who answered again changed nothing"
        if done.new
        else "nobody: the wave was sealed before, and the stored tables were served"
    )
    console.print(
        f"\nadded       {came}\n"
        f"charged     epsilon {account.spent} of {account.limit}, of each person, to {account.population}\n"
        f"tables      {Path(next(iter(record.publications.values()))).resolve()}\n"
        f"ledger      {places.ledger_url.removeprefix('sqlite:///')}\n"
        f"statement   {done.sealed.statement}\n"
        "look at     the statement: what a report gives away, with this survey's own numbers; and that\n"
        "            `reports` has counts only: whose report is whose was deleted, and the key is gone\n"
        f"next        dp-spark survey plan {done.spec}\n"
        f"            dp-spark survey show {account.population}",
        soft_wrap=True,
    )
