"""`ledger show`, `ledger history` and `ledger source add`: what is left, and how it came to that."""

import csv
import json
import sys
from dataclasses import fields
from fractions import Fraction

from dp_spark.errors import BudgetLow
from dp_spark.release.ledger import (
    Amount,
    Budget,
    Entry,
    Ledger,
    ReleaseState,
    releases_that_fit,
    warning_of,
)
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.report.figures import exact

_NOTHING = Amount(Fraction(0), Fraction(0))
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run


def add_source(path: str, population: str, *, profile: str | None, as_json: bool) -> None:
    """Register an input and print the name that it has in the ledger.

    Raises:
        Refusal: the population is unknown, or the input belongs to another.
    """
    source = open_ledger(load_profile(profile)).add_source(path, population)
    facts = {"source": source, "population": population}
    _say(json.dumps(facts) if as_json else f"source  {source}  of {population}")


def show_accounts(population: str | None, *, check: bool, profile: str | None, as_json: bool) -> None:
    """Print one account or all; with `check`, refuse where little is left.

    Raises:
        BudgetRefused: the population is unknown.
        BudgetLow: `check`, and 20 % or less is left somewhere.
    """
    ledger = open_ledger(load_profile(profile))
    names = ledger.populations() if population is None else [population]
    accounts = [ledger.budget(name) for name in names]
    warnings = [warning for account in accounts if (warning := warning_of(account)) is not None]
    if check and warnings:
        told = ", ".join(
            f"{each.population} ({each.level.value}: {float(each.share):.1%} left)" for each in warnings
        )
        raise BudgetLow(
            "budget_low",
            f"little is left of the budget of {told}",
            way_out="plan what is still to be released; `dp-spark ledger budget set` moves a limit",
        )
    shown = [_account_json(ledger, account) for account in accounts]
    _say(json.dumps(shown) if as_json else "\n\n".join(map(_account_text, shown)) or "no account yet")


def tell_history(population: str, *, as_csv: bool, profile: str | None, as_json: bool) -> None:
    """Print everything that happened to an account.

    Raises:
        BudgetRefused: the population is unknown.
    """
    entries = open_ledger(load_profile(profile)).history(population)
    names = [field.name for field in fields(Entry)]
    cells = [[_cell(getattr(entry, name)) for name in names] for entry in entries]
    if as_json:
        _say(json.dumps([dict(zip(names, row, strict=True)) for row in cells]))
    elif as_csv:
        writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
        writer.writerows([names, *(map(_harmless, row) for row in cells)])
    else:
        _say("\n".join("  ".join(filter(None, row)) for row in cells))


def _account_json(ledger: Ledger, account: Budget) -> dict[str, object]:
    releases = [each for each in ledger.releases(account.population) if each.state != ReleaseState.ABORTED]
    newest = releases[-1].charge if releases else None
    warning = warning_of(account)
    return {
        "population": account.population,
        "unit": str(account.unit),
        "neighbours": str(account.neighbours),
        "limit": _amount(Amount(account.limit.epsilon, account.limit.delta)),
        "spent": _amount(account.spent),
        "scheduled": _amount(_NOTHING),
        "left": _amount(account.left),
        "releases": len(releases),
        "fit": None if newest is None else releases_that_fit(account, newest),
        "warning": None if warning is None else warning.as_json(),
    }


def _amount(amount: Amount) -> dict[str, str]:
    return {"epsilon": str(amount.epsilon), "delta": str(amount.delta)}


def _account_text(shown: dict[str, object]) -> str:
    lines = [f"{shown['population']}  (unit {shown['unit']}, neighbours {shown['neighbours']})"]
    for name in ("limit", "spent", "scheduled", "left"):
        amount = shown[name]
        assert isinstance(amount, dict)
        epsilon, delta = (exact(Fraction(amount[part])) for part in ("epsilon", "delta"))
        lines.append(f"  {name:10} epsilon {epsilon}, delta {delta}")
    fit = shown["fit"]
    lines.append(f"  {'releases':10} {shown['releases']}" + _fits(fit))
    if shown["warning"] is not None:
        lines.append("  warning    20 % or less is left")
    return "\n".join(lines)


def _fits(fit: object) -> str:
    return "" if fit is None else f"; as the newest, {fit} more fit"


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _harmless(text: str) -> str:
    """The text as a spreadsheet shows it; a number keeps its sign."""
    number = text.removeprefix("-").replace("/", "").isdigit()
    return f"'{text}" if text.startswith(_FORMULA) and not number else text


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
