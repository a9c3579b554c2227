"""Nodes and images: what jobs run on, when it was seen, and how often it failed."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from leasehold.matching.software import Installed, Software, has_software, installed, software
from leasehold.matching.verdict import FITS
from leasehold.model.request import GPU_MILLI
from leasehold.protocol.fields import moment_at
from leasehold.protocol.nodes import Image, ImageList, Node, NodeFilter, NodePage
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.paging import cursor_after, cut_page, name_after
from leasehold.service.auth.permissions import Permission
from leasehold.service.store.rows import ImageRow, NodeRow

router = APIRouter(prefix="/v1/nodes", tags=["jobs"], route_class=GuardedRoute)


@router.get("", operation_id="listNodes")
@needs(Permission.NODE_SEE)
async def list_nodes(
    call: Authorized, query: Annotated[NodeFilter, Query()], request: Request, response: Response
) -> NodePage:
    """List the nodes that jobs run on, by name, as they were last seen."""
    needed, after = tuple(software(text) for text in query.software), name_after(query.cursor)
    found = await call.federation.jobs.nodes(after, query.limit + 1, query.site, lambda row: _has(row, needed))
    page, cursor = cut_page(found, query.limit, lambda row: cursor_after(row.name), request, response)
    return NodePage(nodes=tuple(show_node(row, brief=query.brief) for row in page), next=cursor)


def _has(row: NodeRow, needed: tuple[Software, ...]) -> bool:
    if not needed:
        return True
    return has_software(needed, installed(row.software)) is FITS


def show_node(row: NodeRow, *, brief: bool) -> Node:
    """Show a node as it is in the store; a brief one without what is installed."""
    return Node.of(
        row,
        software=() if brief else _with_versions(row.software),
        packages=len(row.software),
        free_gpus=tuple(milli / GPU_MILLI for milli in row.free_gpus),
        first_seen_at=moment_at(row.first_ms),
    )


images = APIRouter(prefix="/v1/images", tags=["jobs"], route_class=GuardedRoute)


@images.get("", operation_id="listImages")
@needs(Permission.NODE_SEE)
async def list_images(call: Authorized) -> ImageList:
    """List all images, also those that are being built, and those that could not be, each with its reason."""
    return ImageList(images=tuple(show_image(row) for row in await call.federation.jobs.images()))


def show_image(row: ImageRow) -> Image:
    """Show an image as it is in the store."""
    return Image.of(row, software=_with_versions(row.software), packages=_with_versions(row.packages))


def _with_versions(software: Installed) -> tuple[str, ...]:
    return tuple(sorted(f"{name} {version}".rstrip() for name, version in software))
