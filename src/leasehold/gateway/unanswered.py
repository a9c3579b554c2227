"""What was offered to those who decide for themselves, and of which nothing has been heard yet.

What a site last said of itself does not contain it. Were it not counted, all requests that come between two
reports would be sent to the one site that had most room at the first.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.model.lease import Lease


class Unanswered:
    """The VMs of such leases, by whom they were offered to: sites elsewhere, and peers."""

    def __init__(self) -> None:
        """Begin with nothing on its way."""
        self._vms: dict[str, dict[int, int]] = {}

    def offered(self, lease: Lease) -> None:
        """A lease is offered to whom it names."""
        self._vms.setdefault(lease.site, {})[lease.id] = lease.vms

    def heard_of(self, lease: Lease) -> None:
        """Something has been heard of a lease, or it is over."""
        there = self._vms.get(lease.site)
        if there is not None:
            there.pop(lease.id, None)
            if not there:
                del self._vms[lease.site]

    def part_with(self, name: str) -> None:
        """Nobody will hear of them any more."""
        self._vms.pop(name, None)

    def vms_at(self, name: str) -> int:
        """Give how many VMs somebody may have to find for them."""
        there = self._vms.get(name)
        return sum(there.values()) if there else 0

    def leases_at(self, name: str) -> int:
        """Give how many leases they are."""
        return len(self._vms.get(name, ()))

    def memory(self) -> dict[str, Any]:
        """Give everything, as plain data for `remember`."""
        return {name: list(there.items()) for name, there in self._vms.items()}

    def remember(self, memory: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        """Know again what has not been answered."""
        self._vms = {name: dict(there) for name, there in memory.items()}
