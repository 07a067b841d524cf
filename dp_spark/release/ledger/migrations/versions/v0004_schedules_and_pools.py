"""What an account sets aside, and one running sum of what of it is used."""

import sqlalchemy as sa
from alembic import op

from dp_spark.release.ledger.migrations.triggers import make_append_only

revision, down_revision = "0004", "0003"

# A process of an older dp_spark that opened the ledger before it was brought to 0004 would charge a release
# past all stored sums.
_GUARD = """
CREATE FUNCTION dp_spark_needs_receipt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'this dp_spark is older than the ledger';
END $$
"""
_RECEIPT = (
    "CREATE TRIGGER releases_need_receipt BEFORE INSERT ON releases FOR EACH ROW WHEN (NEW.receipt IS NULL) "
)
_IN_SQLITE = "BEGIN SELECT RAISE(ABORT, 'this dp_spark is older than the ledger'); END"


def _population(*, primary_key: bool = False) -> sa.Column[str]:
    account = sa.ForeignKey("accounts.population")
    return sa.Column("population", sa.String(128), account, primary_key=primary_key, nullable=False)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    """Make the tables. What earlier releases have spent is added up from their charges."""
    for name in ("receipt", "charged_at"):
        op.add_column("releases", sa.Column(name, sa.Text))
    op.create_table("divisions", _population(primary_key=True), *_texts("pools"))
    op.create_table(
        "schedules",
        _population(),
        sa.Column("name", sa.String(128), nullable=False),
        *_texts("schedule", "spec_digest"),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("receipt", sa.Text),
        sa.PrimaryKeyConstraint("population", "name"),
    )
    op.create_table(
        "standings",
        _population(),
        sa.Column("label", sa.String(16), nullable=False),
        *_texts("standing"),
        sa.PrimaryKeyConstraint("population", "label"),
    )
    op.create_table("partitions", _population(primary_key=True), *_texts("period_column", "timezone"))
    op.create_table(
        "windows",
        _population(),
        sa.Column("every", sa.String(16), nullable=False),
        *_texts("epsilon", "delta"),
        sa.PrimaryKeyConstraint("population", "every"),
    )
    op.create_table(
        "account_changes",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        _population(),
        *_texts("what", "detail", "reason", "os_user", "at"),
    )
    for table in ("account_changes", "partitions"):
        make_append_only(table)
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_RECEIPT + _IN_SQLITE)
    else:
        op.execute(_GUARD)
        op.execute(_RECEIPT + "EXECUTE FUNCTION dp_spark_needs_receipt()")
