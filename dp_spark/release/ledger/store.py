"""The ledger's tables, as the newest migration leaves them.

Fractions are stored as `n/d`, times as UTC ISO text, states as their names, a unit as its one text.
"""

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _release() -> sa.Column[int]:
    return sa.Column("release", sa.ForeignKey("releases.id"), nullable=False)


def _survey() -> tuple[sa.Column[str], sa.Column[str], sa.ForeignKeyConstraint]:
    return (
        sa.Column("population", sa.String(128), nullable=False),
        sa.Column("survey", sa.String(128), nullable=False),
        sa.ForeignKeyConstraint(
            ["population", "survey"], ["survey_accounts.population", "survey_accounts.survey"]
        ),
    )


def _wave() -> sa.Column[int]:
    return sa.Column("wave", sa.ForeignKey("waves.id"), nullable=False)


ledger_meta = sa.Table(
    "ledger_meta",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _text("created_at"),
    sa.Column("master_key_check", sa.LargeBinary),  # set by the first reservation
)

accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("population", sa.String(128), primary_key=True),
    _text("unit"),
    _text("neighbours"),
    _text("limit_epsilon"),
    _text("limit_delta"),
)

budget_changes = sa.Table(
    "budget_changes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    _text("old_epsilon", nullable=True),
    _text("old_delta", nullable=True),
    _text("new_epsilon"),
    _text("new_delta"),
    _text("reason"),
    _text("os_user"),
    _text("at"),
)

