"""Small jobs that look at nodes: what is installed there, how fast they are, what is free on their disks.

A probe runs on one CPU of a node that has one free, for a second or two. One that does not start soon is
cancelled, and tried again later; so is one that somebody else has left. Reports are kept as files, so that a
restart asks nobody again; one that was made before its node was started, or before it proved wrong, does not
count any more, and one that is old is renewed.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from leasehold.service.drivers.probing.report import BadReport, Report, read_report
from leasehold.service.drivers.probing.script import PROBE
from leasehold.service.drivers.setup import Clock
from leasehold.service.drivers.slurm.commands import Slurm, SlurmRefused, SlurmSilent
from leasehold.service.drivers.slurm.job import Job, Standing
from leasehold.service.drivers.slurm.node import Node
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.others_files import NotAFile, read_end
from leasehold.service.drivers.slurm.papers import WORK, make_work_folder
from leasehold.service.drivers.slurm.tag import probe_comment, probed_by
from leasehold.service.drivers.slurm.users import JobUser

PROBES = "probes"
"""The name of the folder of their reports."""

_AT_ONCE = 8
_STARTS_WITHIN_MS = 30_000
_TRIED_AGAIN_MS = 300_000
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


@dataclass(frozen=True, slots=True)
class Look:
    """What was found out about a node, and when (Unix ms); or what is wrong with what it wrote."""

    at_ms: int
    report: Report | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    job_id: int
    since_ms: int
    last_look_ms: int


class Probes:
    """The probes of one site. To be used from one thread at a time."""

    def __init__(
        self,
        slurm: Slurm,
        folder: Path,
        owner: str,
        options: SlurmOptions,
        user: JobUser | None,
        clock: Clock,
    ) -> None:
        self._slurm = slurm
        self._folder = folder.absolute()
        self._owner = owner
        self._options = options
        self._user = user
        self._clock = clock
        self._read: dict[str, tuple[int, Look]] = {}
        self._softwares: dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._not_before_ms: dict[str, int] = {}
        self._troubles: dict[str, str] = {}

    # what is known

    def found(self, node: Node, doubted_ms: int = 0) -> Report | None:
        """Give the last report of a node that still holds; None where there is none."""
        look = self._current(node, doubted_ms)
        return None if look is None else look.report

    def unknown(self, node: Node, doubted_ms: int = 0) -> str:
        """Say why nothing is known of a node, one line; empty where something is, or nobody is to look."""
        if not self._options.probe_every_ms or self.found(node, doubted_ms) is not None:
            return ""
        if self._user is None:
            return "its software: no user is named as whom to look (user in [cluster.slurm])"
        look = self._current(node, doubted_ms)
        trouble = look.trouble if look else self._troubles.get(node.name, "")
        return f"its software: {trouble or 'nobody has looked yet'}"

    def _current(self, node: Node, doubted_ms: int) -> Look | None:
        look = self._last(node.name)
        return look if look is not None and look.at_ms > max(node.booted_ms, doubted_ms) else None

    def _last(self, node: str) -> Look | None:
        """Read a node's last report, once for each that is made."""
        path = self._folder / WORK / node
        try:
            made_ns = path.lstat().st_mtime_ns
            if self._read.get(node, (0, None))[0] != made_ns:
                made_ms = min(made_ns // _NS_PER_MS, self._clock())  # whoever made it may say what he likes
                self._read[node] = made_ns, self._shared(_look(path, made_ms))
        except OSError:
            return None
        return self._read[node][1]

    def _shared(self, look: Look) -> Look:
        """Nodes that have the same have it once: there may be thousands of packages on thousands of nodes."""
        if look.report is None:
            return look
        if len(self._softwares) > len(self._read) + _AT_ONCE:
            self._softwares.clear()  # most of them are of reports that were renewed
        software = self._softwares.setdefault(look.report.software, look.report.software)
        return replace(look, report=replace(look.report, software=software))

    # looking

    def look(self, nodes: Iterable[Node], jobs: Iterable[Job], doubted: Mapping[str, int]) -> None:
        """See what has become of the probes that are under way, and send others where it is time."""
        if self._options.probe_every_ms and self._user is not None:
            found = ((job, probed_by(job, self._owner, self._user)) for job in jobs if job.is_live)
            live = {name: job for job, name in found if name}
            self._let_go(live)
            due = [node for node in nodes if self._is_due(node, live, doubted.get(node.name, 0))]
            for node in due[: max(0, _AT_ONCE - len(live))]:
                self._send(node, self._user)

    def _let_go(self, live: Mapping[str, Job]) -> None:
        for node, job in live.items():
            begun = self._under_way.setdefault(node, _UnderWay(job.id, self._clock(), 0))
            if job.standing is Standing.WAITING and self._clock() - begun.since_ms > _STARTS_WITHIN_MS:
                self._slurm.cancel(job.id)
        for node in self._under_way.keys() - live.keys():
            self._conclude(node, self._under_way.pop(node))

    def _conclude(self, node: str, was: _UnderWay) -> None:
        look = self._last(node)
        if look is None or look.at_ms <= was.last_look_ms:
            self._give_up(node, f"its probe, job {was.job_id}, has ended without a report")
        elif look.report is None:
            self._give_up(node, look.trouble)
        else:
            self._troubles.pop(node, None)

    def _give_up(self, node: str, trouble: str) -> None:
        self._troubles[node] = trouble
        self._not_before_ms[node] = self._clock() + _TRIED_AGAIN_MS

    def _is_due(self, node: Node, live: Mapping[str, Job], doubted_ms: int) -> bool:
        now_ms = self._clock()
        if node.name in live or now_ms < self._not_before_ms.get(node.name, 0):
            return False
        if not node.takes_jobs or not node.free_cpus:
            return False
        look = self._current(node, doubted_ms)
        return look is None or look.report is None or now_ms - look.at_ms >= self._options.probe_every_ms

    def _send(self, node: Node, user: JobUser) -> None:
        last = self._last(node.name)
        try:
            make_work_folder(self._folder, user.uid, user.gid)
            environment = {**user.environment, **self._options.environment}
            job_id = self._slurm.submit(self._text(), self._words(node, user), environment)
        except (SlurmRefused, SlurmSilent, OSError) as error:
            self._give_up(node.name, f"its probe was not taken: {error}")
        else:
            self._under_way[node.name] = _UnderWay(job_id, self._clock(), last.at_ms if last else 0)

    def _text(self) -> str:
        return _SCRIPT.format(folder=shlex.quote(str(self._folder / WORK)), probe=PROBE)

    def _words(self, node: Node, user: JobUser) -> list[str]:
        options = self._options
        given = {
            "job-name": f"leasehold-probe-{node.name}",
            "comment": probe_comment(self._owner, node.name),
            "nodelist": node.name,
            "ntasks": "1",
            "mem": "64M",
            "time": "2",
            "partition": options.partition,
            "qos": options.qos,
            "account": options.account,
            "chdir": str(self._folder / WORK),
            "output": "/dev/null",
            **user.words,
        }
        return [
            "--no-requeue",
            *(f"--{name}={value}" for name, value in given.items() if value),
            *options.extra,
        ]


def _look(path: Path, at_ms: int) -> Look:
    try:
        text, _ = read_end(path, _REPORT_BYTES)  # of what is longer the beginning is missing, and is missed
        return Look(at_ms, read_report(text))
    except (BadReport, NotAFile) as error:
        return Look(at_ms, None, str(error))
