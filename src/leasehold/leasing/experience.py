"""What do saving, loading and moving machines really take here?

The question matters because plans are made of the answer: when the memory of a lease will be saved, whether
a migration still meets a deadline, which guests cost least to preempt. The configuration gives a first
answer (`leasehold.leasing.overhead.OverheadModel`); each time that was measured is compared with it.

The rule, for each kind of operation by itself. Of each of the last `REMEMBERED` measurements the ratio of
measured to configured time is taken, in millionths. To these come `PRIOR` ratios of exactly one: the
configuration has the weight of so many measurements. The *factor* is the smallest of all these ratios that
three in four of them do not exceed (the upper quartile by nearest rank; Hyndman and Fan, "Sample quantiles in
statistical packages", 1996, definition 1), and planned times are the configured ones times that factor,
rounded up.

What follows from it, for whoever plans:

- Constant times are met exactly, in the end. A site that is slower than configured is believed from the
  second measurement on, one that is faster from the ninth: room that is promised too early costs a promise,
  room that is promised too late only time.
- One outlier, however large, never is the factor: that stays within what was measured besides.
- Without measurements nothing changes, and old ones are forgotten.

Starts are measured too. Nothing is configured that they could be compared with: it is planned that machines
start within the upper quartile of what was measured (`Experience.usual_ms`), at once without measurements.
The time that a lease asked for begins when its machines were seen: what is planned for booting comes to it.

Whole numbers only: the same measurements in the same order give the same plans, on any machine and after any
restart.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.leasing.overhead import OverheadModel, Overheads
from leasehold.model.event import Operation

ONE = 1_000_000
"""A measured time that is just as configured, in millionths of it."""

REMEMBERED = 16
PRIOR = 3
_WITHIN = 1_000
"""A time that is further from the configured one, by this factor, counts as if it were just so far."""


PLANNED: dict[Operation, Callable[[Overheads, int, int], int]] = {
    Operation.SUSPEND: lambda overheads, memory_mib, vms: overheads.suspend_ms(memory_mib, vms),
    Operation.RESUME: lambda overheads, memory_mib, vms: overheads.resume_ms(memory_mib, vms),
    Operation.MIGRATE: lambda overheads, memory_mib, vms: overheads.migrate_ms(memory_mib, vms),
}
"""What is planned with, and where its time is to be found."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How long an operation took for all VMs of a lease, from when they were told until it was seen done."""

    memory_mib: int
    vms: int
    took_ms: int


def upper_quartile(values: Iterable[int]) -> int:
    """Give the smallest of these values that three in four of them do not exceed; there must be one."""
    ordered = sorted(values)
    return ordered[-(-3 * len(ordered) // 4) - 1]


class Experience:
    """What was measured at one site, compared with what is configured there."""

    def __init__(self, told: OverheadModel) -> None:
        """Begin without measurements."""
        self.told = told
        self._measured = {operation: deque[Measurement](maxlen=REMEMBERED) for operation in Operation}

    def note(self, operation: Operation, measured: Measurement) -> None:
        """Take note of a measurement."""
        self._measured[operation].append(measured)

    def count(self, operation: Operation) -> int:
        """How many measurements there are that still count."""
        return len(self._measured[operation])

    def factor(self, operation: Operation) -> int:
        """How many millionths of the configured time are planned; `ONE` where none is configured."""
        ratios = (self._ratio(operation, measured) for measured in self._measured[operation])
        return upper_quartile([*(ratio for ratio in ratios if ratio is not None), *[ONE] * PRIOR])

    def usual_ms(self, operation: Operation) -> int | None:
        """How long three in four took at most, whatever was configured; None where there were none."""
        times = [measured.took_ms for measured in self._measured[operation]]
        return upper_quartile(times) if times else None

    def overheads(self) -> Overheads:
        """Give what is to be planned with."""
        factors = {operation: self.factor(operation) for operation in PLANNED}
        return self.told if set(factors.values()) == {ONE} else LearntOverheads(self.told, factors)

    def _ratio(self, operation: Operation, measured: Measurement) -> int | None:
        if operation not in PLANNED:
            return None
        planned_ms = PLANNED[operation](self.told, measured.memory_mib, measured.vms)
        if planned_ms == 0:
            return None  # nothing is configured that it could be compared with
        return max(ONE // _WITHIN, min(measured.took_ms * ONE // planned_ms, ONE * _WITHIN))

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


@dataclass(frozen=True, slots=True)
class LearntOverheads(Overheads):
    """The configured times, each kind of operation multiplied by its factor (in millionths)."""

    told: OverheadModel
    factors: Mapping[Operation, int]

    @property
    def terminate_ms(self) -> int:
        """As it was configured: nobody measures how long an end takes."""
        return self.told.terminate_ms

    def suspend_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until a lease of ``vms`` VMs has saved its memory."""
        return self._scaled(Operation.SUSPEND, memory_mib, vms)

    def resume_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it has loaded it again."""
        return self._scaled(Operation.RESUME, memory_mib, vms)

    def migrate_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it goes on in another cluster."""
        return self._scaled(Operation.MIGRATE, memory_mib, vms)

    def _scaled(self, operation: Operation, memory_mib: int, vms: int) -> int:
        planned_ms = PLANNED[operation](self.told, memory_mib, vms)
        return -(-planned_ms * self.factors[operation] // ONE)
