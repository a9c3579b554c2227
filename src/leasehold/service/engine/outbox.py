"""The orders that are not yet confirmed: what should be so on machines, and is not known to be."""

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import takewhile
from zlib import crc32

from leasehold.service.drivers.protocol import Order, Problem, Verb
from leasehold.service.store.rows import OrderRow

PENDING = "pending"
TAKEN = "taken"
CONFIRMED = "confirmed"
DROPPED = "dropped"

MOST_ATTEMPTS = 8
_MOST_UNANSWERED = MOST_ATTEMPTS - 2
"""So many attempts, at most, count of those to which nobody answered: they make pauses longer, no more."""
_LONGEST_PAUSE_MS = 60_000
_NEVER_DROPPED = frozenset({Verb.STOP, Verb.SEND})
_MOVES = frozenset({Verb.SEND, Verb.RECEIVE})


class Outbox:
    """Orders by lease, in the order in which they were given; ``changed`` has what must be written.

    ``outgoing`` are those that are to be told to drivers now, until somebody takes them out. Where machines
    move, each site is told only when the one before it has taken its order: else they would be in two places
    for as long as one of them does not answer.
    """

    def __init__(self, rows: Iterable[OrderRow] = ()) -> None:
        self._by_lease: dict[int, dict[str, OrderRow]] = {}
        self.new: dict[str, OrderRow] = {}
        self.changed: dict[str, OrderRow] = {}
        self.outgoing: list[OrderRow] = []
        for row in rows:
            self._by_lease.setdefault(row.order.lease_id, {})[row.order.id] = row
            self.outgoing.append(row)

    def __iter__(self) -> Iterator[OrderRow]:
        for rows in self._by_lease.values():
            yield from rows.values()

    def of(self, lease_id: int) -> list[OrderRow]:
        """The open orders about a lease, the oldest first."""
        return list(self._by_lease.get(lease_id, {}).values())

    def find(self, lease_id: int, order: str) -> OrderRow | None:
        """One open order; None where it is not open any more."""
        return self._by_lease.get(lease_id, {}).get(order)

    def give(self, site: str, order: Order, now_ms: int) -> None:
        """Give an order. Whoever is to be stopped need not do anything else first."""
        self.new[order.id] = self.give_unrecorded(site, order, now_ms)

    def give_unrecorded(self, site: str, order: Order, now_ms: int) -> OrderRow:
        """Give one about a lease that the store has never known; after a restart it is given anew."""
        row = OrderRow(order, site, PENDING, 0, now_ms, "", now_ms)
        if order.verb is Verb.STOP:
            for earlier in self.of(order.lease_id):
                if earlier.site == site:
                    self.close(earlier, DROPPED)
        self._by_lease.setdefault(order.lease_id, {})[order.id] = row
        self.outgoing.append(row)
        return row

    def taken(self, row: OrderRow, now_ms: int) -> None:
        """The driver has taken it on; ``next_try_ms`` keeps when."""
        row.status, row.next_try_ms, row.problem = TAKEN, now_ms, ""
        self._note(row)
        self._let_follow(row)

    def failed(self, row: OrderRow, problem: Problem, now_ms: int, *, answered: bool = True) -> bool:
        """The driver did not take it on: tell it again later. False where that makes no sense any more.

        Where nobody ``answered``, nothing is known of what the machines would say: that is never the end.
        """
        row.attempts = row.attempts + 1 if answered else min(row.attempts + 1, _MOST_UNANSWERED)
        row.problem = problem.text
        for_good = answered and (not problem.again or row.attempts >= MOST_ATTEMPTS)
        if for_good and row.order.verb not in _NEVER_DROPPED:
            self.close(row, DROPPED)
            return False
        row.status, row.next_try_ms = PENDING, now_ms + pause_ms(row.order.id, row.attempts)
        self._note(row)
        self.outgoing.append(row)
        return True

    def tell_again(self, row: OrderRow, now_ms: int) -> None:
        """What it asks for is not so: it is told once more, now."""
        row.status, row.next_try_ms = PENDING, now_ms
        self._note(row)
        self.outgoing.append(row)

    def close(self, row: OrderRow, status: str = CONFIRMED) -> None:
        """It was carried out, or is of no use any more."""
        row.status = status
        self._note(row)
        rows = self._by_lease[row.order.lease_id]
        del rows[row.order.id]
        if not rows:
            del self._by_lease[row.order.lease_id]
        self._let_follow(row)

    def written(self) -> None:
        """Everything that was changed is in the store."""
        self.new.clear()
        self.changed.clear()

    def take_outgoing(self) -> list[OrderRow]:
        """Take out what is to be told now; what was closed meanwhile is told to nobody."""
        outgoing, self.outgoing = self.outgoing, []
        is_open = (row for row in outgoing if row.status in (PENDING, TAKEN))
        return [copy(row) for row in is_open if not self._waits_for_a_move(row)]

    def _waits_for_a_move(self, row: OrderRow) -> bool:
        """Whether machines are to come or go first, by an order that was not taken yet; no STOP waits."""
        if row.order.verb == Verb.STOP:
            return False
        earlier = takewhile(lambda other: other is not row, self.of(row.order.lease_id))
        return any(other.order.verb in _MOVES and other.status == PENDING for other in earlier)

    def _let_follow(self, move: OrderRow) -> None:
        """Tell whatever may have waited for this one."""
        if move.order.verb in _MOVES:
            self.outgoing += [row for row in self.of(move.order.lease_id) if row.status == PENDING]

    def _note(self, row: OrderRow) -> None:
        if row.order.id not in self.new:
            self.changed[row.order.id] = row


def pause_ms(order: str, attempts: int) -> int:
    """How long to wait before the next attempt: twice as long each time, and not all at the same time."""
    longest_ms: int = min(_LONGEST_PAUSE_MS, 500 << min(attempts, MOST_ATTEMPTS))
    return longest_ms // 2 + crc32(f"{order} {attempts}".encode()) % (longest_ms // 2)
