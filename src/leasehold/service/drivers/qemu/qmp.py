"""How a machine is spoken to: QEMU itself over QMP, and the guest agent that runs in the machine.

Both write JSON objects, one a line, over a Unix socket, and each is given a deadline. The library qemu.qmp does
this for QMP; it does not know the guest agent, whose protocol differs a little, so that both are done here.
Whatever comes from a guest is bounded before it is believed (`leasehold.service.drivers.bounds`).
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from secrets import randbelow
from typing import Any, Self

from leasehold.service.drivers.bounds import exit_status_in, one_line, whole_in
from leasehold.service.drivers.guest_agent import GuestAgent, Refused
from leasehold.service.drivers.reconciler.provider import MachineFailed

QMP_TIMEOUT_S = 30.0
"""A machine on a busy computer may be slow; one that does not answer for so long hangs."""

AGENT_TIMEOUT_S = 10.0
RUN_ONCE = "/sbin/leasehold-run-once"
SET_UP = "/sbin/leasehold-set-up"

_LONGEST_LINE = 1 << 24
_RETRY_S = 0.02
_SYNC_S = 1.0
_RESET = b"\xff"
_HIGHEST = 1 << 31
_LAST_SIGNAL = 64
_LONGEST_ERROR = 200

IsAlive = Callable[[], bool]
"""Whether the process that should listen is alive."""


class NoAnswer(MachineFailed):
    """There was no answer in time, or the connection was closed."""


class JsonSocket:
    """A connection on which JSON objects are written and read."""

    def __init__(self, name: str, connection: socket.socket) -> None:
        self._name = name
        self._socket = connection
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, path: Path, within_s: float, is_alive: IsAlive = lambda: True) -> Self:
        """Connect to a socket as soon as there is a listener; see `connected`."""
        opened = cls(path.name, await connected(path, within_s, is_alive))
        opened._reader, opened._writer = await asyncio.open_unix_connection(sock=opened._socket, limit=_LONGEST_LINE)
        return opened

    async def write(self, message: Mapping[str, Any], *, before: bytes = b"") -> None:
        """Write one object; raises NoAnswer where the connection is closed."""
        try:
            self._writer.write(before + json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except OSError as error:
            raise self._closed() from error

    def write_with(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Write one object, and pass these descriptors with it; raises NoAnswer where the connection is closed."""
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode() + b"\n"], list(descriptors))
        except OSError as error:
            raise self._closed() from error

    async def read(self) -> dict[str, Any]:
        """Read the next object, skipping all other lines; raises NoAnswer where the connection is closed."""
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError) as error:
                raise self._closed() from error
            if not line.endswith(b"\n"):
                raise self._closed()
            try:
                message = json.loads(line.replace(b"\xff", b""))
            except (ValueError, RecursionError):  # an echo, half an answer to an earlier client, or an attack
                continue
            if isinstance(message, dict):
                return message

    def _closed(self) -> NoAnswer:
        return NoAnswer(f"{self._name}: the connection is closed")

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


async def connected(path: Path, within_s: float, is_alive: IsAlive = lambda: True) -> socket.socket:
    """Connect to a socket, however long its path is, as soon as there is a listener.

    Raises NoAnswer where that takes too long, or the process that should listen has died.
    """
    try:
        async with asyncio.timeout(within_s):
            while (connection := _try_to_connect(path)) is None:
                if not is_alive():
                    raise NoAnswer(f"{path.name}: the process that should listen has died")
                await asyncio.sleep(_RETRY_S)
    except TimeoutError:
        raise NoAnswer(f"{path.name}: there is no listener") from None
    return connection


def _try_to_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(0)
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")  # the path of a socket itself may be too long
        finally:
            os.close(folder)
    except OSError:
        connection.close()
        return None
    return connection


# QEMU


