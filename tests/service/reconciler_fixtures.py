"""A loop in which time passes only when nobody has anything to do, and then at once; a driver by script."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from leasehold.service.commands import Command
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Problem
from leasehold.service.site_reconciler import SiteReconciler

SITE = "das3"
LOOK_EVERY_S = 30.0


class _Impatient(selectors.SelectSelector):
    """Does not wait, but says how long it should have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.waited_s += max(0.0, timeout)
        return super().select(0)


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop of its own time, which begins at 0 s."""

    def __init__(self) -> None:
        self._impatient = _Impatient()
        super().__init__(self._impatient)

    def time(self) -> float:
        return self._impatient.waited_s


def now_ms() -> int:
    """The time of the loop that runs."""
    return round(asyncio.get_running_loop().time() * 1000)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run in a loop of its own time."""
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        runner.run(work)


Script = Callable[[], Awaitable[Any]]


@dataclass
class Scripted:
    """A driver that notes what it is told, with the time, and answers as the test has it."""

    told: list[tuple[float, list[str]]] = field(default_factory=list)
    looks_s: list[float] = field(default_factory=list)
    seen: list[Observation] = field(default_factory=list)
    on_orders: Callable[[Sequence[Order]], Awaitable[dict[str, Problem]]] | None = None
    on_look: Script | None = None
    on_console: Script | None = None
    written: str = ""
    news: "asyncio.Queue[list[Observation] | Exception]" = field(default_factory=asyncio.Queue)
    capabilities: Capabilities = field(default_factory=Capabilities)

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        self.told.append((now_ms() / 1000, [order.id for order in orders]))
        return {} if self.on_orders is None else await self.on_orders(orders)

    async def observe(self) -> list[Observation]:
        self.looks_s.append(now_ms() / 1000)
        if self.on_look is not None:
            await self.on_look()
        return self.seen

    async def changes(self) -> list[Observation]:
        news = await self.news.get()
        if isinstance(news, Exception):
            raise news
        return news

    async def console(self, lease_id: int) -> str:
        if self.on_console is not None:
            await self.on_console()
        return self.written or f"lease {lease_id}"

    async def close(self) -> None:
        """Let go of nothing."""


class Office:
    """A reconciler at work, between a scripted driver and an engine that writes down what it is told."""

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self.driver = Scripted()
        self.passed_on: list[tuple[float, Command]] = []
        self.refuse: list[Exception] = []
        self.reconciler = SiteReconciler(SITE, self.driver, self._do, clock, LOOK_EVERY_S)

    async def _do(self, command: Command) -> None:
        if self.refuse:
            raise self.refuse.pop(0)
        self.passed_on.append((now_ms() / 1000, command))

    async def work_for(self, seconds: float) -> None:
        """Let it work for so long, and stop."""
        try:
            async with asyncio.timeout(seconds):
                await self.reconciler.run()
        except TimeoutError:
            pass

    def at(self, seconds: float, then: Callable[[], object]) -> None:
        """Have something happen after so many seconds."""
        asyncio.get_running_loop().call_later(seconds, then)

    def heard(self, kind: type) -> list[tuple[float, Any]]:
        """What was passed on of this kind, with the time."""
        return [(at_s, command) for at_s, command in self.passed_on if isinstance(command, kind)]
