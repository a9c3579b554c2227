"""Leases on the wire: how one is asked for, and how it is shown."""

from typing import Annotated, cast

from pydantic import Field

from leasehold.jobs.why import JobReason
from leasehold.jobs.why import sentence as job_sentence
from leasehold.model.agreement import Breach
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason, sentence
from leasehold.model.request import DEFAULT_MEMORY_MIB
from leasehold.service.api.fields import (
    Claims,
    CommandWords,
    DurationMs,
    LeaseTypeName,
    MemoryMib,
    MomentMs,
    Name,
    PageSize,
    Text,
    Vms,
)
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.moments import show_duration, show_moment, show_planned
from leasehold.service.store.rows import LeaseRow
from leasehold.sharing.wording import in_words

_ASKED = {
    "type": "suspendable",
    "vms": 2,
    "duration_s": 3600,
    "name": "sky-survey",
    "command": ["sh", "run.sh"],
}
_ASKED_LOCALLY = {"local": True, "site": "das3", "vms": 16, "duration_s": 600}
_ASKED_OF_A_DOMAIN = {
    "type": "suspendable", "vms": 2, "duration_s": 3600, "group": "atlas/production", "domain": "das3",
    "claims": {"licence:matlab": 1},
}  # fmt: skip
_ASKED_WITH_DEADLINE = {
    "type": "migratable", "vms": 4, "duration_s": 7200, "memory_mib": 4096, "deadline": "2026-11-22T06:00:00Z"
}  # fmt: skip
_SHOWN = {
    "id": 42, "name": "sky-survey", "type": "suspendable", "vms": 2, "duration_s": 3600, "walltime_s": 3600,
    "memory_mib": 1024, "consumer": "physics", "group": "", "local": False, "home": None, "site": "das3",
    "state": "running", "reason": "room-free", "explanation": "got free room at once",
    "submitted_at": A_MOMENT, "ready_at": A_MOMENT, "deadline_at": None, "planned_start_at": None,
    "started_at": A_MOMENT, "ends_at": "2026-11-21T11:43:36.120Z", "ended_at": None, "preemptions": 0,
    "migrations": 0, "domain": "", "claims": {}, "coallocation": None, "job": None, "command": ["sh", "run.sh"],
}  # fmt: skip


_OF_LEASES = frozenset(Reason)
_CLOCK_RUNS = (LeaseState.RUNNING, LeaseState.RESUMING, LeaseState.MIGRATING)
"""The states in which the end of a lease is known, or planned; it is not before its machines were seen."""


_HAS_ALL_OF_IT = (LeaseState.STARTING, LeaseState.RUNNING)
"""The states in which a lease that was not disturbed holds machines for all of its time."""


class LeaseRequest(Asked):
    """What is asked for: some machines, for some time, under one of four types.

    A local request is made at its home site and comes before all guests there; it is always
    Non-preemptable. Whatever is not local may run at any site.
    """

    model_config = examples(_ASKED, _ASKED_LOCALLY, _ASKED_OF_A_DOMAIN, _ASKED_WITH_DEADLINE)

    type: LeaseTypeName | None = Field(
        None,
        description="How it may be disturbed: `cancelable` leases end when others need the room, "
        "`suspendable` ones pause, `migratable` ones move, `non-preemptable` ones stay. "
        "May be left out for a local request.",
    )
    vms: Vms = Field(description="How many machines, all at one site.")
    duration_ms: DurationMs = Field(
        alias="duration_s",
        description="For how long at most, in seconds on a machine of the reference speed.",
    )
    memory_mib: MemoryMib = Field(DEFAULT_MEMORY_MIB, description="The memory of each machine, in MiB.")
    deadline_ms: MomentMs | None = Field(
        None,
        alias="deadline",
        description="When it must have ended; only for `migratable` and `non-preemptable`.",
    )
    ready_ms: MomentMs | None = Field(None, alias="ready", description="Do not start before; left out: now.")
    local: bool = Field(default=False, strict=True, description="Whether this is a request of a site's own user.")
    site: Name | None = Field(
        None, description="The home site of a local request; may be left out by who has only one."
    )
    name: Text = Field("", description="A name to recognise it by; need not be unique.")
    group: Text | None = Field(
        None, description="The group that it is made for, one of the caller's; left out: the caller's first."
    )
    domain: Text = Field(
        "", description="The virtual domain or site that it is bound to; empty: any. Not for a local request."
    )
    claims: Claims = Field(
        {}, description="Units of further resources that it holds while it runs: licences, services."
    )
    wait: bool = Field(
        default=True,
        strict=True,
        description="Whether a `migratable` or `non-preemptable` request waits for room that comes free "
        "later; else it is refused at once where it cannot start at its ready time. All others wait.",
    )
    command: CommandWords = Field([], description="What to run in the machines, word by word.")


