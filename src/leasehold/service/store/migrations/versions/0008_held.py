"""Agreements say when they held, and on which terms: statements are by time in force.

Of agreements that were signed before, nobody knows when they held.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the column."""
    op.add_column("agreements", sa.Column("held", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("agreements", "held")
