"""The files of leases that another gateway has sent here: inputs are read there, and what is left is sent there.

The site calls, as with messages (`leasehold.service.messages.uplink`). What was interrupted continues where it was: a
piece is read or sent again at the offset that was reached.

A gateway in between passes on each piece as it is asked for, and keeps nothing: where a command runs, its inputs are
checked by their hashes, and its outputs where they are wanted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from leasehold.model.errors import LeaseholdError
from leasehold.protocol.files import PIECE_BYTES, FileSpec, StoredFile
from leasehold.protocol.problems import Kind, Problem, problem_in
from leasehold.service.drivers.staging import CannotBring, JobFiles, Source, StagedFile, sha256_of
from leasehold.service.errors import ServiceError, Unavailable
from leasehold.service.store.rows import OutputFile

_NEVER = frozenset({403, 404, 416, 422})
"""Statuses that would be the same at the next try."""


_OF_FILES = {one.slug: one for one in (Kind.NO_SUCH_FILE, Kind.FILE_CONFLICT, Kind.FILE_QUOTA)}
"""What the gateway that wants a file says against the file, and not against who passes it on."""


class CannotSend(LeaseholdError):
    """A file cannot be sent to its gateway now; it may be possible later."""


class RefusedByGateway(ServiceError):
    """What the gateway that wants a file says against it, for the site that sends it."""

    def __init__(self, problem: Problem) -> None:
        self.kind = _OF_FILES.get(problem.slug, Kind.NO_SUCH_LEASE)
        super().__init__(problem.detail)


class FileLine:
    """The way of files to and from one gateway.

    ``http``  calls it, with a token of this site; ``site`` gives the name by which the gateway knows it
    """

    def __init__(self, http: httpx2.AsyncClient, site: Callable[[], Awaitable[str]]) -> None:
        self._http = http
        self._site = site

    async def read(self, lease_id: int, file: StagedFile, offset: int, most_bytes: int = PIECE_BYTES) -> bytes:
        """Read a piece of an input, of so many bytes at most; raises CannotBring."""
        last = min(offset + min(most_bytes, PIECE_BYTES), file.size_bytes) - 1
        path = f"{await self._path_of(lease_id)}/inputs/{file.sha256}"
        try:
            response = await self._http.get(path, headers={"Range": f"bytes={offset}-{last}"})
        except httpx2.HTTPError as error:
            raise CannotBring(f"input {file.name!r}: its gateway does not answer: {error}", again=True) from None
        if response.status_code != httpx2.codes.PARTIAL_CONTENT:
            again = response.status_code not in _NEVER
            raise CannotBring(f"input {file.name!r}: its gateway says: {_problem(response).detail}", again=again)
        return response.content[: last - offset + 1]

    async def send(self, lease_id: int, name: str, path: Path) -> OutputFile:
        """Send a file that a command has left, from where that was interrupted; raises CannotSend, OSError."""
        spec = await asyncio.to_thread(_spec_of, name, path)
        where = f"{await self._path_of(lease_id)}/outputs"
        stored = await self._stored(name, self._http.post(where, json=spec.model_dump()))
        with path.open("rb") as content:
            while isinstance(stored, StoredFile) and not stored.is_complete:
                first = stored.received_bytes
                content.seek(first)
                piece = await asyncio.to_thread(content.read, PIECE_BYTES)
                if not piece:
                    raise CannotSend(f"{name} became shorter while it was sent")
                span = {"Content-Range": f"bytes {first}-{first + len(piece) - 1}/{spec.size_bytes}"}
                call = self._http.put(f"{where}/{spec.sha256}/content", content=piece, headers=span)
                stored = await self._stored(name, call)
        return stored if isinstance(stored, OutputFile) else OutputFile(name, spec.sha256, spec.size_bytes)

    async def pass_announcement(self, lease_id: int, spec: FileSpec) -> StoredFile:
        """Announce a file that a site sends, or find how much of it has arrived; raises as `pass_piece` does."""
        where = f"{await self._path_of(lease_id)}/outputs"
        return await self._passed(spec.name, self._http.post(where, json=spec.model_dump()))

    async def pass_piece(self, lease_id: int, sha256: str, span: str, piece: bytes) -> StoredFile:
        """Pass on a piece that a site sends, with the ``span`` of its `Content-Range`.

        Raises RefusedByGateway where that will always be so, and Unavailable.
        """
        where = f"{await self._path_of(lease_id)}/outputs/{sha256}/content"
        return await self._passed(sha256, self._http.put(where, content=piece, headers={"Content-Range": span}))

    async def _passed(self, name: str, call: Awaitable[httpx2.Response]) -> StoredFile:
        who = "the gateway that wants it"
        try:
            answer = await _answer(who, call)
        except _NoAnswerError as error:
            raise Unavailable(f"{name}: {error}") from None
        if isinstance(answer, StoredFile):
            return answer
        problem = _problem(answer)
        if answer.status_code in _NEVER or problem.slug in _OF_FILES:
            raise RefusedByGateway(problem)
        raise Unavailable(f"{name}: {who} says: {problem.detail}")

    async def _path_of(self, lease_id: int) -> str:
        return f"/v1/sites/{quote(await self._site(), safe='')}/leases/{lease_id}"

    async def _stored(self, name: str, call: Awaitable[httpx2.Response]) -> StoredFile | OutputFile:
        """Read how much the gateway has of a file; or why it never will. Raises CannotSend."""
        try:
            answer = await _answer("the gateway", call)
        except _NoAnswerError as error:
            raise CannotSend(f"{name}: {error}") from None
        if isinstance(answer, StoredFile):
            return answer
        problem = _problem(answer)
        if answer.status_code in _NEVER or problem.slug == Kind.FILE_QUOTA.slug:
            return OutputFile(name, problem=problem.detail)
        raise CannotSend(f"{name}: the gateway says: {problem.detail}")


class _NoAnswerError(LeaseholdError):
    """Nothing that can be read has come back."""


async def _answer(who: str, call: Awaitable[httpx2.Response]) -> StoredFile | httpx2.Response:
    """Read how much ``who`` has of a file, or what it says against it; raises _NoAnswerError."""
    try:
        response = await call
    except httpx2.HTTPError as error:
        raise _NoAnswerError(f"{who} does not answer: {error}") from None
    if not response.is_success:
        return response
    try:
        return StoredFile.model_validate_json(response.content, strict=True, extra="ignore")
    except ValidationError:
        raise _NoAnswerError(f"the answer of {who} is not a stored file") from None


def _spec_of(name: str, path: Path) -> FileSpec:
    return FileSpec(sha256=sha256_of(path), name=name, size_bytes=path.stat().st_size)


def _problem(response: httpx2.Response) -> Problem:
    status = response.status_code
    said = problem_in(response.content, response.headers.get("content-type", ""), status)
    return said or Problem(type="about:blank", title="", detail=f"{status}: {response.text[:500]}", status=status)


class GatewayFiles:
    """The lines of files to all gateways that send leases here, by the names of their endpoints."""

    def __init__(self) -> None:
        self._lines: dict[str, FileLine] = {}

    @contextmanager
    def over(self, endpoint: str, line: FileLine) -> Generator[None, None, None]:
        """Carry the files of a gateway over this line from now on, until this ends."""
        self._lines[endpoint] = line
        try:
            yield
        finally:
            del self._lines[endpoint]

    def source_of(self, files: JobFiles) -> Source:
        """Read inputs at the gateway that has sent them."""

        async def read(file: StagedFile, offset: int) -> bytes:
            line = self._lines.get(files.origin)
            if line is None:
                raise CannotBring(f"input {file.name!r}: there is no line to its gateway now", again=True)
            return await line.read(files.origin_id, file, offset)

        return read

    def passing(self, files: JobFiles) -> FileLine:
        """Give the line over which the files of a lease are passed on; raises Unavailable."""
        line = self._lines.get(files.origin)
        if line is None:
            raise Unavailable("there is no line now to the gateway that has sent the lease")
        return line

    async def send(self, files: JobFiles, name: str, path: Path) -> OutputFile:
        """Send a file that a command has left to the gateway that wants it; raises CannotSend, OSError."""
        line = self._lines.get(files.origin)
        if line is None:
            raise CannotSend(f"{name}: there is no line to its gateway now")
        return await line.send(files.origin_id, name, path)
