"""Everything that came of an evaluation, and the same as plain data."""

from dataclasses import asdict, dataclass
from typing import Any

from leasehold.experiments.hybrid.claims import Verdict, verdicts
from leasehold.experiments.hybrid.curves import figure_6, figure_7
from leasehold.experiments.hybrid.settings import Plan, said
from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import interval


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was run with so many seeds, and what the claims came to."""

    plan: Plan
    results: Results
    verdicts: tuple[Verdict, ...]
    seeds: int


def outcome_of(plan: Plan, results: Results, seeds: int) -> Outcome:
    """Judge the results."""
    return Outcome(plan, results, tuple(verdicts(plan, results)), seeds)


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Give all of it as plain data."""
    return {
        "source": said()["published"]["source"],
        "seeds": outcome.seeds,
        "figure_6": [asdict(curve) for curve in figure_6()],
        "figure_7": [asdict(curve) for curve in figure_7()],
        "claims": [asdict(verdict) for verdict in outcome.verdicts],
        "configurations": {
            name: {metric: asdict(interval(values)) for metric, values in metrics.items()}
            for name, metrics in outcome.results.items()
        },
    }
