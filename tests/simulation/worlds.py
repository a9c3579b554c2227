"""Small scenarios in which much happens within a few simulated hours: two busy clusters, and guests."""

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from leasehold.model.tables import TABLES
from leasehold.simulation.run import RunResult
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario

HOUR_S = 3_600
HOUR_MS = 1000 * HOUR_S

DAS2 = {
    "model": "das2", "l": 0.8, "m": 1.5, "h": 3.0, "q": 0.9, "p_one": 0.3, "p_pow2": 0.6,
    "a": 5.0, "b": 1.7, "alpha": 45.0, "beta": 0.5,
}  # fmt: skip

LogLine = tuple[int, int, int, int]
"""Submission, run time, processors and requested time, in seconds."""


def busy(**keys: Any) -> Scenario:
    """Clusters a and b of 16 and 8 slots with users of their own, and guests; ``keys`` are set over it."""
    values = {
        "name": "busy",
        "seed": 3,
        "horizon_s": 6 * HOUR_S,
        "reference_mips": 2,
        "gateway": {"policy": "rr"},
        "cluster": [
            {"name": "a", "slots": 16, "speed_mips": 3, "victims": "mov"},
            {"name": "b", "slots": 8, "speed_mips": 2, "non_preemptable_share": 0.5},
        ],
        "stream": [
            {"name": "a", "site": "a", **DAS2},
            {"name": "b", "site": "b", **DAS2, "alpha": 130.0},
            {"name": "guests", **DAS2, "alpha": 40.0},
        ],
    }
    return scenario_from_dict(values | keys)


def without_guests(scenario: Scenario) -> Scenario:
    values = scenario.to_dict()
    values["stream"] = [stream for stream in values["stream"] if "site" in stream]
    return scenario_from_dict(values)


def replaying(log: Path, slots: int = 4, **keys: Any) -> Scenario:
    """A scenario of one cluster, `a`, that replays a log."""
    stream = {"name": "own", "log": str(log), "site": "a", **keys}
    return scenario_from_dict({"name": "log", "cluster": [{"name": "a", "slots": slots}], "stream": [stream]})


def swf(lines: Iterable[LogLine]) -> str:
    """The text of a log with these jobs."""
    jobs = (
        f"{number} {submit} -1 {run} {vms} -1 -1 {vms} {asked} -1 1 1 1 -1 1 1 -1 -1\n"
        for number, (submit, run, vms, asked) in enumerate(lines, 1)
    )
    return "; MaxProcs: 4\n" + "".join(jobs)


def write_log(path: Path, lines: Iterable[LogLine]) -> Path:
    """Write a log, packed where its name ends so."""
    text = swf(lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def tables(run: RunResult | Path) -> Mapping[str, pl.DataFrame]:
    """Every table of a run folder that is there."""
    folder = run if isinstance(run, Path) else run.path
    files = {name: folder / f"{name}.parquet" for name in TABLES}
    return {name: pl.read_parquet(file) for name, file in files.items() if file.exists()}
