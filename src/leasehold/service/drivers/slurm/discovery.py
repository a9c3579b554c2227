"""Discovery of nodes: what Slurm says of them, the modules that all have, and probes.

A probe is a small job that looks at a node: what is installed there, how fast it is, what is free on its disk. It
runs on one CPU of a node that has one free, for a second or two. One that does not start soon is cancelled, and
tried again later; so is one that another gateway has left. Reports are kept as files, so that they outlive a
restart; one that was made before its node was started, or before it proved wrong, does not count any more, and one
that is old is renewed.
"""

import shlex
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.probing.modules import modules_in, read_avail
from leasehold.service.drivers.probing.report import BadReport, Report, read_report
from leasehold.service.drivers.probing.script import PROBE
from leasehold.service.drivers.setup import Clock
from leasehold.service.drivers.slurm.commands import Slurm, SlurmRefused, SlurmUnavailable, Step
from leasehold.service.drivers.slurm.job import Job, JobState
from leasehold.service.drivers.slurm.job_directory import WORK, UntrustedFile, make_work_folder, read_tail
from leasehold.service.drivers.slurm.node import Node, NodePing, problem_of, software_of
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.snapshot import probe_comment, probed_by
from leasehold.service.drivers.slurm.users import JobUser

PROBES = "probes"
"""The name of the folder of their reports."""

_MODULES_KEPT_MS = 600_000
_AT_ONCE = 8
_STARTS_WITHIN_MS = 30_000
_RETRIED_AFTER_MS = 300_000
_REPORT_BYTES = 8 * 1024 * 1024
_NS_PER_MS = 1_000_000

_SCRIPT = """\
#!/bin/sh
# Written by Leasehold: looks at what is installed on a node, and changes nothing.
cd {folder} || exit
{{
{probe}}} > "$SLURMD_NODENAME.partial" 2> /dev/null
mv "$SLURMD_NODENAME.partial" "$SLURMD_NODENAME"
"""

Software = frozenset[tuple[str, str]]


class NodeDiscovery:
    """Puts together what is known of nodes. To be used from one thread at a time.

    Software is put together once for all nodes that have the same, and again only when it changes.
    """

    def __init__(self, probes: "Probes", modules: "Modules") -> None:
        self._probes = probes
        self._modules = modules
        self._unions: dict[tuple[Software, ...], Software] = {}

    def describe(
        self,
        nodes: Mapping[str, Node],
        jobs: Iterable[Job],
        guests_mib: Counter[str],
        suspect_since_ms: Mapping[str, int],
    ) -> list[NodeFacts]:
        """Describe nodes, and probe those where it is time.

        ``guests_mib``        how much of each node's memory guests hold, also those whose processes are stopped
        ``suspect_since_ms``  since when the report of a node is known to be wrong
        """
        self._probes.look(nodes.values(), jobs, suspect_since_ms)
        self._modules.refresh()
        known, self._unions = self._unions, {}
        ping = NodePing()
        facts = []
        for node in nodes.values():
            report, missing = self._probes.report(node, suspect_since_ms.get(node.name, 0))
            parts = (report.software if report else frozenset(), self._modules.found, software_of(node.features))
            union = self._unions.get(parts) or known.get(parts) or frozenset[tuple[str, str]]().union(*parts)
            self._unions[parts] = union
            problem = problem_of(node, refuses=ping.is_refused_by(node))
            disk_mib = node.disk_mib or (report.disk_mib if report else 0)
            one = NodeFacts(
                name=node.name,
                cores=node.cpus,
                memory_mib=node.memory_mib,
                disk_mib=disk_mib,
                free_cores=node.free_cpus,
                free_memory_mib=max(0, node.memory_mib - max(node.allocated_memory_mib, guests_mib[node.name])),
                free_disk_mib=min(disk_mib, report.free_disk_mib) if report else disk_mib,
                cpu_mhz=report.cpu_mhz if report else 0,
                software=union,
                problem=problem.text if problem else "",
                fault=problem.fault.value if problem and problem.fault else "",
                unknown="; ".join(filter(None, (missing, self._modules.missing))),
            )
            facts.append(one)
        return facts


# --- environment modules ------------------------------------------------------------------------------------


class Modules:
    """The environment modules that all nodes have, read again now and then.

    ``found``    what is there
    ``missing``  what could not be read, one line
    """

    def __init__(self, options: SlurmOptions, clock: Clock) -> None:
        self.found: Software = frozenset()
        self.missing = ""
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
            self.missing = "; ".join(f"its modules: {why}" for _, why in read if why)


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


# --- probes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Result:
    """What was found out about a node, and when (Unix ms); or what is wrong with what its probe wrote."""

    at_ms: int
    report: Report | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _Running:
    job_id: int
    since_ms: int
    last_result_ms: int


