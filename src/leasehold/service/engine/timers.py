"""What is due when nothing else happens: alarms of the core, ends of leases and agreements, overdue starts."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from leasehold.model.event import Tick
from leasehold.model.lease import Lease

START_WITHIN_MS = 600_000
"""By default a guest's machines may take so long to start. Clouds take minutes."""


@dataclass(frozen=True, slots=True)
class LeaseEndDue:
    """The time that a lease asked for is over, unless it was extended or has given its machines up."""

    lease_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class StartOverdue:
    """The machines of a guest should have been seen by now, unless they were, or its start was withdrawn."""

    lease_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class AgreementsEnd:
    """The end of some agreement has come, unless it was amended."""


@dataclass(frozen=True, slots=True)
class JobsDue:
    """The time has come for which the job scheduler asked."""


@dataclass(frozen=True, slots=True)
class OutageOver:
    """Nodes that are down are expected back, unless they came back before."""


_OF_THE_GATEWAY = Tick()

Timer = Tick | LeaseEndDue | StartOverdue | AgreementsEnd | JobsDue | OutageOver


class TimerQueue:
    """Timers by their time; those of one instant in the order in which they were set.

    ``start_within_ms``  how long after its start order a guest must have been seen
    """

    def __init__(self, start_within_ms: int = START_WITHIN_MS) -> None:
        self.start_within_ms = start_within_ms
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._called_off: set[int] = set()

    def add(self, at_ms: int, timer: Timer) -> None:
        """Set a timer."""
        if timer == _OF_THE_GATEWAY and at_ms in self._called_off:
            self._called_off.remove(at_ms)  # it is still there
            return
        self._sequence += 1
        heappush(self._heap, (at_ms, self._sequence, timer))

    def call_off_tick(self, at_ms: int) -> None:
        """Drop a tick of the gateway that it no longer wants at this time."""
        self._called_off.add(at_ms)

    def _drop_called_off(self) -> None:
        while self._called_off and self._heap:
            at_ms, _, timer = self._heap[0]
            if at_ms not in self._called_off or timer != _OF_THE_GATEWAY:
                return
            self._called_off.remove(at_ms)
            heappop(self._heap)

    def schedule_end(self, lease: Lease, now_ms: int) -> None:
        """Set the timer for the end of a lease that holds machines."""
        self.add(max(now_ms, lease.end_ms), LeaseEndDue(lease.id, lease.incarnation))

    def schedule_start(self, lease: Lease, now_ms: int) -> None:
        """Set the timer by which a guest must have been seen to start."""
        if not lease.request.is_local:
            at_ms = max(now_ms, lease.held_since_ms + self.start_within_ms)
            self.add(at_ms, StartOverdue(lease.id, lease.incarnation))

    def next_ms(self) -> int | None:
        """When the next timer is due; None without any."""
        self._drop_called_off()
        return self._heap[0][0] if self._heap else None

    def instants(self, until_ms: int) -> Iterator[tuple[int, list[Timer]]]:
        """Take out what is due until then, an instant at a time: an instant may set timers that are due too."""
        while (next_ms := self.next_ms()) is not None and next_ms <= until_ms:
            at_ms = next_ms
            self._called_off.discard(at_ms)
            due: list[Timer] = []
            while self._heap and self._heap[0][0] == at_ms:
                due.append(heappop(self._heap)[2])
            yield at_ms, due
