"""What does a description of a job say? The same, whether it was JSON, XML, options or a form.

Its fields are read one by one: what each may be, and what it means. Amounts are as people write them, ``2GiB`` and
``2.4GHz``, and numbers may come as text, as all do in XML.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from leasehold.configuration.keys import MOST_CHARACTERS, Keys
from leasehold.configuration.times import read_duration_ms
from leasehold.jobs.job import HIGHEST_INDEX, MOST_IN_ARRAY, Backup
from leasehold.matching.devices import devices_of
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import Software, software
from leasehold.model.errors import InvalidField
from leasehold.model.request import LEASE_TYPES, MOST_DURATION_MS, LeaseType
from leasehold.model.resources import gpus_text, parse_gpus

_MOST_BITS = 128
_AMOUNT = re.compile(r"(?P<number>\d{1,20}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-z]*)", re.ASCII)
_WHOLE = re.compile(r"\d{1,19}(\.0+)?", re.ASCII)
_NUMBER = re.compile(r"\d*\.?\d+(e-?\d+)?", re.ASCII)

BYTES: Mapping[str, int] = MappingProxyType(
    {"B": 1}
    | {letter: 1024**power for power, letter in enumerate("KMGT", 1)}
    | {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}
    | {f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)}
)
"""Units of memory and disk; a letter alone is binary, as with Slurm."""

HERTZ: Mapping[str, int] = MappingProxyType({"Hz": 1, "kHz": 1000, "MHz": 1000**2, "GHz": 1000**3})

MIB = BYTES["MiB"]
MHZ = HERTZ["MHz"]


def read_bytes(field: str, value: object, plain: str = "B") -> int:
    """Read an amount of memory or disk, in bytes; a number without a unit has the unit ``plain``."""
    return _amount(field, value, BYTES, plain, "2GiB")


def read_mib(field: str, value: object, plain: str = "B", least: int = 0) -> int:
    """Read an amount of memory or disk in MiB, rounded up; less than one is a unit that was forgotten."""
    count = read_bytes(field, value, plain)
    if count < least * MIB or 0 < count < MIB:
        raise InvalidField(field, value, f"at least 1 MiB: {_forms(BYTES, plain, '2GiB')}")
    return -(-count // MIB)


def read_mhz(field: str, value: object, plain: str = "Hz") -> int:
    """Read the speed of a core in MHz, rounded up; what is less than one is a unit that was forgotten."""
    hertz = _amount(field, value, HERTZ, plain, "2.4GHz")
    if 0 < hertz < MHZ:
        raise InvalidField(field, value, f"at least 1 MHz: {_forms(HERTZ, plain, '2.4GHz')}")
    return -(-hertz // MHZ)


def _amount(field: str, value: object, units: Mapping[str, int], plain: str, example: str) -> int:
    found = _AMOUNT.fullmatch(_text(value))
    unit = units.get(found["unit"] or plain) if found else None
    if found is None or unit is None:
        raise InvalidField(field, value, _forms(units, plain, example))
    return math.ceil(Decimal(found["number"]) * unit)


def _forms(units: Mapping[str, int], plain: str, example: str) -> str:
    return f"a number of {plain}, or one with its unit, such as {example} (units: {', '.join(units)})"


def read_whole(field: str, value: object, least: int, most: int) -> int:
    """Read a whole number from ``least`` to ``most``; 2.0 is one, too, as in a range of JSDL."""
    text = _text(value)
    if not _WHOLE.fullmatch(text) or not least <= int(Decimal(text)) <= most:
        raise InvalidField(field, value, f"a whole number from {least} to {most}")
    return int(Decimal(text))


def read_between(field: str, value: object, least: float, most: float) -> float:
    """Read a number above ``least`` and below ``most``."""
    text = _text(value)
    if not _NUMBER.fullmatch(text) or not least < float(text) < most:
        raise InvalidField(field, value, f"a number above {least:g} and below {most:g}")
    return float(text)


def _text(value: object) -> str:
    """Give a number or a text as text; of anything else nothing that could be an amount."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return ""  # Python refuses to write very long ones
    is_said = isinstance(value, int | float | str) and not isinstance(value, bool)
    return f"{value}".strip() if is_said else ""


