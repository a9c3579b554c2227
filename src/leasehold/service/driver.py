"""Drives the engine: gathers what is asked while it is at work, wakes it when something is due.

The engine works in a thread of its own, so that the answers of one step can be sent, and the requests of the
next be read, while the store writes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from leasehold.service.commands import Command, JobNodesSeen
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.errors import Unavailable

MOST_AT_ONCE = 512
_PAUSE_AFTER_FAILURE_S = 1.0

Clock = Callable[[], int]
"""Gives the time in Unix milliseconds."""

T = TypeVar("T")
Question = Callable[[Engine], Any]


@dataclass(slots=True)
class _Asked:
    """Something that somebody waits for."""

    what: Command | Question
    answer: asyncio.Future[Any]

    @property
    def takes_long(self) -> bool:
        """Whether there are thousands of things to take in."""
        return isinstance(self.what, JobNodesSeen)

    def tell(self, value: object) -> None:
        if self.answer.done():
            return  # whoever asked has gone
        if isinstance(value, Exception):
            self.answer.set_exception(value)
        else:
            self.answer.set_result(value)


class Driver:
    """One engine on one event loop.

    ``on_done`` is called after every step that was written, ``on_trouble`` with why nothing can be, and with
    "" when something can again.

    ``trouble`` says why nothing can be decided now; empty while all is well.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        on_done: Callable[[Done], None],
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._on_done = on_done
        self._on_trouble = on_trouble
        self._queue: deque[_Asked] = deque()
        self._awake = asyncio.Event()
        self._next_alarm_ms: int | None = 0
        self._stopping = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self.trouble = ""

    async def do(self, command: Command) -> Any:  # noqa: ANN401 - each command has its own kind of answer
        """Ask the engine; raises the exception that it answers with, or Unavailable."""
        return await self._ask(command)

    async def ask(self, question: Callable[[Engine], T]) -> T:
        """Look at the engine between two steps."""
        answer: T = await self._ask(question)
        return answer

    async def _ask(self, what: Command | Question) -> Any:  # noqa: ANN401 - as do
        if self._stopping:
            raise Unavailable("the gateway is stopping")
        asked = _Asked(what, asyncio.get_running_loop().create_future())
        self._queue.append(asked)
        self._awake.set()
        return await asked.answer

    async def run(self) -> None:
        """Work until `stop` is called and everything that was asked before has been answered."""
        try:
            while self._queue or not self._stopping:
                await self._until_something_is_to_do()
                await self._work()
        finally:
            self._thread.shutdown()
            for asked in self._queue:
                asked.tell(Unavailable("the gateway has stopped"))

    def stop(self) -> None:
        """Take nothing more in, and finish what was taken."""
        self._stopping = True
        self._awake.set()

    async def _until_something_is_to_do(self) -> None:
        self._awake.clear()
        if self._queue or self._stopping:
            return
        wait_s: float | None = None
        if self._next_alarm_ms is not None:
            wait_s = max(0.0, (self._next_alarm_ms - self._clock()) / 1000)
        try:
            async with asyncio.timeout(wait_s):
                await self._awake.wait()
        except TimeoutError:
            pass

    async def _work(self) -> None:
        asked = self._take()
        commands = [(one, one.what) for one in asked if isinstance(one.what, Command)]
        questions = [(one, one.what) for one in asked if not isinstance(one.what, Command)]
        loop = asyncio.get_running_loop()
        try:
            done = await loop.run_in_executor(self._thread, self._step, [command for _, command in commands])
        except Exception as error:  # noqa: BLE001 - the engine has failed, and must not take the others along
            await self._be_in_trouble(error, asked)
            return
        self._be_well()
        self._next_alarm_ms = done.next_alarm_ms
        self._on_done(done)
        for (one, _), value in zip(commands, done.answers, strict=True):
            one.tell(value)
        for one, question in questions:
            one.tell(await loop.run_in_executor(self._thread, self._answer, question))

    def _take(self) -> list[_Asked]:
        """Take what one step is about; of what takes long one at a time, lest others wait for all of it."""
        taken: list[_Asked] = []
        later: list[_Asked] = []
        while self._queue and len(taken) < MOST_AT_ONCE:
            asked = self._queue.popleft()
            must_wait = asked.takes_long and any(one.takes_long for one in taken)
            (later if must_wait else taken).append(asked)
        self._queue.extendleft(reversed(later))
        return taken

    def _step(self, commands: Sequence[Command]) -> Done:
        return self._engine.step(commands, self._clock())

    def _answer(self, question: Question) -> Any:  # noqa: ANN401 - whatever was asked
        try:
            return question(self._engine)
        except Exception as error:  # noqa: BLE001 - it is whoever asked that must know
            return error

    def _be_well(self) -> None:
        if self.trouble:
            self.trouble = ""
            self._on_trouble("")

    async def _be_in_trouble(self, error: Exception, asked: Sequence[_Asked]) -> None:
        """Nothing was written. Say so, and try again a little later."""
        self.trouble = str(error)
        self._on_trouble(self.trouble)
        for one in asked:
            one.tell(error)
        if not self._stopping:
            await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
