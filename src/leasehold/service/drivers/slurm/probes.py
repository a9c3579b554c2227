"""Probes: small jobs that look at a node. What is installed there, how fast is it, what is free on its disk?

A probe runs on one CPU of a node that has one free, for a second or two. One that does not start soon is cancelled,
and tried again later; so is one that another process has left. Reports are kept as files, so that they outlive a
restart; one that was made before its node was started, or before it proved wrong, does not count any more, and one
that is old is renewed.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.bounds import whole_in
from leasehold.service.drivers.protocol import Clock
from leasehold.service.drivers.slurm.cluster import Job, JobState, Node
from leasehold.service.drivers.slurm.commands import Slurm, SlurmRefused, SlurmUnavailable, Step
from leasehold.service.drivers.slurm.job_directory import WORK, UntrustedFile, make_work_folder, read_tail
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.users import JobUser

PROBES = "probes"
"""The name of the folder of their reports."""
_COMMENT = re.compile(r"leasehold (?P<owner>\w+) probe (?P<node>\S+)")

_AT_ONCE = 8
_STARTS_WITHIN_MS = 30_000
_RETRIED_AFTER_MS = 300_000
_REPORT_BYTES = 8 * 1024 * 1024
_NS_PER_MS = 1_000_000

Software = frozenset[tuple[str, str]]
"""Names in small letters, with versions; empty where none is known."""

# --- lists of modules, as a probe, a command or a folder has them -------------------------------------------

_NAME = re.compile(r"[A-Za-z0-9][\w.+/-]*")
_LABEL = re.compile(r"\s*(\((?:default|[A-Za-z,]{1,9})\)|<[^>]*>)\s*$")
_NO_VERSIONS = frozenset({".version", ".modulerc", ".modulerc.lua"})
_MODULES_AT_MOST = 20_000


def read_avail(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Read ``module -t avail`` or ``module -t spider``, of Tcl modules or of Lmod; other lines are left out.

    The last part of a name is its version: ``tools/gcc/12.2`` is gcc 12.2, and also tools/gcc 12.2.
    """
    for line in lines:
        text = _LABEL.sub("", line.strip())
        if text.endswith((":", "/")) or not _NAME.fullmatch(text):
            continue
        path, _, version = text.rpartition("/")
        if not path:
            yield version.lower(), ""
            continue
        yield path.lower(), version
        if "/" in path:
            yield path.rpartition("/")[2].lower(), version


def modules_in(folder: Path) -> Software:
    """Read the modulefiles below a folder, as ``gcc/12.2`` or ``gcc/12.2.lua``.

    Raises OSError where the folder cannot be read.
    """
    next(folder.iterdir(), None)  # what cannot be read at all is not empty
    found: list[str] = []
    for place, _, files in os.walk(folder):
        names = (Path(place, name).relative_to(folder) for name in files if name not in _NO_VERSIONS)
        found += [str(name).removesuffix(".lua") for name in names if not name.name.startswith(".")]
        if len(found) > _MODULES_AT_MOST:
            break
    return frozenset(read_avail(found))


# --- the program that a probe runs, and its report ----------------------------------------------------------

BEGINS, ENDS = "leasehold-probe 1", "leasehold-probe end"
_MODULES = "leasehold-probe modules"
"""What comes before it is what a login shell says at first."""

PROBE = f"""\
echo '{BEGINS}'
awk -F: '/^cpu MHz/ {{ if ($2 + 0 > most) most = $2 + 0 }} END {{ printf "mhz %d\\n", most }}' /proc/cpuinfo 2>/dev/null
df -Pm "${{TMPDIR:-/tmp}}" 2>/dev/null | awk 'NR == 2 {{ print "disk", $2, $4 }}'
command -v dpkg-query > /dev/null && dpkg-query --show \\
  --showformat='package ${{db:Status-Abbrev}}${{Package}} ${{Version}}\\n' | sed -n 's/^package .i */package /p'
command -v rpm > /dev/null && rpm -qa --queryformat 'package %{{NAME}} %{{EPOCHNUM}}:%{{VERSION}}-%{{RELEASE}}\\n'
command -v bash > /dev/null && bash -lc 'echo {_MODULES}; type module > /dev/null 2>&1 && module -t avail' \\
  2>&1 < /dev/null | sed '1,/^{_MODULES}$/d; s/^/module /'
echo '{ENDS}'
"""
"""Each line begins with what it tells, and the last says that the report is whole. Where a program is not there, the
others still say what they know."""

_SCRIPT = """\
#!/bin/sh
# Written by Leasehold: looks at what is installed on a node, and changes nothing.
cd {folder} || exit
{{
{probe}}} > "$SLURMD_NODENAME.partial" 2> /dev/null
mv "$SLURMD_NODENAME.partial" "$SLURMD_NODENAME"
"""

_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)(?::\w+)? (?P<version>[0-9A-Za-z][\w.+~:^-]*)")
_MOST = 2**40
"""Neither a disk has more MiB, nor a processor more MHz."""


class BadReport(LeaseholdError):
    """What a probe wrote is not whole, or not a report; one line says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a node says of itself, 0 where it does not know; ``disk_mib`` is of the place for temporary files."""

    software: Software
    cpu_mhz: int = 0
    disk_mib: int = 0
    free_disk_mib: int = 0


