"""Sharing by agreement: agreements, penalties, usage, and what of it a lease carries.

A store without them has no agreements and has broken none. Its usage begins with what ends from now on; what
was used before can still be told from the journal. Its leases are bound to no domain and claim nothing.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OF_LEASES = {"domain": "", "claims": "{}", "breach": ""}
"""The new columns of leases, each with what the leases that there are have in it."""


def upgrade() -> None:
    """Make the tables and the columns."""
    for name, usual in _OF_LEASES.items():
        op.add_column("leases", sa.Column(name, sa.Text(), nullable=False, server_default=usual))
    _make_agreements()
    _make_penalties()
    _make_usage()


def downgrade() -> None:
    """Drop them; nobody is bound by any agreement then, and what was used is forgotten."""
    for table in ("usage", "penalties", "agreements"):
        op.drop_table(table)
    for name in reversed(_OF_LEASES):
        op.drop_column("leases", name)


def _make_agreements() -> None:
    op.create_table(
        "agreements",
        _text("name"),
        _whole("revision"),
        _text("document"),
        _whole("drawn_up_ms"),
        _text("drawn_up_by"),
        *(_text(name) for name in ("signatures", "amendment")),
        _whole("revisions"),
        _text("standing"),
        _whole("since_ms"),
        _text("since_by"),
        _whole("published"),
        _text("note"),
        sa.PrimaryKeyConstraint("name", name="agreements_key"),
        sqlite_strict=True,
    )


def _make_penalties() -> None:
    op.create_table(
        "penalties",
        _whole("id"),
        *(_text(name) for name in ("agreement", "provider", "consumer")),
        *(_whole(name) for name in ("points", "since_ms")),
        sa.Column("until_ms", _WHOLE),
        _whole("lease_id"),
        sa.Column("lifted_ms", _WHOLE),
        _text("lifted_by"),
        sa.PrimaryKeyConstraint("id", name="penalties_key"),
        _of_a_lease("penalties"),
        sqlite_strict=True,
    )


def _make_usage() -> None:
    op.create_table(
        "usage",
        *(_whole(name) for name in ("lease_id", "begin_ms", "end_ms")),
        *(_text(name) for name in ("consumer", "group_name", "path", "site", "domain")),
        *(_whole(name) for name in ("vms", "memory_mib")),
        _text("claims"),
        _whole("is_local"),
        sa.PrimaryKeyConstraint("lease_id", "begin_ms", name="usage_key"),
        _of_a_lease("usage"),
        sqlite_strict=True,
    )
    op.create_index("usage_end_ms", "usage", ["end_ms"])


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, _WHOLE, nullable=False, autoincrement=False)


def _of_a_lease(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["lease_id"],
        ["leases.id"],
        name=f"{table}_lease_id_known",
        deferrable=True,
        initially="DEFERRED",
    )
