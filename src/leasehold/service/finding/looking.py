"""Looks at the nodes and images of one site, again and again; a site that says nothing is out of reach."""

import asyncio

from leasehold.service.commands import JobImagesSeen, JobNodesSeen, JobSiteSilent
from leasehold.service.config import JobsSpec
from leasehold.service.drivers.facts import Buildable, BuildsImages, HasNodes, NodeFacts
from leasehold.service.drivers.protocol import Driver
from leasehold.service.engine_thread import Clock
from leasehold.service.finding.asking import PAUSE_S, Asking, Do

NODE_BATCH = 500
"""The engine takes in no more nodes in one step."""

WHAT_CAN_BE_BUILT_EVERY_MS = 600_000
"""How often a site is asked what could be built: that may mean to fetch the lists of a repository."""


class Looking:
    """Looks at one site."""

    def __init__(self, site: str, driver: Driver, do: Do, clock: Clock, spec: JobsSpec) -> None:
        self._site = site
        self._driver = driver
        self._clock = clock
        self._spec = spec
        self._asking = Asking(site, do)
        self._soon = asyncio.Event()
        self._answered_ms = clock()
        self._is_silent = False
        self._buildable: Buildable | None = None
        self._asked_ms: int | None = None

    def look_soon(self) -> None:
        """What is known of the site has proved wrong."""
        self._soon.set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(min(PAUSE_S, self._spec.look_every_ms / 1000))
            try:
                async with asyncio.timeout(self._spec.look_every_ms / 1000):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()

    async def look(self) -> None:
        """Look once."""
        if isinstance(self._driver, HasNodes):
            asked_ms = self._clock()
            nodes = await self._asking.ask(self._driver.nodes())
            if nodes is None:
                await self._note_silence()
                return
            self._answered_ms, self._is_silent = self._clock(), False
            await self._tell(tuple(nodes), asked_ms)
        if isinstance(self._driver, BuildsImages):
            await self._look_at_images(self._driver)

    async def _tell(self, nodes: tuple[NodeFacts, ...], asked_ms: int) -> None:
        """Tell of the nodes, of very many a part at a time: requests come in between."""
        if len(nodes) <= NODE_BATCH:
            await self._asking.tell(JobNodesSeen(self._site, nodes, asked_ms))
            return
        names = frozenset(node.name for node in nodes)
        for first in range(0, len(nodes), NODE_BATCH):
            part = nodes[first : first + NODE_BATCH]
            if not await self._asking.tell(JobNodesSeen(self._site, part, asked_ms, names)):
                return  # all of them are told again at the next look

    async def _note_silence(self) -> None:
        silent_ms = self._clock() - self._answered_ms
        if self._is_silent or silent_ms < self._spec.silent_after_ms:
            return
        why = f"no answer for {silent_ms / 1000:.0f} s: {self._asking.problem}"
        self._is_silent = await self._asking.tell(JobSiteSilent(self._site, why))

    async def _look_at_images(self, driver: BuildsImages) -> None:
        images = await self._asking.ask(driver.images())
        if images is None:
            return
        now_ms = self._clock()
        if self._asked_ms is None or now_ms - self._asked_ms >= WHAT_CAN_BE_BUILT_EVERY_MS:
            self._buildable, self._asked_ms = await self._asking.ask(driver.buildable()), now_ms
        await self._asking.tell(JobImagesSeen(self._site, tuple(images), self._buildable))
