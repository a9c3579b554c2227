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
    ImageName,
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
    "lease": 42, "vms": 4, "duration_s": 3600, "memory_mib": 1024, "image": "", "wanted_site": "das3",
    "site": "das3", "files": [], "losses": 0,
}  # fmt: skip
_COALLOCATION = {
    "id": 7, "consumer": "physics", "state": "held", "reason": "waiting-for-components",
    "explanation": "waits until all components of its co-allocation have room",
    "claim": "incremental", "place": "close-to-files", "submitted_at": A_MOMENT, "ready_at": A_MOMENT,
    "starts_at": A_MOMENT, "idle_vm_s": 480, "tried": 1, "components": [_COMPONENT],
}  # fmt: skip

Tries = Annotated[int, Strict(), Field(ge=1, le=MAX_TRIES)]
Retries = Annotated[int, Strict(), Field(ge=0, le=MAX_TRIES)]


class InputFile(RequestModel):
    """A file that a component reads."""

    site: Name = Field(description="The site where it is stored.")
    mib: int = Field(strict=True, ge=1, le=MAX_FILE_MIB, description="Size in MiB.")


class ComponentSpec(RequestModel):
    """One component: some machines, all at one site."""

    vms: Vms = Field(description="How many machines.")
    duration_s: Duration | None = Field(
        default=None, description="Maximum duration; left out: that of the co-allocation."
    )
    memory_mib: MemoryMib = Field(default=DEFAULT_MEMORY_MIB, description="The memory of each machine, in MiB.")
    site: Name | None = Field(default=None, description="Required site; left out: any site.")
    image: ImageName = Field(
        default="", description="The image that its machines boot from; empty: the default of its site."
    )
    files: list[InputFile] = Field(default=[], max_length=MAX_FILES, description="Input files.")


class CoAllocationSpec(RequestModel):
    """A co-allocation request: components that hold machines at the same time, or not at all."""

    model_config = examples(_SPEC, _SPEC_AHEAD)

    components: list[ComponentSpec] = Field(min_length=1, max_length=MOST_COMPONENTS)
    duration_s: Duration | None = Field(default=None, description="Duration of components that do not set their own.")
    claim: Literal["incremental", "reservation"] = Field(
        default="incremental",
        description="`incremental`: shortly before the start, one component at a time; a component that has "
        "machines holds them until all have. `reservation`: capacity is reserved for all in advance.",
    )
    place: Name = Field(default="worst-fit", description="The placement policy: `worst-fit` or `close-to-files`.")
    ready: Moment | None = Field(default=None, description="Claim no machines before; left out: now.")
    deadline: Moment | None = Field(default=None, description="When all components must have ended.")
    margin_s: Margin = Field(default=0, description="`incremental`: how long before the start machines may be claimed.")
    tries: Tries = Field(default=3, description="Attempts to start the whole co-allocation before it is refused.")
    retries: Retries = Field(default=0, description="How often a component that lost its machines is placed again.")
    name: Text = Field(default="", description="A display name, also given to its leases.")
    group: Text | None = Field(
        default=None, description="One of the caller's groups, to which it is charged; left out: the first."
    )
    command: CommandWords = Field(default=[], description="The command to run in every component's machines.")


class CoAllocationQuery(PageQuery):
    """A filter for co-allocations."""


class CoAllocationComponent(ResponseModel):
    """The state of one component."""

    model_config = examples(_COMPONENT)

    lease: int = Field(description="Its current lease.")
    vms: int
    duration_s: Seconds
    memory_mib: int
    image: OrEmpty = Field(description="The image that it names; empty: the default of its site.")
    wanted_site: OrEmpty = Field(description="Required site; empty: any site.")
    site: OrEmpty = Field(description="Its site; empty: not placed yet.")
    files: AnyNumberOf[InputFile]
    losses: OrZero = Field(description="How often it lost its machines.")


class CoAllocation(ResponseModel):
    """One co-allocation: the request and its current state."""

    model_config = examples(_COALLOCATION)

    id: int
    name: OrEmpty
    consumer: str
    group: OrEmpty
    state: CoAllocationState
    reason: OrEmpty = Field(description="Reason for the state, from a closed list.")
    explanation: OrEmpty
    claim: str
    place: str
    submitted_at: Moment
    ready_at: Moment
    deadline_at: OrNone[Moment]
    starts_at: OrNone[Moment] = Field(description="The common start; null: not determined yet.")
    ended_at: OrNone[Moment]
    idle_vm_s: Annotated[Seconds, Field(default=0)] = Field(
        description="VM-seconds for which machines were held idle for others."
    )
    tried: OrZero = Field(description="Attempts made to start the whole co-allocation.")
    components: tuple[CoAllocationComponent, ...]

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.ended_at is not None


class CoAllocationPage(NextPage):
    """A page of co-allocations, newest first."""

    coallocations: tuple[CoAllocation, ...]
