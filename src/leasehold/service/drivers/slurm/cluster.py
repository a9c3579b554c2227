"""What Slurm says of jobs, partitions and nodes, read from the replies of any version since 22.05.

`squeue --json` changed on the way: from 23.02 on a number is an object that says whether there is one, a state is
a list of words from 23.11, and the nodes of a job are described differently from 24.05. Which form it is can be
seen at each value, so that no table of versions has to be kept.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice, product
from typing import Any

_SIGNALS = 0x7F
_NO_NUMBER = 0xFFFF_FFFE
"""Slurm's own sign for "none", and above it for "no limit", where a version lets it through."""
_MS = 1000


class BadReply(ValueError):
    """A reply that makes no sense, or says that something went wrong; says what."""


# --- jobs, by squeue --json ---------------------------------------------------------------------------------


class JobState(StrEnum):
    """The state of a job, as far as it matters here.

    CONFIGURING  it has its nodes, and they are made ready
    COMPLETING   it is done, or was cancelled, and its nodes are cleaned up
    SUSPENDED    its processes are stopped, and its CPUs are given away
    """

    PENDING = "pending"
    CONFIGURING = "configuring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    FINISHED = "finished"


OCCUPIES_CPUS = frozenset({JobState.CONFIGURING, JobState.RUNNING, JobState.COMPLETING})

_FLAGS = {
    JobState.COMPLETING: {"COMPLETING", "STAGE_OUT"},
    JobState.CONFIGURING: {"CONFIGURING", "POWER_UP_NODE"},
    JobState.SUSPENDED: {"SUSPENDED"},
    JobState.RUNNING: {"RUNNING", "RESIZING", "SIGNALING", "STOPPED"},  # stopped processes keep their CPUs
    JobState.PENDING: {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"},
}
"""Slurm's words for each state; of several, the first in this table decides. Any other is of a finished job."""

_HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})


@dataclass(frozen=True, slots=True)
class Gpus:
    """So many GPUs of a model; "" for any, or where Slurm's configuration names none."""

    model: str
    count: int


