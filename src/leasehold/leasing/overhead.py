"""What does it cost to preempt a lease, as configured and as measured?

Saving, loading and moving a VM takes as long as its memory takes through a disk or a network
(JPDC 2012, section 5.2). The defaults give that section's figures for a VM of 1024 MiB behind a
100 Mbit/s link: 160 s to suspend, 126 s to resume, 372.5 s to migrate. Migration is suspending, sending
and resuming, plus a fixed 0.6 s: what the figure leaves over.

All results are whole milliseconds, rounded up: room is never promised too early.

`MeasuredOverheads` compares each time that was measured with the configured one (`OverheadModel`), because plans
are made of the answer: when the memory of a lease will be saved, whether a migration still meets a deadline, which
guests cost least to preempt.

The rule, for each kind of operation by itself. Of each of the last `REMEMBERED` measurements the ratio of
measured to configured time is taken, in millionths. To these come `PRIOR` ratios of exactly one: the
configuration has the weight of so many measurements. The *factor* is the smallest of all these ratios that
three in four of them do not exceed (the upper quartile by nearest rank; Hyndman and Fan, "Sample quantiles in
statistical packages", 1996, definition 1), and planned times are the configured ones times that factor,
rounded up.

What follows from it for plans:

- Constant times are met exactly, in the end. A site that is slower than configured is believed from the
  second measurement on, one that is faster from the ninth: room that is promised too early costs a promise,
  room that is promised too late only time.
- One outlier, however large, never is the factor: that stays within what was measured besides.
- Without measurements nothing changes, and old ones are forgotten.

Starts are measured too. Nothing is configured that they could be compared with: it is planned that machines
start within the upper quartile of what was measured (`MeasuredOverheads.usual_ms`), at once without measurements.
The time that a lease asked for begins when its machines were seen: what is planned for booting comes to it.

Whole numbers only: the same measurements in the same order give the same plans, on any machine and after any
restart.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from leasehold.model.errors import InvalidField
from leasehold.model.event import Operation
from leasehold.model.request import LeaseType

_MOST = 2**31
_MIB_PER_GIB = 1024
_BITS_PER_MIB = 8 * 2**20
_BITS_PER_MS_AT_ONE_MBPS = 1_000


class Storage(StrEnum):
    """Where VM images and saved memory lie, which says how many VMs of a lease wait for each other."""

    LOCAL = "local"
    """Each node has a disk of its own: nodes work side by side, the VMs of one node in turn."""

    SHARED = "shared"
    """One file system serves all nodes: the VMs of a lease are saved and loaded in turn."""


class Overheads(ABC):
    """The times that preempting a lease takes at a site, by the memory of each of its VMs."""

    __slots__ = ()

    @property
    @abstractmethod
    def terminate_ms(self) -> int:
        """How long it takes to end a Cancelable lease."""

    @abstractmethod
    def suspend_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until a lease of ``vms`` VMs has saved its memory."""

    @abstractmethod
    def resume_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it has loaded it again."""

    @abstractmethod
    def migrate_ms(self, memory_mib: int, vms: int = 1) -> int:
        """The time until it continues in another cluster: saved, sent, loaded there."""

    def preempt_ms(self, lease_type: LeaseType, memory_mib: int, vms: int = 1) -> int:
        """How long a lease of this type is held up in all by being preempted once.

        Raises InvalidField for a Non-preemptable lease, which never is.
        """
        match lease_type:
            case LeaseType.CANCELABLE:
                return self.terminate_ms
            case LeaseType.SUSPENDABLE:
                return self.suspend_ms(memory_mib, vms) + self.resume_ms(memory_mib, vms)
            case LeaseType.MIGRATABLE:
                return self.migrate_ms(memory_mib, vms)
            case LeaseType.NON_PREEMPTABLE:
                raise InvalidField("lease_type", lease_type.label, "a type that may be preempted")

    def cost_vm_ms(self, lease_type: LeaseType, memory_mib: int, vms: int) -> int:
        """What one preemption is charged, in VM-milliseconds: each VM for as long as the lease is held up."""
        return vms * self.preempt_ms(lease_type, memory_mib, vms)


@dataclass(frozen=True, slots=True)
class OverheadModel(Overheads):
    """These times as they are configured; raises InvalidField for a field that makes no sense.

    ``suspend_ms_per_gib``  to save 1 GiB of a VM's memory (160 s is 6.4 MiB/s)
    ``resume_ms_per_gib``   to load it again
    ``network_mbps``        the link to other clusters, in 10^6 bit/s
    ``migrate_fixed_ms``    of each migration, whatever its size
    ``terminate_ms``        to end a Cancelable lease; the paper neglects it
    ``vms_per_node``        how many VMs share the disk of a node, with local storage
    """

    suspend_ms_per_gib: int = 160_000
    resume_ms_per_gib: int = 126_000
    network_mbps: int = 100
    migrate_fixed_ms: int = 600
    terminate_ms: int = 0
    storage: Storage = Storage.LOCAL
    vms_per_node: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "storage":
                least = 1 if field.name in {"network_mbps", "vms_per_node"} else 0
                _check_whole(field.name, getattr(self, field.name), least)
        if not isinstance(self.storage, Storage):
            raise InvalidField("storage", self.storage, f"one of {', '.join(Storage)}")

    def suspend_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until a lease of ``vms`` VMs has saved its memory."""
        return self._in_turn(vms) * _per_gib(memory_mib, self.suspend_ms_per_gib)

    def resume_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it has loaded it again."""
        return self._in_turn(vms) * _per_gib(memory_mib, self.resume_ms_per_gib)

    def migrate_ms(self, memory_mib: int, vms: int = 1) -> int:
        """The time until it continues in another cluster: saved, sent, loaded there."""
        bits_per_ms = self.network_mbps * _BITS_PER_MS_AT_ONE_MBPS
        sending_ms = _divide_up(memory_mib * _BITS_PER_MIB, bits_per_ms)
        one_vm_ms = self.suspend_ms(memory_mib) + sending_ms + self.resume_ms(memory_mib)
        return self._in_turn(vms) * (one_vm_ms + self.migrate_fixed_ms)

    def _in_turn(self, vms: int) -> int:
        """How many VMs of a lease go one after another (packed: its nodes are full but for one)."""
        return vms if self.storage is Storage.SHARED else min(vms, self.vms_per_node)


def _per_gib(memory_mib: int, ms_per_gib: int) -> int:
    return _divide_up(memory_mib * ms_per_gib, _MIB_PER_GIB)


def _divide_up(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _check_whole(field: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
        raise InvalidField(field, value, f"a whole number from {least} to {_MOST}")


ONE = 1_000_000
"""A measured time that is just as configured, in millionths of it."""

REMEMBERED = 16
PRIOR = 3
_MOST_FACTOR = 1_000
"""A time that is further from the configured one, by this factor, counts as if it were just so far."""


PLANNED: dict[Operation, Callable[[Overheads, int, int], int]] = {
    Operation.SUSPEND: lambda overheads, memory_mib, vms: overheads.suspend_ms(memory_mib, vms),
    Operation.RESUME: lambda overheads, memory_mib, vms: overheads.resume_ms(memory_mib, vms),
    Operation.MIGRATE: lambda overheads, memory_mib, vms: overheads.migrate_ms(memory_mib, vms),
}
"""What is planned with, and where its time is to be found."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How long an operation took for all VMs of a lease, from the order until it was seen done."""

    memory_mib: int
    vms: int
    took_ms: int


