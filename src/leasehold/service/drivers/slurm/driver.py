"""The driver of a Slurm site: its commands are run in a thread of its own, one after the other."""

import asyncio
import re
import shlex
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from leasehold.jobs.job import Fault
from leasehold.matching.devices import Devices
from leasehold.model.errors import InvalidField
from leasehold.model.request import GPU_MILLI
from leasehold.model.resources import NodeResources
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, Clock, DriverSetup, NativeJob, Observation, Order, Problem
from leasehold.service.drivers.reconciler.store import InstanceStore
from leasehold.service.drivers.slurm.cluster import NO_GPUS, Gpus, Job, Node
from leasehold.service.drivers.slurm.commands import Slurm
from leasehold.service.drivers.slurm.instance import JobInstance
from leasehold.service.drivers.slurm.job_directory import JobDirectories, make_job_folder
from leasehold.service.drivers.slurm.options import OnSuspend, SlurmOptions, read_options
from leasehold.service.drivers.slurm.probes import PROBES, Probes, Software, modules_in, read_avail
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
        self._slots, self._by_nodes = setup.slots, bool(setup.nodes)
        if setup.nodes and options.suspend is OnSuspend.PAUSE:
            expected = "requeue or none where a site is planned by nodes: a paused job keeps its nodes and GPUs"
            raise InvalidField(f"cluster {setup.site}: slurm.suspend", options.suspend.value, expected)
        check_site(setup.site, options, (*setup.private, setup.folder))
        folder = _made_job_folder(setup.site, options) / setup.site
        self._store = InstanceStore(setup.folder, JobInstance, "Slurm jobs")
        self._directories = JobDirectories(folder)
        self._slurm = slurm = Slurm(options)
        self._reconciler = JobReconciler(slurm, self._store, self._directories, options, setup.slots, setup.clock)
        prober = JobUsers(options).default
        probes = Probes(slurm, folder / PROBES, self._store.identity, options, prober, setup.clock)
        self._discovery = NodeDiscovery(probes, Modules(options, setup.clock), options.cpus_per_vm, setup.nodes)
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

    async def notify(self, order: Order, until_ms: int) -> None:
        """Tell a guest by a file, and by a signal if it asked for one; raises where Slurm does not answer."""
        await self._in_turn(self._reconciler.notify, order, until_ms)

    @property
    def input_folder(self) -> Path:
        """Where inputs are brought to."""
        return self._directories.inputs

    async def output_files(self, lease_id: int) -> dict[str, Path | str]:
        """Give the files to be kept that a lease's command has left."""
        return await self._in_turn(lambda: self._directories.last_of(lease_id).output_files())

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
            self._queue = NativeQueue(
                site_nodes(nodes, self._options), limits, self._options, self._slots, self._by_nodes
            )
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


_MODULES_KEPT_MS = 600_000


