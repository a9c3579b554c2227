"""Images: what machines can be built with."""

from fastapi import APIRouter

from leasehold.matching.software import Installed
from leasehold.protocol.fields import moment_at
from leasehold.protocol.images import Image, ImageList
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.auth.permissions import Permission
from leasehold.service.store.rows import ImageRow

router = APIRouter(prefix="/v1/images", tags=["jobs"], route_class=GuardedRoute)


@router.get("", operation_id="listImages")
@needs(Permission.NODE_SEE)
async def list_images(call: Authorized) -> ImageList:
    """List all images, also those that are being built, and those that could not be, each with its reason."""
    return ImageList(images=tuple(show_image(row) for row in await call.federation.jobs.images()))


def show_image(row: ImageRow) -> Image:
    """Show an image as it is in the store."""
    return Image(
        name=row.name,
        site=row.site,
        state=row.state,
        software=_with_versions(row.software),
        packages=_with_versions(row.packages),
        size_bytes=row.size_bytes,
        least_memory_mib=row.least_memory_mib,
        problem=row.problem,
        since=moment_at(row.since_ms),
        seen_at=moment_at(row.seen_ms),
    )


def _with_versions(software: Installed) -> tuple[str, ...]:
    return tuple(sorted(f"{name} {version}".rstrip() for name, version in software))
