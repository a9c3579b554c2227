"""What drivers may be able to do beside carrying out orders: describe nodes, build images, keep the output of commands.

Each is a protocol of its own beside `leasehold.service.drivers.protocol.Driver`.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from leasehold.matching.devices import Devices, can_be_free
from leasehold.model.errors import InvalidField
from leasehold.model.resources import MODEL_NAME
from leasehold.service.drivers.bounds import LATEST_MS, one_line, storable, whole_in
from leasehold.service.drivers.protocol import PlacementConstraints, Problem

MOST_OUTPUT = 4 * 1024 * 1024
"""How many characters of what a command wrote are passed on."""

_NODE_NUMBERS = (
    "cores",
    "memory_mib",
    "disk_mib",
    "free_cores",
    "free_memory_mib",
    "free_disk_mib",
    "cpu_mhz",
    "bytes_per_s",
    "gpus",
    "gpu_shares",
)


@dataclass(frozen=True, slots=True)
class Output:
    """What the command of a lease wrote: what is kept of it, and whether that is all.

    ``error``  what it wrote to its standard error, where that is kept apart; elsewhere it is in ``text``

    No more than the last 4 MiB of each are; what no store can keep, as a NUL, is replaced.
    """

    text: str
    is_whole: bool = True
    error: str = ""

    def __post_init__(self) -> None:
        for name in ("text", "error"):
            wrote: str = getattr(self, name)
            if len(wrote) > MOST_OUTPUT:
                object.__setattr__(self, "is_whole", False)
            object.__setattr__(self, name, storable(wrote[-MOST_OUTPUT:]))


@runtime_checkable
class HasOutput(Protocol):
    """A driver that keeps what commands write, apart from what else is on a console."""

    async def output(self, lease_id: int) -> Output:
        """Return it; also for some time after the lease has ended. Empty where nothing is known of the lease."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Where the user of a lease can log in to one of its machines by SSH.

    ``machine``  its number among those of the lease
    ``user``     whom to log in as; empty: the user that the image is made for
    """

    machine: int
    host: str
    port: int = 22
    user: str = ""


@runtime_checkable
class LetsIn(Protocol):
    """A driver that lets the user of a lease in by the key of its order, as its `Capabilities.login` says."""

    async def access(self, lease_id: int) -> list[Access]:
        """Say where, of each machine that can be reached now; empty where nobody is let in."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node as the driver has found it, just now.

    ``name``        what the site itself calls it; of machines that are built on it, that of their host
    ``software``    what is installed there: names in small letters with their versions
    ``is_host``     whether machines can be built on it
    ``runs``        whether commands can run on it as it is
    ``problem``     why nothing can run there now ("" for nothing)
    ``fault``       which `leasehold.jobs.job.Fault` that is; empty for one that harms nothing, as draining
    ``vm_cores``    how many cores a VM has whose lease names no node
    ``comes_up``    whether it comes up by itself as soon as something starts there, although it has a problem now
    ``unknown``     what could not be found out about it, and why; none of that is among the facts
    ``bytes_per_s`` the bandwidth of its network, 0 where that is not known
    ``takes_files`` whether files can be brought to it and kept from it; of a driver's own nodes its kind says so
    ``gpus``        how many GPUs it lends, all of one ``gpu_model``, and in how many ``gpu_shares`` each, as
                    `leasehold.model.resources.NodeResources` has it
    ``free_gpus``   what is unused of each of them, the most first, as `leasehold.matching.devices` has it
    """

    name: str
    cores: int
    memory_mib: int
    disk_mib: int
    free_cores: int
    free_memory_mib: int
    free_disk_mib: int
    cpu_mhz: int = 0
    software: frozenset[tuple[str, str]] = frozenset()
    is_host: bool = False
    runs: bool = True
    problem: str = ""
    fault: str = ""
    vm_cores: int = 1
    comes_up: bool = False
    unknown: str = ""
    bytes_per_s: int = 0
    takes_files: bool = True
    gpu_model: str = ""
    gpus: int = 0
    gpu_shares: int = 1
    free_gpus: Devices = ()

    def __post_init__(self) -> None:
        for name in _NODE_NUMBERS:
            if whole_in(getattr(self, name), 0, LATEST_MS) is None:
                raise InvalidField(f"node {self.name!r:.60}: {name}", getattr(self, name), "a size that can be")
        if bool(self.gpus) != bool(MODEL_NAME.fullmatch(self.gpu_model)):
            expected = "the name of a model, such as a100, where it has GPUs"
            raise InvalidField(f"node {self.name!r:.60}: gpu_model", self.gpu_model, expected)
        if not can_be_free(self.free_gpus, self.gpus, max(1, self.gpu_shares)):
            expected = f"whole shares of each of its {self.gpus} GPUs in thousandths, the most first"
            raise InvalidField(f"node {self.name!r:.60}: free_gpus", self.free_gpus, expected)
        for name in ("problem", "unknown"):
            object.__setattr__(self, name, one_line(getattr(self, name)))


@runtime_checkable
class HasNodes(Protocol):
    """A driver that can say which nodes its site has, and what they can do."""

    async def nodes(self) -> list[NodeFacts]:
        """Observe all nodes; raises where the site does not answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """One image that machines of the site can be built with.

    ``least_memory_mib``  what its own system needs beside the job
    """

    name: str
    software: frozenset[tuple[str, str]]
    size_bytes: int
    least_memory_mib: int


@dataclass(frozen=True, slots=True)
class Buildable:
    """From which image others can be built, and the packages that could be put into one, with versions."""

    base: str
    packages: frozenset[tuple[str, str]]


@runtime_checkable
class HasImages(Protocol):
    """A driver whose machines boot from images of which it is known what software is in them."""

    async def images(self) -> list[ImageFacts]:
        """List the images that are there."""
        ...


@runtime_checkable
class BuildsImages(HasImages, Protocol):
    """A driver that can build more of them."""

    async def buildable(self) -> Buildable | None:
        """Say what could be built; None where nothing can be, as without a package repository."""
        ...

    async def build(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        """Build an image with these packages, or find it where it was built before.

        Raises LeaseholdError with one line that says why it cannot be built, and where its log is.
        """
        ...


def not_one_per_node(constraints: PlacementConstraints, vms: int) -> Problem | None:
    """Say why so many VMs cannot be on the nodes that are named: there is one on each."""
    named = len(constraints.nodes)
    if not named or (named == vms and len(set(constraints.nodes)) == vms):
        return None
    return Problem(f"{vms} VMs cannot be on the nodes {', '.join(constraints.nodes)}, one on each", again=False)


def too_few(node: NodeFacts, what: str, needed: int, there: int, free: int) -> Problem | None:
    """Say why so much of something cannot be had on a node, never or not now; None where it can."""
    if needed > there:
        return Problem(f"{node.name} has {there} {what}, and {needed} are needed", again=False)
    if needed > free:
        return Problem(f"{free} of {there} {what} are free on {node.name}, and {needed} are needed", full=True)
    return None
