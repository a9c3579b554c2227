"""What came of an evaluation: figures, claims, how policies compare with the reference, and controls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from leasehold.experiments.claims import ALPHA, Status, Tested, Verdict, counted, status_of, tally, tested
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.intergrid.plan import BASE, Plan, Point, Reading, Sweep
from leasehold.experiments.intergrid.studies import Contrast, Expects, Figure, FigureClaim, Where
from leasehold.experiments.kept import Results
from leasehold.experiments.report import plain
from leasehold.experiments.statistics import (
    Anova,
    Interval,
    Line,
    Values,
    interval,
    line,
    normality_p,
    ratio,
    signed_rank_p,
    two_way,
)

EQUATION_2 = "R = 3.09 + 0.012 eta"
"""Response time of external requests by the number of VMs preempted, as printed."""
ONE_CLUSTER = "PAP sends everything to one cluster here, so that PAP-RTDP and PAP-RND are one policy"

CLAIM_IS = {
    Status.REPRODUCED: "its printed interval and ours overlap, and ours lies on the printed side of zero; "
    "without a printed interval, when each of its orderings holds significantly "
    f"({100 * ALPHA:.0f} %, Holm over all of a reading); 'do not differ', when nothing significant was found",
    Status.IN_DIRECTION: "it is not, but our interval lies on the printed side of zero; without a printed "
    "interval, when each ordering holds in the mean",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "the two policies that it compares are one and the same under a reading",
}


class Series:
    """What was measured under one reading, by figure."""

    def __init__(self, plan: Plan, reading: Reading, results: Results) -> None:
        """Read these results."""
        self._plan = plan
        self.reading = reading
        self._results = results

    def at(self, point: str, policy: str, metric: str) -> Values:
        """Give one value for each replication."""
        return np.asarray(self._results[self._plan.name_of(self.reading, point, policy)][metric])

    def of(self, claim: FigureClaim, contrast: Contrast) -> Values:
        """Give the value of a contrast of a claim, for each replication."""
        figure = self._plan.study.figures[claim.figure]
        sweep = self._plan.sweeps[figure.letter]
        terms = [
            term.times * np.mean([self.at(one.name, term.policy, figure.metric) for one in points], axis=0)
            for term in contrast
            for points in [points_at(sweep, term.where)]
        ]
        return np.asarray(np.sum(terms, axis=0))

    def whole(self, figure: Figure) -> Values:
        """Give all values of a figure: by policy, point and replication."""
        points = self._plan.sweeps[figure.letter].points
        return np.asarray(
            [[self.at(at.name, policy, figure.metric) for at in points] for policy in self._plan.policies]
        )


def points_at(sweep: Sweep, where: Where) -> list[Point]:
    """Pick points of a sweep; a bound itself is below."""
    if where.end is not None:
        return [sweep.points[where.end]]
    return [
        point
        for point in sweep.points
        if (where.above is None or point.shown > where.above) and (where.below is None or point.shown <= where.below)
    ]


# Claims


@dataclass(frozen=True, slots=True)
class ReadVerdict(Verdict[FigureClaim]):
    """A claim and how it came out under a reading."""

    reading: str = ""


def verdicts(series: Series, claims: Sequence[FigureClaim]) -> list[ReadVerdict]:
    """Test claims under one reading; all of their contrasts are one family of hypotheses."""
    found = tested([[series.of(claim, one) for one in claim.contrasts] for claim in claims])
    made = []
    for claim, differences in zip(claims, found, strict=True):
        telling = [one for one in differences if not one.is_zero]  # policies may be one and the same
        status = _status(claim, series, telling) if telling else Status.NOT_COMPARABLE
        why = _why(claim, telling) if telling else ONE_CLUSTER
        made.append(ReadVerdict(claim, status, why, differences, series.reading.name))
    return made


def _status(claim: FigureClaim, series: Series, telling: Sequence[Tested]) -> Status:
    if claim.expects is Expects.NO_DIFFERENCE:
        differs = any(one.is_significant for one in telling)
        return Status.NOT_REPRODUCED if differs else Status.REPRODUCED
    if claim.printed is not None:
        return status_of_gap(telling[0].difference, claim.printed)
    found = status_of(telling)
    if found is Status.REPRODUCED or not claim.weaker:
        return found
    weaker = [interval(series.of(claim, weak)) for weak in claim.weaker]
    return Status.IN_DIRECTION if all(one.low > 0 for one in weaker) else Status.NOT_REPRODUCED


def status_of_gap(ours: Interval, printed: tuple[float, float]) -> Status:
    """Compare a difference with the printed interval of it, all of which is above zero."""
    low, high = printed
    if ours.low <= 0:
        return Status.NOT_REPRODUCED
    return Status.REPRODUCED if ours.low <= high and ours.high >= low else Status.IN_DIRECTION


def _why(claim: FigureClaim, telling: Sequence[Tested]) -> str:
    """Say in a sentence what decided."""
    if claim.expects is Expects.NO_DIFFERENCE:
        return f"{sum(one.is_significant for one in telling)} of {len(telling)} differ significantly"
    if claim.printed is None:
        return tally(telling)
    ours = telling[0].difference
    if ours.low > 0:
        return "surely on the printed side"
    return "surely on the other side" if ours.high < 0 else "no side is sure"


# Figures, and the point where the sweeps meet


@dataclass(frozen=True, slots=True)
class PolicyCurve:
    """One policy in a figure: the metric, and those beside it, at each point."""

    policy: str
    points: tuple[Mapping[str, Interval], ...]


@dataclass(frozen=True, slots=True)
class FigureResult:
    """One figure under one reading.

    ``largest_cv``  the largest standard error of a mean, of that mean (the publication has it below .01)
    """

    figure: Figure
    reading: str
    curves: tuple[PolicyCurve, ...]
    anova: Anova
    largest_cv: float


@dataclass(frozen=True, slots=True)
class AtBase:
    """A policy under a reading where the sweeps meet; ``ratios`` are those of means to the reference."""

    reading: Reading
    policy: str
    means: Mapping[str, Interval]
    ratios: Mapping[str, Interval]


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
class FederationOutcome:
    """Everything that the report shows; ``wanted`` are the figures that were asked for."""

    plan: Plan
    wanted: tuple[str, ...]
    replications: int
    figures: Sequence[FigureResult]
    verdicts: Sequence[ReadVerdict]
    base: Sequence[AtBase]
    associations: Sequence[Association]

    @property
    def compared(self) -> list[AtBase]:
        """What is compared with the reference: the other policies under the readings of the figures."""
        reference = self.plan.study.reference
        return [one for one in self.base if one.reading.has_sweeps and one.ratios and one.policy != reference]

    def of_reading(self, reading: str) -> list[ReadVerdict]:
        """Give the verdicts under one reading, in order of the claims."""
        return [verdict for verdict in self.verdicts if verdict.reading == reading]

    def because(self, verdict: ReadVerdict) -> str:
        """Say in a sentence what decided, and why ours differs where it does."""
        if verdict.status in {Status.REPRODUCED, Status.NOT_COMPARABLE}:
            return verdict.why
        short = next(e["short"] for e in self.plan.stated["why"] if e["topic"] == verdict.claim.topic)
        return f"{verdict.why}: {short}"

    @property
    def is_whole(self) -> bool:
        """Whether it is the published evaluation: all figures, two days, 100 replications."""
        published, is_all = self.plan.stated["published"], set(self.wanted) == set(self.plan.study.figures)
        is_long = self.plan.hours == published["hours"]
        return is_all and is_long and self.replications >= published["replications"]


def outcome_of(plan: Plan, results: Results, wanted: Sequence[str], replications: int) -> FederationOutcome:
    """Compare with the claims, and put the figures together."""
    every = [Series(plan, reading, results) for reading in plan.swept]
    asked = [claim for claim in plan.study.claims if claim.figure in wanted]
    return FederationOutcome(
        plan,
        tuple(wanted),
        replications,
        [_figure(plan, series, plan.study.figures[name]) for name in wanted for series in every],
        [verdict for series in every for verdict in verdicts(series, asked)],
        list(_at_base(plan, results)),
        [_association(plan, reading, results) for reading in plan.swept],
    )


def _figure(plan: Plan, series: Series, figure: Figure) -> FigureResult:
    metrics, points = (figure.metric, *figure.beside), plan.sweeps[figure.letter].points
    curves = tuple(
        PolicyCurve(
            policy,
            tuple({metric: interval(series.at(one.name, policy, metric)) for metric in metrics} for one in points),
        )
        for policy in plan.policies
    )
    whole = series.whole(figure)
    cells = whole.reshape(-1, whole.shape[-1])
    cvs = [abs(float(stats.sem(values) / values.mean())) if np.ptp(values) else 0.0 for values in cells]
    return FigureResult(figure, series.reading.name, curves, two_way(whole), max(cvs))


def _at_base(plan: Plan, results: Results) -> Iterator[AtBase]:
    for reading in plan.readings:
        reference = results.get(plan.name_of(reading, BASE, plan.study.reference))
        for policy in plan.policies:
            found = results.get(plan.name_of(reading, BASE, policy))
            if found is not None:
                means = {metric: interval(found[metric]) for metric in METRICS}
                ratios = {metric: ratio(found[metric], reference[metric]) for metric in METRICS if reference}
                yield AtBase(reading, policy, means, ratios)


def _association(plan: Plan, reading: Reading, results: Results) -> Association:
    named = plan.configurations.items()
    runs = [results[name] for name, one in named if one.reading == reading and name in results]
    vms, response = (np.asarray([run[key] for run in runs]).T for key in ("vms_preempted", "response_s"))
    return Association(reading.name, line(vms, response))


# All of it as plain data, for JSON


def as_data(outcome: FederationOutcome) -> dict[str, Any]:
    """Give everything."""
    plan = outcome.plan
    return {
        "evaluation": plan.study.number,
        "source": plan.study.source,
        "figures": list(outcome.wanted),
        "replications": outcome.replications,
        "hours": plan.hours,
        "is_whole": outcome.is_whole,
        "level": 0.95,
        "published": plan.stated["published"],
        "streams": plan.stated["stream"],
        "readings": plain(plan.readings),
        "interpretations": plain(plan.interpretations),
        "counts": {
            reading.name: counted(verdict.status for verdict in outcome.of_reading(reading.name))
            for reading in plan.swept
        },
        "panels": [_figure_data(plan, figure) for figure in outcome.figures],
        "response_by_vms_preempted": [
            {"reading": one.reading, "printed": EQUATION_2, "status": one.status} | plain(one.line)
            for one in outcome.associations
        ],
        "claims": [_verdict_data(outcome, verdict) for verdict in outcome.verdicts],
        "to_reference": [
            {"reading": one.reading.name, "policy": one.policy, "ratios": plain(one.ratios)} for one in outcome.compared
        ],
        "base": [
            {"reading": one.reading.name, "policy": one.policy, "means": plain(one.means)} for one in outcome.base
        ],
    }


def _figure_data(plan: Plan, result: FigureResult) -> dict[str, Any]:
    shown = [point.shown for point in plan.sweeps[result.figure.letter].points]
    anova = plain(result.anova)
    effects = {"policy": "first", "point": "second", "together": "together", "replication": "replications"}
    error = {"squares": anova["error_squares"], "freedom": anova["error_freedom"]}
    return {
        "figure": result.figure.name,
        "metric": result.figure.metric,
        "reading": result.reading,
        "curves": [
            {
                "policy": curve.policy,
                "points": [{"at": at, **plain(found)} for at, found in zip(shown, curve.points, strict=True)],
            }
            for curve in result.curves
        ],
        "anova": {key: anova[effect] for key, effect in effects.items()}
        | {"error": error, "normal_p": anova["normal_p"], "equal_spread_p": anova["equal_spread_p"]},
        "largest_cv": plain(result.largest_cv),
    }


def _verdict_data(outcome: FederationOutcome, verdict: ReadVerdict) -> dict[str, Any]:
    return {
        "figure": verdict.claim.figure,
        "claim": verdict.claim.text,
        "reading": verdict.reading,
        "printed": verdict.claim.printed,
        "status": verdict.status,
        "why": outcome.because(verdict),
        "contrasts": [
            plain(one.difference)
            | plain({"p": one.found.p, "p_adjusted": one.p})
            | plain({"normal_p": normality_p(one.values), "signed_rank_p": signed_rank_p(one.values)})
            for one in verdict.tested
        ],
    }
