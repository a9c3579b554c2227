"""The tables of the store: what is kept of each thing, under the names of `leasehold.service.store.rows`.

All times are Unix milliseconds. Whoever changes a table here writes the migration that makes it so
(``migrations/versions``); a test compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.schema import SchemaItem

from leasehold.model.lease import LeaseState

# 64 bits on both; SQLite keys its rows by an INTEGER, and by nothing else.
WHOLE = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_key",
        "fk": "%(table_name)s_%(column_0_name)s_known",
        "uq": "%(table_name)s_%(column_0_name)s_once",
        "ix": "%(table_name)s_%(column_0_name)s",
    }
)


def _table(name: str, *items: SchemaItem) -> Table:
    """A table in which SQLite is as strict about types as PostgreSQL."""
    return Table(name, metadata, *items, sqlite_strict=True)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _text_key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _whole(name: str) -> Column[int]:
    return Column(name, WHOLE, nullable=False)


def _whole_key(name: str) -> Column[int]:
    return Column(name, WHOLE, primary_key=True, autoincrement=False)


def _of_a_lease(*, nullable: bool, primary_key: bool = False) -> Column[int]:
    """The lease that a row belongs to; it may be written later within the same transaction."""
    known = ForeignKey("leases.id", deferrable=True, initially="DEFERRED")
    return Column("lease_id", WHOLE, known, nullable=nullable, primary_key=primary_key, autoincrement=False)


_FINAL = ", ".join(f"'{state}'" for state in LeaseState if state.is_final)

# Said to the database word for word as its indexes have it: that is how SQLite knows that it may use them.
LIVE = text(f"state NOT IN ({_FINAL})")
CLOSED = text(f"state IN ({_FINAL})")
OPEN = text("status IN ('pending', 'taken')")
SETTLED = text("status IN ('confirmed', 'dropped')")
OF_A_JOINT = text("joint_id IS NOT NULL")

leases = _table(
    "leases",
    _whole_key("id"),
    _text("name"),
    _text("consumer"),
    _text("group_name"),
    _text("lease_type"),
    _whole("vms"),
    _whole("duration_ms"),
    _whole("memory_mib"),
    _whole("submit_ms"),
    _whole("ready_ms"),
    Column("deadline_ms", WHOLE),
    Column("home", Text),
    _text("command"),
    _text("origin"),
    _whole("origin_id"),
    _text("state"),
    _text("reason"),
    _text("site"),
    _whole("planning_order"),
    _whole("place"),
    _whole("work_left"),
    _whole("span_ms"),
    _whole("earliest_ms"),
    Column("latest_ms", WHOLE),
    _whole("reserved_ms"),
    _whole("held_since_ms"),
    _whole("overhead_ms"),
    _whole("first_start_ms"),
    _whole("incarnation"),
    _whole("preemptions"),
    _whole("migrations"),
    _whole("overhead_vm_ms"),
    _whole("dispatched_ms"),
    Column("end_ms", WHOLE),
    Column("own_job", Text),
    Column("domain", Text, nullable=False, server_default=""),
    Column("claims", Text, nullable=False, server_default="{}"),
    Column("breach", Text, nullable=False, server_default=""),
    Column("joint_id", WHOLE),
)
leases_live = Index(
    "leases_live", leases.c.id, leases.c.site, leases.c.state, sqlite_where=LIVE, postgresql_where=LIVE
)
leases_consumer = Index("leases_consumer", leases.c.consumer, leases.c.id)
leases_joint = Index("leases_joint", leases.c.joint_id, sqlite_where=OF_A_JOINT, postgresql_where=OF_A_JOINT)

# Components are leases; what ties them together, and what `leasehold.model.joint` keeps of it, is here.
joints = _table(
    "joints",
    _whole_key("id"),
    *(_text(name) for name in ("name", "consumer", "group_name", "claim", "place", "state", "reason")),
    *(_whole(name) for name in ("submit_ms", "ready_ms")),
    Column("deadline_ms", WHOLE),
    *(_whole(name) for name in ("start_ms", "idle_vm_ms", "first_lease_id", "last_lease_id")),
    Column("end_ms", WHOLE),
    _text("document"),
)

journal = _table(
    "journal",
    _whole_key("seq"),
    _whole("at_ms"),
    _of_a_lease(nullable=True),
    _text("consumer"),
    _text("group_name"),
    _text("site"),
    _text("what"),
    _text("state"),
    _text("reason"),
    _text("rule"),
    _text("detail"),
)
journal_lease = Index("journal_lease", journal.c.lease_id, journal.c.seq)

orders = _table(
    "orders",
    Column("number", WHOLE, Identity(), primary_key=True),  # the order of creation, kept to ourselves
    Column("id", Text, nullable=False, unique=True),
    _text("site"),
    _of_a_lease(nullable=False),
    _whole("incarnation"),
    _text("verb"),
    _text("body"),
    _text("status"),
    _whole("attempts"),
    _whole("next_try_ms"),
    _text("problem"),
    _whole("created_ms"),
)
orders_open = Index("orders_open", orders.c.number, sqlite_where=OPEN, postgresql_where=OPEN)

answers = _table(
    "answers",
    _text_key("consumer"),
    _text_key("key"),
    _text("request_hash"),
    _of_a_lease(nullable=False),
    Column("created_ms", WHOLE, nullable=False, index=True),
)

memories = _table("memories", _text_key("name"), _text("text"))

sites = _table("sites", _text_key("name"), Column("drained_ms", WHOLE), _text("drained_by"), _text("note"))

# Gateways that requests are exchanged with; their tokens are in files of their own.
peers = _table(
    "peers",
    _text_key("name"),
    _text("url"),
    _text("ask"),
    Column("max_vms", WHOLE),
    _text("line"),
    _whole("added_ms"),
    _text("added_by"),
)

# Who agreed with whom on what, and where that is in its life; `leasehold.sharing.life.Record`.
agreements = _table(
    "agreements",
    _text_key("name"),
    _whole("revision"),
    _text("document"),
    _whole("drawn_up_ms"),
    _text("drawn_up_by"),
    _text("signatures"),
    _text("amendment"),
    _whole("revisions"),
    _text("standing"),
    _whole("since_ms"),
    _text("since_by"),
    _whole("published"),
    _text("note"),
)

penalties = _table(
    "penalties",
    _whole_key("id"),
    _text("agreement"),
    _text("provider"),
    _text("consumer"),
    _whole("points"),
    _whole("since_ms"),
    Column("until_ms", WHOLE),
    _of_a_lease(nullable=False),
    Column("lifted_ms", WHOLE),
    _text("lifted_by"),
)

# A row for each time that a lease held machines, once that is over: all use is summed from it.
usage = _table(
    "usage",
    _of_a_lease(nullable=False, primary_key=True),
    _whole_key("begin_ms"),
    Column("end_ms", WHOLE, nullable=False, index=True),
    _text("consumer"),
    _text("group_name"),
    _text("path"),
    _text("site"),
    _text("domain"),
    _whole("vms"),
    _whole("memory_mib"),
    _text("claims"),
    _whole("is_local"),
)

letters = _table(
    "letters", _text_key("correspondent"), _whole_key("seq"), _text("body"), _whole("created_ms")
)

# How far the exchange with each correspondent is; it outlives the letters, which go when acknowledged.
mail = _table("mail", _text_key("correspondent"), _whole("last_sent_seq"), _whole("last_received_seq"))

tokens = _table(
    "tokens",
    _text_key("id"),
    Column("hash", Text, nullable=False, unique=True),
    _text("consumer"),
    _text("roles"),
    _text("groups"),
    _text("sites"),
    _text("note"),
    _whole("created_ms"),
    Column("expires_ms", WHOLE),
    Column("revoked_ms", WHOLE),
)
