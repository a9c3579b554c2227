"""What a kind of machines has to be able to do, and what the state of machines means for their instance.

A driver subclasses `Provider`. It has to say `observe()` and `act(step)`; the rest has defaults, which compare the
observed state with the desired one, and may be overridden.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.facts import Access, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, Order, Phase, Problem, fault_of_exit
from leasehold.service.drivers.reconciler.desired import Desired, DesiredInstance
from leasehold.service.drivers.reconciler.instances import Key


@dataclass(slots=True, kw_only=True)
class MachineInstance(DesiredInstance):
    """An instance whose machines the reconciler looks after.

    ``created``          whether something may have been created of them
    ``came_up``          whether all of them ran once, or may have been sent: none is created again after that
    ``cores``            of each machine; 0: as many as the site gives
    ``command_started``  whether their command was started, and whatever else has to be done in them before
    """

    created: bool = False
    came_up: bool = False
    command_started: bool = False
    cores: int = 0

    @property
    def never_existed(self) -> bool:
        """Whether there is nothing of it, here or on its way."""
        return not (self.created or self.came_up or self.from_site)


class MachineState(StrEnum):
    """The observed state of one machine."""

    PENDING = "pending"
    """On its way to being up, or stopped for a moment."""
    ARRIVING = "arriving"
    """Still being received from another site: it may yet come to nothing, and be sent again."""
    READY = "ready"
    """Up, and waiting for `Step.RUN`."""
    UP = "up"
    LEAVING = "leaving"
    """On its way to being saved, or to being gone."""
    SAVED = "saved"
    FINISHED = "finished"
    """Its command has ended, and `Step.FETCH` is still to be done."""
    ENDED = "ended"
    FAILED = "failed"


class Seen(NamedTuple):
    """An observation of one machine, before it is assigned to an instance."""

    state: MachineState
    detail: str = ""
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine as it is observed.

    ``key``          the instance to which it belongs
    ``handle``       what its provider calls it
    ``exit_status``  of its command, where it has ended and that is known
    ``takes_room``   whether it takes the place of another on the same hardware
    ``node``         what the site calls the computer that it is on; empty where that is not known
    """

    key: Key
    handle: str
    state: MachineState
    detail: str = ""
    exit_status: int | None = None
    takes_room: bool = True
    node: str = ""


class Step(StrEnum):
    """One thing to be done to all machines of an instance; doing it again where it is done does nothing."""

    CREATE = "create"
    RESUME = "resume"
    RUN = "run"
    """Do in them what has to be done there, as letting their user in, and start their command, if they have one."""
    FETCH = "fetch"
    """Keep the files that their command has left."""
    SAVE = "save"
    AWAIT = "await"
    """Check whether they may still come from another site."""
    SEND = "send"
    REMOVE = "remove"


class PermanentError(LeaseholdError):
    """A step will never succeed; the instance has failed."""


class MachineFailed(PermanentError):
    """A machine is lost, or cannot do what was ordered; says why."""


class Unfinished(Exception):
    """A step has done a part of its work, and will do more when it is taken again; nothing went wrong."""


class TransientError(LeaseholdError):
    """The whole site has to be left alone for a while, because its hypervisor or cloud says so."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the state of its machines means for an instance."""

    phase: Phase
    detail: str = ""
    exit_status: int | None = None

    @property
    def fault(self) -> str:
        """The fault of its place that an exit status stands for."""
        return fault_of_exit(self.exit_status)


class Provider(ABC):
    """One kind of machines, used from several threads at once.

    An error is raised: `PermanentError`, `TransientError`, or anything else, which is retried with a backoff for that
    instance alone.
    """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What these machines can do."""

    @abstractmethod
    def observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        """Observe every machine of this site, known or not; ``instances`` are those that should be there."""

    @abstractmethod
    def act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Take a step; ``machines`` are those of the instance as they were observed last."""

    def next_step(self, instance: MachineInstance, machines: Sequence[Machine]) -> Step | None:
        """Choose the step that brings an instance nearer to its desired state; None: none is needed, or helps."""
        return next_step(instance, machines)

    def refuse(self, order: Order, instances: Sequence[MachineInstance]) -> Problem | None:  # noqa: ARG002 - for those that need it
        """Say why the machines of an order cannot be made, whose nodes are not chosen by those who order them."""
        if order.constraints.nodes:
            return Problem(f"there is no node {order.constraints.nodes[0]} here", again=False)
        return None

    def nodes(self, instances: Sequence[MachineInstance], free_slots: int) -> list[NodeFacts]:  # noqa: ARG002 - for those that need it
        """Describe the nodes that jobs may choose from, with so many slots free."""
        return []

    def images(self) -> list[ImageFacts]:
        """Describe the images of which it is known what software is in them."""
        return []

    def status_of(self, instance: MachineInstance, machines: Sequence[Machine]) -> Status:
        """Say what its machines mean for an instance that is not leaving."""
        return status_of(instance, machines)

    def console(self, instance: MachineInstance) -> str:  # noqa: ARG002 - for those that have consoles
        """Return what its machines have written."""
        return ""

    def output(self, instance: MachineInstance) -> Output:  # noqa: ARG002 - for those that keep it apart
        """Return what its command has written."""
        return Output("")

    def access(self, instance: MachineInstance) -> list[Access]:  # noqa: ARG002 - for those that let users in
        """Say where the user of an instance can log in to its machines."""
        return []

    def close(self) -> None:  # noqa: B027 - for those that have something to close
        """Close connections; the machines keep running."""


