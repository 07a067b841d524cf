"""Accounts of surveys: what a population may give away by its answers to one question.

An account of releases of the same population is another kind: nothing adds up between the two, so neither
needs the other, and their units may differ.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_UP
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from dp_spark.errors import BudgetRefused, LedgerRefused
from dp_spark.guarantee import PrivacyUnit
from dp_spark.release.ledger import rows, store
from dp_spark.release.ledger.exact import decode, encode, show
from dp_spark.release.ledger.states import check_name, is_name
from dp_spark.release.ledger.steps import Stamp
from dp_spark.release.ledger.wave_decisions import require_no_burned_wave
from dp_spark.release.ledger.wave_records import wave_records
from dp_spark.release.ledger.waves import SurveyAccount

_OPEN = (
    "open the survey's account: dp-spark survey budget set POPULATION SURVEY --epsilon LIMIT --unit COLUMN "
    "--reason WHY"
)


@dataclass(frozen=True, slots=True)
class SurveyLimit:
    """An explicit decision on the limit of a survey.

    Raises:
        BudgetRefused: the limit is not positive, or the reason is blank.
        LedgerRefused: the unit is a row, or that of a period.
        SpecRefused: population or survey is no name.
    """

    population: str
    survey: str
    limit: Fraction
    unit: PrivacyUnit
    reason: str

    def __post_init__(self) -> None:
        check_name("population", self.population)
        check_name("survey", self.survey)
        where = f"survey {self.survey} of population {self.population}"
        if not self.reason.strip():
            raise BudgetRefused(
                "reason_missing",
                f"the limit of {where} cannot be set without a reason",
                way_out="say who decided it and why; it is kept for good",
            )
        if self.limit <= 0:
            raise BudgetRefused(
                "bad_limit",
                f"limit = {show(self.limit)} of {where} must be above 0",
                way_out="give the sum of epsilons that all its waves may have",
            )
        if self.unit.is_row or self.unit.per is not None:
            raise LedgerRefused(
                "survey_unit",
                f"unit = {self.unit} of {where} must be columns that name a person, over all time",
                way_out="a person answers once in a wave: name the columns by which one is known",
            )


def set_survey_limit(connection: sa.Connection, asked: SurveyLimit, stamp: Stamp) -> None:
    """Open the account of a survey or move its limit, and record who did.

    Raises:
        BudgetRefused: the limit is under what the waves have spent.
        LedgerRefused: the account has another unit.
    """
    key = {"population": asked.population, "survey": asked.survey}
    row = _account(connection, asked.population, asked.survey)
    limit = encode(asked.limit)
    if row is None:
        rows.insert(connection, store.survey_accounts, **key, unit=str(asked.unit), limit_epsilon=limit)
    else:
        account = _survey_account(connection, row)
        require_same_unit(account, asked.unit)
        _require_above_spent(account, asked.limit)
        rows.put(connection, store.survey_accounts, key, limit_epsilon=limit)
    rows.insert(
        connection,
        store.survey_changes,
        **key,
        old_epsilon=None if row is None else row.limit_epsilon,
        new_epsilon=limit,
        reason=asked.reason,
        os_user=stamp.os_user,
        at=stamp.at,
    )


def survey_account(connection: sa.Connection, population: str, survey: str) -> SurveyAccount:
    """The account of a survey.

    Raises:
        BudgetRefused: there is none; the text names the nearest.
    """
    row = _account(connection, population, survey)
    if row is None:
        raise _unknown(connection, population, survey)
    return _survey_account(connection, row)


def survey_accounts(connection: sa.Connection, population: str | None = None) -> list[SurveyAccount]:
    """The accounts of all surveys, or of one population's, in the order of names."""
    table = store.survey_accounts
    asked = sa.select(table).order_by(table.c.population, table.c.survey)
    if population is not None:
        asked = asked.where(table.c.population == population)
    return [_survey_account(connection, row) for row in connection.execute(asked).all()]


def has_survey(connection: sa.Connection, population: str) -> bool:
    """Whether any survey of the population has an account."""
    return population in _names(connection, store.survey_accounts.c.population)


