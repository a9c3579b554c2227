"""Files in folders in which somebody else may write: read and written without following him anywhere."""

import os
import stat
from pathlib import Path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY


class NotAFile(OSError):
    """It is a link, a device, or somebody else's file, which whoever put it there may not read."""


def read_end(path: Path, most_bytes: int) -> tuple[str, bool]:
    """Read the end of a file, and say whether that is all of it.

    The folder that holds it belongs to somebody who may put there what he likes, also while this reads. What
    counts is a regular file, with no second name, that belongs to the owner of the folder; nothing is
    followed, and nothing waited for. Raises OSError where there is no such file.
    """
    folder = os.open(path.parent, _FOLDER)
    try:
        owner = os.fstat(folder).st_uid
        with os.fdopen(os.open(path.name, _READ, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != owner:
                raise NotAFile(f"{path} is not a file of its own")
            begin = max(0, found.st_size - most_bytes)
            file.seek(begin)
            return file.read(most_bytes).decode(errors="replace"), begin == 0
    finally:
        os.close(folder)


def write_anew(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file that is ours alone, in place of whatever has its name."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, mode), "w", encoding="utf-8") as file:
        file.write(text)
