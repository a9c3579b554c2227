"""Sites: list them, drain and undrain one, forget one that will not come back."""

from fastapi import APIRouter

from leasehold.protocol.fields import Name
from leasehold.protocol.problems import Kind
from leasehold.protocol.sites import Capabilities, DrainSpec, Occupancy, Overhead, QueueLengths, Site, SiteList
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.openapi import refuses
from leasehold.service.auth.permissions import Permission, Target, require
from leasehold.service.sites import SiteState

router = APIRouter(prefix="/v1/sites", tags=["sites"], route_class=GuardedRoute)


@router.get("", operation_id="listSites")
@needs(Permission.SITE_SEE)
async def list_sites(call: Authorized) -> SiteList:
    """List all sites, with the leases that hold their machines or wait for them."""
    return SiteList(sites=tuple(show_site(state) for state in await call.federation.sites.list()))


@router.get("/{name}", operation_id="showSite", responses=refuses(Kind.NO_SUCH_SITE))
@needs(Permission.SITE_SEE)
async def show_one_site(call: Authorized, name: Name) -> Site:
    """Show one site."""
    return show_site(await call.federation.sites.get(name))


@router.post("/{name}/drain", operation_id="drainSite", responses=refuses(Kind.NO_SUCH_SITE))
@needs(Permission.SITE_DRAIN)
async def drain_site(call: Authorized, name: Name, body: DrainSpec | None = None) -> Site:
    """Drain a site: start no more leases there; running ones stay. A site already drained gets the new note."""
    require(call.principal, Permission.SITE_DRAIN, Target.site(name))
    note = body.note if body else ""
    await call.federation.sites.drain(name, by=call.principal.consumer, note=note)
    return show_site(await call.federation.sites.get(name))


@router.post("/{name}/resume", operation_id="resumeSite", responses=refuses(Kind.NO_SUCH_SITE))
@needs(Permission.SITE_DRAIN)
async def resume_site(call: Authorized, name: Name) -> Site:
    """Let a drained site take leases again; one that is not drained stays unchanged."""
    require(call.principal, Permission.SITE_DRAIN, Target.site(name))
    await call.federation.sites.undrain(name, by=call.principal.consumer)
    return show_site(await call.federation.sites.get(name))


@router.delete(
    "/{name}",
    operation_id="forgetSite",
    status_code=204,
    responses=refuses(Kind.NO_SUCH_SITE, Kind.CANNOT_FORGET),
)
@needs(Permission.SITE_FORGET)
async def forget_site(call: Authorized, name: Name) -> None:
    """Forget a site with a manager of its own that will not come back; the leases there have failed.

    Only one that has been silent for a minute can be forgotten.
    """
    require(call.principal, Permission.SITE_FORGET, Target.site(name))
    await call.federation.sites.forget(name, by=call.principal.consumer)


def show_site(state: SiteState) -> Site:
    """Show a site as the federation sees it."""
    now, drained = state.occupancy, state.drained
    return Site.of(
        state,
        capabilities=Capabilities.of(state.capabilities),
        vms=Occupancy(local=now.local_vms, guests=now.guest_vms, free=now.free_vms),
        waiting=QueueLengths(local=now.waiting_local, guests=now.waiting_guests),
        drained_by="" if drained is None else drained.drained_by,
        note="" if drained is None else drained.note,
        overheads=tuple(Overhead.of(one) for one in state.overheads),
        resources=dict(state.resources),
        images=state.capabilities.images,
    )
