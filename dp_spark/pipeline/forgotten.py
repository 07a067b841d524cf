"""The charge of a period that was released while another copy of the ledger counted."""

from dp_spark.pipeline.readiness import require_over
from dp_spark.pipeline.reserving import reservation
from dp_spark.release.enrolling import plan_for
from dp_spark.release.ledger import (
    ReleaseId,
    ReleaseRecord,
    ReleaseState,
    not_forgotten,
    require_same_protection,
    source_name,
    utc_now,
)
from dp_spark.release.period import period_window
from dp_spark.release.places import open_ledger, release_record
from dp_spark.release.profile import Profile
from dp_spark.release.spec import InputSpec, ReleaseSpec


def charge_forgotten(
    spec: ReleaseSpec, key: str, *, reason: str, profile: Profile, revise: str | None = None
) -> ReleaseRecord:
    """Charge a period as `run_release` would, and abandon it: nothing is read, drawn or published.

    Args:
        spec: that was released; what it costs is planned anew, as of an enrolled one it is known.
        key: first day of the period, YYYY-MM-DD.
        reason: why it is charged here; kept for good.
        profile: where the ledger is.
        revise: the reason of the revision, if it was one; those before it have to be known.

    Raises:
        BudgetRefused: the account does not admit the charge: what it was given since the backup is missing.
        LedgerRefused: the ledger knows the release, so its charge counts; or the reason is blank.
        Refusal: as `run_release` before its charge.
    """
    window = period_window(spec.period, key)
    require_over(spec, window, utc_now())
    ledger = open_ledger(profile)
    first = ReleaseId(spec.budget.population, spec.release, key)
    account = ledger.budget(first.population)
    require_same_protection(account, spec.unit.protected, spec.neighbours)
    for record in ledger.releases(first.population):
        mine = (record.release_id.name, record.release_id.period_key) == (first.name, first.period_key)
        # Revisions that came to nothing are begun anew for the same reason, and would be charged twice here.
        if mine and record.revision_reason == revise and record.state is not ReleaseState.ABORTED:
            raise not_forgotten(record.release_id, record.state)
    release = first if revise is None else ledger.revision_for(first, revise)
    source = source_name(spec.input.place) if isinstance(spec.input, InputSpec) else None
    asked = reservation(release, spec, plan_for(account, spec), revise=revise, source=source)
    ledger.charge_forgotten(asked, reason)
    return release_record(ledger, release)
