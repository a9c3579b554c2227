"""Co-allocations on the wire: components that run together, at one or several sites, or not at all."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.types import Strict

from leasehold.model.coallocation import MOST_COMPONENTS, CoAllocationState
from leasehold.model.reason import sentence
from leasehold.model.request import DEFAULT_MEMORY_MIB
from leasehold.service.api.fields import (
    MAX_DURATION_S,
    CommandWords,
    DurationMs,
    MemoryMib,
    MomentMs,
    Name,
    PageSize,
    Text,
    Vms,
)
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.moments import read_duration, show_duration, show_moment, show_planned
from leasehold.service.store.rows import CoAllocationRow

MAX_FILES = 20
MAX_FILE_MIB = 2**31
MAX_TRIES = 10

_ASKED = {
    "components": [{"vms": 4, "site": "das3"}, {"vms": 8, "files": [{"site": "lyon", "mib": 2048}]}],
    "duration_s": 3600, "claim": "incremental", "place": "close-to-files", "margin_s": 60,
}  # fmt: skip
_ASKED_AHEAD = {
    "components": [{"vms": 2, "duration_s": 600}, {"vms": 2, "duration_s": 1200}],
    "claim": "reservation", "ready": "2026-11-22T06:00:00Z", "deadline": "2026-11-22T12:00:00Z",
}  # fmt: skip
_SHOWN_COMPONENT = {
    "lease": 42, "vms": 4, "duration_s": 3600, "memory_mib": 1024, "wanted_site": "das3", "site": "das3",
    "files": [], "losses": 0,
}  # fmt: skip
_SHOWN = {
    "id": 7, "name": "", "consumer": "physics", "group": "", "state": "held", "reason": "waiting-for-components",
    "explanation": "waits until all components of its co-allocation have room",
    "claim": "incremental", "place": "close-to-files", "submitted_at": A_MOMENT, "ready_at": A_MOMENT,
    "deadline_at": None, "starts_at": A_MOMENT, "ended_at": None, "idle_vm_s": 480, "tried": 1,
    "components": [_SHOWN_COMPONENT],
}  # fmt: skip


def _margin(seconds: object) -> int:
    ms = read_duration(seconds)
    if not 0 <= ms <= MAX_DURATION_S * 1000:
        raise ValueError(f"from 0 to {MAX_DURATION_S} seconds (10 years)")
    return ms


MarginMs = Annotated[
    int,
    BeforeValidator(_margin),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_DURATION_S}),
]
Tries = Annotated[int, Strict(), Field(ge=1, le=MAX_TRIES)]
Retries = Annotated[int, Strict(), Field(ge=0, le=MAX_TRIES)]


class InputFile(Asked):
    """Something that a component reads."""

    site: Name = Field(description="Where it is.")
    mib: int = Field(strict=True, ge=1, le=MAX_FILE_MIB, description="How large it is, in MiB.")


class ComponentRequest(Asked):
    """One component: some machines, all at one site."""

    vms: Vms = Field(description="How many machines.")
    duration_ms: DurationMs | None = Field(
        None, alias="duration_s", description="For how long at most; left out: as the co-allocation says."
    )
    memory_mib: MemoryMib = Field(DEFAULT_MEMORY_MIB, description="The memory of each machine, in MiB.")
    site: Name | None = Field(None, description="Where it has to be; left out: at any site.")
    files: list[InputFile] = Field([], max_length=MAX_FILES, description="What it reads.")


class CoAllocationSpec(Asked):
    """What is asked for: components that hold machines at the same time, or not at all."""

    model_config = examples(_ASKED, _ASKED_AHEAD)

    components: list[ComponentRequest] = Field(min_length=1, max_length=MOST_COMPONENTS)
    duration_ms: DurationMs | None = Field(
        None, alias="duration_s", description="For how long, where a component does not say it."
    )
    claim: Literal["incremental", "reservation"] = Field(
        "incremental",
        description="`incremental`: shortly before the start, one component after the other, and who has "
        "machines holds them for the others. `reservation`: all are promised their room ahead.",
    )
    place: Name = Field("worst-fit", description="The placement policy: `worst-fit` or `close-to-files`.")
    ready_ms: MomentMs | None = Field(None, alias="ready", description="Hold nothing before; left out: now.")
    deadline_ms: MomentMs | None = Field(None, alias="deadline", description="When all must have ended.")
    margin_ms: MarginMs = Field(
        0,
        alias="margin_s",
        description="`incremental`: from how long before the start on machines may be claimed.",
    )
    tries: Tries = Field(3, description="How often all of it is tried for before it is refused.")
    retries: Retries = Field(0, description="How often a component that lost its machines is placed again.")
    name: Text = Field("", description="A name to recognise it by; its leases have it, too.")
    group: Text | None = Field(
        None, description="The group that it is made for, one of the caller's; left out: the caller's first."
    )
    command: CommandWords = Field([], description="What to run in the machines of every component.")


class CoAllocationQuery(Asked):
    """Which co-allocations to list."""

    limit: PageSize = Field(100, description="How many at most.")
    cursor: Text | None = Field(None, description="Where the page before ended: its `next`.")


class ShownFile(Shown):
    """Something that a component reads."""

    site: str
    mib: int


class CoAllocationComponent(Shown):
    """How things stand with one component."""

    model_config = examples(_SHOWN_COMPONENT)

    lease: int = Field(description="Its present lease.")
    vms: int
    duration_s: int | float
    memory_mib: int
    wanted_site: str = Field(description="Where it has to be; empty: at any site.")
    site: str = Field(description="Where it is placed; empty while it is not.")
    files: list[ShownFile]
    losses: int = Field(description="How often it lost its machines.")


class CoAllocation(Shown):
    """One co-allocation: what was asked for, and where it is in its life."""

    model_config = examples(_SHOWN)

    id: int
    name: str
    consumer: str
    group: str
    state: CoAllocationState
    reason: str = Field(description="Why it is so: one of a closed list.")
    explanation: str
    claim: str
    place: str
    submitted_at: str
    ready_at: str
    deadline_at: str | None
    starts_at: str | None = Field(description="The common start, once there is one.")
    ended_at: str | None
    idle_vm_s: int | float = Field(description="VM-seconds for which machines were held idle for others.")
    tried: int = Field(description="How often all of it was tried for.")
    components: list[CoAllocationComponent]


class CoAllocationPage(Shown):
    """Some co-allocations, newest first."""

    coallocations: list[CoAllocation]
    next: str | None = Field(description="The `cursor` of the next page; null: this was the last.")


def show_coallocation(row: CoAllocationRow) -> CoAllocation:
    """Show a co-allocation as it is in the store."""
    coallocation, request = row.coallocation, row.coallocation.request
    return CoAllocation(
        id=coallocation.id,
        name=row.name,
        consumer=request.consumer,
        group=request.group,
        state=coallocation.state,
        reason=coallocation.reason,
        explanation=sentence(coallocation.reason),
        claim=request.claim,
        place=request.place,
        submitted_at=show_moment(request.submit_ms),
        ready_at=show_moment(request.ready_ms),
        deadline_at=show_planned(request.deadline_ms),
        starts_at=show_planned(coallocation.start_ms),
        ended_at=show_planned(coallocation.end_ms),
        idle_vm_s=show_duration(coallocation.idle_vm_ms),
        tried=coallocation.tried,
        components=[
            CoAllocationComponent(
                lease=part.lease_id,
                vms=component.vms,
                duration_s=show_duration(component.duration_ms),
                memory_mib=component.memory_mib,
                wanted_site=component.site,
                site=part.site,
                files=[ShownFile(site=site, mib=mib) for site, mib in component.files],
                losses=part.losses,
            )
            for component, part in zip(request.components, coallocation.parts, strict=True)
        ],
    )