DEFAULT_MEMORY_MIB = 256
DEFAULT_RESTARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """One job, as it is requested.

    ``needs``        what each of its nodes must have; its inputs are those of the whole job
    ``environment``  variables that its command finds, by name
    ``array``        the indexes of an array, for each of which it runs once; empty: it runs once
    ``deadline_ms``  by when it has to be done, Unix ms
    ``reliability``  how sure it is to be done by then, None where nothing is asked
    """

    command: tuple[str, ...]
    needs: Needs
    name: str = ""
    group: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    array: tuple[int, ...] = ()
    deadline_ms: int | None = None
    reliability: float | None = None
    backup: Backup = Backup.NONE
    lease_type: LeaseType = LeaseType.SUSPENDABLE
    restarts: int = DEFAULT_RESTARTS


def body_of(description: JobDescription) -> dict[str, Any]:
    """Give what a gateway is asked with, but for the deadline, which each side writes in its own way."""
    needs = description.needs
    body: dict[str, Any] = {
        "command": list(description.command),
        "cores": needs.amounts.cores,
        "memory_mib": needs.amounts.memory_mib,
        "disk_mib": needs.amounts.disk_mib,
        "cpu_mhz": needs.cpu_mhz,
        **({"gpus": show_gpus(needs)} if needs.amounts.gpus else {}),
        "nodes": needs.nodes,
        **({"need": needs.need} if needs.need else {}),
        "software": [str(one) for one in needs.software],
        "inputs": [_body_of_input(file) for file in needs.inputs],
        "execution_s": _seconds(needs.execution_ms),
        "backup": description.backup.value,
        "type": description.lease_type.label,
        "restarts": description.restarts,
    }
    optional: dict[str, Any] = {
        "name": description.name,
        "group": description.group,
        "reliability": description.reliability,
    }
    optional |= {"environment": dict(description.environment), "array": list(description.array)}
    optional |= {"outputs": list(needs.outputs)}
    return body | {key: value for key, value in optional.items() if value}


def _body_of_input(file: InputFile) -> dict[str, Any]:
    stored = {"sha256": file.sha256} if file.sha256 else {}
    return {"name": file.name, "size_bytes": file.size_bytes, "place": file.place} | stored


def _seconds(ms: int) -> int | float:
    return ms / 1000 if ms % 1000 else ms // 1000


MOST_CORES = 1_000_000
MOST_NODES = 1_000_000
MOST_MIB = 2**31
MOST_MHZ = 1_000_000
MOST_RESTARTS = 100
MOST_WORDS = 100
MOST_LISTED = 1_000
MOST_VARIABLES = 100
MOST_ENVIRONMENT_BYTES = 8 * 1024
MOST_FILE_BYTES = 2**50

NOT_SERVED = frozenset(
    {
        "ApplicationName", "ApplicationVersion", "CandidateHosts", "CPUArchitecture", "CreationFlag",
        "DeleteOnTermination", "Error", "ExclusiveExecution", "FileSystem", "FilesystemName",
        "IndividualCPUTime", "IndividualNetworkBandwidth", "IndividualVirtualMemory", "Input",
        "OperatingSystem", "Output", "Target", "TotalCPUCount", "TotalCPUTime", "TotalDiskSpace",
        "TotalPhysicalMemory", "TotalVirtualMemory", "WallTimeLimit", "WorkingDirectory",
    }
)  # fmt: skip
"""Names of JSDL that mean something which Leasehold does not do: leaving them out silently would change the job."""

_NOTES = ("Description", "JobAnnotation")
"""Names of JSDL that say something to people, and nothing about how to run the job."""

_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]{0,199}")
_INDEXES = re.compile(r"(?P<first>[0-9]{1,7})(-(?P<last>[0-9]{1,7})(:(?P<step>[0-9]{1,7}))?)?")
_NO_WORD = re.compile("[\\0\\ud800-\\udfff]")
_RANGES = ("LowerBoundedRange", "Exact")
_OF_INPUTS = ("FileName", "Source", "Size")


