"""Which version of its source a release reads: decided when it is reserved."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0006", "0005"


def upgrade() -> None:
    """Add the column; earlier releases read sources that have no versions."""
    op.add_column("releases", sa.Column("source_version", sa.Text))