class ExtensionRequest(Asked):
    """How much longer a lease is to last."""

    model_config = examples({"by_s": 600})

    by_ms: DurationMs = Field(alias="by_s", description="How much longer, in seconds.")


class LeaseQuery(Asked):
    """Which leases to list."""

    states: list[LeaseState] = Field(
        [], alias="state", max_length=len(LeaseState), description="In one of these states."
    )
    site: Name | None = Field(None, description="At this site, or with it as their home.")
    consumer: Name | None = Field(None, description="Of this consumer.")
    since_ms: MomentMs | None = Field(None, alias="since", description="Submitted at this time or later.")
    open: bool | None = Field(None, description="Whether they are still to come or running.")
    limit: PageSize = Field(100, description="How many at most.")
    cursor: Text | None = Field(None, description="Where the page before ended: its `next`.")


class Lease(Shown):
    """One lease: what was asked for, and where it is in its life."""

    model_config = examples(_SHOWN)

    id: int
    name: str
    type: LeaseTypeName
    vms: int
    duration_s: Annotated[int | float, Field(description="The requested time, on a machine of the reference speed.")]
    walltime_s: int | float | None = Field(
        description="How long that is by the clock at its site, while it has machines there for all of it."
    )
    memory_mib: int
    consumer: str = Field(description="Whose it is.")
    group: str
    local: bool
    home: str | None = Field(description="The home site of a local request.")
    site: str = Field(description="Where it is or was last; empty before it has a site.")
    state: LeaseState
    reason: str = Field(description="Why it is so: one of a closed list.")
    explanation: str = Field(description="The reason as a sentence.")
    submitted_at: str
    ready_at: str
    deadline_at: str | None
    planned_start_at: str | None = Field(description="The start that it was promised, while it waits for it.")
    started_at: str | None = Field(description="When it first held machines.")
    ends_at: str | None = Field(description="When its requested time will be over, while it holds machines.")
    ended_at: str | None
    preemptions: int
    migrations: int
    domain: str = Field(description="The virtual domain or site that it is bound to; empty: any.")
    claims: dict[str, int] = Field(description="Units of further resources that it holds while it runs.")
    coallocation: int | None = Field(description="The co-allocation of which it is a component.")
    job: int | None = Field(description="The job of which it is an attempt.")
    command: list[str]


class LeasePage(Shown):
    """Some leases, newest first."""

    leases: list[Lease]
    next: str | None = Field(description="The `cursor` of the next page; null: this was the last.")


def show_lease(row: LeaseRow) -> Lease:
    """Show a lease as it is in the store."""
    state = LeaseState(row.lease.state)
    held_ms = row.lease.held_since_ms
    has_all_of_it = held_ms >= 0 and state in _HAS_ALL_OF_IT and not row.lease.preemptions and not row.lease.migrations
    wall_ms = row.lease.span_ms - row.lease.overhead_ms if has_all_of_it else 0
    return Lease(
        id=row.lease.id,
        name=row.metadata.name,
        type=cast("LeaseTypeName", row.lease.request.lease_type.label),
        vms=row.lease.vms,
        duration_s=show_duration(row.lease.request.duration_ms),
        walltime_s=show_duration(wall_ms) if wall_ms > 0 else None,
        memory_mib=row.lease.request.memory_mib,
        consumer=row.lease.request.consumer,
        group=row.lease.request.group,
        local=row.lease.request.site is not None,
        home=row.lease.request.site,
        site=row.lease.site,
        state=state,
        reason=row.metadata.reason,
        explanation=explain(row.metadata.reason, row.metadata.breach),
        submitted_at=show_moment(row.lease.request.submit_ms),
        ready_at=show_moment(row.lease.request.ready_ms),
        deadline_at=show_planned(row.lease.request.deadline_ms),
        planned_start_at=show_planned(row.lease.reserved_ms) if state is LeaseState.WAITING else None,
        started_at=show_planned(row.lease.first_start_ms),
        ends_at=show_moment(held_ms + row.lease.span_ms) if held_ms >= 0 and state in _CLOCK_RUNS else None,
        ended_at=show_planned(row.metadata.end_ms),
        preemptions=row.lease.preemptions,
        migrations=row.lease.migrations,
        domain=row.lease.request.domain,
        claims=dict(row.lease.request.claims),
        coallocation=row.metadata.coallocation_id,
        job=row.metadata.job_id,
        command=list(row.metadata.command),
    )


def explain(reason: str, breach: Breach | None = None) -> str:
    """Say a reason as a sentence, with the numbers of the agreement that it is about; empty without one."""
    if not reason:
        return ""
    said = sentence(Reason(reason)) if reason in _OF_LEASES else job_sentence(JobReason(reason))
    return said if breach is None else f"{said}: {in_words(breach, show_moment)}"
