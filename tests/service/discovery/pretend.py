"""Machines that do nothing but say that they do, with nodes, images and outputs as a test wants them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.service.api.house import PATIENCE_S, now_ms

from leasehold.model.errors import LeaseholdError
from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Observation, Order, Phase, Problem, Verb
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import Store

KIND = "pretend"
BASE = ImageFacts(name="base", software=frozenset({("python3", "3.11")}), size_bytes=1 << 20, least_memory_mib=128)
NODE = NodeFacts(
    name="n1",
    cores=4,
    memory_mib=4096,
    disk_mib=9999,
    free_cores=4,
    free_memory_mib=4096,
    free_disk_mib=9999,
    software=frozenset({("python3", "3.11")}),
)
WAITS = ("wait",)
"""A command that ends when a test says so; any other has ended at once, and has written itself."""


@dataclass
class Pretence:
    """What the machines of one site are to say.

    ``silent``   whether they do not answer
    ``unread``   how often an output cannot be fetched before it can
    ``recipe``   what could be built, None for nothing; ``flaw`` why that fails, "" where it does not
    """

    there: list[NodeFacts] = field(default_factory=lambda: [NODE])
    known: list[ImageFacts] = field(default_factory=list)
    recipe: Buildable | None = None
    flaw: str = ""
    silent: bool = False
    unread: int = 0
    looks: int = 0
    built: list[frozenset[tuple[str, str]]] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    seen: dict[int, Observation] = field(default_factory=dict)
    outputs: dict[int, str] = field(default_factory=dict)
    changed: asyncio.Queue[Observation] = field(default_factory=asyncio.Queue)

    def say(self, lease_id: int, phase: Phase, **said: Any) -> None:
        """The machines of a lease are so from now on."""
        before = self.seen[lease_id]
        self.seen[lease_id] = replace(before, phase=phase, since_ms=now_ms(), **said)
        self.changed.put_nowait(self.seen[lease_id])

    def end(self, lease_id: int, text: str, exit_status: int = 0) -> None:
        """The command of a lease ends."""
        self.outputs[lease_id] = text
        self.say(lease_id, Phase.ENDED, exit_status=exit_status)


class PretendDriver:
    """A driver without machines."""

    def __init__(self, pretence: Pretence) -> None:
        self.pretence = pretence
        pretence.changed = asyncio.Queue()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        for order in orders:
            self.pretence.orders.append(order)
            if order.verb is Verb.START:
                self._start(order)
            elif order.verb is Verb.STOP:
                self.pretence.seen.pop(order.lease_id, None)
        return {}

    def _start(self, order: Order) -> None:
        there = Observation(order.lease_id, order.incarnation, Phase.RUNNING, now_ms())
        self.pretence.seen[order.lease_id] = there
        self.pretence.changed.put_nowait(there)
        if order.command != WAITS:
            self.pretence.end(order.lease_id, " ".join(order.command))

    async def observe(self) -> list[Observation]:
        return list(self.pretence.seen.values())

    async def changes(self) -> list[Observation]:
        return [await self.pretence.changed.get()]

    async def console(self, lease_id: int) -> str:
        return f"login: {self.pretence.outputs.get(lease_id, '')}"

    async def close(self) -> None:
        """Nothing is open."""


class WithNodes(PretendDriver):
    """One with nodes and outputs."""

    async def nodes(self) -> list[NodeFacts]:
        self.pretence.looks += 1
        if self.pretence.silent:
            raise ConnectionError("no route to host")
        return list(self.pretence.there)

    async def output(self, lease_id: int) -> Output:
        if self.pretence.unread:
            self.pretence.unread -= 1
            raise ConnectionError("reset by peer")
        return Output(self.pretence.outputs.get(lease_id, ""))


class WithImages(WithNodes):
    """One whose machines boot from images, too."""

    async def images(self) -> list[ImageFacts]:
        return list(self.pretence.known)

    async def buildable(self) -> Buildable | None:
        return self.pretence.recipe

    async def build(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        self.pretence.built.append(packages)
        if self.pretence.flaw:
            raise LeaseholdError(self.pretence.flaw)
        name = "+".join(["base", *sorted(name for name, _ in packages)])
        image = replace(BASE, name=name, software=BASE.software | packages)
        self.pretence.known.append(image)
        return image


def factory(
    pretences: dict[str, Pretence], kind: type[PretendDriver] = WithNodes
) -> Callable[[DriverSetup], PretendDriver]:
    """Make the driver of each site with what it is to say."""
    return lambda setup: kind(pretences[setup.site])


@asynccontextmanager
async def federation(
    store: Store, folder: Path, *sites: str, jobs: JobsSpec | None = None, clock: Callable[[], int] = now_ms
) -> AsyncIterator[Federation]:
    """A federation of such sites, looked at four times a second."""
    config = ServiceConfig(
        clusters=tuple(SiteSpec(site, 4, driver=KIND) for site in sites),
        jobs=jobs or JobsSpec(look_every_ms=250),
    )
    async with Federation.open(config, store, folder, clock, Metrics()) as opened:
        yield opened


async def until(federation: Federation, is_so: Callable[[], bool]) -> None:
    """Wait until something is so, and look whenever there is news; the test fails where it never is."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            with suppress(TimeoutError):  # machines and nodes change without a line in the journal
                async with asyncio.timeout(0.05):
                    await federation.feed.wait(federation.feed.last_seq)
