"""Co-allocations: components that run together, at one or several sites, or not at all."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.types import Strict

from leasehold.model.coallocation import MOST_COMPONENTS, CoAllocationState
from leasehold.model.request import DEFAULT_MEMORY_MIB
from leasehold.protocol.base import A_MOMENT, NextPage, PageQuery, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import (
    AnyNumberOf,
    CommandWords,
    Duration,
    Margin,
    MemoryMib,
    Moment,
    Name,
    OrEmpty,
    OrNone,
    OrZero,
    Seconds,
    Text,
    Vms,
)

MAX_FILES = 20
MAX_FILE_MIB = 2**31
MAX_TRIES = 10

_SPEC = {
    "components": [{"vms": 4, "site": "das3"}, {"vms": 8, "files": [{"site": "lyon", "mib": 2048}]}],
    "duration_s": 3600, "claim": "incremental", "place": "close-to-files", "margin_s": 60,
}  # fmt: skip
_SPEC_AHEAD = {
    "components": [{"vms": 2, "duration_s": 600}, {"vms": 2, "duration_s": 1200}],
    "claim": "reservation", "ready": "2026-11-22T06:00:00Z", "deadline": "2026-11-22T12:00:00Z",
}  # fmt: skip
_COMPONENT = {
    "lease": 42, "vms": 4, "duration_s": 3600, "memory_mib": 1024, "wanted_site": "das3", "site": "das3",
    "files": [], "losses": 0,
}  # fmt: skip
_COALLOCATION = {
    "id": 7, "name": "", "consumer": "physics", "group": "", "state": "held", "reason": "waiting-for-components",
    "explanation": "waits until all components of its co-allocation have room",
    "claim": "incremental", "place": "close-to-files", "submitted_at": A_MOMENT, "ready_at": A_MOMENT,
    "deadline_at": None, "starts_at": A_MOMENT, "ended_at": None, "idle_vm_s": 480, "tried": 1,
    "components": [_COMPONENT],
}  # fmt: skip

Tries = Annotated[int, Strict(), Field(ge=1, le=MAX_TRIES)]
Retries = Annotated[int, Strict(), Field(ge=0, le=MAX_TRIES)]


class InputFile(RequestModel):
    """Something that a component reads."""

    site: Name = Field(description="Where it is.")
    mib: int = Field(strict=True, ge=1, le=MAX_FILE_MIB, description="How large it is, in MiB.")


class ComponentSpec(RequestModel):
    """One component: some machines, all at one site."""

    vms: Vms = Field(description="How many machines.")
    duration_s: Duration | None = Field(
        default=None, description="For how long at most; left out: as the co-allocation says."
    )
    memory_mib: MemoryMib = Field(default=DEFAULT_MEMORY_MIB, description="The memory of each machine, in MiB.")
    site: Name | None = Field(default=None, description="Where it has to be; left out: at any site.")
    files: list[InputFile] = Field(default=[], max_length=MAX_FILES, description="What it reads.")


class CoAllocationSpec(RequestModel):
    """What is asked for: components that hold machines at the same time, or not at all."""

    model_config = examples(_SPEC, _SPEC_AHEAD)

    components: list[ComponentSpec] = Field(min_length=1, max_length=MOST_COMPONENTS)
    duration_s: Duration | None = Field(default=None, description="For how long, where a component does not say it.")
    claim: Literal["incremental", "reservation"] = Field(
        default="incremental",
        description="`incremental`: shortly before the start, one component after the other, and who has "
        "machines holds them for the others. `reservation`: all are promised their room ahead.",
    )
    place: Name = Field(default="worst-fit", description="The placement policy: `worst-fit` or `close-to-files`.")
    ready: Moment | None = Field(default=None, description="Hold nothing before; left out: now.")
    deadline: Moment | None = Field(default=None, description="When all must have ended.")
    margin_s: Margin = Field(
        default=0, description="`incremental`: from how long before the start on machines may be claimed."
    )
    tries: Tries = Field(default=3, description="How often all of it is tried for before it is refused.")
    retries: Retries = Field(default=0, description="How often a component that lost its machines is placed again.")
    name: Text = Field(default="", description="A name to recognise it by; its leases have it, too.")
    group: Text | None = Field(
        default=None, description="The group that it is made for, one of the caller's; left out: the caller's first."
    )
    command: CommandWords = Field(default=[], description="What to run in the machines of every component.")


class CoAllocationQuery(PageQuery):
    """Which co-allocations to list."""


class CoAllocationComponent(ResponseModel):
    """How things stand with one component."""

    model_config = examples(_COMPONENT)

    lease: int = Field(description="Its present lease.")
    vms: int
    duration_s: Seconds
    memory_mib: int
    wanted_site: OrEmpty = Field(description="Where it has to be; empty: at any site.")
    site: OrEmpty = Field(description="Where it is placed; empty while it is not.")
    files: AnyNumberOf[InputFile]
    losses: OrZero = Field(description="How often it lost its machines.")


class CoAllocation(ResponseModel):
    """One co-allocation: what was asked for, and where it is in its life."""

    model_config = examples(_COALLOCATION)

    id: int
    name: OrEmpty
    consumer: str
    group: OrEmpty
    state: CoAllocationState
    reason: OrEmpty = Field(description="Why it is so: one of a closed list.")
    explanation: OrEmpty
    claim: str
    place: str
    submitted_at: Moment
    ready_at: Moment
    deadline_at: OrNone[Moment]
    starts_at: OrNone[Moment] = Field(description="The common start, once there is one.")
    ended_at: OrNone[Moment]
    idle_vm_s: Annotated[Seconds, Field(default=0)] = Field(
        description="VM-seconds for which machines were held idle for others."
    )
    tried: OrZero = Field(description="How often all of it was tried for.")
    components: tuple[CoAllocationComponent, ...]

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.ended_at is not None


class CoAllocationPage(NextPage):
    """Some co-allocations, newest first."""

    coallocations: tuple[CoAllocation, ...]
