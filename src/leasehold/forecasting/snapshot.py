"""The decision state of a gateway as plain data: what is open, on which terms, and what was learnt.

A gateway is rebuilt from it as a restarted one is built from the store (`leasehold.gateway.restart`), with the random
stream of its seed. So two gateways rebuilt from one snapshot decide alike, to the bit, as long as they are told alike.

The types of its fields are what is checked when one is read (`leasehold.forecasting.file`). Sites that decide for
themselves and peers are in it as they last said that they are, and leases that are there as was reported of them. What
their own users do is known to nobody here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from leasehold.configuration.policies import find_routing_policy
from leasehold.configuration.tables import DomainSpec, GatewaySpec, SharingSpec, domain_by_site
from leasehold.configuration.terms import ClusterTerms, site_settings
from leasehold.gateway.coallocation.placement.registry import resolve_placement_policies
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.peering import PeerAgreed
from leasehold.gateway.restart import take_up
from leasehold.gateway.settings import SiteSettings
from leasehold.gateway.sites import RemoteTold
from leasehold.model.agreement import CPUS, Agreement, Penalty
from leasehold.model.coallocation import CoAllocation
from leasehold.model.copier import copier
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import Outage, OutagesChanged
from leasehold.model.lease import ON_THE_WAY, Lease, LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.model.resources import NodeResources
from leasehold.model.use import Segment
from leasehold.routing.moments import StreamMoments
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import gpus_had

UNKNOWN_MS = -1
_copy_lease = copier(Lease)

_HOLDING = frozenset({LeaseState.RUNNING, *ON_THE_WAY})
"""States in which a lease has machines, or waits for them to be there."""


@dataclass(frozen=True, slots=True)
class SnapshotSite:
    """A site of the gateway's own.

    ``can_notify``, ``hands_over``, ``confirms_starts``, ``nodes``, ``images``, ``login``  as in
                         `leasehold.gateway.settings.SiteSettings`
    ``lends``            whether its owner takes new guests
    ``is_silent``        whether its machines do not answer
    """

    name: str
    slots: int
    terms: ClusterTerms
    resources: dict[str, int] = field(default_factory=dict)
    can_suspend: bool = True
    can_migrate: bool = True
    hands_over: bool = True
    can_notify: bool = False
    confirms_starts: bool = True
    nodes: tuple[NodeResources, ...] = ()
    images: tuple[str, ...] = ()
    login: bool = False
    lends: bool = True
    is_silent: bool = False
    outages: tuple[Outage, ...] = ()

    def settings(self) -> SiteSettings:
        """Give what the gateway needs; raises as `leasehold.configuration.policies.find_victim_policy` does."""
        plain = site_settings(self.name, self.slots, self.terms)
        return replace(
            plain,
            can_suspend=self.can_suspend,
            can_migrate=self.can_migrate,
            hands_over=self.hands_over,
            can_notify=self.can_notify,
            confirms_starts=self.confirms_starts,
            nodes=self.nodes,
            images=self.images,
            login=self.login,
        )


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A request that was made before: what is learnt from. Durations are in ms at the reference speed.

    ``home``    the site of an own user's request, "" for a guest
    ``ran_ms``  how long it ran in all, UNKNOWN_MS where that is not known: it was cancelled, or still runs
    """

    submit_ms: int
    home: str
    vms: int
    requested_ms: int
    ran_ms: int = UNKNOWN_MS
    consumer: str = ""
    group: str = ""
    lease_type: LeaseType = LeaseType.NON_PREEMPTABLE
    memory_mib: int = 1024

    @property
    def path(self) -> str:
        """On whose account it was."""
        return f"{self.group}/{self.consumer}" if self.group else self.consumer

    def again(self, number: int, at_ms: int) -> Request:
        """Make the same request at another time."""
        return Request(
            number,
            self.lease_type,
            self.vms,
            self.requested_ms,
            at_ms,
            at_ms,
            site=self.home or None,
            consumer=self.consumer,
            memory_mib=self.memory_mib,
            group=self.group,
        )