releases = sa.Table(
    "releases",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("period_key", sa.String(128), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    _text("spec_digest"),
    _text("state"),
    sa.Column("fence", sa.Integer, nullable=False),
    _text("charge_epsilon"),
    _text("charge_delta"),
    _text("artefact_digest", nullable=True),
    _text("artefact_path", nullable=True),
    sa.Column("artefact_fence", sa.Integer),
    _text("statement_digest", nullable=True),
    _text("statement_path", nullable=True),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    _text("revision_reason", nullable=True),  # of a revision after the first
    _text("source", nullable=True),
    _text("source_version", nullable=True),  # that it reads, of a source that has versions
    _text("receipt", nullable=True),  # what it took; before 0004 its charge, of a pool of sums
    _text("charged_at", nullable=True),  # as 0004 writes it; in the events in any case
    sa.UniqueConstraint("population", "name", "period_key", "revision"),
)

# A table of its own whose rows are only appended and overwritten in place by rows of the same length: SQLite
# then never moves a wrapped key to another page. Where rows shrink or go, rebalancing leaves stale copies in
# the slack of pages, and `secure_delete` does not reach those.
release_keys = sa.Table(
    "release_keys",
    metadata,
    sa.Column("release", sa.Integer, sa.ForeignKey("releases.id"), primary_key=True, autoincrement=False),
    sa.Column("wrapped", sa.LargeBinary, nullable=False),
)

noise_tables = sa.Table(
    "noise_tables",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

release_tables = sa.Table(
    "release_tables",
    metadata,
    _release(),
    _text("name"),
    sa.Column("digest", sa.ForeignKey("noise_tables.digest"), nullable=False),
    sa.PrimaryKeyConstraint("release", "name"),
)

publications = sa.Table(
    "publications",
    metadata,
    _release(),
    _text("sink"),
    _text("target"),
    _text("state"),
    _text("artefact_digest"),
    _text("at"),
    sa.PrimaryKeyConstraint("release", "sink"),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("release", sa.ForeignKey("releases.id"), nullable=False, index=True),
    _text("from_state", nullable=True),
    _text("to_state"),
    sa.Column("fence", sa.Integer, nullable=False),
    _text("failed_checks", nullable=True),  # JSON list of names
    _text("at"),
    _text("host"),
    sa.Column("pid", sa.Integer, nullable=False),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("release", sa.ForeignKey("releases.id"), nullable=False),
    _text("decision"),
    _text("reason"),
    _text("os_user"),
    _text("at"),
)

divisions = sa.Table(
    "divisions",
    metadata,
    sa.Column("population", sa.ForeignKey("accounts.population"), primary_key=True),
    _text("pools"),
)

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    _text("schedule"),  # its noise tables stand in noise_tables, by their digests
    _text("spec_digest"),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    _text("receipt", nullable=True),  # what a pool paid for it, where it came late
    sa.PrimaryKeyConstraint("population", "name"),
)

# One running sum for each period of units, or one for all: what a reservation looks at, whatever was before.
standings = sa.Table(
    "standings",
    metadata,
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    sa.Column("label", sa.String(16), nullable=False),
    _text("standing"),
    sa.PrimaryKeyConstraint("population", "label"),
)

# How the first release of an account of period units cut time.
partitions = sa.Table(
    "partitions",
    metadata,
    sa.Column("population", sa.ForeignKey("accounts.population"), primary_key=True),
    _text("period_column"),
    _text("timezone"),
)

windows = sa.Table(
    "windows",
    metadata,
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    sa.Column("every", sa.String(16), nullable=False),
    _text("epsilon"),
    _text("delta"),
    sa.PrimaryKeyConstraint("population", "every"),
)

account_changes = sa.Table(
    "account_changes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    _text("what"),
    _text("detail"),
    _text("reason"),
    _text("os_user"),
    _text("at"),
)

sources = sa.Table(
    "sources",
    metadata,
    sa.Column("path", sa.String(1000), primary_key=True),
    sa.Column("population", sa.ForeignKey("accounts.population"), nullable=False),
    _text("os_user"),
    _text("at"),
)

survey_accounts = sa.Table(
    "survey_accounts",
    metadata,
    sa.Column("population", sa.String(128), nullable=False),  # of no account of releases, or of one
    sa.Column("survey", sa.String(128), nullable=False),
    *map(_text, ("unit", "limit_epsilon")),
    sa.PrimaryKeyConstraint("population", "survey"),
)

survey_changes = sa.Table(
    "survey_changes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    *_survey(),
    _text("old_epsilon", nullable=True),
    *map(_text, ("new_epsilon", "reason", "os_user", "at")),
)

waves = sa.Table(
    "waves",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    *_survey(),
    sa.Column("name", sa.String(128), nullable=False),
    *map(_text, ("spec_digest", "domain_digest", "epsilon", "state")),
    sa.Column("fence", sa.Integer, nullable=False),  # how many times a batch was begun
    _text("reason"),
    _text("changed", nullable=True),  # why the domain is not that of the wave before
    _text("opened_at"),
    *(_text(name, nullable=True) for name in ("closed_at", "counts_digest", "counts_path")),
    *(_text(name, nullable=True) for name in ("estimates_digest", "estimates_path")),
    *(_text(name, nullable=True) for name in ("statement_digest", "statement_path")),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("population", "survey", "name"),
)

# Its rows are written as those of release_keys, for the same reason.
wave_keys = sa.Table(
    "wave_keys",
    metadata,
    sa.Column("wave", sa.Integer, sa.ForeignKey("waves.id"), primary_key=True, autoincrement=False),
    sa.Column("wrapped", sa.LargeBinary, nullable=False),
)

wave_batches = sa.Table(
    "wave_batches",
    metadata,
    _wave(),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("fence", sa.Integer, nullable=False),
    *map(_text, ("path", "digest")),
    sa.Column("reports", sa.BigInteger, nullable=False),
    _text("at"),
    sa.PrimaryKeyConstraint("wave", "number"),
)

wave_publications = sa.Table(
    "wave_publications",
    metadata,
    _wave(),
    *map(_text, ("sink", "target", "digest", "at")),
    sa.PrimaryKeyConstraint("wave", "sink"),
)

wave_events = sa.Table(
    "wave_events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("wave", sa.ForeignKey("waves.id"), nullable=False, index=True),
    _text("from_state", nullable=True),
    _text("to_state"),
    sa.Column("fence", sa.Integer, nullable=False),
    _text("failed_checks", nullable=True),  # JSON list of names
    *map(_text, ("at", "host")),
    sa.Column("pid", sa.Integer, nullable=False),
)

wave_decisions = sa.Table(
    "wave_decisions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _wave(),
    *map(_text, ("decision", "reason", "os_user", "at")),
)

links = sa.Table(
    "links",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    _text("touched"),  # JSON list of [table, primary key, digest of the row]
    _text("at"),
    _text("mac"),
)
