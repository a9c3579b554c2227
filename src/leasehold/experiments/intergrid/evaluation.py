"""The published evaluations of routing and of victims: their campaigns, reports and pictures."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from leasehold.experiments import pictures
from leasehold.experiments.claims import in_words
from leasehold.experiments.evaluation import Campaign, Evaluation, Report, Size
from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.outcome import (
    CLAIM_IS,
    EQUATION_2,
    FederationOutcome,
    FigureResult,
    ReadVerdict,
    as_data,
    outcome_of,
)
from leasehold.experiments.intergrid.plan import Plan, plan
from leasehold.experiments.intergrid.studies import POLICY_TITLES, STUDIES, Figure, FigureClaim, Study
from leasehold.experiments.kept import DECIDES, Results, marks
from leasehold.experiments.report import (
    FEW_AND_SHORT,
    Block,
    Table,
    Title,
    amount,
    bounded,
    bullets,
    probability,
    reasons,
    signed,
    where,
)
from leasehold.experiments.statistics import normality_p, signed_rank_p

REPLICATIONS = 100
ENOUGH = 10
"""Replications with which an interval is worth reading."""
LOW_P = 0.05

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


def report(read: Plan, wanted: Sequence[str], replications: int, results: Results) -> Report:
    """Report on these results."""
    outcome = outcome_of(read, results, wanted, replications)
    return Report(
        read.study.number,
        as_data(outcome),
        page=partial(page, outcome),
        screen=partial(screen, outcome),
        draw=partial(draw, outcome),
        every_result=partial(_every_result, read),
    )


def _every_result(read: Plan, results: pl.DataFrame) -> pl.DataFrame:
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
        yield Title("Where the sweeps meet, as ratio to the reference")
        yield _ratio_table(outcome, FEW_METRICS)
    yield Title("Why they differ")
    yield from (f"{entry['about']} {entry['text']}" for entry in _reasons(outcome))
    yield Title(f"{_size(outcome)}\n{_summary(outcome)}")


def page(outcome: FederationOutcome) -> Iterator[str | Table]:
    """Give the whole report."""
    study, claims = outcome.plan.study, claim_table(outcome)
    reference = "[How it is run, and what the words mean](../reference/reproduce.md#routing)"
    yield f"# {study.title}: the published evaluation, run again"
    yield f"**{_size(outcome)}**"
    yield f"Made by `{_command(outcome)}`, never edited by hand, on {where()}. {reference}."
    yield f"Source: {study.source}. All runs of a replication have the same random streams."
    yield f"**{_summary(outcome)}**"
    yield bullets(f"A claim is *{status}* when {meaning}." for status, meaning in CLAIM_IS.items())
    headline = [line for line in claims.lines if study.headline and line[1].startswith(study.headline)]
    if headline:
        yield "## Headline and conclusions"
        yield Table(claims.columns, headline)
    yield "## How the workload is read"
    readings = [[one.name, one.role, one.what, one.why] for one in outcome.plan.readings]
    yield Table(("reading", "role", "what it is", "why"), readings)
    if outcome.compared:
        yield f"## How the policies stand to {POLICY_TITLES[study.reference]}"
        yield "Ratio of means where the sweeps meet."
        yield _ratio_table(outcome, list(BASE_METRICS))
    yield "## Why they differ"
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
        "and the mean of the lines. A slope that is surely above zero is *reproduced*."
    )
    lines = [
        [one.reading, *map(signed, (one.line.intercept, one.line.slope, one.line.r_squared)), one.status]
        for one in outcome.associations
    ]
    yield Table(("reading", "intercept", "slope", "R squared", "status"), lines, {1, 2, 3})
    yield from _base(outcome)
    yield "## How else it is read"
    yield outcome.plan.readings_table("what", "reading", "why")
    yield "The streams as printed, that of external requests where the sweeps meet:"
    streams = outcome.plan.stated["stream"]
    keys = list(next(iter(streams.values())))
    rows = [[name, *(f"{values[key]:g}" for key in keys)] for name, values in streams.items()]
    yield Table(["stream", *keys], rows, range(1, len(keys) + 1))


def _command(outcome: FederationOutcome) -> str:
    """Give the command that makes this report."""
    study, is_all = outcome.plan.study, set(outcome.wanted) == set(outcome.plan.study.figures)
    names = study.number if is_all else " ".join(f"{study.number}-fig{one}" for one in outcome.wanted)
    how_long = "" if outcome.plan.hours == outcome.plan.stated["published"]["hours"] else " --quick"
    return f"leasehold reproduce {names}{how_long} --seeds {outcome.replications}"


def _size(outcome: FederationOutcome) -> str:
    """Give the size, and what it means for the words of the report."""
    published = outcome.plan.stated["published"]
    made = f"{outcome.replications} replications of {outcome.plan.hours} hours"
    if outcome.is_whole:
        return f"{made}, as published."
    wanted = f"{published['replications']} replications of {published['hours']} hours"
    is_as_long = outcome.plan.hours >= published["hours"] and outcome.replications >= ENOUGH
    return f"Not the published size: {made}, where the publication has {wanted}. " + (
        "Each run is as long as published; with fewer of them, intervals are wider." if is_as_long else FEW_AND_SHORT
    )


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


def claim_table(outcome: FederationOutcome) -> Table:
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
    return Table(("figure", "claim", "printed", "reading", "ours", "status", "why"), lines)


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


def _figures(outcome: FederationOutcome) -> Iterator[str | Table]:
    shown = ""
    for name in outcome.wanted:
        figure, picture = outcome.plan.study.figures[name], _picture_of(outcome, name)
        yield f"## Figure {name}: {figure.title}"
        if picture != shown:
            shown = picture
            yield f"![Figure {name[:-1]}: means with their 95 % intervals as bands]({picture}.svg)"
        yield f"By {outcome.plan.sweeps[figure.letter].axis}; mean and half the width of its 95 % interval."
        yield _figure_table(outcome, figure, figure.metric)
        for metric in figure.beside:
            yield f"Beside it, `{metric}`:"
            yield _figure_table(outcome, figure, metric)


def _figure_table(outcome: FederationOutcome, figure: Figure, metric: str) -> Table:
    """Give one line for each reading and policy: mean and half the width of its 95 % interval."""
    points = outcome.plan.sweeps[figure.letter].points
    lines = [
        [result.reading, POLICY_TITLES[curve.policy], *(amount(point[metric]) for point in curve.points)]
        for result in outcome.figures
        if result.figure == figure
        for curve in result.curves
    ]
    columns = ["reading", "policy", *(f"{point.shown:g}" for point in points)]
    return Table(columns, lines, range(2, len(columns)))


def _anova_table(outcome: FederationOutcome) -> Table:
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
    return Table(columns, lines, range(2, 8))


def _ratio_table(outcome: FederationOutcome, metrics: Sequence[str]) -> Table:
    """Give one line for each reading and policy: its ratios to the reference."""
    lines = [
        [one.reading.name, POLICY_TITLES[one.policy], *(bounded(one.ratios[metric]) for metric in metrics)]
        for one in outcome.compared
    ]
    columns = ["reading", "policy", *(BASE_METRICS[metric] for metric in metrics)]
    return Table(columns, lines, range(2, len(columns)))


def _base(outcome: FederationOutcome) -> Iterator[str | Table]:
    if outcome.base:
        yield "## All readings where the sweeps meet"
        lines = [
            [
                one.reading.name,
                POLICY_TITLES[one.policy],
                *(amount(one.means[metric]) for metric in BASE_METRICS),
            ]
            for one in outcome.base
        ]
        columns = ["reading", "policy", *BASE_METRICS.values()]
        yield Table(columns, lines, range(2, len(columns)))


# Pictures: one for each figure of the publication, with its parts under each reading


def _picture_of(outcome: FederationOutcome, figure: str) -> str:
    """Name the picture that shows a part of a figure: ``003-fig5`` for 5a."""
    return f"{outcome.plan.study.number}-fig{figure[:-1]}"


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
