"""News from threads to whoever waits for it in an event loop: of each lease the last, until it is taken."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

from leasehold.service.drivers.protocol import Observation


class News:
    """What was not told yet."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._untold: dict[int, Observation] = {}
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def add(self, news: Mapping[int, Observation]) -> None:
        """Add some, from any thread."""
        with self._lock:
            self._untold.update(news)
            waiting = self._waiting
        if news and waiting is not None:
            loop, event = waiting
            with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                loop.call_soon_threadsafe(event.set)

    async def take(self) -> list[Observation]:
        """Wait until there is some, and take it; whoever is cancelled meanwhile has taken nothing."""
        event = asyncio.Event()
        with self._lock:
            self._waiting = (asyncio.get_running_loop(), event)
        while not (taken := self._take()):
            await event.wait()
            event.clear()
        return taken

    def _take(self) -> list[Observation]:
        with self._lock:
            taken, self._untold = self._untold, {}
        return list(taken.values())
