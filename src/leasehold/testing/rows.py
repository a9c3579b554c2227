"""Rows of the store for tests: one of each kind, with the fields that matter to the test overridden."""

from dataclasses import fields, replace
from typing import Any

from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import DEFAULT_MEMORY_MIB, LeaseType, Request
from leasehold.service.commands import Submit
from leasehold.service.drivers.protocol import Order, Verb, order_id
from leasehold.service.store.rows import (
    IdempotencyRow,
    JournalRow,
    LeaseMetadata,
    LeaseRow,
    MessageRow,
    OrderRow,
    TokenRow,
    UsageRow,
)

BEGIN_MS = 1_800_000_000_000
"""15 January 2027, 08:00 UTC: an hour in which nothing special happens."""

_HOUR_MS = 3_600_000


def lease_row(lease_id: int, **values: Any) -> LeaseRow:  # noqa: ANN401 - any field of its parts
    """A Suspendable lease of `physics` over 2 VMs and an hour, waiting at site `a`."""
    at_ms = BEGIN_MS + lease_id
    vms, home = values.pop("vms", 2), values.pop("home", None)
    request = Request(lease_id, LeaseType.SUSPENDABLE, vms, _HOUR_MS, at_ms, at_ms, site=home, consumer="physics")
    lease = Lease(lease_id, request, vms, lease_id, _HOUR_MS, "a", LeaseState.WAITING, _HOUR_MS, at_ms)
    row = LeaseRow(lease, LeaseMetadata())
    for name, value in values.items():
        part = next(part for part in (row.metadata, lease, request) if hasattr(part, name))
        setattr(part, name, LeaseState(value) if name == "state" else value)
    return row


def journal_row(seq: int, lease_id: int | None = None, **values: Any) -> JournalRow:  # noqa: ANN401 - any column
    """A line that says that a lease of `physics` was submitted."""
    row = JournalRow(
        seq=seq,
        at_ms=BEGIN_MS + seq,
        lease_id=lease_id,
        consumer="physics",
        group="",
        site="a",
        what="submitted",
        state=LeaseState.SUBMITTED.value,
        reason="",
        rule="",
        detail="{}",
        job_id=None,
    )
    return replace(row, **values)


def order_row(lease_id: int, incarnation: int = 1, verb: Verb = Verb.START, **values: Any) -> OrderRow:  # noqa: ANN401 - any column
    """A pending order to start a lease at site `a`."""
    order = Order(order_id(lease_id, incarnation, verb), verb, lease_id, incarnation, 2, DEFAULT_MEMORY_MIB)
    row = OrderRow(order, "a", "pending", 0, 0, "", BEGIN_MS)
    return replace(row, **values)


def key_row(key: str, lease_id: int, **values: Any) -> IdempotencyRow:  # noqa: ANN401 - any column
    """The lease that `physics` got under this Idempotency-Key."""
    return replace(IdempotencyRow("physics", key, False, "", lease_id, None, BEGIN_MS), **values)  # noqa: FBT003


def message_row(seq: int, endpoint: str = "a", **values: Any) -> MessageRow:  # noqa: ANN401 - any column
    """A message to an endpoint."""
    row = MessageRow(
        endpoint=endpoint,
        seq=seq,
        body="{}",
        created_ms=BEGIN_MS,
    )
    return replace(row, **values)


def token_row(token_id: str, **values: Any) -> TokenRow:  # noqa: ANN401 - any column
    """A member's token of `physics` that never expires."""
    row = TokenRow(
        id=token_id,
        hash=f"hash of {token_id}",
        consumer="physics",
        roles="member",
        groups="",
        sites="",
        note="",
        created_ms=BEGIN_MS,
        expires_ms=None,
        revoked_ms=None,
    )
    return replace(row, **values)


def usage_row(lease_id: int, begin_ms: int, end_ms: int, **values: Any) -> UsageRow:  # noqa: ANN401 - any column
    """A time in which a lease of `atlas/physics` held 2 VMs at site `a`."""
    row = UsageRow(
        lease_id=lease_id,
        begin_ms=begin_ms,
        end_ms=end_ms,
        consumer="physics",
        group="atlas",
        path="atlas/physics",
        site="a",
        domain="",
        vms=2,
        memory_mib=DEFAULT_MEMORY_MIB,
        claims=(),
        is_local=False,
    )
    return replace(row, **values)


def submit(
    consumer: str,
    lease_type: LeaseType,
    vms: int,
    duration_ms: int,
    memory_mib: int = DEFAULT_MEMORY_MIB,
    **values: Any,  # noqa: ANN401 - any field of its parts
) -> Submit:
    """A request for a lease: further values belong to the request, its metadata or the command."""
    of_command = {name: values.pop(name) for name in ("key", "request_hash") if name in values}
    metadata = {each.name: values.pop(each.name) for each in fields(LeaseMetadata) if each.name in values}
    ready_ms = values.pop("ready_ms", None) or 0
    request = Request(0, lease_type, vms, duration_ms, 0, ready_ms, consumer=consumer, memory_mib=memory_mib, **values)
    return Submit(request, LeaseMetadata(**metadata), **of_command)
