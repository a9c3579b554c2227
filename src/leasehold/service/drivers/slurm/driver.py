"""The driver of a Slurm site: its commands are run in a thread of its own, one after the other."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, NativeJob, Observation, Order, Problem
from leasehold.service.drivers.reconciler.store import InstanceStore
from leasehold.service.drivers.slurm.commands import Slurm
from leasehold.service.drivers.slurm.discovery import Modules, NodeDiscovery
from leasehold.service.drivers.slurm.instance import JobInstance
from leasehold.service.drivers.slurm.job_directory import JobDirectories, make_job_folder
from leasehold.service.drivers.slurm.options import SlurmOptions, read_options
from leasehold.service.drivers.slurm.probes import PROBES, Probes
from leasehold.service.drivers.slurm.queue import NativeQueue, site_nodes
from leasehold.service.drivers.slurm.reconciler import JobReconciler
from leasehold.service.drivers.slurm.users import JobUsers, check_site

_QUEUE_KEPT_S = 30.0

Result = TypeVar("Result")


class SlurmDriver:
    """Leases as jobs of one Slurm cluster, beside those of its own users.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store that cannot be used.
    """

    def __init__(self, setup: DriverSetup) -> None:
        self._options = options = read_options(setup.options)
        self._slots = setup.slots
        check_site(setup.site, options, (*setup.private, setup.folder))
        folder = _made_job_folder(setup.site, options) / setup.site
        self._store = InstanceStore(setup.folder, JobInstance, "Slurm jobs")
        self._directories = JobDirectories(folder)
        self._slurm = slurm = Slurm(options)
        self._reconciler = JobReconciler(slurm, self._store, self._directories, options, setup.slots, setup.clock)
        prober = JobUsers(options).default
        probes = Probes(slurm, folder / PROBES, self._store.identity, options, prober, setup.clock)
        self._discovery = NodeDiscovery(probes, Modules(options, setup.clock))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"slurm-{setup.site}")
        self._reported: dict[int, Observation] = {}
        self._has_orders = asyncio.Event()
        self._queue: NativeQueue | None = None
        self._queue_until_s = 0.0

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        return self._reconciler.capabilities

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence."""
        try:
            return await self._in_turn(self._reconciler.carry_out, orders)
        finally:
            self._has_orders.set()

    async def observe(self) -> list[Observation]:
        """Observe everything that is there, now; raises ConnectionError where Slurm does not answer."""
        return await self._in_turn(self._reconciler.observe)

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and return it; raises ConnectionError where Slurm does not answer."""
        while True:
            self._has_orders.clear()
            seen = {one.lease_id: one for one in await self.observe()}
            news = [one for one in seen.values() if self._reported.get(one.lease_id) != one]
            self._reported = seen
            if news:
                return news
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.look_every_ms / 1000):
                    await self._has_orders.wait()

    async def console(self, lease_id: int) -> str:
        """Return the end of what a lease's job has written; empty where there is nothing."""
        return await self._in_turn(lambda: self._directories.last_of(lease_id).console())

    async def output(self, lease_id: int) -> Output:
        """Return what a lease's command has written; also of the last few hundred leases that are over."""
        return await self._in_turn(lambda: self._directories.last_of(lease_id).output())

    async def nodes(self) -> list[NodeFacts]:
        """Observe all nodes that the site is about; raises ConnectionError where Slurm does not answer."""
        return await self._in_turn(self._nodes)

    async def native_jobs(self) -> list[NativeJob]:
        """List the jobs of the site's own users that run, or wait for nothing but room, in their order.

        Raises ConnectionError where Slurm does not answer.
        """
        return await self._in_turn(lambda: self._native_queue().of(self._reconciler.native_jobs()))

    async def close(self) -> None:
        """Close; the jobs keep running."""
        await self._in_turn(self._store.close)
        self._thread.shutdown()

    def _nodes(self) -> list[NodeFacts]:
        nodes, jobs = site_nodes(self._slurm.nodes(), self._options), self._slurm.jobs()
        guests_mib = self._reconciler.memory_of_guests(jobs)
        return self._discovery.describe(nodes, jobs, guests_mib, self._reconciler.suspect_since_ms)

    def _native_queue(self) -> NativeQueue:
        """Query nodes and partitions once in a while: they seldom change, and the queue is read often."""
        now_s = time.monotonic()
        if self._queue is None or now_s > self._queue_until_s:
            nodes, limits = self._slurm.nodes(), self._slurm.time_limits()
            self._queue = NativeQueue(site_nodes(nodes, self._options), limits, self._options, self._slots)
            self._queue_until_s = now_s + _QUEUE_KEPT_S
        return self._queue

    async def _in_turn(self, work: Callable[..., Result], *details: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *details)


def _made_job_folder(site: str, options: SlurmOptions) -> Path:
    """Make the folder of all jobs before any runs: beside it, guests may be able to make folders, too."""
    folder = Path(options.job_folder).resolve()
    try:
        make_job_folder(folder)
    except OSError as error:
        expected = f"a folder that can be made: {error.strerror}"
        raise InvalidField(f"cluster {site}: slurm.job_folder", str(folder), expected) from error
    return folder
