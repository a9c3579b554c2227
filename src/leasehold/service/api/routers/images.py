"""Images: what machines can be built with."""

from fastapi import APIRouter

from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.models.images import ImageList, show_image
from leasehold.service.auth.permissions import Permission

router = APIRouter(prefix="/v1/images", tags=["jobs"], route_class=GuardedRoute)


@router.get("", operation_id="listImages")
@needs(Permission.NODE_SEE)
async def list_images(call: Admitted) -> ImageList:
    """List all images, also those that are being built, and those that could not be, each with its reason."""
    return ImageList(images=[show_image(row) for row in await call.federation.jobs.images()])
