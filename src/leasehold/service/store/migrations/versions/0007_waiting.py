"""Requests that wait where they would be refused, and those for whose consumers others vouch.

Until now nobody waited who could be refused, and nobody asked who vouches for a consumer.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_COLUMNS = (("leases", "waits"), ("leases", "is_foreign"), ("jobs", "is_foreign"))


def upgrade() -> None:
    """Make the columns."""
    for table, name in _COLUMNS:
        op.add_column(table, sa.Column(name, _WHOLE, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop them."""
    for table, name in reversed(_COLUMNS):
        op.drop_column(table, name)
