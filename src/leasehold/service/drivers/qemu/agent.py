"""The guest agent: what runs in a machine, asked from outside over its second serial port."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from secrets import randbelow
from typing import Any

from leasehold.service.drivers.bounds import exit_status_in, one_line, whole_in
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.qmp import Refused
from leasehold.service.drivers.qemu.wire import Silent, Wire

ANSWER_S = 10.0
RUN_ONCE = "/sbin/leasehold-run-once"
_SYNC_S = 1.0
_RESET = b"\xff"
_HIGHEST = 1 << 31
_LAST_SIGNAL = 64
_MOST_SAID = 200


class Agent:
    """One conversation with the agent of one guest.

    Nothing that is said here is lost by being said again: `run_once` runs a command the first time only, so
    that it does not matter what of a conversation was lost when the machine was saved or moved.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._is_in_step = False
        self._marks = count(randbelow(_HIGHEST))

    async def meet(self) -> None:
        """Wait until the agent answers, from wherever the conversation was left."""
        while not self._is_in_step:
            mark = next(self._marks)
            await self._wire.write({"execute": "guest-sync", "arguments": {"id": mark}}, before=_RESET)
            try:
                async with asyncio.timeout(_SYNC_S):
                    while (await self._wire.read()).get("return") != mark:
                        pass
            except TimeoutError:
                continue
            self._is_in_step = True

    async def run_once(self, key: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command in the guest, or find the one of this key; gives a number to ask `ended` with."""
        named = [f"{name}={value}" for name, value in environment.items()]
        answer = await self._ask("guest-exec", path=RUN_ONCE, arg=[key, *command], env=named)
        number = whole_in(answer.get("pid"), 0, _HIGHEST)
        if number is None:
            raise Refused("the guest agent has begun a command, and given it no number")
        return number

    async def ended(self, number: int) -> int | None:
        """Say how that ended: its exit status, 128 and the signal where it was killed; None: it runs yet.

        Raises Refused for a number that the agent does not know, or not any more, and MachineFailed where a
        command is said to have ended as none can: an agent that lies says nothing of use any more.
        """
        answer = await self._ask("guest-exec-status", pid=number)
        if not answer.get("exited"):
            return None
        if "exitcode" in answer:
            status = exit_status_in(answer["exitcode"])
        else:
            by_signal = whole_in(answer.get("signal", 0), 0, _LAST_SIGNAL)
            status = None if by_signal is None else 128 + by_signal
        if status is None:
            raise MachineFailed("its guest agent told an exit status that no command can have")
        return status

    async def set_time(self, now_ms: int) -> None:
        """Tell the guest what time it is; while its memory was saved it has missed some."""
        await self._ask("guest-set-time", time=now_ms * 1_000_000)

    async def _ask(self, command: str, **arguments: object) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self.meet()
                self._is_in_step = False  # until the answer is here: whoever is cancelled before has to sync
                await self._wire.write({"execute": command, "arguments": arguments})
                answer = await self._wire.read()
        except TimeoutError:
            raise Silent(f"the guest agent did not answer {command} within {ANSWER_S:g} s") from None
        self._is_in_step = True
        error = answer.get("error")
        if error is not None:
            why = error.get("desc", "no reason given") if isinstance(error, dict) else error
            raise Refused(one_line(f"guest agent, {command}: {why}", _MOST_SAID))
        returned = answer.get("return")
        if not isinstance(returned, dict):
            raise Refused(f"guest agent, {command}: its answer is none")
        return returned


@asynccontextmanager
async def agent_at(socket: Path) -> AsyncIterator[Agent]:
    """Talk to the agent behind a socket for as long as the block runs; raises Silent where there is none."""
    wire = await Wire.open(socket, ANSWER_S)
    try:
        yield Agent(wire)
    finally:
        await wire.close()
