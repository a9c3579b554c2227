"""What all evaluations have in common: a file that states it, its runs, and a report of the results.

Each is a package: ``plan.py`` reads its TOML file, ``world.py`` makes one run, ``outcome.py`` compares the
results with what was published, and ``evaluation.py`` has its `Evaluation`: the campaign and its report. The
names ``plan``, ``measure``, ``campaign``, ``report``, ``page`` and ``screen`` mean the same in all of them.
"""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from leasehold.experiments.campaign import Measure
from leasehold.experiments.kept import Kept, Results, Runs
from leasehold.experiments.report import Block, MarkdownTable, markdown


@dataclass(frozen=True, slots=True)
class Interpretation:
    """How one thing is read that the publication leaves open, and why."""

    key: str
    reading: str
    why: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """One run, but for its seed."""

    name: str

    def as_data(self) -> dict[str, Any]:
        """Give what decides its results, as plain data."""
        return asdict(self)


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Plan(Generic[C]):
    """Everything that can be run, by name; ``stated`` is the file that states it."""

    stated: Mapping[str, Any]
    configurations: Mapping[str, C]

    @property
    def interpretations(self) -> list[Interpretation]:
        """How the publication is read."""
        return [Interpretation(**entry) for entry in self.stated["interpretation"]]

    def readings_table(self, *heads: str) -> MarkdownTable:
        """List the interpretations."""
        return MarkdownTable(heads, [[one.key, one.reading, one.why] for one in self.interpretations])


@cache
def read(package: str, file: str) -> Mapping[str, Any]:
    """Read a TOML file of a package, and the one that it is based on, whose keys it replaces."""
    stated = tomllib.loads((files(package) / file).read_text(encoding="utf-8"))
    return {**read(package, stated["based_on"]), **stated} if "based_on" in stated else stated


@dataclass(frozen=True, slots=True)
class Size:
    """How much of an evaluation is run: ``seeds`` of each configuration, and the folder of workload logs."""

    quick: bool = False
    seeds: int | None = None
    logs: Path | None = None

    def count(self, whole: int, quick: int) -> int:
        """Give the number of seeds: as asked for, else the default of the size."""
        return self.seeds or (quick if self.quick else whole)


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What came of an evaluation.

    ``data``           the same as ``page``, for programs
    ``page``           as Markdown
    ``screen``         what a terminal shows of it
    ``draw``           draws its pictures into a folder, and gives their paths
    ``every_result``   arranges the table of all runs
    ``beside``         further texts, by file name
    """

    name: str
    data: Mapping[str, Any]
    page: Callable[[], Iterable[str | MarkdownTable]]
    screen: Callable[[], Iterable[Block]]
    draw: Callable[[Path], list[Path]] = lambda _: []
    every_result: Callable[[pl.DataFrame], pl.DataFrame] = lambda results: results
    beside: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path, kept: Kept, runs: Runs) -> list[Path]:
        """Write page, pictures, data and every result, in place of earlier ones; gives the paths."""
        page, data, results = (folder / f"{self.name}.{kind}" for kind in ("md", "json", "parquet"))
        pictures = self.draw(folder)
        page.write_text(markdown(self.page()) + kept.footnote(runs), encoding="utf-8")
        data.write_text(json.dumps(self.data, indent=2) + "\n", encoding="utf-8")
        self.every_result(kept.every_result(runs)).write_parquet(results)
        for name, text in self.beside.items():
            (folder / name).write_text(text, encoding="utf-8")
        return [page, data, results, *pictures, *(folder / name for name in self.beside)]


@dataclass(frozen=True, slots=True)
class Campaign:
    """The runs of an evaluation, how one is measured, and the report of their results.

    ``marks``      of every configuration, as `kept.marks` gives them
    ``hand_over``  writes the jobs of logs into a folder, and gives ``measure`` for an interpreter that reads no logs;
                   None where there are no logs, or they cannot be handed over
    """

    runs: Runs
    marks: Mapping[str, str]
    measure: Measure
    report: Callable[[Results], EvaluationReport]
    hand_over: Callable[[Path], Measure] | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What can be run: all of it, or ``parts`` by name."""

    campaign: Callable[[Sequence[str], Size], Campaign]
    parts: Callable[[], Sequence[str]] = tuple