class QmpConnection:
    """One conversation with QEMU, which has one at a time."""

    def __init__(self, stream: JsonSocket) -> None:
        self._stream = stream
        self._numbers = count(1)

    async def execute(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - whatever QEMU returns
        """Execute a command; raises Refused or NoAnswer. ``_`` in names is ``-`` to QEMU."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        return await self._exchange({"execute": command, "arguments": named})

    async def pass_descriptor(self, descriptor: int, name: str) -> None:
        """Give QEMU a copy of an open descriptor, under that name."""
        await self._exchange({"execute": "getfd", "arguments": {"fdname": name}}, descriptor)

    async def next_event(self) -> tuple[str, Mapping[str, Any]]:
        """Wait for the next event, and give its name and data; raises NoAnswer where the machine is dead."""
        while True:
            message = await self._stream.read()
            if "event" in message:
                return message["event"], message.get("data", {})

    async def _exchange(self, command: Mapping[str, Any], descriptor: int | None = None) -> Any:  # noqa: ANN401
        number = next(self._numbers)
        message = {**command, "id": number}
        try:
            async with asyncio.timeout(QMP_TIMEOUT_S):
                if descriptor is None:
                    await self._stream.write(message)
                else:
                    self._stream.write_with(message, [descriptor])
                return await self._answer(number, str(command["execute"]))
        except TimeoutError:
            raise NoAnswer(f"QEMU did not answer {command['execute']} within {QMP_TIMEOUT_S:g} s") from None

    async def _answer(self, number: int, command: str) -> Any:  # noqa: ANN401
        while True:
            message = await self._stream.read()
            if message.get("id") != number:
                continue
            if "error" in message:
                raise Refused(f"{command}: {message['error'].get('desc', 'no reason given')}")
            return message["return"]


@asynccontextmanager
async def qmp_connection(path: Path, is_alive: IsAlive) -> AsyncIterator[QmpConnection]:
    """Talk to QEMU for as long as the block runs; raises NoAnswer where it does not greet."""
    stream = await JsonSocket.open(path, QMP_TIMEOUT_S, is_alive)
    try:
        try:
            async with asyncio.timeout(QMP_TIMEOUT_S):
                while "QMP" not in await stream.read():
                    pass
        except TimeoutError:
            raise NoAnswer(f"QEMU did not greet within {QMP_TIMEOUT_S:g} s") from None
        qmp = QmpConnection(stream)
        await qmp.execute("qmp_capabilities")
        yield qmp
    finally:
        await stream.close()


# The guest agent


class SerialAgent(GuestAgent):
    """One conversation with the agent of one guest, over a serial port.

    Every command here may be sent again: `run_once` runs a command the first time only, so that it
    does not matter which part of a conversation was lost when the machine was saved or moved.
    """

    written_at_once = 2_400
    """The line into a guest has no flow control: what comes while its buffer of 4 KiB is full is lost, so that one
    command, with these bytes in base64, has to fit."""
    read_at_once = 48 * 1024

    def __init__(self, stream: JsonSocket) -> None:
        self._stream = stream
        self._is_in_sync = False
        self._marks = count(randbelow(_HIGHEST))

    async def sync(self) -> None:
        """Wait until the agent answers, wherever an earlier conversation was broken off."""
        while not self._is_in_sync:
            mark = next(self._marks)
            await self._stream.write({"execute": "guest-sync", "arguments": {"id": mark}}, before=_RESET)
            try:
                async with asyncio.timeout(_SYNC_S):
                    while (await self._stream.read()).get("return") != mark:
                        pass
            except TimeoutError:
                continue
            self._is_in_sync = True

    async def run_once(self, key: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command in the guest, or find the one of this key; gives a number to ask `exit_status` with."""
        named = [f"{name}={value}" for name, value in environment.items()]
        answer = await self.execute("guest-exec", path=RUN_ONCE, arg=[key, *command], env=named)
        number = whole_in(answer.get("pid"), 0, _HIGHEST)
        if number is None:
            raise Refused("the guest agent has begun a command, and given it no number")
        return number

    async def exit_status(self, number: int) -> int | None:
        """Give a command's exit status, 128 and the signal where it was killed; None while it runs.

        Raises Refused for a number that the agent does not know, or no longer; MachineFailed for a status that
        no command can have: an agent that lies is of no more use.
        """
        answer = await self.execute("guest-exec-status", pid=number)
        if not answer.get("exited"):
            return None
        if "exitcode" in answer:
            status = exit_status_in(answer["exitcode"])
        else:
            by_signal = whole_in(answer.get("signal", 0), 0, _LAST_SIGNAL)
            status = None if by_signal is None else 128 + by_signal
        if status is None:
            raise MachineFailed("its guest agent reported an exit status that no command can have")
        return status

    async def set_up(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Have the guest set its network up; raises Refused where it could not."""
        done = await self.run(SET_UP, words, env=[f"{name}={value}" for name, value in environment.items()])
        if done.get("exitcode") != 0:
            raise Refused(f"{SET_UP} ended with status {done.get('exitcode')!r:.20}")

    async def set_time(self, now_ms: int) -> None:
        """Set the guest's clock, which has stood still while its memory was saved."""
        await self.execute("guest-set-time", time=now_ms * 1_000_000)

    async def answer(self, command: str, **arguments: object) -> object:
        """Have the agent execute a command; raises NoAnswer where it does not within its deadline, or Refused."""
        try:
            async with asyncio.timeout(AGENT_TIMEOUT_S):
                await self.sync()
                self._is_in_sync = False  # until the answer is here: if this is cancelled, the next has to sync
                await self._stream.write({"execute": command, "arguments": arguments})
                answer = await self._stream.read()
        except TimeoutError:
            raise NoAnswer(f"the guest agent did not answer {command} within {AGENT_TIMEOUT_S:g} s") from None
        self._is_in_sync = True
        error = answer.get("error")
        if error is not None:
            why = error.get("desc", "no reason given") if isinstance(error, dict) else error
            raise Refused(one_line(f"guest agent, {command}: {why}", _LONGEST_ERROR))
        return answer.get("return")


@asynccontextmanager
async def agent_at(path: Path) -> AsyncIterator[SerialAgent]:
    """Talk to the agent behind a socket for as long as the block runs; raises NoAnswer where there is none."""
    stream = await JsonSocket.open(path, AGENT_TIMEOUT_S)
    try:
        yield SerialAgent(stream)
    finally:
        await stream.close()
