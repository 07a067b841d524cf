"""`restricted gc` and `missing`: what need not be kept any more, and what must be read before it is gone."""

import json
import sys
from datetime import date
from pathlib import Path

from dp_spark.cli.guard import ERRORS
from dp_spark.errors import PeriodsExpire, Refusal, SpecRefused
from dp_spark.release.expiry import delete, disused
from dp_spark.release.ledger import utc_now
from dp_spark.release.missing import MissingPeriod, expiring_periods, missing_periods
from dp_spark.release.places import open_ledger
from dp_spark.release.profile import load_profile
from dp_spark.release.spec import ReleaseSpec, load_spec
from dp_spark.release.zone import claim_zone


def gc_command(*, dry_run: bool, profile: str | None, as_json: bool) -> None:
    """Delete staged tables of what was sealed long enough ago, and what attempts have left beside them.

    Raises:
        SetupRefused: the ledger cannot be opened, or the restricted zone is another one's.
    """
    places = load_profile(profile)
    ledger = open_ledger(places)
    claim_zone(ledger, places.staging)
    files = disused(ledger, places, utc_now())
    if not dry_run:
        delete(files)
    if as_json:
        told = [{"path": str(each.path), "of": each.whose, "why": each.reason.value} for each in files]
        facts = {"retention_days": places.retention_days, "dry_run": dry_run, "deleted": told}
        _say(json.dumps(facts))
        return
    kept = places.retention_days
    _say(
        "nothing expires: the profile has no retention_days"
        if kept is None
        else f"staged tables expire {kept} days after their seal"
    )
    verb = "would delete" if dry_run else "deleted"
    for each in files:
        _say(f"{verb:<12}  {each.path}  of {each.whose}, {each.reason}")
    _say(f"{verb:<12}  {len(files)} files")


def missing_command(
    spec: Path, *, through: str | None, within: int, profile: str | None, as_json: bool
) -> None:
    """Print the periods that are over and not sealed.

    Raises:
        PeriodsExpire: the rows of one may be gone within so many days.
        SpecRefused: the spec has no periods, or `through` is no date.
    """
    release = load_spec(spec)
    found = missing_periods(open_ledger(load_profile(profile)), release, utc_now(), through=_date(through))
    if as_json:
        _say(json.dumps([period.as_json() for period in found]))
    else:
        _say("\n".join(map(str, found)) or f"no period of {release.release} is missing")
    if expiring := [period for period in found if period.is_expiring(within)]:
        raise PeriodsExpire(
            "periods_expire",
            f"the rows of {len(expiring)} missing periods of {release.release} may be gone within {within} "
            f"days: {', '.join(period.key for period in expiring)}",
            way_out="dp-spark run SPEC --key KEY for each of them, before that",
        )


def warn_of(periods: tuple[MissingPeriod, ...], release: str) -> None:
    """Tell of missing periods whose rows may be gone soon, on standard error."""
    for period in periods:
        text = f"warning: {release} lacks a period: {period}"
        ERRORS.print(text, markup=False, soft_wrap=True)


def warn_after_refusal(spec: ReleaseSpec, profile: str | None) -> None:
    """The same after a run that was refused, as far as the ledger can be asked."""
    try:
        periods = expiring_periods(open_ledger(load_profile(profile)), spec)
    except Refusal:  # it has been told
        return
    warn_of(tuple(periods), spec.release)


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise SpecRefused(
            "bad_date", f"--through {text[:40]!r} is not a date", way_out="write YYYY-MM-DD"
        ) from None


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