class Probes:
    """The probes of one site. To be used from one thread at a time."""

    def __init__(
        self, slurm: Slurm, folder: Path, owner: str, options: SlurmOptions, user: JobUser | None, clock: Clock
    ) -> None:
        self._slurm = slurm
        self._folder = folder.absolute()
        self._owner = owner
        self._options = options
        self._user = user
        self._clock = clock
        self._read: dict[str, tuple[int, _Result]] = {}
        self._softwares: dict[Software, Software] = {}
        self._running: dict[str, _Running] = {}
        self._not_before_ms: dict[str, int] = {}
        self._troubles: dict[str, str] = {}

    # what is known

    def report(self, node: Node, suspect_ms: int = 0) -> tuple[Report | None, str]:
        """Give the last report of a node that still holds, or say why there is none, where it is to be probed."""
        result = self._current(node, suspect_ms)
        if result is not None and result.report is not None:
            return result.report, ""
        if not self._options.probe_every_ms:
            return None, ""
        if self._user is None:
            return None, "its software: no user is named as whom to look (user in [cluster.slurm])"
        trouble = result.trouble if result else self._troubles.get(node.name, "")
        return None, f"its software: {trouble or 'nobody has looked yet'}"

    def _current(self, node: Node, suspect_ms: int) -> _Result | None:
        result = self._last(node.name)
        return result if result is not None and result.at_ms > max(node.booted_ms, suspect_ms) else None

    def _last(self, node: str) -> _Result | None:
        """Read a node's last report, once for each that is made."""
        path = self._folder / WORK / node
        try:
            made_ns = path.lstat().st_mtime_ns
            if self._read.get(node, (0, None))[0] != made_ns:
                made_ms = min(made_ns // _NS_PER_MS, self._clock())  # the user that made it sets its time
                self._read[node] = made_ns, self._shared(_read_result(path, made_ms))
        except OSError:
            return None
        return self._read[node][1]

    def _shared(self, result: _Result) -> _Result:
        """Nodes that have the same have it once: there may be thousands of packages on thousands of nodes."""
        if result.report is None:
            return result
        if len(self._softwares) > len(self._read) + _AT_ONCE:
            self._softwares.clear()  # most of them are of reports that were renewed
        software = self._softwares.setdefault(result.report.software, result.report.software)
        return replace(result, report=replace(result.report, software=software))

    # looking

    def look(self, nodes: Iterable[Node], jobs: Iterable[Job], suspect_since_ms: Mapping[str, int]) -> None:
        """See what has become of the probes that run, and submit others where it is time."""
        if self._options.probe_every_ms and self._user is not None:
            found = ((job, probed_by(job, self._owner, self._user)) for job in jobs if job.is_live)
            live = {name: job for job, name in found if name}
            self._follow(live)
            due = [node for node in nodes if self._is_due(node, live, suspect_since_ms.get(node.name, 0))]
            for node in due[: max(0, _AT_ONCE - len(live))]:
                self._submit(node, self._user)

    def _follow(self, live: Mapping[str, Job]) -> None:
        for node, job in live.items():
            begun = self._running.setdefault(node, _Running(job.id, self._clock(), 0))
            if job.state is JobState.PENDING and self._clock() - begun.since_ms > _STARTS_WITHIN_MS:
                self._slurm.do(Step.CANCEL, job.id)
        for node in self._running.keys() - live.keys():
            ended, result = self._running.pop(node), self._last(node)
            if result is None or result.at_ms <= ended.last_result_ms:
                self._postpone(node, f"its probe, job {ended.job_id}, has ended without a report")
            elif result.report is None:
                self._postpone(node, result.trouble)
            else:
                self._troubles.pop(node, None)

    def _postpone(self, node: str, trouble: str) -> None:
        self._troubles[node] = trouble
        self._not_before_ms[node] = self._clock() + _RETRIED_AFTER_MS

    def _is_due(self, node: Node, live: Mapping[str, Job], suspect_ms: int) -> bool:
        now_ms = self._clock()
        if node.name in live or now_ms < self._not_before_ms.get(node.name, 0):
            return False
        if not node.takes_jobs or not node.free_cpus:
            return False
        result = self._current(node, suspect_ms)
        return result is None or result.report is None or now_ms - result.at_ms >= self._options.probe_every_ms

    def _submit(self, node: Node, user: JobUser) -> None:
        last, work = self._last(node.name), self._folder / WORK
        given = {
            "job-name": f"leasehold-probe-{node.name}",
            "comment": probe_comment(self._owner, node.name),
            "nodelist": node.name,
            "ntasks": "1",
            "mem": "64M",
            "time": "2",
            "partition": self._options.partition,
            "qos": self._options.qos,
            "account": self._options.account,
            "chdir": str(work),
            "output": "/dev/null",
            **user.sbatch_options,
        }
        try:
            make_work_folder(self._folder, user.uid, user.gid)
            script = _SCRIPT.format(folder=shlex.quote(str(work)), probe=PROBE)
            job_id = self._slurm.submit(script, given, {**user.environment, **self._options.environment})
        except (SlurmRefused, SlurmUnavailable, OSError) as error:
            self._postpone(node.name, f"its probe was not taken: {error}")
        else:
            self._running[node.name] = _Running(job_id, self._clock(), last.at_ms if last else 0)


def _read_result(path: Path, at_ms: int) -> _Result:
    try:
        text, _ = read_tail(path, _REPORT_BYTES)  # of what is longer the beginning is missing, and is missed
        return _Result(at_ms, read_report(text))
    except (BadReport, UntrustedFile) as error:
        return _Result(at_ms, None, str(error))
