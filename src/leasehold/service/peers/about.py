"""What a gateway tells a peer of itself: all its sites that lend, as if they were one, and nothing too good.

A lease is served by one site, so the peer is told how wide the widest is beside how many VMs there are. Of
the speeds it is told the lowest, since that holds wherever the lease is put. What some site can do can be
asked for, since the gateway knows which. What is agreed for this peer bounds what a lease can have.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from leasehold.gateway.settings import can_serve
from leasehold.model.request import LeaseType
from leasehold.service.engine.engine import Engine
from leasehold.service.engine.sites import occupancy
from leasehold.service.messages.wire import About
from leasehold.service.store.rows import PeerRow

DRIVER = "gateway"


@dataclass(frozen=True, slots=True)
class Place:
    """One site; counts are of VMs and, of those who wait, of leases and VMs."""

    slots: int
    speed_mips: int
    can_suspend: bool
    can_migrate: bool
    local_vms: int = 0
    guest_vms: int = 0
    waiting_local: int = 0
    waiting_guests: int = 0
    waiting_local_vms: int = 0
    waiting_guest_vms: int = 0
    lends: bool = True

    @property
    def free_vms(self) -> int:
        """VMs that nobody has."""
        return max(0, self.slots - self.local_vms - self.guest_vms)

    def can_serve(self, lease_type: LeaseType) -> bool:
        """Whether it can serve such a lease."""
        return can_serve(lease_type, suspend=self.can_suspend, migrate=self.can_migrate)


def about_us(engine: Engine, peer: PeerRow, identity: str) -> About:
    """Say to a peer how this gateway is now; ``identity`` is that of its store."""
    here = engine.gateway.peering.vms_here(peer.name)
    return add_up(
        list(places(engine)),
        f"{identity}.{peer.line}",
        engine.gateway.reference_mips,
        most_vms=peer.max_vms,
        here_vms=here,
    )


def places(engine: Engine) -> Iterator[Place]:
    """Give all sites that are in touch: one's own, and those that decide for themselves; no peers."""
    registry = engine.gateway.registry
    for name, site in engine.gateway.sites.items():
        now, settings = occupancy(site), site.settings
        yield Place(
            settings.slots,
            settings.speed_mips,
            settings.can_suspend,
            settings.can_migrate,
            now.local_vms,
            now.guest_vms,
            now.waiting_local,
            now.waiting_guests,
            now.waiting_local_vms,
            now.waiting_guest_vms,
            name not in registry.closed,
        )
    for name, about in engine.remote_sites.remotes.items():
        remote = registry.remotes.get(name)
        if remote is not None and not remote.silent and not remote.is_peer:
            lends = about.lends and name not in registry.closed
            yield replace(_place(about), lends=lends)


def _place(about: About) -> Place:
    return Place(**{field.name: getattr(about, field.name) for field in fields(Place)})


def add_up(places: list[Place], identity: str, reference_mips: int, *, most_vms: int | None, here_vms: int) -> About:
    """Make one of those sites that lend, for a peer that may have ``most_vms`` of them (None: any number).

    ``here_vms`` is what the peer has of them already, or waits for. Where none lends now, it is told how all
    of them are, so that it knows what it may wait for.
    """
    lending = [place for place in places if place.lends]
    shown = lending or places
    widest = max((place.slots for place in shown), default=0)
    widest_free = max((place.free_vms for place in lending), default=0)
    if most_vms is not None:
        widest = min(widest, most_vms)
        widest_free = min(widest_free, max(0, most_vms - here_vms))

    def total(count: str) -> int:
        return sum(getattr(place, count) for place in shown)

    return About(
        identity=identity,
        slots=max(1, total("slots")),
        speed_mips=min((place.speed_mips for place in shown), default=1),
        reference_mips=reference_mips,
        driver=DRIVER,
        can_suspend=any(place.can_serve(LeaseType.SUSPENDABLE) for place in shown),
        can_migrate=any(place.can_serve(LeaseType.MIGRATABLE) for place in shown),
        lends=bool(lending) and widest > 0,
        local_vms=total("local_vms"),
        guest_vms=total("guest_vms"),
        waiting_local=total("waiting_local"),
        waiting_guests=total("waiting_guests"),
        waiting_local_vms=total("waiting_local_vms"),
        waiting_guest_vms=total("waiting_guest_vms"),
        is_gateway=True,
        widest_vms=widest,
        widest_free_vms=widest_free,
    )
