"""Usage and punishments outlive the leases that they are of, which are let go of after a while."""

from alembic import op

revision = "0009"
down_revision = "0008"

_TABLES = ("usage", "penalties")


def upgrade() -> None:
    """Let go of what ties them to leases."""
    for table in _TABLES:
        with op.batch_alter_table(table, table_kwargs={"sqlite_strict": True}) as batch:
            batch.drop_constraint(f"{table}_lease_id_known", type_="foreignkey")


def downgrade() -> None:
    """Tie them again; raises where leases have gone meanwhile."""
    for table in _TABLES:
        with op.batch_alter_table(table, table_kwargs={"sqlite_strict": True}) as batch:
            batch.create_foreign_key(
                f"{table}_lease_id_known",
                "leases",
                ["lease_id"],
                ["id"],
                deferrable=True,
                initially="DEFERRED",
            )
