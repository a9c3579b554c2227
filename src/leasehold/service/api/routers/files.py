"""Files: announce one, send its content in pieces, look, read and remove."""

import re
from pathlib import Path as PathOnDisk
from typing import Annotated, Any

from anyio import Path as AsyncPath
from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import moment_at
from leasehold.protocol.files import A_HASH, PIECE_BYTES, FileList, FileSpec, Sha256, StoredFile
from leasehold.protocol.problems import Kind
from leasehold.service import files as service
from leasehold.service.api.authorizer import Authorized, GuardedRoute, needs
from leasehold.service.api.openapi import refuses
from leasehold.service.auth.permissions import Permission

router = APIRouter(prefix="/v1/files", tags=["jobs"], route_class=GuardedRoute)

Hash = Annotated[Sha256, Path(description="SHA-256 of the content.", examples=[A_HASH])]
_RANGE = re.compile(r"bytes (?P<first>\d{1,18})-(?P<last>\d{1,18})/\d{1,18}")
_WANTED = re.compile(r"bytes=(?P<first>\d{1,18})-(?P<last>\d{1,18})")
_PARTIAL, _MALFORMED, _UNSATISFIABLE = 206, 400, 416


class Content(FileResponse):
    """The content of a stored file, or the parts of it that `Range` names.

    The framework answers a wrong `Range` in plain text, and a file that is removed meanwhile with a defect; here both
    are problems like any other. So nothing is sent before the file was opened.
    """

    media_type = "application/octet-stream"

    def __init__(self, path: PathOnDisk, gone: service.NoSuchFile) -> None:
        """``gone`` is what is said where the file is removed before it was opened."""
        super().__init__(path, media_type=self.media_type)
        self._gone = gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises InvalidField, NoSuchPart and NoSuchFile before anything is sent."""
        said = Headers(scope=scope).get("range", "")
        start: Message | None = None

        async def checking(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                if message["status"] == _MALFORMED:
                    raise InvalidField("Range", said, "bytes=FIRST-LAST")
                if message["status"] == _UNSATISFIABLE:
                    raise service.NoSuchPart(said, Headers(raw=message["headers"])["content-range"])
                start = message
                return
            if start is not None:
                first, start = start, None
                await send(first)
            await send(message)

        try:
            await super().__call__(scope, receive, checking)
        except (FileNotFoundError, RuntimeError):
            if await AsyncPath(self.path).exists():
                raise
            raise self._gone from None


PARTS: dict[int | str, dict[str, Any]] = {
    206: {
        "description": "The part that `Range` names, or several of them.",
        "content": {Content.media_type: {}, "multipart/byteranges": {}},
    },
    **refuses(Kind.NO_SUCH_PART),
}
"""What a route that returns a `Content` declares."""


A_PIECE: dict[str, Any] = {
    "parameters": [
        {"in": "header", "name": "Content-Range", "required": True, "schema": {"type": "string"},
         "description": "Where the piece belongs: `bytes 0-4194303/734003200`."}
    ],
    "requestBody": {"required": True, "content": {"application/octet-stream": {}}},
}  # fmt: skip
"""What a route declares that takes a piece of a file, and has it `written`."""


async def announced(call: Authorized, consumer: str, body: FileSpec) -> StoredFile:
    """Announce a file of a consumer, or find how much of it has arrived."""
    files, now_ms = call.federation.files, call.federation.clock()
    file = await run_in_threadpool(files.announce, consumer, body.sha256, body.name, body.size_bytes, now_ms)
    return show_file(file)


async def piece_in(request: Request) -> tuple[int, bytes]:
    """Give the piece of a file that a request brings, and where it begins; raises InvalidField."""
    said = request.headers.get("content-range", "")
    found = _RANGE.fullmatch(said)
    piece = await request.body()
    expected = f"bytes FIRST-LAST/SIZE, of a piece of at most {PIECE_BYTES} bytes"
    if found is None or int(found["last"]) - int(found["first"]) + 1 != len(piece):
        raise InvalidField("Content-Range", said, expected)
    return int(found["first"]), piece


async def written(call: Authorized, consumer: str, sha256: str, request: Request) -> StoredFile:
    """Write the piece of a consumer's file that a request brings; raises InvalidField."""
    first, piece = await piece_in(request)
    return show_file(await run_in_threadpool(call.federation.files.write, consumer, sha256, first, piece))


