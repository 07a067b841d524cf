"""Accounts with their limits, releases with their charges, keys, plans and steps."""

import sqlalchemy as sa
from alembic import op

from dp_spark.release.ledger.migrations.triggers import make_append_only

revision, down_revision = "0001", None


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _number() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, sa.Identity(), primary_key=True)


def _release() -> sa.Column[int]:
    return sa.Column("release", sa.Integer, sa.ForeignKey("releases.id"), nullable=False)


def upgrade() -> None:
    """Make the tables."""
    _accounts()
    _releases()
    _parts_of_releases()
    for table in ("budget_changes", "events"):
        make_append_only(table)


def _accounts() -> None:
    op.create_table(
        "ledger_meta",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        _text("created_at"),
        sa.Column("master_key_check", sa.LargeBinary),
    )
    op.create_table(
        "accounts",
        sa.Column("population", sa.String(128), primary_key=True),
        *map(_text, ("unit", "neighbours", "limit_epsilon", "limit_delta")),
    )
    op.create_table(
        "budget_changes",
        _number(),
        sa.Column("population", sa.String(128), sa.ForeignKey("accounts.population"), nullable=False),
        _text("old_epsilon", nullable=True),
        _text("old_delta", nullable=True),
        *map(_text, ("new_epsilon", "new_delta", "reason", "os_user", "at")),
    )


def _releases() -> None:
    op.create_table(
        "releases",
        _number(),
        sa.Column("population", sa.String(128), sa.ForeignKey("accounts.population"), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("period_key", sa.String(128), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        *map(_text, ("spec_digest", "state")),
        sa.Column("fence", sa.Integer, nullable=False),
        *map(_text, ("charge_epsilon", "charge_delta")),
        _text("artefact_digest", nullable=True),
        _text("artefact_path", nullable=True),
        sa.Column("artefact_fence", sa.Integer),
        _text("statement_digest", nullable=True),
        _text("statement_path", nullable=True),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("population", "name", "period_key", "revision"),
    )


def _parts_of_releases() -> None:
    op.create_table(
        "release_keys",
        sa.Column("release", sa.Integer, sa.ForeignKey("releases.id"), primary_key=True, autoincrement=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "noise_tables",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "release_tables",
        _release(),
        _text("name"),
        sa.Column("digest", sa.String(64), sa.ForeignKey("noise_tables.digest"), nullable=False),
        sa.PrimaryKeyConstraint("release", "name"),
    )
    op.create_table(
        "publications",
        _release(),
        *map(_text, ("sink", "target", "state", "artefact_digest", "at")),
        sa.PrimaryKeyConstraint("release", "sink"),
    )
    op.create_table(
        "events",
        _number(),
        _release(),
        _text("from_state", nullable=True),
        _text("to_state"),
        sa.Column("fence", sa.Integer, nullable=False),
        _text("failed_checks", nullable=True),
        *map(_text, ("at", "host")),
        sa.Column("pid", sa.Integer, nullable=False),
    )
    op.create_index("ix_events_release", "events", ["release"])
