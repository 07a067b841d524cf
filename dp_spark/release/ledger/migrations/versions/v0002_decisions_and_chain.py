"""Decisions on releases, reasons of revisions, and the chain over all rows."""

import sqlalchemy as sa
from alembic import op

from dp_spark.release.ledger.migrations.triggers import make_append_only

revision, down_revision = "0002", "0001"

# A runner may write the state of a release, so the database itself asks for the decision, which it may not.
_UNDECIDED = """
CREATE FUNCTION dp_spark_needs_decision() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM decisions WHERE release = NEW.id AND decision = NEW.state) THEN
    RAISE EXCEPTION 'nobody decided that' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN NEW;
END $$
"""
_ASKED = """
CREATE TRIGGER releases_need_decision BEFORE INSERT OR UPDATE OF state ON releases FOR EACH ROW
WHEN (NEW.state IN ('aborted', 'abandoned', 'burned')) EXECUTE FUNCTION dp_spark_needs_decision()
"""


def upgrade() -> None:
    """Make the tables."""
    op.add_column("releases", sa.Column("revision_reason", sa.Text))
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("release", sa.Integer, sa.ForeignKey("releases.id"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("decision", "reason", "os_user", "at")),
    )
    op.create_table(
        "links",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("touched", "at", "mac")),
    )
    for table in ("decisions", "links"):
        make_append_only(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_UNDECIDED)
        op.execute(_ASKED)
