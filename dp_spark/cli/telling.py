"""`ledger show`, `ledger history` and `ledger source add`: what is left, and how it came to that."""

import csv
import json
import sys
from dataclasses import fields
from fractions import Fraction
from typing import Any

from dp_spark.errors import BudgetLow
from dp_spark.release.ledger import (
    Amount,
    Budget,
    Entry,
    Ledger,
    ReleaseState,
    person_cost,
    warning_of,
)
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import PoolKind
from dp_spark.report.figures import counted, exact, figures

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
    _say(
        json.dumps(shown) if as_json else "\n\n".join(map(_account_text, accounts, shown)) or "no account yet"
    )


def tell_history(population: str, *, as_csv: bool, profile: str | None, as_json: bool) -> None:
    """Print everything that happened to an account.

    Raises:
        BudgetRefused: the population is unknown.
    """
    entries = open_ledger(load_profile(profile)).history(population)
    names = [field.name for field in fields(Entry)]
    show = str if as_json or as_csv else _short
    cells = [
        ["" if (value := getattr(entry, name)) is None else show(value) for name in names]
        for entry in entries
    ]
    if as_json:
        _say(json.dumps([dict(zip(names, row, strict=True)) for row in cells]))
    elif as_csv:
        writer = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
        writer.writerows([names, *(map(_harmless, row) for row in cells)])
    else:
        _say("\n".join("  ".join(filter(None, row)) for row in cells))


def account_text(ledger: Ledger, account: Budget, *, as_json: bool) -> str:
    """One account, for people or machines."""
    shown = _account_json(ledger, account)
    return json.dumps(shown) if as_json else _account_text(account, shown)


def _account_json(ledger: Ledger, account: Budget) -> dict[str, object]:
    releases = [each for each in ledger.releases(account.population) if each.state != ReleaseState.ABORTED]
    newest = releases[-1] if releases else None
    warning = warning_of(account)
    return {
        "population": account.population,
        "unit": str(account.unit),
        "neighbours": str(account.neighbours),
        "limit": _amount(Amount(account.limit.epsilon, account.limit.delta)),
        "scheduled": _amount(account.scheduled),
        "ad_hoc": _amount(account.ad_hoc),
        "spent": _amount(account.spent),
        "left": _amount(account.left),
        "pools": [_pool_json(account, kind) for kind in account.terms.pools],
        "schedules": [_schedule_json(account, name) for name in account.enrolled],
        "windows": {
            every: _amount(Amount(each.epsilon, each.delta)) for every, each in account.windows.items()
        },
        "releases": len(releases),
        "fit": None if newest is None else account.more_of(newest.took),
        "person": _person_json(account),
        "warning": None if warning is None else warning.as_json(),
    }


def _person_json(account: Budget) -> dict[str, object] | None:
    """What somebody loses at most who has rows in every period that was charged so far."""
    if account.unit.per is None or not account.periods:
        return None
    pools = tuple(account.terms.pools.values())
    cost = person_cost(account.in_time, pools, account.periods, account.limit)
    composed = cost.composed_epsilon if cost.composed_epsilon < cost.added[0] else None
    added = _amount(Amount(*cost.added))
    return {"periods": cost.periods, "added": added, "composed_epsilon": composed}


def _pool_json(account: Budget, kind: PoolKind) -> dict[str, object]:
    pool, spent = account.terms.pools[kind], account.standing.spent.get(kind)
    loss = "epsilon" if kind is PoolKind.SUMS else "rho"
    return {
        "kind": kind.value,
        "keeps": _amount(Amount(pool.guarantee.epsilon, pool.guarantee.delta)),
        "limit": {loss: str(pool.limit.loss), "delta": str(pool.limit.delta)},
        "spent": {loss: str(spent.loss if spent else 0), "delta": str(spent.delta if spent else 0)},
    }


def _schedule_json(account: Budget, name: str) -> dict[str, object]:
    return {
        "name": name,
        "slots": account.terms.slots(account.enrolled[name].schedule),
        "taken": account.standing.taken.get(name, 0),
        "late": account.enrolled[name].receipt is not None,
    }


def _amount(amount: Amount) -> dict[str, str]:
    return {"epsilon": str(amount.epsilon), "delta": str(amount.delta)}


def _account_text(account: Budget, shown: dict[str, Any]) -> str:
    per = "" if account.unit.per is None else f"; used: of the fullest {account.unit.per}"
    lines = [f"{shown['population']}  (unit {shown['unit']}, neighbours {shown['neighbours']}{per})"]
    names = ["limit", *(["scheduled", "ad_hoc"] if account.enrolled else []), "spent", "left"]
    for name in names:
        epsilon, delta = (exact(Fraction(shown[name][part])) for part in ("epsilon", "delta"))
        of_pools = " of the pools" if name == "left" and "scheduled" in names else ""
        lines.append(f"  {name.replace('_', ' '):10} epsilon {epsilon}, delta {delta}{of_pools}")
    if account.pools is not None:
        lines += [f"  {'pool':10} {_pool_text(each)}" for each in shown["pools"]] or [f"  {'pool':10} none"]
    for each in shown["schedules"]:
        late = ", paid by a pool" if each["late"] else ""
        lines.append(
            f"  {'schedule':10} {each['name']}: {each['taken']} of {each['slots']} slots taken{late}"
        )
    for every, each in shown["windows"].items():
        epsilon, delta = exact(Fraction(each["epsilon"])), exact(Fraction(each["delta"]))
        lines.append(f"  {'window':10} each {every}: epsilon {epsilon}, delta {delta}")
    fit = shown["fit"]
    lines.append(
        f"  {'releases':10} {shown['releases']}" + ("" if fit is None else f"; as the newest, {fit} more fit")
    )
    if shown["person"] is not None:
        lines.append(f"  {'person':10} {_person_text(account, shown['person'])}")
    if shown["warning"] is not None:
        lines.append("  warning    20 % or less is left")
    return "\n".join(lines)


def _person_text(account: Budget, person: dict[str, Any]) -> str:
    epsilon, delta = (exact(Fraction(person["added"][part])) for part in ("epsilon", "delta"))
    periods = counted(person["periods"], str(account.unit.per))
    composed = person["composed_epsilon"]
    better = "" if composed is None else f"; composed, epsilon {figures(composed, 4)}"
    return f"with rows in {periods}, as many as were charged: epsilon {epsilon}, delta {delta}{better}"


def _pool_text(pool: dict[str, Any]) -> str:
    spent, limit = (
        ", ".join(f"{name} {figures(float(Fraction(value)), 4)}" for name, value in pool[what].items())
        for what in ("spent", "limit")
    )
    return f"{pool['kind']}: {spent} spent of {limit}"


def _short(value: object) -> str:
    return exact(value) if isinstance(value, Fraction) else str(value)


def _harmless(text: str) -> str:
    """The text as a spreadsheet shows it; a number keeps its sign."""
    number = text.removeprefix("-").replace("/", "").isdigit()
    return f"'{text}" if text.startswith(_FORMULA) and not number else text


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
