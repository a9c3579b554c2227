"""Between the leases of the decision core and the rows of the store."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from leasehold.model.agreement import Breach
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LEASE_TYPES, Request
from leasehold.service.enactors.protocol import NO_WISHES, MachineWishes
from leasehold.service.letters.names import asking_peer
from leasehold.service.store.breaches import breach_of, breach_to_dict
from leasehold.service.store.rows import LeaseRow

_STATES = {state.value: state for state in LeaseState}
_NO_COMMAND = "[]"
_NO_CLAIMS = "{}"

Claims = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Particulars:
    """What is known of a lease besides what decisions are made with.

    ``own_job``   what the site's own scheduler calls the job that this stands for, "" for a lease of ours
    ``reason``    the last one given, and in ``breach`` the rule of an agreement that it is about
    ``reported``  what its gateway was last told of it, where it came from one
    ``joint_id``  the joint request of which this is a component
    ``job_id``    the job of which this is an attempt, and in ``wishes`` what its machines are to be
    """

    name: str = ""
    command: tuple[str, ...] = ()
    origin: str = ""
    origin_id: int = 0
    reason: str = ""
    end_ms: int | None = None
    own_job: str = ""
    reported: str = ""
    breach: Breach | None = None
    joint_id: int | None = None
    job_id: int | None = None
    wishes: MachineWishes = NO_WISHES

    def say(self, reason: Reason, breach: Breach | None = None) -> None:
        """Give a reason in place of the last one."""
        self.reason, self.breach = reason.value, breach


def row_of(lease: Lease, about: Particulars) -> LeaseRow:
    """Write a lease down."""
    request = lease.request
    return {
        "id": lease.id,
        "name": about.name,
        "consumer": request.consumer,
        "group_name": request.group,
        "lease_type": request.lease_type.label,
        "vms": lease.vms,
        "duration_ms": request.duration_ms,
        "memory_mib": request.memory_mib,
        "submit_ms": request.submit_ms,
        "ready_ms": request.ready_ms,
        "deadline_ms": request.deadline_ms,
        "home": request.site,
        "command": json.dumps(about.command) if about.command else _NO_COMMAND,
        "origin": about.origin,
        "origin_id": about.origin_id,
        "state": lease.state.value,
        "reason": about.reason,
        "site": lease.site,
        "planning_order": lease.order,
        "place": lease.place,
        "work_left": lease.work_left,
        "span_ms": lease.span_ms,
        "earliest_ms": lease.earliest_ms,
        "latest_ms": lease.latest_ms,
        "reserved_ms": lease.reserved_ms,
        "held_since_ms": lease.held_since_ms,
        "overhead_ms": lease.overhead_ms,
        "first_start_ms": lease.first_start_ms,
        "incarnation": lease.incarnation,
        "preemptions": lease.preemptions,
        "migrations": lease.migrations,
        "overhead_vm_ms": lease.overhead_vm_ms,
        "dispatched_ms": lease.dispatched_ms,
        "end_ms": about.end_ms,
        "own_job": about.own_job or None,
        "domain": request.domain,
        "claims": claims_text(request.claims),
        "breach": "" if about.breach is None else json.dumps(breach_to_dict(about.breach)),
        "joint_id": about.joint_id,
        "job_id": about.job_id,
        "waits": int(request.wait),
        "is_foreign": int(request.is_foreign),
        "wishes": "" if about.wishes == NO_WISHES else json.dumps(asdict(about.wishes)),
    }


def particulars_of(row: LeaseRow) -> Particulars:
    """Read what decisions are not made with."""
    command = () if row["command"] == _NO_COMMAND else tuple(json.loads(row["command"]))
    return Particulars(
        row["name"],
        command,
        row["origin"],
        row["origin_id"],
        row["reason"],
        row["end_ms"],
        row["own_job"] or "",
        breach=breach_of(row["breach"]),
        joint_id=row["joint_id"],
        job_id=row["job_id"],
        wishes=wishes_of(json.loads(row["wishes"] or "{}")),
    )


def lease_of(row: LeaseRow) -> Lease:
    """Read a lease as the decision core knew it."""
    request = Request(
        row["id"],
        LEASE_TYPES[row["lease_type"]],
        row["vms"],
        row["duration_ms"],
        row["submit_ms"],
        row["ready_ms"],
        row["deadline_ms"],
        row["home"],
        row["consumer"],
        row["memory_mib"],
        asking_peer(row["origin"]),
        row["group_name"],
        row["domain"],
        claims_of(row["claims"]),
        bool(row["waits"]),
        bool(row["is_foreign"]),
    )
    return Lease(
        id=row["id"],
        request=request,
        vms=row["vms"],
        order=row["planning_order"],
        work_left=row["work_left"],
        site=row["site"],
        state=_STATES[row["state"]],
        span_ms=row["span_ms"],
        earliest_ms=row["earliest_ms"],
        latest_ms=row["latest_ms"],
        reserved_ms=row["reserved_ms"],
        held_since_ms=row["held_since_ms"],
        overhead_ms=row["overhead_ms"],
        first_start_ms=row["first_start_ms"],
        incarnation=row["incarnation"],
        preemptions=row["preemptions"],
        migrations=row["migrations"],
        overhead_vm_ms=row["overhead_vm_ms"],
        dispatched_ms=row["dispatched_ms"],
        place=row["place"],
    )


def wishes_of(told: Mapping[str, Any]) -> MachineWishes:
    """Read what machines are to be."""
    return MachineWishes(**{**told, "nodes": tuple(told["nodes"])}) if told else NO_WISHES


def claims_text(claims: Claims) -> str:
    """Write down which further resources a lease claims."""
    return json.dumps(dict(claims)) if claims else _NO_CLAIMS


def claims_of(text: str) -> Claims:
    """Read which further resources a lease claims."""
    return () if text == _NO_CLAIMS else tuple(json.loads(text).items())
