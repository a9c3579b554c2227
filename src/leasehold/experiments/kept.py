"""What a campaign has measured: one Parquet file for each configuration, one row for each seed.

Each row carries a mark of the configuration and of the code that made it. Results with another mark are made
again and replaced, or taken over where they are known to be the same (`campaign.take_over`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Self

import polars as pl

DECIDES = (
    "configuration",
    "model",
    "leasing",
    "routing",
    "gateway",
    "simulation/kernel.py",
    "simulation/scenario",
    "simulation/workload",
)
"""The parts of Leasehold that decide what a simulated federation does."""

CONFIGURATION, SEED, MARK, TAKEN_OVER = "configuration", "seed", "mark", "taken_over"
FOLDER = "configurations"
"""Where results are in the folder of an evaluation."""

TAKEN_OVER_WHEN = "taken over when a sample of every configuration, made again, was the same to the last bit"

Runs = Mapping[str, Sequence[int]]
"""The runs that are meant: of each configuration, these seeds."""
Rows = dict[int, dict[str, float]]
"""What was measured, by seed and metric."""
Results = Mapping[str, Mapping[str, Sequence[float]]]
"""By configuration and metric: one value for each seed, in the order of the seeds."""


def marks(parts: Sequence[str], decided: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Mark the results of each configuration by what decides them, and by the code in ``parts``."""
    code = code_mark(tuple(parts))
    return {name: sha256(f"{code}{json.dumps(data)}".encode()).hexdigest()[:16] for name, data in decided.items()}


@cache
def code_mark(parts: tuple[str, ...]) -> str:
    """Name code by what is in its files; a part is a package or a file below ``leasehold``."""
    package, digest = files("leasehold"), sha256()
    for part in parts:
        for text in _sources(package / part):
            digest.update(text)
    return digest.hexdigest()


def _sources(part: Traversable) -> list[bytes]:
    """Give the Python files of a package, or one file, in order of their names."""
    if part.is_file():
        return [part.read_bytes()] if part.name.endswith(".py") else []
    inside = sorted(part.iterdir(), key=lambda each: each.name)
    return [text for each in inside if each.name != "__pycache__" for text in _sources(each)]


class Kept:
    """Results by configuration and seed, in memory and, where there is a folder, there."""

    def __init__(self, folder: Path | None, marks: Mapping[str, str]) -> None:
        """Read what is there; ``marks`` are those of each configuration as it is now."""
        self._folder = folder
        self._marks = marks
        self._found: dict[str, Rows] = {name: {} for name in marks}
        self._earlier: dict[str, Rows] = {name: {} for name in marks}
        self._taken_over: dict[str, set[int]] = {name: set() for name in marks}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name in marks:
                self._read(folder / f"{name}.parquet", name)

    def aside(self) -> Self:
        """Make an empty one for the same configurations, in memory alone."""
        return type(self)(None, self._marks)

    def _read(self, path: Path, name: str) -> None:
        if not path.is_file():
            return
        for row in pl.read_parquet(path).iter_rows(named=True):
            seed, is_ours = row.pop(SEED), row.pop(MARK) == self._marks[name]
            if row.pop(TAKEN_OVER, False) and is_ours:
                self._taken_over[name].add(seed)
            (self._found if is_ours else self._earlier)[name][seed] = row

    def of(self, name: str) -> Mapping[int, Mapping[str, float]]:
        """Give what is known of a configuration, by seed."""
        return self._found[name]

    def earlier(self, name: str) -> Mapping[int, Mapping[str, float]]:
        """Give the results of a configuration that have another mark, by seed."""
        return self._earlier[name]

    def results(self, runs: Runs) -> Results:
        """Give what was measured in these runs, all of which have to be there."""
        return {name: self._by_metric(name, seeds) for name, seeds in runs.items()}

    def _by_metric(self, name: str, seeds: Sequence[int]) -> dict[str, list[float]]:
        rows = [self._found[name][seed] for seed in seeds]
        return {metric: [row[metric] for row in rows] for metric in rows[0]}

    def every_result(self, runs: Runs) -> pl.DataFrame:
        """Give one row for each of these runs; null where a configuration has no such metric."""
        tables = (
            self.table(name).filter(pl.col(SEED).is_in(list(seeds))).select(pl.lit(name).alias(CONFIGURATION), pl.all())
            for name, seeds in runs.items()
        )
        empty = pl.DataFrame(schema={CONFIGURATION: pl.String, SEED: pl.Int64})
        return pl.concat(tables, how="diagonal") if runs else empty

    def add(self, name: str, measured: Mapping[int, Mapping[str, float]]) -> None:
        """Keep more results of a configuration; its file is replaced as a whole, never half written."""
        self._found[name] |= {seed: dict(values) for seed, values in measured.items()}
        self._taken_over[name] -= measured.keys()
        self._write(name)

    def take_over(self, name: str) -> int:
        """Keep earlier results as valid, except for seeds that have newer ones; returns how many."""
        taken = {seed: row for seed, row in self._earlier[name].items() if seed not in self._found[name]}
        self._found[name] |= taken
        self._taken_over[name] |= taken.keys()
        self._earlier[name] = {}
        self._write(name)
        return len(taken)

    def _write(self, name: str) -> None:
        if self._folder is None:
            return
        path = self._folder / f"{name}.parquet"
        aside = path.with_suffix(".part")
        taken_over = pl.col(SEED).is_in(sorted(self._taken_over[name])).alias(TAKEN_OVER)
        self.table(name).with_columns(pl.lit(self._marks[name]).alias(MARK), taken_over).write_parquet(aside)
        aside.replace(path)

    def footnote(self, runs: Runs) -> str:
        """Say at the end of a report how many of its runs earlier code has made; "" for none."""
        count = sum(len(self._taken_over[name].intersection(seeds)) for name, seeds in runs.items())
        total = sum(map(len, runs.values()))
        return f"\n{count:,} of {total:,} runs were made by earlier code, and {TAKEN_OVER_WHEN}.\n" if count else ""

    def table(self, name: str) -> pl.DataFrame:
        """Give what is known of a configuration as a table, in order of the seeds."""
        return pl.DataFrame([{SEED: seed, **values} for seed, values in sorted(self._found[name].items())])
