"""What machines write: files for each machine and incarnation, which are kept after the machines are gone.

``.log`` is its console, ``.out`` the output of its command alone, and ``.err`` its standard error; ``.cut`` marks one
whose output or errors have lost their beginning. ``.file0`` and so on are the files that it has left, ``.names`` says
what they are called.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.guest_files import PART
from leasehold.service.drivers.reconciler.provider import MachineFailed

CONSOLE, OUTPUT, ERROR, CUT, NAMES = ".log", ".out", ".err", ".cut", ".names"
_NAME = re.compile(
    rf"(?P<lease>\d+)\.(?P<number>\d+)\.(?P<incarnation>\d+)\.(log|cut|(out|err|names|file\d+)({PART})?)"
)
_MOST_SHOWN = 256 * 1024
"""Bytes of each file."""

Key = tuple[int, int, int]
"""The lease, the number of the machine, and the incarnation."""


def output_folder(folder: Path) -> Path:
    """Where these files are, in the folder of a site."""
    return folder / "consoles"


def console_file(folder: Path, lease_id: int, number: int, incarnation: int) -> Path:
    """The console of a machine in this incarnation of its lease."""
    return output_folder(folder) / f"{lease_id}.{number}.{incarnation}.log"


def console_text(folder: Path, lease_id: int) -> str:
    """Give the consoles of a lease's machines, each from its beginning; "" where there is nothing."""
    return joined(["".join(map(_end_of, paths)) for paths in _of_each_machine(folder, lease_id, CONSOLE)])


def output_of(folder: Path, lease_id: int, most_bytes: int) -> Output:
    """Give the output of a lease's commands, at most the last ``most_bytes`` of each machine."""
    text, is_whole = _written(folder, lease_id, OUTPUT, most_bytes)
    error, is_error_whole = _written(folder, lease_id, ERROR, most_bytes)
    return Output(text, is_whole and is_error_whole, error)


def _written(folder: Path, lease_id: int, suffix: str, most_bytes: int) -> tuple[str, bool]:
    machines = _of_each_machine(folder, lease_id, suffix)
    wrote = [b"".join(path.read_bytes() for path in paths) for paths in machines]
    is_cut = any(path.with_suffix(CUT).exists() for paths in machines for path in paths)
    texts = [text[-most_bytes:].decode(errors="replace") for text in wrote]
    return joined(texts), not is_cut and all(len(one) <= most_bytes for one in wrote)


def output_file(folder: Path, lease_id: int, number: int, incarnation: int, suffix: str) -> Path:
    """Where the output (``.out``) of a machine's command is kept, or its standard error (``.err``)."""
    return output_folder(folder) / f"{lease_id}.{number}.{incarnation}{suffix}"


def left_file(folder: Path, lease_id: int, incarnation: int, number: int) -> Path:
    """Where a file is kept that a command has left, by its place among the outputs."""
    return output_folder(folder) / f"{lease_id}.0.{incarnation}.file{number}"


def write_left_files(folder: Path, lease_id: int, incarnation: int, problems: Mapping[str, str]) -> None:
    """Write down which files a command has left, and why others could not be had: a problem for each name, or ""."""
    path = output_folder(folder) / f"{lease_id}.0.{incarnation}{NAMES}"
    part = path.with_name(path.name + PART)
    part.write_text(json.dumps(problems), encoding="utf-8")
    part.replace(path)


def has_left_files(folder: Path, lease_id: int, incarnation: int) -> bool:
    """Whether what a command has left in this incarnation of its lease was written down."""
    return (output_folder(folder) / f"{lease_id}.0.{incarnation}{NAMES}").exists()


def left_files(folder: Path, lease_id: int) -> dict[str, Path | str]:
    """Give the files that a command has left, or why one could not be had."""
    written = sorted((key, path) for key, path in _files(folder) if key[0] == lease_id and path.suffix == NAMES)
    if not written:
        return {}
    (_, _, incarnation), path = written[-1]
    problems = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: problem or left_file(folder, lease_id, incarnation, number)
        for number, (name, problem) in enumerate(problems.items())
    }


