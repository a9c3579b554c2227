"""The nodes that jobs run on, as they were last seen, on the wire."""

from pydantic import Field

from leasehold.service.api.fields import Name, PageSize, Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.models.jobs import SoftwareText
from leasehold.service.api.moments import show_moment, show_planned
from leasehold.service.store.rows import NodeRow

_NODE = {
    "name": "das3/node017", "site": "das3", "cores": 8, "free_cores": 6, "memory_mib": 16_384,
    "free_memory_mib": 12_288, "disk_mib": 200_000, "free_disk_mib": 180_000, "cpu_mhz": 2400,
    "bytes_per_s": 125_000_000, "software": ["gcc 12.2.0-14"], "packages": 1, "is_host": False, "runs": True,
    "problem": "", "fault": "", "failures": 1, "failed_at": A_MOMENT, "first_seen_at": A_MOMENT,
    "seen_at": A_MOMENT,
}  # fmt: skip


class NodeQuery(Asked):
    """Which nodes to list."""

    site: Name | None = Field(None, description="At this site.")
    software: list[SoftwareText] = Field(
        [], max_length=20, description="Which have all of this, with constraints: `gcc >= 12`."
    )
    brief: bool = Field(default=False, description="Whether to leave out what is installed.")
    limit: PageSize = Field(100, description="How many at most.")
    cursor: Text | None = Field(None, description="Where the page before ended: its `next`.")


class Node(Shown):
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
    cpu_mhz: int = Field(description="How fast its cores are; 0: not known.")
    bytes_per_s: int = Field(description="The bandwidth of its network; 0: not known.")
    software: list[str] = Field(description="What is installed, with versions; empty in a brief list.")
    packages: int = Field(description="How many pieces of software are installed.")
    is_host: bool = Field(description="Whether machines can be built on it.")
    runs: bool = Field(description="Whether jobs can run on it as it is.")
    problem: str = Field(description="Why nothing can run there now; empty: nothing is known against it.")
    fault: str = Field(description="As which fault that counts; empty: as none.")
    failures: int = Field(description="How often it failed since it was first seen.")
    failed_at: str | None = Field(description="When it failed last.")
    first_seen_at: str = Field(description="When it was seen for the first time.")
    seen_at: str = Field(description="When it was seen last.")


class NodePage(Shown):
    """Some nodes, by name."""

    nodes: list[Node] = Field(description="The nodes.")
    next: str | None = Field(description="The `cursor` of the next page; null: this was the last.")


def show_node(row: NodeRow, *, brief: bool) -> Node:
    """Show a node as it is in the store; a brief one without what is installed."""
    return Node(
        name=row.name,
        site=row.site,
        cores=row.cores,
        free_cores=row.free_cores,
        memory_mib=row.memory_mib,
        free_memory_mib=row.free_memory_mib,
        disk_mib=row.disk_mib,
        free_disk_mib=row.free_disk_mib,
        cpu_mhz=row.cpu_mhz,
        bytes_per_s=row.bytes_per_s,
        software=[] if brief else sorted(f"{name} {version}".rstrip() for name, version in row.software),
        packages=len(row.software),
        is_host=row.is_host,
        runs=row.runs,
        problem=row.problem,
        fault=row.fault,
        failures=row.failures,
        failed_at=show_planned(row.failed_ms),
        first_seen_at=show_moment(row.first_ms),
        seen_at=show_moment(row.seen_ms),
    )
