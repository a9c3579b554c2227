"""How the sites are, for people and for metrics."""

from dataclasses import dataclass

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.site import Site
from leasehold.leasing.overhead import ONE, PLANNED, MeasuredOverheads
from leasehold.model.event import Operation
from leasehold.model.request import DEFAULT_MEMORY_MIB


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
    overheads: "tuple[Overhead, ...]" = ()


def occupancy(site: Site) -> Occupancy:
    """Look at one site."""
    allocations = site.allocations
    guests = [] if site.guests is None else site.guests.waiting()
    return Occupancy(
        allocations.local_vms,
        allocations.guest_vms,
        allocations.settings.slots - allocations.local_vms - allocations.guest_vms,
        len(site.locals),
        len(guests),
        sum(lease.vms for lease in site.locals.waiting()),
        sum(lease.vms for lease in guests),
        overheads(site),
    )


@dataclass(frozen=True, slots=True)
class Overhead:
    """How long an operation takes a site for a lease of one VM of `DEFAULT_MEMORY_MIB`.

    ``configured_ms``  by the owner's terms; None for a start, of which they say nothing
    ``learnt_ms``      as it is planned to take by now; of a start, as it usually does; None: not known
    ``count``          how many measurements that is based on
    """

    operation: Operation
    configured_ms: int | None
    learnt_ms: int | None
    count: int


def overheads(site: Site) -> tuple[Overhead, ...]:
    """Say how long operations are configured to take at a site, and what was learnt of it."""
    return tuple(_overhead(site.allocations.experience, operation) for operation in Operation)


def _overhead(experience: MeasuredOverheads, operation: Operation) -> Overhead:
    count, planned = experience.count(operation), PLANNED.get(operation)
    if planned is None:
        return Overhead(operation, None, experience.usual_ms(operation), count)
    configured_ms, learnt_ms = (
        planned(model, DEFAULT_MEMORY_MIB, 1) for model in (experience.configured, experience.overheads())
    )
    return Overhead(operation, configured_ms, learnt_ms, count)


def overhead_factors(gateway: Gateway) -> dict[tuple[str, str], float]:
    """Give the factors between configured and planned times, by site and operation."""
    return {
        (name, operation.value): site.allocations.experience.factor(operation) / ONE
        for name, site in gateway.sites.items()
        for operation in PLANNED
    }


def occupancies(gateway: Gateway) -> dict[str, Occupancy]:
    """Look at all sites."""
    return {name: occupancy(site) for name, site in gateway.sites.items()}
