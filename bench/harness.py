"""What a case of the benchmark is, and how a figure is judged.

A case yields readings; a reading belongs to a figure of `thresholds.toml`, which says what is wanted and what was
measured last, where and when. A figure is a ratio of runs in turn, or a time in seconds of the machine on which
the yardstick (`by_hand` on one small log) takes ``yardstick_s``: the yardstick runs in turn with whatever is
timed, so that a busy or slower machine slows both. Peaks of memory stand as they are.

A reading that is worse than the last one by more than its margin is a regression. What is wanted but not yet
reached is only said.
"""

import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from bench.race import PURE, Setting, Skipped

THRESHOLDS = Path(__file__).with_name("thresholds.toml")
SAME_MACHINE, OTHER_MACHINE = 0.8, 0.5
"""How much of the recorded speed is kept at least; ratios differ between machines, too."""
EXPONENT_MARGIN = 0.4


class Unit(Enum):
    """What a figure is counted in, and how it is written; ``TIMES`` and ``SHARE`` are better when larger."""

    TIMES = "times"
    SHARE = "share"
    SECONDS = "s"
    MICROSECONDS = "µs"
    MEMORY = "MB"
    DAYS = "days"
    STARTS = "starts"
    EXPONENT = "exponent"

    @property
    def more_is_better(self) -> bool:
        """Whether larger figures are better."""
        return self in {Unit.TIMES, Unit.SHARE}

    def text(self, value: float) -> str:
        """Write a figure as people read it."""
        match self:
            case Unit.TIMES | Unit.SHARE | Unit.EXPONENT:
                return f"{value:.2f}"
            case Unit.STARTS:
                return f"{value:.1f}"
            case Unit.SECONDS:
                return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004
            case _:
                return f"{value:,.0f}"

    def meets(self, value: float, wanted: float) -> bool:
        """Whether a figure is as good as wanted."""
        return value >= wanted if self.more_is_better else value <= wanted

    def is_worse(self, value: float, before: float, kept: float) -> bool:
        """Whether a figure keeps less than ``kept`` of an earlier one."""
        if self is Unit.EXPONENT:
            return value > before + EXPONENT_MARGIN
        return value < before * kept if self.more_is_better else value > before / kept


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of a figure: by which variant of Leasehold, and for how much (``size``, in words)."""

    figure: str
    variant: str
    size: str
    value: float


@dataclass(frozen=True, slots=True)
class Record:
    """A reading that was written down, with the day and the machine."""

    variant: str
    size: str
    value: float
    on: str
    machine: str


@dataclass(frozen=True, slots=True)
class Figure:
    """What is wanted of each variant, what was measured, and what the time goes into where that is not reached."""

    name: str
    what: str
    unit: Unit
    wanted: dict[str, float] = field(default_factory=dict)
    note: str = ""
    measured: tuple[Record, ...] = ()

    def recorded(self, variant: str, size: str) -> Record | None:
        """Return what was measured last of the same thing."""
        return next((one for one in self.measured if (one.variant, one.size) == (variant, size)), None)

    def reaches(self, variant: str, value: float) -> bool | None:
        """Whether what is wanted is reached; None where nothing is."""
        return self.unit.meets(value, self.wanted[variant]) if variant in self.wanted else None

    def with_record(self, record: Record) -> "Figure":
        """Replace what was measured of the same thing."""
        others = [one for one in self.measured if (one.variant, one.size) != (record.variant, record.size)]
        return replace(self, measured=tuple(sorted([*others, record], key=_place)))


def _place(record: Record) -> tuple[bool, str]:
    return record.variant != PURE, record.size


class Verdict(Enum):
    """What a reading is worth."""

    REGRESSED = "REGRESSED"
    NOT_REACHED = "not reached"
    REACHED = "reached"
    KEPT = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A reading beside its figure and what was recorded."""

    reading: Reading
    figure: Figure
    record: Record | None
    verdict: Verdict

    @property
    def line(self) -> str:
        """Say it in one line."""
        unit, one = self.figure.unit, self.reading
        before = f", was {unit.text(self.record.value)} ({self.record.on})" if self.record else ""
        wanted = f", wanted {unit.text(self.figure.wanted[one.variant])}" if one.variant in self.figure.wanted else ""
        return f"{one.figure} ({one.variant}, {one.size}): {unit.text(one.value)} {unit.value}{before}{wanted}"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All figures, and how long the yardstick took on the machine whose seconds they are."""

    yardstick_s: float
    figures: dict[str, Figure]

    @classmethod
    def read(cls, path: Path = THRESHOLDS) -> "Thresholds":
        """Read the file."""
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        figures = [_figure(one) for one in told["figure"]]
        return cls(told["yardstick_s"], {one.name: one for one in figures})

    def judge(self, reading: Reading, machine: str) -> Judged:
        """Compare with what was measured before, and with what is wanted; raises KeyError for an unknown figure."""
        figure = self.figures[reading.figure]
        record = figure.recorded(reading.variant, reading.size)
        kept = SAME_MACHINE if record and record.machine == machine else OTHER_MACHINE
        if record and figure.unit.is_worse(reading.value, record.value, kept):
            return Judged(reading, figure, record, Verdict.REGRESSED)
        reached = figure.reaches(reading.variant, reading.value)
        verdict = {None: Verdict.KEPT, True: Verdict.REACHED, False: Verdict.NOT_REACHED}[reached]
        return Judged(reading, figure, record, verdict)

    def updated(self, readings: Sequence[Reading], machine: str, day: str) -> "Thresholds":
        """Write readings down."""
        figures = dict(self.figures)
        for one in readings:
            record = Record(one.variant, one.size, float(f"{one.value:.4g}"), day, machine)
            figures[one.figure] = figures[one.figure].with_record(record)
        return replace(self, figures=figures)

    def toml(self) -> str:
        """Write the file."""
        lines = [
            "# What `make bench` holds to. Wanted values and notes are written by hand; `python -m bench --update`",
            "# writes what was measured, and nothing else. How it is judged: bench/harness.py.",
            "",
            "# CPU-seconds of the yardstick on the machine whose seconds these are",
            f"yardstick_s = {self.yardstick_s}",
        ]
        for figure in self.figures.values():
            lines += ["", *_figure_toml(figure)]
        return "\n".join(lines) + "\n"


def _figure(told: dict[str, Any]) -> Figure:
    measured = tuple(Record(**one) for one in told.pop("measured", []))
    return Figure(**told | {"unit": Unit(told["unit"]), "measured": measured})


def _figure_toml(figure: Figure) -> Iterator[str]:
    yield "[[figure]]"
    yield f"name = {_quoted(figure.name)}"
    yield f"what = {_quoted(figure.what)}"
    yield f"unit = {_quoted(figure.unit.value)}"
    if figure.wanted:
        yield f"wanted = {{ {', '.join(f'{variant} = {value}' for variant, value in figure.wanted.items())} }}"
    if figure.note:
        yield f"note = {_quoted(figure.note)}"
    if figure.measured:
        yield "measured = ["
        for one in figure.measured:
            told = f"variant = {_quoted(one.variant)}, size = {_quoted(one.size)}, value = {one.value}"
            yield f"    {{ {told}, on = {_quoted(one.on)}, machine = {_quoted(one.machine)} }},"
        yield "]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Case:
    """Something to measure: its name, what it shows, and how; only with ``--full`` where it is long."""

    name: str
    about: str
    run: Callable[[Setting], Iterator[Reading]]
    only_full: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What cases have read, and a line for each that could not run, or of which a program failed."""

    readings: list[Reading] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def measure(cases: Sequence[Case], setting: Setting) -> Measured:
    """Run the cases; what a case has read before it could not go on counts."""
    done = Measured()
    for case in cases:
        setting.say(f"{case.name}: {case.about}")
        if case.only_full and not setting.full:
            done.skipped.append(f"{case.name}: skipped, only with --full")
            continue
        try:
            for one in case.run(setting):
                done.readings.append(one)
        except Skipped as why:
            done.skipped.append(f"{case.name}: skipped, {why}")
        except subprocess.CalledProcessError as error:
            done.failed.append(f"{case.name}: {error}")
    return done
