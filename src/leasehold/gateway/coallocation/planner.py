"""Where could components go? The sites that lend, those that agreements open, and places for all at the same time.

These are the stages of `leasehold.sharing.broker`; nothing here changes a site. What an instant may look at is
counted, never timed, so that decisions are the same on any machine: a *look* is one place examined for one component;
long plans count for more, at so many steps for each look. On an ordinary processor a look takes 5 to 10 microseconds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, takewhile

from leasehold.gateway.coallocation.placement.policy import PlacementOption, PlacementPolicy
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.site import Site
from leasehold.gateway.sites import RemoteSite, SiteRegistry
from leasehold.leasing.kernel import Profile
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.agreement import Breach
from leasehold.model.coallocation import CoAllocationRequest, Component
from leasehold.model.lease import Lease
from leasehold.model.reason import NEVER, Reason
from leasehold.model.request import NEVER_MS
from leasehold.sharing.broker import (
    ExtendedVirtualEnvironment,
    VirtualEnvironment,
    extend,
    virtual,
)

LOOKS_EACH_INSTANT = 4_000
"""What all co-allocations together may look at in one instant."""


class WorkBudget:
    """Counts looks; code that spends them asks now and then whether any are left, and stops where none are."""

    def __init__(self, looks: int = LOOKS_EACH_INSTANT) -> None:
        """Begin with this many looks."""
        self.looks = looks
        self.left = looks

    def renew(self) -> None:
        """Begin another instant."""
        self.left = self.looks

    def spend(self, looks: int = 1) -> None:
        """Count looks; the last ones may be more than were left."""
        self.left -= looks

    @property
    def spent(self) -> int:
        """How many looks were spent."""
        return self.looks - self.left

    @property
    def is_whole(self) -> bool:
        """Whether nothing has been spent."""
        return self.left == self.looks

    @property
    def is_spent(self) -> bool:
        """Whether it is time to stop."""
        return self.left <= 0


@dataclass(frozen=True, slots=True)
class NotNow:
    """There is no room for all yet, or an agreement does not allow it now."""

    breach: Breach | None = None


@dataclass(frozen=True, slots=True)
class Never:
    """It cannot be, and why."""

    reason: Reason
    breach: Breach | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The search budget of this instant was exhausted before an answer was found; the search resumes later."""


TryResult = NotNow | Never | Unfinished | None
"""None: every component has its place."""


_BITS_PER_MIB = 8 * 2**20
_BITS_PER_MS_AT_ONE_MBPS = 1_000

# How many steps of a plan take as long as one look, by what is done with them.
_COPIED_EACH_LOOK = 2_048
_READ_EACH_LOOK = 512
_CHANGED_EACH_LOOK = 128


