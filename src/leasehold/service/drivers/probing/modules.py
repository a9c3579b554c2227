"""Which environment modules are there? As ``module -t avail`` writes them, or as files in a folder."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][\w.+/-]*")
_LABEL = re.compile(r"\s*(\((?:default|[A-Za-z,]{1,9})\)|<[^>]*>)\s*$")
_NO_VERSIONS = frozenset({".version", ".modulerc", ".modulerc.lua"})
_MODULES_AT_MOST = 20_000


def read_avail(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Read ``module -t avail`` or ``module -t spider``, of Tcl modules or of Lmod; what is none is left out.

    The last part of a name is its version: ``tools/gcc/12.2`` is gcc 12.2, and also tools/gcc 12.2.
    """
    for line in lines:
        text = _LABEL.sub("", line.strip())
        if not text.endswith((":", "/")) and _NAME.fullmatch(text):
            yield from _named(text)


def _named(text: str) -> Iterator[tuple[str, str]]:
    path, _, version = text.rpartition("/")
    if not path:
        yield version.lower(), ""
        return
    yield path.lower(), version
    if "/" in path:
        yield path.rpartition("/")[2].lower(), version


def modules_in(folder: Path) -> frozenset[tuple[str, str]]:
    """Read the modulefiles below a folder, as ``gcc/12.2`` or ``gcc/12.2.lua``.

    Raises OSError where the folder cannot be read.
    """
    next(folder.iterdir(), None)  # what cannot be read at all is not empty
    found: list[str] = []
    for place, _, files in os.walk(folder):
        names = (Path(place, name).relative_to(folder) for name in files if name not in _NO_VERSIONS)
        found += [str(name).removesuffix(".lua") for name in names if not name.name.startswith(".")]
        if len(found) > _MODULES_AT_MOST:
            break
    return frozenset(read_avail(found))
