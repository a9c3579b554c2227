"""Own jobs: leases that stand for jobs of a site's own scheduler. Until now there are none."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the column."""
    op.add_column("leases", sa.Column("own_job", sa.Text()))


def downgrade() -> None:
    """Drop it; what stood for own jobs goes on as leases of the site's own users."""
    op.drop_column("leases", "own_job")
