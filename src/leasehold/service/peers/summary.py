"""What a gateway tells a peer of itself: all its sites that lend, as if they were one, and nothing too good.

A lease is served by one site, so the status states the width of the widest site besides the number of VMs. Of
the speeds it states the lowest, since that holds wherever the lease is placed. A capability is listed if any site
has it, since the gateway knows which one. The terms with this peer bound the size of a lease.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.peering import AskWhen
from leasehold.gateway.settings import can_serve
from leasehold.gateway.site import Site
from leasehold.gateway.sites import Reach
from leasehold.model.request import LeaseType
from leasehold.service.engine.engine import Engine
from leasehold.service.engine.sites import occupancy
from leasehold.service.messages.site_status import MOST_IMAGES, MOST_VMS, NodeOfSite, ReachOfPeer, SiteStatus
from leasehold.service.store.rows import PeerRow

DRIVER = "gateway"


def status_of(site: Site, identity: str, reference_mips: int, driver: str, *, lends: bool) -> SiteStatus:
    """Say how a site of one's own is."""
    now, settings = occupancy(site), site.settings
    return SiteStatus(
        identity=identity,
        slots=settings.slots,
        nodes=tuple(NodeOfSite(**asdict(node)) for node in settings.nodes),
        images=settings.images[:MOST_IMAGES],
        login=settings.login,
        speed_mips=settings.speed_mips,
        reference_mips=reference_mips,
        driver=driver,
        can_suspend=settings.can_suspend,
        can_migrate=settings.can_migrate,
        hands_over=settings.hands_over,
        lends=lends,
        local_vms=now.local_vms,
        guest_vms=now.guest_vms,
        waiting_local=now.waiting_local,
        waiting_guests=now.waiting_guests,
        waiting_local_vms=now.waiting_local_vms,
        waiting_guest_vms=now.waiting_guest_vms,
    )


def status_for(engine: Engine, peer: PeerRow, identity: str) -> SiteStatus:
    """Return the status of this gateway for a peer; ``identity`` is that of its store."""
    here = engine.gateway.peering.vms_here(peer.name)
    known = f"{identity}.{peer.line}"
    own = add_up(list(sites(engine)), known, engine.gateway.reference_mips, most_vms=peer.max_vms, here_vms=here)
    return replace(own, gateway_id=identity, beyond=beyond(engine.gateway, peer, here_vms=here))


def beyond(gateway: Gateway, peer: PeerRow, *, here_vms: int) -> tuple[ReachOfPeer, ...]:
    """Say what a peer can have through this gateway: at other peers, one hop beyond, two, and so on.

    Each place counts as far as the terms with both peers let a request go. What is told grows by a hop at each
    gateway and is told no further than `MOST_HOPS`, so that what is not there any more is forgotten, as in RIP
    (RFC 2453).
    """
    peering, remotes = gateway.peering, gateway.registry.remotes
    at: list[list[Reach]] = []
    for name, terms in peering.terms.items():
        other = remotes.get(name)
        if name == peer.name or other is None or other.silent or terms.ask is AskWhen.NEVER:
            continue
        for hops, place in enumerate(other.reaches(min(terms.max_hops, peer.max_hops) - 2)):
            at += [[] for _ in range(hops + 1 - len(at))]
            at[hops].append(place)
    most_vms = MOST_VMS if peer.max_vms is None else peer.max_vms
    return tuple(_best_of(places, most_vms, max(0, most_vms - here_vms)) for places in at)


def _best_of(places: list[Reach], most_vms: int, most_free_vms: int) -> ReachOfPeer:
    """Summarize places so many hops away; those that lend, or all of them where none does."""
    lending = [place for place in places if place.lends]
    shown = lending or places
    return ReachOfPeer(
        slots=min(most_vms, max((place.slots for place in shown), default=0)),
        free_vms=min(most_free_vms, max((max(0, place.free_vms) for place in lending), default=0)),
        can_suspend=any(place.can_suspend for place in shown),
        can_migrate=any(place.can_migrate for place in shown),
        lends=bool(lending) and most_vms > 0,
        images=tuple(sorted({image for place in shown for image in place.images}))[:MOST_IMAGES],
        login=any(place.login for place in shown),
    )


def sites(engine: Engine) -> Iterator[SiteStatus]:
    """Yield all sites that are in touch: the gateway's own and the remote ones; no peers."""
    registry, reference_mips = engine.gateway.registry, engine.gateway.reference_mips
    for name, site in engine.gateway.sites.items():
        yield status_of(site, "", reference_mips, DRIVER, lends=name not in registry.closed)
    for name, status in engine.remote_sites.remotes.items():
        remote = registry.remotes.get(name)
        if remote is not None and not remote.silent and not remote.is_peer:
            yield replace(status, lends=status.lends and name not in registry.closed)


def add_up(
    sites: list[SiteStatus], identity: str, reference_mips: int, *, most_vms: int | None, here_vms: int
) -> SiteStatus:
    """Summarize the sites that lend, for a peer that may have ``most_vms`` VMs (None: any number).

    ``here_vms`` counts the VMs that the peer already holds or waits for. If no site lends now, the summary covers
    all sites, so that the peer knows what it may wait for.
    """
    lending = [site for site in sites if site.lends]
    shown = lending or sites
    widest = max((site.slots for site in shown), default=0)
    widest_free = max((site.free_vms for site in lending), default=0)
    if most_vms is not None:
        widest = min(widest, most_vms)
        widest_free = min(widest_free, max(0, most_vms - here_vms))

    def total(count: str) -> int:
        return sum(getattr(site, count) for site in shown)

    def is_able(lease_type: LeaseType) -> bool:
        return any(can_serve(lease_type, suspend=site.can_suspend, migrate=site.can_migrate) for site in shown)

    return SiteStatus(
        identity=identity,
        slots=max(1, total("slots")),
        speed_mips=min((site.speed_mips for site in shown), default=1),
        reference_mips=reference_mips,
        driver=DRIVER,
        can_suspend=is_able(LeaseType.SUSPENDABLE),
        can_migrate=is_able(LeaseType.MIGRATABLE),
        hands_over=bool(shown) and all(site.hands_over for site in shown),
        lends=bool(lending) and widest > 0,
        local_vms=total("local_vms"),
        guest_vms=total("guest_vms"),
        waiting_local=total("waiting_local"),
        waiting_guests=total("waiting_guests"),
        waiting_local_vms=total("waiting_local_vms"),
        waiting_guest_vms=total("waiting_guest_vms"),
        widest_vms=widest,
        widest_free_vms=widest_free,
        images=tuple(sorted({image for site in shown for image in site.images}))[:MOST_IMAGES],
        login=any(site.login for site in shown),
    )
