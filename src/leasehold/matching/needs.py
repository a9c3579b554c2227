"""What does a job need of each node, and by when must it be done?"""

from dataclasses import dataclass, field

from leasehold.matching.devices import Devices, devices_of, have_room, in_order
from leasehold.matching.software import Software
from leasehold.model.errors import InvalidField
from leasehold.model.request import GPU_MILLI


@dataclass(frozen=True, slots=True)
class Amounts:
    """Whole cores, MiB of memory, MiB of disk, and GPUs: thousandths of each device, the most first.

    Raises InvalidField for less than nothing.
    """

    cores: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gpus: Devices = ()

    def __post_init__(self) -> None:
        """Refuse less than nothing."""
        for name, value in (
            ("cores", self.cores),
            ("memory_mib", self.memory_mib),
            ("disk_mib", self.disk_mib),
            ("gpus", self.gpus[-1] if self.gpus else 0),
        ):
            if value < 0:
                raise InvalidField(name, value, "at least 0")

    def holds(self, other: "Amounts") -> bool:
        """Whether there is at least as much of each part, and for each GPU of the other one of its own."""
        return (
            other.memory_mib <= self.memory_mib
            and other.cores <= self.cores
            and other.disk_mib <= self.disk_mib
            and (not other.gpus or have_room(self.gpus, other.gpus))
        )

    def __add__(self, other: "Amounts") -> "Amounts":
        """Give both, beside each other: their parts of GPUs may be of the same devices, or of others."""
        return Amounts(
            self.cores + other.cores,
            self.memory_mib + other.memory_mib,
            self.disk_mib + other.disk_mib,
            in_order(self.gpus + other.gpus) if self.gpus and other.gpus else self.gpus or other.gpus,
        )


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that must be where the job runs. Raises InvalidField for a negative size."""

    name: str
    size_bytes: int
    place: str
    """Where it lies now: the name of a place that the `Network` knows."""
    address: str = ""
    """How it was described there, where that says more than its place and name."""
    sha256: str = ""
    """Of its content, where it is stored at the gateway, which brings it to where the job runs."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.size_bytes < 0:
            raise InvalidField(f"size_bytes of {self.name}", self.size_bytes, "at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What each of a job's nodes must have, how long it takes there, and what it reads.

    ``amounts``       cores, MiB of memory and of disk, and GPUs that it uses on each node
    ``gpu_model``     the model of these GPUs; "" for any
    ``cpu_mhz``       how fast the cores must be at least
    ``execution_ms``  how long it is thought to run on cores that fast; it is not scaled for faster ones
    ``nodes``         on how many different nodes at once
    ``need``          how many of them must be left for it to go on when nodes fail (k of n); 0: all of them
    ``outputs``       names of the files that are kept of what its command leaves in its working folder

    Raises InvalidField for what no job can ask.
    """

    amounts: Amounts
    execution_ms: int
    nodes: int = 1
    cpu_mhz: int = 0
    software: tuple[Software, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    need: int = 0
    outputs: tuple[str, ...] = ()
    gpu_model: str = ""

    def __post_init__(self) -> None:
        """Refuse what no job can ask."""
        for name, value, least in (
            ("execution_ms", self.execution_ms, 1),
            ("nodes", self.nodes, 1),
            ("cpu_mhz", self.cpu_mhz, 0),
        ):
            if value < least:
                raise InvalidField(name, value, f"at least {least}")
        if not 0 <= self.need <= self.nodes:
            raise InvalidField("need", self.need, f"at most the number of nodes, {self.nodes}; 0: all of them")
        if self.amounts.gpus != devices_of(self.gpu_milli):
            raise InvalidField("gpus", self.amounts.gpus, "whole GPUs, or a fraction of one, in thousandths")
        if self.gpu_model and not self.amounts.gpus:
            raise InvalidField("gpus", 0, f"more than 0, of the model {self.gpu_model}")

    @property
    def gpu_milli(self) -> int:
        """How much of GPUs it uses on each node, in thousandths, as leases have it."""
        return sum(self.amounts.gpus)

    @property
    def shares_gpu(self) -> bool:
        """Whether it uses a fraction of a GPU: not all nodes lend these."""
        return 0 < self.gpu_milli < GPU_MILLI

    @property
    def has_files(self) -> bool:
        """Whether files are brought to where it runs, or kept from there: not all sites take them."""
        return bool(self.outputs) or any(file.sha256 for file in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request with needs. Raises InvalidField for a deadline that is not after its submission."""

    job_id: int
    submitted_ms: int
    needs: Needs
    deadline_ms: int | None = None
    allowance_ms: int | None = field(init=False)
    """From submission to the deadline: what queues compare, since it does not change while a job waits."""

    def __post_init__(self) -> None:
        """Work out the allowance."""
        allowance_ms = None if self.deadline_ms is None else self.deadline_ms - self.submitted_ms
        if allowance_ms is not None and allowance_ms <= 0:
            raise InvalidField("deadline_ms", self.deadline_ms, "a time after its submission")
        object.__setattr__(self, "allowance_ms", allowance_ms)
