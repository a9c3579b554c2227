"""Small jobs, nodes and graphs: every test says only what matters to it."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from leasehold.matching.assignment import Edge
from leasehold.matching.devices import devices_of
from leasehold.matching.needs import Amounts, InputFile, Job, Needs
from leasehold.matching.nodes import Node, NodeCapabilities
from leasehold.matching.software import installed, software


def make_job(
    job_id: int = 1,
    *,
    cores: int = 1,
    memory_mib: int = 100,
    disk_mib: int = 0,
    cpu_mhz: int = 0,
    needs: str = "",
    nodes: int = 1,
    execution_ms: int = 1_000,
    submitted_ms: int = 0,
    deadline_ms: int | None = None,
    inputs: tuple[InputFile, ...] = (),
    outputs: tuple[str, ...] = (),
    gpu_milli: int = 0,
    gpu_model: str = "",
) -> Job:
    wanted = Needs(
        amounts=Amounts(cores, memory_mib, disk_mib, devices_of(gpu_milli)),
        gpu_model=gpu_model,
        execution_ms=execution_ms,
        nodes=nodes,
        cpu_mhz=cpu_mhz,
        software=tuple(software(one) for one in needs.split(";") if one),
        inputs=inputs,
        outputs=outputs,
    )
    return Job(job_id=job_id, submitted_ms=submitted_ms, needs=wanted, deadline_ms=deadline_ms)


def make_node(
    name: str = "n1",
    *,
    cores: int = 4,
    memory_mib: int = 1_000,
    disk_mib: int = 1_000,
    free: Amounts | None = None,
    cpu_mhz: int = 2_000,
    has: dict[str, str] | None = None,
    place: str = "here",
    bytes_per_s: int = 125_000_000,
    waiting_ms: int = 0,
    seen_ms: int = 0,
    takes_files: bool = True,
    gpus: int = 0,
    gpu_model: str = "",
    gpu_shares: int = 1,
    gets_images: bool = True,
) -> Node:
    able = NodeCapabilities(
        name=name,
        total=Amounts(cores, memory_mib, disk_mib, devices_of(1_000 * gpus)),
        cpu_mhz=cpu_mhz,
        software=installed((has or {}).items()),
        place=place,
        bytes_per_s=bytes_per_s,
        takes_files=takes_files,
        gets_images=gets_images,
        gpu_model=gpu_model,
        gpu_shares=gpu_shares,
    )
    left = able.total if free is None else free
    return Node(capabilities=able, free=left, waiting_ms=waiting_ms, seen_ms=seen_ms)


@dataclass(frozen=True, slots=True)
class ListedGraph:
    """A graph whose edges are written down."""

    listed: Mapping[int, list[Edge]]

    def edges(self, job: Job, taken: Container[str]) -> Iterator[Edge]:
        return (edge for edge in sorted(self.listed.get(job.job_id, ())) if edge.node not in taken)