def read_report(text: str) -> Report:
    """Read a report; raises BadReport, also where it is not whole: half a truth would be a wrong one."""
    lines = text.splitlines()
    if not lines or lines[0] != BEGINS:
        raise BadReport(f"a probe has written something else: {repr(lines[0][:60]) if lines else 'nothing'}")
    if lines[-1] != ENDS:
        raise BadReport(f"a probe was cut off after {len(lines)} lines")
    rows: dict[str, list[str]] = {"mhz": [], "disk": [], "package": [], "module": []}
    for line in lines[1:-1]:
        word, _, rest = line.partition(" ")
        if word not in rows:
            raise BadReport(f"a probe has written something else: {line[:60]!r}")
        rows[word].append(rest)
    disk, (mhz,) = _numbers(rows["disk"], "disk", 2), _numbers(rows["mhz"], "mhz", 1)
    software = frozenset(map(_package, rows["package"])) | frozenset(read_avail(rows["module"]))
    return Report(software, mhz, disk[0], min(disk))


def _numbers(lines: list[str], what: str, count: int) -> list[int]:
    if not lines:
        return [0] * count
    words = lines[0].split()
    numbers = [number for word in words if (number := whole_in(word, 0, _MOST)) is not None]
    if len(words) != count or len(numbers) != count:
        raise BadReport(f"a probe has written {what} {lines[0][:60]!r}, where {count} numbers should be")
    return numbers


def _package(line: str) -> tuple[str, str]:
    found = _PACKAGE.fullmatch(line.strip())
    if found is None:
        raise BadReport(f"a probe has written package {line[:60]!r}, where a name and a version should be")
    return found["name"].lower(), found["version"].removeprefix("0:")  # no epoch


# --- the probes of a site -----------------------------------------------------------------------------------


def probe_comment(owner: str, node: str) -> str:
    """The comment of a job that looks at a node."""
    return f"leasehold {owner} probe {node}"


def probed_by(job: Job, owner: str, user: JobUser | None) -> str:
    """Say at which node a job of ours looks; empty for any other job."""
    found = _COMMENT.fullmatch(job.comment)
    is_ours = found is not None and found["owner"] == owner and user is not None and job.uid == user.uid
    return found["node"] if found and is_ours else ""


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
    """The probes of one site, run as ``user``. To be used from one thread at a time."""

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
        self._failed: dict[str, tuple[int, str]] = {}
        """When a probe may be tried again, and what went wrong, by node."""

    # what is known

    def report(self, node: Node, suspect_ms: int = 0) -> tuple[Report | None, str]:
        """Give the last report of a node that still holds, or say why there is none, where it is to be probed."""
        result = self._current(node, suspect_ms)
        if result is not None and result.report is not None:
            return result.report, ""
        if not self._options.probe_every_ms:
            return None, ""
        if self._user is None:
            return None, "its software: no user is named for probes (user in [cluster.slurm])"
        _, failure = self._failed.get(node.name, (0, ""))
        trouble = result.trouble if result else failure
        return None, f"its software: {trouble or 'no probe has run yet'}"

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
                self._fail(node, f"its probe, job {ended.job_id}, has ended without a report")
            elif result.report is None:
                self._fail(node, result.trouble)
            else:
                self._failed.pop(node, None)

    def _fail(self, node: str, trouble: str) -> None:
        self._failed[node] = self._clock() + _RETRIED_AFTER_MS, trouble

    def _is_due(self, node: Node, live: Mapping[str, Job], suspect_ms: int) -> bool:
        now_ms, (not_before_ms, _) = self._clock(), self._failed.get(node.name, (0, ""))
        if node.name in live or now_ms < not_before_ms or not node.takes_jobs or not node.free_cpus:
            return False
        result = self._current(node, suspect_ms)
        return result is None or result.report is None or now_ms - result.at_ms >= self._options.probe_every_ms

    def _submit(self, node: Node, user: JobUser) -> None:
        last, work, options = self._last(node.name), self._folder / WORK, self._options
        given = {
            "job-name": f"leasehold-probe-{node.name}",
            "comment": probe_comment(self._owner, node.name),
            "nodelist": node.name,
            "ntasks": "1",
            "mem": "64M",
            "time": "2",
            "output": "/dev/null",
            "chdir": str(work),
            "partition": options.partition,
            "qos": options.qos,
            "account": options.account,
            **user.sbatch_options,
        }
        try:
            make_work_folder(self._folder, user.uid, user.gid)
            script = _SCRIPT.format(folder=shlex.quote(str(work)), probe=PROBE)
            job_id = self._slurm.submit(script, given, {**user.environment, **options.environment})
        except (SlurmRefused, SlurmUnavailable, OSError) as error:
            self._fail(node.name, f"its probe was not accepted: {error}")
        else:
            self._running[node.name] = _Running(job_id, self._clock(), last.at_ms if last else 0)


def _read_result(path: Path, at_ms: int) -> _Result:
    try:
        text, _ = read_tail(path, _REPORT_BYTES)  # of what is longer the beginning is missing, and is missed
        return _Result(at_ms, read_report(text))
    except (BadReport, UntrustedFile) as error:
        return _Result(at_ms, None, str(error))
