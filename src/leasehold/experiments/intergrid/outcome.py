"""What came of an evaluation, put together: figures, claims, how policies stand to RR, controls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leasehold.experiments.anova import Anova, two_way
from leasehold.experiments.intergrid.claims import Figure
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.intergrid.series import Series
from leasehold.experiments.intergrid.settings import BASE, Plan, Reading
from leasehold.experiments.intergrid.verdicts import Verdict, verdicts
from leasehold.experiments.kept import Results
from leasehold.experiments.regression import Line, line
from leasehold.experiments.statistics import Interval, interval, ratio
from leasehold.experiments.status import Status

EQUATION_2 = "R = 3.09 + 0.012 eta"
"""Response time of external requests by the number of VMs preempted, as printed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One policy in a figure: the metric, and those beside it, at each point."""

    policy: str
    points: tuple[Mapping[str, Interval], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure under one reading.

    ``largest_cv``  the largest standard error of a mean, of that mean (the publication has it below .01)
    """

    figure: Figure
    reading: str
    curves: tuple[Curve, ...]
    anova: Anova
    largest_cv: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a policy stands to the reference where the sweeps meet, metric by metric, as ratio of means."""

    reading: str
    policy: str
    ratios: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class BasePoint:
    """What a reading makes of a policy where the sweeps meet."""

    reading: Reading
    policy: str
    means: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Association:
    """How the response time of guests follows the VMs preempted (eq 2), over all runs of a reading."""

    reading: str
    line: Line

    @property
    def status(self) -> Status:
        """Judge the sign, which is all that is claimed: the unit of the printed line is not stated."""
        slope = self.line.slope
        if slope.low > 0:
            return Status.REPRODUCED
        return Status.IN_DIRECTION if slope.mean > 0 else Status.NOT_REPRODUCED


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the report shows; ``wanted`` are the figures that were asked for."""

    plan: Plan
    wanted: tuple[str, ...]
    replications: int
    panels: Sequence[Panel]
    verdicts: Sequence[Verdict]
    standings: Sequence[Standing]
    base_points: Sequence[BasePoint]
    associations: Sequence[Association]

    def of_reading(self, reading: str) -> list[Verdict]:
        """Give the verdicts under one reading, in order of the claims."""
        return [verdict for verdict in self.verdicts if verdict.reading == reading]

    def because(self, verdict: Verdict) -> str:
        """Say in a sentence what decided, and why ours differs where it does."""
        if verdict.status in {Status.REPRODUCED, Status.NOT_COMPARABLE}:
            return verdict.why
        short = next(e["short"] for e in self.plan.said["why"] if e["topic"] == verdict.claim.topic)
        return f"{verdict.why}: {short}"

    @property
    def is_whole(self) -> bool:
        """Whether it is the published evaluation: all figures, two days, 100 replications."""
        published = self.plan.said["published"]
        as_long = self.plan.hours == published["hours"]
        return (
            as_long
            and self.replications >= published["replications"]
            and set(self.wanted) == set(self.plan.study.figures)
        )


def outcome_of(plan: Plan, results: Results, wanted: Sequence[str], replications: int) -> Outcome:
    """Compare, test, and put together."""
    every = [Series(plan, reading, results) for reading in plan.swept]
    asked = [claim for claim in plan.study.claims() if claim.figure in wanted]
    return Outcome(
        plan,
        tuple(wanted),
        replications,
        [_panel(plan, series, plan.study.figures[name]) for name in wanted for series in every],
        [verdict for series in every for verdict in verdicts(series, asked)],
        list(_standings(plan, results)),
        list(_base_points(plan, results)),
        [_association(plan, reading, results) for reading in plan.swept],
    )


def _panel(plan: Plan, series: Series, figure: Figure) -> Panel:
    curves = tuple(_curve(plan, series, figure, policy) for policy in plan.policies)
    cvs = [
        abs(_standard_error(series.at(point.name, policy, figure.metric).tolist()))
        for policy in plan.policies
        for point in plan.sweeps[figure.letter].points
    ]
    return Panel(figure, series.reading.name, curves, two_way(series.whole(figure)), max(cvs))


def _standard_error(values: Sequence[float]) -> float:
    """Give the standard error of a mean, of that mean; 0 where nothing varies."""
    count, mean = len(values), sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return (squares / (count - 1) / count) ** 0.5 / mean if squares else 0.0


def _curve(plan: Plan, series: Series, figure: Figure, policy: str) -> Curve:
    metrics = (figure.metric, *figure.beside)
    return Curve(
        policy,
        tuple(
            {metric: interval(series.at(point.name, policy, metric).tolist()) for metric in metrics}
            for point in plan.sweeps[figure.letter].points
        ),
    )


def _standings(plan: Plan, results: Results) -> Iterator[Standing]:
    for reading in plan.swept:
        usual = results.get(plan.name_of(reading, BASE, plan.study.reference))
        for policy in plan.policies:
            found = results.get(plan.name_of(reading, BASE, policy))
            if usual is not None and found is not None and policy != plan.study.reference:
                ratios = {metric: ratio(found[metric], usual[metric]) for metric in METRICS}
                yield Standing(reading.name, policy, ratios)


def _base_points(plan: Plan, results: Results) -> Iterator[BasePoint]:
    for reading in plan.readings:
        for policy in plan.policies:
            found = results.get(plan.name_of(reading, BASE, policy))
            if found is not None:
                yield BasePoint(reading, policy, {metric: interval(found[metric]) for metric in METRICS})


def _association(plan: Plan, reading: Reading, results: Results) -> Association:
    runs = [
        results[name]
        for name, one in plan.configurations.items()
        if one.reading == reading and name in results
    ]
    vms, response = (
        np.asarray([run[metric] for run in runs]).T for metric in ("vms_preempted", "response_s")
    )
    return Association(reading.name, line(vms, response))
