"""What the configuration says of an emulated site: its nodes, what its machines can do, and its faults."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Annotated

from leasehold.configuration.declaration import Below, Flag, Key, Plain, Seconds, Table, Text, Whole, Within
from leasehold.configuration.keys import MOST_SLOTS, NOTHING, Keys
from leasehold.configuration.tables import ImageNames
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.errors import InvalidField
from leasehold.model.resources import NodeResources
from leasehold.service.drivers.emulated.fault_injection import FAULTS, Faults
from leasehold.service.drivers.emulated.images import BUILDING, ImageBuilding
from leasehold.service.drivers.images import SoftwareTexts
from leasehold.service.drivers.protocol import CAPABILITIES, Capabilities

_PREFIX = "n"


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    """One node, as it is when nothing is wrong with it; on a host, jobs run in machines that are built there."""

    name: str
    cores: int = 4
    memory_mib: int = 16_384
    disk_mib: int = 100_000
    cpu_mhz: int = 2_400
    software: frozenset[tuple[str, str]] = frozenset()
    gpu_model: str = ""
    gpus: int = 0
    gpu_shares: int = 1
    is_host: bool = False

    @property
    def shares(self) -> int:
        """In how many shares each of its GPUs is counted."""
        return max(1, self.gpu_shares)


def planned_nodes(nodes: Iterable[NodeResources]) -> tuple[EmulatedNode, ...]:
    """Give the nodes by which a site is planned; of those without a limit on memory there is plenty."""
    return tuple(
        EmulatedNode(
            one.name,
            one.cores,
            one.memory_mib or _PLENTY_MIB,
            gpu_model=one.gpu_model,
            gpus=one.gpus,
            gpu_shares=one.gpu_shares,
        )
        for one in nodes
    )


_PLENTY_MIB = 1 << 30


def default_nodes(slots: int) -> tuple[EmulatedNode, ...]:
    """Give the nodes of a site whose configuration says nothing of them."""
    return tuple(EmulatedNode(f"{_PREFIX}{number}") for number in range(1, slots + 1))


@dataclass(frozen=True, slots=True)
class AlikeNodes:
    """Nodes that differ in their names only, as a file has them."""

    count: Annotated[int, Whole("number of nodes of this kind", most=MOST_SLOTS)] = 1
    name: Annotated[
        str,
        Text("name, with a number appended if there are several", unset="`n1`, `n2`, …"),
    ] = ""
    cores: Annotated[int, Whole("cores of each node")] = 4
    memory_mib: Annotated[int, Whole("memory of each node")] = 16_384
    disk_mib: Annotated[int, Whole("disk of each node", least=0)] = 100_000
    cpu_mhz: Annotated[int, Whole("clock rate of each node", least=0)] = 2_400
    software: Annotated[
        frozenset[tuple[str, str]], SoftwareTexts("installed software", more=', such as `["gcc 12.2", "avx2"]`')
    ] = frozenset()
    host: Annotated[
        bool,
        Flag(
            "jobs run in machines that are built on it, not on the node itself",
            more=", from [the images of the site](#clusteremulatedbuilding)",
        ),
    ] = False

    def each(self, numbers: Iterator[int]) -> list[EmulatedNode]:
        """Give as many nodes as it says; those without a name are numbered."""
        own = (f"{_PREFIX}{next(numbers)}" for _ in range(self.count))
        named = [self.name] if self.count == 1 else [f"{self.name}{one + 1}" for one in range(self.count)]
        rest = (self.cores, self.memory_mib, self.disk_mib, self.cpu_mhz, self.software)
        return [EmulatedNode(one, *rest, is_host=self.host) for one in (named if self.name else own)]


ALIKE = Table(AlikeNodes, "Nodes that differ only in their names.")


class _Nodes(Key):
    """The tables ``[[cluster.emulated.nodes]]``, held as the nodes that they say."""

    accepts = "list of tables"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent list is empty
        """Take the list; raises InvalidField also for two nodes of one name."""
        numbers = count(1)
        nodes: list[EmulatedNode] = []
        for table in keys.tables(name):
            nodes += ALIKE.read(table).each(numbers)
            _refuse_doubles(nodes, table.where("name"))
        return tuple(nodes)

    def write(self, value: Iterable[EmulatedNode]) -> list[Plain]:
        """Give a table for each node."""
        return [
            ALIKE.to_dict(
                AlikeNodes(1, one.name, one.cores, one.memory_mib, one.disk_mib, one.cpu_mhz, one.software, one.is_host)
            )
            for one in value
        ]


NODES = _Nodes(
    "its nodes; absent: one for each VM",
    more=". They are [tables of their own](#clusteremulatednodes)",
)


class _Building(Below):
    """The table ``[cluster.emulated.building]``; a site without it builds nothing."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the table, if it is there."""
        return super().read(keys, name, NOTHING) if name in keys else default


def _refuse_doubles(nodes: Sequence[EmulatedNode], field: str) -> None:
    names = [node.name for node in nodes]
    for name in names:
        if names.count(name) > 1 or "/" in name:
            raise InvalidField(field, name, "a name that no other node has, without a /")


@dataclass(frozen=True, slots=True)
class EmulatedOptions:
    """The options of one site."""

    boot_ms: Annotated[int, Seconds("boot time")] = 0
    audit_lines: Annotated[int, Whole("lines of its audit log of machine use that are stored")] = 1_000_000
    capabilities: Annotated[Capabilities, Within("capabilities of its machines", CAPABILITIES)] = field(
        default_factory=Capabilities
    )
    nodes: Annotated[tuple[EmulatedNode, ...], NODES] = ()
    images: Annotated[
        tuple[str, ...], ImageNames("images that a lease may name", more="; they are names, and change nothing")
    ] = ()
    building: Annotated[
        ImageBuilding | None,
        _Building(
            "images that it builds for jobs",
            unset="none",
            more=", and from what: [a table of its own](#clusteremulatedbuilding)",
            table=BUILDING,
        ),
    ] = None
    faults: Annotated[Faults, Within("faults and their probabilities", FAULTS)] = field(default_factory=Faults)

    @property
    def able(self) -> Capabilities:
        """What its machines can do."""
        able = self.capabilities
        return replace(able, images=self.images, notice=True, hands_over=able.migrate)


OPTIONS = Table(EmulatedOptions, "Capabilities and faults of its emulated machines.")


def read_options(options: Mapping[str, object]) -> EmulatedOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    return OPTIONS.read(Keys(options))


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machines of one site.

    ``slots``           how many VMs run at the same time
    ``speed_mips``      how much work each does in a millisecond
    ``reference_mips``  and a machine of the reference speed, on which ``sleep 1`` takes a second
    ``overhead``        how long saving, loading and moving memory takes
    ``boot_ms``         how long booting takes; the planner counts on no time at all
    ``capabilities``    what they can do: it may be less than emulation could, to try that out
    ``nodes``           what they run on; none: what a site has whose configuration says nothing of them
    ``building``        what images can be built from; None where none are
    """

    slots: int
    speed_mips: int
    reference_mips: int
    overhead: OverheadModel
    boot_ms: int = 0
    capabilities: Capabilities = field(default_factory=Capabilities)
    nodes: tuple[EmulatedNode, ...] = ()
    building: ImageBuilding | None = None

    def wall_ms(self, work: int) -> int:
        """How long this much work takes, rounded up to whole milliseconds."""
        return -(-work // self.speed_mips)
