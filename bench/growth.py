"""How does memory grow with the log? The same load, longer and longer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from bench.children import cost_of, leasehold, log_of, simulation_alone
from bench.race import PROCS, Say

RUNS = 2


@dataclass(frozen=True, slots=True)
class Growth:
    """The most memory held for a log of so many jobs, in the leaner of two runs: threads make it vary.

    ``simulating_mib``  while the log is read, simulated and written down
    ``command_mib``     by ``leasehold sim run``, which then reads the tables to say what happened
    """

    jobs: int
    simulating_mib: float
    command_mib: float


def growth(folder: Path, jobs: int, say: Say) -> Growth:
    """Replay a log with loose estimates."""
    say(f"memory, {jobs:,} jobs")
    log, run = log_of(folder, jobs, "loose"), folder / "run"
    commands = (simulation_alone(log, PROCS, run), leasehold(log, PROCS, run))
    return Growth(jobs, *(min(_peak_mib(command, run) for _ in range(RUNS)) for command in commands))


def _peak_mib(command: Sequence[str], run: Path) -> float:
    rmtree(run, ignore_errors=True)
    return cost_of(command).peak_mib