@dataclass(frozen=True, slots=True)
class Looking:
    """What a description speaks of and does not hold itself.

    ``moment_ms``  reads a moment, given its field and its text, in Unix ms
    ``size_of``    gives the bytes of a file, given its field and its path

    Both raise InvalidField.
    """

    moment_ms: Callable[[str, str], int]
    size_of: Callable[[str, str], int]


def read_fields(values: Mapping[str, Any], looking: Looking) -> JobDescription:
    """Check all fields; raises InvalidField or UnknownName with the place of the first that is wrong."""
    keys = Keys(values)
    for note in _NOTES:
        _note(keys, note)
    description = JobDescription(
        name=keys.text("JobName", ""),
        group=keys.text("JobProject", ""),
        command=_command(keys),
        environment=_environment(keys),
        array=_array(keys),
        needs=_needs(keys, looking),
        deadline_ms=_deadline(keys, looking),
        reliability=_between(keys, "Reliability"),
        backup=Backup(keys.name_of("Backup", Backup, "none")),
        lease_type=LEASE_TYPES[keys.name_of("LeaseType", LEASE_TYPES, "suspendable")],
        restarts=_whole(keys, "Restarts", DEFAULT_RESTARTS, 0, MOST_RESTARTS),
    )
    _refuse_the_rest(keys)
    if description.reliability is not None and description.deadline_ms is None:
        expected = "a time: Reliability is the probability of ending by then"
        raise InvalidField("Deadline", None, expected)
    return description


def _note(keys: Keys, key: str) -> None:
    """Pass over what is said to people, on as many lines as they like."""
    value = keys.take(key, "")
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        raise InvalidField(keys.where(key), value, f"a text of at most {MOST_CHARACTERS} characters")


def _refuse_the_rest(keys: Keys) -> None:
    for key in keys.left():
        if key in NOT_SERVED:
            raise InvalidField(keys.where(key), keys.take(key), "nothing: this field of JSDL is not supported")
    keys.done()


def _command(keys: Keys) -> tuple[str, ...]:
    executable = _word(keys.where("Executable"), keys.take("Executable", expected="the program to run"))
    arguments: object = keys.take("Argument", [])
    if not isinstance(arguments, list) or len(arguments) >= MOST_WORDS:
        raise InvalidField(keys.where("Argument"), arguments, f"a list of fewer than {MOST_WORDS} words")
    words = (_word(f"{keys.where('Argument')}[{number}]", word) for number, word in enumerate(arguments))
    if not executable:
        raise InvalidField(keys.where("Executable"), executable, "the program to run")
    return (executable, *words)


def _environment(keys: Keys) -> tuple[tuple[str, str], ...]:
    values: object = keys.take("Environment", {})
    if not isinstance(values, dict):
        raise InvalidField(keys.where("Environment"), values, "an object with the value of each variable by its name")
    return read_environment(keys.where("Environment"), values)


