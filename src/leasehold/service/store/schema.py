"""The tables of the store: what is kept of each thing, under the names of `leasehold.service.store.rows`.

All times are Unix milliseconds. Whoever changes a table here writes the migration that makes it so
(``migrations/versions``); a test compares the two.
"""

from sqlalchemy import Column, Identity, Index, Text
from sqlalchemy import text as sql

from leasehold.model.lease import LeaseState
from leasehold.service.store.columns import (
    METADATA,
    WHOLE,
    of_a_lease,
    table,
    text,
    text_key,
    whole,
    whole_key,
)
from leasehold.service.store.job_schema import OF_A_JOB

metadata = METADATA

_FINAL = ", ".join(f"'{state}'" for state in LeaseState if state.is_final)

# Said to the database word for word as its indexes have it: that is how SQLite knows that it may use them.
LIVE = sql(f"state NOT IN ({_FINAL})")
CLOSED = sql(f"state IN ({_FINAL})")
OPEN = sql("status IN ('pending', 'taken')")
SETTLED = sql("status IN ('confirmed', 'dropped')")
OF_A_JOINT = sql("joint_id IS NOT NULL")

leases = table(
    "leases",
    whole_key("id"),
    text("name"),
    text("consumer"),
    text("group_name"),
    text("lease_type"),
    whole("vms"),
    whole("duration_ms"),
    whole("memory_mib"),
    whole("submit_ms"),
    whole("ready_ms"),
    Column("deadline_ms", WHOLE),
    Column("home", Text),
    text("command"),
    text("origin"),
    whole("origin_id"),
    text("state"),
    text("reason"),
    text("site"),
    whole("planning_order"),
    whole("place"),
    whole("work_left"),
    whole("span_ms"),
    whole("earliest_ms"),
    Column("latest_ms", WHOLE),
    whole("reserved_ms"),
    whole("held_since_ms"),
    whole("overhead_ms"),
    whole("first_start_ms"),
    whole("incarnation"),
    whole("preemptions"),
    whole("migrations"),
    whole("overhead_vm_ms"),
    whole("dispatched_ms"),
    Column("end_ms", WHOLE),
    Column("own_job", Text),
    Column("domain", Text, nullable=False, server_default=""),
    Column("claims", Text, nullable=False, server_default="{}"),
    Column("breach", Text, nullable=False, server_default=""),
    Column("joint_id", WHOLE),
    Column("job_id", WHOLE),
    Column("wishes", Text, nullable=False, server_default=""),
    Column("waits", WHOLE, nullable=False, server_default="0"),
    Column("is_foreign", WHOLE, nullable=False, server_default="0"),
)
leases_live = Index(
    "leases_live", leases.c.id, leases.c.site, leases.c.state, sqlite_where=LIVE, postgresql_where=LIVE
)
leases_consumer = Index("leases_consumer", leases.c.consumer, leases.c.id)
leases_joint = Index("leases_joint", leases.c.joint_id, sqlite_where=OF_A_JOINT, postgresql_where=OF_A_JOINT)

# Components are leases; what ties them together, and what `leasehold.model.joint` keeps of it, is here.
joints = table(
    "joints",
    whole_key("id"),
    *(text(name) for name in ("name", "consumer", "group_name", "claim", "place", "state", "reason")),
    *(whole(name) for name in ("submit_ms", "ready_ms")),
    Column("deadline_ms", WHOLE),
    *(whole(name) for name in ("start_ms", "idle_vm_ms", "first_lease_id", "last_lease_id")),
    Column("end_ms", WHOLE),
    text("document"),
)

journal = table(
    "journal",
    whole_key("seq"),
    whole("at_ms"),
    of_a_lease(nullable=True),
    text("consumer"),
    text("group_name"),
    text("site"),
    text("what"),
    text("state"),
    text("reason"),
    text("rule"),
    text("detail"),
    Column("job_id", WHOLE),
)
journal_lease = Index("journal_lease", journal.c.lease_id, journal.c.seq)
journal_job = Index(
    "journal_job", journal.c.job_id, journal.c.seq, sqlite_where=OF_A_JOB, postgresql_where=OF_A_JOB
)

orders = table(
    "orders",
    Column("number", WHOLE, Identity(), primary_key=True),  # the order of creation, kept to ourselves
    Column("id", Text, nullable=False, unique=True),
    text("site"),
    of_a_lease(nullable=False),
    whole("incarnation"),
    text("verb"),
    text("body"),
    text("status"),
    whole("attempts"),
    whole("next_try_ms"),
    text("problem"),
    whole("created_ms"),
)
orders_open = Index("orders_open", orders.c.number, sqlite_where=OPEN, postgresql_where=OPEN)

answers = table(
    "answers",
    text_key("consumer"),
    text_key("key"),
    text("request_hash"),
    of_a_lease(nullable=False),
    Column("created_ms", WHOLE, nullable=False, index=True),
)

memories = table("memories", text_key("name"), text("text"))

sites = table("sites", text_key("name"), Column("drained_ms", WHOLE), text("drained_by"), text("note"))

# Gateways that requests are exchanged with; their tokens are in files of their own.
peers = table(
    "peers",
    text_key("name"),
    text("url"),
    text("ask"),
    Column("max_vms", WHOLE),
    text("line"),
    whole("added_ms"),
    text("added_by"),
)

# Who agreed with whom on what, and where that is in its life; `leasehold.sharing.life.Record`.
agreements = table(
    "agreements",
    text_key("name"),
    whole("revision"),
    text("document"),
    whole("drawn_up_ms"),
    text("drawn_up_by"),
    text("signatures"),
    text("amendment"),
    whole("revisions"),
    text("standing"),
    whole("since_ms"),
    text("since_by"),
    whole("published"),
    text("note"),
    text("held"),
)

penalties = table(
    "penalties",
    whole_key("id"),
    text("agreement"),
    text("provider"),
    text("consumer"),
    whole("points"),
    whole("since_ms"),
    Column("until_ms", WHOLE),
    whole("lease_id"),  # which may have been let go of
    Column("lifted_ms", WHOLE),
    text("lifted_by"),
)

# A row for each time that a lease held machines, once that is over: all use is summed from it. It outlives
# the lease, so that statements and the windows of agreements stay right.
usage = table(
    "usage",
    whole_key("lease_id"),
    whole_key("begin_ms"),
    Column("end_ms", WHOLE, nullable=False, index=True),
    text("consumer"),
    text("group_name"),
    text("path"),
    text("site"),
    text("domain"),
    whole("vms"),
    whole("memory_mib"),
    text("claims"),
    whole("is_local"),
)

letters = table("letters", text_key("correspondent"), whole_key("seq"), text("body"), whole("created_ms"))

# How far the exchange with each correspondent is; it outlives the letters, which go when acknowledged.
mail = table("mail", text_key("correspondent"), whole("last_sent_seq"), whole("last_received_seq"))

tokens = table(
    "tokens",
    text_key("id"),
    Column("hash", Text, nullable=False, unique=True),
    text("consumer"),
    text("roles"),
    text("groups"),
    text("sites"),
    text("note"),
    whole("created_ms"),
    Column("expires_ms", WHOLE),
    Column("revoked_ms", WHOLE),
)
