"""What a scenario says about jobs that state their needs, ``[[job]]``, and about nodes, ``[[cluster.nodes]]``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Annotated

from leasehold.configuration.declaration import Choice, Plain, Seconds, Table, Text, Texts, Whole
from leasehold.configuration.keys import MOST_SLOTS, Keys
from leasehold.configuration.tables import GpusOfNode, NodeGpus
from leasehold.matching.software import Installed, installed, software, version
from leasehold.model.errors import InvalidField
from leasehold.model.request import LEASE_TYPES, LeaseType
from leasehold.model.resources import NodeResources


class InstalledSoftware(Texts):
    """Names with versions behind them; of some there is none."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the texts, and check the versions."""
        texts = super().read(keys, name, default)
        with keys.at(name):
            if isinstance(texts, tuple):
                installed_software(texts)
        return texts


class NeededSoftware(Texts):
    """Names with constraints behind them."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the texts, and check the constraints."""
        texts = super().read(keys, name, default)
        with keys.at(name):
            if isinstance(texts, tuple):
                for text in texts:
                    software(text)
        return texts


def installed_software(texts: Iterable[str]) -> Installed:
    """Read names of installed software, with versions behind them or without."""
    pairs = [text.strip().partition(" ") for text in texts]
    for called, _, number in pairs:
        if not called:
            raise InvalidField("software", called, "a name, or a name and its version, such as gcc 12.2")
        if number:
            version(number.strip())
    return installed((called, number.strip()) for called, _, number in pairs)


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes of a cluster that differ only in their names."""

    count: Annotated[int, Whole("number of nodes of this kind", most=MOST_SLOTS)] = 1
    cores: Annotated[int, Whole("cores of each node")] = 4
    memory_mib: Annotated[int, Whole("memory of each node")] = 16_384
    disk_mib: Annotated[int, Whole("disk of each node", least=0)] = 100_000
    cpu_mhz: Annotated[int, Whole("clock rate of each node", least=0)] = 2_400
    software: Annotated[
        tuple[str, ...], InstalledSoftware("installed software", more=', such as `["gcc 12.2", "avx2"]`')
    ] = ()
    gpus: Annotated[NodeGpus | None, GpusOfNode("GPUs of each node", unset="none")] = None

    def resources(self, numbers: Iterator[int]) -> Iterator[NodeResources]:
        """Give as many nodes as it says, as a plan by nodes counts them."""
        gpus = self.gpus or NodeGpus("", 0)
        for _ in range(self.count):
            yield NodeResources(f"n{next(numbers)}", self.cores, self.memory_mib, gpus.model, gpus.count, gpus.shares)


NODES = Table(NodeKind, "Nodes of a cluster that differ only in their names.")


@dataclass(frozen=True, slots=True)
class JobEntry:
    """Jobs that differ only in their submission."""

    at_ms: Annotated[int, Seconds("submission of the first job")]
    runs_ms: Annotated[int, Seconds("time that its command runs", least_ms=1)]
    estimate_ms: Annotated[int | None, Seconds("estimate of its user", unset="`runs_s`", least_ms=1)] = None
    count: Annotated[int, Whole("number of such jobs", most=1_000_000)] = 1
    every_ms: Annotated[int, Seconds("time between their submissions")] = 0
    nodes: Annotated[int, Whole("number of nodes that a job runs on at the same time", most=MOST_SLOTS)] = 1
    need: Annotated[
        int, Whole("number of them that must be left for it to go on when nodes fail; 0: all", least=0, most=MOST_SLOTS)
    ] = 0
    cores: Annotated[int, Whole("cores on each of them")] = 1
    memory_mib: Annotated[int, Whole("memory on each of them", least=0)] = 256
    disk_mib: Annotated[int, Whole("disk on each of them", least=0)] = 0
    cpu_mhz: Annotated[int, Whole("minimum clock rate of each of them", least=0)] = 0
    software: Annotated[
        tuple[str, ...], NeededSoftware("software that each of them must have", more=', such as `["gcc >= 12"]`')
    ] = ()
    within_ms: Annotated[int | None, Seconds("deadline, from the submission", unset="none", least_ms=1)] = None
    type: Annotated[str, Choice("type of its leases", of=LEASE_TYPES)] = LeaseType.SUSPENDABLE.label
    restarts: Annotated[int, Whole("maximum number of restarts after faults", least=0, most=1_000)] = 3
    consumer: Annotated[str, Text("consumer")] = "jobs"


JOB = Table(JobEntry, "Jobs that state what they need.")


def read_nodes(keys: Keys) -> tuple[NodeKind, ...]:
    """Read ``[[cluster.nodes]]``; nothing where a cluster says nothing of them."""
    return tuple(NODES.read(table) for table in keys.tables("nodes"))


def read_jobs(keys: Keys) -> tuple[JobEntry, ...]:
    """Read ``[[job]]``."""
    return tuple(JOB.read(table) for table in keys.tables("job"))


def resources_of(nodes: Iterable[NodeKind]) -> tuple[NodeResources, ...]:
    """Give the nodes of one cluster as a plan by nodes counts them."""
    numbers = count(1)
    return tuple(node for kind in nodes for node in kind.resources(numbers))


def nodes_to_dict(nodes: Iterable[NodeKind]) -> Plain:
    """Give the key ``nodes`` of a cluster; nothing where it has none."""
    return {"nodes": listed} if (listed := [NODES.to_dict(one) for one in nodes]) else {}