@dataclass(frozen=True, slots=True)
class GatewayMemory:
    """What the open leases do not show, as `Knowledge.snapshot`, `Gateway.snapshot` and `overheads_snapshot` say."""

    knowledge: dict[str, Any]
    requests: dict[str, Any]
    overheads: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How things stand at a gateway.

    ``taken_ms``    when that was, on the clock of the requests
    ``remotes``     sites that decide for themselves, and peers, as they are known
    ``drained``     those of them to which nothing is sent, as an administrator here has said
    ``peers``       the terms with peers
    ``gateway_id``  the ID of the gateway on paths, "" for one that had none
    ``agreements``  those that are enforced; None where nothing is accounted for
    ``usage``       past use, as far back as agreements look
    ``told_external, told_locals``  streams that are configured, not learnt
    ``seed``        of the random stream of the routing policy of whoever goes on from here
    """

    taken_ms: int
    reference_mips: int
    gateway: GatewaySpec
    sites: tuple[SnapshotSite, ...]
    leases: tuple[Lease, ...]
    memory: GatewayMemory
    remotes: tuple[RemoteTold, ...] = ()
    drained: tuple[str, ...] = ()
    peers: tuple[PeerAgreed, ...] = ()
    gateway_id: str = ""
    sharing: SharingSpec = field(default_factory=SharingSpec)
    domains: tuple[DomainSpec, ...] = ()
    agreements: tuple[Agreement, ...] | None = None
    penalties: tuple[Penalty, ...] = ()
    usage: tuple[Segment, ...] = ()
    coallocations: tuple[CoAllocation, ...] = ()
    history: tuple[PastRequest, ...] = ()
    told_external: StreamMoments | None = None
    told_locals: dict[str, StreamMoments] = field(default_factory=dict)
    learns: bool = True
    seed: int = 0

    def site(self, name: str) -> SnapshotSite:
        """Find a site; raises UnknownName."""
        for site in self.sites:
            if site.name == name:
                return site
        raise UnknownName("site", name, [site.name for site in self.sites])

    def remote(self, name: str) -> RemoteTold | None:
        """Find a site that decides for itself, or a peer; None where there is none of this name."""
        return next((one for one in self.remotes if one.name == name), None)

    @property
    def sizes(self) -> dict[str, int]:
        """How large each site and peer is, as far as that is known."""
        return {site.name: site.slots for site in self.sites} | {one.name: one.slots for one in self.remotes}

    def slots_of(self, name: str) -> int:
        """Say how large a site or peer is, as far as that is known; raises UnknownName."""
        sizes = self.sizes
        if name not in sizes:
            raise UnknownName("site", name, sizes)
        return sizes[name]

    def speed_of(self, name: str) -> int:
        """Say how fast a slot is at a site or peer, in MIPS; elsewhere, and nowhere, as durations refer to."""
        own = next((one.terms.speed_mips for one in self.sites if one.name == name), None)
        there = self.remote(name) if own is None else None
        return own or (self.reference_mips if there is None else there.speed_mips)

    def with_site(self, changed: SnapshotSite) -> "Snapshot":
        """Put a site in the place of the one of its name."""
        self.site(changed.name)
        return replace(self, sites=tuple(changed if one.name == changed.name else one for one in self.sites))


def memory_of(gateway: Gateway) -> GatewayMemory:
    """Read what a gateway knows besides its leases."""
    return GatewayMemory(gateway.knowledge.snapshot(), gateway.snapshot(), gateway.overheads_snapshot())


def copied(leases: Iterable[Lease]) -> tuple[Lease, ...]:
    """Copy leases, which change; their requests do not."""
    return tuple(map(_copy_lease, leases))


def copied_coallocations(coallocations: Iterable[CoAllocation]) -> tuple[CoAllocation, ...]:
    """Copy co-allocations with their parts, which change."""
    return tuple(replace(one, parts=[replace(part) for part in one.parts]) for one in coallocations)


def empty_gateway(snapshot: Snapshot, rng: Random) -> Gateway:
    """Make a gateway on the terms of a snapshot, with nothing in it; raises InvalidField or InputError."""
    if snapshot.coallocations:
        resolve_placement_policies()
    if not snapshot.sites:
        raise InvalidField("sites", 0, "at least one site")
    spec = snapshot.gateway
    routing = Routing(
        find_routing_policy(spec.policy)(rng),
        told_external=snapshot.told_external,
        told_locals=snapshot.told_locals,
        try_elsewhere=spec.try_elsewhere,
        use_free_room=spec.use_free_room,
        tick_ms=spec.tick_ms,
        max_restarts=spec.max_restarts,
        learns=snapshot.learns,
    )
    return Gateway(
        [site.settings() for site in snapshot.sites],
        routing,
        snapshot.reference_mips,
        _sharing(snapshot),
        gateway_id=snapshot.gateway_id,
    )


def _sharing(snapshot: Snapshot) -> Sharing | None:
    if snapshot.agreements is None:
        return None
    domains = domain_by_site(snapshot.domains)
    places = [
        Provider(site.name, {CPUS: site.slots, **gpus_had(site.nodes), **site.resources}, domains.get(site.name, ""))
        for site in snapshot.sites
    ]
    return Sharing(places, snapshot.sharing.settings(), domains=domains)


def rebuild(snapshot: Snapshot, rng: Random | None = None) -> Gateway:
    """Make a gateway that goes on from a snapshot; its leases are copies.

    ``rng`` is the random stream of its routing policy, by default that of the seed of the snapshot.
    Raises InvalidField or InputError for terms that make no sense.
    """
    gateway = empty_gateway(snapshot, rng or Random(snapshot.seed))
    gateway.coallocations.restore(copied_coallocations(snapshot.coallocations))
    gateway.registry.not_lending = {site.name for site in snapshot.sites if not site.lends} | set(snapshot.drained)
    for peer in snapshot.peers:
        gateway.peering.agree(peer.name, peer.terms)
    for told in snapshot.remotes:
        gateway.join(told.remote())
    remember(gateway, snapshot.memory)
    for site in snapshot.sites:
        if site.is_silent:
            gateway.fell_silent(site.name, snapshot.taken_ms)
    sharing = gateway.quotas.sharing
    if sharing is not None:
        for told in snapshot.remotes:
            sharing.join(Provider(told.name, told.units))
        sharing.agree(snapshot.agreements or (), snapshot.taken_ms)
        sharing.penalties.take_up(snapshot.penalties)
    take_up(gateway, copied(snapshot.leases), snapshot.taken_ms, snapshot.usage)
    return gateway


def remember(gateway: Gateway, memory: GatewayMemory) -> None:
    """Let a new gateway know what `memory_of` another one gave; nothing where a part is empty."""
    if memory.requests:
        gateway.restore(memory.requests)
    if memory.knowledge:
        gateway.knowledge.restore(memory.knowledge)
    gateway.restore_overheads(memory.overheads)


def outages(sites: Iterable[SnapshotSite]) -> list[OutagesChanged]:
    """Give the events that tell a gateway just rebuilt which machines are down."""
    return [OutagesChanged(site.name, site.outages) for site in sites if site.outages]


def ran_ms(lease: Lease, reference_mips: int) -> int:
    """Say how long a lease that ended by itself, or with its time, ran in all, at the reference speed."""
    return min(lease.request.duration_ms, max(1, lease.request.duration_ms - lease.work_left // reference_mips))


def running(snapshot: Snapshot) -> list[PastRequest]:
    """Give the open leases that have run, each with how long it has so far; see `RunTimes.with_running`."""
    found = []
    for lease in snapshot.leases:
        age_ms = done_ms(lease, snapshot)
        if age_ms > 0:
            found.append(past_of(lease.request, age_ms))
    return found


def done_ms(lease: Lease, snapshot: Snapshot) -> int:
    """Say for how long an open lease has run by now, at the reference speed, less than it asked for."""
    mips, since_ms, ran = snapshot.reference_mips, holds_since_ms(lease), 0
    if lease.state is LeaseState.RUNNING and since_ms >= 0:
        ran = max(0, snapshot.taken_ms - since_ms - lease.overhead_ms) * snapshot.speed_of(lease.site)
    done = lease.request.duration_ms * mips - lease.work_left + ran
    return min(max(0, done // mips), lease.request.duration_ms - 1)


def holds_since_ms(lease: Lease) -> int:
    """Since when a lease has machines, below 0 where it has none; elsewhere, as far as its site has reported.

    What it had done there before it gave way is not reported: the work it has left counts as all of it then.
    """
    if lease.held_since_ms >= 0 or lease.state not in _HOLDING:
        return lease.held_since_ms
    if lease.state is LeaseState.RUNNING and not lease.preemptions:
        return lease.first_start_ms
    return max(lease.reserved_ms, lease.first_start_ms)


def past_of(request: Request, took_ms: int = UNKNOWN_MS) -> PastRequest:
    """Remember a request, and how long its lease ran where that is known."""
    return PastRequest(
        request.submit_ms,
        request.site or "",
        request.vms,
        request.duration_ms,
        took_ms,
        request.consumer,
        request.group,
        request.lease_type,
        request.memory_mib,
    )
