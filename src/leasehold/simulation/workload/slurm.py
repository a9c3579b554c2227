"""Accounting of Slurm: what ``sacct --parsable2`` and ``sacct --json`` print, a record for each time a job was queued.

https://slurm.schedmd.com/sacct.html

Both forms say the same; so does either with another order of fields, with or without steps, with more fields than
are read. Times as text are those of the cluster's clock and are read in a time zone; times as numbers
(``SLURM_TIME_FORMAT=%s``, JSON) are seconds since 1970. What a record means:

- A job counts as submitted once it is *eligible*: before, a dependency, a begin time or a hold kept it.
- It ran from its start for its elapsed time, in which suspensions do not count. One that still runs ran for as long
  as it had. A job that was requeued has a record for each time, and each of them held what it held.
- Its size is what was allocated: CPUs, memory, GPUs and nodes of ``AllocTRES``, where that is there.
- Each task of an array, and each component of a heterogeneous job, is a job of its own.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from leasehold.model.errors import InputError
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload.json_objects import objects_in
from leasehold.simulation.workload.log_record import LARGEST, UNKNOWN, ReadingNotes, text_lines

FIELDS = (
    "JobIDRaw,Cluster,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,"
    "ReqCPUS,ReqMem,ReqTRES,AllocTRES"
)
"""What to ask sacct for. Fewer do, see `TextRecords`."""

EXPECTED = f"what `sacct --allusers --allocations --duplicates --parsable2 --format={FIELDS}` or `sacct --json` prints"

PENDING = "were left out: still pending, or never eligible"
NOT_BEGUN = "were left out: they ended before they began"
BACKWARDS = "were left out: they end before they begin (a change of the clock: see --timezone)"
RUNAWAY = "were left out: they run beyond their time limit by more than a day (see `sacctmgr show runawayjobs`)"
RUNNING = "were still running; they run for as long as they had"
NO_ELAPSED = "were left out: still running, and the accounting has no elapsed time"
LATER = "became eligible after their submission (dependencies, begin times, holds); they are submitted then"
REQUEUED = "were requeued, preempted or lost a node; each time that they ran is a job"
HETEROGENEOUS = "are components of heterogeneous jobs; each is a job of its own"
FEDERATED = "were left out: they ran on another cluster of a federation (REVOKED)"

_AGAIN = frozenset({"REQUEUED", "NODE_FAIL", "PREEMPTED"})
_OPEN = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING"}
)
_DAY_S = 86_400
_LARGEST_S = LARGEST // 1000
_MIB = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_UNLIMITED = frozenset({"", "UNLIMITED", "INFINITE", "PARTITION_LIMIT", "INVALID"})
_NO_TIME = frozenset({"", "UNKNOWN", "NONE", "N/A", "INVALID"})


@dataclass(slots=True)
class JobTimes:
    """When things happened to a job, in seconds since 1970, and for how long, in seconds; None: not, or not known."""

    submit_s: int
    eligible_s: int | None
    start_s: int | None
    end_s: int | None
    elapsed_s: int | None
    limit_s: int | None


@dataclass(frozen=True, slots=True)
class Tres:
    """Trackable resources of a job, all its nodes together; a negative number: not stated."""

    cpus: int = -1
    nodes: int = -1
    memory_mib: int = -1
    gpus: int = -1
    gpu_model: str = ""


@dataclass(slots=True)
class JobNames:
    """Who a job is, and whose."""

    job: str
    user: str
    account: str
    partition: str
    qos: str
    cluster: str
    is_component: bool = False


def accounting_records(path: Path, zone: tzinfo, notes: ReadingNotes) -> Iterator[LogRecord]:
    """Yield the jobs of a file, in its order and in either form, plain or gzip, and count each in the notes.

    Raises InputError, with file and line, for a file that has neither form, and for what is not readable in it.
    """
    first = next((line for line in text_lines(path) if line.strip()), "")
    if first.lstrip()[:1] == "{":
        lines: Iterator[tuple[int, Any]] = objects_in(path, "jobs")
        read: Callable[[Any, ReadingNotes], LogRecord | None] = _json_record
    elif "|" in first:
        lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(text_lines(path), 1) if line.strip())
        number, header = next(lines)
        try:
            read = TextRecords(header.split("|"), zone).record
        except ValueError as error:
            raise InputError(path, number, str(error)) from None
    else:
        raise InputError(path, 1 if first else None, f"is not Slurm accounting, expected {EXPECTED}")
    for number, line in lines:
        try:
            record = read(line, notes)
        except ValueError as error:
            raise InputError(path, number, str(error)) from None
        if record is not None:
            yield record


# What a record means, whatever its form


def _noted(record: LogRecord | str, assumed: list[str], notes: ReadingNotes) -> LogRecord | None:
    """Count one job: as read, or as left out for a reason."""
    notes.read += 1
    if isinstance(record, str):
        notes.skip(record)
        return None
    for phrase in assumed:
        notes.assume(phrase)
    return record


def _meaning(
    who: JobNames, state: str, times: JobTimes, asked: Tres, had: Tres | None, assumed: list[str]
) -> LogRecord | str:
    """Say what a record means, or why it is left out; adds what was ``assumed``.

    ``had`` is what it was allocated, None where nothing says.
    """
    if state == "REVOKED":
        return FEDERATED
    begin_s = times.start_s
    held_nothing = not times.elapsed_s and (had is None or had.cpus <= 0)
    if state == "PENDING" or (begin_s is None and state in _OPEN):
        return PENDING
    ready_s = times.submit_s if times.eligible_s is None else max(times.submit_s, times.eligible_s)
    never_began = state in {"CANCELLED", "DEADLINE"} and (begin_s is None or held_nothing)
    if never_began:
        ended_s = times.end_s if begin_s is None else begin_s
        if ended_s is None or times.eligible_s is None or ended_s < ready_s:
            return PENDING
        run_s, wait_s = 0, ended_s - ready_s
    else:
        if begin_s is None or (had is not None and held_nothing):
            return NOT_BEGUN
        found_s = _run_time(times, begin_s, state, assumed)
        if isinstance(found_s, str):
            return found_s
        ready_s = min(ready_s, begin_s)  # a requeued job may become eligible anew after it began
        run_s, wait_s = found_s, begin_s - ready_s
        if state in _AGAIN:
            assumed.append(REQUEUED)
    if ready_s > times.submit_s:
        assumed.append(LATER)
    if who.is_component:
        assumed.append(HETEROGENEOUS)
    got = asked if had is None or never_began else had
    cpus = max(got.cpus if got.cpus > 0 else asked.cpus, 1)
    memory_mib = got.memory_mib if got.memory_mib > 0 else asked.memory_mib
    return LogRecord(
        source_id=who.job,
        never_began=never_began,
        submit_ms=ready_s * 1000,
        run_ms=run_s * 1000,
        allocated_vms=-1 if never_began or had is None else had.cpus,
        requested_vms=asked.cpus,
        requested_ms=-1 if times.limit_s is None else times.limit_s * 1000,
        memory_mib=-(-memory_mib // cpus) if memory_mib > 0 else -1,
        wait_ms=wait_s * 1000,
        user=who.user or UNKNOWN,
        group=who.account or UNKNOWN,
        queue=who.qos or UNKNOWN,
        partition=who.partition or UNKNOWN,
        site=who.cluster or UNKNOWN,
        nodes=got.nodes if got.nodes > 0 else asked.nodes,
        gpu_model=(got.gpu_model or asked.gpu_model) if got.gpus > 0 else "",
        gpu_milli=max(got.gpus, 0) * 1000,
    )


def _run_time(times: JobTimes, begin_s: int, state: str, assumed: list[str]) -> int | str:
    """Say for how many seconds a job ran that began, or why it is left out."""
    if times.end_s is not None:
        if times.elapsed_s is not None:
            return times.elapsed_s
        return times.end_s - begin_s if times.end_s >= begin_s else BACKWARDS
    if times.elapsed_s is None:
        return NO_ELAPSED
    if times.limit_s is not None and times.elapsed_s > times.limit_s + _DAY_S:
        return RUNAWAY
    if state in _OPEN:
        assumed.append(RUNNING)
    return times.elapsed_s


# sacct --parsable2


class TextRecords:
    """Reads the lines of ``sacct --parsable2``: which column is what, its header says.

    Raises ValueError for a header that lacks what is needed: a number of the job, its state, its times and its CPUs.
    """

    def __init__(self, header: list[str], zone: tzinfo) -> None:
        """Find the columns; their names count without case, as for sacct."""
        names = [name.strip().lower() for name in header]
        self._width = len(names)
        self._place = {name: place for place, name in reversed([*enumerate(names)]) if name}
        self._time = _Clock(zone).seconds
        self._tres = _Cached(_tres)
        if "submit" not in self._place and "state" not in self._place:
            raise ValueError(f"is not Slurm accounting with its header, expected {EXPECTED}")
        self._job = self._one_of("JobIDRaw", "JobID")
        self._state, self._submit = self._one_of("State"), self._one_of("Submit")
        self._start, self._end = self._one_of("Start"), self._one_of("End")
        self._cpus = self._one_of("NCPUS", "AllocCPUS", "ReqCPUS", "AllocTRES", "ReqTRES")
        self._asked_cpus = self._any_of("ReqCPUS", "NCPUS", "AllocCPUS")
        self._nodes = self._any_of("NNodes", "AllocNodes")

    def _any_of(self, *names: str) -> int | None:
        return next((self._place[name.lower()] for name in names if name.lower() in self._place), None)

    def _one_of(self, *names: str) -> int:
        place = self._any_of(*names)
        if place is None:
            raise ValueError(f"field {' or '.join(names)}: missing in the header, expected {EXPECTED}")
        return place

    def record(self, line: str, notes: ReadingNotes) -> LogRecord | None:
        """Read one line; None for a step, and for a job that is left out, which is noted.

        Raises ValueError saying which field is wrong and what was expected.
        """
        values = line.split("|")
        if len(values) != self._width:
            hint = "; a | in a name of a job: leave out JobName" if len(values) > self._width else ""
            raise ValueError(f"found {len(values)} fields, expected the {self._width} of the header{hint}")
        job = values[self._job]
        if "." in job:
            return None
        if not job:
            raise ValueError("JobID: missing, expected the number of a job")
        said = self._said(values)
        state = values[self._state].partition(" ")[0].upper().rstrip("+")
        if not state.replace("_", "").isalpha():
            raise ValueError(f"State: got {values[self._state]!r}, expected a state such as COMPLETED")
        submit_s = self._time("Submit", values[self._submit])
        if submit_s is None:
            raise ValueError(f"Submit: got {values[self._submit]!r}, expected a time")
        times = JobTimes(
            submit_s,
            self._time("Eligible", said("eligible")) if "eligible" in self._place else submit_s,
            self._time("Start", values[self._start]),
            self._time("End", values[self._end]),
            _seconds("ElapsedRaw", said("elapsedraw")) if said("elapsedraw") else _span("Elapsed", said("elapsed")),
            _limit(said("timelimitraw"), said("timelimit")),
        )
        asked, had = self._resources(values, said)
        account, partition, qos, cluster = map(said, ("account", "partition", "qos", "cluster"))
        who = JobNames(job, said("user") or said("uid"), account, partition, qos, cluster, "+" in said("jobid"))
        assumed = list[str]()
        return _noted(_meaning(who, state, times, asked, had, assumed), assumed, notes)

    def _said(self, values: list[str]) -> Callable[[str], str]:
        place = self._place

        def said(name: str) -> str:
            return values[place[name]] if name in place else ""

        return said

    def _resources(self, values: list[str], said: Callable[[str], str]) -> tuple[Tres, Tres | None]:
        """Give what a job asked for, and what it had, None where nothing says."""
        asked = self._tres("ReqTRES", said("reqtres"))
        cpus = _whole("CPUs", values[self._asked_cpus]) if self._asked_cpus is not None else -1
        nodes = _whole("NNodes", values[self._nodes]) if self._nodes is not None else -1
        cpus = asked.cpus if asked.cpus > 0 else cpus
        memory_mib = asked.memory_mib if asked.memory_mib > 0 else _asked_memory(said("reqmem"), cpus, nodes)
        wanted = Tres(cpus, asked.nodes if asked.nodes > 0 else nodes, memory_mib, asked.gpus, asked.gpu_model)
        if "alloctres" in self._place:
            return wanted, self._tres("AllocTRES", said("alloctres"))
        allocated = self._any_of("AllocCPUS", "NCPUS")
        if allocated is None:
            return wanted, None
        # Without AllocTRES, these say what was asked for where nothing was had.
        had = Tres(_whole("NCPUS", values[allocated]), nodes, -1, asked.gpus, asked.gpu_model)
        return wanted, had


class _Cached:
    """What a text of resources means, of which there are few different ones."""

    def __init__(self, read: Callable[[str, str], Tres]) -> None:
        self._read = read
        self._known: dict[str, Tres] = {}

    def __call__(self, field: str, text: str) -> Tres:
        known = self._known.get(text)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[text] = self._read(field, text)
        return known


_MOST_KNOWN = 100_000


def _tres(field: str, text: str) -> Tres:
    """Read text such as ``cpu=64,mem=250G,node=2,billing=64,gres/gpu=8,gres/gpu:a100=8``."""
    pairs = []
    for part in text.split(",") if text else []:
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{field}: got {text!r}, expected resources such as cpu=4,mem=16G,node=1")
        pairs.append((name, value))
    counts = dict(pairs)
    models = {name[9:]: _whole(field, value) for name, value in pairs if name.startswith("gres/gpu:")}
    gpus = _whole(field, counts["gres/gpu"]) if "gres/gpu" in counts else sum(models.values()) if models else -1
    return Tres(
        _whole(field, counts["cpu"]) if "cpu" in counts else -1,
        _whole(field, counts["node"]) if "node" in counts else -1,
        _memory(field, counts["mem"]) if "mem" in counts else -1,
        gpus,
        max(models, key=lambda name: (models[name], name), default=""),
    )


def _whole(field: str, text: str) -> int:
    """Read a whole number; as sacct prints large ones, ``1K`` are a thousand."""
    number = int(text) if text.isdecimal() and text.isascii() else -1
    if number < 0 and text:
        scale = {"K": 10**3, "M": 10**6}.get(text[-1:].upper(), 0)
        number = round(_decimal(field, text[:-1], text) * scale) if scale else -1
    if number > LARGEST or (number < 0 and text):
        raise ValueError(f"{field}: got {text!r}, expected a whole number")
    return number


def _decimal(field: str, digits: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", digits, re.ASCII):
        raise ValueError(f"{field}: got {text!r}, expected a number")
    return float(digits)


def _memory(field: str, text: str) -> int:
    """Read an amount of memory such as ``15.50G``; a bare number is in MiB. Gives MiB, rounded up."""
    unit = text[-1:].upper() if text[-1:].isalpha() else ""
    if unit not in _MIB:
        raise ValueError(f"{field}: got memory {text!r}, expected an amount such as 16G")
    amount = _decimal(field, text[: len(text) - len(unit)], text) * _MIB[unit]
    if amount > LARGEST:
        raise ValueError(f"{field}: got memory {text!r}, expected at most {LARGEST:,} MiB")
    return -int(-amount // 1)


def _asked_memory(text: str, cpus: int, nodes: int) -> int:
    """Read ``ReqMem``; before Slurm 21.08 it ends in ``c``, for each CPU, or ``n``, for each node."""
    if not text or text == "0":
        return -1
    per = {"c": max(cpus, 1), "n": max(nodes, 1)}.get(text[-1:], 0)
    amount = _memory("ReqMem", text[:-1] if per else text)
    return amount * (per or 1)


def _seconds(field: str, text: str) -> int:
    if not (text.isdecimal() and text.isascii()) or int(text) > _LARGEST_S:
        raise ValueError(f"{field}: got {text!r}, expected a number of seconds")
    return int(text)


_SPAN = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,7}):)?(\d{1,9}):(\d\d)(?:\.\d+)?", re.ASCII)


def _span(field: str, text: str) -> int | None:
    """Read a time span ``[DAYS-][HOURS:]MINUTES:SECONDS``; None where there is none."""
    if text.upper() in _UNLIMITED:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{field}: got {text!r}, expected a time span such as 1-02:30:00")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * _DAY_S + hours * 3600 + minutes * 60 + seconds


def _limit(raw: str, text: str) -> int | None:
    """Read a time limit in minutes, or else as a time span; None where there is none or the partition's holds."""
    if raw.isdecimal() and raw.isascii():
        return min(int(raw), _LARGEST_S // 60) * 60 or None
    if raw.upper() not in _UNLIMITED:
        raise ValueError(f"TimelimitRaw: got {raw!r}, expected minutes, UNLIMITED or Partition_Limit")
    return _span("Timelimit", text) or None


class _Clock:
    """Reads times as text in a zone. An hour that comes twice when the clock is put back is the first of both."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._hours: dict[str, int] = {}

    def seconds(self, field: str, text: str) -> int | None:
        """Give seconds since 1970; None where there is no time. Raises ValueError for text that is not a time."""
        if text.isdecimal() and text.isascii():
            return _seconds(field, text) or None
        if len(text) == 19:  # noqa: PLR2004 - YYYY-MM-DDTHH:MM:SS
            hour_s = self._hours.get(text[:13])
            minute, second = text[14:16], text[17:]
            if hour_s is not None and minute.isdecimal() and second.isdecimal() and text[13] == text[16] == ":":
                return hour_s + int(minute) * 60 + int(second)
        if text.upper() in _NO_TIME:
            return None
        try:
            moment = datetime.fromisoformat(text)
            is_local = moment.tzinfo is None
            moment = moment.replace(tzinfo=self._zone) if is_local else moment
            found_s = int(moment.timestamp())
        except (ValueError, OverflowError):
            expected = "a time such as 2026-01-31T12:00:00, or seconds since 1970 (SLURM_TIME_FORMAT=%s)"
            raise ValueError(f"{field}: got {text!r}, expected {expected}") from None
        if not 0 <= found_s <= _LARGEST_S:
            raise ValueError(f"{field}: got {text!r}, expected a time since 1970")
        if is_local and len(text) == 19 and self._is_plain(moment):  # noqa: PLR2004 - as above
            self._hours[text[:13]] = found_s - moment.minute * 60 - moment.second
        return found_s

    def _is_plain(self, moment: datetime) -> bool:
        """Whether the clock is not changed within the hour."""
        first, last = (moment.replace(minute=minute, second=second) for minute, second in ((0, 0), (59, 59)))
        return last.timestamp() - first.timestamp() == 3599.0  # noqa: PLR2004 - seconds of an hour


# sacct --json


def _json_record(job: Mapping[str, Any], notes: ReadingNotes) -> LogRecord | None:
    """Read one job of ``sacct --json``; raises ValueError saying which value is wrong and what was expected."""
    number = _number("job_id", _at(job, "job_id"))
    if number is None:
        raise ValueError("job_id: missing, expected the number of a job")
    submit_s = _number("time.submission", _at(job, "time", "submission"))
    if not submit_s:
        raise ValueError("time.submission: missing, expected seconds since 1970")
    limit_min = _number("time.limit", _at(job, "time", "limit"))
    times = JobTimes(
        submit_s,
        _number("time.eligible", _at(job, "time", "eligible")) or None,
        _number("time.start", _at(job, "time", "start")) or None,
        _number("time.end", _at(job, "time", "end")) or None,
        _number("time.elapsed", _at(job, "time", "elapsed")),
        None if not limit_min else limit_min * 60,
    )
    state = _at(job, "state", "current")
    state = state[0] if isinstance(state, list) and state else state  # a list since data_parser v0.0.40
    if not isinstance(state, str) or not state:
        raise ValueError(f"state.current: got {state!r}, expected a state such as COMPLETED")
    asked = _json_tres("requested", _at(job, "tres", "requested"))
    had = _json_tres("allocated", _at(job, "tres", "allocated"))
    if asked.cpus <= 0:
        cpus = _number("required.CPUs", _at(job, "required", "CPUs"))
        asked = Tres(cpus or -1, asked.nodes, asked.memory_mib, asked.gpus, asked.gpu_model)
    user = _at(job, "association", "user") or job.get("user")
    names = [user, *(job.get(name) for name in ("account", "partition", "qos", "cluster"))]
    user, account, partition, qos, cluster = (name if isinstance(name, str) else "" for name in names)
    component = _number("het.job_id", _at(job, "het", "job_id"))
    who = JobNames(str(number), user, account, partition, qos, cluster, bool(component))
    assumed = list[str]()
    return _noted(_meaning(who, state.upper(), times, asked, had, assumed), assumed, notes)


def _at(value: object, *keys: str) -> object:
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _number(place: str, value: object) -> int | None:
    """Read a number: bare, or as newer Slurms write it, ``{"set": true, "infinite": false, "number": 5}``."""
    if isinstance(value, Mapping):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_S:
        raise ValueError(f"{place}: got {value!r}, expected a whole number of at least 0")
    return value


def _json_tres(place: str, entries: object) -> Tres:
    if not isinstance(entries, list):
        raise ValueError(f"tres.{place}: got {entries!r}, expected a list of resources")  # noqa: TRY004 - of the input
    counts: dict[tuple[str, str], int] = {}
    for entry in entries:
        kind, name = _at(entry, "type"), _at(entry, "name")
        count = _number(f"tres.{place}.count", _at(entry, "count"))
        if isinstance(kind, str) and count is not None:
            counts[kind, name if isinstance(name, str) else ""] = count
    models = {name[4:]: count for (kind, name), count in counts.items() if kind == "gres" and name.startswith("gpu:")}
    gpus = counts.get(("gres", "gpu"), sum(models.values()) if models else -1)
    model = max(models, key=lambda name: (models[name], name), default="")
    cpus, nodes, memory_mib = (counts.get((kind, ""), -1) for kind in ("cpu", "node", "mem"))
    return Tres(cpus, nodes, memory_mib, gpus, model)


# sinfo


SINFO = "sinfo --Node --format='%N|%c|%m|%G'"
_GPU = re.compile(r"gpu(?::([A-Za-z0-9][A-Za-z0-9._-]*?))?:(\d{1,6})(?:\(.*?\))?(?:,|$)", re.ASCII)
_ANY_GPU = "gpu"


def node_kinds(path: Path) -> list[dict[str, Any]]:
    """Read the nodes of a cluster as `SINFO` prints them; gives ``[[cluster.nodes]]``, nodes that are alike together.

    A node that is in several partitions counts once. Raises InputError, with file and line.
    """
    kinds: dict[tuple[int, int, str, int], set[str]] = {}
    for number, line in enumerate(text_lines(path), 1):
        fields = line.strip().split("|")
        if not line.strip() or fields[0].upper() == "NODELIST":
            continue
        if len(fields) != 4 or not fields[1].isdecimal() or not fields[2].isdecimal():  # noqa: PLR2004 - as asked for
            raise InputError(path, number, f"is not a node, expected what `{SINFO}` prints")
        gpus = _GPU.findall(fields[3])
        models = {model or _ANY_GPU for model, _ in gpus}
        if len(models) > 1:
            raise InputError(path, number, f"has GPUs of {len(models)} models, expected one model on each node")
        kind = int(fields[1]), int(fields[2]), next(iter(models), ""), sum(int(many) for _, many in gpus)
        kinds.setdefault(kind, set()).add(fields[0])
    if not kinds:
        raise InputError(path, None, f"has no node, expected what `{SINFO}` prints")
    found = []
    for (cores, memory_mib, model, many), names in kinds.items():
        gpus_there = {"gpus": {"model": model, "count": many}} if many else {}
        found.append({"count": len(names), "cores": cores, "memory_mib": max(memory_mib, 1), **gpus_there})
    return found