# observed state

_UP = frozenset({MachineState.UP, MachineState.FINISHED, MachineState.ENDED})
_HAS_BOOTED = _UP | {MachineState.READY}
_RUNS_ON = frozenset(
    {MachineState.UP, MachineState.FINISHED, MachineState.READY, MachineState.PENDING, MachineState.ARRIVING}
)


def have_booted(instance: MachineInstance, machines: Sequence[Machine]) -> bool:
    """Whether all of its machines have booted, though something may still have to be done in them."""
    return _all_are(machines, instance, _HAS_BOOTED)


def status_of(instance: MachineInstance, machines: Sequence[Machine]) -> Status:
    """Say what its machines mean for an instance; one that is leaving, or over, stays as it is."""
    if instance.is_leaving or instance.is_over:
        return _unchanged(instance)
    failed = next((machine for machine in machines if machine.state is MachineState.FAILED), None)
    if failed is not None:
        return Status(Phase.FAILED, failed.detail)
    if instance.came_up and len(machines) < instance.vms:
        return Status(Phase.FAILED, f"{instance.vms - len(machines)} of {instance.vms} machines are lost")
    if instance.vms and _all_are(machines, instance, frozenset({MachineState.ENDED})):
        return _ended(instance, machines)
    return _desired_up(instance, machines) if instance.desired is Desired.UP else _desired_saved(instance, machines)


def _unchanged(instance: MachineInstance) -> Status:
    return Status(instance.phase, instance.detail, instance.exit_status)


def _ended(instance: MachineInstance, machines: Sequence[Machine]) -> Status:
    """The first machine that has something to say speaks for all."""
    for machine in machines:
        if machine.exit_status:
            return Status(Phase.ENDED, f"exit status {machine.exit_status}", machine.exit_status)
        if machine.detail:
            return Status(Phase.ENDED, machine.detail)
    return Status(Phase.ENDED, "", 0 if instance.command else None)


def _desired_up(instance: MachineInstance, machines: Sequence[Machine]) -> Status:
    if _all_are(machines, instance, _UP):
        return Status(Phase.RUNNING)
    if instance.phase is Phase.RUNNING and any(machine.state is MachineState.SAVED for machine in machines):
        return Status(Phase.RESUMING, "its memory was saved by other means than an order")
    return _unchanged(instance)


def _desired_saved(instance: MachineInstance, machines: Sequence[Machine]) -> Status:
    states = {machine.state for machine in machines}
    is_saved = len(machines) == instance.vms and not any(map(_has_to_be_saved, machines))
    if instance.never_existed or (is_saved and MachineState.LEAVING not in states):
        return Status(Phase.SAVED)
    return _unchanged(instance)


def _has_to_be_saved(machine: Machine) -> bool:
    """Also one whose command has ended, if it would otherwise keep its room."""
    return machine.state in _RUNS_ON or (machine.state is MachineState.ENDED and machine.takes_room)


def _all_are(machines: Sequence[Machine], instance: MachineInstance, states: frozenset[MachineState]) -> bool:
    return len(machines) == instance.vms and all(machine.state in states for machine in machines)


def nodes_of(instance: MachineInstance, machines: Sequence[Machine]) -> tuple[str, ...]:
    """Say on which node each machine is; empty while one is missing, or its node is not known."""
    nodes = tuple(machine.node for machine in machines)
    return nodes if len(nodes) == instance.vms and all(nodes) else ()


# desired state


def next_step(  # noqa: PLR0911 - a list of cases
    instance: MachineInstance, machines: Sequence[Machine]
) -> Step | None:
    """Choose the step that brings an instance nearer to its desired state."""
    if instance.desired is Desired.GONE:
        return Step.REMOVE if machines else None
    if instance.is_over and instance.desired is not Desired.AWAY:
        return None
    if len(machines) < instance.vms and not instance.came_up:
        return _bring_in(instance)
    states = {machine.state for machine in machines}
    if instance.desired is Desired.AWAY:
        return Step.SEND if machines and MachineState.ARRIVING not in states else None
    if instance.desired is Desired.SAVED:
        return Step.SAVE if any(map(_has_to_be_saved, machines)) else None
    if MachineState.SAVED in states:
        return Step.RESUME
    if MachineState.FINISHED in states:
        return Step.FETCH
    # Of all at once: that it was done is known of the instance, and not of each machine.
    return Step.RUN if MachineState.READY in states and states <= _HAS_BOOTED else None


def _bring_in(instance: MachineInstance) -> Step | None:
    """Machines that are still to come are created, or come from elsewhere; what never existed may stay so."""
    if instance.desired is Desired.SAVED and instance.never_existed:
        return None
    return Step.AWAIT if instance.from_site else Step.CREATE
