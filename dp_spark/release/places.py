"""What a profile names, opened or made: the ledger, its master key, the restricted zone."""

from pathlib import Path

from dp_spark.errors import LedgerRefused, Refusal, SetupRefused
from dp_spark.release.ledger import (
    Budget,
    Ledger,
    ReleaseId,
    ReleaseRecord,
    create_ledger,
    create_master_key_file,
    database_of,
    load_master_key,
    require_same_protection,
    source_name,
)
from dp_spark.release.profile import Profile
from dp_spark.release.secret import read_secret
from dp_spark.release.spec import InputSpec, ReleaseSpec


def open_ledger(profile: Profile) -> Ledger:
    """The profile's ledger, with its master key.

    Raises:
        SetupRefused: one of them is missing or damaged, or they do not belong together.
    """
    master_key = load_master_key(profile.master_key)
    return Ledger.open(profile.ledger_url, master_key, password=_password(profile), root=profile.root)


def make_places(profile: Profile) -> None:
    """Make the ledger, its master key and the restricted zone where they are missing; never by a run.

    Raises:
        SetupRefused: a place cannot be made, or holds something else.
    """
    kind, _, place = profile.master_key.partition(":")
    _make_private(profile.staging)
    if kind == "file" and not Path(place).exists():
        _refuse_ledger_without_key(profile, place)
        _make_private(Path(place).parent)
        create_master_key_file(Path(place))
    load_master_key(profile.master_key)  # refused here rather than by the first run
    create_ledger(profile.ledger_url, password=_password(profile))


def paying_account(profile: Profile, spec: ReleaseSpec) -> Budget:
    """The account that pays for the releases of a spec, and counts what they protect.

    Raises:
        SetupRefused: as `open_ledger`.
        BudgetRefused: there is no such account.
        LedgerRefused: it counts another unit, or other neighbours.
    """
    account = open_ledger(profile).budget(spec.budget.population)
    require_same_protection(account, spec.unit.protected, spec.neighbours)
    return account


def private_sources(profile: Profile, spec: ReleaseSpec) -> frozenset[str]:
    """What no public list may be read from, as far as is known before a run: its input, the ledger's sources.

    Without a ledger the input alone: a run has one.
    """
    own = frozenset({source_name(spec.input.place)} if isinstance(spec.input, InputSpec) else ())
    try:
        return own | open_ledger(profile).sources()
    except Refusal:
        return own


def release_record(ledger: Ledger, release: ReleaseId) -> ReleaseRecord:
    """What the ledger keeps of a release.

    Raises:
        LedgerRefused: it knows none of this id.
    """
    record = ledger.find(release)
    if record is None:
        raise LedgerRefused(
            "unknown_release",
            f"the ledger knows no release {release}",
            way_out="name it population/release/period/revision, as `dp-spark run` printed it",
        )
    return record


def _password(profile: Profile) -> str | None:
    reference = profile.ledger_password
    return None if reference is None else read_secret("ledger password", reference)


def _refuse_ledger_without_key(profile: Profile, place: str) -> None:
    """A new key would not open what an existing ledger holds."""
    if database_of(profile.ledger_url, _password(profile)).exists():
        raise SetupRefused(
            "master_key_lost",
            f"the ledger exists, but its master key {place} does not",
            way_out="restore the key from its backup; only a new ledger gets a new key",
        )


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as failure:
        raise SetupRefused(
            "not_writable",
            f"the directory {directory} cannot be made ({failure.strerror})",
            way_out="name a place in the profile that you may write",
        ) from None
