"""Drives the engine: gathers what is asked while it is at work, wakes it when something is due.

The engine works in a thread of its own, so that the answers of one step can be sent, and the requests of the
next be read, while the store writes.

Whether anything can be decided is known without asking the engine: `trouble` says why nothing can, and
`busy_s` for how long the engine has been at its current work. A store that failed is trusted again only after
it has taken a write, and now and then every store is asked to take one.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Any, TypeVar

from leasehold.model.errors import LeaseholdError
from leasehold.service.commands import Command, JobNodesSeen
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.errors import Unavailable

MOST_AT_ONCE = 512
MOST_LONG_QUESTIONS = 16
"""How many of its questions that take long one consumer may have waiting."""

PROBE_EVERY_S = 10.0
"""So often the store is asked to take a write."""

_PAUSE_AFTER_FAILURE_S = 1.0

Clock = Callable[[], int]
"""Gives the time in Unix milliseconds."""

T = TypeVar("T")
U = TypeVar("U")
Question = Callable[[Engine], Any]


class TooManyQuestions(Unavailable):
    """A consumer has the maximum number of questions waiting."""

    def __init__(self, whose: str) -> None:
        super().__init__(f"{whose} has {MOST_LONG_QUESTIONS} questions waiting, as many as it may have")


@dataclass(slots=True)
class _Pending:
    """A command or question with its pending answer."""

    what: Command | Question
    answer: asyncio.Future[Any]

    @property
    def takes_long(self) -> bool:
        """Whether there are thousands of things to take in."""
        return isinstance(self.what, JobNodesSeen)

    def tell(self, value: object) -> None:
        if self.answer.done():
            return  # the caller has gone
        if isinstance(value, Exception):
            self.answer.set_exception(value)
        else:
            self.answer.set_result(value)


class EngineThread:
    """One engine on one event loop.

    ``on_done`` is called after every step that was written, ``on_trouble`` with the error when none can be,
    and with None when they can again.

    Between two steps short questions are answered, and of those that take long one: consumers take turns, so
    that commands, and the questions of other consumers, wait for at most one of those.

    ``trouble`` says why nothing can be decided now; empty while all is well.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        on_done: Callable[[Done], None],
        on_trouble: Callable[[Exception | None], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._on_done = on_done
        self._on_trouble = on_trouble
        self._queue: deque[_Pending] = deque()
        self._long: OrderedDict[str, deque[_Pending]] = OrderedDict()
        self._awake = asyncio.Event()
        self._next_alarm_ms: int | None = 0
        self._stopping = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._busy_since_s: float | None = None
        self._next_probe_s = 0.0
        self.trouble = ""

    @property
    def busy_s(self) -> float:
        """For how long the engine has been at what it is doing now; 0 while it waits for something to do."""
        return 0.0 if self._busy_since_s is None else monotonic() - self._busy_since_s

    async def do(self, command: Command) -> Any:  # noqa: ANN401 - each command has its own kind of answer
        """Ask the engine; raises the exception that it answers with, or Unavailable."""
        return await self._ask(command)

    async def ask(self, question: Callable[[Engine], T], *, whose: str | None = None) -> T:
        """Look at the engine between two steps; a question that takes long says ``whose`` it is.

        Raises TooManyQuestions.
        """
        answer: T = await (self._ask(question) if whose is None else self._ask_long(question, whose))
        return answer

    async def _ask_long(self, question: Question, whose: str) -> Any:  # noqa: ANN401 - as do
        if self._stopping:
            raise Unavailable("the gateway is stopping")
        waiting = self._long.setdefault(whose, deque())
        if len(waiting) >= MOST_LONG_QUESTIONS:
            raise TooManyQuestions(whose)
        pending = _Pending(question, asyncio.get_running_loop().create_future())
        waiting.append(pending)
        self._awake.set()
        return await pending.answer

    async def _ask(self, what: Command | Question) -> Any:  # noqa: ANN401 - as do
        if self._stopping:
            raise Unavailable("the gateway is stopping")
        pending = _Pending(what, asyncio.get_running_loop().create_future())
        self._queue.append(pending)
        self._awake.set()
        return await pending.answer

    async def run(self) -> None:
        """Work until `stop` is called and everything that was asked before has been answered."""
        try:
            while self._queue or self._long or not self._stopping:
                await self._until_something_is_to_do()
                await self._work()
            with suppress(LeaseholdError):  # a store that does not answer now has all but what was learnt
                await self._run(lambda engine: engine.finish(), self._engine)
        finally:
            self._stopping = True  # also after a defect: no caller must wait for an answer forever
            self._thread.shutdown()
            for pending in (*self._queue, *chain.from_iterable(self._long.values())):
                pending.tell(Unavailable("the gateway has stopped"))

    def stop(self) -> None:
        """Take nothing more in, and finish what was taken."""
        self._stopping = True
        self._awake.set()

    async def _until_something_is_to_do(self) -> None:
        self._awake.clear()
        loop = asyncio.get_running_loop()
        while not (self._queue or self._long or self._stopping or self.trouble or self._is_due()):
            wait_s = self._next_probe_s - loop.time()
            if self._next_alarm_ms is not None:
                wait_s = min(wait_s, (self._next_alarm_ms - self._clock()) / 1000)
            try:
                async with asyncio.timeout(max(wait_s, 0.0)):
                    await self._awake.wait()
            except TimeoutError:
                pass

    def _is_due(self) -> bool:
        """Whether an alarm is due, or the store is to be asked whether it takes writes.

        The latter comes so often that no alarm is missed where an event loop did not count while its machine
        slept.
        """
        if asyncio.get_running_loop().time() >= self._next_probe_s:
            return True
        return self._next_alarm_ms is not None and self._next_alarm_ms <= self._clock()

    async def _work(self) -> None:
        pending = self._take()
        commands = [(one, one.what) for one in pending if isinstance(one.what, Command)]
        questions = [(one, one.what) for one in pending if not isinstance(one.what, Command)]
        try:
            await self._prove_store()
            done = await self._run(self._step, [command for _, command in commands])
        except Exception as error:  # noqa: BLE001 - the engine has failed, and must not take the others along
            await self._be_in_trouble(error, pending)
            return
        self._be_well()
        self._next_alarm_ms = done.next_alarm_ms
        self._on_done(done)
        for (one, _), value in zip(commands, done.answers, strict=True):
            one.tell(value)
        for one, question in [*questions, *self._next_long()]:
            one.tell(await self._run(self._answer, question))

    async def _run(self, work: Callable[[T], U], about: T) -> U:
        """Let the engine's thread work, and know since when it does."""
        self._busy_since_s = monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, about)
        finally:
            self._busy_since_s = None

    async def _prove_store(self) -> None:
        """Let the store take a write: now and then, and before a step where the one before has failed.

        A step that has nothing to write would succeed without a store.
        """
        now_s = asyncio.get_running_loop().time()
        if self.trouble or now_s >= self._next_probe_s:
            await self._run(self._engine.prove_store, bool(self.trouble))
            self._next_probe_s = now_s + PROBE_EVERY_S

    def _next_long(self) -> list[tuple[_Pending, Question]]:
        """Take the next long question, in turns between consumers, and skip callers that have gone."""
        while self._long:
            whose, waiting = self._long.popitem(last=False)
            pending = waiting.popleft()
            if waiting:
                self._long[whose] = waiting
            if not pending.answer.done():
                assert not isinstance(pending.what, Command)
                return [(pending, pending.what)]
        return []

    def _take(self) -> list[_Pending]:
        """Take what one step is about; of what takes long one at a time, lest others wait for all of it."""
        taken: list[_Pending] = []
        later: list[_Pending] = []
        while self._queue and len(taken) < MOST_AT_ONCE:
            pending = self._queue.popleft()
            must_wait = pending.takes_long and any(one.takes_long for one in taken)
            (later if must_wait else taken).append(pending)
        self._queue.extendleft(reversed(later))
        return taken

    def _step(self, commands: Sequence[Command]) -> Done:
        return self._engine.step(commands, self._clock())

    def _answer(self, question: Question) -> Any:  # noqa: ANN401 - whatever was asked
        try:
            return question(self._engine)
        except Exception as error:  # noqa: BLE001 - it is reported to the caller
            return error

    def _be_well(self) -> None:
        if self.trouble:
            self.trouble = ""
            self._on_trouble(None)

    async def _be_in_trouble(self, error: Exception, pending: Sequence[_Pending]) -> None:
        """Nothing was written. Say so, and try again a little later."""
        was_well = not self.trouble
        self.trouble = str(error) or type(error).__name__
        if was_well:
            self._on_trouble(error)
        for one in (*pending, *chain.from_iterable(self._long.values())):
            one.tell(error)
        self._long.clear()  # they would wait for a step that succeeds, for an unknown time
        if not self._stopping:
            await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
