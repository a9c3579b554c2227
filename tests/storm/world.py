"""A federation in one thread: a gateway with two sites, a site with a manager of its own, a peer gateway, and a peer
of that peer.

Each is a process with a folder, a clock that may be wrong, and lives. In each life the shipped store,
federation and application are put together as `leasehold serve` does it, and whatever differs from run to
run is given to them: clock, chance, new names, the network. Nothing of the product is patched; of the
libraries below it, the thread pool of anyio is led to the event loop.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

import anyio.to_thread
import httpx2
import structlog
from tests.storm import disk
from tests.storm.loop import LIFE, Life, VirtualLoop, in_life
from tests.storm.machines import GROUND, KIND, Ground, Site
from tests.storm.network import Network, Wire

from leasehold.model.errors import LeaseholdError
from leasehold.service.api.app import create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.bootstrap_token import bootstrap_admin_token, read_token_file
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.tokens import Tokens
from leasehold.service.config import ServiceConfig
from leasehold.service.config_file import config_from_dict
from leasehold.service.errors import Unavailable
from leasehold.service.federation import Federation
from leasehold.service.messages.uplink import Uplink
from leasehold.service.metrics import Metrics
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.store import open_store
from leasehold.service.surroundings import Surroundings

BEGIN_MS = 1_800_000_000_000
PLUGIN = Path(__file__).with_name("plugin")
RATE = RateLimit(0)

SLOTS = {"home": {"north": 4, "south": 6}, "manager": {"far": 5}, "abroad": {"east": 6}, "overseas": {"west": 8}}
"""The processes, and the sites that each has."""

PEERS = (("home", "abroad"), ("abroad", "overseas"))
"""Who exchanges requests with whom: what only the last has room for goes there by the one in the middle."""


def configuration(process: str, policy: str) -> ServiceConfig:
    """Say what a process is told."""
    return config_from_dict(
        {
            "service": {"check_every_s": 5, "reconcile_every_s": 5, "metrics": "open"},
            "limits": {"requests_per_s": 0},
            "gateway": {"policy": policy, "try_elsewhere": True},
            "sharing": {"without_agreement": "allow"},
            "jobs": {"look_every_s": 5, "silent_after_s": 20, "retry_every_s": 5, "retry_for_s": 60},
            "defaults": {"non_preemptable_share": 0.5, "non_preemptable_max_s": 60},
            "cluster": [{"name": name, "slots": slots, "driver": KIND} for name, slots in SLOTS[process].items()],
        }
    )


@dataclass(slots=True)
class DiskWeather:
    """How bad a disk is: what commits fail with, how late they are, how often its process dies at one."""

    problem: str = ""
    failing: float = 0.0
    late_s: float = 0.0
    dies_before: float = 0.0
    dies_after: float = 0.0


class Process:
    """A gateway, or the manager of a site. ``ahead_ms`` is how wrong its clock is."""

    def __init__(self, world: "World", name: str, config: ServiceConfig) -> None:
        self.name = name
        self.folder = world.folder / name
        self.folder.mkdir()
        self.ahead_ms = 0
        self.disk = DiskWeather()
        self.app: Any = None
        self.up = asyncio.Event()
        self.uplink_token: asyncio.Future[str] = world.loop.create_future()
        self.life = Life(name, self.folder, 0, alive=False)
        self._world = world
        self._config = config

    def now_ms(self) -> int:
        return self._world.now_ms() + self.ahead_ms

    @property
    def is_up(self) -> bool:
        return self.app is not None

    def start(self) -> None:
        """Begin another life, if it is dead."""
        if self.life.alive:
            return
        self.life.let_go()
        self.life = Life(self.name, self.folder, self.life.number + 1)
        self._world.trace(f"{self.name} starts, life {self.life.number}")
        context = in_life(self.life)
        task = self._world.loop.create_task(self._live(), context=context)
        task.add_done_callback(partial(self._ended, self.life), context=in_life(None))

    def kill(self, why: str = "killed") -> None:
        """End this life between two callbacks, or in the middle of one."""
        if not self.life.alive:
            return
        self.life.alive = False
        self.app = None
        self._world.graveyard.append(self.life)
        self._world.reached(why)
        self._world.trace(f"{self.name} dies: {why}")
        self._world.network.break_off(self.life)

    async def _live(self) -> None:
        world, config = self._world, self._config
        store = open_store(f"sqlite:///{self.folder / 'leasehold.db'}")
        surroundings = Surroundings(self._random, self._new_id, lambda: Wire(world.network, self.name), forecasts=False)
        async with Federation.open(
            config, store, self.folder, self.now_ms, Metrics(), surroundings=surroundings
        ) as federation:
            bootstrap_admin_token(store, self.folder, self.now_ms())
            tokens = Tokens(store, self.now_ms)
            authenticator = Authenticator(tokens, Jwts((), self.now_ms), RATE, clock=world.loop.time)
            self.app = create_app(federation, authenticator, tokens, ApiSettings("0", rate=RATE))
            if self.name in world.managers:
                self.up.set()
                uplink_token = await self.uplink_token
                (site,) = SLOTS[self.name]
                wire = Wire(world.network, self.name)
                messages, files = federation.messages, federation.gateway_files
                status = federation.sites.own_status
                await Uplink(messages, files, status, "https://home", uplink_token, site=site, transport=wire).run()
            self.up.set()
            await asyncio.Event().wait()

    def _ended(self, life: Life, task: "asyncio.Task[None]") -> None:
        """A process may end by itself only where its disk fails while it starts; then it is started again."""
        if not life.alive or task.cancelled():
            return
        error, was_up = task.exception(), self.is_up
        self.kill("ended")
        if was_up or not (isinstance(error, LeaseholdError) and life.disk_failed):
            self._world.violated(f"{self.name} ended by itself: {error!r}")
        self._world.loop.call_later(5, self.start, context=in_life(None))

    def admin_token(self) -> str:
        return read_token_file(self.folder / "admin.token")

    def _random(self) -> Random:
        return Random(self._world.random("policy").getrandbits(64))

    def _new_id(self) -> str:
        return UUID(int=self._world.random("names").getrandbits(128)).hex


class World:
    """All of it, from one seed. ``folder`` is for the processes' files."""

    managers = frozenset({"manager"})

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self.loop = VirtualLoop(self._pause_s)
        self.events: list[str] = []
        self.violations: list[str] = []
        self.reach: dict[str, int] = {}
        self.graveyard: list[Life] = []
        self.lies_about_commits = 0.0
        """A mutation: how often a commit is undone that is said to have been made."""
        self._random: dict[str, Random] = {}
        self._digest = sha256()
        asyncio.set_event_loop(self.loop)
        sys.path.append(str(PLUGIN))  # as if it were installed
        self.sites = {
            name: Site(name, process, slots, self.random(f"site {name}"))
            for process, sites in SLOTS.items()
            for name, slots in sites.items()
        }
        GROUND.set(Ground(self.sites, self.now_ms, self.trace))
        policy = self.random("policy").choice(["pap-rtdp", "rr", "selective"])
        self.processes: dict[str, Process] = {}
        self.network = Network(self.random("network"), self.processes, self.trace)
        for name in SLOTS:
            self.processes[name] = Process(self, name, configuration(name, policy))

    def random(self, what: str) -> Random:
        """Give the stream of random numbers of one thing: what is switched off moves no other."""
        if what not in self._random:
            self._random[what] = Random(f"{self.seed} {what}")
        return self._random[what]

    def now_ms(self) -> int:
        """Tell the true time."""
        return BEGIN_MS + round(self.loop.time() * 1000)

    # what is to be known afterwards

    def trace(self, event: str) -> None:
        """Note what happened."""
        line = f"{self.loop.time():10.3f} {event}".replace(str(self.folder), "FOLDER")  # it differs each time
        self.events.append(line)
        self._digest.update(line.encode(errors="replace"))

    def violated(self, what: str) -> None:
        """Note that a promise was broken."""
        self.trace(f"VIOLATION: {what}")
        if len(self.violations) < 20:
            self.violations.append(f"at {self.loop.time():.1f} s: {what}")

    def reached(self, what: str) -> None:
        """Count how often the storm came to something."""
        self.reach[what] = self.reach.get(what, 0) + 1

    @property
    def digest(self) -> str:
        """Sum up all that happened."""
        return self._digest.hexdigest()[:16]

    # what the disks do

    def _pause_s(self, life: Life | None) -> float:
        late_s = 0.0 if life is None else self.processes[life.process].disk.late_s
        return self.random("threads").uniform(0.0001, 0.004 + late_s)

    def before_commit(self, life: Life) -> str:
        process, rng = self.processes[life.process], self.random("disk")
        if rng.random() < process.disk.dies_before:
            process.kill("died before a commit")
            self._start_later(process)
        elif process.disk.problem and rng.random() < process.disk.failing:
            life.disk_failed = True
            self.reached(process.disk.problem)
            self.trace(f"{process.name}: {process.disk.problem}")
            return process.disk.problem
        if self.lies_about_commits and process.is_up and rng.random() < self.lies_about_commits:
            return disk.UNDONE
        return ""

    def after_commit(self, life: Life) -> None:
        process, rng = self.processes[life.process], self.random("disk")
        if rng.random() < process.disk.dies_after:
            process.kill("died after a commit")
            self._start_later(process)

    def _start_later(self, process: Process) -> None:
        self.loop.call_later(self.random("disk").uniform(0.1, 8), process.start, context=in_life(None))

    def client(self, name: str, to: str, token: str) -> httpx2.AsyncClient:
        """Give somebody's way to a process."""
        return httpx2.AsyncClient(
            transport=Wire(self.network, name),
            base_url=f"https://{to}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Lead what is below the product to this world: threads, disks, plug-ins, the log."""

        async def in_thread(work: Callable[..., Any], *args: Any, **_: Any) -> Any:
            return await self.loop.run_in_executor(None, partial(work, *args))

        self.loop.set_exception_handler(self._unhandled)
        structlog.configure(processors=[self._logged])
        logging.disable(logging.CRITICAL)
        try:
            with (
                patch.object(anyio.to_thread, "run_sync", in_thread),
                disk.failing_disks(self.before_commit, self.after_commit),
            ):
                yield
        finally:
            logging.disable(logging.NOTSET)
            structlog.reset_defaults()

    def _logged(self, _logger: Any, level: str, event: MutableMapping[str, Any]) -> Any:
        """What is logged as an error is a defect, unless it is a disk that fails."""
        life = LIFE.get()
        if life is not None and life.alive:
            error = sys.exc_info()[1]
            self.trace(f"{life.process} says {level}: {event.get('event')} {error!r}"[:500])
            is_disk = life.disk_failed and isinstance(error, StoreUnavailable | Unavailable)
            if level in {"error", "exception", "critical"} and not is_disk:
                self.violated(f"{life.process} logs {event.get('event')!r}: {error!r}"[:600])
        raise structlog.DropEvent

    def _unhandled(self, _loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "never retrieved" not in context["message"]:
            self.violated(f"nobody caught: {context['message']} {error!r}"[:600])
