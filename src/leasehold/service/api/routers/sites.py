"""Sites: look at them, drain one, let it lend again; forget one that will not come back."""

from fastapi import APIRouter

from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.fields import Name
from leasehold.service.api.models.sites import DrainRequest, Site, SiteList, show_site
from leasehold.service.api.openapi import refuses
from leasehold.service.api.problems import Kind
from leasehold.service.auth.permissions import Permission, Target, require

router = APIRouter(prefix="/v1/sites", tags=["sites"], route_class=GuardedRoute)


@router.get("", operation_id="listSites")
@needs(Permission.SITE_SEE)
async def list_sites(call: Admitted) -> SiteList:
    """List all sites, with who has their machines and who waits for them."""
    return SiteList(sites=[show_site(state) for state in await call.federation.sites()])


@router.get("/{name}", operation_id="showSite", responses=refuses(Kind.NO_SUCH_SITE))
@needs(Permission.SITE_SEE)
async def show_one_site(call: Admitted, name: Name) -> Site:
    """Show one site."""
    return show_site(await call.federation.site(name))


@router.post("/{name}/drain", operation_id="drainSite", responses=refuses(Kind.NO_SUCH_SITE))
@needs(Permission.SITE_DRAIN)
async def drain_site(call: Admitted, name: Name, body: DrainRequest | None = None) -> Site:
    """Lend nothing more at a site; who runs there stays. One that is drained already gets the new note."""
    require(call.principal, Permission.SITE_DRAIN, Target.site(name))
    note = body.note if body else ""
    await call.federation.drain(name, by=call.principal.consumer, note=note)
    return show_site(await call.federation.site(name))


@router.post("/{name}/resume", operation_id="resumeSite", responses=refuses(Kind.NO_SUCH_SITE))
@needs(Permission.SITE_DRAIN)
async def resume_site(call: Admitted, name: Name) -> Site:
    """Let a drained site take leases again; for one that is not drained nothing changes."""
    require(call.principal, Permission.SITE_DRAIN, Target.site(name))
    await call.federation.undrain(name, by=call.principal.consumer)
    return show_site(await call.federation.site(name))


@router.delete(
    "/{name}",
    operation_id="forgetSite",
    status_code=204,
    responses=refuses(Kind.NO_SUCH_SITE, Kind.CANNOT_FORGET),
)
@needs(Permission.SITE_FORGET)
async def forget_site(call: Admitted, name: Name) -> None:
    """Let go of a site with a manager of its own that will not come back; the leases there have failed.

    Only one that has been silent for a minute can be forgotten.
    """
    require(call.principal, Permission.SITE_FORGET, Target.site(name))
    await call.federation.forget(name, by=call.principal.consumer)
