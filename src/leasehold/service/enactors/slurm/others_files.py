"""Files in folders in which somebody else may write: read and written without following him anywhere."""

import os
import stat
from pathlib import Path


class NotAFile(OSError):
    """It is a link, a device, or another name of some file, which whoever put it there may not read."""


def read_end(path: Path, most_bytes: int) -> tuple[str, bool]:
    """Read the end of a file, and say whether that is all of it; raises OSError where it cannot be read."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise NotAFile(f"{path} is no file of its own")
        begin = max(0, found.st_size - most_bytes)
        file.seek(begin)
        return file.read(most_bytes).decode(errors="replace"), begin == 0


def write_anew(path: Path, text: str) -> None:
    """Write a file that is ours alone, in place of whatever has its name."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:
        file.write(text)
