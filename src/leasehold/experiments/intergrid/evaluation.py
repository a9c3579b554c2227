"""The evaluation, or some figures of it: every configuration with every replication, kept in a folder."""

from collections.abc import Sequence
from pathlib import Path

from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.settings import Plan, configuration_named
from leasehold.experiments.kept import Kept
from leasehold.experiments.marks import DECIDES, mark

REPLICATIONS = 100

_MAKES_RESULTS = (
    *DECIDES,
    "experiments/intergrid/metrics.py",
    "experiments/intergrid/scenario.py",
    "experiments/intergrid/without_preemption.py",
    "experiments/intergrid/world.py",
)


def measure(name: str, replication: int) -> dict[str, float]:
    """Run one configuration of a plan, by its name."""
    return world.run(configuration_named(name), replication)


def names_for(read: Plan, figures: Sequence[str]) -> list[str]:
    """Name the configurations that these figures need; those of the controls only for all figures."""
    letters = sorted({read.study.figures[figure].letter for figure in figures})
    return read.names_of(letters, controls=set(figures) == set(read.study.figures))


def kept_in(folder: Path | None, read: Plan) -> Kept:
    """Look what of this plan was done before."""
    said = {"published": read.said["published"], "stream": read.said["stream"]}
    marks = {name: mark(_MAKES_RESULTS, one.as_data() | said) for name, one in read.configurations.items()}
    return Kept.below(folder, marks)
