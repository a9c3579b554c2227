"""Which nodes does an emulated site have? Unlike ones as configured, or one like the others for each VM."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from leasehold.configuration.keys import MOST_SLOTS, Keys
from leasehold.matching.software import installed
from leasehold.matching.versions import version
from leasehold.model.errors import InvalidField

_PREFIX = "n"


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    """One node, as it is when nothing is wrong with it."""

    name: str
    cores: int = 4
    memory_mib: int = 16_384
    disk_mib: int = 100_000
    cpu_mhz: int = 2_400
    software: frozenset[tuple[str, str]] = frozenset()


def usual_nodes(slots: int) -> tuple[EmulatedNode, ...]:
    """Give the nodes of a site whose configuration says nothing of them."""
    return tuple(EmulatedNode(f"{_PREFIX}{number}") for number in range(1, slots + 1))


def read_nodes(keys: Keys) -> tuple[EmulatedNode, ...]:
    """Read the tables ``[[cluster.emulated.nodes]]``; none where there are none.

    The keys: ``name``, to which a number is added where ``count`` is more than 1, and the fields of
    `EmulatedNode`, with software as ``["gcc 12.2", "python3 3.11.2"]``. Raises InvalidField for what makes no
    sense, also for two nodes of one name.
    """
    numbers = count(1)
    nodes: list[EmulatedNode] = []
    for table in keys.tables("nodes"):
        nodes += _read_alike(table, numbers)
        table.done()
        _refuse_doubles(nodes, table.where("name"))
    return tuple(nodes)


def _read_alike(table: Keys, numbers: Iterator[int]) -> list[EmulatedNode]:
    """Read one table, and give as many nodes as it says."""
    usual = EmulatedNode("")
    many, name = table.whole("count", 1, most=MOST_SLOTS), table.text("name", "")
    pattern = EmulatedNode(
        "",
        cores=table.whole("cores", usual.cores),
        memory_mib=table.whole("memory_mib", usual.memory_mib),
        disk_mib=table.whole("disk_mib", usual.disk_mib, least=0),
        cpu_mhz=table.whole("cpu_mhz", usual.cpu_mhz, least=0),
        software=_software(table),
    )
    own = (f"{_PREFIX}{next(numbers)}" for _ in range(many))
    named = [name] if many == 1 else [f"{name}{number}" for number in range(1, many + 1)]
    return [_called(one, pattern) for one in (named if name else own)]


def _called(name: str, like: EmulatedNode) -> EmulatedNode:
    return EmulatedNode(name, like.cores, like.memory_mib, like.disk_mib, like.cpu_mhz, like.software)


def _software(table: Keys) -> frozenset[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in table.texts("software", ()):
        name, _, number = text.strip().partition(" ")
        if number:
            with table.at("software"):
                version(number.strip())
        pairs.append((name, number.strip()))
    return installed(pairs)


def _refuse_doubles(nodes: Sequence[EmulatedNode], field: str) -> None:
    names = [node.name for node in nodes]
    for name in names:
        if names.count(name) > 1 or "/" in name:
            raise InvalidField(field, name, "a name that no other node has, without a /")
