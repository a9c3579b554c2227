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

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from operator import attrgetter

from leasehold.leasing.profile import Minima, Profile
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import UNPLANNED, Lease
from leasehold.model.reason import Reason

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


Started = list[tuple[Lease, Reason]]


class Backfiller:
    """The queue and the reservations over one profile.

    ``plan`` is what fits are tested against; everything booked is booked in each of ``books``, which
    holds ``plan`` itself and whatever other profile has to know. Leases whose place or
    reservation changes are collected in ``moved``, for the caller's records.
    """

    def __init__(self, plan: Profile, depth: int | None, moved: dict[int, Lease] | None = None) -> None:
        """Begin empty over ``plan`` with the given reservation depth."""
        self.plan = plan
        self.depth = depth
        self.books = [plan]
        self.reserved: dict[int, Lease] = {}
        self.others: dict[int, Lease] = {}
        self.moved: dict[int, Lease] = {} if moved is None else moved
        self._places = 0
        self._due: list[tuple[int, int, Lease]] = []
        self._coming: list[tuple[int, int, Lease]] = []
        self._unseen: list[Lease] = []
        self._looked_ms = -1

    def __len__(self) -> int:
        """How many wait."""
        return len(self.reserved) + len(self.others)

    def waiting(self) -> list[Lease]:
        """All waiting leases, in order of arrival."""
        return [*self.reserved.values(), *self.others.values()]

    def waiting_vms(self) -> int:
        """How many VMs they ask for."""
        vms = 0
        for lease in self.reserved.values():
            vms += lease.vms
        for lease in self.others.values():
            vms += lease.vms
        return vms

    def submit(self, lease: Lease) -> None:
        """Put a lease at the end of the queue; the next pass plans it."""
        self._places += 1
        lease.place = self._places
        self.others[lease.id] = self.moved[lease.id] = lease
        if lease.earliest_ms > self._looked_ms:
            heappush(self._coming, (lease.earliest_ms, lease.place, lease))
        else:
            self._unseen.append(lease)

    def take_up(self, waiting: Iterable[Lease]) -> None:
        """Restore these waiting leases; those with a reservation are in the profiles already."""
        for lease in sorted(waiting, key=attrgetter("place")):
            if lease.reserved_ms >= 0:
                self.reserved[lease.id] = lease
            else:
                self.others[lease.id] = lease
                heappush(self._coming, (lease.earliest_ms, lease.place, lease))
            self._places = max(self._places, lease.place)
        self._forget_old_times()

    def book(self, start_ms: int, lease: Lease) -> None:
        """Book the room of a lease from ``start_ms`` on, in every profile concerned."""
        lease.reserved_ms = start_ms
        self.moved[lease.id] = lease
        for profile in self.books:
            profile.take(start_ms, start_ms + lease.span_ms, lease.vms)

    def release(self, lease: Lease, now_ms: int) -> None:
        """Give back what a lease still has booked from now on: it ended, or it gives way."""
        start_ms = max(now_ms, lease.reserved_ms)
        for profile in self.books:
            profile.give(start_ms, lease.end_ms, lease.vms)
        lease.reserved_ms = UNPLANNED

    def withdraw(self, lease: Lease, now_ms: int) -> None:
        """Take a waiting lease out of the queue, with its reservation."""
        if self.others.pop(lease.id, None) is None:
            del self.reserved[lease.id]
            self.release(lease, now_ms)

    def reserve(self, lease: Lease, start_ms: int) -> None:
        """Give a lease a reservation from ``start_ms`` on."""
        self.book(start_ms, lease)
        if lease.id not in self.reserved:
            self._places += 1
            lease.place = self._places
            self.reserved[lease.id] = lease
        heappush(self._due, (start_ms, lease.order, lease))

    def earliest(self, lease: Lease, now_ms: int) -> int:
        """The earliest start that the plan has for a lease, on its present span."""
        return self.plan.earliest(max(now_ms, lease.earliest_ms), lease.span_ms, lease.vms)

    def step(self, now_ms: int) -> Started:
        """One pass: move reservations earlier, then start leases that are due, promoted or backfilled."""
        plan = self.plan
        plan.trim(now_ms)
        has_new_room = plan.was_freed or plan.times[0] > self._looked_ms
        if plan.was_freed:
            self._compress(now_ms)
        started = self._start_due(now_ms)
        if self.others:
            newcomers = self._newcomers(now_ms)
            self._promote(now_ms, started)
            if self.others and self.depth:
                self._backfill(list(self.others.values()) if has_new_room else newcomers, now_ms, started)
        else:
            self._coming.clear()
            self._unseen.clear()
        self._looked_ms = now_ms
        return started

    def _newcomers(self, now_ms: int) -> list[Lease]:
        """Return leases that came or became ready since the last pass, in order of arrival.

        The others did not fit then, and cannot fit until room is given back or a booking ends.
        """
        found, self._unseen = self._unseen, []
        while self._coming and self._coming[0][0] <= now_ms:
            found.append(heappop(self._coming)[2])
        found.sort(key=attrgetter("place"))
        return found

    def _next_ready_ms(self) -> int | None:
        """When the next lease without a reservation becomes ready."""
        coming = self._coming
        while coming:
            ready_ms, place, lease = coming[0]
            if lease.place == place and lease.id in self.others:
                return ready_ms
            heappop(coming)
        return None

    def next_pass_ms(self) -> int | None:
        """When the next reservation is due, or a lease without one becomes ready; None without either."""
        due, pass_ms = self._due, self._next_ready_ms()
        while due:
            start_ms, _, lease = due[0]
            if lease.reserved_ms == start_ms and lease.id in self.reserved:
                return start_ms if pass_ms is None or start_ms < pass_ms else pass_ms
            heappop(due)
        return pass_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the time for a pass has come, whatever else happened."""
        pass_ms = self.next_pass_ms()
        return pass_ms is not None and pass_ms <= now_ms

    def _compress(self, now_ms: int) -> None:
        """Let each reservation, in order of arrival, use the room that was given back before it.

        Only starts before the end of that room can be new: looking just there finds the same as a search
        of everything (and is tested to).
        """
        plan = self.plan
        until_ms = plan.freed_until_ms
        # Moves free room behind them: leases examined earlier may use it at the next pass.
        plan.freed_until_ms = now_ms
        most = plan.most_before(until_ms)
        for lease in self.reserved.values():
            if lease.vms > most or lease.reserved_ms <= now_ms:
                continue
            from_ms = lease.earliest_ms if lease.earliest_ms > now_ms else now_ms
            start_ms = plan.earlier(from_ms, lease.span_ms, lease.vms, lease.reserved_ms, until_ms)
            if start_ms < lease.reserved_ms:
                self._move_earlier(lease, start_ms)
                until_ms = max(until_ms, plan.freed_until_ms)
                most = plan.most_before(until_ms)
        # What they freed here is looked at when room is given back next, not for ever in turn.
        plan.was_freed = False
        if len(self._due) > 2 * len(self.reserved) + 64:
            self._forget_old_times()

    def _forget_old_times(self) -> None:
        """Drop the entries of moved reservations, before they outnumber the valid ones."""
        self._due = [(lease.reserved_ms, lease.order, lease) for lease in self.reserved.values()]
        heapify(self._due)

    def _move_earlier(self, lease: Lease, start_ms: int) -> None:
        old_ms, span_ms = lease.reserved_ms, lease.span_ms
        for profile in self.books:
            profile.shift(old_ms, start_ms, span_ms, lease.vms)
        lease.reserved_ms = start_ms
        self.moved[lease.id] = lease
        heappush(self._due, (start_ms, lease.order, lease))

    def _start_due(self, now_ms: int) -> Started:
        started: Started = []
        due, reserved = self._due, self.reserved
        while due and due[0][0] <= now_ms:
            start_ms, _, lease = heappop(due)
            # An entry is out of date when its lease was moved, or has left the queue.
            if lease.reserved_ms == start_ms and reserved.pop(lease.id, None) is not None:
                started.append((lease, Reason.RESERVED_START))
        return started

    def _promote(self, now_ms: int, started: Started) -> None:
        """Give reservations in order of arrival, as many as the depth allows; FCFS stops at the first."""
        others, depth = self.others, self.depth
        while others:
            if depth and len(self.reserved) >= depth:
                return
            lease = next(iter(others.values()))
            start_ms = self.earliest(lease, now_ms)
            if start_ms <= now_ms:
                self.book(start_ms, lease)
                started.append((lease, Reason.ROOM_FREE))
            elif depth == 0:
                return
            else:
                self.reserve(lease, start_ms)
            del others[lease.id]

    def _backfill(self, candidates: Iterable[Lease], now_ms: int, started: Started) -> None:
        """Start leases that fit now, beyond the depth, without touching a reservation."""
        plan = self.plan
        free = plan.free_at(now_ms)
        minima: Minima | None = None
        for lease in candidates if free > 0 else ():
            if lease.vms > free or lease.earliest_ms > now_ms or lease.id not in self.others:
                continue
            if minima is None:
                minima = plan.minima_from(now_ms)
            if minima.until(now_ms + lease.span_ms) >= lease.vms:
                self.book(now_ms, lease)
                free, minima = free - lease.vms, None
                started.append((lease, Reason.BACKFILLED))
                del self.others[lease.id]


Repair = Callable[[Backfiller, int], list[Lease]]


def repair_conflicts(guests: Backfiller, now_ms: int) -> list[Lease]:
    """Replan only what overlaps with over-booked time; of leases in conflict, the last to arrive gives way."""
    plan = guests.plan
    if min(plan.free) >= 0:
        return []
    in_conflict: list[tuple[Lease, int]] = []
    for lease in reversed(guests.reserved.values()):
        start_ms = lease.reserved_ms
        if plan.lowest(max(now_ms, start_ms), start_ms + lease.span_ms) < 0:
            guests.release(lease, now_ms)
            in_conflict.append((lease, start_ms))
    in_conflict.reverse()
    return _plan_again(guests, in_conflict, now_ms)


def replan_all(guests: Backfiller, now_ms: int) -> list[Lease]:
    """Replan every waiting guest in order of arrival, as if none had a reservation."""
    waiting = [(lease, lease.reserved_ms) for lease in guests.reserved.values()]
    for lease, _ in waiting:
        guests.release(lease, now_ms)
    return _plan_again(guests, waiting, now_ms)


def _plan_again(guests: Backfiller, unplanned: list[tuple[Lease, int]], now_ms: int) -> list[Lease]:
    for lease, _ in unplanned:
        guests.reserve(lease, guests.earliest(lease, now_ms))
    return [lease for lease, promised_ms in unplanned if lease.reserved_ms > promised_ms]


REPAIRS: dict[str, Repair] = {"conflicts": repair_conflicts, "replan": replan_all}
