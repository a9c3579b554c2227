"""Orders: those that are not yet confirmed, and what observations of machines mean for them.

What should be so on machines and is not known to be is in the outbox. An observation confirms orders, is news for
the decision core, or shows that an order has to be sent again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from zlib import crc32

from leasehold.model.copier import copier
from leasehold.model.event import (
    Event,
    LeaseContinues,
    LeaseEnded,
    LeaseFailed,
    LeaseSaved,
    LeaseStarted,
    Operation,
    OverheadMeasured,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.service.commands import Command, Observed, SiteObserved
from leasehold.service.drivers.protocol import REACHES, Observation, Order, Phase, Problem, Verb
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.store.rows import ORDERS, OrderRow

PENDING = "pending"
TAKEN = "taken"
CONFIRMED = "confirmed"
DROPPED = "dropped"

MOST_ATTEMPTS = 8
_MOST_UNANSWERED = MOST_ATTEMPTS - 2
"""Most unanswered attempts that count: they only lengthen the pauses."""
_LONGEST_PAUSE_MS = 60_000
_PROGRESS = ("status", "attempts", "next_try_ms", "problem")
"""The columns of an order that change after it was issued."""
_NEVER_DROPPED = frozenset({Verb.STOP, Verb.SEND})
_MOVES = frozenset({Verb.SEND, Verb.RECEIVE})
_copy_row = copier(OrderRow)


class Outbox:
    """Orders by lease, in the order in which they were given.

    ``outgoing`` are those that are to be sent to drivers now, until `take_outgoing`. Where machines move, each
    site gets its order only when the one before it has taken its own: else they would be in two places for as
    long as one of them does not answer.
    """

    def __init__(self, unit: UnitOfWork, rows: Iterable[OrderRow] = ()) -> None:
        self._unit = unit
        self._by_lease: dict[int, dict[str, OrderRow]] = {}
        self.outgoing: list[OrderRow] = []
        for row in rows:
            self._by_lease.setdefault(row.order.lease_id, {})[row.order.id] = row
            self.outgoing.append(row)

    def __iter__(self) -> Iterator[OrderRow]:
        for rows in self._by_lease.values():
            yield from rows.values()

    def has(self, lease_id: int) -> bool:
        """Whether there are open orders about a lease."""
        return lease_id in self._by_lease

    def of(self, lease_id: int) -> list[OrderRow]:
        """The open orders about a lease, the oldest first."""
        return list(self._by_lease.get(lease_id, {}).values())

    def find(self, lease_id: int, order: str) -> OrderRow | None:
        """One open order; None where it is not open any more."""
        return self._by_lease.get(lease_id, {}).get(order)

    def give(self, site: str, order: Order, now_ms: int, not_before_ms: int = 0) -> None:
        """Issue an order, to be sent not before ``not_before_ms``. A stop order replaces the open orders before it."""
        self._unit.add(ORDERS, self._new(site, order, now_ms, not_before_ms))

    def give_unrecorded(self, site: str, order: Order, now_ms: int) -> None:
        """Issue an order about a lease unknown to the store; after a restart it is issued again."""
        self._new(site, order, now_ms)

    def _new(self, site: str, order: Order, now_ms: int, not_before_ms: int = 0) -> OrderRow:
        row = OrderRow(order, site, PENDING, 0, max(now_ms, not_before_ms), "", now_ms)
        if order.verb is Verb.STOP:
            for earlier in self.of(order.lease_id):
                if earlier.site == site:
                    self.close(earlier, DROPPED)
        self._by_lease.setdefault(order.lease_id, {})[order.id] = row
        self.outgoing.append(row)
        return row

    def taken(self, row: OrderRow, now_ms: int) -> None:
        """Note that the driver has accepted an order; ``next_try_ms`` keeps the time."""
        row.status, row.next_try_ms, row.problem = TAKEN, now_ms, ""
        self._unit.change(ORDERS, row, _PROGRESS)
        self._let_follow(row)

    def failed(self, row: OrderRow, problem: Problem, now_ms: int, *, answered: bool = True) -> bool:
        """Schedule another attempt of an order that the driver did not accept; False if that would be useless.

        Without an answer (``answered``) nothing is known about the machines: such an order is never given up.
        """
        row.attempts = row.attempts + 1 if answered else min(row.attempts + 1, _MOST_UNANSWERED)
        row.problem = problem.text
        for_good = answered and (not problem.again or row.attempts >= MOST_ATTEMPTS)
        if for_good and row.order.verb not in _NEVER_DROPPED:
            self.close(row, DROPPED)
            return False
        row.status, row.next_try_ms = PENDING, now_ms + pause_ms(row.order.id, row.attempts)
        self._unit.change(ORDERS, row, _PROGRESS)
        self.outgoing.append(row)
        return True

    def tell_again(self, row: OrderRow, now_ms: int) -> None:
        """Send an order again now, because its effect was not observed."""
        row.status, row.next_try_ms = PENDING, now_ms
        self._unit.change(ORDERS, row, _PROGRESS)
        self.outgoing.append(row)

    # Orders that are held back: guests are being told that they will be preempted, and what gets their room waits

    def notices(self, lease_id: int, now_ms: int) -> list[OrderRow]:
        """The orders about a lease that are held back for its guest's sake."""
        return [row for row in self.of(lease_id) if row.order.notice_ms and _is_held_back(row, now_ms)]

    def end_notice(self, lease_id: int, now_ms: int) -> None:
        """Send the orders that were held back for a guest's sake, and what waited for its room alone."""
        ended = self.notices(lease_id, now_ms)
        for row in ended:
            self.tell_again(row, now_ms)
        for site in dict.fromkeys(row.site for row in ended):
            self._end_waits(site, now_ms)

    def _end_waits(self, site: str, now_ms: int) -> None:
        held_back = [row for row in self if row.site == site and _is_held_back(row, now_ms)]
        if not any(row.order.notice_ms for row in held_back):
            for row in held_back:
                self.tell_again(row, now_ms)

    def close(self, row: OrderRow, status: str = CONFIRMED) -> None:
        """Close an order: it was carried out, or has become obsolete."""
        row.status = status
        self._unit.change(ORDERS, row, _PROGRESS)
        rows = self._by_lease[row.order.lease_id]
        del rows[row.order.id]
        if not rows:
            del self._by_lease[row.order.lease_id]
        self._let_follow(row)

    def take_outgoing(self) -> list[OrderRow]:
        """Remove and return the orders to send now; those closed meanwhile are left out."""
        outgoing, self.outgoing = self.outgoing, []
        is_open = (row for row in outgoing if row.status in (PENDING, TAKEN))
        return [_copy_row(row) for row in is_open if not self._waits_for_a_move(row)]

    def _waits_for_a_move(self, row: OrderRow) -> bool:
        """Whether machines are to come or go first, by an order that was not taken yet; no STOP waits."""
        if row.order.verb == Verb.STOP:
            return False
        earlier = takewhile(lambda other: other is not row, self.of(row.order.lease_id))
        return any(other.order.verb in _MOVES and other.status == PENDING for other in earlier)

    def _let_follow(self, move: OrderRow) -> None:
        """Send the orders that waited for this one."""
        if move.order.verb in _MOVES:
            self.outgoing += [row for row in self.of(move.order.lease_id) if row.status == PENDING]


