"""How the sites are, for people and for metrics."""

from dataclasses import dataclass

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.site import Site


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Who has what of a site now: VMs held by local leases and by guests, and which leases wait."""

    local_vms: int
    guest_vms: int
    free_vms: int
    waiting_local: int
    waiting_guests: int
    waiting_local_vms: int
    waiting_guest_vms: int


def occupancy(site: Site) -> Occupancy:
    """Look at one site."""
    floor = site.floor
    guests = [] if site.guests is None else site.guests.waiting()
    return Occupancy(
        floor.local_vms,
        floor.guest_vms,
        floor.settings.slots - floor.local_vms - floor.guest_vms,
        len(site.locals),
        len(guests),
        sum(lease.vms for lease in site.locals.waiting()),
        sum(lease.vms for lease in guests),
    )


def occupancies(gateway: Gateway) -> dict[str, Occupancy]:
    """Look at all sites."""
    return {name: occupancy(site) for name, site in gateway.sites.items()}


def leases_by_site_and_state(gateway: Gateway) -> dict[tuple[str, str], int]:
    """Count the open leases."""
    counts: dict[tuple[str, str], int] = {}
    for lease in gateway.leases.values():
        key = (lease.site, lease.state.value)
        counts[key] = counts.get(key, 0) + 1
    return counts