def discard_output(folder: Path, lease_id: int, number: int, incarnation: int) -> None:
    """Remove a command's output of earlier incarnations, as it starts from the beginning."""
    for key, path in _files(folder):
        if key[:2] == (lease_id, number) and key[2] < incarnation and path.suffix != CONSOLE:
            path.unlink(missing_ok=True)


def _of_each_machine(folder: Path, lease_id: int, suffix: str) -> list[list[Path]]:
    """Give the files of each machine of a lease, by incarnation."""
    files = sorted((key, path) for key, path in _files(folder) if key[0] == lease_id and path.suffix == suffix)
    machines = groupby(files, key=lambda file: file[0][1])
    return [[path for _, path in group] for _, group in machines]


def joined(texts: list[str]) -> str:
    """Put together what machines have written, one after another; "" where none has."""
    if len(texts) <= 1 or not any(texts):
        return "".join(texts)
    return "".join(f"--- machine {number} ---\n{text}" for number, text in enumerate(texts))


def link_output(theirs: Path, ours: Path, lease_id: int) -> None:
    """Link what a lease's machines have written at the site that it comes from."""
    for key, path in _files(theirs):
        if key[0] == lease_id:
            link_shared(path, output_folder(ours) / path.name)


def link_shared(theirs: Path, ours: Path) -> None:
    """Give a file of another site a name of our own, repeatably; it stays until both names are removed.

    Raises MachineFailed.
    """
    try:
        os.link(theirs, ours)
    except FileExistsError:
        if not theirs.samefile(ours):
            ours.unlink()
            link_shared(theirs, ours)
    except FileNotFoundError:
        if not ours.exists():
            raise MachineFailed(f"{theirs} is not there any more") from None
    except OSError as error:
        raise MachineFailed(f"{theirs} cannot be shared: {error.strerror}") from None


def remove_output(folder: Path, lease_id: int, up_to_incarnation: int) -> None:
    """Remove what another site has linked."""
    for key, path in _files(folder):
        if key[0] == lease_id and key[2] <= up_to_incarnation:
            path.unlink(missing_ok=True)


def bound_consoles(folder: Path, most_bytes: int) -> None:
    """Truncate consoles that are longer to their later half, so that no guest fills the disk.

    QEMU appends to these files, wherever they end.
    """
    for path in _longer(folder, CONSOLE, most_bytes):
        _cut(path, most_bytes // 2, b"[...]\n")


def bound_outputs(folder: Path, most_bytes: int) -> None:
    """Truncate output as well; as much is kept as may be asked for."""
    for suffix in (OUTPUT, ERROR):
        for path in _longer(folder, suffix, 2 * most_bytes):
            path.with_suffix(CUT).touch()
            _cut(path, most_bytes)


def _longer(folder: Path, suffix: str, most_bytes: int) -> list[Path]:
    paths = (path for _, path in _files(folder) if path.suffix == suffix)
    return [path for path in paths if path.stat().st_size > most_bytes]


def _cut(path: Path, kept_bytes: int, begin: bytes = b"") -> None:
    with path.open("r+b") as file:
        file.seek(-kept_bytes, os.SEEK_END)
        later = file.read()
        file.truncate(0)
    with path.open("ab") as file:
        file.write(begin + later)


def keep_latest(folder: Path, most: int, living: set[int]) -> None:
    """Remove the files of all leases that are over but the latest ones."""
    latest: dict[int, float] = {}
    for (lease_id, _, _), path in _files(folder):
        if lease_id not in living:
            latest[lease_id] = max(path.stat().st_mtime, latest.get(lease_id, 0.0))
    kept = sorted(latest, key=lambda lease_id: latest[lease_id], reverse=True)[:most]
    for (lease_id, _, _), path in _files(folder):
        if lease_id in latest and lease_id not in kept:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[Key, Path]]:
    for path in output_folder(folder).iterdir() if output_folder(folder).is_dir() else ():
        found = _NAME.fullmatch(path.name)
        if found is not None:
            yield (int(found["lease"]), int(found["number"]), int(found["incarnation"])), path


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _MOST_SHOWN))
        text = file.read().decode(errors="replace").replace("\r\n", "\n")
    return text if size <= _MOST_SHOWN else f"[...]\n{text}"