def _is_held_back(row: OrderRow, now_ms: int) -> bool:
    """Whether an order was never sent, and is not to be sent yet."""
    return row.status == PENDING and row.attempts == 0 and row.next_try_ms > now_ms


def pause_ms(order: str, attempts: int) -> int:
    """How long to wait before the next attempt: twice as long each time, and not all at the same time."""
    longest_ms: int = min(_LONGEST_PAUSE_MS, 500 << min(attempts, MOST_ATTEMPTS))
    return longest_ms // 2 + crc32(f"{order} {attempts}".encode()) % (longest_ms // 2)


# --- observations --------------------------------------------------------------------------------------

ON_THE_WAY: dict[Verb, Phase] = {
    Verb.START: Phase.STARTING,
    Verb.SUSPEND: Phase.SAVING,
    Verb.RESUME: Phase.RESUMING,
    Verb.RECEIVE: Phase.RECEIVING,
}
_CONTINUING = (LeaseState.RESUMING, LeaseState.MIGRATING)
_SAVING_OR_SAVED = (LeaseState.SUSPENDING, LeaseState.SUSPENDED)
_ON_MACHINES = (LeaseState.STARTING, LeaseState.RUNNING, *_CONTINUING, *_SAVING_OR_SAVED)

_DONE: dict[tuple[str, Phase], Operation] = {
    (Verb.START.value, Phase.RUNNING): Operation.START,
    (Verb.SUSPEND.value, Phase.SAVED): Operation.SUSPEND,
    (Verb.RESUME.value, Phase.RUNNING): Operation.RESUME,
    (Verb.RECEIVE.value, Phase.RUNNING): Operation.MIGRATE,
}
"""What was measured when an order of this verb is seen to have led to this phase.

That a command has *ended* says only that it was started at some time before.
"""

