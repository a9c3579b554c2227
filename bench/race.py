"""The script and Leasehold on the same log, in turn, each as a whole process.

Interpreter start, imports, reading and writing count too: they are part of what a user waits for.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.children import Cost, answer_of, by_hand, cost_of, leasehold, log_of

PROCS = 256

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Race:
    """One log, and what each pair of runs cost: the script first, Leasehold second."""

    estimates: str
    jobs: int
    pairs: list[tuple[Cost, Cost]]
    agreement: dict[str, Any]

    def speeds(self) -> tuple[float, float]:
        """Jobs per CPU-second of each, the median of its runs."""
        scripts, ours = zip(*self.pairs, strict=True)
        return _median_speed(self.jobs, scripts), _median_speed(self.jobs, ours)

    def peaks_mib(self) -> tuple[float, float]:
        """The most memory that any run of each held."""
        scripts, ours = zip(*self.pairs, strict=True)
        return max(run.peak_mib for run in scripts), max(run.peak_mib for run in ours)

    def ratios(self) -> list[float]:
        """How many times as many jobs per CPU-second Leasehold did, pair by pair, in rising order."""
        return sorted(script.cpu_s / ours.cpu_s for script, ours in self.pairs)

    def as_json(self) -> dict[str, Any]:
        """Everything measured and what follows from it."""
        scripted, ours = self.speeds()
        followed = {"by_hand_jobs_per_cpu_s": scripted, "leasehold_jobs_per_cpu_s": ours}
        return asdict(self) | followed | {"ratios": self.ratios()}


def race(folder: Path, estimates: str, jobs: int, rounds: int, say: Say) -> Race:
    """Run both ``rounds`` times in turn, after one round that does not count."""
    log = log_of(folder, jobs, estimates)
    table, run = folder / "by_hand.csv", folder / "run"
    pairs = []
    for number in range(rounds + 1):
        say(f"{estimates} estimates, {jobs:,} jobs: {f'round {number}' if number else 'warm-up'}")
        pairs.append((cost_of(by_hand(log, PROCS, table)), cost_of(leasehold(log, PROCS, run))))
    return Race(estimates, jobs, pairs[1:], answer_of("bench.agreement", str(table), str(run)))


def _median_speed(jobs: int, runs: tuple[Cost, ...]) -> float:
    return jobs / median(run.cpu_s for run in runs)
