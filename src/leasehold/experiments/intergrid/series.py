"""From results to what is tested: one value of a contrast for each replication, and whole figures."""

import numpy as np

from leasehold.experiments.anova import Values
from leasehold.experiments.intergrid.claims import Claim, Contrast, Figure, Where
from leasehold.experiments.intergrid.settings import Plan, Point, Reading, Sweep
from leasehold.experiments.kept import Results


class Series:
    """What was measured under one reading, asked by figure."""

    def __init__(self, plan: Plan, reading: Reading, results: Results) -> None:
        """Ask these results."""
        self._plan = plan
        self.reading = reading
        self._results = results

    def figure(self, claim: Claim) -> Figure:
        """Find the figure that a claim is about."""
        return self._plan.study.figures[claim.figure]

    def at(self, point: str, policy: str, metric: str) -> Values:
        """Give one value for each replication."""
        return np.asarray(self._results[self._plan.name_of(self.reading, point, policy)][metric])

    def mean_over(self, figure: Figure, policy: str, where: Where) -> Values:
        """Give the mean over some points of a figure, for each replication."""
        points = points_at(self._plan.sweeps[figure.letter], where)
        values = [self.at(point.name, policy, figure.metric) for point in points]
        return np.asarray(np.mean(values, axis=0))

    def of(self, figure: Figure, contrast: Contrast) -> Values:
        """Give the value of a contrast, for each replication."""
        terms = [term.times * self.mean_over(figure, term.policy, term.where) for term in contrast]
        return np.asarray(np.sum(terms, axis=0))

    def whole(self, figure: Figure) -> Values:
        """Give all values of a figure: by policy, point and replication."""
        points = self._plan.sweeps[figure.letter].points
        return np.asarray(
            [
                [self.at(point.name, policy, figure.metric) for point in points]
                for policy in self._plan.policies
            ]
        )


def points_at(sweep: Sweep, where: Where) -> list[Point]:
    """Pick points of a sweep; a bound itself is below."""
    if where.end is not None:
        return [sweep.points[where.end]]
    return [
        point
        for point in sweep.points
        if (where.above is None or point.shown > where.above)
        and (where.below is None or point.shown <= where.below)
    ]
