"""On which hosts should a job's virtual machines be built?

Rule: a host must have room for the machine, that is the job's cores, memory and disk and what the image needs
beside, and must be fast enough; with image and files there, built and booted, the job must end before its
deadline. Of these, the n with the least time until the job can begin: waiting and transfer of image and
files. Of equal times the host with less free memory, then the one with more bandwidth, then by name. A
job of n nodes gets n different hosts.

Source: Thamarai Selvi et al., section 4.4 (i): "memory required for creating VM for the job and also the
RAM of the resource", and the job transfer time. That both have to fit at once is a reading.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from leasehold.matching.assignment.graph import Edge
from leasehold.matching.capabilities import Node
from leasehold.matching.images import Image, Recipe
from leasehold.matching.needs import InputFile, Job
from leasehold.matching.network import Network
from leasehold.matching.satisfying import Moment, judge_machine
from leasehold.matching.verdict import Answer, Verdict, Why, never, wait


@dataclass(frozen=True, slots=True)
class Making:
    """What it takes to make a machine, besides room.

    ``boot_ms``      from the start of a machine until the job can begin in it
    ``image_store``  the place that images are fetched from where a host's place has none
    """

    boot_ms: int = 30_000
    image_store: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Hosts for all machines of a job, or a verdict that says why there are none."""

    hosts: tuple[Edge, ...] = ()
    verdict: Verdict | None = None


def find_hosts(
    job: Job,
    image: Image | Recipe,
    hosts: Iterable[Node],
    network: Network,
    moment: Moment,
    making: Making,
    *,
    warm: frozenset[str] = frozenset(),
) -> Found:
    """Choose the hosts; where there are too few, say whether that is *never here* or *not now*.

    ``warm`` are hosts on which a machine with the image still runs: the others take longer by a boot.
    """
    found, verdicts = judge_hosts(job, image, hosts, network, moment, making)
    edges = _warm_first(found, warm, making) if warm else found
    if len(edges) >= job.needs.nodes:
        return Found(tuple(edges[: job.needs.nodes]))
    return Found(verdict=_why_none(verdicts, job.needs.nodes))


def _warm_first(edges: Iterable[Edge], warm: frozenset[str], making: Making) -> list[Edge]:
    cold_ms = making.boot_ms
    return sorted(edge if edge.node in warm else edge._replace(weight_ms=edge.weight_ms + cold_ms) for edge in edges)


def judge_hosts(
    job: Job, image: Image | Recipe, hosts: Iterable[Node], network: Network, moment: Moment, making: Making
) -> tuple[list[Edge], dict[str, Verdict]]:
    """Give all hosts that would do now, the best first, and what is said of each that was asked."""
    machine = machine_for(job, image, making)
    verdicts: dict[str, Verdict] = {}
    edges = []
    for host in hosts:
        transfer_ms = network.transfer_ms(
            _files(job, image, host, making), host.capabilities.place, host.capabilities.bytes_per_s
        )
        verdicts[host.name] = judge_machine(machine, host, transfer_ms, moment)
        if verdicts[host.name].answer is Answer.FIT:
            edges.append(_edge(host, transfer_ms))
    return sorted(edges), verdicts


def machine_for(job: Job, image: Image | Recipe, making: Making) -> Job:
    """Give what the machine needs of its host: the job's amounts and the image's, and the time to be made."""
    base, build_ms = (image, 0) if isinstance(image, Image) else (image.base, image.build_ms)
    needs = replace(
        job.needs,
        amounts=job.needs.amounts + base.needs,
        execution_ms=job.needs.execution_ms + making.boot_ms + build_ms,
        software=(),
    )
    return replace(job, needs=needs)


def _files(job: Job, image: Image | Recipe, host: Node, making: Making) -> list[InputFile]:
    base = image if isinstance(image, Image) else image.base
    if host.capabilities.place in base.at:
        return [*job.needs.inputs]
    return [*job.needs.inputs, InputFile(base.name, base.size_bytes, making.image_store)]


def _edge(host: Node, transfer_ms: int) -> Edge:
    able = host.capabilities
    return Edge(transfer_ms + host.waiting_ms, host.free.memory_mib, -able.bytes_per_s, host.name)


def _why_none(verdicts: Mapping[str, Verdict], nodes: int) -> Verdict:
    """Say never where too few hosts could do it even when empty, else what the first other lacks."""
    later = [verdict for _, verdict in sorted(verdicts.items()) if verdict.answer is not Answer.NEVER]
    if len(later) < nodes:
        late = any(verdict.why is Why.DEADLINE_TOO_TIGHT for verdict in verdicts.values())
        return never(Why.DEADLINE_TOO_TIGHT if late else Why.NO_HOST)
    return next(wait(verdict.why) for verdict in later if verdict.answer is Answer.WAIT)
