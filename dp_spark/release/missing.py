"""Periods that a release should have by now and has not, and until when their rows are there to be read."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from dp_spark.errors import SpecRefused
from dp_spark.release.ledger import Ledger, ReleaseRecord, ReleaseState
from dp_spark.release.period import period_window
from dp_spark.release.spec import InputSpec, ReleaseSpec

_STAGED = (ReleaseState.STAGED, ReleaseState.HELD, ReleaseState.PUBLISHED)
SOON = 7  # days before rows expire, from which on every run warns


@dataclass(frozen=True, slots=True)
class MissingPeriod:
    """A period that is over and has no sealed release.

    Attributes:
        key: of the period.
        state: of its newest revision; None where nothing of it was ever charged.
        expires: first day on which its raw rows may be gone; None where the spec does not say.
        days_left: days until then, by the clock of the period's time zone; 0 or less once they may be gone.
    """

    key: str
    state: ReleaseState | None
    expires: date | None
    days_left: int | None

    @property
    def needs_rows(self) -> bool:
        """Whether its rows are still to be read: what is staged waits for its sinks or for a decision."""
        return self.state not in _STAGED

    def is_expiring(self, within: int = SOON) -> bool:
        """Whether its rows are needed and there still, and may be gone in so many days."""
        return self.needs_rows and self.days_left is not None and 0 < self.days_left <= within

    def as_json(self) -> dict[str, object]:
        """The period as the `--json` form prints it."""
        return {
            "key": self.key,
            "state": None if self.state is None else self.state.value,
            "expires": None if self.expires is None else self.expires.isoformat(),
            "days_left": self.days_left,
        }

    def __str__(self) -> str:
        state = "never charged for" if self.state is None else self.state.value
        if not self.needs_rows:
            waits = "a decision" if self.state is ReleaseState.HELD else "`dp-spark publish`"
            return f"{self.key}  {state}; waits for {waits}, and needs no rows any more"
        if self.days_left is None:
            return f"{self.key}  {state}"
        if self.days_left <= 0:
            return f"{self.key}  {state}; its rows may be gone since {self.expires}"
        return f"{self.key}  {state}; its rows are kept until {self.expires}, {self.days_left} days from now"


def missing_periods(
    ledger: Ledger, spec: ReleaseSpec, now: datetime, *, through: date | None = None
) -> list[MissingPeriod]:
    """The periods from the release's first on that are over at `now` and not sealed, in their order.

    Args:
        ledger: knows the releases of the spec's population; the first of this name begins the line.
        spec: of the release.
        now: the time.
        through: the last period is the one that begins on this day, or before it; None is no end but `now`.

    Raises:
        SpecRefused: the spec has no periods, so that none can be missing.
        BudgetRefused: the ledger does not know the population.
    """
    if spec.period is None:
        raise SpecRefused(
            "no_periods",
            f"release {spec.release} has no period: each key is a date of your choice, and none is missing",
            way_out="write period: {column: COLUMN, every: day} if rows belong to days",
        )
    ledger.budget(spec.budget.population)
    known = _by_key(each for each in ledger.releases(spec.budget.population) if is_of(each, spec))
    today = now.astimezone(ZoneInfo(spec.period.timezone)).date()
    kept = spec.input.kept_days if isinstance(spec.input, InputSpec) else None
    found, key = [], min(known, default=None)
    while key is not None:
        window = period_window(spec.period, key)
        if not window.is_over(now) or (through is not None and window.start > through):
            break
        revisions = known.get(key, [])
        if all(each.state is not ReleaseState.SEALED for each in revisions):
            expires = None if kept is None else window.end + timedelta(days=kept)
            left = None if expires is None else (expires - today).days
            found.append(MissingPeriod(key, revisions[-1].state if revisions else None, expires, left))
        key = window.end.isoformat()
    return found


def expiring_periods(ledger: Ledger, spec: ReleaseSpec, now: datetime | None = None) -> list[MissingPeriod]:
    """The missing periods whose rows may be gone within a week; none where the spec does not say when."""
    if spec.period is None or not isinstance(spec.input, InputSpec) or spec.input.kept_days is None:
        return []
    found = missing_periods(ledger, spec, now or datetime.now(UTC))
    return [period for period in found if period.is_expiring()]


def is_of(record: ReleaseRecord, spec: ReleaseSpec) -> bool:
    """Whether it is a release of the spec's name, with a key that its periods can have."""
    if record.release_id.name != spec.release:
        return False
    try:
        period_window(spec.period, record.release_id.period_key)
    except SpecRefused:  # it was cut otherwise once
        return False
    return True


def _by_key(records: Iterable[ReleaseRecord]) -> dict[str, list[ReleaseRecord]]:
    """The revisions of each period, in their order."""
    found: dict[str, list[ReleaseRecord]] = {}
    for record in records:
        found.setdefault(record.release_id.period_key, []).append(record)
    return found
