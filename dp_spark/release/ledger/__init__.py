"""The durable, locking privacy ledger: accounts, charges, and the life of every release."""

from dp_spark.release.ledger.accounts import Amount, Budget, admit, require_same_protection
from dp_spark.release.ledger.admission import Asked, Receipt, Standing
from dp_spark.release.ledger.chain import Head, Verdict
from dp_spark.release.ledger.claims import Claim, StagedOutcome
from dp_spark.release.ledger.cost import room
from dp_spark.release.ledger.database import database_of
from dp_spark.release.ledger.decisions import Decision
from dp_spark.release.ledger.dividing import Enrolment, enrolled, pair_missing, require_unknown
from dp_spark.release.ledger.entries import Entry
from dp_spark.release.ledger.forgotten import not_forgotten
from dp_spark.release.ledger.grants import grants
from dp_spark.release.ledger.keys import create_master_key_file, load_master_key
from dp_spark.release.ledger.ledger import Ledger, create_ledger, utc_now
from dp_spark.release.ledger.persons import person_cost
from dp_spark.release.ledger.records import (
    Event,
    Publication,
    PublicationState,
    ReleaseRecord,
    StoredFile,
)
from dp_spark.release.ledger.reserve import Known, Reservation
from dp_spark.release.ledger.schedule import Schedule, noise_of
from dp_spark.release.ledger.sources import source_name
from dp_spark.release.ledger.states import ReleaseId, ReleaseState
from dp_spark.release.ledger.surveys import require_wave_fits
from dp_spark.release.ledger.warnings import BudgetWarning, Level, warning_of
from dp_spark.release.ledger.wave_decisions import WaveEnd
from dp_spark.release.ledger.wave_steps import require_not_ended
from dp_spark.release.ledger.waves import (
    Batch,
    BatchClaim,
    SurveyAccount,
    WaveAsked,
    WaveId,
    WaveRecord,
    WaveState,
)

__all__ = [
    "Amount",
    "Asked",
    "Batch",
    "BatchClaim",
    "Budget",
    "BudgetWarning",
    "Claim",
    "Decision",
    "Enrolment",
    "Entry",
    "Event",
    "Head",
    "Known",
    "Ledger",
    "Level",
    "Publication",
    "PublicationState",
    "Receipt",
    "ReleaseId",
    "ReleaseRecord",
    "ReleaseState",
    "Reservation",
    "Schedule",
    "StagedOutcome",
    "Standing",
    "StoredFile",
    "SurveyAccount",
    "Verdict",
    "WaveAsked",
    "WaveEnd",
    "WaveId",
    "WaveRecord",
    "WaveState",
    "admit",
    "create_ledger",
    "create_master_key_file",
    "database_of",
    "enrolled",
    "grants",
    "load_master_key",
    "noise_of",
    "not_forgotten",
    "pair_missing",
    "person_cost",
    "require_not_ended",
    "require_same_protection",
    "require_unknown",
    "require_wave_fits",
    "room",
    "source_name",
    "utc_now",
    "warning_of",
]
