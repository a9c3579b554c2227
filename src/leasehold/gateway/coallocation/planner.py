"""Where could components go? The sites that lend, those that agreements open, and places for all at once.

These are the stages of `leasehold.sharing.broker`; nothing here changes anything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, takewhile

from leasehold.gateway.budget import WorkBudget
from leasehold.gateway.coallocation.assigning import Assigner, Wanted, could_fit
from leasehold.gateway.coallocation.rooms import Room
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.site import Site
from leasehold.gateway.sites import SiteRegistry
from leasehold.model.agreement import Breach
from leasehold.model.coallocation import CoAllocationRequest
from leasehold.model.lease import Lease
from leasehold.model.reason import NEVER, Reason
from leasehold.sharing.broker import ExtendedVirtualEnvironment, VirtualEnvironment, extend, virtual

Barred = Collection[tuple[int, str]]
"""Components, by their index, and sites that have refused them."""

_FOREVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Found:
    """A site for each component, by its index; without, the breach that lasts longest, if that is why."""

    places: Mapping[int, str] | None
    breach: Breach | None = None


class Planner:
    """Looks at the gateway's own sites; every look counts against the ``budget`` of the instant."""

    def __init__(
        self,
        sites: Mapping[str, Site],
        lenders: SiteRegistry,
        quotas: QuotaEnforcer,
        reference_mips: int,
        budget: WorkBudget,
    ) -> None:
        """Begin; ``reference_mips`` is the speed that durations refer to."""
        self.budget = budget
        self._sites = sites
        self._lenders = lenders
        self._quotas = quotas
        self._reference_mips = reference_mips

    @property
    def all_lend(self) -> bool:
        """Whether no site of the gateway's own is shut to guests."""
        return len(self._lenders.own()) == len(self._sites)

    def rooms(self, now_ms: int) -> dict[str, Room]:
        """Look at the sites that take guests now."""
        return {site.name: Room(site, now_ms, self.budget) for site in self._lenders.own()}

    # The stages

    def virtual(self, request: CoAllocationRequest, index: int) -> VirtualEnvironment:
        """Give the sites that there are for a component: those that lend, or the one that it has to be at."""
        named = request.components[index].site
        return virtual((site.name for site in self._lenders.own()), lambda name: named in ("", name))

    def extended(
        self, request: CoAllocationRequest, index: int, lease: Lease, start_ms: int, now_ms: int
    ) -> ExtendedVirtualEnvironment:
        """Give those of them where agreements let a component run from ``start_ms`` on."""
        starting = replace(lease, request=replace(lease.request, ready_ms=start_ms))

        def why_not(site: str) -> Breach | None:
            speed_mips = self._sites[site].settings.speed_mips
            return self._quotas.why_not_there(starting, site, speed_mips, now_ms)

        environment = extend(self.virtual(request, index), why_not)
        return replace(environment, sites=self._best(lease, environment.sites, now_ms))

    def _best(self, lease: Lease, sites: Collection[str], now_ms: int) -> tuple[str, ...]:
        """Of these sites, give those that the broker recommends."""

        def room(site: str) -> int:
            return self._sites[site].free_vms

        facts = [one for one in self._lenders.federation.sites if one.name in sites]
        return tuple(one.name for one in self._quotas.best(lease, facts, room, now_ms))

    def find(
        self,
        request: CoAllocationRequest,
        leases: Mapping[int, Lease],
        looking: Assigner,
        now_ms: int,
        barred: Barred = (),
        start_ms: int | None = None,
    ) -> Found:
        """Find places for these components, by their indices, all at the same time: ``start_ms``, or now."""
        wanted: list[Wanted] = []
        breaches: list[Breach] = []
        for index, lease in leases.items():
            self.budget.spend(len(self._sites))
            environment = self.extended(request, index, lease, start_ms or now_ms, now_ms)
            if not environment.sites and environment.breaches:
                breaches.append(min(environment.breaches.values(), key=_lasts))
            sites = tuple(site for site in environment.sites if (index, site) not in barred)
            wanted.append(Wanted(index, request.components[index], self.work(request, index), sites))
        if breaches:
            return Found(None, max(breaches, key=_lasts))
        return Found(looking.assign(wanted))

    def work(self, request: CoAllocationRequest, index: int) -> int:
        """Give what a component asks for, in work units."""
        return request.components[index].duration_ms * self._reference_mips

    def starts(
        self, request: CoAllocationRequest, rooms: Mapping[str, Room], from_ms: int, now_ms: int
    ) -> Iterator[int]:
        """Give the times from ``from_ms`` on at which a common start can become possible, in order."""
        arrivals = (now_ms + room.transfer_ms(part) for room in rooms.values() for part in request.components)
        plans = [room.starts_after(from_ms) for room in rooms.values()]
        starts: Iterable[int] = merge([from_ms], sorted(at_ms for at_ms in arrivals if at_ms > from_ms), *plans)
        if request.deadline_ms is not None:
            last_ms = request.deadline_ms - self.shortest_ms(request)
            starts = takewhile(lambda at_ms: at_ms <= last_ms, starts)
        return (at_ms for at_ms, _ in groupby(starts))

    # What can be said without looking at any plan

    def shortest_ms(self, request: CoAllocationRequest) -> int:
        """Give the least time that a co-allocation takes from its start to its end, wherever it is placed."""
        fastest = max(site.settings.speed_mips for site in self._sites.values())
        return max(-(-self.work(request, index) // fastest) for index in range(len(request.components)))

    def why_never(self, request: CoAllocationRequest) -> Reason | None:
        """Say why a co-allocation could not run though all sites were empty; None if it could."""
        widest = max(site.settings.slots for site in self._sites.values())
        for component in request.components:
            named = self._sites.get(component.site)
            if named is not None and component.vms > named.settings.slots:
                return Reason.WIDER_THAN_SITE
            if component.vms > widest:
                return Reason.WIDER_THAN_ANY_SITE
        work = min(self.work(request, index) for index in range(len(request.components)))
        lent = {name: _lent_for_good(site, work) for name, site in self._sites.items()}
        if could_fit(request.components, lent):
            return None
        nobody_lends = all(site.settings.non_preemptable_share_vms == 0 for site in self._sites.values())
        return Reason.NON_PREEMPTABLE_NOT_ALLOWED if nobody_lends else Reason.NO_COMMON_ROOM


def _lent_for_good(site: Site, work: int) -> int:
    """The most VMs that Non-preemptable components of at least so much work can ever have at a site."""
    longest_ms = site.settings.non_preemptable_max_ms
    if longest_ms is not None and site.allocations.wall_ms(work) > longest_ms:
        return 0
    share_vms = site.settings.non_preemptable_share_vms
    return site.settings.slots if share_vms is None else min(share_vms, site.settings.slots)


def _lasts(breach: Breach) -> tuple[bool, int]:
    """How long a breach lasts: for ever, or until there is room."""
    return (breach.reason in NEVER, _FOREVER_MS if breach.next_ms is None else breach.next_ms)
