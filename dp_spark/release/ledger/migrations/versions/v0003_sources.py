"""Which input belongs to which population."""

import sqlalchemy as sa
from alembic import op

from dp_spark.release.ledger.migrations.triggers import make_append_only

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Make the registry, and let each release say what it reads."""
    op.add_column("releases", sa.Column("source", sa.Text))
    op.create_table(
        "sources",
        sa.Column("path", sa.String(1000), primary_key=True),
        sa.Column("population", sa.String(128), sa.ForeignKey("accounts.population"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("os_user", "at")),
    )
    make_append_only("sources")
