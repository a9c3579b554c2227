"""The lines in which consumers wait for what their agreements give: in each, first come, first served.

A line is of one consumer, for the same sites. Only its head is asked about: what it has used keeps the others
from running just as well. So that nobody takes a site's queue for a place to hoard turns, one request of a
line at most waits at a site once those that were granted could use the share up; the next one goes out when
that has started, or where it would start at once.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from operator import attrgetter

from leasehold.gateway.barred import Barred
from leasehold.model.lease import Lease, LeaseState

LineKey = tuple[str, tuple[str, ...]]
"""Whose line it is (a consumer's path), and for which sites."""


class Lines:
    """All lines; an empty one is forgotten once nobody of it waits at a site."""

    def __init__(self) -> None:
        """Begin without lines."""
        self._lines: dict[LineKey, OrderedDict[int, Lease]] = {}
        self._key_of: dict[int, LineKey] = {}
        self._out: dict[LineKey, Lease] = {}
        self._barred: dict[LineKey, Barred] = {}

    def __len__(self) -> int:
        """How many requests wait in all lines."""
        return len(self._key_of)

    def __contains__(self, lease_id: int) -> bool:
        """Whether a request waits in a line."""
        return lease_id in self._key_of

    def waiting(self) -> Iterable[Lease]:
        """Give everybody in all lines."""
        return (lease for line in self._lines.values() for lease in line.values())

    def is_behind(self, lease: Lease, key: LineKey) -> bool:
        """Whether somebody else stands before a request in this line."""
        line = self._lines.get(key)
        return line is not None and next(iter(line)) != lease.id

    def join(self, lease: Lease, key: LineKey) -> None:
        """Let a request stand in a line, behind those who came before it."""
        if self._key_of.get(lease.id) == key:
            return
        self.leave(lease.id)
        line = self._lines.setdefault(key, OrderedDict())
        is_last = not line or line[next(reversed(line))].order < lease.order
        line[lease.id] = lease
        self._key_of[lease.id] = key
        if not is_last:
            self._lines[key] = OrderedDict(sorted(line.items(), key=lambda item: item[1].order))

    def leave(self, lease_id: int) -> None:
        """A request stands in no line any more."""
        key = self._key_of.pop(lease_id, None)
        if key is None:
            return
        line = self._lines[key]
        del line[lease_id]
        self._barred.pop(key, None)  # another one stands first now, or may
        if not line:
            del self._lines[key]

    def dissolve(self) -> list[Lease]:
        """Part with everybody, in the order in which they came."""
        leases = sorted(self.waiting(), key=attrgetter("order"))
        self._lines.clear()
        self._key_of.clear()
        self._barred.clear()
        return leases

    # Who waits at a site

    def went_out(self, lease: Lease, key: LineKey) -> None:
        """A request of this line was sent to a site."""
        self._out[key] = lease

    def has_one_out(self, key: LineKey) -> bool:
        """Whether a request of this line waits at a site."""
        lease = self._out.get(key)
        if lease is None:
            return False
        if lease.state in {LeaseState.WAITING, LeaseState.HELD} and lease.site:
            return True
        del self._out[key]
        return False

    # Turns

    def rest(self, key: LineKey, barred: Barred) -> None:
        """Remember what bars the head of a line: as long as that holds, it need not be asked about."""
        self._barred[key] = barred

    def take_turns(self, ask: Callable[[Lease], None], is_still_barred: Callable[[Lease, Barred], bool]) -> None:
        """Ask about the head of each line, who came first before others; whoever then leaves, makes room."""
        turns = [
            (self._head(line).order, key)
            for key, line in self._lines.items()
            if key not in self._barred or not is_still_barred(self._head(line), self._barred[key])
        ]
        heapify(turns)
        while turns:
            _, key = heappop(turns)
            head = self._head(self._lines[key])
            ask(head)
            if head.id not in self._key_of and key in self._lines:
                heappush(turns, (self._head(self._lines[key]).order, key))

    def _head(self, line: OrderedDict[int, Lease]) -> Lease:
        return next(iter(line.values()))