LOST, STRAY, BEHIND = "lost", "stray", "behind"
Report = Callable[[str], None]
"""Called with the kind of each difference."""

IsRecorded = Callable[[int], bool]
"""Whether the store knows a lease; after an older store was put back, machines may have others."""

IsNativeJob = Callable[[int], bool]
"""Whether a lease stands for a job that the site's own scheduler looks after."""


NotStarted = Callable[[Lease], Event]
"""Says what it means that the machines of a lease did not start."""


def _lost(lease: Lease) -> Event:
    return LeaseFailed(lease.id, lease.incarnation)


def news(lease: Lease, seen: Observation, not_started: NotStarted = _lost) -> Iterator[Event]:
    """What an observation of the present incarnation of a lease tells the decision core."""
    if lease.incarnation != seen.incarnation:
        return
    match seen.phase:
        case Phase.FAILED:
            yield not_started(lease) if lease.state is LeaseState.STARTING else _lost(lease)
        case Phase.SAVED:
            if lease.state is LeaseState.SUSPENDING:
                yield LeaseSaved(lease.id, seen.incarnation)
        case Phase.RUNNING | Phase.ENDED:
            if lease.state is LeaseState.STARTING:
                yield LeaseStarted(lease.id, seen.incarnation, seen.since_ms)
            elif lease.state in _CONTINUING:
                yield LeaseContinues(lease.id, seen.incarnation, seen.since_ms)
            if seen.phase is Phase.ENDED:
                yield from _end(lease, seen)
        case _:
            pass


def _end(lease: Lease, seen: Observation) -> Iterator[Event]:
    """Events for a command that ended; a lease ordered to give way at that moment has nothing left to save."""
    if lease.state is LeaseState.SUSPENDING:
        yield LeaseSaved(lease.id, seen.incarnation, ended=True)
    elif lease.state not in _SAVING_OR_SAVED:
        yield LeaseEnded(lease.id, seen.incarnation)


def ended(commands: Iterable[Command]) -> set[tuple[int, int]]:
    """Give the leases, with their incarnations, whose commands these say to have ended by themselves."""
    return {
        (seen.lease_id, seen.incarnation)
        for command in commands
        if isinstance(command, Observed | SiteObserved)
        for seen in command.observations
        if seen.phase is Phase.ENDED
    }


def confirm(outbox: Outbox, site: str, seen: Observation) -> list[OverheadMeasured]:
    """Close the orders that have been carried out, to judge by what is seen; before one of them, all were.

    Returns how long those took of which that can be seen.
    """
    here = [row for row in outbox.of(seen.lease_id) if row.site == site]
    done = [place for place, row in enumerate(here, 1) if _is_fulfilled(row, seen)]
    measured = [measured_by(row, seen) for row in here]
    for row in here[: max(done, default=0)]:
        outbox.close(row)
    return [one for one in measured if one is not None]


def _is_fulfilled(row: OrderRow, seen: Observation) -> bool:
    if row.order.incarnation != seen.incarnation:
        return row.order.incarnation < seen.incarnation
    return seen.phase in REACHES[Verb(row.order.verb)]