def require_same_unit(account: SurveyAccount, unit: PrivacyUnit) -> None:
    """Check that a person is to the account who it is to whoever asks.

    Raises:
        LedgerRefused: the unit is another.
    """
    if account.unit != unit:
        raise LedgerRefused(
            "other_unit",
            f"survey {account.survey} of population {account.population} counts unit {account.unit}, "
            f"not unit {unit}",
            way_out="epsilons of different units do not add up: use another survey",
        )


def require_wave_fits(account: SurveyAccount, unit: PrivacyUnit, epsilon: Fraction, asked: str) -> None:
    """Check that an account counts these persons and has room for a wave, which errors call `asked`.

    Raises:
        LedgerRefused: the unit is another.
        BudgetRefused: a wave is burned, or epsilon is not above 0, or more than is left.
    """
    require_no_burned_wave(account)
    require_same_unit(account, unit)
    if epsilon <= 0:
        raise BudgetRefused(
            "bad_epsilon",
            f"epsilon = {show(epsilon)} of {asked} must be above 0",
            way_out="give the epsilon of one report",
        )
    left, after = account.limit - account.spent, account.spent + epsilon
    if after > account.limit:
        fits = f"ask for at most epsilon = {show(left)}, or " if left > 0 else "nothing fits; "
        raise BudgetRefused(
            "budget_exhausted",
            f"{asked} asks for epsilon = {show(epsilon, rounding=ROUND_UP)}; survey "
            f"{account.survey} of population {account.population} has epsilon = {show(left)} left of "
            f"{show(account.limit)}",
            way_out=f"{fits}raise the limit of the survey to {show(after, rounding=ROUND_UP)} or more "
            "(dp-spark survey budget set)",
        )


def overspent(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """Population and survey of the accounts whose waves have more than their limit together."""
    for account in survey_accounts(connection):
        if account.spent > account.limit:
            yield account.population, account.survey


def _require_above_spent(account: SurveyAccount, limit: Fraction) -> None:
    if limit < account.spent:
        spent = show(account.spent, rounding=ROUND_UP)
        raise BudgetRefused(
            "limit_below_spent",
            f"limit = epsilon {show(limit)} of survey {account.survey} of population {account.population} is "
            f"under epsilon {spent}, which its waves have spent",
            way_out=f"what was asked cannot be unasked: the limit stays at {spent} or above",
        )


def _survey_account(connection: sa.Connection, row: sa.Row[Any]) -> SurveyAccount:
    columns = store.waves.c
    ours = sa.and_(columns.population == row.population, columns.survey == row.survey)
    return SurveyAccount(
        population=row.population,
        survey=row.survey,
        unit=PrivacyUnit.parse(row.unit),
        limit=decode(row.limit_epsilon),
        waves=tuple(wave_records(connection, ours)),
    )


def _account(connection: sa.Connection, population: str, survey: str) -> sa.Row[Any] | None:
    if not (is_name(population) and is_name(survey)):
        return None  # nor might a database take such a text
    table = store.survey_accounts
    here = sa.and_(table.c.population == population, table.c.survey == survey)
    return connection.execute(sa.select(table).where(here)).one_or_none()


def _names(
    connection: sa.Connection, column: sa.Column[str], *where: sa.ColumnElement[bool]
) -> Sequence[str]:
    return connection.scalars(sa.select(column).where(*where).distinct().order_by(column)).all()


def _unknown(connection: sa.Connection, population: str, survey: str) -> BudgetRefused:
    columns = store.survey_accounts.c
    populations = _names(connection, columns.population)
    if population not in populations:
        return BudgetRefused(
            "unknown_population",
            f"the ledger has no surveys of population {population[:200]!r}; "
            f"{_nearest(population, populations)}",
            way_out=f"correct the name, or {_OPEN}",
        )
    surveys = _names(connection, columns.survey, columns.population == population)
    return BudgetRefused(
        "unknown_survey",
        f"population {population} has no survey {survey[:200]!r}; {_nearest(survey, surveys)}",
        way_out=f"correct the name, or {_OPEN}",
    )


def _nearest(name: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)
    return f"the nearest name is {nearest[0]!r}" if nearest else "it has none yet"
