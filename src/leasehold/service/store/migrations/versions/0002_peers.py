"""Peers: gateways that requests are exchanged with. A store without the table has none, and lacks nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "peers",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "url", "ask")),
        sa.Column("max_vms", _WHOLE),
        sa.Column("line", sa.Text(), nullable=False),
        sa.Column("added_ms", _WHOLE, nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="peers_key"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it; whoever was a peer has to be added again."""
    op.drop_table("peers")
