"""How long each node was watched, and how often it failed, stands with the node: no longer in one text."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NUMBER: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
_KEPT = "job-nodes"


def upgrade() -> None:
    """Make the columns, and fill them from the text."""
    op.add_column("nodes", sa.Column("charged", _NUMBER, nullable=False, server_default="0"))
    op.add_column("nodes", sa.Column("watched_ms", _WHOLE, nullable=False, server_default="0"))
    op.add_column("nodes", sa.Column("well_ms", _WHOLE, nullable=False, server_default="-1"))
    store = op.get_bind()
    kept = store.execute(sa.text("SELECT text FROM memories WHERE name = :name"), {"name": _KEPT}).scalar()
    rows = [
        {"name": name, "charged": one["failures"], "watched_ms": one["watched_ms"], "well_ms": one["well_ms"]}
        for name, one in json.loads(kept or "{}").items()
    ]
    fill = (
        "UPDATE nodes SET charged = :charged, watched_ms = :watched_ms, well_ms = :well_ms WHERE name = :name"
    )
    if rows:
        store.execute(sa.text(fill), rows)
    store.execute(sa.text("DELETE FROM memories WHERE name = :name"), {"name": _KEPT})


def downgrade() -> None:
    """Write the text again, and drop the columns."""
    store = op.get_bind()
    rows = store.execute(sa.text("SELECT name, charged, watched_ms, well_ms FROM nodes ORDER BY name"))
    kept = {
        name: {"failures": charged, "watched_ms": watched_ms, "well_ms": well_ms}
        for name, charged, watched_ms, well_ms in rows
    }
    store.execute(
        sa.text("INSERT INTO memories (name, text) VALUES (:name, :text)"),
        {"name": _KEPT, "text": json.dumps(kept)},
    )
    for column in ("well_ms", "watched_ms", "charged"):
        op.drop_column("nodes", column)
