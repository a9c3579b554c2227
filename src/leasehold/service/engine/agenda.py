"""What is to happen when nothing else does: alarms, the ends of what leases asked for, and of agreements."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from leasehold.model.event import Tick
from leasehold.model.lease import Lease

START_WITHIN_MS = 600_000
"""For how long a guest's machines may be on their way if nobody says otherwise. Clouds take minutes."""


@dataclass(frozen=True, slots=True)
class TimeIsUp:
    """The time that a lease asked for is over, unless it was extended or has let go of its machines."""

    lease_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class StartOverdue:
    """The machines of a guest should have been seen by now, unless they were, or it was told otherwise."""

    lease_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class AgreementsEnd:
    """The end of some agreement has come, unless it was amended."""


@dataclass(frozen=True, slots=True)
class JobsDue:
    """The time has come for which the desk of jobs asked."""


Appointment = Tick | TimeIsUp | StartOverdue | AgreementsEnd | JobsDue


class Agenda:
    """Appointments by their time; those of an instant in the order in which they were made.

    ``start_within_ms``  by when a guest that was told to start must have been seen
    """

    def __init__(self, start_within_ms: int = START_WITHIN_MS) -> None:
        self.start_within_ms = start_within_ms
        self._heap: list[tuple[int, int, Appointment]] = []
        self._sequence = 0

    def add(self, at_ms: int, appointment: Appointment) -> None:
        """Make an appointment."""
        self._sequence += 1
        heappush(self._heap, (at_ms, self._sequence, appointment))

    def mind_end_of(self, lease: Lease, now_ms: int) -> None:
        """Make the appointment for the end of a lease that holds machines."""
        self.add(max(now_ms, lease.end_ms), TimeIsUp(lease.id, lease.incarnation))

    def mind_start_of(self, lease: Lease, now_ms: int) -> None:
        """Make the appointment by which a guest that was told to start must have been seen."""
        if not lease.request.is_local:
            at_ms = max(now_ms, lease.held_since_ms + self.start_within_ms)
            self.add(at_ms, StartOverdue(lease.id, lease.incarnation))

    def next_ms(self) -> int | None:
        """When the next appointment is; None without any."""
        return self._heap[0][0] if self._heap else None

    def instants(self, until_ms: int) -> Iterator[tuple[int, list[Appointment]]]:
        """Take out what is due until then, an instant at a time: what an instant brings may be due too."""
        while self._heap and self._heap[0][0] <= until_ms:
            at_ms = self._heap[0][0]
            due: list[Appointment] = []
            while self._heap and self._heap[0][0] == at_ms:
                due.append(heappop(self._heap)[2])
            yield at_ms, due
