"""The sites that routing chooses from: the gateway's own, those that decide for themselves, and which take guests now.

The gateway offers a request to a site that decides for itself; the site accepts it or says why not, and reports
whatever becomes of it. What is at the site is the site's to decide: the gateway follows its reports and never plans
its machines. A lease is therefore in one place at any time, however long the two do not hear of each other.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from leasehold.gateway.settings import SiteSettings, can_serve
from leasehold.gateway.site import Site
from leasehold.model.errors import InvalidField
from leasehold.model.event import SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import MOVES, Step
from leasehold.model.request import LeaseType
from leasehold.routing.moments import StreamMoments
from leasehold.routing.view import SiteFacts, SiteLive, SiteSet


@dataclass(slots=True)
class RemoteSite:
    """One site that a manager of its own looks after.

    ``live``     how it was when it was last heard of
    ``lends``    whether its owner takes new guests
    ``silent``   whether it has not been heard of for too long: nothing is sent there until it is
    ``is_peer``  whether it is another gateway, asked only as `leasehold.gateway.peering` says; ``slots`` is
                 then the most that one lease can have there
    """

    name: str
    slots: int
    speed_mips: int
    can_suspend: bool = True
    can_migrate: bool = True
    lends: bool = True
    silent: bool = False
    is_peer: bool = False
    live: SiteLive = field(default_factory=lambda: SiteLive(0))
    leases: dict[int, Lease] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse sizes and speeds that make no sense."""
        for name in ("slots", "speed_mips"):
            if getattr(self, name) < 1:
                raise InvalidField(f"{self.name}.{name}", getattr(self, name), "a whole number of at least 1")

    @property
    def is_open(self) -> bool:
        """Whether something can be offered to it now."""
        return self.lends and not self.silent

    def can_serve(self, lease_type: LeaseType) -> bool:
        """Whether the machines there can do what preempting such a guest takes."""
        return can_serve(lease_type, suspend=self.can_suspend, migrate=self.can_migrate)


def can_follow(lease: Lease, report: SiteReported) -> bool:
    """Whether the life of a lease may lead to what its site reports; steps in between may go untold."""
    if report.state is lease.state:
        return True
    has_run = lease.state is LeaseState.RUNNING or lease.first_start_ms >= 0
    return report.state in _later(lease.request.lease_type, lease.state, has_run=has_run)


def follow(lease: Lease, report: SiteReported) -> None:
    """Let the gateway's picture of a lease be what its site reports; what has happened stays so."""
    lease.state = report.state
    lease.reserved_ms = report.planned_ms
    if lease.first_start_ms < 0:
        lease.first_start_ms = report.first_start_ms
    lease.preemptions = max(lease.preemptions, report.preemptions)
    lease.overhead_vm_ms = max(lease.overhead_vm_ms, report.overhead_vm_ms)


@cache
def _later(lease_type: LeaseType, state: LeaseState, *, has_run: bool) -> frozenset[LeaseState]:
    """Every state that can follow one, however many steps later.

    Only a lease that gave way before its machines were seen leaves, unrun, the site that suspends it.
    """
    moves = MOVES[lease_type]
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

    def snapshot(self) -> dict[str, Any]:
        """Give everything, as plain data for `restore`."""
        return {name: list(there.items()) for name, there in self._vms.items()}

    def restore(self, snapshot: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        """Know again what has not been answered."""
        self._vms = {name: dict(there) for name, there in snapshot.items()}


class SiteRegistry:
    """The sites behind a gateway. Peers are among ``remotes``, and nowhere else here.

    ``remotes``      who decides for itself: sites elsewhere, and peers
    ``not_lending``  sites whose owners take no new guests
    ``federation``   the sites that routing policies choose from
    """

    def __init__(
        self, sites: Mapping[str, Site], reference_mips: int, told_locals: Mapping[str, StreamMoments]
    ) -> None:
        """Begin with the gateway's own sites."""
        self.remotes: dict[str, RemoteSite] = {}
        self.not_lending: set[str] = set()
        self._sites = sites
        self._reference_mips = reference_mips
        self._be(self._facts(s.settings, told_locals.get(s.name)) for s in sites.values())

    def join(self, remote: RemoteSite) -> None:
        """Let somebody take part who decides for itself; one that was there before may have changed."""
        before = self.remotes.get(remote.name)
        if before is not None:
            remote.leases = before.leases
        self.remotes[remote.name] = remote
        if not remote.is_peer:
            self._be([*self._all_but(remote.name), self._facts(remote)])

    def part_with(self, name: str) -> RemoteSite | None:
        """Somebody who decides for itself will not come back; returns how it was, None if it never came."""
        remote = self.remotes.pop(name, None)
        self.not_lending.discard(name)
        self._be(self._all_but(name))
        return remote

    def able(
        self, lease_type: LeaseType, sites: Sequence[SiteFacts], refused_by: Collection[str]
    ) -> Sequence[SiteFacts]:
        """Of these sites, those that can serve such a lease and have not refused it: nearly always all."""
        if lease_type in self._served_everywhere and not refused_by:
            return sites
        return [s for s in sites if s.name not in refused_by and self._can_serve(s.name, lease_type)]

    def open(self, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Of these sites, those that take guests now."""
        closed = self.closed | {name for name, remote in self.remotes.items() if not remote.is_open}
        return [site for site in sites if site.name not in closed] if closed else sites

    @property
    def closed(self) -> set[str]:
        """Own sites, and others, to which no guests are sent because of their owner, or their machines."""
        return self.not_lending | {name for name, site in self._sites.items() if site.allocations.is_silent}

    def own(self) -> list[Site]:
        """Give the gateway's own sites that take guests now."""
        closed = self.closed
        return [site for site in self._sites.values() if site.name not in closed]

    def speed_of(self, name: str) -> int:
        """Give the speed of one slot of a site or peer, MIPS."""
        remote = self.remotes.get(name)
        return self._sites[name].settings.speed_mips if remote is None else remote.speed_mips

    def _can_serve(self, name: str, lease_type: LeaseType) -> bool:
        place = self.remotes.get(name) or self._sites[name].settings
        return place.can_serve(lease_type)

    def _facts(self, place: SiteSettings | RemoteSite, told: StreamMoments | None = None) -> SiteFacts:
        return SiteFacts(place.name, place.slots, place.speed_mips, self._reference_mips, told)

    def _all_but(self, name: str) -> list[SiteFacts]:
        return [facts for facts in self.federation.sites if facts.name != name]

    def _be(self, sites: Iterable[SiteFacts]) -> None:
        """Let these be the sites, and see what all of them can do."""
        self.federation = SiteSet(sites)
        names = [site.name for site in self.federation.sites]
        self._served_everywhere = {kind for kind in LeaseType if all(self._can_serve(name, kind) for name in names)}
