"""Which faults come when: a plan that is drawn from the seed before the storm begins.

Each kind has random numbers of its own, so that leaving one out, or single faults, leaves all others as they
are: that is how a plan is shrunk. Half of the kinds are left out of each storm, other ones for each seed:
together they hide what each alone brings about.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.storm import disk
from tests.storm.loop import in_life
from tests.storm.machines import LIES
from tests.storm.world import SLOTS, World

from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.fault_injection import Faults

PROCESSES = tuple(SLOTS)
SITES = tuple(site for sites in SLOTS.values() for site in sites)

KINDS: dict[str, float] = {
    "loss": 20, "late": 25, "doubled": 20, "cut": 30,
    "crash": 15, "dies-before-commit": 30, "dies-after-commit": 20,
    "disk-full": 40, "disk-read-only": 60, "disk-broken": 60, "disk-slow": 40,
    "clock": 30,
    "silent": 35, "deaf": 30, "lies": 25, "forgetful": 50, "slow-machines": 40, "bad-machines": 30,
    "machine-crash": 25, "node-death": 30, "node-cut": 40,
}  # fmt: skip
"""Every kind, and how many seconds lie between two of it on average."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what, where, from when on and for how long (s), and how bad (a number from 0 to 1)."""

    number: int
    kind: str
    place: str
    at_s: float
    for_s: float
    strength: float

    def __str__(self) -> str:
        return f"#{self.number} {self.kind} at {self.place} for {self.for_s:.1f} s ({self.strength:.2f})"


def plan(seed: int, storm_s: float, *, only: Collection[str] = (), without: Collection[str] = ()) -> list[Fault]:
    """Draw all faults of a storm that lasts so long."""
    swarm = Random(f"{seed} swarm")
    drawn = [kind for kind in KINDS if swarm.random() < 0.5]
    faults: list[Fault] = []
    for kind, pause_s in KINDS.items():
        rng = Random(f"{seed} {kind}")
        at_s = rng.expovariate(1 / pause_s)
        while at_s < storm_s:
            place = rng.choice(PROCESSES if _is_of_a_process(kind) else SITES)
            fault = Fault(0, kind, place, at_s, rng.expovariate(1 / 12), rng.random())
            faults += [fault] if (kind in only if only else kind in drawn) and kind not in without else []
            at_s += rng.expovariate(1 / pause_s)
    faults.sort(key=lambda fault: fault.at_s)
    return [replace(fault, number=number) for number, fault in enumerate(faults)]


def _is_of_a_process(kind: str) -> bool:
    return kind in {"cut", "crash", "clock"} or kind.startswith(("dies", "disk"))


