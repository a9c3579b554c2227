"""What is to happen when nothing else does: alarms, the ends of what leases asked for, and of agreements."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from leasehold.model.event import Tick
from leasehold.model.lease import Lease


@dataclass(frozen=True, slots=True)
class TimeIsUp:
    """The time that a lease asked for is over, unless it was extended or has let go of its machines."""

    lease_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class AgreementsEnd:
    """The end of some agreement has come, unless it was amended."""


@dataclass(frozen=True, slots=True)
class JobsDue:
    """The time has come for which the desk of jobs asked."""


Appointment = Tick | TimeIsUp | AgreementsEnd | JobsDue


class Agenda:
    """Appointments by their time; those of an instant in the order in which they were made."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Appointment]] = []
        self._sequence = 0

    def add(self, at_ms: int, appointment: Appointment) -> None:
        """Make an appointment."""
        self._sequence += 1
        heappush(self._heap, (at_ms, self._sequence, appointment))

    def mind_end_of(self, lease: Lease) -> None:
        """Make the appointment for the end of a lease that holds machines."""
        self.add(lease.reserved_ms + lease.span_ms, TimeIsUp(lease.id, lease.incarnation))

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
