"""Files of leases at sites with managers of their own, and at peers: these read inputs here, and send what is left.

Those of a lease that another gateway has sent here are passed on: piece by piece, and nothing of them is kept.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import MAX_INT64, Name
from leasehold.protocol.files import FileSpec, StoredFile
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.openapi import refuses
from leasehold.service.api.routers.files import (
    A_PIECE,
    PARTS,
    Content,
    Hash,
    Part,
    announced,
    piece_in,
    wanted_part,
    written,
)
from leasehold.service.auth.permissions import Permission, Target, require
from leasehold.service.drivers.staging import CannotBring, JobFiles, StagedFile
from leasehold.service.errors import NoSuchLease, Unavailable
from leasehold.service.files import NoSuchFile
from leasehold.service.store.rows import LeaseRow

router = APIRouter(prefix="/v1/sites", tags=["messages"], route_class=GuardedRoute)

LeaseId = Annotated[int, Path(ge=1, le=MAX_INT64, description="The number of a lease that this site was sent.")]


@router.get(
    "/{name}/leases/{lease_id}/inputs/{sha256}",
    operation_id="readInput",
    status_code=200,
    response_class=Content,
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.NO_SUCH_FILE) | PARTS,
)
@needs(Permission.MESSAGES_EXCHANGE)
async def read_input(call: Authorized, name: Name, lease_id: LeaseId, sha256: Hash, request: Request) -> Response:
    """Return the content of an input of a lease at this site, or a part of it (`Range`).

    Of a lease that another gateway has sent here a part has to be named: it is read there.
    """
    row = await _lease_at(call, name, lease_id)
    file = next((file for file in row.metadata.files.inputs if file.sha256 == sha256), None)
    if file is None:
        raise NoSuchFile(sha256)
    if row.metadata.files.origin:
        return await _passed_on(call, row.metadata.files, file, request)
    return Content(call.federation.files.content(row.lease.request.consumer, sha256), NoSuchFile(sha256))


@router.post(
    "/{name}/leases/{lease_id}/outputs",
    operation_id="announceOutput",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.FILE_QUOTA),
)
@needs(Permission.MESSAGES_EXCHANGE)
async def announce_output(call: Authorized, name: Name, lease_id: LeaseId, body: FileSpec) -> StoredFile:
    """Announce a file that the command of a lease has left, or find how much of it has arrived.

    It is one of its consumer's files, and counts towards that quota.
    """
    row = await _lease_at(call, name, lease_id)
    files = row.metadata.files
    if body.name not in files.outputs:
        raise InvalidField("name", body.name, f"one of the outputs of lease {lease_id}")
    if files.origin:
        return await call.federation.gateway_files.passing(files).pass_announcement(files.origin_id, body)
    return await announced(call, row.lease.request.consumer, body)


@router.put(
    "/{name}/leases/{lease_id}/outputs/{sha256}/content",
    operation_id="writeOutput",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.NO_SUCH_FILE, Kind.FILE_CONFLICT, Kind.TOO_LARGE),
    openapi_extra=A_PIECE,
)
@needs(Permission.MESSAGES_EXCHANGE)
async def write_output(call: Authorized, name: Name, lease_id: LeaseId, sha256: Hash, request: Request) -> StoredFile:
    """Send the next piece of such a file, of at most 4 MiB. With the last one its hash is checked."""
    row = await _lease_at(call, name, lease_id)
    consumer, files = row.lease.request.consumer, row.metadata.files
    if files.origin:
        _, piece = await piece_in(request)
        line = call.federation.gateway_files.passing(files)
        return await line.pass_piece(files.origin_id, sha256, request.headers["Content-Range"], piece)
    if call.federation.files.get(consumer, sha256).name not in row.metadata.files.outputs:
        raise NoSuchFile(sha256)
    file = await written(call, consumer, sha256, request)
    call.federation.arriving(lease_id)
    return file


async def _passed_on(call: Authorized, files: JobFiles, file: StagedFile, request: Request) -> Part:
    """Read a part of an input at the gateway that has it; raises NoSuchFile where it is not there any more."""
    first, last = wanted_part(request, file.size_bytes)
    line = call.federation.gateway_files.passing(files)
    try:
        piece = await line.read(files.origin_id, file, first, last + 1 - first)
    except CannotBring as error:
        if error.again:
            raise Unavailable(str(error)) from None
        raise NoSuchFile(file.sha256) from None
    if not piece:
        raise Unavailable(f"input {file.name!r}: its gateway gives nothing of it")
    return Part(piece, first, file.size_bytes)


async def _lease_at(call: Authorized, site: str, lease_id: int) -> LeaseRow:
    """Give a lease that is or was at this site; raises Forbidden, NoSuchLease."""
    require(call.principal, Permission.MESSAGES_EXCHANGE, Target.site(site))
    row = await asyncio.to_thread(call.federation.store.lease, lease_id)
    if row is None or row.lease.site != site:
        raise NoSuchLease(lease_id)
    return row
