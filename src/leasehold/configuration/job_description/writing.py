"""A description as a file has it: what `reading` reads from it is the same job again."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape

from leasehold.configuration.job_description.description import JobDescription, address_of
from leasehold.configuration.job_description.documents import JSDL, OURS, POSIX
from leasehold.matching.needs import InputFile
from leasehold.model.errors import InvalidField

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_POSIX = ("Executable", "Argument")
_OF_OURS = ("ExecutionTime", "Deadline", "Reliability", "Backup", "LeaseType", "Restarts")
_OF_RESOURCES = (
    "IndividualCPUSpeed", "IndividualCPUCount", "IndividualPhysicalMemory", "IndividualDiskSpace",
    "TotalResourceCount", "Software",
)  # fmt: skip
_ROOT = f'<JobDefinition xmlns="{JSDL}" xmlns:posix="{POSIX}" xmlns:job="{OURS}">'
_PREFIXES = {"Executable": "posix:", "Argument": "posix:", "Software": "job:", "Size": "job:"}
_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def fields_of(description: JobDescription) -> dict[str, Any]:
    """Give the fields of a description, without those that say what is usual anyway."""
    needs = description.needs
    said = {
        "JobName": description.name,
        "JobProject": description.group,
        "Executable": description.command[0],
        "Argument": list(description.command[1:]),
        "IndividualCPUSpeed": f"{needs.cpu_mhz}MHz" if needs.cpu_mhz else "",
        "IndividualCPUCount": needs.amounts.cores,
        "IndividualPhysicalMemory": f"{needs.amounts.memory_mib}MiB",
        "IndividualDiskSpace": f"{needs.amounts.disk_mib}MiB" if needs.amounts.disk_mib else "",
        "TotalResourceCount": needs.nodes,
        "Software": [str(one) for one in needs.software],
        "DataStaging": [_input(file) for file in needs.inputs],
        "ExecutionTime": needs.execution_ms / 1000 if needs.execution_ms % 1000 else needs.execution_ms // 1000,
        "Deadline": "" if description.deadline_ms is None else _moment(description.deadline_ms),
        "Reliability": description.reliability or "",
        "Backup": description.backup.value,
        "LeaseType": description.lease_type.label,
    }
    return {name: value for name, value in said.items() if value not in ("", [])} | {"Restarts": description.restarts}


def to_json(description: JobDescription) -> str:
    """Write a description as JSON."""
    return json.dumps(fields_of(description), indent=2, ensure_ascii=False)


def to_xml(description: JobDescription) -> str:
    """Write a description as JSDL, with our fields in a namespace of their own.

    Raises InvalidField for characters that XML cannot have.
    """
    fields = fields_of(description)
    identification = _elements(fields, ("JobName", "JobProject"))
    lines = [
        *(_within("JobIdentification", identification) if identification else []),
        *_within("Application", _within("posix:POSIXApplication", _elements(fields, _OF_POSIX))),
        *_within("Resources", _elements(fields, _OF_RESOURCES)),
        *_elements(fields, ("DataStaging",)),
        *_elements(fields, _OF_OURS),
    ]
    body = "\n".join(f"  {line}" for line in _within("JobDescription", lines))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_ROOT}\n{body}\n</JobDefinition>\n'


def _input(file: InputFile) -> dict[str, Any]:
    source = file.address or address_of(file.place, file.name)
    return {"FileName": file.name} | ({"Source": source} if file.place else {}) | {"Size": file.size_bytes}


def _moment(unix_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _elements(fields: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Write those of the fields that are there, each entry of a list as an element of its own."""
    return [line for name in names if name in fields for line in _each(name, fields[name])]


def _each(name: str, value: object) -> Iterator[str]:
    entries = value if isinstance(value, list) else [value]
    for number, entry in enumerate(entries):
        place = f"{name}[{number}]" if isinstance(value, list) else name
        yield from _element(name, entry, place)


def _element(name: str, value: object, place: str) -> list[str]:
    if name == "Source":
        return _within(name, _element("URI", value, place))
    if isinstance(value, dict):
        inner = [line for key, one in value.items() for line in _element(key, one, f"{place}.{key}")]
        return _within(name, inner)
    tag = f"{_prefix(name)}{name}"
    return [f"<{tag}>{_escaped(str(value), place)}</{tag}>"]


def _prefix(name: str) -> str:
    return "job:" if name in _OF_OURS else _PREFIXES.get(name, "")


def _within(tag: str, lines: list[str]) -> list[str]:
    return [f"<{tag}>", *(f"  {line}" for line in lines), f"</{tag}>"]


def _escaped(text: str, place: str) -> str:
    """Write text so that it is read as it is; line ends and tabs would be read as others."""
    if _NO_XML.search(text):
        raise InvalidField(place, text, "characters that XML can have")
    return escape(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