NO_GPUS = Gpus("", 0)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are Unix seconds, 0 where there is none yet.

    ``flags``           Slurm's words for its state, as ``("RUNNING",)``
    ``user``, ``uid``   whose it is; -1 where that is not known
    ``exit_status``     of its script, None where a signal ended it, or it is not finished
    ``cpus_by_node``    what it has, or had: the CPUs on each of its nodes
    ``gpus_by_node``    and the GPUs, with their model, "" where Slurm knows none; for one that waits see ``gpus``
    ``gpus``            what it asks for in all, with their model, on so many nodes
    ``cpus``            what it asks for in all, on so many nodes (``nodes_wanted``), and its memory
    ``exclusive``       whether it shares its nodes with no other job
    ``array_id``        of which array it is a task, 0 if of none
    ``array_task``      which task it is; None where it stands for all pending ones, those in ``array_tasks``
    ``array_limit``     how many tasks of its array may run at a time, 0 if any number
    ``priority``        0 where it is held
    ``time_limit_min``  None: none of its own
    ``switched_s``      when it was last suspended or resumed
    ``restarts``        how often it was requeued
    """

    id: int
    flags: tuple[str, ...]
    name: str = ""
    comment: str = ""
    user: str = ""
    uid: int = -1
    partitions: tuple[str, ...] = ()
    reason: str = ""
    exit_status: int | None = None
    cpus_by_node: Mapping[str, int] = field(default_factory=dict)
    gpus_by_node: Mapping[str, Gpus] = field(default_factory=dict)
    gpus: Gpus = NO_GPUS
    cpus: int = 1
    nodes_wanted: int = 1
    memory_per_cpu_mib: int = 0
    memory_per_node_mib: int = 0
    exclusive: bool = False
    array_id: int = 0
    array_task: int | None = None
    array_tasks: str = ""
    array_limit: int = 0
    priority: int = 1
    time_limit_min: int | None = None
    start_s: int = 0
    end_s: int = 0
    switched_s: int = 0
    restarts: int = 0

    @property
    def state(self) -> JobState:
        """The state that its flags amount to."""
        found = (state for state, flags in _FLAGS.items() if not flags.isdisjoint(self.flags))
        return next(found, JobState.FINISHED)

    @property
    def is_live(self) -> bool:
        """Whether it is not finished."""
        return self.state is not JobState.FINISHED

    @property
    def is_held(self) -> bool:
        """Whether it is pending until it is released."""
        return self.state is JobState.PENDING and (self.priority == 0 or self.reason in _HELD)

    @property
    def lost_its_node(self) -> bool:
        """Whether one of its nodes has failed, and it is not requeued for that."""
        return "NODE_FAIL" in self.flags

    @property
    def ended_by_itself(self) -> bool:
        """Whether its script ran to its end, whatever it returned."""
        return self.exit_status is not None and bool({"COMPLETED", "FAILED"} & set(self.flags))

    def nodes_of(self, vms: int) -> tuple[str, ...]:
        """Say on which node each of so many equal VMs of it is; empty where that does not come out even.

        It does not where Slurm rounds up what a job has on a node, as to whole cores.
        """
        cpus = sum(self.cpus_by_node.values())
        shares = [(node, divmod(there * vms, cpus)) for node, there in self.cpus_by_node.items()]
        if any(rest for _, (_, rest) in shares):
            return ()
        return tuple(node for node, (count, _) in shares for _ in range(count))


def read_jobs(text: str) -> list[Job]:
    """Read what ``squeue --json`` answers; raises BadReply.

    Its exit status says nothing: 22.05 answers with an empty list and an error where it could not ask.
    """
    try:
        reply = json.loads(text)
        if reply["errors"]:
            raise BadReply("; ".join(map(_error, reply["errors"])))
        return [_job(fields) for fields in reply["jobs"]]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, BadReply):
            raise
        raise BadReply(f"squeue answered something else than jobs: {error!r}") from error


def _error(error: Mapping[str, Any]) -> str:
    return f"{error.get('source', '')}: {error.get('description') or error.get('error', '')}"


def _job(fields: Mapping[str, Any]) -> Job:
    def number(key: str) -> int:
        return _number(fields.get(key)) or 0

    flags, comment = fields["job_state"], fields.get("comment")
    uid, priority = _number(fields.get("user_id")), _number(fields.get("priority"))
    return Job(
        id=fields["job_id"],
        flags=(flags,) if isinstance(flags, str) else tuple(str(flag) for flag in flags),
        name=fields.get("name") or "",
        comment=str((comment.get("job") if isinstance(comment, Mapping) else comment) or ""),
        user=fields.get("user_name") or str(fields.get("user_id", "")),
        uid=-1 if uid is None else uid,
        partitions=tuple((fields.get("partition") or "").split(",")),
        reason=fields.get("state_reason") or "",
        exit_status=_exit_status(fields.get("exit_code")),
        cpus_by_node=_cpus_by_node(fields),
        gpus_by_node=_gpus_by_node(fields),
        gpus=_gpus_wanted(fields),
        cpus=number("cpus") or 1,
        nodes_wanted=number("node_count") or 1,
        memory_per_cpu_mib=number("memory_per_cpu"),
        memory_per_node_mib=number("memory_per_node"),
        exclusive=_is_exclusive(fields),
        array_id=number("array_job_id"),
        array_task=_number(fields.get("array_task_id")),
        array_tasks=fields.get("array_task_string") or "",
        array_limit=number("array_max_tasks"),
        priority=1 if priority is None else priority,
        time_limit_min=_number(fields.get("time_limit")),
        start_s=number("start_time"),
        end_s=number("end_time"),
        switched_s=number("suspend_time"),
        restarts=number("restart_cnt"),
    )


def _number(value: object) -> int | None:
    """Read a number of any version; None where there is none, or it is without limit."""
    if isinstance(value, Mapping):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _NO_NUMBER else None


def _exit_status(value: object) -> int | None:
    """Read an exit code: 22.05 gives it as the kernel does, later ones take it apart."""
    if isinstance(value, Mapping) and "return_code" in value:
        signal = value.get("signal") or {}
        by_signal = _number(signal.get("id", signal.get("signal_id")))
        return None if by_signal else _number(value["return_code"]) or 0
    status = _number(value)
    return None if status is None or status & _SIGNALS else status >> 8


def _is_exclusive(fields: Mapping[str, Any]) -> bool:
    """Whether it was submitted with ``--exclusive``: it then shares with "none"; without, there is no word."""
    values = (fields.get("shared"), fields.get("exclusive"))
    words = [word for value in values for word in (value if isinstance(value, list) else [value])]
    return any(isinstance(word, str) and word.lower() in {"none", "true", "exclusive"} for word in words)


def _cpus_by_node(fields: Mapping[str, Any]) -> dict[str, int]:
    """Read what a job has on each node; without details by node, each has the same share."""
    names = node_names(fields.get("nodes") or "")
    resources = fields.get("job_resources") or {}
    detail = resources.get("nodes")
    nodes = detail.get("allocation") if isinstance(detail, Mapping) else resources.get("allocated_nodes")
    cpus = {name: count for name, count in map(_cpus_of_node, nodes or []) if count}
    total = _number(fields.get("cpus"))
    if cpus.keys() != set(names):
        return {name: -(-(total or len(names)) // len(names)) for name in names}
    cores = sum(cpus.values())
    if not total or total <= cores:
        return cpus
    return {name: -(-count * total // cores) for name, count in cpus.items()}  # cores have several CPUs each


def _cpus_of_node(node: Mapping[str, Any]) -> tuple[str, int]:
    """Read the share of one node: counted by later versions, core by core in earlier ones."""
    name = str(node.get("nodename") or node.get("name") or "")
    cpus = node.get("cpus")
    if isinstance(cpus, Mapping) and "count" in cpus:
        return name, int(cpus["count"])
    sockets = node.get("sockets")
    each: Iterable[Any] = sockets.values() if isinstance(sockets, Mapping) else sockets or []
    return name, sum(len(socket.get("cores") or ()) for socket in each)


_GPU = re.compile(r"(?:^|,|gres[:/])\(?gpu(?::(?P<model>[^:(),=\d][^:(),=]*))?(?:[:=](?P<count>\d+))?(?=[(,)]|$)")
"""GPUs in a list of generic resources, as ``gpu:a100:2(IDX:0-1)``, ``gres:gpu:2`` and ``gres/gpu:a100=2``."""


def read_gpus(text: str) -> Gpus:
    """Read the GPUs in a list of generic resources: of several models all, as of the first."""
    found = [Gpus(one["model"] or "", int(one["count"] or 1)) for one in _GPU.finditer(text)]
    return Gpus(found[0].model, sum(one.count for one in found)) if found else NO_GPUS


def _gpus_by_node(fields: Mapping[str, Any]) -> dict[str, Gpus]:
    """Read what a running job has of GPUs; Slurm gives a list with an entry for each of its nodes."""
    names, details = node_names(fields.get("nodes") or ""), fields.get("gres_detail") or []
    if not isinstance(details, list) or len(details) != len(names):
        return {}
    return {name: gpus for name, text in zip(names, details, strict=True) if (gpus := read_gpus(str(text))).count}


def _gpus_wanted(fields: Mapping[str, Any]) -> Gpus:
    """Read what a job asks for: by node, by task, by socket (taken as by node), or in all."""
    nodes, tasks = _number(fields.get("node_count")) or 1, _number(fields.get("tasks")) or 1
    times = {"tres_per_node": nodes, "tres_per_socket": nodes, "tres_per_task": tasks, "tres_per_job": 1}
    for name, factor in times.items():
        gpus = read_gpus(str(fields.get(name) or ""))
        if gpus.count:
            return Gpus(gpus.model, gpus.count * factor)
    return NO_GPUS


def node_names(text: str) -> list[str]:
    """Expand a list of node names, as ``node[1-3,07],gpu1``; ``(null)`` and nothing are empty.

    (The library python-hostlist does that, too, but is under the GPL.)
    """
    if text in {"", "(null)", "None"}:
        return []
    groups = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)  # split at commas, but not within brackets
    parts = [re.findall(r"[^,\[]+|\[[^\]]*\]", group) for group in groups]
    return ["".join(name) for group in parts for name in product(*map(_alternatives, group))]


def _alternatives(part: str) -> list[str]:
    """Expand ``[1-3,07]``, each number as wide as the first of its range; another part stands for itself."""
    if not part.startswith("["):
        return [part]
    ranges = (one.partition("-") for one in part[1:-1].split(","))
    return [
        f"{number:0{len(first)}}" for first, _, last in ranges for number in range(int(first), int(last or first) + 1)
    ]


def task_numbers(text: str, most: int) -> list[int]:
    """Expand the first ``most`` numbers of an array's tasks, as ``1-5,9`` or ``0-10:2%4``."""
    return list(islice(_tasks(text.partition("%")[0]), most))


