"""The whole evaluation: every configuration with every seed, kept in a folder."""

from pathlib import Path

from leasehold.experiments.kept import Kept
from leasehold.experiments.marks import mark
from leasehold.experiments.usla import world
from leasehold.experiments.usla.published import METRICS
from leasehold.experiments.usla.settings import Plan, plan

SEEDS = 100
QUICK_SEEDS = 10

_MAKES_RESULTS = (
    "model",
    "sharing",
    "leasing",
    "routing",
    "gateway",
    "simulation/kernel.py",
    "experiments/usla/agreements.py",
    "experiments/usla/metrics.py",
    "experiments/usla/workload.py",
    "experiments/usla/world.py",
)


def measure(name: str, seed: int) -> dict[str, float]:
    """Run one configuration of the plan with one seed."""
    measured = world.run(plan().configurations[name], seed)
    return {metric: measured[metric] for metric in METRICS}


def kept_in(folder: Path | None, read: Plan) -> Kept:
    """Look what of this plan was done before."""
    marks = {name: mark(_MAKES_RESULTS, one.as_data()) for name, one in read.configurations.items()}
    return Kept.below(folder, marks)
