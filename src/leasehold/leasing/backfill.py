"""One backfiller for all the classic disciplines; the reservation depth tells them apart.

========  =====================================================================
depth     discipline
========  =====================================================================
0         FCFS: strictly in order, no lease overtakes another
1         EASY: the first in the queue holds a reservation, others may not delay it
n         hybrid: the first n hold reservations
None      conservative: every lease holds a reservation (JPDC 2012, section 4.1)
========  =====================================================================

A reservation never moves later of its own. Whenever room was given back, each holder of a reservation,
in order of arrival, takes the earliest start that it can have.
The plan is made with *requested* times, always: what a job really needs is known only when it ends.

A *repair* plans guests again after the site's own users took room. It takes the guests' backfiller and the time,
makes the plan fit again as far as moving reservations can (guests that already run are a matter for preemption),
and returns the leases that it moved to a later start, in their order. Only the reservations in conflict are touched
by default: planning all again costs hundreds of moves a request with long queues, and takes promises back without
need.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Protocol

from leasehold.leasing.kernel import (
    ALL,
    BACKFILLED,
    BEHIND_OTHERS,
    NOT_READY,
    RESERVED_START,
    ROOM_FREE,
    ROOM_IN_USE,
    Profile,
    ReservationQueue,
    why_waiting,
)
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import UNPLANNED, Lease
from leasehold.model.reason import Reason
from leasehold.model.request import NEVER_MS
from leasehold.model.resources import is_plain
from leasehold.model.value_dict import ValueDict

DISCIPLINES: dict[str, int | None] = {"fcfs": 0, "easy": 1, "hybrid": 8, "conservative": None}


def reservation_depth(name: str) -> int | None:
    """The depth behind ``fcfs``, ``easy``, ``hybrid``, ``hybrid:N`` or ``conservative`` (None: all).

    Raises UnknownName or InvalidField.
    """
    discipline, _, depth = name.partition(":")
    if discipline not in DISCIPLINES:
        raise UnknownName("policy", name, DISCIPLINES)
    if not depth and ":" not in name:
        return DISCIPLINES[discipline]
    if discipline != "hybrid" or not depth.isdecimal() or int(depth) < 1:
        raise InvalidField("policy", name, "hybrid:N with a whole number N of at least 1")
    return int(depth)


Booking = tuple[int, int, Any]
"""From when until when (ms) what is booked: a number of VMs, or of a plan of nodes a `NodeRoom`."""

_FEW_BOOKINGS = 16
"""More of them are given back in one sweep."""

Started = list[tuple[Lease, Reason]]

START_REASONS = {
    RESERVED_START: Reason.RESERVED_START,
    ROOM_FREE: Reason.ROOM_FREE,
    BACKFILLED: Reason.BACKFILLED,
}
WAIT_REASONS = {
    NOT_READY: Reason.NOT_READY_YET,
    BEHIND_OTHERS: Reason.BEHIND_OTHERS,
    ROOM_IN_USE: Reason.ROOM_IN_USE,
}


class Backfiller:
    """The queue and the reservations of leases over one profile.

    ``plan`` is what fits are tested against; everything booked is booked in each of ``books``, which
    holds ``plan`` itself and whatever other profile has to know. Leases whose place or
    reservation changes are collected in ``moved``, for the caller's records.

    Planning itself is in `ReservationQueue`: a lease has a row there while it waits. What it asks for must not change
    meanwhile; who changes it withdraws it, and submits it again.
    """

    def __init__(self, plan: Profile, depth: int | None, moved: dict[int, Lease] | None = None) -> None:
        """Begin empty over ``plan`` with the given reservation depth."""
        self.plan = plan
        self.depth = depth
        self.moved: dict[int, Lease] = {} if moved is None else moved
        self._queue = ReservationQueue(plan, ALL if depth is None else depth)
        self.books = self._queue.books
        self._rows: dict[int, int] = ValueDict()
        self._leases: dict[int, Lease] = ValueDict()
        self._vms = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._rows)

    def __contains__(self, lease: Lease) -> bool:
        """Whether a lease waits here."""
        return lease.id in self._rows

    def reserved(self) -> Iterator[Lease]:
        """Iterate over those that hold a reservation, in order of arrival."""
        return map(self._leases.__getitem__, self._queue.reserved)

    def others(self) -> Iterator[Lease]:
        """Iterate over those that hold none, in order of arrival."""
        return map(self._leases.__getitem__, self._queue.others)

    def waiting(self) -> list[Lease]:
        """All waiting leases, in order of arrival."""
        return [*self.reserved(), *self.others()]

    def waiting_vms(self) -> int:
        """How many VMs they ask for."""
        return self._vms

    def submit(self, lease: Lease) -> None:
        """Put a lease at the end of the queue; the next pass plans it."""
        row = self._row_of(lease)
        self._queue.submit(row)
        lease.place = self._queue.place_of(row)
        self.moved[lease.id] = lease

    def _row_of(self, lease: Lease) -> int:
        row = self._rows.get(lease.id)
        if row is None:
            row = self._queue.add_row(lease.vms, lease.span_ms, lease.earliest_ms, lease.order)
            self._rows[lease.id] = row
            self._leases[row] = lease
            self._vms += lease.vms
        return row

    def _drop(self, row: int) -> Lease:
        """A lease is no longer in the queue."""
        lease = self._leases.pop(row)
        self._vms -= lease.vms
        del self._rows[lease.id]
        self._queue.release_row(row)
        return lease

    def take_up(self, waiting: Iterable[Lease]) -> None:
        """Restore these waiting leases; those with a reservation are in the profiles already."""
        for lease in sorted(waiting, key=attrgetter("place")):
            row = self._row_of(lease)
            self._queue.set_start(row, lease.reserved_ms)
            self._queue.take_up(row, lease.place)

    def book(self, start_ms: int, lease: Lease) -> None:
        """Book the room of a lease from ``start_ms`` on, in every profile concerned."""
        lease.reserved_ms = start_ms
        self.moved[lease.id] = lease
        for profile in self.books:
            profile.take(start_ms, start_ms + lease.span_ms, lease.vms)

    def release(self, lease: Lease, now_ms: int) -> None:
        """Give back what a lease still has booked from now on: it ended, or it gives way."""
        start_ms, end_ms, vms = self.unbook(lease, now_ms)
        for profile in self.books:
            profile.give(start_ms, end_ms, vms)

    def give_back(self, bookings: list[Booking]) -> None:
        """Give back what leases had booked."""
        for profile in self.books:
            if len(bookings) > _FEW_BOOKINGS:
                profile.give_all(bookings)
            else:
                for start_ms, end_ms, vms in bookings:
                    profile.give(start_ms, end_ms, vms)

    def unbook(self, lease: Lease, now_ms: int) -> Booking:
        """A lease has no booking any more; returns what it still had from now on, which is to be given back."""
        booking = max(now_ms, lease.reserved_ms), lease.end_ms, lease.vms
        lease.reserved_ms = UNPLANNED
        row = self._rows.get(lease.id)
        if row is not None:
            self._queue.set_start(row, UNPLANNED)
        return booking

    def withdraw(self, lease: Lease, now_ms: int) -> None:
        """Take a waiting lease out of the queue, with its reservation."""
        row = self._rows[lease.id]
        self._queue.withdraw(row, now_ms)
        lease.reserved_ms = UNPLANNED
        self._drop(row)

    def reserve(self, lease: Lease, start_ms: int) -> None:
        """Give a lease a reservation from ``start_ms`` on."""
        row = self._row_of(lease)
        self._queue.reserve(row, start_ms)
        self._follow(row)

    def _follow(self, row: int) -> None:
        """A row has another start, or another place."""
        lease = self._leases[row]
        lease.reserved_ms = self._queue.start_of(row)
        lease.place = self._queue.place_of(row)
        self.moved[lease.id] = lease

    def earliest(self, lease: Lease, now_ms: int) -> int:
        """The earliest start that the plan has for a lease, on its present span."""
        return self.plan.earliest(max(now_ms, lease.earliest_ms), lease.span_ms, lease.vms)

    def earliest_from(self, lease: Lease, from_ms: int, span_ms: int) -> int:
        """The earliest start from then on, were its span this."""
        return self.plan.earliest(from_ms, span_ms, lease.vms)

    def fits(self, lease: Lease, start_ms: int, end_ms: int) -> bool:
        """Whether a lease that is not booked then would have room in [start_ms, end_ms)."""
        return self.plan.lowest(start_ms, end_ms) >= lease.vms

    def fits_longer(self, lease: Lease, from_ms: int, end_ms: int) -> bool:
        """Whether a lease could keep its machines in [from_ms, end_ms)."""
        return self.plan.lowest(from_ms, end_ms) >= lease.vms

    def fits_beside(self, lease: Lease, others: Iterable[Lease], start_ms: int, end_ms: int) -> bool:
        """Whether it would, were these others, which are not booked yet, all started then."""
        return self.plan.lowest(start_ms, end_ms) - sum(one.vms for one in others) >= lease.vms

    def is_wider_than_site(self, lease: Lease) -> bool:
        """Whether an empty site has no room for it: never here."""
        return lease.vms > self.plan.slots or not is_plain(lease.request)

    def is_promised_too_much(self, lease: Lease) -> bool:
        """Whether what a lease has booked is booked for others too."""
        return self.plan.lowest(lease.reserved_ms, lease.end_ms) < 0

    def overbooked_from(self, lease: Lease, start_ms: int, end_ms: int) -> int:  # noqa: ARG002 - VMs are alike
        """From when in [start_ms, end_ms) on that is so; ``end_ms`` if never."""
        return self.plan.overbooked_from(start_ms, end_ms)

    def room_of(self, lease: Lease) -> int:
        """What a lease takes of the plan."""
        return lease.vms

    def lengthen(self, lease: Lease, from_ms: int, end_ms: int) -> None:
        """Book what a lease holds in [from_ms, end_ms) too."""
        for profile in self.books:
            profile.take(from_ms, end_ms, lease.vms)

    def shorten(self, lease: Lease, from_ms: int, end_ms: int) -> None:
        """Give back what a lease holds in [from_ms, end_ms)."""
        for profile in self.books:
            profile.give(from_ms, end_ms, lease.vms)

    def book_outage(self, vms: int, node: str, from_ms: int, end_ms: int) -> None:  # noqa: ARG002 - VMs are alike
        """Let so many VMs be used for nothing."""
        for profile in self.books:
            profile.take(from_ms, end_ms, vms)

    def end_outage(self, vms: int, node: str, from_ms: int, end_ms: int) -> None:  # noqa: ARG002 - VMs are alike
        """Let them be used again."""
        for profile in self.books:
            profile.give(from_ms, end_ms, vms)

    def why_waiting(self, lease: Lease, now_ms: int) -> Reason:
        """Say why a lease waits that could not start now."""
        return WAIT_REASONS[why_waiting(self.plan, lease.earliest_ms, lease.vms, now_ms)]

    def step(self, now_ms: int) -> Started:
        """One pass: move reservations earlier, then start leases that are due, promoted or backfilled."""
        queue = self._queue
        started: Started = []
        if not self._rows:
            queue.rest(now_ms)
            return started
        rows = queue.step(now_ms)
        self._follow_moved()
        for row, why in zip(rows, queue.reasons, strict=True):
            lease = self._leases[row]
            lease.reserved_ms = queue.start_of(row)
            self.moved[lease.id] = lease
            self._drop(row)
            started.append((lease, START_REASONS[why]))
        return started

    def replan(self, now_ms: int, *, all_of_them: bool = False) -> list[Lease]:
        """Plan those again that overlap with over-booked time, or all; returns those that start later now."""
        if not self._rows:
            return []
        later = self._queue.replan(now_ms, all_of_them)
        self._follow_moved()
        return [self._leases[row] for row in later]

    def _follow_moved(self) -> None:
        for row in self._queue.moved:
            self._follow(row)

    def next_pass_ms(self) -> int | None:
        """When the next reservation is due, or a lease without one becomes ready; None without either."""
        if not self._rows:
            return None
        pass_ms = self._queue.next_pass_ms()
        return None if pass_ms == NEVER_MS else pass_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the time for a pass has come, whatever else happened."""
        return bool(self._rows) and self._queue.next_pass_ms() <= now_ms


class Replans(Protocol):
    """What a repair is about: a `Backfiller`, or that of a site of nodes."""

    def replan(self, now_ms: int, *, all_of_them: bool = False) -> list[Lease]:
        """Plan those again that overlap with over-booked time, or all."""
        ...


Repair = Callable[[Replans, int], list[Lease]]


def repair_conflicts(guests: Replans, now_ms: int) -> list[Lease]:
    """Replan only what overlaps with over-booked time; of leases in conflict, the last to arrive gives way."""
    return guests.replan(now_ms)


def replan_all(guests: Replans, now_ms: int) -> list[Lease]:
    """Replan every waiting guest in order of arrival, as if none had a reservation."""
    return guests.replan(now_ms, all_of_them=True)


REPAIRS: dict[str, Repair] = {"conflicts": repair_conflicts, "replan": replan_all}