def _tasks(text: str) -> Iterator[int]:
    for part in text.split(","):
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        if first.isdigit():
            yield from range(int(first), int(last or first) + 1, int(step or 1))


# --- partitions and nodes, by scontrol --oneliner: one line each, of Key=value ------------------------------

_PAIR = re.compile(r"(?:^|\s)([\w:/]+)=(\S*)")
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)")


def read_time_limits(text: str) -> dict[str, int | None]:
    """Read ``scontrol --oneliner show partition``: the time limits (minutes; None: none); raises BadReply.

    A value that has spaces is cut, and none of those that are read here has.
    """
    lines = [dict(_PAIR.findall(line)) for line in text.splitlines() if line.strip()]
    try:
        return {line["PartitionName"]: _minutes(line["MaxTime"]) for line in lines if line["PartitionName"]}
    except KeyError as error:
        raise BadReply(f"scontrol answered something without {error.args[0]}") from None


def _minutes(text: str) -> int | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes + bool(seconds)


def memory_is_consumable(config: str) -> bool:
    """Whether jobs hold memory as they do CPUs, from what ``scontrol show config`` answers."""
    found = re.search(r"^SelectTypeParameters\s*=\s*(\S+)", config, re.MULTILINE)
    return found is not None and "MEMORY" in found[1].upper()


