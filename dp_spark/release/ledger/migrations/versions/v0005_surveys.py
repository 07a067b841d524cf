"""Surveys: accounts of their own, waves with their charges, keys, batches and steps."""

import sqlalchemy as sa
from alembic import op

from dp_spark.release.ledger.migrations.triggers import make_append_only

revision, down_revision = "0005", "0004"


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def _number() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, sa.Identity(), primary_key=True)


def _survey() -> tuple[sa.Column[str], sa.Column[str], sa.ForeignKeyConstraint]:
    account = ["survey_accounts.population", "survey_accounts.survey"]
    return (
        sa.Column("population", sa.String(128), nullable=False),
        sa.Column("survey", sa.String(128), nullable=False),
        sa.ForeignKeyConstraint(["population", "survey"], account),
    )


def _wave() -> sa.Column[int]:
    return sa.Column("wave", sa.Integer, sa.ForeignKey("waves.id"), nullable=False)


def upgrade() -> None:
    """Make the tables."""
    _accounts()
    _waves()
    _parts_of_waves()
    for table in ("survey_changes", "wave_batches", "wave_events", "wave_decisions"):
        make_append_only(table)


def _accounts() -> None:
    op.create_table(
        "survey_accounts",
        sa.Column("population", sa.String(128), nullable=False),
        sa.Column("survey", sa.String(128), nullable=False),
        *_texts("unit", "limit_epsilon"),
        sa.PrimaryKeyConstraint("population", "survey"),
    )
    op.create_table(
        "survey_changes",
        _number(),
        *_survey(),
        *_texts("old_epsilon", nullable=True),
        *_texts("new_epsilon", "reason", "os_user", "at"),
    )


def _waves() -> None:
    op.create_table(
        "waves",
        _number(),
        *_survey(),
        sa.Column("name", sa.String(128), nullable=False),
        *_texts("spec_digest", "domain_digest", "epsilon", "state"),
        sa.Column("fence", sa.Integer, nullable=False),
        *_texts("reason"),
        *_texts("changed", nullable=True),
        *_texts("opened_at"),
        *_texts("closed_at", "counts_digest", "counts_path", nullable=True),
        *_texts("estimates_digest", "estimates_path", nullable=True),
        *_texts("statement_digest", "statement_path", nullable=True),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("population", "survey", "name"),
    )


def _parts_of_waves() -> None:
    op.create_table(
        "wave_keys",
        sa.Column("wave", sa.Integer, sa.ForeignKey("waves.id"), primary_key=True, autoincrement=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "wave_batches",
        _wave(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        *_texts("path", "digest"),
        sa.Column("reports", sa.BigInteger, nullable=False),
        *_texts("at"),
        sa.PrimaryKeyConstraint("wave", "number"),
    )
    op.create_table(
        "wave_publications",
        _wave(),
        *_texts("sink", "target", "digest", "at"),
        sa.PrimaryKeyConstraint("wave", "sink"),
    )
    op.create_table(
        "wave_events",
        _number(),
        _wave(),
        *_texts("from_state", nullable=True),
        *_texts("to_state"),
        sa.Column("fence", sa.Integer, nullable=False),
        *_texts("failed_checks", nullable=True),
        *_texts("at", "host"),
        sa.Column("pid", sa.Integer, nullable=False),
    )
    op.create_index("ix_wave_events_wave", "wave_events", ["wave"])
    op.create_table("wave_decisions", _number(), _wave(), *_texts("decision", "reason", "os_user", "at"))
