"""`ledger pools set`, `ledger schedule add` and `ledger window set`: what people set aside, and why."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from dp_spark.cli.setting_up import limit_of, texts_of
from dp_spark.cli.telling import account_text
from dp_spark.errors import SpecRefused
from dp_spark.guarantee import Every, PrivacyGuarantee
from dp_spark.release.enrolling import enrolment_of
from dp_spark.release.ledger import Ledger
from dp_spark.release.places import open_ledger, paying_account
from dp_spark.release.problems import Wrong, refused
from dp_spark.release.profile import load_profile
from dp_spark.release.reading import read_each, word_of
from dp_spark.release.spec import PoolKind, load_spec
from dp_spark.report.figures import exact

Word = TypeVar("Word", bound=StrEnum)


def set_pools(
    population: str, pairs: Mapping[str, str | None], *, reason: str, profile: str | None, as_json: bool
) -> None:
    """Divide an account and print it.

    Raises:
        Refusal: the account has releases, or the pools do not fit.
    """
    pools = {PoolKind(kind): _pair_of(kind, pair) for kind, pair in pairs.items() if pair is not None}
    (reason,) = texts_of("pools set", reason=reason)
    ledger = open_ledger(load_profile(profile))
    ledger.set_pools(population, pools, reason=reason)
    _tell(ledger, population, as_json=as_json)


def add_schedule(
    spec: Path,
    together: Mapping[str, str | None],
    *,
    pool: str | None,
    reason: str,
    profile: str | None,
    as_json: bool,
) -> None:
    """Enrol a spec, and print what each of its releases promises by itself, and the account.

    Raises:
        Refusal: the schedule does not fit, or there is one of its name.
    """
    release, places = load_spec(spec), load_profile(profile)
    (reason,) = texts_of("schedule add", reason=reason)
    kind = None if pool is None else _word("pool", pool, PoolKind)
    pair = None
    if together["epsilon"] is not None or together["delta"] is not None:
        pair = limit_of(together["epsilon"] or "", together["delta"] or "", "schedule add")
    account = paying_account(places, release)
    enrolment, plan = enrolment_of(account, release, together=pair, pool=kind)
    ledger = open_ledger(places)
    ledger.enrol(account.population, enrolment, reason=reason)
    schedule, one = enrolment.schedule, plan.guarantee
    if not as_json:
        sys.stdout.write(
            f"enrolled   {schedule.name}: {schedule.slots} slots of {plan.noise.family} noise; each by "
            f"itself epsilon {exact(one.epsilon)}, delta {exact(one.delta)}\n"
        )
    _tell(ledger, account.population, as_json=as_json)


def set_window(
    population: str,
    every: str,
    limit: Mapping[str, str],
    *,
    reason: str,
    profile: str | None,
    as_json: bool,
) -> None:
    """Set a window and print the account.

    Raises:
        Refusal: the population is unknown, or a word or number is.
    """
    (reason,) = texts_of("window set", reason=reason)
    pair = limit_of(limit["epsilon"], limit["delta"], "window set")
    length = _word("every", every, Every)
    ledger = open_ledger(load_profile(profile))
    ledger.set_window(population, length, pair, reason=reason)
    _tell(ledger, population, as_json=as_json)


def _tell(ledger: Ledger, population: str, *, as_json: bool) -> None:
    sys.stdout.write(account_text(ledger, ledger.budget(population), as_json=as_json) + "\n")


def _pair_of(kind: str, text: str) -> PrivacyGuarantee:
    epsilon, comma, delta = text.partition(",")
    if not comma:
        raise SpecRefused(
            "pool_invalid",
            f"--{kind} = {text[:100]!r} is no pair",
            way_out="write EPSILON,DELTA, for instance 2,1e-6",
        )
    return limit_of(epsilon, delta, f"--{kind}")


def _word(name: str, text: str, words: type[Word]) -> Word:
    try:
        (found,) = read_each([(name, text)], word_of(words))
    except Wrong as failure:
        raise refused(f"{name}_invalid", f"--{name}", failure.problems) from None
    return found
