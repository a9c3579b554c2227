"""Reads ``scontrol --oneliner show node``: one line for each node, ``Key=value`` after ``Key=value``.

Values that people write, as the reason of a state, may hold anything, also what looks like another key. They
come last, so that the line is cut where the first of them begins.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from leasehold.service.drivers.slurm.node import Node

_OPEN = re.compile("IDLE|MIXED|ALLOCATED|COMPLETING|MIXED\\+COMPLETING|IDLE\\+COMPLETING")
_PAIR = re.compile(r"(?:^|\s)([\w:/]+)=(\S*)")
_WRITTEN_BY_PEOPLE = re.compile(r"\s(?:Reason|Comment|Extra|ReservationName)=")
_REASON = re.compile(r"\sReason=(?P<text>.*?)\s*(?:\[[^\[\]\s]+@[^\[\]\s]+\]|$)")
_MARKS = "*~#!%$@^-+"
_MS = 1000
_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "Unknown"})


class BadReply(ValueError):
    """A reply that makes no sense, or says that something went wrong; says what."""


def read_nodes(text: str) -> dict[str, Node]:
    """Read what ``scontrol --oneliner show node`` answers; raises BadReply."""
    try:
        return {node.name: node for node in map(_node, filter(str.strip, text.splitlines()))}
    except KeyError as error:
        raise BadReply(f"scontrol answered something without {error.args[0]}") from None
    except ValueError as error:
        raise BadReply(f"scontrol answered something else than nodes: {error!r}") from error


def _node(line: str) -> Node:
    end = _WRITTEN_BY_PEOPLE.search(line)
    said = dict(_PAIR.findall(line[: end.start()] if end else line))
    reason = _REASON.search(line)
    name, cpus = said["NodeName"], int(said.get("CPUEfctv") or said["CPUTot"])
    return Node(
        name,
        cpus,
        int(said["RealMemory"]),
        frozenset(filter(None, said.get("Partitions", "").split(","))),
        _OPEN.fullmatch(said.get("State", "")) is not None,
        words=tuple(word.strip(_MARKS) for word in said.get("State", "").split("+")),
        reason=_text(reason["text"]) if reason else "",
        free_cpus=max(0, cpus - _number(said, "CPUAlloc")),
        given_memory_mib=_number(said, "AllocMem"),
        disk_mib=_number(said, "TmpDisk"),
        features=_features(said),
        booted_ms=_time_ms(said.get("BootTime", "")),
        address=_text(said.get("NodeAddr", "")),
        port=_number(said, "Port"),
    )


def _text(value: str) -> str:
    return "" if value.strip() in _NOTHING else value.strip()


def _number(said: Mapping[str, str], key: str) -> int:
    value = said.get(key, "")
    return int(value) if value.isdecimal() else 0


def _time_ms(value: str) -> int:
    """Read a time; whoever asked did so in UTC."""
    if not _text(value):
        return 0
    return int(datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp() * _MS)


def _features(said: Mapping[str, str]) -> tuple[str, ...]:
    """Take those that a node has now; earlier versions call them by one name."""
    listed = said.get("ActiveFeatures", said.get("Features", ""))
    return tuple(name for name in _text(listed).split(",") if name)
