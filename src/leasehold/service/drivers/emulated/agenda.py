"""What is due next? Changes of many leases by time, and by the order of entry where the time is the same."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from leasehold.service.drivers.emulated.holding import Change

_STRUCK_OUT_AND_STILL_KEPT = 64


class Agenda:
    """Coming changes; those that were struck out do not happen."""

    def __init__(self, coming: Iterable[tuple[Change, int]] = ()) -> None:
        """Begin with changes that were numbered before, each with its lease."""
        self._due = [(change.at_ms, change.number, lease_id) for change, lease_id in coming]
        heapify(self._due)
        self._number = max((number for _, number, _ in self._due), default=0)
        self._struck_out: set[int] = set()
        self._taken = 0

    def number(self) -> int:
        """Give the number of the next change that will be entered."""
        self._number += 1
        return self._number

    def enter(self, change: Change, lease_id: int) -> None:
        """Note a change."""
        heappush(self._due, (change.at_ms, change.number, lease_id))

    def put_off(self, lease_id: int, until_ms: int) -> None:
        """Note that the change that was just taken out for this lease cannot be seen before that time."""
        heappush(self._due, (until_ms, self._taken, lease_id))

    def strike_out(self, changes: Iterable[Change]) -> None:
        """Forget changes that were noted and have not happened."""
        self._struck_out.update(change.number for change in changes)
        if len(self._struck_out) > max(_STRUCK_OUT_AND_STILL_KEPT, len(self._due) // 2):
            self._due = [entry for entry in self._due if entry[1] not in self._struck_out]
            self._struck_out.clear()
            heapify(self._due)

    def next_ms(self) -> int | None:
        """When the next change is due; None if nothing is."""
        while self._due and self._due[0][1] in self._struck_out:
            self._struck_out.discard(heappop(self._due)[1])
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int) -> int | None:
        """Take the next change out that is due by now, and give the lease whose it is."""
        next_ms = self.next_ms()
        if next_ms is None or next_ms > now_ms:
            return None
        _, self._taken, lease_id = heappop(self._due)
        return lease_id
