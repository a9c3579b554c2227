"""One storm: a seed, and what came of it."""

import asyncio
import gc
import shutil
import tempfile
import time
import traceback
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tests.storm.judge import Done, Judge, record_of
from tests.storm.mutants import MUTANTS
from tests.storm.people import Crowd
from tests.storm.weather import Fault, Storm, plan
from tests.storm.world import BEGIN_MS, SLOTS, World

STORM_S = 90.0
CALM_S = 3_600.0


@dataclass(slots=True)
class Outcome:
    """What came of one storm. ``digest`` sums up every event, ``reach`` says how often it came to what."""

    seed: int
    violations: list[str] = field(default_factory=list)
    digest: str = ""
    virtual_s: float = 0.0
    real_s: float = 0.0
    accepted: int = 0
    calls: int = 0
    lost: int = 0
    reach: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a storm is to be: ``keep`` names the faults of the plan that are left, None for all."""

    storm_s: float = STORM_S
    only: Collection[str] = ()
    without: Collection[str] = ()
    keep: frozenset[int] | None = None
    mutant: str = ""


def run(seed: int, terms: Terms) -> Outcome:
    """Let it storm, in a process that is used for nothing else: what is dead is never tidied up."""
    gc.disable()  # what is collected runs code of the dead
    memory = Path("/dev/shm")  # noqa: S108 - a store that is forced to no disk
    folder = Path(tempfile.mkdtemp(prefix="storm-", dir=memory if memory.is_dir() else None))
    began_s = time.monotonic()
    outcome = Outcome(seed)
    try:
        world = World(seed, folder)
        judge = Judge(world.violated, SLOTS, world.sites, BEGIN_MS)
        faults = plan(seed, terms.storm_s, only=terms.only, without=terms.without)
        outcome.faults = [fault for fault in faults if terms.keep is None or fault.number in terms.keep]
        with world.ready(), MUTANTS[terms.mutant](world) if terms.mutant else nullcontext():
            try:
                world.loop.run_until_complete(_story(world, judge, outcome.faults, terms.storm_s))
            except Exception as error:  # noqa: BLE001 - whatever it is, the seed has to be told
                where = "".join(traceback.format_exception(error))
                world.violated(f"the storm itself ended: {error!r}\n{where[-3000:]}")
        outcome.violations, outcome.digest, outcome.reach = world.violations, world.digest, world.reach
        outcome.virtual_s, outcome.events = world.loop.time(), world.events
        outcome.accepted, outcome.calls, outcome.lost = judge.accepted, judge.calls, world.network.lost
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.real_s = time.monotonic() - began_s
    return outcome


async def _story(world: World, judge: Judge, faults: list[Fault], storm_s: float) -> None:
    crowd = Crowd(world, judge)
    await crowd.settle_in()
    storm = Storm(world, faults)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(storm.run())
        tasks.create_task(crowd.live(world.loop.time() + storm_s))
    storm.calm()
    world.trace("calm")
    await asyncio.sleep(60)
    await crowd.go_home()
    await crowd.wait_for_all(CALM_S)
    await asyncio.sleep(60)
    await crowd.read_back()
    done: dict[str, dict[str, list[Done]]] = {}
    for name, process in world.processes.items():
        done[name] = {site: record_of(process.folder / "machines" / site / "emulated.sqlite3") for site in SLOTS[name]}
        judge.machines(name, {site: (world.sites[site], lines) for site, lines in done[name].items()})
    judge.everywhere(done)
    world.reach |= judge.reached()
