"""Which nodes does the site have, and what can they do? Put together from whoever knows something of it."""

import shlex
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.probing.modules import modules_in, read_avail
from leasehold.service.drivers.setup import Clock
from leasehold.service.drivers.slurm.commands import Slurm
from leasehold.service.drivers.slurm.features import software_of
from leasehold.service.drivers.slurm.job import Job
from leasehold.service.drivers.slurm.knocking import Knocking
from leasehold.service.drivers.slurm.native_queue import concerning
from leasehold.service.drivers.slurm.node import Node, trouble_of
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.probes import Probes
from leasehold.service.drivers.slurm.steward import Steward

Software = frozenset[tuple[str, str]]

_MODULES_KEPT_MS = 600_000


class NodeFinder:
    """Looks at the nodes of one site. To be used from one thread at a time."""

    def __init__(self, slurm: Slurm, steward: Steward, probes: Probes, modules: "Modules") -> None:
        self._slurm = slurm
        self._steward = steward
        self._probes = probes
        self._modules = modules
        self._together: dict[tuple[Software, ...], Software] = {}

    def nodes(self) -> list[NodeFacts]:
        """Look at all nodes; raises SlurmSilent."""
        nodes = concerning(self._slurm.nodes(), self._modules.options)
        jobs = {job.id: job for job in self._slurm.jobs()}
        self._probes.look(nodes.values(), jobs.values(), self._steward.doubted)
        taken_mib, knocking = self._memory_of_guests(jobs), Knocking()
        self._modules.look()
        known, self._together = self._together, {}
        return [self._facts(node, taken_mib[node.name], knocking, known) for node in nodes.values()]

    def _memory_of_guests(self, jobs: Mapping[int, Job]) -> Counter[str]:
        """Say how much of each node's memory guests hold, also those whose processes are stopped."""
        taken_mib: Counter[str] = Counter()
        for holding in self._steward.here.values():
            job = jobs.get(holding.job_id or 0)
            if job is not None and job.is_live:
                cpus_per_vm = holding.cores or self._modules.options.cpus_per_vm
                for node, cpus in job.cpus_by_node.items():
                    taken_mib[node] += holding.memory_mib * -(-cpus // cpus_per_vm)
        return taken_mib

    def _facts(
        self, node: Node, guests_mib: int, knocking: Knocking, known: Mapping[tuple[Software, ...], Software]
    ) -> NodeFacts:
        doubted_ms = self._steward.doubted.get(node.name, 0)
        report, unknown = self._probes.found(node, doubted_ms), self._probes.unknown(node, doubted_ms)
        trouble = trouble_of(node, refuses=knocking.refuses(node))
        installed = report.software if report else frozenset()
        disk_mib = node.disk_mib or (report.disk_mib if report else 0)
        return NodeFacts(
            name=node.name,
            cores=node.cpus,
            memory_mib=node.memory_mib,
            disk_mib=disk_mib,
            free_cores=node.free_cpus,
            free_memory_mib=max(0, node.memory_mib - max(node.given_memory_mib, guests_mib)),
            free_disk_mib=min(disk_mib, report.free_disk_mib) if report else disk_mib,
            cpu_mhz=report.cpu_mhz if report else 0,
            software=self._all_of((installed, self._modules.found, software_of(node.features)), known),
            problem=trouble.text if trouble else "",
            fault=trouble.fault.value if trouble and trouble.fault else "",
            unknown="; ".join(filter(None, (unknown, self._modules.unknown))),
        )

    def _all_of(self, parts: tuple[Software, ...], known: Mapping[tuple[Software, ...], Software]) -> Software:
        """Put software together: once for all nodes that have the same, and again only when it changes."""
        found = self._together.get(parts) or known.get(parts) or frozenset[tuple[str, str]]().union(*parts)
        self._together[parts] = found
        return found


class Modules:
    """The environment modules that all nodes have, read again now and then.

    ``found``    what is there
    ``unknown``  what could not be read, one line
    """

    def __init__(self, options: SlurmOptions, clock: Clock) -> None:
        self.options = options
        self.found: Software = frozenset()
        self.unknown = ""
        self._clock = clock
        self._read_ms: int | None = None

    def look(self) -> None:
        """Read them again, where it is time."""
        if self._read_ms is None or self._clock() - self._read_ms >= _MODULES_KEPT_MS:
            self._read_ms = self._clock()
            read = [_from_folder(Path(folder)) for folder in self.options.modules]
            if self.options.modules_command:
                read.append(_from_command(self.options.modules_command, self.options.answer_within_ms))
            self.found = frozenset[tuple[str, str]]().union(*(software for software, _ in read))
            self.unknown = "; ".join(_told(why for _, why in read))


def _told(words: Iterable[str]) -> list[str]:
    return [word for word in words if word]


def _from_folder(folder: Path) -> tuple[Software, str]:
    try:
        return modules_in(folder), ""
    except OSError as error:
        return frozenset(), f"its modules: {folder} cannot be read: {error.strerror}"


def _from_command(command: str, within_ms: int) -> tuple[Software, str]:
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
        return frozenset(), f"its modules: {error}"
    if done.returncode:
        return frozenset(), f"its modules: {command} ended with status {done.returncode}"
    return frozenset(read_avail([*done.stdout.splitlines(), *done.stderr.splitlines()])), ""
