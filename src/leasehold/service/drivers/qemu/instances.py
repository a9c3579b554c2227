"""The instances of a site: what QEMU's driver keeps of each lease, and what orders change of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from leasehold.service.drivers.protocol import Capabilities, Order, Phase, Problem, Verb
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.reconciler.instances import Instance, Instances
from leasehold.service.drivers.reconciler.order_rules import Action, decide, no_room_for
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
class QemuInstance(Instance):
    """The machines of one lease, and how far they are.

    ``hardware``      of each machine; None where that is not known yet
    ``progress``      of each machine
    ``is_listening``  while it is received: memory can be copied into its machines
    ``has_arrived``   and has been, completely
    ``is_stopping``   it was stopped, and is being removed
    """

    hardware: VmHardware | None = None
    memory: MemoryPlace = MemoryPlace.MACHINES
    progress: tuple[GuestProgress, ...] = ()
    from_site: str = ""
    is_listening: bool = False
    has_arrived: bool = False
    to_site: str = ""
    handover: Handover = Handover.NONE
    is_stopping: bool = False

    @property
    def folder(self) -> str:
        """The name of the folder with its files."""
        return f"{self.lease_id}.{self.generation}"

    @property
    def is_leaving(self) -> bool:
        """Whether it is on its way out."""
        return self.is_stopping or bool(self.to_site)

    @property
    def is_observed(self) -> bool:
        """Whether it is reported; one on its way to another site is reported there."""
        return self.is_stopping or not self.to_site

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
    ``source``    for a RECEIVE: the instance at the site that it comes from, if that was told to send it
    """

    hardware: VmHardware | Problem | None = None
    memory: Problem | None = None
    source: QemuInstance | None = None


class QemuInstances(Instances[QemuInstance]):
    """The instances of a site in memory, and what orders change of them. Nothing here touches a machine."""

    def __init__(
        self,
        slots: int,
        capabilities: Capabilities,
        instances: Iterable[QemuInstance] = (),
        tombstones: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(instances, tombstones)
        self._slots = slots
        self._capabilities = capabilities

    @property
    def free_slots(self) -> int:
        """How many slots are not taken."""
        return self._slots - self.used_vms

    def of_lease(self, lease_id: int) -> list[QemuInstance]:
        """List the instances of a lease, those on their way out too."""
        return [one for one in self.all() if one.lease_id == lease_id]

    def changed_by(self, order: Order, action: Action) -> list[QemuInstance]:
        """List what an order changes: the current instance; a STOP also ends what is being sent."""
        current = None if action is Action.NOTHING else self.current(order.lease_id)
        sent = self._being_sent(order) if order.verb is Verb.STOP else []
        return sent if current is None else [current, *sent]

    def decide(self, order: Order, prechecks: Prechecks) -> Action | Problem:
        """Decide what is done with an order."""
        current, tombstone = self.current(order.lease_id), self.tombstone(order.lease_id)

        def refuse(action: Action) -> Problem | None:
            vms = current.vms if current is not None else order.vms
            problem = no_room_for(vms, self.used_vms, self._slots)
            return problem or _refused(action, order, prechecks)

        return decide(order, current, tombstone, self._capabilities, refuse)

    def follow(self, order: Order, prechecks: Prechecks, now_ms: int) -> Problem | None:
        """Follow an order; gives why it is refused."""
        action = self.decide(order, prechecks)
        if isinstance(action, Problem):
            return action
        if order.verb is Verb.STOP:
            for one in self._being_sent(order):
                one.is_stopping = True
                self.touch(one)
        current = self.current(order.lease_id)
        if action in {Action.CREATE, Action.RECEIVE}:
            new = _new_instance(order, prechecks, now_ms)
            self.add(new)
            self.report(new)
        elif action in {Action.SEND, Action.STOP}:
            self._let_go(order, action)
        elif current is not None:
            self._change(current, action, order, now_ms)
        return None

    def _change(self, current: QemuInstance, action: Action, order: Order, now_ms: int) -> None:
        if action is Action.SAVE:
            self.become(current, Phase.SAVING, now_ms)
        elif action is Action.RESUME:
            current.incarnation = order.incarnation
            self.become(current, Phase.RESUMING, now_ms)
        elif action is Action.END_AGAIN:
            self.end_again(current, order.incarnation, now_ms)

    def _let_go(self, order: Order, action: Action) -> None:
        instance = self.bury(order.lease_id, order.incarnation)
        self.drop_news(order.lease_id)
        if instance is not None and action is Action.STOP:
            instance.is_stopping = True
        elif instance is not None:
            is_at_rest = instance.is_over or instance.memory is MemoryPlace.FILES
            instance.handover = Handover.PARCEL if is_at_rest else Handover.LIVE
            instance.incarnation, instance.to_site = order.incarnation, order.other_site

    def _being_sent(self, order: Order) -> list[QemuInstance]:
        """List what a STOP meets on its way to another site, before it is handed over."""
        return [
            one
            for one in self.of_lease(order.lease_id)
            if one.to_site and one.incarnation <= order.incarnation and not one.is_handed_over
        ]


def _refused(action: Action, order: Order, prechecks: Prechecks) -> Problem | None:
    if action is Action.RESUME:
        return prechecks.memory
    if action is Action.RECEIVE and prechecks.source is None:
        return Problem(f"site {order.other_site} was not told to send lease {order.lease_id} yet")
    return prechecks.hardware if isinstance(prechecks.hardware, Problem) else None


def _new_instance(order: Order, prechecks: Prechecks, now_ms: int) -> QemuInstance:
    source = prechecks.source
    if order.verb is Verb.RECEIVE and source is not None:
        received = QemuInstance.ordered(
            order,
            Phase.RECEIVING,
            now_ms,
            hardware=source.hardware,
            memory=MemoryPlace.ELSEWHERE,
            progress=source.progress,
            from_site=order.other_site,
        )
        received.vms, received.command = source.vms, source.command
        return received
    progress = (GuestProgress(),) * order.vms
    return QemuInstance.ordered(order, Phase.STARTING, now_ms, hardware=prechecks.hardware, progress=progress)


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
        return next((one for one in theirs if one.to_site and one.incarnation == incarnation), None)

    def receiving(self, lease_id: int, generation: int) -> tuple[QemuInstance | None, int]:
        """Find an instance that came there as that generation, and the tombstone of its lease there."""
        found = self._read(lease_id)
        return next((one for one in found.instances if one.generation == generation), None), found.tombstone

    def _read(self, lease_id: int | None) -> Neighbour[QemuInstance]:
        return read_neighbour(self.folder, QemuInstance, lease_id, file=FILE) or Neighbour({}, [])
