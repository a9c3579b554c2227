"""On which workloads predictions are scored: the file ``calibration.toml`` as it states it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from leasehold.experiments import evaluation
from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log
from leasehold.simulation.scenario.parse import load_scenario, packaged_path
from leasehold.simulation.scenario.spec import Scenario

NAME = "calibration"


@dataclass(frozen=True, slots=True)
class Workload(evaluation.Configuration):
    """A log with its options, or a packaged scenario.

    ``sample, replications``  as in `leasehold.simulation.calibrate.Sampling`
    ``keys``                  set over those of the scenario
    """

    title: str
    sample: int
    replications: int
    log: str = ""
    scenario: str = ""
    procs: str = ""
    guests: str | None = None
    horizon_s: float | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def part(self) -> str:
        """Its name on the command line, whatever its size."""
        return f"{NAME}-{self.name.removesuffix(QUICK)}"

    def load(self, logs: Path | None) -> Scenario:
        """Make the scenario; logs are in the folder. Raises as `scenario_for_log` does."""
        horizon = {} if self.horizon_s is None else {"horizon_s": self.horizon_s}
        keys = {**self.keys, **horizon}
        if self.scenario:
            return load_scenario(packaged_path(self.scenario), keys)
        return scenario_for_log((logs or Path()) / self.log, LogOptions(self.procs, guests=self.guests), keys)


QUICK = "-quick"


@cache
def plan() -> evaluation.Plan[Workload]:
    """Read what is predicted: each workload, whole and quick."""
    stated = evaluation.read(__package__, "calibration.toml")
    whole = [Workload(**one) for one in stated["workload"]]
    quick = [Workload(**(one | stated["quick"] | {"name": one["name"] + QUICK})) for one in stated["workload"]]
    return evaluation.Plan(stated, {one.name: one for one in (*whole, *quick)})
