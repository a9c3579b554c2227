"""Wakes what waits for the journal to grow."""

import asyncio


class Feed:
    """The ``seq`` of the last journal line that is in the store; for one event loop."""

    def __init__(self, last_seq: int = 0) -> None:
        self.last_seq = last_seq
        self._grown = asyncio.Event()

    def advance(self, last_seq: int) -> None:
        """Lines up to this one are in the store now."""
        if last_seq > self.last_seq:
            self.last_seq = last_seq
            self._grown.set()
            self._grown = asyncio.Event()

    async def wait(self, after_seq: int) -> None:
        """Return when there is a line later than this one; at once if there is."""
        while self.last_seq <= after_seq:
            await self._grown.wait()
