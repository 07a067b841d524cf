"""`dp-spark`: the commands, each a few lines over the pipeline."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dp_spark import __version__
from dp_spark.cli.guard import guarded
from dp_spark.errors import ExitCode

app = typer.Typer(
    name="dp-spark",
    help="Private releases on Spark: exact noise, a ledger that cannot be overspent, releases that re-run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ledger_app = typer.Typer(help="The privacy ledger: explicit, recorded commands.", no_args_is_help=True)
budget_app = typer.Typer(help="What a population may lose over its lifetime.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
ledger_app.add_typer(budget_app, name="budget")
pools_app = typer.Typer(help="What ad hoc releases may cost, beside schedules.", no_args_is_help=True)
ledger_app.add_typer(pools_app, name="pools")
schedule_app = typer.Typer(help="Releases that are known in advance.", no_args_is_help=True)
ledger_app.add_typer(schedule_app, name="schedule")
window_app = typer.Typer(help="What may be promised in a day, week or month.", no_args_is_help=True)
ledger_app.add_typer(window_app, name="window")
source_app = typer.Typer(help="Which input belongs to which population.", no_args_is_help=True)
ledger_app.add_typer(source_app, name="source")
release_app = typer.Typer(
    help="What the gates found of a release, and decisions on it.", no_args_is_help=True
)
app.add_typer(release_app, name="release")
survey_app = typer.Typer(
    help="Surveys: answers randomized before they are stored; waves, reports, estimates.",
    no_args_is_help=True,
)
app.add_typer(survey_app, name="survey")
survey_budget_app = typer.Typer(help="What all waves of a survey may cost together.", no_args_is_help=True)
survey_app.add_typer(survey_budget_app, name="budget")
restricted_app = typer.Typer(help="The restricted zone: what is staged there.", no_args_is_help=True)
app.add_typer(restricted_app, name="restricted")
noise_app = typer.Typer(help="The noise families and what they cost.", no_args_is_help=True)
app.add_typer(noise_app, name="noise")

SpecFile = Annotated[Path, typer.Argument(help="YAML file of the release.", show_default=False)]
ProfileFile = Annotated[
    str | None, typer.Option("--profile", help="dp_spark.toml; else DP_SPARK_PROFILE, else what lies here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Key = Annotated[str, typer.Option("--key", help="First day of the period, YYYY-MM-DD.", show_default=False)]
Revise = Annotated[
    str | None,
    typer.Option("--revise", help="Why the period is released again, at a new charge; recorded."),
]

SurveyFile = Annotated[Path, typer.Argument(help="YAML file of the survey.", show_default=False)]
Wave = Annotated[str, typer.Option("--wave", help="Name of the wave, such as 2024q1.", show_default=False)]
Release = Annotated[str, typer.Argument(help="population/release/period/revision", show_default=False)]
ChecksPage = Annotated[
    Path | None, typer.Option("--html", help="Write them as a page: Great Expectations' Data Docs, offline.")
]
Reason = Annotated[str, typer.Option(help="Why; recorded with your name.", show_default=False)]


def main() -> NoReturn:
    """The console script."""
    app()
    sys.exit(0)


def _end(action: Callable[[], ExitCode | None], *, as_json: bool) -> NoReturn:
    raise typer.Exit(guarded(action, as_json=as_json))


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where to write them.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a profile (dp_spark.toml) and a first spec (release.yaml); overwrite nothing."""

    def action() -> None:
        from dp_spark.cli.setting_up import write_first_files

        write_first_files(directory, as_json=as_json)

    _end(action, as_json=as_json)


@app.command()
def doctor(profile: ProfileFile = None, as_json: AsJson = False) -> None:
    """Say what this machine and this profile lack."""

    def action() -> None:
        from dp_spark.cli.doctor import examine

        examine(profile, as_json=as_json)

    _end(action, as_json=as_json)


