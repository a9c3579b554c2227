"""What is said about leases, in sentences."""

from collections.abc import Iterator
from datetime import datetime
from shlex import join

from leasehold.cli.live.columns import show_claims
from leasehold.cli.live.durations import show_duration
from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.client import Change, Entry, Lease
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason

ADVICE: dict[str, str] = {
    Reason.WIDER_THAN_SITE: "Ask for fewer VMs: `leasehold site list` shows how many there are.",
    Reason.WIDER_THAN_ANY_SITE: "Ask for fewer VMs: `leasehold site list` shows how many there are.",
    Reason.DEADLINE_TOO_TIGHT: "Ask for less time, or for a later --deadline.",
    Reason.NO_ROOM_AT_READY_TIME: "A later --ready may do; a suspendable or cancelable lease may wait.",
    Reason.NON_PREEMPTABLE_SHARE_USED: "A migratable lease may give way without being lost.",
    Reason.NON_PREEMPTABLE_TOO_LONG: "Ask for less time, or for a migratable lease.",
    Reason.LOCAL_QUEUE_CLOSED: "Try again when the site has room: `leasehold site list` shows it.",
    Reason.NO_SITE_CAN: "A cancelable lease needs none of it; see `leasehold site capabilities`.",
    Reason.POLICY_REFUSED: "`leasehold lease logs` names the policy.",
}
"""What to do about a refusal, by its reason."""


def standing(lease: Lease) -> str:
    """Say in one sentence how a lease stands, and why."""
    why = f": it {lease.explanation} ({lease.reason})" if lease.explanation else ""
    start = lease.planned_start_at
    promise = "" if start is None else f"; it is to start by {show_moment(start)}"
    return f"{_place(lease)}{why}{promise}"


def ending(lease: Lease, at: datetime) -> str:
    """Say in one sentence until when a lease will hold its machines."""
    end = lease.ends_at
    return _place(lease) + (
        "" if end is None else f", and ends {show_moment(end)} ({show_distance(end, at)})"
    )


def _place(lease: Lease) -> str:
    return f"lease {lease.id} is {lease.state}" + (f" at {lease.site}" if lease.site else "")


def has_ended_well(lease: Lease) -> bool:
    """Whether a lease that is over gave what was asked for; machines without a command end by the clock."""
    by_the_clock = lease.state is LeaseState.KILLED and not lease.command
    return lease.state is LeaseState.COMPLETED or by_the_clock


def happening(told: Change | Entry) -> str:
    """Say in one line what happened."""
    number = f"  {told.lease or '-':>6}" if isinstance(told, Change) else ""
    why = f"{told.explanation} ({told.reason})" if told.explanation else told.what
    return f"{show_moment(told.at)}{number}  {told.state or '-':<10}  {told.site or '-':<12}  {why}"


def account(lease: Lease, at: datetime) -> Iterator[str]:
    """Tell all that is known of a lease, line by line."""
    yield standing(lease)
    for name, value in _facts(lease, at):
        if value:
            yield f"  {name:<10}  {value}"


def _facts(lease: Lease, at: datetime) -> Iterator[tuple[str, str]]:
    yield "name", lease.name
    yield "type", f"{lease.type.label}, local at {lease.home}" if lease.local else lease.type.label
    yield "consumer", f"{lease.consumer}, group {lease.group}" if lease.group else lease.consumer
    vms, memory = ("1 VM", "") if lease.vms == 1 else (f"{lease.vms} VMs", " each")
    yield "asked for", f"{vms} with {lease.memory_mib} MiB{memory} for {show_duration(lease.duration_s)}"
    yield "bound to", lease.domain
    yield "joint", "" if lease.joint is None else f"a component of joint lease {lease.joint}"
    yield "claims", show_claims(lease.claims)
    yield "command", join(lease.command)
    for name, moment in _moments(lease):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"
    yield "disturbed", _disturbances(lease)


def _moments(lease: Lease) -> Iterator[tuple[str, datetime | None]]:
    yield "submitted", lease.submitted_at
    yield "ready", lease.ready_at if lease.ready_at != lease.submitted_at else None
    yield "deadline", lease.deadline_at
    yield "planned", lease.planned_start_at
    yield "started", lease.started_at
    yield "ends", lease.ends_at
    yield "ended", lease.ended_at


def _disturbances(lease: Lease) -> str:
    if not lease.preemptions and not lease.migrations:
        return ""
    return f"preempted {show_times(lease.preemptions)}, moved {show_times(lease.migrations)}"


def show_times(number: int) -> str:
    """Say how often."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
