"""Nodes: what they have, when they were seen, and how often they failed."""

import json
from bisect import bisect_right
from collections.abc import Iterable
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
    rows = sorted(await call.federation.jobs.nodes(), key=_name)
    needed = tuple(software(text) for text in query.software)
    found = [row for row in rows if query.site in {None, row["site"]} and _has(row, needed)]
    begin = bisect_right(found, name_after(query.cursor), key=_name)
    page = found[begin : begin + query.limit]
    cursor = cursor_after(page[-1]["name"]) if begin + len(page) < len(found) else None
    link_next(request, response, cursor)
    return NodePage(nodes=[show_node(row, brief=query.brief) for row in page], next=cursor)


def _name(row: NodeRow) -> str:
    return row["name"]


def _has(row: NodeRow, needed: tuple[Software, ...]) -> bool:
    pairs: Iterable[tuple[str, str]] = (tuple(pair) for pair in json.loads(row["software"]))
    return not needed or has_software(needed, installed(pairs)) is FITS