@app.command()
def plan(
    spec: SpecFile,
    html: Annotated[Path | None, typer.Option("--html", help="Write the plan as a page.")] = None,
    public_sample: Annotated[
        Path | None,
        typer.Option(
            help="Try bounds on this CSV or Parquet file instead: public or synthetic rows only, for bounds "
            "chosen by looking at protected rows would leak them."
        ),
    ] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="The share of a period's units that the sample holds: 0 to 1.")
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what a release will cost and how wrong each number may be; no protected row is read.

    Where its account would refuse it, the code is that of the refusal, which stands below the plan.
    """

    def action() -> ExitCode:
        from dp_spark.cli.planning import plan_command
        from dp_spark.cli.trying import try_bounds

        if public_sample is None and sample_rate is None:
            return plan_command(spec, html=html, profile=profile, as_json=as_json)
        try_bounds(spec, public_sample, rate=sample_rate, html=html, as_json=as_json)
        return ExitCode.OK

    _end(action, as_json=as_json)


@app.command()
def run(
    spec: SpecFile,
    key: Key,
    revise: Revise = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Privatize, check, publish and seal one period; again: go on, or serve what is sealed."""

    def action() -> None:
        from dp_spark.cli.running import run_command

        run_command(spec, key, profile=profile, as_json=as_json, revise=revise)

    _end(action, as_json=as_json)


