"""Joint requests: what they are, where they stand, and to which of them a lease belongs.

A store without them has none, and its leases belong to none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OF_A_JOINT = sa.text("joint_id IS NOT NULL")


def upgrade() -> None:
    """Make the table, and the column of leases."""
    op.create_table(
        "joints",
        sa.Column("id", _WHOLE, nullable=False, autoincrement=False),
        *(_text(name) for name in ("name", "consumer", "group_name", "claim", "place", "state", "reason")),
        *(_whole(name) for name in ("submit_ms", "ready_ms")),
        sa.Column("deadline_ms", _WHOLE),
        *(_whole(name) for name in ("start_ms", "idle_vm_ms", "first_lease_id", "last_lease_id")),
        sa.Column("end_ms", _WHOLE),
        _text("document"),
        sa.PrimaryKeyConstraint("id", name="joints_key"),
        sqlite_strict=True,
    )
    op.add_column("leases", sa.Column("joint_id", _WHOLE))
    op.create_index(
        "leases_joint", "leases", ["joint_id"], sqlite_where=_OF_A_JOINT, postgresql_where=_OF_A_JOINT
    )


def downgrade() -> None:
    """Drop them; the leases of joint requests go on as any others."""
    op.drop_index("leases_joint", "leases")
    op.drop_column("leases", "joint_id")
    op.drop_table("joints")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, _WHOLE, nullable=False)