class NodeDiscovery:
    """Puts together what Slurm, its operator (by features and modules) and probes say of nodes.

    To be used from one thread at a time.

    Software is put together once for all nodes that have the same, and again only when it changes.
    """

    def __init__(
        self, probes: Probes, modules: "Modules", vm_cores: int, planned: Iterable[NodeResources] = ()
    ) -> None:
        """Take the sources; a site that is ``planned`` by nodes has these alone, and lends their GPUs."""
        self._probes = probes
        self._vm_cores = vm_cores
        self._planned = {node.name: node for node in planned}
        self._modules = modules
        self._unions: dict[tuple[Software, ...], Software] = {}

    def describe(
        self,
        nodes: Mapping[str, Node],
        jobs: Collection[Job],
        guests_mib: Counter[str],
        suspect_since_ms: Mapping[str, int],
    ) -> list[NodeFacts]:
        """Describe nodes, and probe those where it is time.

        ``guests_mib``        how much of each node's memory guests hold, also those whose processes are stopped
        ``suspect_since_ms``  since when the report of a node is known to be wrong
        """
        if self._planned:
            nodes = {name: node for name, node in nodes.items() if name in self._planned}
        self._probes.look(nodes.values(), jobs, suspect_since_ms)
        self._modules.refresh()
        known, self._unions = self._unions, {}
        gpus_in_use = _gpus_in_use(jobs) if self._planned else Counter()
        facts, ping = [], NodePing()
        for node in nodes.values():
            report, unknown = self._probes.report(node, suspect_since_ms.get(node.name, 0))
            parts = (report.software if report else frozenset(), self._modules.found, software_of(node.features))
            software = self._unions.get(parts) or known.get(parts) or frozenset[tuple[str, str]]().union(*parts)
            self._unions[parts] = software
            problem = problem_of(node, refuses=ping.is_refused_by(node))
            disk_mib = node.disk_mib or (report.disk_mib if report else 0)
            gpus = gpus_lent(node.gpus, self._planned.get(node.name))
            one = NodeFacts(
                name=node.name,
                cores=node.cpus,
                memory_mib=node.memory_mib,
                disk_mib=disk_mib,
                free_cores=node.free_cpus,
                free_memory_mib=max(0, node.memory_mib - max(node.allocated_memory_mib, guests_mib[node.name])),
                free_disk_mib=min(disk_mib, report.free_disk_mib) if report else disk_mib,
                cpu_mhz=report.cpu_mhz if report else 0,
                software=software,
                problem=problem.text if problem else "",
                fault=problem.fault.value if problem and problem.fault else "",
                vm_cores=self._vm_cores,
                comes_up=bool(problem and problem.comes_up),
                unknown="; ".join(filter(None, (unknown, self._modules.unknown))),
                gpu_model=gpus.model,
                gpus=gpus.count,
                gpu_shares=0,
                free_gpus=_free_gpus(gpus.count, node.gpus.count - gpus_in_use[node.name]),
            )
            facts.append(one)
        return facts


def gpus_lent(there: Gpus, planned: NodeResources | None) -> Gpus:
    """Give the GPUs of a node that jobs can have: those that both Slurm and the plan of the site know, of one model."""
    if planned is None or there.model != planned.gpu_model or not min(there.count, planned.gpus):
        return NO_GPUS
    return Gpus(planned.gpu_model, min(there.count, planned.gpus))


def _free_gpus(lent: int, unused: int) -> Devices:
    """Say of each GPU that is lent whether it is free."""
    free = max(0, min(lent, unused))
    return (GPU_MILLI,) * free + (0,) * (lent - free)


def _gpus_in_use(jobs: Iterable[Job]) -> Counter[str]:
    """Count the GPUs that jobs have, by node."""
    in_use: Counter[str] = Counter()
    for job in filter(attrgetter("is_live"), jobs):
        in_use.update({name: gpus.count for name, gpus in job.gpus_by_node.items()})
    return in_use


# --- software by features and modules -----------------------------------------------------------------------

_VERSIONED = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)[=/]v?(?P<version>\d[\w.+~:-]*)")
_HYPHENED = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)-(?P<version>\d[\w.]*)")


def software_of(features: Iterable[str]) -> Software:
    """Read the features of a node as software.

    ``gcc-12.2``, ``gcc=12.2`` and ``gcc/12.2`` are gcc in version 12.2; a feature of another form, as ``avx2``, is a
    name of which no version is known.
    """
    read = ((text, _VERSIONED.fullmatch(text) or _HYPHENED.fullmatch(text)) for text in features)
    return frozenset((found["name"].lower(), found["version"]) if found else (text.lower(), "") for text, found in read)


class Modules:
    """The environment modules that all nodes have, read again now and then.

    ``found``    what is there
    ``unknown``  what could not be read, one line
    """

    def __init__(self, options: SlurmOptions, clock: Clock) -> None:
        self.found: Software = frozenset()
        self.unknown = ""
        self._options = options
        self._clock = clock
        self._read_ms: int | None = None

    def refresh(self) -> None:
        """Read them again, where it is time."""
        if self._read_ms is None or self._clock() - self._read_ms >= _MODULES_KEPT_MS:
            self._read_ms = self._clock()
            read = [_modules_of_folder(Path(folder)) for folder in self._options.modules]
            if self._options.modules_command:
                read.append(_modules_of_command(self._options.modules_command, self._options.answer_within_ms))
            self.found = frozenset[tuple[str, str]]().union(*(software for software, _ in read))
            self.unknown = "; ".join(f"its modules: {why}" for _, why in read if why)