def upper_quartile(values: Iterable[int]) -> int:
    """Give the smallest of these values that three in four of them do not exceed; there must be one."""
    ordered = sorted(values)
    return ordered[-(-3 * len(ordered) // 4) - 1]


class MeasuredOverheads:
    """What was measured at one site, compared with what is configured there."""

    def __init__(self, configured: OverheadModel) -> None:
        """Begin without measurements."""
        self.configured = configured
        self._measured = {operation: deque[Measurement](maxlen=REMEMBERED) for operation in Operation}
        self._usual_ms: dict[Operation, int | None] = {}
        """As far as it was asked for since the last measurement: each request asks, at each site."""

    def note(self, operation: Operation, measured: Measurement) -> None:
        """Take note of a measurement."""
        self._measured[operation].append(measured)
        self._usual_ms.pop(operation, None)

    def count(self, operation: Operation) -> int:
        """How many measurements there are that still count."""
        return len(self._measured[operation])

    def factor(self, operation: Operation) -> int:
        """How many millionths of the configured time are planned; `ONE` where none is configured."""
        return upper_quartile([*self.ratios(operation), *[ONE] * PRIOR])

    def usual_ms(self, operation: Operation) -> int | None:
        """How long three in four took at most, whatever was configured; None where there were none."""
        if operation not in self._usual_ms:
            times = self.times_ms(operation)
            self._usual_ms[operation] = upper_quartile(times) if times else None
        return self._usual_ms[operation]

    def times_ms(self, operation: Operation) -> list[int]:
        """Give how long each took that still counts, the oldest first."""
        return [measured.took_ms for measured in self._measured[operation]]

    def ratios(self, operation: Operation) -> list[int]:
        """Give how many millionths of the configured time each took; none where none is configured."""
        ratios = (self._ratio(operation, measured) for measured in self._measured[operation])
        return [ratio for ratio in ratios if ratio is not None]

    def overheads(self) -> Overheads:
        """Give what is to be planned with."""
        factors = {operation: self.factor(operation) for operation in PLANNED}
        return self.configured if set(factors.values()) == {ONE} else LearntOverheads(self.configured, factors)

    def _ratio(self, operation: Operation, measured: Measurement) -> int | None:
        if operation not in PLANNED:
            return None
        planned_ms = PLANNED[operation](self.configured, measured.memory_mib, measured.vms)
        if planned_ms == 0:
            return None  # nothing is configured that it could be compared with
        return max(ONE // _MOST_FACTOR, min(measured.took_ms * ONE // planned_ms, ONE * _MOST_FACTOR))

    # What outlives a restart

    def memory(self) -> dict[str, list[list[int]]]:
        """Give everything that was measured, as plain data for `recall`."""
        return {
            operation.value: [[one.memory_mib, one.vms, one.took_ms] for one in measured]
            for operation, measured in self._measured.items()
        }

    def recall(self, memory: Mapping[str, Sequence[Any]]) -> None:
        """Remember what `memory` gave; it is compared with what is configured now."""
        for operation, measured in self._measured.items():
            measured.extend(Measurement(*one) for one in memory.get(operation.value, ()))
        self._usual_ms.clear()


@dataclass(frozen=True, slots=True)
class LearntOverheads(Overheads):
    """The configured times, each kind of operation multiplied by its factor (in millionths)."""

    configured: OverheadModel
    factors: Mapping[Operation, int]

    @property
    def terminate_ms(self) -> int:
        """As configured: the duration of a termination is not measured."""
        return self.configured.terminate_ms

    def suspend_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until a lease of ``vms`` VMs has saved its memory."""
        return self._scaled(Operation.SUSPEND, memory_mib, vms)

    def resume_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it has loaded it again."""
        return self._scaled(Operation.RESUME, memory_mib, vms)

    def migrate_ms(self, memory_mib: int, vms: int = 1) -> int:
        """The time until it continues in another cluster."""
        return self._scaled(Operation.MIGRATE, memory_mib, vms)

    def _scaled(self, operation: Operation, memory_mib: int, vms: int) -> int:
        planned_ms = PLANNED[operation](self.configured, memory_mib, vms)
        return -(-planned_ms * self.factors[operation] // ONE)
