"""The comparison, or one part of it: every configuration with every replication, kept in a folder."""

from pathlib import Path

from leasehold.experiments.kept import Kept
from leasehold.experiments.marks import DECIDES, mark
from leasehold.experiments.victims import world
from leasehold.experiments.victims.settings import INSTANTS, Plan, configuration_named

REPLICATIONS = 100
HOURS = 48
QUICK_REPLICATIONS, QUICK_HOURS = 5, 12

_MAKES_RESULTS = (
    *DECIDES,
    "experiments/intergrid/metrics.py",
    "experiments/intergrid/scenario.py",
    "experiments/victims/instants.py",
    "experiments/victims/often.py",
    "experiments/victims/others.py",
    "experiments/victims/world.py",
)


def measure(name: str, replication: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    plan, what = configuration_named(name)
    return world.run(plan, what, replication)


def kept_in(folder: Path | None, plan: Plan) -> Kept:
    """Look what of this plan was done before."""
    keys = {plan.name_of(name): dict(variant.keys) for name, variant in plan.variants.items()}
    asked: dict[str, list[str]] = {plan.name_of(INSTANTS): list(plan.rules)}
    marks = {
        name: mark(_MAKES_RESULTS, plan.base.as_data() | {"said": said})
        for name, said in (keys | asked).items()
    }
    return Kept.below(folder, marks)
