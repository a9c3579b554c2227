"""Nodes: what they have, when they were seen, and how often they failed."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from leasehold.matching.software import Software, has_software, installed, software
from leasehold.matching.verdict import FITS
from leasehold.service.api.door import Admitted, GuardedRoute, needs
from leasehold.service.api.models.nodes import NodePage, NodeQuery, show_node
from leasehold.service.api.paging import cursor_after, link_next, name_after
from leasehold.service.auth.permissions import Permission
from leasehold.service.store.rows import NodeRow

router = APIRouter(prefix="/v1/nodes", tags=["jobs"], route_class=GuardedRoute)


@router.get("", operation_id="listNodes")
@needs(Permission.NODE_SEE)
async def list_nodes(
    call: Admitted, query: Annotated[NodeQuery, Query()], request: Request, response: Response
) -> NodePage:
    """List the nodes that jobs run on, by name, as they were last seen."""
    needed, after = tuple(software(text) for text in query.software), name_after(query.cursor)
    found = await call.federation.jobs.nodes(after, query.limit + 1, query.site, lambda row: _has(row, needed))
    page = found[: query.limit]
    cursor = cursor_after(page[-1].name) if len(found) > len(page) else None
    link_next(request, response, cursor)
    return NodePage(nodes=[show_node(row, brief=query.brief) for row in page], next=cursor)


def _has(row: NodeRow, needed: tuple[Software, ...]) -> bool:
    if not needed:
        return True
    return has_software(needed, installed(row.software)) is FITS
