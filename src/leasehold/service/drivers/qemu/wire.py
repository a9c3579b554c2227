"""A line to QEMU: a socket on which both sides write JSON objects, one a line. QMP and the agent use it."""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from leasehold.service.drivers.qemu.process import MachineFailed

_LONGEST_LINE = 1 << 24
_TRY_EVERY_S = 0.02

IsThere = Callable[[], bool]
"""Whether whoever should listen is there at all."""


def _always() -> bool:
    return True


class Silent(MachineFailed):
    """Nobody answered in time, or the line was cut."""


class Wire:
    """An open line."""

    def __init__(self, name: str, connection: socket.socket) -> None:
        self._name = name
        self._socket = connection
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, path: Path, within_s: float, is_there: IsThere = _always) -> Self:
        """Open the line to a socket, as soon as somebody listens there; see `connected`."""
        wire = cls(path.name, await connected(path, within_s, is_there))
        wire._reader, wire._writer = await asyncio.open_unix_connection(sock=wire._socket, limit=_LONGEST_LINE)
        return wire

    async def write(self, message: Mapping[str, Any], *, before: bytes = b"") -> None:
        """Write one object; raises Silent where the line is cut."""
        try:
            self._writer.write(before + json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except OSError as error:
            raise self._cut() from error

    def write_with(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Write one object, and hand these descriptors over with it; raises Silent where the line is cut."""
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode() + b"\n"], list(descriptors))
        except OSError as error:
            raise self._cut() from error

    async def read(self) -> dict[str, Any]:
        """Read the next object; what is none is passed over. Raises Silent where the line is cut."""
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError) as error:
                raise self._cut() from error
            if not line.endswith(b"\n"):
                raise self._cut()
            try:
                message = json.loads(line.replace(b"\xff", b""))
            except (
                ValueError,
                RecursionError,
            ):  # an echo, or half an answer to somebody before us, or a joke
                continue
            if isinstance(message, dict):
                return message

    def _cut(self) -> Silent:
        return Silent(f"{self._name}: the line is cut")

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


async def connected(path: Path, within_s: float, is_there: IsThere = _always) -> socket.socket:
    """Connect to a socket as soon as somebody listens there, however long its path is.

    Raises Silent where that takes too long, or there is nobody any more who could listen.
    """
    try:
        async with asyncio.timeout(within_s):
            while (connection := _try_to_connect(path)) is None:
                if not is_there():
                    raise Silent(f"{path.name}: whoever should listen has died")
                await asyncio.sleep(_TRY_EVERY_S)
    except TimeoutError:
        raise Silent(f"{path.name}: nobody listens") from None
    return connection


def _try_to_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(0)
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")  # a socket's own path may be too long
        finally:
            os.close(folder)
    except OSError:
        connection.close()
        return None
    return connection
