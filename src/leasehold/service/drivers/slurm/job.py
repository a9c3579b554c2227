"""What Slurm says of jobs and partitions, read from the replies of any version since 22.05.

`squeue --json` changed on the way: from 23.02 on a number is an object that says whether there is one, a state is
a list of words from 23.11, and the nodes of a job are described differently from 24.05. Which form it is can be
seen at each value, so that no table of versions has to be kept.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

_SIGNALS = 0x7F
_NO_NUMBER = 0xFFFF_FFFE
"""Slurm's own sign for "none", and above it for "no limit", where a version lets it through."""
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)")


class BadReply(ValueError):
    """A reply that makes no sense, or says that something went wrong; says what."""


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

_STATES: Mapping[str, JobState] = {
    "COMPLETING": JobState.COMPLETING,
    "STAGE_OUT": JobState.COMPLETING,
    "CONFIGURING": JobState.CONFIGURING,
    "POWER_UP_NODE": JobState.CONFIGURING,
    "SUSPENDED": JobState.SUSPENDED,
    "RUNNING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,  # its processes are stopped, but it keeps its CPUs
    "PENDING": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
}
"""What Slurm's words mean; of several, the first in this table decides. Any other is of a finished job."""

_HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are Unix seconds, 0 where there is none yet.

    ``flags``           Slurm's words for its state, as ``("RUNNING",)``
    ``user``, ``uid``   whose it is; -1 where that is not known
    ``exit_status``     of its script, None where a signal ended it, or it is not finished
    ``cpus_by_node``    what it has, or had: the CPUs on each of its nodes
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
        return next((state for flag, state in _STATES.items() if flag in self.flags), JobState.FINISHED)

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


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; ``longest_min`` is the time limit of its jobs, None where there is none."""

    name: str
    longest_min: int | None = None


# --- squeue --json ------------------------------------------------------------------------------------------


def read_jobs(text: str) -> list[Job]:
    """Read what ``squeue --json`` answers; raises BadReply.

    Its exit status says nothing: 22.05 answers with an empty list and an error where it could not ask.
    """
    try:
        reply = json.loads(text)
        if reply["errors"]:
            raise BadReply("; ".join(_error(error) for error in reply["errors"]))
        return [_job(fields) for fields in reply["jobs"]]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, BadReply):
            raise
        raise BadReply(f"squeue answered something else than jobs: {error!r}") from error


def _error(error: Mapping[str, Any]) -> str:
    return f"{error.get('source', '')}: {error.get('description') or error.get('error', '')}"


def _job(fields: Mapping[str, Any]) -> Job:
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
        cpus=_number(fields.get("cpus")) or 1,
        nodes_wanted=_number(fields.get("node_count")) or 1,
        memory_per_cpu_mib=_number(fields.get("memory_per_cpu")) or 0,
        memory_per_node_mib=_number(fields.get("memory_per_node")) or 0,
        exclusive=_is_exclusive(fields),
        array_id=_number(fields.get("array_job_id")) or 0,
        array_task=_number(fields.get("array_task_id")),
        array_tasks=fields.get("array_task_string") or "",
        array_limit=_number(fields.get("array_max_tasks")) or 0,
        priority=1 if priority is None else priority,
        time_limit_min=_number(fields.get("time_limit")),
        start_s=_number(fields.get("start_time")) or 0,
        end_s=_number(fields.get("end_time")) or 0,
        switched_s=_number(fields.get("suspend_time")) or 0,
        restarts=_number(fields.get("restart_cnt")) or 0,
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
    for value in (fields.get("shared"), fields.get("exclusive")):
        words = value if isinstance(value, list) else [value]
        if {"none", "true", "exclusive"} & {word.lower() for word in words if isinstance(word, str)}:
            return True
    return False


def _cpus_by_node(fields: Mapping[str, Any]) -> dict[str, int]:
    """Read what a job has on each node; where that is not told node by node, each has as much."""
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


# --- scontrol -----------------------------------------------------------------------------------------------


def read_partitions(text: str) -> dict[str, Partition]:
    """Read what ``scontrol --oneliner show partition`` answers; raises BadReply.

    A value that has spaces is cut, and none of those that are read here has.
    """
    lines = [dict(re.findall(r"(?:^|\s)([\w:/]+)=(\S*)", line)) for line in text.splitlines() if line.strip()]
    try:
        partitions = [Partition(line["PartitionName"], _minutes(line["MaxTime"])) for line in lines]
    except KeyError as error:
        raise BadReply(f"scontrol answered something without {error.args[0]}") from None
    return {partition.name: partition for partition in partitions if partition.name}


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


# --- Slurm's short forms (python-hostlist reads them, too, but is under the GPL) ----------------------------


def node_names(text: str) -> list[str]:
    """Expand a list of node names, as ``node[1-3,07],gpu1``; ``(null)`` and nothing are empty."""
    if text in {"", "(null)", "None"}:
        return []
    groups = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)  # split at commas, but not within brackets
    return [name for group in groups for name in _expanded(re.findall(r"[^,\[]+|\[[^\]]*\]", group))]


def _expanded(parts: list[str]) -> list[str]:
    names = [""]
    for part in parts:
        endings = _numbers(part[1:-1]) if part.startswith("[") else [part]
        names = [name + ending for name in names for ending in endings]
    return names


def _numbers(ranges: str) -> list[str]:
    """Expand ``1-3,07``, each number as wide as the first of its range."""
    numbers: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1)]
    return numbers


def task_numbers(text: str, most: int) -> list[int]:
    """Expand the first ``most`` numbers of an array's tasks, as ``1-5,9`` or ``0-10:2%4``."""
    return list(islice(_tasks(text.partition("%")[0]), most))


def _tasks(text: str) -> Iterator[int]:
    for part in text.split(","):
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        if first.isdigit():
            yield from range(int(first), int(last or first) + 1, int(step or 1))
