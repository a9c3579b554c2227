"""What Slurm says of one node: its size, its state, which software its features name, and what is wrong with it."""

import re
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from leasehold.jobs.job import Fault
from leasehold.service.drivers.slurm.job import BadReply

_UNRESPONSIVE = "NOT_RESPONDING"
_REBOOTED = "unexpectedly rebooted"
_CLOSED = {
    "DRAIN": "is drained",
    "DRAINED": "is drained",
    "DRAINING": "is drained",
    "FAIL": "is marked as failing",
    "FAILING": "is marked as failing",
    "MAINT": "is under maintenance",
    "MAINTENANCE": "is under maintenance",
    "RESERVED": "is reserved",
    "INVALID_REG": "is not what Slurm's configuration says",
    "BLOCKED": "is blocked by a job that has other nodes to itself",
    "REBOOT_ISSUED": "is about to be restarted",
    "REBOOT_REQUESTED": "is about to be restarted",
    "POWERED_DOWN": "is powered down",
    "POWERING_DOWN": "is powered down",
    "POWER_DOWN": "is powered down",
    "FUTURE": "is not there yet",
    "UNKNOWN": "has not told its state yet",
}
"""Flags of a node on which nothing new starts, while what runs there goes on."""


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

    @property
    def is_unresponsive(self) -> bool:
        """Whether its slurmd does not answer the controller."""
        return _UNRESPONSIVE in self.flags


# --- scontrol --oneliner show node --------------------------------------------------------------------------

_OPEN = re.compile("IDLE|MIXED|ALLOCATED|COMPLETING|MIXED\\+COMPLETING|IDLE\\+COMPLETING")
_PAIR = re.compile(r"(?:^|\s)([\w:/]+)=(\S*)")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra|ReservationName)=")
"""People write these, and may write what looks like another key. They come last: the line is cut at the first."""
_REASON = re.compile(r"\sReason=(?P<text>.*?)\s*(?:\[[^\[\]\s]+@[^\[\]\s]+\]|$)")
_STATE_MARKS = "*~#!%$@^-+"
_EMPTY = frozenset({"", "(null)", "N/A", "n/a", "None", "Unknown"})
_MS = 1000


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
    reason = _REASON.search(line)
    name, cpus = fields["NodeName"], int(fields.get("CPUEfctv") or fields["CPUTot"])
    booted = _text(fields.get("BootTime", ""))
    features = _text(fields.get("ActiveFeatures", fields.get("Features", "")))  # earlier versions have one name
    return Node(
        name,
        cpus,
        int(fields["RealMemory"]),
        frozenset(filter(None, fields.get("Partitions", "").split(","))),
        _OPEN.fullmatch(fields.get("State", "")) is not None,
        flags=tuple(flag.strip(_STATE_MARKS) for flag in fields.get("State", "").split("+")),
        reason=_text(reason["text"]) if reason else "",
        free_cpus=max(0, cpus - _number(fields, "CPUAlloc")),
        allocated_memory_mib=_number(fields, "AllocMem"),
        disk_mib=_number(fields, "TmpDisk"),
        features=tuple(filter(None, features.split(","))),
        booted_ms=int(datetime.fromisoformat(booted).replace(tzinfo=UTC).timestamp() * _MS) if booted else 0,
        address=_text(fields.get("NodeAddr", "")),
        port=_number(fields, "Port"),
    )


def _text(value: str) -> str:
    return "" if value.strip() in _EMPTY else value.strip()


def _number(fields: Mapping[str, str], key: str) -> int:
    value = fields.get(key, "")
    return int(value) if value.isdecimal() else 0


# --- software by features -----------------------------------------------------------------------------------

_VERSIONED = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)[=/]v?(?P<version>\d[\w.+~:-]*)")
_HYPHENED = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)-(?P<version>\d[\w.]*)")


def software_of(features: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Read the features of a node as software, names in small letters.

    ``gcc-12.2``, ``gcc=12.2`` and ``gcc/12.2`` are gcc in version 12.2; a feature of another form, as ``avx2``,
    is a name of which no version is known.
    """
    found = ((feature, _VERSIONED.fullmatch(feature) or _HYPHENED.fullmatch(feature)) for feature in features)
    return frozenset(
        (match["name"].lower(), match["version"]) if match else (text.lower(), "") for text, match in found
    )


# --- problems -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """Why nothing can run on a node now, and which fault that is for what ran there; None: it goes on."""

    text: str
    fault: Fault | None = None


def problem_of(node: Node, *, refuses: bool = False) -> NodeProblem | None:
    """Say what is wrong with a node, as far as Slurm and its own port tell; None where nothing is.

    ``refuses``: the node refuses connections to its slurmd. Then it is neither the network nor the node that
    failed, but slurmd.
    """
    why = f": {node.reason}" if node.reason else ""
    if "DOWN" in node.flags or "ERROR" in node.flags:
        # Slurm has given its jobs up; a node that was only set down still works.
        has_died = _REBOOTED in node.reason or (node.is_unresponsive and not refuses)
        return NodeProblem(f"Slurm: the node is down{why}", Fault.NODE_DIED if has_died else Fault.SERVICE_STOPPED)
    if node.is_unresponsive:
        fault = Fault.SERVICE_STOPPED if refuses else Fault.NETWORK_FAILED
        return NodeProblem(f"Slurm: the node does not answer{why}", fault)
    closed = next((_CLOSED[flag] for flag in node.flags if flag in _CLOSED), None)
    return None if closed is None else NodeProblem(f"Slurm: the node {closed}{why}")


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
