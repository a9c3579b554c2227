"""The whole evaluation: every configuration with every seed, kept in a folder."""

from pathlib import Path

from leasehold.experiments.hybrid import world
from leasehold.experiments.hybrid.settings import Plan, configuration_named
from leasehold.experiments.kept import Kept
from leasehold.experiments.marks import mark

SEEDS = 30
QUICK_SEEDS = 6

_MAKES_RESULTS = (
    "model/errors.py",
    "matching",
    "jobs",
    "experiments/hybrid/metrics.py",
    "experiments/hybrid/situation.py",
    "experiments/hybrid/workload.py",
    "experiments/hybrid/world.py",
)


def measure(name: str, seed: int) -> dict[str, float]:
    """Run one configuration with one seed."""
    return world.run(configuration_named(name), seed)


def kept_in(folder: Path | None, read: Plan) -> Kept:
    """Look what of this plan was done before."""
    marks = {name: mark(_MAKES_RESULTS, one.as_data()) for name, one in read.configurations.items()}
    return Kept.below(folder, marks)
