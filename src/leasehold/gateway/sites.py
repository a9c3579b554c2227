"""The sites that routing chooses from: the gateway's own, those that decide for themselves, and which take guests now.

The gateway offers a request to a site that decides for itself; the site accepts it or says why not, and reports
whatever becomes of it. What is at the site is the site's to decide: the gateway follows its reports and never plans
its machines. A lease is therefore in one place at any time, however long the two do not hear of each other.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from leasehold.gateway.guests import why_on_no_node
from leasehold.gateway.settings import SiteSettings, can_serve, lacks
from leasehold.gateway.site import Site
from leasehold.model.errors import InvalidField
from leasehold.model.event import Carried, SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import MOVES, Step
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.model.resources import MachineShape, NodeResources, is_plain, room_for
from leasehold.routing.moments import StreamMoments
from leasehold.routing.view import SiteFacts, SiteLive, SiteSet


@dataclass(frozen=True, slots=True)
class Reach:
    """What can be had through a peer at gateways so many hops beyond it, as if it were one site.

    ``slots``  the most VMs that one lease can have there, and ``free_vms`` the most that one could have there at once
    """

    slots: int
    free_vms: int = field(default=0, compare=False)
    can_suspend: bool = True
    can_migrate: bool = True
    lends: bool = True
    images: tuple[str, ...] = ()
    login: bool = False

    def can_take(self, request: Request) -> bool:
        """Whether such a request could be served there, now or later."""
        return (
            self.slots >= request.vms
            and can_serve(request.lease_type, suspend=self.can_suspend, migrate=self.can_migrate)
            and lacks(request, images=self.images, login=self.login) is None
        )


@dataclass(slots=True)
class RemoteSite:
    """One site that decides for itself, as it was last reported.

    ``live``     its state in its last report
    ``hands_over``  whether memory that it saved can go on at sites of others, and theirs there
    ``lends``    whether its owner takes new guests
    ``silent``   whether it has not reported for too long: nothing is sent there until it does
    ``nodes``    the nodes that it is planned by; none: by slots
    ``images``   the names of the images that a lease may name there; ``login``: its user can log in by a key
    ``promises`` whether it promises components of co-allocations their room, until they are committed
    ``is_peer``  whether it is another gateway, asked only as `leasehold.gateway.peering` says; ``slots`` is
                 then the most that one lease can have there
    ``gateway_id`` the ID of a peer on paths, and ``beyond`` what can be had through it: at its peers, at theirs, ...
    """

    name: str
    slots: int
    speed_mips: int
    can_suspend: bool = True
    can_migrate: bool = True
    lends: bool = True
    hands_over: bool = False
    silent: bool = False
    is_peer: bool = False
    promises: bool = False
    live: SiteLive = field(default_factory=lambda: SiteLive(0))
    leases: dict[int, Lease] = field(default_factory=dict)
    nodes: tuple[NodeResources, ...] = ()
    images: tuple[str, ...] = ()
    login: bool = False
    gateway_id: str = ""
    beyond: tuple[Reach, ...] = ()

    def __post_init__(self) -> None:
        """Refuse sizes and speeds that make no sense."""
        for name in ("slots", "speed_mips"):
            if getattr(self, name) < 1:
                raise InvalidField(f"{self.name}.{name}", getattr(self, name), "a whole number of at least 1")

    @property
    def is_open(self) -> bool:
        """Whether something can be offered to it now."""
        return self.lends and not self.silent

    def reaches(self, hop_limit: int) -> tuple[Reach, ...]:
        """Give what a request finds here, and beyond within so many hops, nearest first; below 0: nothing."""
        if hop_limit < 0:
            return ()
        here = Reach(
            self.slots, self.live.unclaimed_vms, self.can_suspend, self.can_migrate, self.lends, self.images, self.login
        )
        return (here, *self.beyond[:hop_limit])

    def can_serve(self, lease_type: LeaseType) -> bool:
        """Whether the machines there can do what preempting such a guest takes."""
        return can_serve(lease_type, suspend=self.can_suspend, migrate=self.can_migrate)

    def lacks(self, request: Request) -> Reason | None:
        """Say what machines there lack of what a request says they are to be like; None where it is all there."""
        return lacks(request, images=self.images, login=self.login)


@dataclass(frozen=True, slots=True)
class RemoteTold:
    """What a site that decides for itself, or a peer, says of itself; as plain data, so that it can be kept.

    ``free_vms`` and what follows are as in `leasehold.routing.view.SiteLive`, ``units`` are what agreements count: of
    each resource. All else is as in `RemoteSite`.
    """

    name: str
    slots: int
    speed_mips: int
    can_suspend: bool = True
    can_migrate: bool = True
    lends: bool = True
    hands_over: bool = False
    silent: bool = False
    is_peer: bool = False
    promises: bool = False
    nodes: tuple[NodeResources, ...] = ()
    images: tuple[str, ...] = ()
    login: bool = False
    gateway_id: str = ""
    beyond: tuple[Reach, ...] = ()
    free_vms: int = field(default=0, compare=False)
    local_waiting_vms: int = field(default=0, compare=False)
    guest_waiting_vms: int = field(default=0, compare=False)
    running_guest_vms: int = field(default=0, compare=False)
    units: dict[str, int] = field(default_factory=dict, compare=False)

    @property
    def live(self) -> SiteLive:
        """Give how it is now, for routing."""
        return SiteLive(self.free_vms, self.local_waiting_vms, self.guest_waiting_vms, self.running_guest_vms)

    def remote(self) -> RemoteSite:
        """Give it as the gateway knows it, without leases; raises InvalidField."""
        return RemoteSite(
            self.name,
            self.slots,
            self.speed_mips,
            self.can_suspend,
            self.can_migrate,
            self.lends,
            self.hands_over,
            self.silent,
            self.is_peer,
            self.promises,
            self.live,
            nodes=self.nodes,
            images=self.images,
            login=self.login,
            gateway_id=self.gateway_id,
            beyond=self.beyond,
        )

    def is_like(self, before: RemoteSite) -> bool:
        """Whether nothing has changed of what routing takes for granted."""
        return self == replace(told_of(before, {}), lends=self.lends, silent=self.silent)


def told_of(remote: RemoteSite, units: Mapping[str, int]) -> RemoteTold:
    """Give what is known of a site that decides for itself, or of a peer; ``units`` are what agreements count."""
    live = remote.live
    return RemoteTold(
        remote.name,
        remote.slots,
        remote.speed_mips,
        remote.can_suspend,
        remote.can_migrate,
        remote.lends,
        remote.hands_over,
        remote.silent,
        remote.is_peer,
        remote.promises,
        remote.nodes,
        remote.images,
        remote.login,
        remote.gateway_id,
        remote.beyond,
        live.free_vms,
        live.local_waiting_vms,
        live.guest_waiting_vms,
        live.running_guest_vms,
        dict(units),
    )


def can_follow(lease: Lease, report: SiteReported) -> bool:
    """Whether the life of a lease may lead to what its site reports; steps in between may go untold."""
    if report.state is lease.state:
        return True
    has_run = lease.state is LeaseState.RUNNING or lease.first_start_ms >= 0
    return report.state in _later(lease.request.lease_type, lease.state, has_run=has_run)


def follow(lease: Lease, report: SiteReported) -> None:
    """Update a lease to what its site reports; what has happened stays so."""
    lease.state = report.state
    lease.reserved_ms = report.planned_ms
    if lease.first_start_ms < 0:
        lease.first_start_ms = report.first_start_ms
    lease.preemptions = max(lease.preemptions, report.preemptions)
    lease.overhead_vm_ms = max(lease.overhead_vm_ms, report.overhead_vm_ms)
    lease.migrations = max(lease.migrations, report.migrations)


def report_of(lease: Lease, site: str, reason: Reason) -> SiteReported:
    """Give what its site reports of a lease, as it is there now."""
    return SiteReported(
        lease.id,
        site,
        lease.state,
        reason,
        lease.reserved_ms,
        lease.first_start_ms,
        lease.preemptions,
        lease.overhead_vm_ms,
        lease.migrations,
        lease.work_left,
    )


def carried_by(lease: Lease) -> Carried | None:
    """Give what a lease brings along to another site; None for one that begins there."""
    if not lease.memory_at:
        return None
    return Carried(lease.memory_at, lease.work_left, lease.preemptions, lease.migrations, lease.overhead_vm_ms)


@cache
def _later(lease_type: LeaseType, state: LeaseState, *, has_run: bool) -> frozenset[LeaseState]:
    """Every state that can follow one, however many steps later.

    Only a lease that gave way before its machines were seen leaves, unrun, the site that suspends it. That one begins
    again is decided by the gateway, and reported by no site.
    """
    moves = {move: then for move, then in MOVES[lease_type].items() if move[1] is not Step.RESTART}
    if has_run:
        moves = {move: then for move, then in moves.items() if move != (LeaseState.SUSPENDING, Step.HOLD)}
    found: set[LeaseState] = set()
    ahead = [state]
    while ahead:
        here = ahead.pop()
        following = {then for (before, _), then in moves.items() if before is here}
        ahead += following - found
        found |= following
    return frozenset(found)


class OpenOffers:
    """What was offered to sites and peers that decide for themselves, and has not been answered yet.

    What a site last reported does not contain it. Were it not counted, all requests that come between two reports
    would be sent to the one site that had most room at the first.
    """

    def __init__(self) -> None:
        """Begin without offers."""
        self._vms: dict[str, dict[int, int]] = {}

    def add(self, lease: Lease) -> None:
        """Count an offer to the site or peer that a lease names."""
        self._vms.setdefault(lease.site, {})[lease.id] = lease.vms

    def answered(self, lease: Lease) -> None:
        """Count an offer no longer: it was answered, or its lease is over."""
        there = self._vms.get(lease.site)
        if there is not None:
            there.pop(lease.id, None)
            if not there:
                del self._vms[lease.site]

    def remove(self, name: str) -> None:
        """Drop all offers to a site or peer that has left."""
        self._vms.pop(name, None)

    def vms_at(self, name: str) -> int:
        """The VMs that a site or peer may have to find for them."""
        there = self._vms.get(name)
        return sum(there.values()) if there else 0

    def leases_at(self, name: str) -> int:
        """The number of leases that they are."""
        return len(self._vms.get(name, ()))

    def snapshot(self) -> dict[str, Any]:
        """Return everything, as plain data for `restore`."""
        return {name: list(there.items()) for name, there in self._vms.items()}

    def restore(self, snapshot: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        """Restore the state that `snapshot` returned."""
        self._vms = {name: dict(there) for name, there in snapshot.items()}


class SiteRegistry:
    """The sites behind a gateway. Peers are among ``remotes``, and nowhere else here.

    ``own``          the gateway's own sites
    ``remotes``      sites elsewhere and peers, which decide for themselves; ``offers`` are what was offered to them
    ``not_lending``  sites whose owners take no new guests
    ``federation``   the sites that routing policies choose from
    ``touched``      own sites to be served in this instant
    """

    def __init__(self, own: dict[str, Site], reference_mips: int, told_locals: Mapping[str, StreamMoments]) -> None:
        """Begin with the gateway's own sites; ``told_locals`` are streams of their users that an operator states."""
        self.own = own
        self.remotes: dict[str, RemoteSite] = {}
        self.offers = OpenOffers()
        self.not_lending: set[str] = set()
        self.touched: dict[str, Site] = {}
        self._reference_mips = reference_mips
        self._set_federation(self._facts(site.settings, told_locals.get(site.name)) for site in own.values())

    def touch(self, name: str) -> Site:
        """Have an own site served in this instant."""
        site = self.own[name]
        self.touched[name] = site
        return site

    def join(self, remote: RemoteSite) -> None:
        """Add a site that decides for itself, or a peer; one that was there before may have changed."""
        before = self.remotes.get(remote.name)
        if before is not None:
            remote.leases = before.leases
        self.remotes[remote.name] = remote
        if not remote.is_peer:
            self._set_federation([*self._all_but(remote.name), self._facts(remote)])

    def remove(self, name: str) -> RemoteSite | None:
        """Remove a site that decides for itself; returns how it was, None if it never joined."""
        remote = self.remotes.pop(name, None)
        self.not_lending.discard(name)
        self.offers.remove(name)
        self._set_federation(self._all_but(name))
        return remote

    def able(self, request: Request, sites: Sequence[SiteFacts], refused_by: Collection[str]) -> Sequence[SiteFacts]:
        """Return those of these sites that can serve such a lease and have not refused it: nearly always all."""
        lease_type = request.lease_type
        if self._have_nodes or request.cores > 1 or request.gpu_milli:
            sites = [site for site in sites if self._has_room(site.name, request)]
        if request.image or request.login:
            sites = [site for site in sites if self.lacks(request, site.name) is None]
        if lease_type in self._served_everywhere and not refused_by:
            return sites
        return [s for s in sites if s.name not in refused_by and self._can_serve(s.name, lease_type)]

    def lacks(self, request: Request, name: str) -> Reason | None:
        """Say why the machines of a site will not do for a request; None where they will."""
        return self._place(name).lacks(request)

    def hands_over(self, name: str) -> bool:
        """Whether memory that another manager's site has saved can go on at this one."""
        remote = self.remotes.get(name)
        return self.own[name].settings.hands_over if remote is None else remote.hands_over

    def why_not(self, lease: Lease, site: SiteFacts) -> Reason | None:
        """Say why a site can never take a lease, or takes no guests now; None where it does."""
        if lease.vms > site.slots:
            return Reason.WIDER_THAN_SITE
        if not self._can_serve(site.name, lease.request.lease_type):
            return Reason.NO_CAPABLE_SITE
        lacks = self.lacks(lease.request, site.name)
        if lacks is not None:
            return lacks
        remote = self.remotes.get(site.name)
        if site.name in self.not_lending or (remote is not None and not remote.lends):
            return Reason.SITE_DRAINED
        is_silent = self.own[site.name].allocations.is_silent if remote is None else remote.silent
        return Reason.SITE_UNREACHABLE if is_silent else None

    def open(self, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Return those of these sites that take guests now."""
        closed = self.closed
        if self.remotes:
            closed |= {name for name, remote in self.remotes.items() if not remote.is_open}
        return [site for site in sites if site.name not in closed] if closed else sites

    @property
    def closed(self) -> set[str]:
        """Sites to which no guests are sent because of their owner, or because their machines do not answer."""
        return self.not_lending | {name for name, site in self.own.items() if site.allocations.is_silent}

    def own_open(self) -> list[Site]:
        """List the gateway's own sites that take guests now."""
        closed = self.closed
        return [site for site in self.own.values() if site.name not in closed]

    def speed_of(self, name: str) -> int:
        """Return the speed of one slot of a site or peer, MIPS."""
        remote = self.remotes.get(name)
        return self.own[name].settings.speed_mips if remote is None else remote.speed_mips

    def is_planned_by_nodes(self, name: str) -> bool:
        """Whether a site states its nodes, and plans by them; one that is not there does not."""
        place = self.own.get(name)
        return bool(place.settings.nodes if place is not None else name in self.remotes and self.remotes[name].nodes)

    def _has_room(self, name: str, request: Request) -> bool:
        """Whether the site has room for it when it is empty; a peer knows that itself."""
        remote = self.remotes.get(name)
        nodes = self.own[name].settings.nodes if remote is None else remote.nodes
        if not nodes:
            return is_plain(request)
        return room_for(nodes, MachineShape.of(request)) >= request.vms

    def lacking(self, request: Request, bound: Sequence[SiteFacts]) -> Reason | None:
        """Say what all sites lack of what each of its machines needs; None where that is not why none can take it.

        ``bound`` are the sites to which it may go, as far as it says so itself.
        """
        fitting = [site for site in self.federation.sites if self._has_room(site.name, request)]
        if fitting:
            lacks = [
                self.lacks(request, site.name) for site in fitting if site in bound and site.slots >= request.slots
            ]
            return None if None in lacks or not lacks else lacks[0]
        if is_plain(request) and not self._have_nodes:
            return None
        nodes, shape = list(self.nodes()), MachineShape.of(request)
        if room_for(nodes, shape) or (is_plain(request) and not all(one.settings.nodes for one in self.own.values())):
            return Reason.WIDER_THAN_ANY_SITE
        return why_on_no_node(nodes, request)

    def nodes(self) -> Iterator[NodeResources]:
        """Iterate over the nodes of all sites that state theirs."""
        for site in self.own.values():
            yield from site.settings.nodes
        for remote in self.remotes.values():
            yield from remote.nodes

    def images(self, site: str | None = None) -> list[str]:
        """List the names of the images that some site or peer has, or this site of one's own, in order."""
        places: list[SiteSettings | RemoteSite] = [self.own[site].settings] if site else []
        if site is None:
            places = [*(one.settings for one in self.own.values()), *self.remotes.values()]
        return sorted({image for place in places for image in place.images})

    def _can_serve(self, name: str, lease_type: LeaseType) -> bool:
        return self._place(name).can_serve(lease_type)

    def _place(self, name: str) -> RemoteSite | SiteSettings:
        return self.remotes.get(name) or self.own[name].settings

    def _facts(self, place: SiteSettings | RemoteSite, moments: StreamMoments | None = None) -> SiteFacts:
        return SiteFacts(place.name, place.slots, place.speed_mips, self._reference_mips, moments)

    def _all_but(self, name: str) -> list[SiteFacts]:
        return [facts for facts in self.federation.sites if facts.name != name]

    def _set_federation(self, sites: Iterable[SiteFacts]) -> None:
        """Let these be the sites, and see what all of them can do."""
        self.federation = SiteSet(sites)
        names = [site.name for site in self.federation.sites]
        self._have_nodes = any(True for _ in self.nodes())
        self._served_everywhere = {kind for kind in LeaseType if all(self._can_serve(name, kind) for name in names)}
