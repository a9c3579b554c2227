"""The wire between a gateway and an emulated site: it may be silent, and news may be lost, doubled or late.

All of this is about what is told. Whoever looks, with `observe`, sees what is there.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from random import Random

from leasehold.service.drivers.emulated.faults import Faults
from leasehold.service.drivers.protocol import Observation

_MOST_UNTOLD = 100_000
"""So much news is kept for somebody who does not listen; a survey tells what the older ones would."""


class Line:
    """The wire to one site. The rates in ``faults`` may be changed at any time."""

    def __init__(self, faults: Faults, site: str) -> None:
        """Begin connected."""
        self.faults = faults
        self._site = site
        self._luck = Random(repr((faults.seed, site, "line")))
        self._untold: deque[tuple[int, Observation]] = deque(maxlen=_MOST_UNTOLD)
        self._cut = False
        self._connected = asyncio.Event()
        self._connected.set()

    # on demand

    def cut(self) -> None:
        """From now on, whoever asks gets an error."""
        self._cut = True

    def hang(self) -> None:
        """From now on, whoever asks gets no answer until the line is mended."""
        self._connected.clear()

    def mend(self) -> None:
        """Answer again, those who wait first."""
        self._cut = False
        self._connected.set()

    # what passes

    async def reach(self) -> None:
        """Get through to the site; raises ConnectionError where the line is cut."""
        await self._connected.wait()
        if self._cut or self._happens(self.faults.no_answer):
            raise ConnectionError(f"emulated fault: site {self._site} does not answer")

    def send(self, news: Iterable[Observation], now_ms: int) -> None:
        """Put news on its way."""
        arrives_ms = now_ms + self.faults.observations_late_ms
        for one in news:
            if not self._happens(self.faults.lose_observations):
                self._untold.append((arrives_ms, one))
                if self._happens(self.faults.repeat_observations):
                    self._untold.append((arrives_ms, one))

    def receive(self, now_ms: int) -> list[Observation]:
        """Take the news that has arrived, in the order in which it was sent."""
        arrived: list[Observation] = []
        while self._untold and self._untold[0][0] <= now_ms:
            arrived.append(self._untold.popleft()[1])
        return arrived

    def next_arrival_ms(self) -> int | None:
        """When the next news arrives that is on its way."""
        return self._untold[0][0] if self._untold else None

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._luck.random() < probability
