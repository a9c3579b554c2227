"""The five metrics of section 4.3, measured while a run passes.

======== ==============================================================================================
Util      CPU time of the jobs that completed, of all CPU time of the period
Comp      jobs that completed, of all that were submitted
Response  mean time from submission to start, of the jobs that started
Starv     eq 2: of each consumer at each virtual domain, what it was entitled to and did not use (ST) as far
          as jobs of it waited there (RT), over time; of all CPU time that was used (ET)
Violation eq 3: what each consumer used at each virtual domain above what it is entitled to (BET), over time;
          of all CPU time of the period
======== ==============================================================================================

Everything is counted in whole numbers, CPUs in parts per million, until the last division.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasehold.experiments.usla.settings import MS_PER_S, PPM

PERCENT = 100.0


class Cell:
    """One consumer at one virtual domain; ``entitled`` is its share of the CPUs there, in ppm of a CPU."""

    __slots__ = ("_since_ms", "above", "entitled", "running", "starved", "used_ms", "waiting")

    def __init__(self, entitled: int) -> None:
        """Begin with nothing."""
        self.entitled = entitled
        self.waiting = 0
        self.running = 0
        self.used_ms = 0
        self.starved = 0
        self.above = 0
        self._since_ms = 0

    def change(self, now_ms: int, waiting: int, running: int) -> None:
        """So many more, or fewer, jobs wait and run from now on."""
        self.pass_time(now_ms)
        self.waiting += waiting
        self.running += running

    def pass_time(self, now_ms: int) -> None:
        """Sum up what was since the last change."""
        passed_ms = now_ms - self._since_ms
        self._since_ms = now_ms
        self.used_ms += self.running * passed_ms
        missing = self.entitled - self.running * PPM
        if missing > 0:
            self.starved += min(missing, self.waiting * PPM) * passed_ms
        else:
            self.above -= missing * passed_ms


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of one run: percentages, and seconds for the response time."""

    util: float
    comp: float
    response: float
    starv: float
    violation: float

    def __getitem__(self, metric: str) -> float:
        """Give one of them by its name."""
        value: float = getattr(self, metric)
        return value


class Meter:
    """Counts what happens in a run."""

    def __init__(self, slots_per_domain: int, domains: int, shares: Sequence[float], horizon_ms: int) -> None:
        """Begin with nobody there; ``shares`` are those of each consumer, of each virtual domain."""
        entitled = [round(share * PPM) * slots_per_domain for share in shares]
        self.cells: Mapping[tuple[int, int], Cell] = {
            (consumer, domain): Cell(of_one)
            for consumer, of_one in enumerate(entitled)
            for domain in range(domains)
        }
        self._cpu_ms = slots_per_domain * domains * horizon_ms
        self._horizon_ms = horizon_ms
        self.submitted = self.started = self.completed = 0
        self.waited_ms = self.completed_ms = 0

    def submit(self, cell: tuple[int, int], now_ms: int) -> None:
        """Count a job that comes."""
        self.submitted += 1
        self.cells[cell].change(now_ms, 1, 0)

    def start(self, cell: tuple[int, int], waited_ms: int, now_ms: int) -> None:
        """Count a job that starts."""
        self.started += 1
        self.waited_ms += waited_ms
        self.cells[cell].change(now_ms, -1, 1)

    def complete(self, cell: tuple[int, int], duration_ms: int, now_ms: int) -> None:
        """Count a job that is done."""
        self.completed += 1
        self.completed_ms += duration_ms
        self.cells[cell].change(now_ms, 0, -1)

    def read(self) -> Measured:
        """Give the metrics at the end of the period; a mean over nobody is zero."""
        for cell in self.cells.values():
            cell.pass_time(self._horizon_ms)
        used_ms = sum(cell.used_ms for cell in self.cells.values())
        starved = sum(cell.starved for cell in self.cells.values())
        above = sum(cell.above for cell in self.cells.values())
        return Measured(
            util=PERCENT * self.completed_ms / self._cpu_ms,
            comp=PERCENT * self.completed / max(1, self.submitted),
            response=self.waited_ms / max(1, self.started) / MS_PER_S,
            starv=PERCENT * starved / (PPM * max(1, used_ms)),
            violation=PERCENT * above / (PPM * self._cpu_ms),
        )
