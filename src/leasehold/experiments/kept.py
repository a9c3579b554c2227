"""What a campaign has done already: one Parquet file for each configuration, one row for each seed.

Each row carries the mark of what made it. Results of another configuration, or of other code, are not taken
for ours: they are measured anew, and replaced.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import polars as pl

SEED, MARK = "seed", "mark"
FOLDER = "configurations"
"""Where they are in the folder of an evaluation."""

Results = Mapping[str, Mapping[str, Sequence[float]]]
"""By configuration and metric: one value for each seed, in the order of the seeds."""


class Kept:
    """Results by configuration and seed, in memory and, where there is a folder, there."""

    def __init__(self, folder: Path | None, marks: Mapping[str, str]) -> None:
        """Look what is there; ``marks`` are those of each configuration as it is now."""
        self._folder = folder
        self._marks = marks
        self._found: dict[str, dict[int, dict[str, float]]] = {name: {} for name in marks}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name in marks:
                self._found[name] = self._read(folder / f"{name}.parquet", marks[name])

    @classmethod
    def below(cls, folder: Path | None, marks: Mapping[str, str]) -> Self:
        """Look what is there in the folder of an evaluation; None: nothing is kept on the disk."""
        return cls(None if folder is None else folder / FOLDER, marks)

    @staticmethod
    def _read(path: Path, mark: str) -> dict[int, dict[str, float]]:
        if not path.is_file():
            return {}
        rows = pl.read_parquet(path).filter(pl.col(MARK) == mark).drop(MARK).iter_rows(named=True)
        return {row.pop(SEED): row for row in rows}

    def of(self, name: str) -> Mapping[int, Mapping[str, float]]:
        """Give what is known of a configuration, by seed."""
        return self._found[name]

    def by_metric(self, name: str, seeds: Sequence[int]) -> dict[str, list[float]]:
        """Give what was measured of a configuration, in the order of these seeds; all have to be there."""
        rows = [self._found[name][seed] for seed in seeds]
        return {metric: [row[metric] for row in rows] for metric in rows[0]}

    def add(self, name: str, measured: Mapping[int, Mapping[str, float]]) -> None:
        """Keep more of a configuration; the file is replaced as a whole, so that it is never half written."""
        self._found[name] |= {seed: dict(values) for seed, values in measured.items()}
        if self._folder is not None:
            path = self._folder / f"{name}.parquet"
            aside = path.with_suffix(".part")
            self.table(name).with_columns(pl.lit(self._marks[name]).alias(MARK)).write_parquet(aside)
            aside.replace(path)

    def table(self, name: str) -> pl.DataFrame:
        """Give what is known of a configuration as a table, in order of the seeds."""
        return pl.DataFrame([{SEED: seed, **values} for seed, values in sorted(self._found[name].items())])
