"""The lines of a log, plain or gzip, with every way of failing told as one line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

from leasehold.model.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, unpacked if it is gzip, whatever its name.

    Bytes that are no UTF-8 survive as surrogate escapes, so that a header can be written back as it was.
    Raises InputError for a file that cannot be opened, is cut off or is damaged.
    """
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):  # noqa: B007  # the handlers tell how far reading got
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"the gzip file is cut off or damaged after this line ({error})"
        raise InputError(path, number, problem) from error
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from error


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    if packed:
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape"))
    return path.open(encoding="utf-8", errors="surrogateescape")
