"""One site as the components of a co-allocation are planned on it: what one is given, no other can have."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from leasehold.gateway.budget import WorkBudget
from leasehold.gateway.site import Site
from leasehold.model.coallocation import Component

_BITS_PER_MIB = 8 * 2**20
_BITS_PER_MS_AT_ONE_MBPS = 1_000

# How many steps of a plan take as long as one look, by what is done with them.
_COPIED_EACH_LOOK = 2_048
_READ_EACH_LOOK = 512
_CHANGED_EACH_LOOK = 128


class Room:
    """A copy of a site's plan; nothing that is done here changes the site."""

    def __init__(self, site: Site, now_ms: int, budget: WorkBudget) -> None:
        """Look at a site as it is now; whatever is looked at is counted."""
        guests = site.open_to_guests(now_ms)
        budget.spend(1 + len(guests.full.times) // _COPIED_EACH_LOOK)
        self._budget = budget
        self.name = site.name
        self._settings = site.settings
        self._floor = site.allocations
        self._full = guests.full.copy()
        share_vms = site.settings.non_preemptable_share_vms
        self._lent_vms_left = None if share_vms is None else share_vms - guests.non_preemptable_vms

    def span_ms(self, work: int) -> int:
        """How long so much work takes here."""
        return self._floor.wall_ms(work)

    def transfer_ms(self, component: Component) -> int:
        """How long a component's files take to get here, one after another, rounded up."""
        bits = sum(mib for site, mib in component.files if site != self.name) * _BITS_PER_MIB
        bits_per_ms = self._settings.overhead.network_mbps * _BITS_PER_MS_AT_ONE_MBPS
        return -(-bits // bits_per_ms)

    def free_vms(self, begin_ms: int, end_ms: int) -> int:
        """How many VMs a component could have all that time, by the plan and by what the owner lends."""
        longest_ms = self._settings.non_preemptable_max_ms
        if longest_ms is not None and end_ms - begin_ms > longest_ms:
            return 0
        self._spend(begin_ms, end_ms, _READ_EACH_LOOK)
        free = self._full.lowest(begin_ms, end_ms)
        return free if self._lent_vms_left is None else min(free, self._lent_vms_left)

    def take(self, begin_ms: int, end_ms: int, vms: int) -> None:
        """Give a component room."""
        self._spend(begin_ms, end_ms, _CHANGED_EACH_LOOK)
        self._full.take(begin_ms, end_ms, vms)
        if self._lent_vms_left is not None:
            self._lent_vms_left -= vms

    def give(self, begin_ms: int, end_ms: int, vms: int) -> None:
        """Take it back."""
        self._spend(begin_ms, end_ms, _CHANGED_EACH_LOOK)
        self._full.give(begin_ms, end_ms, vms)
        if self._lent_vms_left is not None:
            self._lent_vms_left += vms

    def starts_after(self, from_ms: int) -> Iterator[int]:
        """When room may come free, in order: at no other time can a start be possible that was not before."""
        times = self._full.times
        while (i := bisect_right(times, from_ms)) < len(times):
            from_ms = times[i]
            yield from_ms

    def _spend(self, begin_ms: int, end_ms: int, steps_each_look: int) -> None:
        times = self._full.times
        steps = bisect_left(times, end_ms) - bisect_right(times, begin_ms)
        self._budget.spend(1 + steps // steps_each_look)
