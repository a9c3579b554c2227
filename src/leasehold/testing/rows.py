"""Rows of the store for tests: one of each kind, with whatever the case is about said on top."""

from typing import Any, cast

from leasehold.model.lease import UNPLANNED, LeaseState
from leasehold.model.request import DEFAULT_MEMORY_MIB, LeaseType
from leasehold.service.enactors.protocol import Verb, order_id
from leasehold.service.store.rows import (
    AnswerRow,
    JournalRow,
    LeaseRow,
    LetterRow,
    OrderRow,
    TokenRow,
    UsageRow,
)

BEGIN_MS = 1_800_000_000_000
"""15 January 2027, 08:00 UTC: an hour in which nothing special happens."""

_HOUR_MS = 3_600_000


def lease_row(lease_id: int, **said: Any) -> LeaseRow:  # noqa: ANN401 - any column of LeaseRow
    """A Suspendable lease of `physics` over 2 VMs and an hour, waiting at site `a`."""
    row = {
        "id": lease_id,
        "name": "",
        "consumer": "physics",
        "group_name": "",
        "lease_type": LeaseType.SUSPENDABLE.label,
        "vms": 2,
        "duration_ms": _HOUR_MS,
        "memory_mib": DEFAULT_MEMORY_MIB,
        "submit_ms": BEGIN_MS + lease_id,
        "ready_ms": BEGIN_MS + lease_id,
        "deadline_ms": None,
        "home": None,
        "command": "[]",
        "origin": "",
        "origin_id": 0,
        "state": LeaseState.WAITING.value,
        "reason": "",
        "site": "a",
        "planning_order": lease_id,
        "place": 0,
        "work_left": _HOUR_MS,
        "span_ms": _HOUR_MS,
        "earliest_ms": BEGIN_MS + lease_id,
        "latest_ms": None,
        "reserved_ms": UNPLANNED,
        "held_since_ms": UNPLANNED,
        "overhead_ms": 0,
        "first_start_ms": UNPLANNED,
        "incarnation": 0,
        "preemptions": 0,
        "migrations": 0,
        "overhead_vm_ms": 0,
        "dispatched_ms": UNPLANNED,
        "end_ms": None,
        "own_job": None,
        "domain": "",
        "claims": "{}",
        "breach": "",
        "joint_id": None,
        "job_id": None,
        "wishes": "",
        "waits": 0,
        "is_foreign": 0,
    }
    return cast("LeaseRow", row | said)


def journal_row(seq: int, lease_id: int | None = None, **said: Any) -> JournalRow:  # noqa: ANN401 - any column
    """A line that says that a lease of `physics` was submitted."""
    row = {
        "seq": seq,
        "at_ms": BEGIN_MS + seq,
        "lease_id": lease_id,
        "consumer": "physics",
        "group_name": "",
        "site": "a",
        "what": "submitted",
        "state": LeaseState.SUBMITTED.value,
        "reason": "",
        "rule": "",
        "detail": "{}",
        "job_id": None,
    }
    return cast("JournalRow", row | said)


def order_row(lease_id: int, incarnation: int = 1, verb: Verb = Verb.START, **said: Any) -> OrderRow:  # noqa: ANN401 - any column
    """A pending order to start a lease at site `a`."""
    row = {
        "id": order_id(lease_id, incarnation, verb),
        "site": "a",
        "lease_id": lease_id,
        "incarnation": incarnation,
        "verb": verb.value,
        "body": "{}",
        "status": "pending",
        "attempts": 0,
        "next_try_ms": 0,
        "problem": "",
        "created_ms": BEGIN_MS,
    }
    return cast("OrderRow", row | said)


def answer_row(key: str, lease_id: int, **said: Any) -> AnswerRow:  # noqa: ANN401 - any column
    """What `physics` was answered under this Idempotency-Key."""
    row = {
        "consumer": "physics",
        "key": key,
        "request_hash": "",
        "lease_id": lease_id,
        "created_ms": BEGIN_MS,
    }
    return cast("AnswerRow", row | said)


def letter_row(seq: int, correspondent: str = "a", **said: Any) -> LetterRow:  # noqa: ANN401 - any column
    """A letter to a correspondent."""
    row = {"correspondent": correspondent, "seq": seq, "body": "{}", "created_ms": BEGIN_MS}
    return cast("LetterRow", row | said)


def token_row(token_id: str, **said: Any) -> TokenRow:  # noqa: ANN401 - any column
    """A member's token of `physics` that never expires."""
    row = {
        "id": token_id,
        "hash": f"hash of {token_id}",
        "consumer": "physics",
        "roles": "member",
        "groups": "",
        "sites": "",
        "note": "",
        "created_ms": BEGIN_MS,
        "expires_ms": None,
        "revoked_ms": None,
    }
    return cast("TokenRow", row | said)


def usage_row(lease_id: int, begin_ms: int, end_ms: int, **said: Any) -> UsageRow:  # noqa: ANN401 - any column
    """A time in which a lease of `atlas/physics` held 2 VMs at site `a`."""
    row = {
        "lease_id": lease_id,
        "begin_ms": begin_ms,
        "end_ms": end_ms,
        "consumer": "physics",
        "group_name": "atlas",
        "path": "atlas/physics",
        "site": "a",
        "domain": "",
        "vms": 2,
        "memory_mib": DEFAULT_MEMORY_MIB,
        "claims": "{}",
        "is_local": 0,
    }
    return cast("UsageRow", row | said)
