"""What a driver is: it is given orders, carries each out at most once, and reports what it observes.

The service never trusts that an order was carried out: an order is confirmed when its effect is observed. A driver is
therefore free to be slow, to fail and to be killed; it must only be honest.

`leasehold.testing.drivers` is the conformance suite that every driver passes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

from leasehold.configuration.declaration import Flag, Table
from leasehold.jobs.job import Fault
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.errors import InvalidField
from leasehold.model.resources import NodeResources, Placed
from leasehold.service.drivers.bounds import LATEST_MS, MOST_EXIT_STATUS, one_line, whole_in
from leasehold.service.drivers.staging import NO_FILES, JobFiles

_FAULTS = tuple(fault.value for fault in Fault)


class Verb(StrEnum):
    """What is to be done with the machines of one lease.

    START     boot them and run the command
    SUSPEND   save their memory, and free their room
    RESUME    bring them back from saved memory; what ended before it could be saved has ended once more
    RECEIVE   take them over from ``other_site``, with their memory
    SEND      let ``other_site`` have them; nothing of them stays here
    STOP      shut them down, whatever they are doing; nothing of them stays here
    """

    START = "start"
    SUSPEND = "suspend"
    RESUME = "resume"
    RECEIVE = "receive"
    SEND = "send"
    STOP = "stop"


class Phase(StrEnum):
    """What the machines of one lease are doing; where there is nothing of it, nothing is observed."""

    STARTING = "starting"
    RUNNING = "running"
    SAVING = "saving"
    SAVED = "saved"
    RESUMING = "resuming"
    RECEIVING = "receiving"
    ENDED = "ended"
    """Its command has ended by itself, well or not (``detail`` says how); observed until a STOP for it."""
    FAILED = "failed"
    """Its machines are lost, or could not do what was ordered; observed until a STOP for it."""


REACHES: dict[Verb, frozenset[Phase]] = {
    Verb.START: frozenset({Phase.RUNNING, Phase.ENDED}),
    Verb.SUSPEND: frozenset({Phase.SAVED}),
    Verb.RESUME: frozenset({Phase.RUNNING, Phase.ENDED}),
    Verb.RECEIVE: frozenset({Phase.RUNNING, Phase.ENDED}),
    Verb.SEND: frozenset(),
    Verb.STOP: frozenset(),
}
"""The phases in which an order is fulfilled; where none is named, there must be nothing of the lease."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can do; the scheduler plans no lease that needs more.

    ``suspend``     save memory and resume (Suspendable and Migratable leases need it)
    ``migrate``     move machines with their memory to another site (Migratable leases need it)
    ``checkpoint``  save memory without stopping
    ``commands``    run a command in the machines
    ``notice``      tell a guest that it will be preempted, by a signal or a file; the driver is a `GivesNotice`
    ``hands_over``     saved memory can go to machines under another manager, and come from there
    ``images``         the names of the images that a lease may name
    ``login``          let the user of a lease log in to its machines by a key
    ``native_queue``   the site's own users ask the machines' own scheduler, and the driver is a `HasNativeQueue`
    """

    suspend: Annotated[bool, Flag("memory can be saved")] = True
    migrate: Annotated[bool, Flag("machines can be migrated")] = True
    checkpoint: bool = False
    commands: Annotated[bool, Flag("commands can be run")] = True
    native_queue: bool = False
    notice: bool = False
    hands_over: bool = False
    images: tuple[str, ...] = ()
    login: bool = False


CAPABILITIES = Table(Capabilities, "Capabilities of machines.")
"""What a configuration may say of them."""


@dataclass(frozen=True, slots=True)
class PlacementConstraints:
    """On which nodes and with which image the machines of a lease are made, as matching has chosen them.

    ``nodes``  the names that the site itself has for the nodes to run on, one for each VM; empty: any
    ``image``  the name of the image to boot from; empty: the site's default
    ``cores``  of each machine; 0: as many as the site gives
    ``gpu_model``, ``gpu_milli``  the GPUs of each machine, in thousandths; "" for any model
    ``placed``  where the plan has put them, at a site that is planned by nodes: several VMs may share a node
    ``least``  with how many of its nodes left the command goes on when others fail; 0: with all of them
    """

    nodes: tuple[str, ...] = ()
    image: str = ""
    cores: int = 0
    gpu_model: str = ""
    gpu_milli: int = 0
    placed: Placed = ()
    least: int = 0

    def node_of_each(self) -> tuple[str, ...]:
        """Name the node of each VM; empty where any will do."""
        return self.nodes or tuple(name for name, machines, _ in self.placed for _ in range(machines))


NO_CONSTRAINTS = PlacementConstraints()


@dataclass(frozen=True, slots=True)
class Order:
    """One thing to be done, once. The same ``id`` again means the same order, repeated.

    ``incarnation``  counts the starts, resumptions and moves of a lease. An order for an earlier one than
                     what is there is out of date and does nothing.
    ``command``      what to run in the machines; empty: just the machines
    ``work_done``    how much of the lease's work was done before, in work units (ms times MIPS)
    ``other_site``   where to SEND it to, or to RECEIVE it from
    ``constraints``  where its machines are placed and what they boot from, where its job says so
    ``files``        inputs that its command finds, and outputs that are kept
    ``account``      whose lease it is, from the VO down to the user: ``atlas/production/alice``
    ``ssh_key``      the public key by which its user logs in to the machines; empty: nobody does
    ``notify``       how its guest is told before it is preempted: the name of a signal (``SIGUSR1``), `NOTICE_FILE`,
                     the address of a webhook, or "" for not at all
    ``notice_ms``    for how long this order was held back so that the guest could be told; 0: it was not
    """

    id: str
    verb: Verb
    lease_id: int
    incarnation: int
    vms: int
    memory_mib: int
    command: tuple[str, ...] = ()
    work_done: int = 0
    other_site: str = ""
    constraints: PlacementConstraints = NO_CONSTRAINTS
    files: JobFiles = NO_FILES
    account: str = ""
    notify: str = ""
    notice_ms: int = 0
    ssh_key: str = ""


NOTICE_FILE = "file"
SIGNAL = "SIG"
"""How the name of a signal begins."""


def order_id(lease_id: int, incarnation: int, verb: Verb) -> str:
    """Name an order: each verb comes once for each time that a lease holds machines."""
    return f"{lease_id}.{incarnation}.{verb}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an order could not be taken on.

    ``again``  whether a retry may help
    ``full``   whether all that it needs is there, and taken now: nothing is broken
    ``nodes``  which of the nodes that the order names are full, where it is these
    ``fault``  which fault of the job it is (`leasehold.jobs.job.Fault`), "" where it is the site's
    """

    text: str
    again: bool = True
    full: bool = False
    nodes: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the machines of one lease are doing, since when (ms of the service's clock).

    Raises InvalidField for a number that no store can keep: what machines say has to be bounded where it is read
    (`leasehold.service.drivers.bounds`). ``detail`` is made one line fit to be shown.
    """

    lease_id: int
    incarnation: int
    phase: Phase
    since_ms: int
    detail: str = ""
    exit_status: int | None = None
    """How the command ended, where the phase is ENDED and that is known."""
    fault: str = ""
    """Which `leasehold.jobs.job.Fault` it was, where the phase is FAILED, or ENDED for want of software."""
    nodes: tuple[str, ...] = ()
    """On which node each VM is, by the names that the site has for them; empty where that is not known."""
    checkpointed_ms: int = 0
    """When its guest last said from inside its machines that it has saved its work; 0: never."""

    def __post_init__(self) -> None:
        for name in ("lease_id", "incarnation", "since_ms", "checkpointed_ms"):
            _check_whole(name, getattr(self, name), LATEST_MS)
        if self.exit_status is not None:
            _check_whole("exit_status", self.exit_status, MOST_EXIT_STATUS)
        if self.fault and self.fault not in _FAULTS:
            raise InvalidField("fault", self.fault, f"one of {', '.join(_FAULTS)}")
        object.__setattr__(self, "detail", one_line(self.detail))


def _check_whole(name: str, value: object, most: int) -> None:
    if whole_in(value, 0, most) != value:
        raise InvalidField(name, f"{value!r:.40}", f"a whole number from 0 to {most}")


NOT_FOUND = 127
"""What every shell, and so every driver here, answers for a command that is not there."""


def fault_of_exit(status: int | None) -> str:
    """Say as which fault of its place an exit status counts; empty where it is the command's own affair."""
    return Fault.SOFTWARE_GONE.value if status == NOT_FOUND else ""


@dataclass(frozen=True, slots=True)
class NativeJob:
    """One job that a user of the site has given to the site's own scheduler, as that scheduler reports it.

    ``name``         what the scheduler calls it, as ``4711`` or ``4711_3``; a requeued job keeps it
    ``vms``          how much room it takes, in VMs, rounded up
    ``duration_ms``  how long it may run at most
    ``running``      whether it holds its room now; else it waits for room, and for nothing else
    ``cores``, ``gpu_model``, ``gpu_milli``  of each of its VMs, at a site that is planned by nodes, with ``nodes``: on
                     which of them it runs, in order, and how many VMs on each; empty where that is not known
    """

    name: str
    user: str
    vms: int
    memory_mib: int
    duration_ms: int
    running: bool
    cores: int = 1
    gpu_model: str = ""
    gpu_milli: int = 0
    nodes: tuple[tuple[str, int], ...] = ()


@runtime_checkable
class HasNativeQueue(Protocol):
    """A driver of machines that have a scheduler of their own, whose users change nothing."""

    async def native_jobs(self) -> list[NativeJob]:
        """List the native jobs that run now, or wait for nothing but room; guests' jobs are none of them.

        In the order in which the scheduler would start them. Raises where the scheduler does not answer.
        """
        ...


class GivesNotice(Protocol):
    """A driver that can tell a guest, in its machines, that it will be preempted."""

    async def notify(self, order: Order, until_ms: int) -> None:
        """Tell the guest of this order, which will come at ``until_ms`` (Unix ms), as its ``notify`` says.

        May be called again for the same order. Raises where the guest could not be told: it is preempted all the same.
        """
        ...


Clock = Callable[[], int]
"""Tells the time in Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class DriverSetup:
    """What a driver is made from: one site, and a place for its files.

    ``slots``           how many VMs there is room for
    ``speed_mips``      how much work its machines do in a millisecond
    ``reference_mips``  and a machine on which a request takes as long as it says
    ``overhead``        how long saving, loading and moving memory is planned to take here
    ``folder``          for this driver's own files alone; made when it is not there
    ``options``         what the configuration says to this kind of driver, unchecked
    ``nodes``           the nodes by which the site is planned; none: by ``slots``
    ``private``         the service's folders, which nothing that runs in machines may enter
    """

    site: str
    slots: int
    speed_mips: int
    reference_mips: int
    overhead: OverheadModel
    folder: Path
    clock: Clock
    options: Mapping[str, object] = field(default_factory=dict)
    private: tuple[Path, ...] = ()
    nodes: tuple[NodeResources, ...] = ()


class Driver(Protocol):
    """Carries orders out on one site's machines."""

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        ...

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence; those taken on are durable when this returns.

        Returns the problems by the id of the order; orders without one were taken on. Nothing is raised for what
        machines do; whatever is raised counts as a transient problem of each order.
        """
        ...

    async def observe(self) -> list[Observation]:
        """Observe everything that is there, now."""
        ...

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and return it; the wait may be cancelled."""
        ...

    async def console(self, lease_id: int) -> str:
        """Return the console output of a lease's machines; empty where there is none."""
        ...

    async def close(self) -> None:
        """Close connections and files; the machines keep running."""
        ...
