"""Outputs say whose they are and how large, so that there can be a quota of them."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the columns, and fill them in for what is there."""
    op.add_column("outputs", sa.Column("consumer", sa.Text(), nullable=False, server_default=""))
    size = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("outputs", sa.Column("size_bytes", size, nullable=False, server_default="0"))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    length = "length(CAST(text AS BLOB))" if is_sqlite else "octet_length(text)"
    whose = "(SELECT consumer FROM jobs WHERE jobs.id = outputs.job_id)"
    op.execute(f"UPDATE outputs SET size_bytes = {length}, consumer = {whose}")  # noqa: S608 - constants
    op.create_index("outputs_consumer", "outputs", ["consumer", "fetched_ms", "job_id", "size_bytes"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("outputs_consumer", "outputs")
    op.drop_column("outputs", "size_bytes")
    op.drop_column("outputs", "consumer")