class Part(Response):
    """A part of a file that is passed on, and not stored here."""

    media_type = Content.media_type

    def __init__(self, piece: bytes, first: int, size_bytes: int) -> None:
        """``piece`` begins at ``first``."""
        span = f"bytes {first}-{first + len(piece) - 1}/{size_bytes}"
        super().__init__(piece, _PARTIAL, {"Content-Range": span})


def wanted_part(request: Request, size_bytes: int) -> tuple[int, int]:
    """Say from where to where a part of a file is wanted that is passed on; raises InvalidField, NoSuchPart."""
    said = request.headers.get("range", "")
    found = _WANTED.fullmatch(said)
    if found is None:
        raise InvalidField("Range", said, "bytes=FIRST-LAST: an input that is passed on is read in parts")
    first, last = int(found["first"]), min(int(found["last"]), size_bytes - 1)
    if first > last:
        raise service.NoSuchPart(said, f"bytes */{size_bytes}")
    return first, last


@router.post("", operation_id="announceFile", responses=refuses(Kind.FILE_QUOTA))
@needs(Permission.JOB_SUBMIT)
async def announce_file(call: Authorized, body: FileSpec) -> StoredFile:
    """Announce a file, or find how much of it has arrived. Its whole size counts towards the quota from now on."""
    return await announced(call, call.principal.consumer, body)


@router.put(
    "/{sha256}/content",
    operation_id="writeFile",
    responses=refuses(Kind.NO_SUCH_FILE, Kind.FILE_CONFLICT, Kind.TOO_LARGE),
    openapi_extra=A_PIECE,
)
@needs(Permission.JOB_SUBMIT)
async def write_file(call: Authorized, sha256: Hash, request: Request) -> StoredFile:
    """Send the next piece of a file's content, of at most 4 MiB. With the last one its hash is checked."""
    return await written(call, call.principal.consumer, sha256, request)


@router.get("", operation_id="listFiles")
@needs(Permission.JOB_SEE)
async def list_files(call: Authorized) -> FileList:
    """List the caller's files, by name."""
    return FileList(files=tuple(map(show_file, call.federation.files.list(call.principal.consumer))))


@router.get("/{sha256}", operation_id="showFile", responses=refuses(Kind.NO_SUCH_FILE))
@needs(Permission.JOB_SEE)
async def show_one_file(call: Authorized, sha256: Hash) -> StoredFile:
    """Show one of the caller's files."""
    return show_file(call.federation.files.get(call.principal.consumer, sha256))


@router.get(
    "/{sha256}/content",
    operation_id="readFile",
    status_code=200,
    response_class=Content,
    responses=refuses(Kind.NO_SUCH_FILE) | PARTS,
)
@needs(Permission.JOB_SEE)
async def read_file(call: Authorized, sha256: Hash) -> Content:
    """Return the content of one of the caller's files, or a part of it (`Range`)."""
    return Content(call.federation.files.content(call.principal.consumer, sha256), service.NoSuchFile(sha256))


@router.delete("/{sha256}", operation_id="removeFile", status_code=204, responses=refuses(Kind.NO_SUCH_FILE))
@needs(Permission.JOB_SUBMIT)
async def remove_file(call: Authorized, sha256: Hash) -> Response:
    """Remove one of the caller's files. A job that has not started yet and needs it cannot start any more."""
    await run_in_threadpool(call.federation.files.remove, call.principal.consumer, sha256)
    return Response(status_code=204)


def show_file(file: service.StoredFile) -> StoredFile:
    """Show a file."""
    return StoredFile.of(file, created_at=moment_at(file.created_ms))