class Comparison:
    """Compares a whole site with what should be there, repeatedly: desired against observed state.

    Orders without effect are sent again, and machines that should not exist are stopped. A lease that should have
    machines is reported to the decision core as lost when it has none in two observations in a row: a single one
    may have come too early.
    """

    def __init__(
        self, site: str, outbox: Outbox, differs: Report, is_recorded: IsRecorded, is_native_job: IsNativeJob
    ) -> None:
        self._site = site
        self._outbox = outbox
        self._differs = differs
        self._is_recorded = is_recorded
        self._is_native_job = is_native_job
        self._missed: set[tuple[int, int]] = set()

    def compare(
        self, leases: Mapping[int, Lease], seen: Iterable[Observation], asked_ms: int, now_ms: int
    ) -> list[Event]:
        """Judge by what was seen when looking began at ``asked_ms``; returns news of leases that are lost."""
        there = {one.lease_id: one for one in seen}
        for observation in there.values():
            if not self._belongs(leases.get(observation.lease_id), observation):
                self._stop(observation, asked_ms, now_ms)
        self._confirm_absences(there, asked_ms)
        missed: set[tuple[int, int]] = set()
        here = [lease for lease in leases.values() if lease.site == self._site and lease.state in _ON_MACHINES]
        for lease in here:
            found = there.get(lease.id)
            is_as_it_should_be = found is not None and found.incarnation >= lease.incarnation
            if is_as_it_should_be and not self._outbox.has(lease.id):
                continue  # as nearly all are
            if not self._is_native_job(lease.id) and self._is_missing(lease, found, asked_ms, now_ms):
                missed.add((lease.id, lease.incarnation))
        lost, self._missed = missed & self._missed, missed
        return [self._tell_loss(*which) for which in sorted(lost)]

    def _belongs(self, lease: Lease | None, seen: Observation) -> bool:
        return (
            lease is not None
            and lease.site == self._site
            and lease.state in _ON_MACHINES
            and seen.incarnation <= lease.incarnation
        )

    def _orders(self, lease_id: int) -> list[OrderRow]:
        return [row for row in self._outbox.of(lease_id) if row.site == self._site]

    def _stop(self, seen: Observation, asked_ms: int, now_ms: int) -> None:
        """Order machines to be stopped that should not be there, unless that is on its way."""
        mine = self._orders(seen.lease_id)
        if not mine:
            self._differs(STRAY)
            order = f"{seen.lease_id}.{seen.incarnation}.{Verb.STOP}~{now_ms}"
            stop = Order(order, Verb.STOP, seen.lease_id, seen.incarnation, vms=0, memory_mib=0)
            is_recorded = self._is_recorded(seen.lease_id)
            give = self._outbox.give if is_recorded else self._outbox.give_unrecorded
            give(self._site, stop, now_ms)
        for row in mine:
            if _was_sent(row, asked_ms):
                self._outbox.tell_again(row, now_ms)

    def _confirm_absences(self, there: Mapping[int, Observation], asked_ms: int) -> None:
        """What was sent away or stopped, and is not there any more, is dealt with, and all before it too."""
        for row in list(self._outbox):
            if row.site == self._site and not REACHES[Verb(row.order.verb)] and _was_sent(row, asked_ms):
                seen = there.get(row.order.lease_id)
                if seen is None or seen.incarnation > row.order.incarnation:
                    self._close_through(row)

    def _close_through(self, last: OrderRow) -> None:
        for row in self._orders(last.order.lease_id):
            if row.order.incarnation <= last.order.incarnation:
                self._outbox.close(row)

    def _is_missing(self, lease: Lease, seen: Observation | None, asked_ms: int, now_ms: int) -> bool:
        """Whether a lease has no machines and none are ordered; what came to nothing is ordered again."""
        mine = self._orders(lease.id)
        for place, row in enumerate(mine):
            # Machines that are being saved are past their start, even if they were never observed running.
            is_under_way = any(_is_on_the_way(one, seen) for one in mine[place:])
            if _was_sent(row, asked_ms) and not is_under_way:
                self._differs(BEHIND)
                self._outbox.tell_again(row, now_ms)
        return not mine and (seen is None or seen.incarnation < lease.incarnation)

    def _tell_loss(self, lease_id: int, incarnation: int) -> Event:
        self._differs(LOST)
        return LeaseFailed(lease_id, incarnation)


def _was_sent(row: OrderRow, asked_ms: int) -> bool:
    """Whether the driver had accepted the order when observing began."""
    return row.status == TAKEN and row.next_try_ms <= asked_ms


def _is_on_the_way(row: OrderRow, seen: Observation | None) -> bool:
    return (
        seen is not None
        and seen.incarnation == row.order.incarnation
        and seen.phase in (ON_THE_WAY.get(Verb(row.order.verb)), Phase.FAILED)
    )


def measured_by(row: OrderRow, seen: Observation) -> OverheadMeasured | None:
    """Return how long an order took that this observation shows to be done; None if it cannot tell.

    The time counts from when the driver accepted the order, if that is known, else from when it was issued; an
    order that was sent several times, and is not known to be accepted, gives no measurement.
    """
    operation = _DONE.get((row.order.verb, seen.phase))
    began_ms = _began_ms(row, seen.since_ms)
    if operation is None or row.order.incarnation != seen.incarnation or began_ms is None:
        return None
    order = row.order
    return OverheadMeasured(row.site, operation, order.memory_mib, order.vms, seen.since_ms - began_ms)


def _began_ms(row: OrderRow, done_ms: int) -> int | None:
    if row.status == TAKEN and row.next_try_ms <= done_ms:
        return row.next_try_ms
    was_sent_once = row.attempts == 0 and row.created_ms <= done_ms
    return row.created_ms if was_sent_once else None
