"""What machines write on their consoles: a file for each machine and incarnation, kept when they are gone."""

import os
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from leasehold.service.enactors.qemu.disks import share

_NAME = re.compile(r"(?P<lease>\d+)\.(?P<number>\d+)\.(?P<incarnation>\d+)\.log")
_MOST_SHOWN = 256 * 1024
"""Bytes of each file."""

Key = tuple[int, int, int]
"""The lease, the number of the machine, and the incarnation."""


def consoles_of(folder: Path) -> Path:
    """Where they are, in the folder of a site."""
    return folder / "consoles"


def console_file(folder: Path, lease_id: int, number: int, incarnation: int) -> Path:
    """Where a machine writes in this incarnation of its lease."""
    return consoles_of(folder) / f"{lease_id}.{number}.{incarnation}.log"


def console_text(folder: Path, lease_id: int) -> str:
    """Give what the machines of a lease wrote, each from its beginning on; "" where there is nothing."""
    files = sorted((key, path) for key, path in _files(folder) if key[0] == lease_id)
    machines = [list(group) for _, group in groupby(files, key=lambda file: file[0][1])]
    texts = ["".join(_end_of(path) for _, path in machine) for machine in machines]
    if len(texts) <= 1:
        return "".join(texts)
    return "".join(f"--- machine {number} ---\n{text}" for number, text in enumerate(texts))


def share_consoles(theirs: Path, ours: Path, lease_id: int) -> None:
    """Let another site, to which a lease has moved, have what its machines wrote until then."""
    for key, path in _files(theirs):
        if key[0] == lease_id:
            share(path, consoles_of(ours) / path.name)


def forget_consoles(folder: Path, lease_id: int, up_to_incarnation: int) -> None:
    """Remove what another site has now."""
    for key, path in _files(folder):
        if key[0] == lease_id and key[2] <= up_to_incarnation:
            path.unlink(missing_ok=True)


def bound_consoles(folder: Path, most_bytes: int) -> None:
    """Let no guest fill our disk: of what has become longer than that, the later half is kept.

    QEMU appends to these files, wherever they end, so that it does not mind.
    """
    for _, path in _files(folder):
        if path.stat().st_size > most_bytes:
            with path.open("r+b") as file:
                file.seek(-most_bytes // 2, os.SEEK_END)
                later = file.read()
                file.truncate(0)
            with path.open("ab") as file:
                file.write(b"[...]\n" + later)


def keep_latest(folder: Path, most: int, living: set[int]) -> None:
    """Remove the consoles of those leases that were over first, where there are more than so many of them."""
    latest: dict[int, float] = {}
    for (lease_id, _, _), path in _files(folder):
        if lease_id not in living:
            latest[lease_id] = max(path.stat().st_mtime, latest.get(lease_id, 0.0))
    kept = sorted(latest, key=lambda lease_id: latest[lease_id], reverse=True)[:most]
    for (lease_id, _, _), path in _files(folder):
        if lease_id in latest and lease_id not in kept:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[Key, Path]]:
    for path in consoles_of(folder).glob("*.log"):
        found = _NAME.fullmatch(path.name)
        if found is not None:
            yield (int(found["lease"]), int(found["number"]), int(found["incarnation"])), path


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _MOST_SHOWN))
        text = file.read().decode(errors="replace").replace("\r\n", "\n")
    return text if size <= _MOST_SHOWN else f"[...]\n{text}"
