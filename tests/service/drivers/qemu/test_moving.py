"""Guests that are told to go, to rest and to go elsewhere before they have arrived lose nothing by it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.service.drivers.qemu.machines import counts_in, files, processes, setup, until

from leasehold.service.drivers.protocol import Order, Phase, Verb
from leasehold.service.drivers.qemu.driver import QemuDriver
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.machines

COUNT = ("sh", "-c", "n=0; while :; do n=$((n + 1)); echo COUNT $n; sleep 0.1; done")


@dataclass
class Sites:
    """Two sites, or three, and where the guest is that counts: at the site of that name."""

    folder: Path
    sites: dict[str, QemuDriver]
    at: str = "a"
    incarnation: int = 1
    said: int = field(default=0)

    async def do(self, site: str, *orders: Order) -> None:
        for told in orders:
            while problem := (await self.sites[site].carry_out([told])).get(told.id):
                assert problem.again, problem
                await asyncio.sleep(0.05)

    async def move(self, site: str) -> None:
        """Tell both sites, and wait for nothing."""
        await self.do(self.at, self._order(Verb.SEND, other_site=site))
        self.incarnation += 1
        await self.do(site, self._order(Verb.RECEIVE, other_site=self.at))
        self.at = site

    async def tell(self, verb: Verb) -> None:
        if verb is Verb.RESUME:
            self.incarnation += 1
        await self.do(self.at, self._order(verb))

    def _order(self, verb: Verb, other_site: str = "") -> Order:
        return order(verb, 1, self.incarnation, command=COUNT, other_site=other_site)

    async def until_is(self, phase: Phase) -> None:
        """Wait until it is so where it should be, and until nothing of it is anywhere else."""
        while True:
            seen = {name: await site.observe() for name, site in self.sites.items()}
            here = [one for one in seen.pop(self.at) if one.incarnation == self.incarnation]
            assert [one for one in here if one.phase is Phase.FAILED] == []
            if not any(seen.values()) and [one.phase for one in here] == [phase]:
                return
            await asyncio.sleep(0.02)

    async def counts_on(self) -> None:
        counts: list[int] = []
        while len(counts) <= self.said + 1:
            counts = counts_in(await self.sites[self.at].console(1))
            await asyncio.sleep(0.05)
        assert counts == list(range(1, len(counts) + 1))
        self.said = len(counts)

    async def is_only_there(self, machines: int) -> None:
        here = f"machines/{self.at}/"
        await until(lambda: all(name.startswith(here) for name in files(self.folder)))
        assert len(processes(self.folder)) == machines


@asynccontextmanager
async def counting(place: Path, image: Path, *names: str) -> AsyncIterator[Sites]:
    world = Sites(place, {name: QemuDriver(setup(place, name, image)) for name in names})
    try:
        async with asyncio.timeout(400):
            await world.tell(Verb.START)
            await world.until_is(Phase.RUNNING)
            await world.counts_on()
            yield world
            await world.do(world.at, order(Verb.STOP, 1, world.incarnation))
            await until(lambda: not files(place))
            assert processes(place) == []
    finally:
        for site in world.sites.values():
            await site.close()


def test_it_rests_as_soon_as_it_has_arrived(place: Path, image: Path) -> None:
    async def play() -> None:
        async with counting(place, image, "a", "b") as world:
            await world.move("b")
            await world.tell(Verb.SUSPEND)
            await world.until_is(Phase.SAVED)
            await world.is_only_there(machines=0)
            await world.tell(Verb.RESUME)
            await world.until_is(Phase.RUNNING)
            await world.counts_on()

    asyncio.run(play())


def test_it_moves_while_it_rests(place: Path, image: Path) -> None:
    async def play() -> None:
        async with counting(place, image, "a", "b") as world:
            await world.tell(Verb.SUSPEND)
            await world.until_is(Phase.SAVED)
            await world.move("b")
            await world.until_is(Phase.RUNNING)
            await world.is_only_there(machines=1)
            await world.counts_on()

    asyncio.run(play())


def test_it_is_sent_on_and_back_before_it_has_arrived(place: Path, image: Path) -> None:
    async def play() -> None:
        async with counting(place, image, "a", "b", "c") as world:
            for site in ("b", "c", "a", "b", "a"):
                await world.move(site)
            await world.until_is(Phase.RUNNING)
            await world.is_only_there(machines=1)
            await world.counts_on()

    asyncio.run(play())


def test_it_is_stopped_on_its_way(place: Path, image: Path) -> None:
    async def play() -> None:
        async with counting(place, image, "a", "b") as world:
            await world.move("b")

    asyncio.run(play())


def test_what_ends_on_its_way_has_ended_where_it_arrives(place: Path, image: Path) -> None:
    async def play() -> None:
        async with counting(place, image, "a", "b") as world:
            await world.do("a", order(Verb.START, 2, 1, command=("sleep", 1)))
            await world.do("a", order(Verb.SEND, 2, 1, other_site="b"))
            await world.do("b", order(Verb.RECEIVE, 2, 2, other_site="a"))
            ended: list[Phase] = []
            while ended != [Phase.ENDED]:
                ended = [one.phase for one in await world.sites["b"].observe() if one.lease_id == 2]
                await asyncio.sleep(0.05)
            await world.do("b", order(Verb.STOP, 2, 2))
            await world.counts_on()

    asyncio.run(play())
