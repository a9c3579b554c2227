"""Reports: tables and paragraphs, as Markdown pages and in a terminal, and how numbers are written."""

import os
import platform
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import Any, TypeAlias

from leasehold.experiments.statistics import Interval

NOTHING = "-"
LEAST_P = 0.001
CPU_INFO = Path("/proc/cpuinfo")
MODEL = "model name"


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    """A table; the columns with ``figures`` are flush right."""

    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    figures: Container[int] = ()


@dataclass(frozen=True, slots=True)
class Title:
    """A line in a terminal that stands apart."""

    text: str


Block: TypeAlias = str | MarkdownTable | Title
"""A piece of a report: a paragraph, heading or list as in Markdown; a table; a title in a terminal."""


def markdown(blocks: Iterable[str | MarkdownTable]) -> str:
    """Write a page."""
    written = (block if isinstance(block, str) else "\n".join(_table(block)) for block in blocks if block)
    return "\n\n".join(written).rstrip() + "\n"


def _table(table: MarkdownTable) -> Iterator[str]:
    yield f"| {' | '.join(table.columns)} |"
    yield f"|{'|'.join('---:' if at in table.figures else '---' for at in range(len(table.columns)))}|"
    yield from (f"| {' | '.join(line)} |" for line in table.lines)


def bullets(lines: Iterable[str]) -> str:
    """Write a list."""
    return "\n".join(f"- {line}" for line in lines)


def opening(title: str, lesson: str, picture: str = "") -> Iterator[str]:
    """Begin a page with what it shows, in words and in a picture."""
    yield f"# {title}"
    yield f"**In short.** {lesson}"
    yield picture


def reasons(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Give the paragraphs of a file that say why something differs."""
    return [f"**{entry['about']}** {entry['text']}" for entry in entries]


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a report has
    """Give a value as JSON has it: data classes by fields, intervals by mean and bounds, NaN as null."""
    if isinstance(value, Interval):
        return {key: plain(getattr(value, key)) for key in ("mean", "low", "high")}
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def where() -> str:
    """Name the machine of a report: processors, how many, and Python."""
    count = os.cpu_count() or 1
    processors = f"{count} processor{'' if count == 1 else 's'}"
    return f"{processors} ({_processor()}), Python {platform.python_version()}"


def _processor() -> str:
    """Name the processor; where the system does not, its architecture."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith(MODEL))
    return next(named, platform.machine())


# Numbers


def probability(p: float) -> str:
    """Write a p-value."""
    return f"< {LEAST_P}" if p < LEAST_P else f"{p:.3f}"


def amount(found: Interval) -> str:
    """Write a mean and half the width of its interval, to the digits that matter: ``11,654 ± 812``."""
    if isnan(found.mean):
        return NOTHING
    digits = _digits(found.mean)
    return f"{found.mean:,.{digits}f} ± {found.half_width:,.{digits}f}"


def bounded(found: Interval) -> str:
    """Write a ratio with its bounds, as far as they are known."""
    if isnan(found.low):
        return NOTHING if isnan(found.mean) else f"{found.mean:.2f}"
    return f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})"


def signed(found: Interval) -> str:
    """Write a difference with its bounds, each with its sign."""
    digits = _digits(max(abs(found.low), abs(found.high)))
    return f"{found.mean:+,.{digits}f} ({found.low:+,.{digits}f} to {found.high:+,.{digits}f})"


def _digits(value: float) -> int:
    """Give the number of decimals: none from a hundred on, so that about three digits are shown."""
    return sum(abs(value) < bound for bound in (100, 10, 0.1, 0.01)) if value else 0
