"""QEMU's guest agent: what drivers have it do in a guest, whoever carries their commands there.

Whatever comes from a guest is bounded before it is believed (`leasehold.service.drivers.bounds`).
"""

import asyncio
import base64
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO, ClassVar

from leasehold.service.drivers.bounds import whole_in
from leasehold.service.drivers.reconciler.provider import MachineFailed
from leasehold.service.drivers.staging import TOO_LARGE

_HEX_DIGITS = 64
_ASK_AGAIN_S = 0.05
_FROM_BEGIN, _FROM_END = "set", "end"
_MOST_BYTES = 1 << 53


class Refused(MachineFailed):
    """QEMU or the guest agent will not do that; says why."""


class GuestAgent(ABC):
    """One conversation with the agent of one guest; whatever is done here may be done again.

    ``written_at_once``, ``read_at_once``  bytes of a file in one command, or in one answer
    """

    written_at_once: ClassVar[int]
    read_at_once: ClassVar[int]

    @abstractmethod
    async def answer(self, command: str, **arguments: object) -> object:
        """Have the agent execute a command, and give what it returns; raises Refused."""

    async def execute(self, command: str, **arguments: object) -> Mapping[str, Any]:
        """Have the agent execute a command that returns an object."""
        returned = await self.answer(command, **arguments)
        if not isinstance(returned, dict):
            raise Refused(f"guest agent, {command}: it has returned no object")
        return returned

    async def run(self, path: str, words: Sequence[str], **how: object) -> Mapping[str, Any]:
        """Run a program in the guest, and give what the agent says of its end."""
        number = (await self.execute("guest-exec", path=path, arg=list(words), **how)).get("pid")
        while not (done := await self.execute("guest-exec-status", pid=number)).get("exited"):  # noqa: ASYNC110 - in a guest
            await asyncio.sleep(_ASK_AGAIN_S)
        return done

    # files

    async def make_folder(self, path: str) -> None:
        """Make a folder in the guest, if it is not there."""
        await self.run("mkdir", ["-p", path])

    async def sha256(self, path: str) -> str:
        """Give the SHA-256 of a file in the guest, "" where there is none."""
        done = await self.run("sha256sum", [path], **{"capture-output": True})
        try:
            return base64.b64decode(done.get("out-data", "")).decode("ascii")[:_HEX_DIGITS]
        except (TypeError, ValueError) as error:
            raise Refused("the guest agent returned an output that cannot be read") from error

    async def continue_file(self, path: str, content: BinaryIO) -> int:
        """Write a file in the guest from where it ends there, and give how many bytes; there may be none yet."""
        await self.run("touch", [path])
        # Not "ab": what a conversation that broke off has left in a buffer has to get to its own place, however late.
        async with self._opened(path, "r+b") as handle:
            begin = content.seek(await self._position(handle, 0, _FROM_END))
            while piece := content.read(self.written_at_once):
                encoded = base64.b64encode(piece).decode("ascii")
                await self.execute("guest-file-write", **{"handle": handle, "buf-b64": encoded})
            return content.tell() - begin

    async def remove_file(self, path: str) -> None:
        """Remove a file in the guest, if it is there."""
        await self.run("rm", ["-f", path])

    async def read_file(self, path: str, begin: int, most_bytes: int) -> AsyncIterator[bytes]:
        """Read a file in the guest piece by piece; raises Refused where there is none, or it has more bytes."""
        async with self._opened(path, "rb") as handle:
            end = await self._position(handle, begin, _FROM_BEGIN)
            while piece := await self._piece(handle, self.read_at_once):
                end += len(piece)
                if end > most_bytes:
                    raise Refused(TOO_LARGE)
                yield piece

    async def read_end(self, path: str, most_bytes: int) -> tuple[bytes, bool]:
        """Read the last bytes of a file in the guest; says whether that is all. Raises Refused where there is none."""
        async with self._opened(path, "rb") as handle:
            size = await self._position(handle, 0, _FROM_END)
            begin = await self._position(handle, max(0, size - most_bytes), _FROM_BEGIN)
            read = b""
            while len(read) < most_bytes:  # it may grow meanwhile
                wanted = min(self.read_at_once, most_bytes - len(read))
                piece = await self._piece(handle, wanted)
                read += piece
                if len(piece) < wanted:  # the end; nor may a guest answer byte by byte for ever
                    break
            return read[:most_bytes], begin == 0 and len(read) >= size

    async def _piece(self, handle: object, count: int) -> bytes:
        answer = await self.execute("guest-file-read", handle=handle, count=count)
        try:
            return base64.b64decode(answer["buf-b64"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refused("the guest agent returned a file that cannot be decoded") from error

    @asynccontextmanager
    async def _opened(self, path: str, mode: str) -> AsyncIterator[object]:
        handle = await self.answer("guest-file-open", path=path, mode=mode)
        try:
            yield handle
        finally:
            with suppress(Refused):
                await self.execute("guest-file-close", handle=handle)

    async def _position(self, handle: object, offset: int, whence: str) -> int:
        answer = await self.execute("guest-file-seek", handle=handle, offset=offset, whence=whence)
        position = whole_in(answer.get("position"), 0, _MOST_BYTES)
        if position is None:
            raise Refused("the guest agent returned a position that no file has")
        return position
