"""Read what Slurm's commands answer: the JSON of 22.05, that of 23.02 and later, and one line per thing.

From 23.02 on a number is an object that says whether there is one, a state is a list of words from 23.11, and
the nodes of a job are told in another way from 24.05. Which of them it is can be seen at each value, so that
no table of versions has to be kept.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.service.drivers.slurm.job import Job, Partition
from leasehold.service.drivers.slurm.node_reply import BadReply
from leasehold.service.drivers.slurm.nodelist import node_names

_SIGNALS = 0x7F
_NO_NUMBER = 0xFFFF_FFFE
"""Slurm's own sign for "none", and above it for "no limit", where a version lets it through."""
_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)")


def read_jobs(text: str) -> list[Job]:
    """Read what ``squeue --json`` answers; raises BadReply.

    Its exit status says nothing: 22.05 answers with an empty list and an error where it could not ask.
    """
    try:
        reply = json.loads(text)
        if reply["errors"]:
            raise BadReply("; ".join(_error(error) for error in reply["errors"]))
        return [_job(job) for job in reply["jobs"]]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, BadReply):
            raise
        raise BadReply(f"squeue answered something else than jobs: {error!r}") from error


def _error(error: Mapping[str, Any]) -> str:
    return f"{error.get('source', '')}: {error.get('description') or error.get('error', '')}"


def _job(said: Mapping[str, Any]) -> Job:
    words = _words(said["job_state"])
    return Job(
        id=said["job_id"],
        words=words,
        name=said.get("name") or "",
        comment=_comment(said.get("comment")),
        user=said.get("user_name") or str(said.get("user_id", "")),
        uid=_or(_number(said.get("user_id")), -1),
        partitions=tuple((said.get("partition") or "").split(",")),
        reason=said.get("state_reason") or "",
        exit_status=_exit_status(said.get("exit_code")),
        cpus_by_node=_cpus_by_node(said),
        cpus=_number(said.get("cpus")) or 1,
        nodes_wanted=_number(said.get("node_count")) or 1,
        memory_per_cpu_mib=_number(said.get("memory_per_cpu")) or 0,
        memory_per_node_mib=_number(said.get("memory_per_node")) or 0,
        whole_nodes=_is_alone(said),
        array_id=_number(said.get("array_job_id")) or 0,
        array_task=_number(said.get("array_task_id")),
        array_tasks=said.get("array_task_string") or "",
        array_limit=_number(said.get("array_max_tasks")) or 0,
        priority=_or(_number(said.get("priority")), 1),
        time_limit_min=_number(said.get("time_limit")),
        start_s=_number(said.get("start_time")) or 0,
        end_s=_number(said.get("end_time")) or 0,
        switched_s=_number(said.get("suspend_time")) or 0,
        restarts=_number(said.get("restart_cnt")) or 0,
    )


def _number(said: object) -> int | None:
    """Read a number of any version; None where there is none, or it is without limit."""
    if isinstance(said, Mapping):
        if said.get("infinite") or not said.get("set", True):
            return None
        said = said.get("number")
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    return int(said) if 0 <= said < _NO_NUMBER else None


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number


def _words(said: object) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(str(word) for word in said)  # type: ignore[attr-defined]


def _comment(said: object) -> str:
    return str((said.get("job") if isinstance(said, Mapping) else said) or "")


def _exit_status(said: object) -> int | None:
    """Read an exit code: 22.05 gives it as the kernel does, later ones take it apart."""
    if isinstance(said, Mapping) and "return_code" in said:
        signal = said.get("signal") or {}
        by_signal = _number(signal.get("id", signal.get("signal_id")))
        return None if by_signal else _number(said["return_code"]) or 0
    status = _number(said)
    if status is None or status & _SIGNALS:
        return None
    return status >> 8


def _is_alone(said: Mapping[str, Any]) -> bool:
    """Whether it was submitted with ``--exclusive``: it then shares with "none"; no word at all is usual."""
    for said_of in (said.get("shared"), said.get("exclusive")):
        words = said_of if isinstance(said_of, list) else [said_of]
        if {"none", "true", "exclusive"} & {word.lower() for word in words if isinstance(word, str)}:
            return True
    return False


def _cpus_by_node(said: Mapping[str, Any]) -> dict[str, int]:
    """Say what a job has on each node; where that is not told node by node, each has as much."""
    names = node_names(said.get("nodes") or "")
    resources = said.get("job_resources") or {}
    told = resources.get("nodes")
    nodes = told.get("allocation") if isinstance(told, Mapping) else resources.get("allocated_nodes")
    cpus = {name: count for name, count in map(_cpus_there, nodes or []) if count}
    if cpus.keys() == set(names):
        return _scaled(cpus, _number(said.get("cpus")))
    total = _number(said.get("cpus")) or len(names)
    return {name: -(-total // len(names)) for name in names}


def _cpus_there(node: Mapping[str, Any]) -> tuple[str, int]:
    """Read the share of one node: counted by later versions, core by core in earlier ones."""
    name = str(node.get("nodename") or node.get("name") or "")
    cpus = node.get("cpus")
    if isinstance(cpus, Mapping) and "count" in cpus:
        return name, int(cpus["count"])
    sockets = node.get("sockets")
    each: Iterable[Any] = sockets.values() if isinstance(sockets, Mapping) else sockets or []
    return name, sum(len(socket.get("cores") or ()) for socket in each)


def _scaled(cores: dict[str, int], cpus: int | None) -> dict[str, int]:
    """Make CPUs of cores, of which each may have several."""
    total = sum(cores.values())
    if not cpus or cpus <= total:
        return cores
    return {name: -(-count * cpus // total) for name, count in cores.items()}


# --- one line per thing: scontrol --oneliner ----------------------------------------------------------------


def read_partitions(text: str) -> dict[str, Partition]:
    """Read what ``scontrol --oneliner show partition`` answers; raises BadReply."""
    lines = _lines(text, "PartitionName")
    return {line["PartitionName"]: Partition(line["PartitionName"], _minutes(line["MaxTime"])) for line in lines}


def _minutes(said: str) -> int | None:
    found = _CLOCK.fullmatch(said)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes + bool(seconds)


def _lines(text: str, key: str) -> list[dict[str, str]]:
    """Take ``Key=value`` apart, line by line; a value that has spaces is cut, and none of ours has."""
    lines = [dict(re.findall(r"(?:^|\s)([\w:/]+)=(\S*)", line)) for line in text.splitlines() if line.strip()]
    try:
        return [line for line in lines if line[key]]
    except KeyError:
        raise BadReply(f"scontrol answered something without {key}") from None


def gives_memory_out(config: str) -> bool:
    """Say whether a cluster gives out memory as it does CPUs, from what ``scontrol show config`` answers."""
    found = re.search(r"^SelectTypeParameters\s*=\s*(\S+)", config, re.MULTILINE)
    return found is not None and "MEMORY" in found[1].upper()
