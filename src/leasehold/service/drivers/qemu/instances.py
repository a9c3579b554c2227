"""The instances of a site: what QEMU's driver keeps of each lease, and what orders change of it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from leasehold.service.drivers.protocol import Order, Phase, Problem
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.reconciler.desired import Desired, DesiredInstance, DesiredState
from leasehold.service.drivers.reconciler.order_rules import Action, Refuse
from leasehold.service.drivers.reconciler.store import InstanceStore, Neighbour, read_neighbour

FILE = "qemu.sqlite3"
"""The name of the store in the driver's folder."""


class MemoryPlace(StrEnum):
    """Where the memory is that counts; any other copy is not to be used."""

    MACHINES = "machines"
    FILES = "files"
    ELSEWHERE = "elsewhere"
    """At the site that it comes from, until that site hands it over."""


class Handover(StrEnum):
    """How far an instance is on its way to another site; only the site that it leaves says so.

    LIVE     the machines run here, and their memory is copied while they do
    PARCEL   that was not possible: they are paused and their memory is saved to files
    READY    these are complete, and wait here to be linked
    HANDED   everything is at the other site, which may continue; nothing of it ever runs here again
    """

    NONE = ""
    LIVE = "live"
    PARCEL = "parcel"
    READY = "ready"
    HANDED = "handed"


HANDED_OVER = frozenset({Handover.READY, Handover.HANDED})


@dataclass(frozen=True, slots=True)
class GuestProgress:
    """How far one machine is.

    ``is_up``        it has booted, once, and its command may have been started
    ``job``          the guest agent's number of the command, None where that is not known
    ``exit_status``  of its command, None where it has not ended
    """

    is_up: bool = False
    job: int | None = None
    exit_status: int | None = None


@dataclass(slots=True, kw_only=True)
class QemuInstance(DesiredInstance):
    """The machines of one lease, and how far they are.

    ``hardware``      of each machine; None where that is not known yet
    ``progress``      of each machine
    ``is_listening``  while it is received: memory can be copied into its machines
    ``has_arrived``   and has been, completely
    """

    hardware: VmHardware | None = None
    memory: MemoryPlace = MemoryPlace.MACHINES
    progress: tuple[GuestProgress, ...] = ()
    is_listening: bool = False
    has_arrived: bool = False
    handover: Handover = Handover.NONE

    @property
    def folder(self) -> str:
        """The name of the folder with its files."""
        return f"{self.lease_id}.{self.generation}"

    @property
    def is_handed_over(self) -> bool:
        """Whether the other site may continue it, and what is here are only files and their record."""
        return self.handover in HANDED_OVER

    @property
    def is_awaited(self) -> bool:
        """Whether it waits to be handed over by the site that it comes from."""
        return self.memory is MemoryPlace.ELSEWHERE and self.phase is not Phase.FAILED

    @property
    def room_vms(self) -> int:
        """How many slots it takes: none on its way out, as the planner gives its room away at once."""
        return 0 if self.is_leaving else super(QemuInstance, self).room_vms

    @property
    def command_status(self) -> int | None:
        """The exit status of its command: of the first machine on which it failed; None where none is known."""
        statuses = [one.exit_status for one in self.progress if one.exit_status is not None]
        return next(filter(None, statuses), 0) if statuses else None

    def set_progress(self, number: int, **changes: Any) -> None:  # noqa: ANN401 - fields of GuestProgress
        """Change the progress of one machine."""
        one = replace(self.progress[number], **changes)
        self.progress = (*self.progress[:number], one, *self.progress[number + 1 :])


@dataclass(frozen=True, slots=True)
class Prechecks:
    """What was found out before an order is decided on, as that takes time.

    ``hardware``  for a START: of its machines, or why there can be none
    ``memory``    for a RESUME: why its memory has no room on this computer just now
    ``source``    for a RECEIVE: the instance at the site that it comes from, if that was ordered to send it
    """

    hardware: VmHardware | Problem | None = None
    memory: Problem | None = None
    source: QemuInstance | None = None

    def refuse(self, action: Action, order: Order) -> Problem | None:
        """Say why an instance cannot come; None where it can."""
        if action is Action.RESUME:
            return self.memory
        if action is Action.RECEIVE and self.source is None:
            return Problem(f"site {order.other_site} was not ordered to send lease {order.lease_id} yet")
        return self.hardware if isinstance(self.hardware, Problem) else None

    def fields(self, order: Order) -> dict[str, Any]:
        """Give the fields of a new instance."""
        if self.source is None:
            return {"hardware": self.hardware, "progress": (GuestProgress(),) * order.vms}
        names = ("vms", "command", "hardware", "progress")
        return {"memory": MemoryPlace.ELSEWHERE} | {name: getattr(self.source, name) for name in names}


class QemuInstances(DesiredState[QemuInstance]):
    """The instances of a site in memory."""

    def let_go(self, instance: QemuInstance) -> None:
        """Choose how an instance is handed over that is to be sent: live, unless it is at rest."""
        if instance.desired is Desired.AWAY:
            is_at_rest = instance.is_over or instance.memory is MemoryPlace.FILES
            instance.handover = Handover.PARCEL if is_at_rest else Handover.LIVE

    def refuses(self, order: Order, prechecks: Prechecks) -> Refuse:
        """Say why the instance of an order cannot come."""
        return lambda action: self.no_room_for(order) or prechecks.refuse(action, order)


# Their durable record, and those of the other sites of the same gateway


def open_store(folder: Path) -> InstanceStore[QemuInstance]:
    """Open the store of a site; raises InputError, see `InstanceStore`."""
    return InstanceStore(folder, QemuInstance, "virtual machines", file=FILE)


@dataclass(frozen=True, slots=True)
class OtherSite:
    """The store of another site, which only that site writes to; read as it is at each call."""

    folder: Path

    def instances(self) -> list[QemuInstance]:
        """Read all of its instances."""
        return self._read(None).instances

    def sending(self, lease_id: int, incarnation: int) -> QemuInstance | None:
        """Find an instance there that is, or was, on its way to another site; None where there is none."""
        theirs = self._read(lease_id).instances
        return next((one for one in theirs if one.desired is Desired.AWAY and one.incarnation == incarnation), None)

    def receiving(self, lease_id: int, generation: int) -> tuple[QemuInstance | None, int]:
        """Find an instance that came there as that generation, and the tombstone of its lease there."""
        found = self._read(lease_id)
        return next((one for one in found.instances if one.generation == generation), None), found.tombstone

    def _read(self, lease_id: int | None) -> Neighbour[QemuInstance]:
        return read_neighbour(self.folder, QemuInstance, lease_id, file=FILE) or Neighbour({}, [])
