"""The first schema: leases, journal, orders, answers, memories, sites, letters and tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LIVE = sa.text("state NOT IN ('completed', 'killed', 'terminated', 'failed', 'refused', 'cancelled')")
_OPEN = sa.text("status IN ('pending', 'taken')")


def upgrade() -> None:
    """Make all tables."""
    _make_leases()
    _make_journal()
    _make_orders()
    _make_answers()
    _make_letters()
    _make_tokens()
    _make("memories", *_texts("name", "text"), _key("memories", "name"))
    _make(
        "sites",
        *_texts("name"),
        _may_lack("drained_ms"),
        *_texts("drained_by", "note"),
        _key("sites", "name"),
    )


def downgrade() -> None:
    """Drop all tables, those that name leases first."""
    for table in ("journal", "orders", "answers", "letters", "mail", "tokens", "memories", "sites", "leases"):
        op.drop_table(table)


def _make_leases() -> None:
    _make(
        "leases",
        *_wholes("id"),
        *_texts("name", "consumer", "group_name", "lease_type"),
        *_wholes("vms", "duration_ms", "memory_mib", "submit_ms", "ready_ms"),
        _may_lack("deadline_ms"),
        sa.Column("home", sa.Text()),
        *_texts("command", "origin"),
        *_wholes("origin_id"),
        *_texts("state", "reason", "site"),
        *_wholes("planning_order", "place", "work_left", "span_ms", "earliest_ms"),
        _may_lack("latest_ms"),
        *_wholes("reserved_ms", "held_since_ms", "overhead_ms", "first_start_ms", "incarnation"),
        *_wholes("preemptions", "migrations", "overhead_vm_ms", "dispatched_ms"),
        _may_lack("end_ms"),
        _key("leases", "id"),
    )
    op.create_index(
        "leases_live", "leases", ["id", "site", "state"], sqlite_where=_LIVE, postgresql_where=_LIVE
    )
    op.create_index("leases_consumer", "leases", ["consumer", "id"])


def _make_journal() -> None:
    _make(
        "journal",
        *_wholes("seq", "at_ms"),
        _may_lack("lease_id"),
        *_texts("consumer", "group_name", "site", "what", "state", "reason", "rule", "detail"),
        _key("journal", "seq"),
        _of_a_lease("journal"),
    )
    op.create_index("journal_lease", "journal", ["lease_id", "seq"])


def _make_orders() -> None:
    _make(
        "orders",
        sa.Column("number", _WHOLE, sa.Identity(), nullable=False),
        *_texts("id", "site"),
        *_wholes("lease_id", "incarnation"),
        *_texts("verb", "body", "status"),
        *_wholes("attempts", "next_try_ms"),
        *_texts("problem"),
        *_wholes("created_ms"),
        _key("orders", "number"),
        sa.UniqueConstraint("id", name=op.f("orders_id_once")),
        _of_a_lease("orders"),
    )
    op.create_index("orders_open", "orders", ["number"], sqlite_where=_OPEN, postgresql_where=_OPEN)


def _make_answers() -> None:
    _make(
        "answers",
        *_texts("consumer", "key", "request_hash"),
        *_wholes("lease_id", "created_ms"),
        _key("answers", "consumer", "key"),
        _of_a_lease("answers"),
    )
    op.create_index("answers_created_ms", "answers", ["created_ms"])


def _make_letters() -> None:
    _make(
        "letters",
        *_texts("correspondent"),
        *_wholes("seq"),
        *_texts("body"),
        *_wholes("created_ms"),
        _key("letters", "correspondent", "seq"),
    )
    _make(
        "mail",
        *_texts("correspondent"),
        *_wholes("last_sent_seq", "last_received_seq"),
        _key("mail", "correspondent"),
    )


def _make_tokens() -> None:
    _make(
        "tokens",
        *_texts("id", "hash", "consumer", "roles", "groups", "sites", "note"),
        *_wholes("created_ms"),
        _may_lack("expires_ms"),
        _may_lack("revoked_ms"),
        _key("tokens", "id"),
        sa.UniqueConstraint("hash", name=op.f("tokens_hash_once")),
    )


def _make(table: str, *items: sa.schema.SchemaItem) -> None:
    op.create_table(table, *items, sqlite_strict=True)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _wholes(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, _WHOLE, autoincrement=False, nullable=False) for name in names]


def _may_lack(name: str) -> sa.Column[int]:
    return sa.Column(name, _WHOLE)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"{table}_key"))


def _of_a_lease(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"{table}_lease_id_known")
    return sa.ForeignKeyConstraint(
        ["lease_id"], ["leases.id"], name=name, deferrable=True, initially="DEFERRED"
    )
