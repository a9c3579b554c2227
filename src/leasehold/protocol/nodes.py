"""The nodes that jobs run on, as they were last seen,."""

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, NextPage, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import AnyNumberOf, Cursor, Moment, Name, OrEmpty, OrFalse, OrNone, OrZero, PageSize
from leasehold.protocol.jobs import SoftwareText

_NODE = {
    "name": "das3/node017", "site": "das3", "cores": 8, "free_cores": 6, "memory_mib": 16_384,
    "free_memory_mib": 12_288, "disk_mib": 200_000, "free_disk_mib": 180_000, "cpu_mhz": 2400,
    "bytes_per_s": 125_000_000, "software": ["gcc 12.2.0-14"], "packages": 1, "is_host": False, "runs": True,
    "problem": "", "fault": "", "failures": 1, "failed_at": A_MOMENT, "first_seen_at": A_MOMENT,
    "seen_at": A_MOMENT,
}  # fmt: skip


class NodeFilter(RequestModel):
    """Which nodes to list."""

    site: Name | None = Field(default=None, description="At this site.")
    software: list[SoftwareText] = Field(
        default=[], max_length=20, description="Which have all of this, with constraints: `gcc >= 12`."
    )
    brief: bool = Field(default=False, description="Whether to leave out what is installed.")
    limit: PageSize = 100
    cursor: Cursor = None


class Node(ResponseModel):
    """One node as it was last seen."""

    model_config = examples(_NODE)

    name: str
    site: str
    cores: int = Field(description="How many it has.")
    free_cores: int = Field(description="How many nobody used.")
    memory_mib: int
    free_memory_mib: int = Field(description="How much nobody used.")
    disk_mib: int = Field(description="How much it has.")
    free_disk_mib: int = Field(description="How much nobody used.")
    cpu_mhz: OrZero = Field(description="How fast its cores are; 0: not known.")
    bytes_per_s: OrZero = Field(description="The bandwidth of its network; 0: not known.")
    software: AnyNumberOf[str] = Field(description="What is installed, with versions; empty in a brief list.")
    packages: OrZero = Field(description="How many pieces of software are installed.")
    is_host: OrFalse = Field(description="Whether machines can be built on it.")
    runs: bool = Field(description="Whether jobs can run on it as it is.")
    problem: OrEmpty = Field(description="Why nothing can run there now; empty: nothing is known against it.")
    fault: OrEmpty = Field(description="As which fault that counts; empty: as none.")
    failures: OrZero = Field(description="How often it failed since it was first seen.")
    failed_at: OrNone[Moment] = Field(description="When it failed last.")
    first_seen_at: Moment = Field(description="When it was seen for the first time.")
    seen_at: Moment = Field(description="When it was seen last.")


class NodePage(NextPage):
    """Some nodes, by name."""

    nodes: tuple[Node, ...] = Field(description="The nodes.")
