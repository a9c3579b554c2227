"""The published evaluations of routing and of victims: campaigns, figures, claims and controls, reports, pictures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from leasehold.experiments import pictures
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.intergrid.plan import (
    BASE,
    POLICY_TITLES,
    STUDIES,
    Contrast,
    Expects,
    FigureClaim,
    IntergridPlan,
    PaperReading,
    Point,
    PublishedFigure,
    Study,
    Sweep,
    Where,
    plan,
)
from leasehold.experiments.kept import DECIDES, Results, marks
from leasehold.experiments.report import (
    Block,
    MarkdownTable,
    Title,
    amount,
    bounded,
    opening,
    plain,
    probability,
    reasons,
    signed,
    where,
)
from leasehold.experiments.statistics import (
    EQUAL_WITHIN,
    Anova,
    ClaimVerdict,
    Interval,
    RegressionLine,
    Status,
    Tested,
    Values,
    counted,
    differing,
    in_words,
    interval,
    is_equal_within,
    line,
    normality_p,
    ratio,
    signed_rank_p,
    status_of,
    status_of_equality,
    tally,
    tested,
    two_way,
)

EQUATION_2 = "R = 3.09 + 0.012 eta"
"""Response time of external requests by the number of VMs preempted, as printed."""
ONE_CLUSTER = "PAP sends everything to one cluster here, so that PAP-RTDP and PAP-RND are one policy"


class Series:
    """What was measured under one reading, by figure."""

    def __init__(self, plan: IntergridPlan, reading: PaperReading, results: Results) -> None:
        """Read these results."""
        self._plan = plan
        self.reading = reading
        self._results = results

    def at(self, point: Point, policy: str, metric: str, sweep: Sweep) -> Values:
        """Give one value for each replication, at a point of a sweep."""
        return np.asarray(self._results[self._plan.name_of(self.reading, point.name, policy, sweep)][metric])

    def of(self, claim: FigureClaim, contrast: Contrast) -> Values:
        """Give the value of a contrast of a claim, for each replication."""
        figure = self._plan.study.figures[claim.figure]
        sweep = self._plan.sweeps[figure.letter]
        terms = [
            term.times * np.mean([self.at(one, term.policy, figure.metric, sweep) for one in points], axis=0)
            for term in contrast
            for points in [points_at(sweep, term.where)]
        ]
        return np.asarray(np.sum(terms, axis=0))

    def compared(self, claim: FigureClaim, contrast: Contrast) -> Values:
        """Give what a contrast compares with, for each replication: the sum of its positive terms."""
        return self.of(claim, tuple(term for term in contrast if term.times > 0))

    def whole(self, figure: PublishedFigure) -> Values:
        """Give all values of a figure: by policy, point and replication."""
        sweep = self._plan.sweeps[figure.letter]
        return np.asarray(
            [[self.at(at, policy, figure.metric, sweep) for at in sweep.points] for policy in self._plan.policies]
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
class ReadVerdict(ClaimVerdict[FigureClaim]):
    """A claim and how it came out under a reading."""

    reading: str = ""


def verdicts(series: Series, claims: Sequence[FigureClaim]) -> list[ReadVerdict]:
    """Test claims under one reading; all of their contrasts are one family of hypotheses."""
    found = tested([[series.of(claim, one) for one in claim.contrasts] for claim in claims])
    made = []
    for claim, differences in zip(claims, found, strict=True):
        telling = [one for one in differences if not one.is_zero]  # policies may be one and the same
        status = _status(claim, series, telling) if telling else Status.NOT_COMPARABLE
        why = _why(claim, series, telling) if telling else ONE_CLUSTER
        made.append(ReadVerdict(claim, status, why, differences, series.reading.name))
    return made


def _status(claim: FigureClaim, series: Series, telling: Sequence[Tested]) -> Status:
    if claim.expects is Expects.NO_DIFFERENCE:
        return status_of_equality([one.found for one in telling], are_equal=all(_are_equal(claim, series)))
    if claim.printed is not None:
        return status_of_gap(telling[0].difference, claim.printed)
    found = status_of(telling)
    if found is Status.REPRODUCED or not claim.weaker:
        return found
    is_missed = any(one.is_refuted for one in telling)
    return Status.IN_DIRECTION if _is_ordered(claim, series) and not is_missed else Status.NOT_REPRODUCED


def _are_equal(claim: FigureClaim, series: Series) -> list[bool]:
    """Say of each contrast whether it is surely within the margin; those that are zero everywhere say nothing."""
    values = [(series.of(claim, one), float(np.mean(series.compared(claim, one)))) for one in claim.contrasts]
    return [is_equal_within(found, EQUAL_WITHIN * abs(mean)) for found, mean in values if np.any(found)]


def _is_ordered(claim: FigureClaim, series: Series) -> bool:
    """Whether the order holds surely where a size is claimed: each policy is below the other by any amount."""
    return all(interval(series.of(claim, weak)).low > 0 for weak in claim.weaker)


def status_of_gap(ours: Interval, printed: tuple[float, float]) -> Status:
    """Compare a difference with the printed interval of it, all of which is above zero."""
    low, high = printed
    if ours.low <= 0:
        return Status.NOT_REPRODUCED
    return Status.REPRODUCED if ours.low <= high and ours.high >= low else Status.IN_DIRECTION


def _why(claim: FigureClaim, series: Series, telling: Sequence[Tested]) -> str:
    """Say in a sentence what decided."""
    if claim.expects is Expects.NO_DIFFERENCE:
        equal, differ = sum(_are_equal(claim, series)), differing([one.found for one in telling])
        return f"{equal} of {len(telling)} equal within {100 * EQUAL_WITHIN:g} %, {differ} differ significantly"
    if claim.weaker:
        missed = sum(one.is_refuted for one in telling)
        order = "the order holds surely" if _is_ordered(claim, series) else "the order does not hold surely"
        sure = sum(one.is_sure for one in telling)
        return f"{order}; its size is surely reached by {sure} of {len(telling)}, surely missed by {missed}"
    if claim.printed is None:
        return tally(telling)
    return _side(telling[0].difference, claim.printed)


def _side(ours: Interval, printed: tuple[float, float]) -> str:
    """Say on which side of zero a difference is and, on the printed side, whether it is as large as printed."""
    if ours.low <= 0:
        return "surely on the other side" if ours.high < 0 else "no side is sure"
    low, high = printed
    size = ", and smaller" if ours.high < low else ", and larger" if ours.low > high else ""
    return f"surely on the printed side{size}"


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

    figure: PublishedFigure
    reading: str
    curves: tuple[PolicyCurve, ...]
    anova: Anova
    largest_cv: float


@dataclass(frozen=True, slots=True)
class AtBase:
    """A policy under a reading where the sweeps meet; ``ratios`` are those of means to the reference."""

    reading: PaperReading
    policy: str
    means: Mapping[str, Interval]
    ratios: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Association:
    """How the response time of guests follows the VMs preempted (eq 2), over all runs of a reading."""

    reading: str
    line: RegressionLine

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

    plan: IntergridPlan
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
        """Whether it is of full size: all figures, two days, 100 replications."""
        published, is_all = self.plan.stated["published"], set(self.wanted) == set(self.plan.study.figures)
        is_long = self.plan.hours == published["hours"]
        return is_all and is_long and self.replications >= published["replications"]


def outcome_of(plan: IntergridPlan, results: Results, wanted: Sequence[str], replications: int) -> FederationOutcome:
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


def _figure(plan: IntergridPlan, series: Series, figure: PublishedFigure) -> FigureResult:
    metrics, sweep = (figure.metric, *figure.beside), plan.sweeps[figure.letter]
    curves = tuple(
        PolicyCurve(
            policy,
            tuple(
                {metric: interval(series.at(one, policy, metric, sweep)) for metric in metrics} for one in sweep.points
            ),
        )
        for policy in plan.policies
    )
    whole = series.whole(figure)
    cells = whole.reshape(-1, whole.shape[-1])
    cvs = [abs(float(stats.sem(values) / values.mean())) if np.ptp(values) else 0.0 for values in cells]
    return FigureResult(figure, series.reading.name, curves, two_way(whole), max(cvs))


def _at_base(plan: IntergridPlan, results: Results) -> Iterator[AtBase]:
    for reading in plan.readings:
        reference = results.get(plan.name_of(reading, BASE, plan.study.reference))
        for policy in plan.policies:
            found = results.get(plan.name_of(reading, BASE, policy))
            if found is not None:
                means = {metric: interval(found[metric]) for metric in METRICS}
                ratios = {metric: ratio(found[metric], reference[metric]) for metric in METRICS if reference}
                yield AtBase(reading, policy, means, ratios)


def _association(plan: IntergridPlan, reading: PaperReading, results: Results) -> Association:
    ran = {name: one.hours for name, one in plan.configurations.items() if one.reading == reading and name in results}
    runs = [results[name] for name, hours in ran.items() if hours == max(ran.values())]
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


def _figure_data(plan: IntergridPlan, result: FigureResult) -> dict[str, Any]:
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


REPLICATIONS = 100
LOW_P = 0.05
RATIO = re.compile(r"\{(\w+)/([\w-]+)/(\w+)\}")
"""Where a lesson has a ratio: reading, policy, metric."""

_MAKES_RESULTS = (*DECIDES, "experiments/intergrid/metrics.py", "experiments/intergrid/world.py")

BASE_METRICS: Mapping[str, str] = {
    "vms_preempted": "VMs preempted",
    "leases_preempted": "leases preempted",
    "utilisation_pct": "utilisation, eq 21 (%)",
    "occupancy_pct": "occupancy (%)",
    "awrt_s": "AWRT, eq 24 (s)",
    "awrt_pooled_s": "AWRT, eq 23 (s)",
    "migration_pct": "migration (%)",
    "np_rejection_pct": "Non-preemptable rejected (%)",
    "guest_rejection_pct": "guests rejected (%)",
    "local_rejection_pct": "locals rejected (%)",
    "local_served_pct": "locals served (%)",
    "guest_work_vm_h": "work of guests done (VM-h)",
}
FEW_METRICS = ("vms_preempted", "leases_preempted", "awrt_s", "np_rejection_pct")
"""Those that a terminal has room for."""


def campaign(study: Study, parts: Sequence[str], size: Size) -> Campaign:
    """Run all of a publication, or some figures."""
    wanted = study.figures_named(parts)
    read = plan(study.number, study.quick_hours if size.quick else None)
    count = size.count(REPLICATIONS, study.quick_seeds)
    stated = {key: read.stated[key] for key in ("published", "stream")}
    return Campaign(
        runs=dict.fromkeys(read.names_for(wanted), range(1, 1 + count)),
        marks=marks(_MAKES_RESULTS, {name: one.as_data() | stated for name, one in read.configurations.items()}),
        measure=world.measure,
        report=partial(report, read, wanted, count),
    )


EVALUATIONS = {number: Evaluation(partial(campaign, study), study.parts) for number, study in STUDIES.items()}


def report(read: IntergridPlan, wanted: Sequence[str], replications: int, results: Results) -> EvaluationReport:
    """Report on these results."""
    outcome = outcome_of(read, results, wanted, replications)
    return EvaluationReport(
        read.study.number,
        as_data(outcome),
        page=partial(page, outcome),
        screen=partial(screen, outcome),
        draw=partial(draw, outcome),
        every_result=partial(_every_result, read),
    )


def _every_result(read: IntergridPlan, results: pl.DataFrame) -> pl.DataFrame:
    """Give one row for each configuration and replication, with all metrics."""
    named = [
        {"configuration": name, "reading": one.reading.name, "point": one.point, "policy": one.policy}
        for name, one in read.configurations.items()
    ]
    return pl.DataFrame(named).join(results, on="configuration")


def screen(outcome: FederationOutcome) -> Iterator[Block]:
    """Give figures, claims, analyses of variance, and how the policies compare with the reference."""
    for name in outcome.wanted:
        figure = outcome.plan.study.figures[name]
        yield Title(f"Figure {name}: {figure.title}, by {outcome.plan.sweeps[figure.letter].axis}")
        yield _figure_table(outcome, figure, figure.metric)
    yield Title("Claims")
    yield claim_table(outcome)
    yield Title("Two-way analysis of variance: p")
    yield _anova_table(outcome)
    if outcome.compared:
        yield Title("Ratios to the reference at the base point")
        yield _ratio_table(outcome, FEW_METRICS)
    yield Title("Why results differ")
    yield from (f"{entry['about']} {entry['text']}" for entry in _reasons(outcome))
    yield Title(f"{_size(outcome)}.\n{_summary(outcome)}")


def page(outcome: FederationOutcome) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    study, claims = outcome.plan.study, claim_table(outcome)
    yield from opening(
        f"{study.title}: the published evaluation, reproduced",
        f"{_lesson(outcome)} {_summary(outcome)}".lstrip(),
        _image(_lead_picture(outcome)),
    )
    yield f"Generated by `{_command(outcome)}` on {where()}: {_size(outcome)}."
    yield f"Source: {study.source}. All runs of a replication have the same random streams."
    yield (
        "Set-up and metrics: [routing](../reference/reproduce.md#routing). *Reproduced*, *in direction*, *not "
        "reproduced*, *not comparable*: [status of a claim](../reference/reproduce.md#statistics-and-status)."
    )
    yield "## Readings of the workload"
    yield (
        "A reading fixes the units that the publication leaves open. The main reading and the one beside it are run "
        "at every point of the figures, the controls only at the base point, which all sweeps have in common."
    )
    readings = [[one.name, one.role, one.what, one.why] for one in outcome.plan.readings]
    yield MarkdownTable(("reading", "role", "what it is", "why"), readings)
    headline = [line for line in claims.lines if study.headline and line[1].startswith(study.headline)]
    if headline:
        yield "## Headline and conclusions"
        yield MarkdownTable(claims.columns, headline)
    if outcome.compared:
        yield f"## Ratios to {POLICY_TITLES[study.reference]}"
        yield "Ratios of means at the base point, with 95 % intervals."
        yield _ratio_table(outcome, list(BASE_METRICS))
    yield "## Why results differ"
    yield from reasons(_reasons(outcome))
    yield "## Claims"
    yield "Differences as paired means over replications, with the 95 % interval."
    yield claims
    yield from _figures(outcome)
    yield "## Two-way analysis of variance"
    yield (
        "Policy and point of the sweep, replications as blocks; p of each and of the two together. What it "
        "takes for granted: p that residuals are normal (Shapiro, Wilk), p of equal variances (Brown, "
        "Forsythe). The largest coefficient of variation of a mean is below .01 in the publication."
    )
    yield _anova_table(outcome)
    yield "## Response time by VMs preempted (eq 2, Figure 4)"
    yield (
        f"Printed: {EQUATION_2}, a positive correlation; neither unit nor runs are stated. Ours: mean "
        "response time of guests in seconds, a line through all runs of these figures in each replication, "
        "and the mean of the lines. The correlation is *reproduced* if the slope is surely above zero; the size of "
        "the slope is not comparable without its unit."
    )
    lines = [
        [one.reading, *map(signed, (one.line.intercept, one.line.slope, one.line.r_squared)), one.status]
        for one in outcome.associations
    ]
    yield MarkdownTable(("reading", "intercept", "slope", "R squared", "status"), lines, {1, 2, 3})
    yield from _base(outcome)
    yield "## Further interpretations"
    yield outcome.plan.readings_table("what", "reading", "why")
    yield "The streams as printed, that of external requests at the base point:"
    streams = outcome.plan.stated["stream"]
    keys = list(next(iter(streams.values())))
    rows = [[name, *(f"{values[key]:g}" for key in keys)] for name, values in streams.items()]
    yield MarkdownTable(["stream", *keys], rows, range(1, len(keys) + 1))


def _command(outcome: FederationOutcome) -> str:
    """Give the command that makes this report."""
    study, is_all = outcome.plan.study, set(outcome.wanted) == set(outcome.plan.study.figures)
    names = study.number if is_all else " ".join(f"{study.number}-fig{one}" for one in outcome.wanted)
    how_long = "" if outcome.plan.hours == outcome.plan.stated["published"]["hours"] else " --quick"
    return f"leasehold reproduce {names}{how_long} --seeds {outcome.replications}"


def _size(outcome: FederationOutcome) -> str:
    """Give the size, and that of the publication; where it states none, that of JPDC 2012 is the full one."""
    published = outcome.plan.stated["published"]
    made = f"{outcome.replications} replications of {outcome.plan.hours} hours"
    full = f"{published['replications']} of {published['hours']} hours"
    if not outcome.plan.study.states_size:
        return f"{made} (the publication states no size; full size, as in JPDC 2012: {full})"
    return f"{made}, as published" if outcome.is_whole else f"{made} (published: {full})"


def _lesson(outcome: FederationOutcome) -> str:
    """Give what the study states to be learnt, with our ratios; "" where these were not run."""
    ratios = {(one.reading.name, one.policy): one.ratios for one in outcome.compared}
    text = outcome.plan.study.lesson
    if any((found[1], found[2]) not in ratios for found in RATIO.finditer(text)):
        return ""
    return RATIO.sub(lambda found: bounded(ratios[found[1], found[2]][found[3]]), text)


def _summary(outcome: FederationOutcome) -> str:
    """Count in a sentence for each reading how the claims came out."""
    return " ".join(
        f"Of {len(found)} claims under {reading.name}: {in_words(one.status for one in found)}."
        for reading in outcome.plan.swept
        for found in [outcome.of_reading(reading.name)]
    )


def _reasons(outcome: FederationOutcome) -> list[Mapping[str, str]]:
    """Give the reasons for differences, of the topics that the claims are about."""
    topics = {verdict.claim.topic for verdict in outcome.verdicts}
    return [entry for entry in outcome.plan.stated["why"] if entry["topic"] in topics]


def claim_table(outcome: FederationOutcome) -> MarkdownTable:
    """Give one line for each claim and reading, the main one first."""
    sides = [outcome.of_reading(reading.name) for reading in outcome.plan.swept]
    lines = [
        [
            verdict.claim.figure,
            verdict.claim.text,
            _printed(verdict.claim),
            verdict.reading,
            _ours(verdict),
            verdict.status,
            outcome.because(verdict),
        ]
        for group in zip(*sides, strict=True)
        for verdict in group
    ]
    return MarkdownTable(("figure", "claim", "printed", "reading", "ours", "status", "why"), lines)


def _printed(claim: FigureClaim) -> str:
    return "" if claim.printed is None else " to ".join(f"{bound:g}" for bound in claim.printed)


def _ours(verdict: ReadVerdict) -> str:
    """Write the difference where there is one to compare; orderings are summed up beside it."""
    if len(verdict.tested) > 1:
        return ""
    one = verdict.tested[0]
    is_normal = not normality_p(one.values) < LOW_P  # nor known to be otherwise, where it is not a number
    trust = "" if is_normal else f"; not normal, signed rank p {probability(signed_rank_p(one.values))}"
    return f"{signed(one.difference)}, p {probability(one.found.p)}{trust}"


def _figures(outcome: FederationOutcome) -> Iterator[str | MarkdownTable]:
    shown = ""
    for name in outcome.wanted:
        figure, picture = outcome.plan.study.figures[name], _picture_of(outcome, name)
        yield f"## Figure {name}: {figure.title}"
        if picture != shown:
            shown = picture
            at_top = picture == _lead_picture(outcome)
            yield "Its picture is at the top of this page." if at_top else _image(picture)
        sweep = outcome.plan.sweeps[figure.letter]
        length = f" Runs of {sweep.hours} hours." if sweep.hours and sweep.hours < outcome.plan.hours else ""
        yield f"By {sweep.axis}; mean and half the width of its 95 % interval.{length}"
        yield _figure_table(outcome, figure, figure.metric)
        for metric in figure.beside:
            yield f"Beside it, `{metric}`:"
            yield _figure_table(outcome, figure, metric)


def _figure_table(outcome: FederationOutcome, figure: PublishedFigure, metric: str) -> MarkdownTable:
    """Give one line for each reading and policy: mean and half the width of its 95 % interval."""
    points = outcome.plan.sweeps[figure.letter].points
    lines = [
        [result.reading, POLICY_TITLES[curve.policy], *(amount(point[metric]) for point in curve.points)]
        for result in outcome.figures
        if result.figure == figure
        for curve in result.curves
    ]
    columns = ["reading", "policy", *(f"{point.shown:g}" for point in points)]
    return MarkdownTable(columns, lines, range(2, len(columns)))


def _anova_table(outcome: FederationOutcome) -> MarkdownTable:
    """Give one line for each figure and reading: p of factors, of both together and of assumptions."""
    lines = [
        [
            result.figure.name,
            result.reading,
            *(probability(effect.p) for effect in (found.first, found.second, found.together)),
            probability(found.normal_p),
            probability(found.equal_spread_p),
            f"{result.largest_cv:.3f}",
        ]
        for result in outcome.figures
        for found in [result.anova]
    ]
    columns = ("figure", "reading", "policy", "point", "both", "normal", "equal spread", "largest CV")
    return MarkdownTable(columns, lines, range(2, 8))


def _ratio_table(outcome: FederationOutcome, metrics: Sequence[str]) -> MarkdownTable:
    """Give one line for each reading and policy: its ratios to the reference."""
    lines = [
        [one.reading.name, POLICY_TITLES[one.policy], *(bounded(one.ratios[metric]) for metric in metrics)]
        for one in outcome.compared
    ]
    columns = ["reading", "policy", *(BASE_METRICS[metric] for metric in metrics)]
    return MarkdownTable(columns, lines, range(2, len(columns)))


def _base(outcome: FederationOutcome) -> Iterator[str | MarkdownTable]:
    if outcome.base:
        yield "## All readings at the base point"
        lines = [
            [
                one.reading.name,
                POLICY_TITLES[one.policy],
                *(amount(one.means[metric]) for metric in BASE_METRICS),
            ]
            for one in outcome.base
        ]
        columns = ["reading", "policy", *BASE_METRICS.values()]
        yield MarkdownTable(columns, lines, range(2, len(columns)))


# Pictures: one for each figure of the publication, with its parts under each reading


def _picture_of(outcome: FederationOutcome, figure: str) -> str:
    """Name the picture that shows a part of a figure: ``003-fig5`` for 5a."""
    return f"{outcome.plan.study.number}-fig{figure[:-1]}"


def _lead_picture(outcome: FederationOutcome) -> str:
    """Name the picture at the top: that of the figure which shows most, or else the first."""
    shown = [_picture_of(outcome, one) for one in outcome.wanted]
    lead = _picture_of(outcome, f"{outcome.plan.study.lead_figure}-")
    return lead if lead in shown else shown[0]


def _image(picture: str) -> str:
    figure = picture.rpartition("fig")[2]
    return f"![Figure {figure}: means with their 95 % intervals as bands]({picture}.svg)"


def draw(outcome: FederationOutcome, folder: Path) -> list[Path]:
    """Draw all figures that were asked for; returns the paths."""
    columns, by_picture = len(outcome.plan.swept), dict[str, list[pictures.Panel]]()
    for result in outcome.figures:
        by_picture.setdefault(_picture_of(outcome, result.figure.name), []).append(_panel(outcome, result))
    return [
        path
        for name, panels in by_picture.items()
        for path in pictures.write(pictures.curves(panels, columns), folder / name)
    ]


def _panel(outcome: FederationOutcome, result: FigureResult) -> pictures.Panel:
    figure, sweep = result.figure, outcome.plan.sweeps[result.figure.letter]
    curves = {
        POLICY_TITLES[curve.policy]: [
            (point.shown, found[figure.metric]) for point, found in zip(sweep.points, curve.points, strict=True)
        ]
        for curve in result.curves
    }
    return pictures.Panel(f"{figure.name}, {result.reading}", sweep.axis, figure.title, curves)
