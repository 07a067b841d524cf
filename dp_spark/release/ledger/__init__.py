"""The durable, locking privacy ledger: accounts, charges, and the life of every release."""

from dp_spark.release.ledger.accounts import Amount, Budget, require_admitted, require_same_protection
from dp_spark.release.ledger.claims import Claim, StagedOutcome
from dp_spark.release.ledger.database import database_of
from dp_spark.release.ledger.grants import grants
from dp_spark.release.ledger.keys import create_master_key_file, load_master_key
from dp_spark.release.ledger.ledger import Ledger, create_ledger, utc_now
from dp_spark.release.ledger.records import (
    Event,
    Publication,
    PublicationState,
    ReleaseRecord,
    StoredFile,
)
from dp_spark.release.ledger.states import ReleaseId, ReleaseState

__all__ = [
    "Amount",
    "Budget",
    "Claim",
    "Event",
    "Ledger",
    "Publication",
    "PublicationState",
    "ReleaseId",
    "ReleaseRecord",
    "ReleaseState",
    "StagedOutcome",
    "StoredFile",
    "create_ledger",
    "create_master_key_file",
    "database_of",
    "grants",
    "load_master_key",
    "require_admitted",
    "require_same_protection",
    "utc_now",
]