@app.command()
def privatize(
    spec: SpecFile,
    key: Key,
    revise: Revise = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """The first half of `run`: reserve, privatize and stage one period; nothing is published."""

    def action() -> None:
        from dp_spark.cli.running import privatize_command

        privatize_command(spec, key, profile=profile, as_json=as_json, revise=revise)

    _end(action, as_json=as_json)


@app.command()
def publish(
    spec: SpecFile,
    key: Key,
    revise: Revise = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """The second half of `run`: check, publish and seal what is staged; also after a sink was down."""

    def action() -> None:
        from dp_spark.cli.running import publish_command

        publish_command(spec, key, profile=profile, as_json=as_json, revise=revise)

    _end(action, as_json=as_json)


@app.command()
def missing(
    spec: SpecFile,
    through: Annotated[
        str | None, typer.Option(help="Look no further than this day, YYYY-MM-DD.", show_default=False)
    ] = None,
    within: Annotated[int, typer.Option(help="Exit with 12 where rows expire in so many days.", min=1)] = 7,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the periods since the first release that are over and not sealed, and when their rows expire."""

    def action() -> None:
        from dp_spark.cli.keeping import missing_command

        missing_command(spec, through=through, within=within, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@restricted_app.command("gc")
def restricted_gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go; delete nothing.")] = False,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete staged tables that were sealed more than the profile's retention_days ago; copies stay."""

    def action() -> None:
        from dp_spark.cli.keeping import gc_command

        gc_command(dry_run=dry_run, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@app.command()
def statement(
    release: Release,
    html: Annotated[Path | None, typer.Option("--html", help="Write the statement as a page.")] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print a sealed release's guarantee, cost, bounds and the error of each number."""

    def action() -> None:
        from dp_spark.cli.planning import statement_command

        statement_command(release, html=html, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@app.command()
def demo(
    survey: Annotated[
        bool, typer.Option("--survey", help="A survey of made-up people instead of flights.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Release a week of the New York flights of 2013, and show it beside the true values."""

    def action() -> None:
        from dp_spark.cli.demo import run_demo
        from dp_spark.cli.demo_survey import run_survey_demo

        (run_survey_demo if survey else run_demo)(as_json=as_json)

    _end(action, as_json=as_json)


@noise_app.command("plot")
def noise_plot(
    directory: Annotated[Path, typer.Argument(help="Where to write PNG and SVG files.")] = Path(),
    only: Annotated[
        str | None, typer.Option(help="One picture: epsilon, cells, horizon, profiles or separation.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Of all but the first picture: 0.1 to 10.")] = "1",
    delta: Annotated[str, typer.Option(help="Of cells and horizon: 1e-9 to 0.01.")] = "1e-6",
    as_json: AsJson = False,
) -> None:
    """Draw variance against epsilon, cells and horizon, privacy profiles and the separation theorem."""

    def action() -> None:
        from dp_spark.cli.noise_plot import noise_plot

        noise_plot(directory, which=only, epsilon=epsilon, delta=delta, as_json=as_json)

    _end(action, as_json=as_json)


def _decide(decision: str, release: str, reason: str, profile: str | None, as_json: bool) -> NoReturn:
    def action() -> None:
        from dp_spark.cli.deciding import decide_command

        decide_command(decision, release, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@release_app.command("abort")
def release_abort(
    release: Release, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Give the charge of a reserved release back, of which nothing was read."""
    _decide("abort", release, reason, profile, as_json)


@release_app.command("abandon")
def release_abandon(
    release: Release, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Never publish a held release, or one that was read and cannot go on; its charge stands."""
    _decide("abandon", release, reason, profile, as_json)


@release_app.command("publish-held")
def release_publish_held(
    release: Release, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Publish and seal a held release although a check failed."""
    _decide("publish", release, reason, profile, as_json)


@release_app.command("burn")
def release_burn(
    release: Release, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Record that a release's key has leaked: its population stops for good."""
    _decide("burn", release, reason, profile, as_json)


@release_app.command("checks")
def release_checks(
    release: Release, html: ChecksPage = None, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Print what the gates found of a release, held or not: each expectation with its outcome, no value."""

    def action() -> None:
        from dp_spark.cli.gates import release_checks_command

        release_checks_command(release, html=html, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@pools_app.command("set")
def pools_set(
    population: Annotated[str, typer.Argument(help="Whose account.", show_default=False)],
    reason: Reason,
    sums: Annotated[
        str | None, typer.Option(help="EPSILON,DELTA of a pool that adds up epsilon and delta.")
    ] = None,
    zcdp: Annotated[
        str | None, typer.Option(help="EPSILON,DELTA of a pool that adds up zCDP: many small releases.")
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Divide an account before its first release; without a pool, all of it is for schedules."""

    def action() -> None:
        from dp_spark.cli.dividing import set_pools

        set_pools(population, {"sums": sums, "zcdp": zcdp}, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@schedule_app.command("add")
def schedule_add(
    spec: SpecFile,
    reason: Reason,
    epsilon: Annotated[
        str | None, typer.Option(help="What all its releases keep together; else all that is left.")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="The same.")] = None,
    pool: Annotated[
        str | None, typer.Option(help="sums or zcdp: who pays, after the account's first release.")
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Enrol the plan of a spec for `budget.horizon` releases; recorded. Each of them takes a slot."""

    def action() -> None:
        from dp_spark.cli.dividing import add_schedule

        together = {"epsilon": epsilon, "delta": delta}
        add_schedule(spec, together, pool=pool, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@window_app.command("set")
def window_set(
    population: Annotated[str, typer.Argument(help="Whose account.", show_default=False)],
    every: Annotated[str, typer.Option(help="day, week or month (UTC).", show_default=False)],
    epsilon: Annotated[str, typer.Option(help="What may be promised in each.", show_default=False)],
    delta: Annotated[str, typer.Option(help="The same.", show_default=False)],
    reason: Reason,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Limit what all releases that are charged in one day, week or month promise together."""

    def action() -> None:
        from dp_spark.cli.dividing import set_window

        limit = {"epsilon": epsilon, "delta": delta}
        set_window(population, every, limit, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@source_app.command("add")
def source_add(
    path: Annotated[str, typer.Argument(help="The input, as specs name it.", show_default=False)],
    population: Annotated[str, typer.Option(help="Whose rows it holds.", show_default=False)],
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Register an input under a population; recorded. No other population can pay for it then."""

    def action() -> None:
        from dp_spark.cli.telling import add_source

        add_source(path, population, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@ledger_app.command("show")
def ledger_show(
    population: Annotated[str | None, typer.Argument(help="One account; else all.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 11 where 20 % or less is left.")] = False,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print limit, spent, left, pools, schedules, windows, and how many releases still fit."""

    def action() -> None:
        from dp_spark.cli.telling import show_accounts

        show_accounts(population, check=check, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@ledger_app.command("history")
def ledger_history(
    population: Annotated[str, typer.Argument(help="Whose account.", show_default=False)],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for auditors.")] = False,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print every decision on the account, every charge and who paid it, and every step, with reasons."""

    def action() -> None:
        from dp_spark.cli.telling import tell_history

        tell_history(population, as_csv=as_csv, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@ledger_app.command("charge")
def ledger_charge(
    spec: SpecFile,
    key: Key,
    reason: Reason,
    revise: Annotated[
        str | None, typer.Option(help="The reason of the revision, if it was one.", show_default=False)
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Charge a period that a restored ledger has forgotten; recorded. Nothing is read or published."""

    def action() -> None:
        from dp_spark.cli.deciding import charge_command

        charge_command(spec, key, revise=revise, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@ledger_app.command("verify")
def ledger_verify(
    head: Annotated[
        str | None, typer.Option(help="A head that was kept: also find a ledger that was put back.")
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare every row with the ledger's chain: find any edit, addition or deletion."""

    def action() -> None:
        from dp_spark.cli.deciding import verify_command

        verify_command(head, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@ledger_app.command("init")
def ledger_init(profile: ProfileFile = None, as_json: AsJson = False) -> None:
    """Make the profile's ledger and its master key, where they are missing."""

    def action() -> None:
        from dp_spark.cli.setting_up import make_ledger

        make_ledger(profile, as_json=as_json)

    _end(action, as_json=as_json)


@ledger_app.command("grants")
def ledger_grants(
    runner: Annotated[str, typer.Option(help="The role that runs releases.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Print the SQL that lets a role of PostgreSQL run releases, but open no account and move no limit."""

    def action() -> None:
        from dp_spark.cli.setting_up import print_grants

        print_grants(runner, as_json=as_json)

    _end(action, as_json=as_json)


@budget_app.command("set")
def budget_set(  # noqa: PLR0913, PLR0917 - one for each option
    population: Annotated[str, typer.Argument(help="Name of the people concerned.", show_default=False)],
    epsilon: Annotated[str, typer.Option(help="Lifetime limit, exact: 10, 0.5 or 1/3.", show_default=False)],
    delta: Annotated[str, typer.Option(help="Lifetime limit, such as 1e-5.", show_default=False)],
    reason: Annotated[str, typer.Option(help="Why; recorded with your name.", show_default=False)],
    unit: Annotated[
        list[str] | None,
        typer.Option(
            help="A column that tells one unit from another; repeat it for several.", show_default=False
        ),
    ] = None,
    unit_row: Annotated[bool, typer.Option("--unit-row", help="Each row is a unit by itself.")] = False,
    per: Annotated[
        str | None, typer.Option(help="The unit is one day, week or month of the unit column.")
    ] = None,
    neighbours: Annotated[
        str, typer.Option(help="add_remove or replace: what a unit may do.")
    ] = "add_remove",
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Open the account of a population, or move its lifetime limit; recorded."""

    def action() -> None:
        from dp_spark.cli.setting_up import Protection, set_budget

        set_budget(
            population,
            epsilon=epsilon,
            delta=delta,
            counts=Protection(tuple(unit or ()), unit_row, per, neighbours),
            reason=reason,
            profile=profile,
            as_json=as_json,
        )

    _end(action, as_json=as_json)


@survey_budget_app.command("set")
def survey_budget_set(
    population: Annotated[str, typer.Argument(help="Name of the people concerned.", show_default=False)],
    survey: Annotated[str, typer.Argument(help="The question's name.", show_default=False)],
    epsilon: Annotated[str, typer.Option(help="Of all waves together: 5, 0.5 or 1/3.", show_default=False)],
    unit: Annotated[
        list[str],
        typer.Option(help="A column that tells people apart; repeat it for several.", show_default=False),
    ],
    reason: Reason,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Open the account of a survey, or move its limit; recorded."""

    def action() -> None:
        from dp_spark.cli.surveying import budget_command

        budget_command(
            population, survey, epsilon=epsilon, unit=unit, reason=reason, profile=profile, as_json=as_json
        )

    _end(action, as_json=as_json)


@survey_app.command("plan")
def survey_plan(
    spec: SurveyFile,
    html: Annotated[Path | None, typer.Option("--html", help="Write the plan as a page.")] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what a wave will cost, how wrong shares may be, and what is not hidden; no answer is read.

    Where its account would refuse the wave, the code is that of the refusal, which stands below the plan.
    """

    def action() -> ExitCode:
        from dp_spark.cli.surveying import plan_command

        return plan_command(spec, html=html, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("open")
def survey_open(
    spec: SurveyFile,
    wave: Wave,
    reason: Reason,
    changed: Annotated[
        str | None,
        typer.Option(help="Why categories or sensitive flags are not those of the wave before; recorded."),
    ] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Open a wave: charge epsilon of each person to the survey's account, once."""

    def action() -> None:
        from dp_spark.cli.surveying import open_command

        open_command(spec, wave, reason=reason, changed=changed, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("randomize")
def survey_randomize(
    spec: SurveyFile, wave: Wave, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Give a report to everybody of the input who has none yet; as often as answers come in."""

    def action() -> None:
        from dp_spark.cli.surveying import randomize_command

        randomize_command(spec, wave, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("close")
def survey_close(spec: SurveyFile, wave: Wave, profile: ProfileFile = None, as_json: AsJson = False) -> None:
    """Count the reports, destroy the wave's key, and delete whose report is whose."""

    def action() -> None:
        from dp_spark.cli.surveying import close_command

        close_command(spec, wave, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("estimate")
def survey_estimate(
    spec: SurveyFile, wave: Wave, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Estimate shares of a closed wave, check, publish reports and estimates, and seal."""

    def action() -> None:
        from dp_spark.cli.surveying import estimate_command

        estimate_command(spec, wave, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("publish-held")
def survey_publish_held(
    spec: SurveyFile, wave: Wave, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Publish and seal a wave that a gate held; recorded."""

    def action() -> None:
        from dp_spark.cli.surveying import publish_held_command

        publish_held_command(spec, wave, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("checks")
def survey_checks(
    spec: SurveyFile,
    wave: Wave,
    html: ChecksPage = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print what the gates found of a wave, held or not: each expectation with its outcome, no value."""

    def action() -> None:
        from dp_spark.cli.gates import wave_checks_command

        wave_checks_command(spec, wave, html=html, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("abandon")
def survey_abandon(
    spec: SurveyFile, wave: Wave, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Give up an open or held wave: key and reports are deleted, its charge stands; recorded."""
    _end_wave("abandon", spec, wave, reason, profile, as_json)


@survey_app.command("burn")
def survey_burn(
    spec: SurveyFile, wave: Wave, reason: Reason, profile: ProfileFile = None, as_json: AsJson = False
) -> None:
    """Record that a wave's key or reports have leaked: its epsilon is infinite, its survey stops for good."""
    _end_wave("burn", spec, wave, reason, profile, as_json)


def _end_wave(word: str, spec: Path, wave: str, reason: str, profile: str | None, as_json: bool) -> NoReturn:
    def action() -> None:
        from dp_spark.cli.surveying import end_command

        end_command(word, spec, wave, reason=reason, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)


@survey_app.command("show")
def survey_show(
    population: Annotated[str | None, typer.Argument(help="One population only.")] = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the accounts of surveys: limit, spent, waves with their states and reports."""

    def action() -> None:
        from dp_spark.cli.surveying import show_command

        show_command(population=population, profile=profile, as_json=as_json)

    _end(action, as_json=as_json)