class SitePlan:
    """A copy of a site's plan: what one component is given there, no other can have; the site does not change."""

    def __init__(self, site: Site, now_ms: int, budget: WorkBudget) -> None:
        """Copy the plan of a site as it is now; that is counted."""
        guests = site.open_to_guests(now_ms)
        assert isinstance(guests.full, Profile)  # components are of slots; see `Planner.rooms`
        budget.spend(1 + guests.full.steps // _COPIED_EACH_LOOK)
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
        return _transfer_ms(component, self.name, self._settings.overhead.network_mbps)

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
        while (from_ms := self._full.next_change_ms(from_ms)) != NEVER_MS:
            yield from_ms

    def _spend(self, begin_ms: int, end_ms: int, steps_each_look: int) -> None:
        self._budget.spend(1 + self._full.changes_between(begin_ms, end_ms) // steps_each_look)


class RemotePlan:
    """What a site with a manager of its own last reported, as if it stayed so: whether it does, the site says itself.

    It promises nothing before ``from_ms``: it has to be asked, and told that all others have promised their parts, too.
    """

    def __init__(self, remote: RemoteSite, free_vms: int, network_mbps: int, from_ms: int) -> None:
        """Look at a site that has so many VMs free."""
        self.name = remote.name
        self._speed_mips = remote.speed_mips
        self._network_mbps = network_mbps
        self._free_vms = free_vms
        self._from_ms = from_ms

    def span_ms(self, work: int) -> int:
        """How long so much work takes there."""
        return -(-work // self._speed_mips)

    def transfer_ms(self, component: Component) -> int:
        """How long a component's files take to get there, as `SitePlan` has it."""
        return _transfer_ms(component, self.name, self._network_mbps)

    def free_vms(self, begin_ms: int, end_ms: int) -> int:  # noqa: ARG002 - as `SitePlan`
        """How many VMs a component may have from then on."""
        return self._free_vms if begin_ms >= self._from_ms else 0

    def take(self, begin_ms: int, end_ms: int, vms: int) -> None:  # noqa: ARG002 - as `SitePlan`
        """Give a component room."""
        self._free_vms -= vms

    def give(self, begin_ms: int, end_ms: int, vms: int) -> None:  # noqa: ARG002 - as `SitePlan`
        """Take it back."""
        self._free_vms += vms

    def starts_after(self, from_ms: int) -> Iterator[int]:
        """When it can promise room for the first time."""
        return iter((self._from_ms,) if self._from_ms > from_ms else ())


Room = SitePlan | RemotePlan


def _transfer_ms(component: Component, name: str, network_mbps: int) -> int:
    bits = sum(mib for site, mib in component.files if site != name) * _BITS_PER_MIB
    return -(-bits // (network_mbps * _BITS_PER_MS_AT_ONE_MBPS))


Window = Callable[[str, int, int], tuple[int, int] | None]
"""From when until when a component would hold machines of a site: what its place has to be free for.

It takes the site, how long files travel there and how long the component runs (ms); None: it cannot be in time."""


def all_from(start_ms: int, now_ms: int, deadline_ms: int | None) -> Window:
    """Let a component run from a common start on, if its files are there by then."""

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:  # noqa: ARG001 - a Window
        in_time = now_ms + transfer_ms <= start_ms and _by(deadline_ms, start_ms + span_ms)
        return (start_ms, start_ms + span_ms) if in_time else None

    return window


def room_now(now_ms: int, margin_ms: int, deadline_ms: int | None) -> Window:
    """Let there be room from now on, until a component would be done that starts once its files are there."""

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:  # noqa: ARG001 - a Window
        end_ms = now_ms + transfer_ms + margin_ms + span_ms
        return (now_ms, end_ms) if _by(deadline_ms, end_ms) else None

    return window


def claimed_now(placed_at: str, start_ms: int, now_ms: int, deadline_ms: int | None) -> Window:
    """Let a component hold machines from now on, and run from a common start on.

    Its files are on their way to where it was placed; to another site they have to travel from now on.
    """

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:
        in_time = site == placed_at or now_ms + transfer_ms <= start_ms
        return (now_ms, start_ms + span_ms) if in_time and _by(deadline_ms, start_ms + span_ms) else None

    return window


def at_once(now_ms: int, deadline_ms: int | None) -> Window:
    """Let a component hold machines from now on, wait for its files, and run."""

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:  # noqa: ARG001 - a Window
        end_ms = now_ms + transfer_ms + span_ms
        return (now_ms, end_ms) if _by(deadline_ms, end_ms) else None

    return window


def _by(deadline_ms: int | None, end_ms: int) -> bool:
    return deadline_ms is None or end_ms <= deadline_ms


MOST_LOOKS = 2_000
"""How many places are tried before no way counts as found."""


@dataclass(frozen=True, slots=True)
class UnplacedComponent:
    """A component without a place: which it is, its work in work units, and the sites that it may go to."""

    index: int
    component: Component
    work: int
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    option: PlacementOption
    begin_ms: int
    end_ms: int


class Assigner:
    """Decides which component goes to which site, so that all of them have room at the same time.

    The widest component chooses first, then the next, as in KOALA. Where that leaves a component without a place, those
    before it take their next best site: so a way is found if there is one, within `MOST_LOOKS` and the budget of the
    instant. The ``rooms`` are left as they were.
    """

    def __init__(self, rooms: Mapping[str, Room], policy: PlacementPolicy, window: Window, budget: WorkBudget) -> None:
        """Look in these rooms, with this window, as long as the budget lasts."""
        self._rooms = rooms
        self._budget = budget
        self._policy = policy
        self._window = window
        self._looks_left = MOST_LOOKS

    def assign(self, wanted: Sequence[UnplacedComponent]) -> dict[int, str] | None:
        """Give a site to each component, by its index; None where no way was found."""
        in_turn = sorted(wanted, key=lambda one: (-one.component.vms, one.index))
        return self._place(in_turn)

    def _place(self, wanted: Sequence[UnplacedComponent]) -> dict[int, str] | None:
        if not wanted:
            return {}
        first, others = wanted[0], wanted[1:]
        for choice in self._choices(first):
            if self._looks_left <= 0 or self._budget.is_spent:
                return None
            self._looks_left -= 1
            room, vms = self._rooms[choice.option.site], first.component.vms
            room.take(choice.begin_ms, choice.end_ms, vms)
            places = self._place(others)
            room.give(choice.begin_ms, choice.end_ms, vms)
            if places is not None:
                return {first.index: choice.option.site, **places}
        return None

    def _choices(self, wanted: UnplacedComponent) -> list[_Choice]:
        """Give the places that a component could have, the one that it likes best first."""
        rooms = [self._rooms[site] for site in wanted.sites if site in self._rooms]
        found = [choice for room in rooms if (choice := self._look_at(wanted, room))]
        return sorted(found, key=lambda choice: self._policy(choice.option))

    def _look_at(self, wanted: UnplacedComponent, room: Room) -> _Choice | None:
        transfer_ms = room.transfer_ms(wanted.component)
        window = self._window(room.name, transfer_ms, room.span_ms(wanted.work))
        if window is None:
            return None
        free_vms = room.free_vms(*window)
        if free_vms < wanted.component.vms:
            return None
        return _Choice(PlacementOption(room.name, free_vms, transfer_ms), *window)


Refusals = Collection[tuple[int, str]]
"""Components, by their index, and sites that have refused them."""


def could_fit(components: Sequence[Component], vms: Mapping[str, int], refusals: Refusals = ()) -> bool:
    """Whether components would find room at the same time at sites that are empty and have so many VMs.

    Counts as yes where that is not found out within `MOST_LOOKS`.
    """
    left, looks = dict(vms), iter(range(MOST_LOOKS))

    def place(rest: Sequence[tuple[int, Component]]) -> bool:
        if not rest:
            return True
        index, first = rest[0]
        for site in (first.site,) if first.site else tuple(left):
            if next(looks, None) is None:
                return True
            if left[site] >= first.vms and (index, site) not in refusals:
                left[site] -= first.vms
                found = place(rest[1:])
                left[site] += first.vms
                if found:
                    return True
        return False

    return place(sorted(enumerate(components), key=lambda one: -one[1].vms))


_FOREVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Placement:
    """A site for each component, by its index; without, the breach that lasts longest, if that is why."""

    places: Mapping[int, str] | None
    breach: Breach | None = None


PREPARE_MS = 30_000
"""How long sites with managers of their own have to promise their parts, and then to confirm that these hold.

Their messages take a fraction of a second, or as long as they are out of touch."""


class Planner:
    """Looks at the gateway's sites; every look counts against the ``budget`` of the instant.

    What a site with a manager of its own has free is known only as far as it has said so.
    """

    def __init__(self, registry: SiteRegistry, quotas: QuotaEnforcer, reference_mips: int, budget: WorkBudget) -> None:
        """Begin; ``reference_mips`` is the speed that durations refer to."""
        self.budget = budget
        self._registry = registry
        self._sites = registry.own
        self._quotas = quotas
        self._reference_mips = reference_mips

    @property
    def all_lend(self) -> bool:
        """Whether all sites take guests, and their plans are known: there is no other start than those in the plans."""
        return len(self._registry.own_open()) == len(self._sites) and not self._promising()

    def rooms(self, now_ms: int) -> dict[str, SitePlan]:
        """Look at the sites that take guests now."""
        return {
            site.name: SitePlan(site, now_ms, self.budget)
            for site in self._registry.own_open()
            if not site.settings.nodes
        }

    def all_rooms(self, now_ms: int) -> dict[str, Room]:
        """Look at these, and at the sites with managers of their own that take guests now."""
        offers, rooms = self._registry.offers, dict[str, Room](self.rooms(now_ms))
        for remote in self._open_remotes():
            free_vms = max(0, remote.live.unclaimed_vms - offers.vms_at(remote.name))
            rooms[remote.name] = RemotePlan(remote, free_vms, self._network_mbps, now_ms + PREPARE_MS)
        self.budget.spend(len(rooms))
        return rooms

    @property
    def has_remotes(self) -> bool:
        """Whether a site with a manager of its own takes guests now."""
        return bool(self._open_remotes())

    def _open_remotes(self) -> list[RemoteSite]:
        closed = self._registry.not_lending
        return [
            one
            for one in self._registry.remotes.values()
            if one.promises and one.is_open and not one.nodes and one.name not in closed
        ]

    @property
    def _network_mbps(self) -> int:
        """How fast files travel to a site that does not say it: as to the slowest of one's own."""
        known = (site.settings.overhead.network_mbps for site in self._sites.values())
        return min(known, default=OverheadModel().network_mbps)

    # The stages

    def virtual(self, request: CoAllocationRequest, index: int) -> VirtualEnvironment:
        """Give the sites that there are for a component: those that lend, and have its image; or the one it names."""
        component = request.components[index]
        sites = [one.name for one in self._registry.own_open()] + [one.name for one in self._open_remotes()]
        if component.image:
            wanted = request.request(index, 0)
            sites = [name for name in sites if self._registry.lacks(wanted, name) is None]
        return virtual(sites, lambda name: component.site in ("", name))

    def extended(
        self, request: CoAllocationRequest, index: int, lease: Lease, start_ms: int, now_ms: int
    ) -> ExtendedVirtualEnvironment:
        """Give those of them where agreements let a component run from ``start_ms`` on."""
        starting = replace(lease, request=replace(lease.request, ready_ms=start_ms))

        def why_not(site: str) -> Breach | None:
            return self._quotas.why_not_there(starting, site, self._registry.speed_of(site), now_ms)

        environment = extend(self.virtual(request, index), why_not)
        return replace(environment, sites=self._best(lease, environment.sites, now_ms))

    def _best(self, lease: Lease, sites: Collection[str], now_ms: int) -> tuple[str, ...]:
        """Of these sites, give those that the broker recommends."""

        def room(site: str) -> int:
            remote = self._registry.remotes.get(site)
            return self._sites[site].free_vms if remote is None else remote.live.unclaimed_vms

        facts = [one for one in self._registry.federation.sites if one.name in sites]
        return tuple(one.name for one in self._quotas.best(lease, facts, room, now_ms))

    def find(
        self,
        request: CoAllocationRequest,
        leases: Mapping[int, Lease],
        looking: Assigner,
        now_ms: int,
        refusals: Refusals = (),
        start_ms: int | None = None,
    ) -> Placement:
        """Find places for these components, by their indices, all at the same time: ``start_ms``, or now."""
        wanted: list[UnplacedComponent] = []
        breaches: list[Breach] = []
        for index, lease in leases.items():
            self.budget.spend(len(self._sites))
            environment = self.extended(request, index, lease, start_ms or now_ms, now_ms)
            if not environment.sites and environment.breaches:
                breaches.append(min(environment.breaches.values(), key=_lasts))
            sites = tuple(site for site in environment.sites if (index, site) not in refusals)
            wanted.append(UnplacedComponent(index, request.components[index], self.work(request, index), sites))
        if breaches:
            return Placement(None, max(breaches, key=_lasts))
        return Placement(looking.assign(wanted))

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

    # Bounds that need no look at any plan

    def shortest_ms(self, request: CoAllocationRequest) -> int:
        """Give the least time that a co-allocation takes from its start to its end, wherever it is placed."""
        own = [site.settings.speed_mips for site in self._sites.values()]
        fastest = max((*own, *(remote.speed_mips for remote in self._promising())), default=self._reference_mips)
        return max(-(-self.work(request, index) // fastest) for index in range(len(request.components)))

    def _promising(self) -> list[RemoteSite]:
        return [one for one in self._registry.remotes.values() if one.promises]

    def why_never(self, request: CoAllocationRequest, refusals: Refusals = ()) -> Reason | None:
        """Say why a co-allocation could not run though all sites were empty; None if it could.

        Of sites with managers of their own it is known what they have, not what they lend; and what they have refused.
        """
        slots = {site.name: site.settings.slots for site in self._sites.values()}
        slots |= {remote.name: remote.slots for remote in self._promising()}
        widest = max(slots.values(), default=0)
        for component in request.components:
            if component.vms > slots.get(component.site, component.vms):
                return Reason.WIDER_THAN_SITE
            if component.vms > widest:
                return Reason.WIDER_THAN_ANY_SITE
        work = min(self.work(request, index) for index in range(len(request.components)))
        lent = {name: _lent_without_preemption(site, work) for name, site in self._sites.items()}
        lent |= {remote.name: 0 if remote.nodes else remote.slots for remote in self._promising()}
        lacks = dict(self._lacking(request, lent))
        for index, component in enumerate(request.components):
            found = [lacks.get((index, name)) for name in ([component.site] if component.site in lent else lent)]
            if found and None not in found:
                return found[0]
        if could_fit(request.components, lent, {*refusals, *lacks}):
            return None
        nobody_lends = all(site.settings.non_preemptable_share_vms == 0 for site in self._sites.values())
        nobody_lends = nobody_lends and not self._promising()
        return Reason.NON_PREEMPTABLE_NOT_ALLOWED if nobody_lends else Reason.NO_COMMON_ROOM

    def _lacking(self, request: CoAllocationRequest, sites: Iterable[str]) -> Iterator[tuple[tuple[int, str], Reason]]:
        """Give the components, by their index, with the sites that lack their image, and why."""
        for index, component in enumerate(request.components):
            wanted = request.request(index, 0)
            for name in sites if component.image else ():
                reason = self._registry.lacks(wanted, name)
                if reason is not None:
                    yield (index, name), reason


def _lent_without_preemption(site: Site, work: int) -> int:
    """The most VMs that Non-preemptable components of at least so much work can ever have at a site."""
    if site.settings.nodes:
        return 0
    longest_ms = site.settings.non_preemptable_max_ms
    if longest_ms is not None and site.allocations.wall_ms(work) > longest_ms:
        return 0
    share_vms = site.settings.non_preemptable_share_vms
    return site.settings.slots if share_vms is None else min(share_vms, site.settings.slots)


def _lasts(breach: Breach) -> tuple[bool, int]:
    """How long a breach lasts: for ever, or until there is room."""
    return (breach.reason in NEVER, _FOREVER_MS if breach.next_ms is None else breach.next_ms)