def read_environment(field: str, values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Check the variables of a command; raises InvalidField with the place of the first that is wrong."""
    found = tuple((_variable(field, name), _word(f"{field}.{name}", value)) for name, value in values.items())
    if len(found) > MOST_VARIABLES:
        raise InvalidField(field, len(found), f"at most {MOST_VARIABLES} variables")
    if sum(len(f"{name}={value}".encode()) for name, value in found) > MOST_ENVIRONMENT_BYTES:
        raise InvalidField(field, "(not shown)", f"at most {MOST_ENVIRONMENT_BYTES} bytes in all variables together")
    return found


def _variable(field: str, name: object) -> str:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise InvalidField(field, name, "the name of a variable: letters, digits and _, not beginning with a digit")
    return name


def _outputs(keys: Keys) -> tuple[str, ...]:
    names = keys.texts("OutputFile", ())
    for name in names:
        if "/" in name or name in {".", ".."}:
            raise InvalidField(
                keys.where("OutputFile"), name, "the name of a file in the working folder, without folders"
            )
    return names


def _array(keys: Keys) -> tuple[int, ...]:
    text = keys.text("Array", None)
    return () if text is None else read_array(keys.where("Array"), text)


def read_array(field: str, text: str) -> tuple[int, ...]:
    """Read the indexes of an array, as ``1-10``, ``0-20:5`` or ``1,3,5-7``; raises InvalidField."""
    expected = "indexes such as 1-10, 0-20:5 (every fifth) or 1,3,5-7"
    indexes: set[int] = set()
    for part in text.split(","):
        found = _INDEXES.fullmatch(part.strip())
        if found is None:
            raise InvalidField(field, text, expected)
        first, step = int(found["first"]), int(found["step"] or 1)
        last = int(found["last"] or first)
        if last < first or not step or last > HIGHEST_INDEX:
            raise InvalidField(field, text, f"{expected}, each at most {HIGHEST_INDEX}")
        indexes.update(range(first, last + 1, step))
        if len(indexes) > MOST_IN_ARRAY:
            raise InvalidField(field, text, f"at most {MOST_IN_ARRAY} indexes")
    return tuple(sorted(indexes))


def show_array(indexes: tuple[int, ...]) -> str:
    """Write indexes as `read_array` reads them."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _word(field: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS or _NO_WORD.search(value):
        expected = f"a text of at most {MOST_CHARACTERS} characters, without NUL"
        raise InvalidField(field, value, expected)
    return value


def show_gpus(needs: Needs) -> str:
    """Write the GPUs of each node, as ``a100:2``; "" for none."""
    return gpus_text(needs.gpu_model, needs.gpu_milli)


def _gpus(keys: Keys) -> tuple[str, int]:
    text = keys.take("GPUs", "")
    return parse_gpus(_word(keys.where("GPUs"), text), keys.where("GPUs")) if text else ("", 0)


def _needs(keys: Keys, looking: Looking) -> Needs:
    gpu_model, gpu_milli = _gpus(keys)
    return Needs(
        amounts=Amounts(
            cores=_whole(keys, "IndividualCPUCount", 1, 1, MOST_CORES),
            memory_mib=_mib(keys, "IndividualPhysicalMemory", DEFAULT_MEMORY_MIB, least=1),
            disk_mib=_mib(keys, "IndividualDiskSpace", 0, least=0),
            gpus=devices_of(gpu_milli),
        ),
        gpu_model=gpu_model,
        cpu_mhz=_mhz(keys, "IndividualCPUSpeed"),
        nodes=_whole(keys, "TotalResourceCount", 1, 1, MOST_NODES),
        need=_whole(keys, "NeededResourceCount", 0, 0, MOST_NODES),
        software=tuple(_software(*one) for one in _listed(keys, "Software")),
        inputs=tuple(_input(place, one, looking) for place, one in _listed(keys, "DataStaging")),
        execution_ms=_execution(keys),
        outputs=_outputs(keys),
    )


def _ranged(keys: Keys, key: str) -> tuple[str, object] | None:
    """Take a value with its place, also out of a range of JSDL; None where there is none."""
    value, place = keys.take(key, None), keys.where(key)
    if not isinstance(value, dict):
        return None if value is None else (place, value)
    for name in _RANGES:
        if set(value) == {name}:
            return f"{place}.{name}", value[name]
    raise InvalidField(place, value, f"a value, or one in {' or '.join(_RANGES)}")


def _whole(keys: Keys, key: str, usual: int, least: int, most: int) -> int:
    found = _ranged(keys, key)
    return usual if found is None else read_whole(*found, least, most)


def _mib(keys: Keys, key: str, usual: int, least: int) -> int:
    found = _ranged(keys, key)
    mib = usual if found is None else read_mib(*found, least=least)
    if found is not None and mib > MOST_MIB:
        raise InvalidField(*found, f"at most {MOST_MIB} MiB")
    return mib


def _mhz(keys: Keys, key: str) -> int:
    found = _ranged(keys, key)
    mhz = 0 if found is None else read_mhz(*found)
    if found is not None and mhz > MOST_MHZ:
        raise InvalidField(*found, f"at most {MOST_MHZ} MHz")
    return mhz


def _between(keys: Keys, key: str) -> float | None:
    value = keys.take(key, None)
    return None if value is None else read_between(keys.where(key), value, 0, 1)


def _execution(keys: Keys) -> int:
    expected = "how long the job is thought to run, such as 3600 (seconds) or 90m"
    value = keys.take("ExecutionTime", expected=expected)
    is_said = isinstance(value, int | float | str) and not isinstance(value, bool)
    if not is_said or (not isinstance(value, str) and not value <= MOST_DURATION_MS // 1000):
        raise InvalidField(keys.where("ExecutionTime"), value, expected)
    execution_ms = read_duration_ms(keys.where("ExecutionTime"), str(value))
    if execution_ms > MOST_DURATION_MS:
        raise InvalidField(keys.where("ExecutionTime"), value, "at most ten years")
    return execution_ms


def _deadline(keys: Keys, looking: Looking) -> int | None:
    text = keys.text("Deadline", None)
    return None if text is None else looking.moment_ms(keys.where("Deadline"), text)


def _listed(keys: Keys, key: str) -> list[tuple[str, Any]]:
    """Take a list, each entry with its place; a single value is a list of one."""
    value: object = keys.take(key, [])
    entries = value if isinstance(value, list) else [value]
    if len(entries) > MOST_LISTED:
        raise InvalidField(keys.where(key), value, f"at most {MOST_LISTED} entries")
    return [(f"{keys.where(key)}[{number}]", entry) for number, entry in enumerate(entries)]


def _software(place: str, text: object) -> Software:
    if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
        raise InvalidField(place, text, "a name, and constraints as in 'gcc >= 12, < 14'")
    return read_software(place, text)


def read_software(field: str, text: str) -> Software:
    """Read what a job needs of a piece of software; raises InvalidField with its place."""
    try:
        return software(text)
    except InvalidField as error:
        raise InvalidField(field, error.value, error.expected) from None


def _input(place: str, values: object, looking: Looking) -> InputFile:
    if not isinstance(values, dict):
        raise InvalidField(place, values, f"an object with {', '.join(_OF_INPUTS)}")
    keys = Keys(values, place)
    name = keys.text("FileName")
    source, size = _source(keys), keys.take("Size", None)
    _refuse_the_rest(keys)
    where = keys.where("Size")
    if source is None and size is not None:
        return InputFile(name, _size(where, size, ""), place="")
    path, host = (name, "") if source is None else _at(keys, source)
    if host:
        expected = "how large it is, as it cannot be looked at from here"
        address = "" if source in {None, address_of(host, name)} else str(source)
        return InputFile(name, _size(where, size, expected), host, address)
    size_bytes = looking.size_of(keys.where("FileName" if source is None else "Source"), path)
    return InputFile(name, size_bytes, "", address=path)


def _size(field: str, value: object, expected: str) -> int:
    if value is None:
        raise InvalidField(field, value, expected)
    size = read_bytes(field, value)
    if size > MOST_FILE_BYTES:
        raise InvalidField(field, value, f"at most {MOST_FILE_BYTES} bytes (1 PiB)")
    return size


def _source(keys: Keys) -> str | None:
    """Take where an input comes from: a text, or a ``URI`` within."""
    value = keys.take("Source", None)
    if value is None:
        return None
    if isinstance(value, str):
        return _word(keys.where("Source"), value)
    within = Keys(value, keys.where("Source"))
    uri = within.text("URI")
    within.done()
    return uri


def address_of(place: str, name: str) -> str:
    """Give the address of a file of which no more is said than its name and where it lies."""
    return f"site://{quote(place, safe='')}/{quote(name)}"


def _at(keys: Keys, source: str) -> tuple[str, str]:
    """Give the path of a file of this machine, or the name of the place that it lies at."""
    try:
        parts = urlsplit(source)
    except ValueError:
        parts = urlsplit("nowhere:")
    if parts.scheme in {"", "file"} and not parts.netloc:
        return unquote(parts.path) if parts.scheme else source, ""
    host = unquote(parts.netloc.rpartition("@")[2].partition(":")[0])
    if not host:
        expected = "a path, or an address with the place of the file, such as gsiftp://lyon/survey.fits"
        raise InvalidField(keys.where("Source"), source, expected)
    return "", host
