"""A job as the command line describes it: a file, options, or a file with options that change it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from leasehold.cli.live.leases import read_memory_mib
from leasehold.cli.live.times import now, read_moment
from leasehold.client import JobSpec
from leasehold.configuration.job_description.description import (
    DEFAULT_MEMORY_MIB,
    MOST_CORES,
    MOST_NODES,
    MOST_RESTARTS,
    JobDescription,
    Looking,
    body_of,
    read_between,
    read_bytes,
    read_mhz,
    read_mib,
    read_software,
    read_whole,
)
from leasehold.configuration.job_description.documents import SUFFIXES, load_description, size_of
from leasehold.configuration.times import read_duration_ms
from leasehold.jobs.job import Backup
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LEASE_TYPES

_ELSEWHERE = re.compile(r"(?P<name>.+):(?P<size>[^:@]+)@(?P<site>[^:@]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The options, None or "" where nothing is said."""

    software: Sequence[str] | None = None
    memory: str = ""
    cores: int | None = None
    disk: str = ""
    cpu_speed: str = ""
    nodes: int | None = None
    inputs: Sequence[str] | None = None
    execution: str = ""
    deadline: str = ""
    reliability: float | None = None
    backup: str = ""
    restarts: int | None = None
    lease_type: str = ""
    name: str = ""
    group: str = ""


def described(words: Sequence[str], said: Said) -> JobDescription:
    """Read what is described. The first word is a file if it ends as one does; the others are the command.

    Raises InputError for the file, and InvalidField for an option.
    """
    is_file = bool(words) and words[0].lower().endswith(SUFFIXES)
    command = tuple(words[1:] if is_file else words)
    base = _from_file(Path(words[0])) if is_file else _blank(command, said)
    return _changed(base, command or base.command, said)


def _from_file(path: Path) -> JobDescription:
    """Read a file; the paths in it begin where it is."""
    at = now()
    looking = Looking(
        moment_ms=lambda field, text: _unix_ms(read_moment(field, text, at)),
        size_of=lambda field, text: size_of(field, text, path.parent),
    )
    return load_description(path, looking)


def _blank(command: tuple[str, ...], said: Said) -> JobDescription:
    if not command:
        expected = "what to run, after --, or a file with a description (.json or .xml)"
        raise InvalidField("COMMAND", None, expected)
    if not said.execution:
        raise InvalidField("--execution", None, "how long it is thought to run, such as 90m")
    amounts = Amounts(cores=1, memory_mib=DEFAULT_MEMORY_MIB)
    return JobDescription(command=command, needs=Needs(amounts=amounts, execution_ms=1))


def _changed(base: JobDescription, command: tuple[str, ...], said: Said) -> JobDescription:
    changed = replace(
        base,
        command=command,
        needs=_needs(base.needs, said),
        name=said.name or base.name,
        group=said.group or base.group,
        deadline_ms=_deadline_ms(said) if said.deadline else base.deadline_ms,
        reliability=base.reliability if said.reliability is None else _reliability(said.reliability),
        backup=Backup(_named("--backup", said.backup, list(Backup))) if said.backup else base.backup,
        lease_type=LEASE_TYPES[_named("--type", said.lease_type, list(LEASE_TYPES))]
        if said.lease_type
        else base.lease_type,
        restarts=_whole("--restarts", said.restarts, base.restarts, 0, MOST_RESTARTS),
    )
    if changed.reliability is not None and changed.deadline_ms is None:
        raise InvalidField("--deadline", None, "a time, as --reliability is that of being done by then")
    return changed


def _needs(base: Needs, said: Said) -> Needs:
    usual = base.amounts
    return Needs(
        amounts=Amounts(
            cores=_whole("--cores", said.cores, usual.cores, 1, MOST_CORES),
            memory_mib=read_memory_mib(said.memory) if said.memory else usual.memory_mib,
            disk_mib=read_mib("--disk", said.disk, "MiB") if said.disk else usual.disk_mib,
        ),
        execution_ms=read_duration_ms("--execution", said.execution) if said.execution else base.execution_ms,
        nodes=_whole("--nodes", said.nodes, base.nodes, 1, MOST_NODES),
        cpu_mhz=read_mhz("--cpu-speed", said.cpu_speed, "MHz") if said.cpu_speed else base.cpu_mhz,
        software=tuple(read_software("--software", text) for text in said.software) if said.software else base.software,
        inputs=tuple(map(_input, said.inputs)) if said.inputs else base.inputs,
    )


def _whole(field: str, value: int | None, usual: int, least: int, most: int) -> int:
    return usual if value is None else read_whole(field, value, least, most)


def _reliability(value: float) -> float:
    return read_between("--reliability", value, 0, 1)


def _named(field: str, name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise UnknownName(field, name, known)
    return name


def _deadline_ms(said: Said) -> int:
    return _unix_ms(read_moment("--deadline", said.deadline, now()))


def _unix_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _input(text: str) -> InputFile:
    """Read ``NAME:SIZE@SITE``, or look at a file of this machine."""
    found = _ELSEWHERE.fullmatch(text)
    if found is not None and not Path(text).exists():
        return InputFile(found["name"], read_bytes("--input", found["size"]), found["site"])
    return InputFile(Path(text).name or text, size_of("--input", text), "")


def spec_of(description: JobDescription) -> JobSpec:
    """Give what the client asks a gateway with."""
    deadline_ms = description.deadline_ms
    deadline = None if deadline_ms is None else _EPOCH + deadline_ms * _MILLISECOND
    return JobSpec.of(**body_of(description), deadline=deadline)