def _modules_of_folder(folder: Path) -> tuple[Software, str]:
    try:
        return modules_in(folder), ""
    except OSError as error:
        return frozenset(), f"{folder} cannot be read: {error.strerror}"


def _modules_of_command(command: str, within_ms: int) -> tuple[Software, str]:
    """Run a command such as ``bash -lc 'module -t avail'``, which lists modules on either of its outputs."""
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_ms / 1000,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return frozenset(), str(error)
    if done.returncode:
        return frozenset(), f"{command} ended with status {done.returncode}"
    return frozenset(read_avail([*done.stdout.splitlines(), *done.stderr.splitlines()])), ""


# --- problems -----------------------------------------------------------------------------------------------

_CLOSED = {
    "is drained": {"DRAIN", "DRAINED", "DRAINING"},
    "is marked as failing": {"FAIL", "FAILING"},
    "is under maintenance": {"MAINT", "MAINTENANCE"},
    "is reserved": {"RESERVED"},
    "is not what Slurm's configuration says": {"INVALID_REG"},
    "is blocked by a job that has other nodes to itself": {"BLOCKED"},
    "is about to be restarted": {"REBOOT_ISSUED", "REBOOT_REQUESTED"},
    "is powered down": {"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"},
    "is not there yet": {"FUTURE"},
    "has not reported its state yet": {"UNKNOWN"},
}
"""Flags of a node on which nothing new starts, while running jobs continue."""

_COMES_UP = "is powered down"
"""What Slurm itself ends as soon as it starts a job there."""


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """Why nothing new can run on a node now, and the fault for jobs that ran there; None: they continue.

    ``comes_up``  whether Slurm powers it up for a job
    """

    text: str
    fault: Fault | None = None
    comes_up: bool = False


def problem_of(node: Node, *, refuses: bool = False) -> NodeProblem | None:
    """Say what is wrong with a node, as far as Slurm and its own port tell; None where nothing is.

    ``refuses``: the node refuses connections to its slurmd. Then it is neither the network nor the node that
    failed, but slurmd.
    """
    why = f": {node.reason}" if node.reason else ""
    if "DOWN" in node.flags or "ERROR" in node.flags:
        # Slurm has given its jobs up; a node that was only set down still works.
        has_died = "unexpectedly rebooted" in node.reason or (node.is_unresponsive and not refuses)
        return NodeProblem(f"Slurm: the node is down{why}", Fault.NODE_DIED if has_died else Fault.SERVICE_STOPPED)
    if node.is_unresponsive:
        fault = Fault.SERVICE_STOPPED if refuses else Fault.NETWORK_FAILED
        return NodeProblem(f"Slurm: the node does not answer{why}", fault)
    closed = [text for flag in node.flags for text, flags in _CLOSED.items() if flag in flags]
    if not closed:
        return None
    return NodeProblem(f"Slurm: the node {closed[0]}{why}", comes_up=set(closed) == {_COMES_UP})


class NodePing:
    """Tells a dead slurmd from a dead node: only a live node refuses a connection.

    When too many nodes do not answer, the rest of one look is not pinged any more.
    """

    _EACH_S = 0.3
    _ALL_S = 2.0

    def __init__(self) -> None:
        self._until_s = time.monotonic() + self._ALL_S

    def is_refused_by(self, node: Node) -> bool:
        """Whether an unresponsive node is up, and refuses connections to its slurmd."""
        if not node.is_unresponsive or not node.port or time.monotonic() > self._until_s:
            return False
        try:
            socket.create_connection((node.address, node.port), self._EACH_S).close()
        except OSError as error:
            return isinstance(error, ConnectionRefusedError)
        return False