class Storm:
    """Lets faults come and go in a world."""

    def __init__(self, world: World, faults: list[Fault]) -> None:
        self._world = world
        self._faults = faults

    async def run(self) -> None:
        """Let all of it pass, and end whatever has not ended by then."""
        async with asyncio.TaskGroup() as tasks:
            for fault in self._faults:
                tasks.create_task(self._pass(fault))

    async def _pass(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_s)
        self._world.trace(f"fault {fault}")
        self._world.reached(fault.kind)
        await getattr(self, f"_{fault.kind.replace('-', '_')}")(fault)

    def calm(self) -> None:
        """Nothing is wrong any more; clocks stay as wrong as they are, but they do not jump."""
        world = self._world
        weather = world.network.weather
        weather.lost, weather.doubled, weather.late_s, weather.cut = 0.0, 0.0, 0.02, frozenset()
        for process in world.processes.values():
            process.disk = type(process.disk)()
            process.start()
        for site in world.sites.values():
            site.set_faults(Faults())
            site.lies, site.lying, site.losing, site.forgetful = (), 0.0, 0.0, 0.0
            site.falls_silent("")

    # the network

    async def _loss(self, fault: Fault) -> None:
        self._world.network.weather.lost = 0.3 * fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.network.weather.lost = 0.0

    async def _late(self, fault: Fault) -> None:
        self._world.network.weather.late_s = 6 * fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.network.weather.late_s = 0.02

    async def _doubled(self, fault: Fault) -> None:
        self._world.network.weather.doubled = 0.5 * fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.network.weather.doubled = 0.0

    async def _cut(self, fault: Fault) -> None:
        weather = self._world.network.weather
        weather.cut |= {fault.place}
        await asyncio.sleep(fault.for_s * (8 if fault.strength > 0.8 else 1))
        weather.cut -= {fault.place}

    # processes

    async def _crash(self, fault: Fault) -> None:
        process = self._world.processes[fault.place]
        process.kill()
        self._world.loop.call_later(fault.for_s * fault.strength, process.start, context=in_life(None))

    async def _dies_before_commit(self, fault: Fault) -> None:
        self._world.processes[fault.place].disk.dies_before = 0.1 * fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.processes[fault.place].disk.dies_before = 0.0

    async def _dies_after_commit(self, fault: Fault) -> None:
        self._world.processes[fault.place].disk.dies_after = 0.1 * fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.processes[fault.place].disk.dies_after = 0.0

    async def _disk_full(self, fault: Fault) -> None:
        await self._disk(fault, disk.FULL, 1.0)

    async def _disk_read_only(self, fault: Fault) -> None:
        await self._disk(fault, disk.READ_ONLY, 1.0)

    async def _disk_broken(self, fault: Fault) -> None:
        await self._disk(fault, disk.BROKEN, fault.strength)

    async def _disk(self, fault: Fault, problem: str, failing: float) -> None:
        weather = self._world.processes[fault.place].disk
        weather.problem, weather.failing = problem, failing
        await asyncio.sleep(fault.for_s)
        weather.problem, weather.failing = "", 0.0

    async def _disk_slow(self, fault: Fault) -> None:
        self._world.processes[fault.place].disk.late_s = fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.processes[fault.place].disk.late_s = 0.0

    async def _clock(self, fault: Fault) -> None:
        """A clock jumps, forth or back, and stays so or is set right again."""
        process = self._world.processes[fault.place]
        jump_ms = round((fault.strength - 0.5) * 120_000)
        process.ahead_ms += jump_ms
        await asyncio.sleep(fault.for_s)
        if fault.strength > 0.25:
            process.ahead_ms -= jump_ms

    # sites and their machines

    async def _silent(self, fault: Fault) -> None:
        site = self._world.sites[fault.place]
        site.falls_silent("hang" if fault.strength > 0.5 else "cut")
        await asyncio.sleep(fault.for_s * (6 if 0.3 < fault.strength < 0.6 else 1))
        site.falls_silent("")

    async def _deaf(self, fault: Fault) -> None:
        self._world.sites[fault.place].losing = fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.sites[fault.place].losing = 0.0

    async def _lies(self, fault: Fault) -> None:
        site = self._world.sites[fault.place]
        rng = Random(f"{self._world.seed} lies {fault.number}")
        site.lies, site.lying = tuple(rng.sample(sorted(LIES), rng.randint(1, 3))), fault.strength
        await asyncio.sleep(fault.for_s)
        site.lies, site.lying = (), 0.0

    async def _forgetful(self, fault: Fault) -> None:
        self._world.sites[fault.place].forgetful = fault.strength
        await asyncio.sleep(fault.for_s)
        self._world.sites[fault.place].forgetful = 0.0

    async def _slow_machines(self, fault: Fault) -> None:
        late_ms = round(30_000 * fault.strength)
        await self._machines(fault, delay_ms=late_ms, observations_late_ms=late_ms // 3)

    async def _bad_machines(self, fault: Fault) -> None:
        some = fault.strength / 2
        await self._machines(
            fault, fail_orders=some, refuse_orders=some / 5, lose_memory=some, no_answer=some,
            lose_observations=some, repeat_observations=some, fail_jobs=some,
        )  # fmt: skip

    async def _machines(self, fault: Fault, **faults: Any) -> None:
        site = self._world.sites[fault.place]
        site.set_faults(replace(site.faults, seed=self._world.seed, **faults))
        await asyncio.sleep(fault.for_s)
        site.set_faults(Faults())

    async def _machine_crash(self, fault: Fault) -> None:
        site = self._world.sites[fault.place]
        held = [told.order.lease_id for told in site.told]
        if held:
            lost = held[-1 - int(fault.strength * min(len(held), 5))]
            await self._to_machines(fault, lambda machines: machines.crash(lost))

    async def _node_death(self, fault: Fault) -> None:
        node, for_ms = self._node(fault), round(fault.for_s * 1000)
        await self._to_machines(fault, lambda machines: machines.kill_node(node, for_ms))

    async def _node_cut(self, fault: Fault) -> None:
        node, for_ms = self._node(fault), round(fault.for_s * 1000)
        await self._to_machines(fault, lambda machines: machines.cut_off(node, for_ms))

    async def _to_machines(self, fault: Fault, act: Callable[[EmulatedDriver], Awaitable[None]]) -> None:
        """Do something to emulated machines; nothing can be done while they are in nobody's hands.

        Whoever has them may also die meanwhile, and with it the connection to their record.
        """
        site = self._world.sites[fault.place]
        process = self._world.processes[site.process]
        if not process.is_up:
            return
        assert site.machines is not None
        life = process.life
        try:
            await act(site.machines)
        except sqlite3.ProgrammingError:
            if life.alive:
                raise

    def _node(self, fault: Fault) -> str:
        return f"n{1 + int(fault.strength * self._world.sites[fault.place].slots)}"