@dataclass(frozen=True, slots=True)
class Node:
    """One node: how many CPUs and how much memory it has in all, and the partitions that it is in.

    ``takes_jobs``            whether Slurm starts anything on it now
    ``flags``                 Slurm's words for its state, as ``("IDLE", "DRAIN")``, and ``reason`` why, if so
    ``free_cpus``             which no job has
    ``allocated_memory_mib``  what jobs hold, where memory is consumable
    ``disk_mib``              for temporary files, 0 where Slurm's configuration does not say
    ``booted_ms``             when it was started (Unix ms), 0 where that is not known
    ``address``               where its slurmd listens, with ``port``
    ``gpus``                  its GPUs, as its configuration says
    """

    name: str
    cpus: int
    memory_mib: int
    partitions: frozenset[str] = frozenset()
    takes_jobs: bool = True
    flags: tuple[str, ...] = ()
    reason: str = ""
    free_cpus: int = 0
    allocated_memory_mib: int = 0
    disk_mib: int = 0
    features: tuple[str, ...] = ()
    booted_ms: int = 0
    address: str = ""
    port: int = 0
    gpus: Gpus = NO_GPUS

    @property
    def is_unresponsive(self) -> bool:
        """Whether its slurmd does not answer the controller."""
        return "NOT_RESPONDING" in self.flags


_OPEN = re.compile("IDLE|MIXED|ALLOCATED|COMPLETING|MIXED\\+COMPLETING|IDLE\\+COMPLETING")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra|ReservationName)=")
"""People write these, and may write what looks like another key. They come last: the line is cut at the first."""
_REASON = re.compile(r"\sReason=(?P<text>.*?)\s*(?:\[[^\[\]\s]+@[^\[\]\s]+\]|$)")
_STATE_MARKS = "*~#!%$@^-+"
_EMPTY = frozenset({"", "(null)", "N/A", "n/a", "None", "Unknown"})


def read_nodes(text: str) -> dict[str, Node]:
    """Read what ``scontrol --oneliner show node`` answers where the time zone is UTC; raises BadReply."""
    try:
        return {node.name: node for node in map(_node, filter(str.strip, text.splitlines()))}
    except KeyError as error:
        raise BadReply(f"scontrol answered something without {error.args[0]}") from None
    except ValueError as error:
        raise BadReply(f"scontrol answered something else than nodes: {error!r}") from error


def _node(line: str) -> Node:
    end = _FREE_TEXT.search(line)
    fields: dict[str, str] = dict(_PAIR.findall(line[: end.start()] if end else line))

    def text(key: str) -> str:
        value = fields.get(key, "").strip()
        return "" if value in _EMPTY else value

    def number(key: str) -> int:
        return int(fields[key]) if fields.get(key, "").isdecimal() else 0

    name, cpus = fields["NodeName"], int(fields.get("CPUEfctv") or fields["CPUTot"])
    reason, booted = _REASON.search(line), text("BootTime")
    why = reason["text"].strip() if reason else ""
    return Node(
        name,
        cpus,
        int(fields["RealMemory"]),
        frozenset(filter(None, fields.get("Partitions", "").split(","))),
        _OPEN.fullmatch(fields.get("State", "")) is not None,
        flags=tuple(flag.strip(_STATE_MARKS) for flag in fields.get("State", "").split("+")),
        reason="" if why in _EMPTY else why,
        free_cpus=max(0, cpus - number("CPUAlloc")),
        allocated_memory_mib=number("AllocMem"),
        disk_mib=number("TmpDisk"),
        features=tuple(filter(None, text("ActiveFeatures" if "ActiveFeatures" in fields else "Features").split(","))),
        booted_ms=int(datetime.fromisoformat(booted).replace(tzinfo=UTC).timestamp() * _MS) if booted else 0,
        address=text("NodeAddr"),
        port=number("Port"),
        gpus=read_gpus(text("Gres")),
    )
