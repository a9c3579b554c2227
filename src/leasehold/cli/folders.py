"""Where results go: a folder of their own, and never over anything else."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path

from leasehold.model.errors import InvalidField
from leasehold.model.tables import MANIFEST

RUNS = Path("runs")
REPORT = "report.html"


def choose_folder(name: str, wanted: Path | None, *, force: bool = False) -> Path:
    """Give the folder for a run's results, which does not exist yet or is empty.

    Without a wish it is ``runs/NAME-TIME``. Raises InvalidField for a folder that holds something, unless
    ``force`` is given and it is an earlier run: that one is to be removed (see `made_room`).
    """
    if wanted is None:
        return _new_folder(name)
    if wanted.exists() and not wanted.is_dir():
        raise InvalidField("--out", str(wanted), "a folder, not a file")
    if wanted.is_dir() and any(wanted.iterdir()):
        if not force:
            raise InvalidField("--out", str(wanted), "a new or empty folder, or --force to replace a run")
        if not _is_run(wanted):
            raise InvalidField("--out", str(wanted), "the folder of an earlier run: --force replaces nothing else")
    return wanted


@contextmanager
def made_room(folder: Path) -> Iterator[None]:
    """Put an earlier run aside while a new one is made: it is back if that fails, gone if it does not.

    Folders above that were made for nothing are taken away again.
    """
    missing = [parent for parent in folder.parents if not parent.exists()]
    aside = folder.with_name(f"{folder.name}.replaced")
    replaces = folder.is_dir() and _is_run(folder)
    if replaces:
        folder.rename(aside)
    try:
        yield
    finally:
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
        elif replaces:
            aside.rename(folder)
        for parent in missing:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _is_run(folder: Path) -> bool:
    """A run folder has a manifest; the folder of a demonstration has run folders and at most a report."""
    if (folder / MANIFEST).is_file():
        return True
    inside = [path for path in folder.iterdir() if path.name != REPORT]
    return bool(inside) and all((path / MANIFEST).is_file() for path in inside)


def _new_folder(name: str) -> Path:
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip("-.")
    stem = f"{plain or 'run'}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(RUNS / name for name in names if not (RUNS / name).exists())
