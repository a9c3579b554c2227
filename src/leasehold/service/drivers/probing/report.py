"""Reads what the probe wrote on a node. What is not whole is no report: half a truth would be a wrong one."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.bounds import whole_in
from leasehold.service.drivers.probing.modules import read_avail
from leasehold.service.drivers.probing.script import BEGINS, ENDS

_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)(?::\w+)? (?P<version>[0-9A-Za-z][\w.+~:^-]*)")
_MOST = 2**40
"""Neither a disk has more MiB, nor a processor more MHz."""
_NO_EPOCH = re.compile(r"^0:")


class BadReport(LeaseholdError):
    """What a probe wrote is not whole, or no such thing; one line says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a node says of itself: 0 and empty where it does not know.

    ``boot_id``   changes whenever it is started anew
    ``disk_mib``  of the place for temporary files, and what is free there
    """

    software: frozenset[tuple[str, str]]
    cpu_mhz: int = 0
    disk_mib: int = 0
    free_disk_mib: int = 0
    boot_id: str = ""


def read_report(text: str) -> Report:
    """Read a report; raises BadReport."""
    lines = text.splitlines()
    if not lines or lines[0] != BEGINS:
        raise BadReport(f"a probe has written something else: {_start_of(lines)}")
    if lines[-1] != ENDS:
        raise BadReport(f"a probe was cut off after {len(lines)} lines")
    told = _sorted_out(lines[1:-1])
    disk = _numbers(told["disk"], "disk", 2)
    (mhz,) = _numbers(told["mhz"], "mhz", 1)
    return Report(
        software=frozenset(map(_package, told["package"])) | frozenset(read_avail(told["module"])),
        cpu_mhz=mhz,
        disk_mib=disk[0],
        free_disk_mib=min(disk),
        boot_id=told["boot"][0].strip() if told["boot"] else "",
    )


def _sorted_out(lines: Iterable[str]) -> Mapping[str, list[str]]:
    """Sort lines by their first word; a word that nobody knows is a sign that this is no report."""
    told: dict[str, list[str]] = {"boot": [], "mhz": [], "disk": [], "package": [], "module": []}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word not in told:
            raise BadReport(f"a probe has written something else: {line[:60]!r}")
        told[word].append(rest)
    return told


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
    return found["name"].lower(), _NO_EPOCH.sub("", found["version"])


def _start_of(lines: list[str]) -> str:
    return repr(lines[0][:60]) if lines else "nothing"
