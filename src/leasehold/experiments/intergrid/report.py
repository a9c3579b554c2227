"""The report: the same content as Markdown and, piece by piece, for the terminal."""

from collections.abc import Iterator, Mapping, Sequence

from leasehold.experiments.intergrid import verdicts
from leasehold.experiments.intergrid.claims import TITLES, Claim, Figure
from leasehold.experiments.intergrid.drawing import picture_of
from leasehold.experiments.intergrid.outcome import EQUATION_2, Curve, Outcome, Panel
from leasehold.experiments.intergrid.settings import Reading
from leasehold.experiments.intergrid.verdicts import Verdict
from leasehold.experiments.machine import where
from leasehold.experiments.markdown import table
from leasehold.experiments.status import counted, in_words
from leasehold.experiments.writing import amount, bounded, probability, signed

LOW_P = 0.05
FEW_METRICS = ("vms_preempted", "leases_preempted", "awrt_s", "np_rejection_pct")
"""Those that a terminal has room for."""

CLAIM_COLUMNS = ("figure", "claim", "printed", "reading", "ours", "status", "why")
ANOVA_COLUMNS = ("figure", "reading", "policy", "point", "both", "normal", "equal spread", "largest CV")
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


def command(outcome: Outcome) -> str:
    """Give the command that makes this report."""
    study, is_all = outcome.plan.study, set(outcome.wanted) == set(outcome.plan.study.figures)
    names = study.number if is_all else " ".join(f"{study.number}-fig{one}" for one in outcome.wanted)
    how_long = "" if outcome.plan.hours == outcome.plan.said["published"]["hours"] else " --quick"
    return f"leasehold reproduce {names}{how_long} --seeds {outcome.replications}"


ENOUGH = 10
"""Replications with which an interval is worth reading."""
FEWER_BUT_AS_LONG = "Each run is as long as published; with fewer of them, intervals are wider."
FEW_AND_SHORT = (
    "Look at the shape, not at the words: few replications make wide intervals, in which nothing is sure."
)


def size(outcome: Outcome) -> str:
    """Say how large it is, and what that means for the words in it."""
    published = outcome.plan.said["published"]
    made = f"{outcome.replications} replications of {outcome.plan.hours} hours"
    if outcome.is_whole:
        return f"{made}, as published."
    wanted = f"{published['replications']} replications of {published['hours']} hours"
    is_as_long = outcome.plan.hours >= published["hours"] and outcome.replications >= ENOUGH
    return (
        f"Not the published size: {made}, where the publication has {wanted}. "
        f"{FEWER_BUT_AS_LONG if is_as_long else FEW_AND_SHORT}"
    )


def summary(outcome: Outcome) -> str:
    """Say in a sentence for each reading how the claims came out."""
    return " ".join(
        f"Of {len(found)} claims under {reading.name}: {in_words(counted(one.status for one in found))}."
        for reading in outcome.plan.swept
        for found in [outcome.of_reading(reading.name)]
    )


def claim_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each claim and reading, the main one first."""
    sides = [outcome.of_reading(reading.name) for reading in outcome.plan.swept]
    return [_claim_line(outcome, verdict) for group in zip(*sides, strict=True) for verdict in group]


def _claim_line(outcome: Outcome, verdict: Verdict) -> list[str]:
    claim = verdict.claim
    return [
        claim.figure,
        claim.text,
        _printed(claim),
        verdict.reading,
        _ours(verdict),
        verdict.status,
        outcome.because(verdict),
    ]


def _printed(claim: Claim) -> str:
    return "" if claim.printed is None else " to ".join(f"{bound:g}" for bound in claim.printed)


def _ours(verdict: Verdict) -> str:
    """Write the difference where there is one to compare; orderings are summed up beside it."""
    if len(verdict.tested) > 1:
        return ""
    one = verdict.tested[0]
    is_normal = not one.normal_p < LOW_P  # nor is it known to be otherwise, where nobody can tell
    trust = "" if is_normal else f"; not normal, signed rank p {probability(one.signed_rank_p)}"
    return f"{signed(one.found.difference)}, p {probability(one.found.p)}{trust}"


def figure_columns(outcome: Outcome, figure: Figure) -> list[str]:
    """Head the table of a figure: the points of its sweep."""
    return ["reading", "policy", *(f"{point.shown:g}" for point in outcome.plan.sweeps[figure.letter].points)]


def figure_lines(outcome: Outcome, figure: Figure, metric: str) -> list[list[str]]:
    """Give one line for each reading and policy: mean and half the width of its 95 % interval."""
    return [
        [panel.reading, TITLES[curve.policy], *_means(curve, metric)]
        for panel in outcome.panels
        if panel.figure == figure
        for curve in panel.curves
    ]


def _means(curve: Curve, metric: str) -> list[str]:
    return [amount(point[metric]) for point in curve.points]


def anova_lines(panels: Sequence[Panel]) -> list[list[str]]:
    """Give one line for each figure and reading: p of factors and of both together, and what it rests on."""
    return [
        [
            panel.figure.name,
            panel.reading,
            *(probability(effect.p) for effect in (table.first, table.second, table.together)),
            probability(table.assumptions.normal_p),
            probability(table.assumptions.equal_spread_p),
            f"{panel.largest_cv:.3f}",
        ]
        for panel in panels
        for table in [panel.anova]
    ]


def ratio_columns(metrics: Sequence[str]) -> list[str]:
    """Head the table of ratios to the reference."""
    return ["reading", "policy", *(BASE_METRICS[metric] for metric in metrics)]


def ratio_lines(outcome: Outcome, metrics: Sequence[str]) -> list[list[str]]:
    """Give one line for each reading and policy: how it stands to the reference."""
    return [
        [one.reading, TITLES[one.policy], *(bounded(one.ratios[metric]) for metric in metrics)]
        for one in outcome.standings
    ]


def base_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each reading and policy where the sweeps meet."""
    return [
        [one.reading.name, TITLES[one.policy], *(amount(one.means[metric]) for metric in BASE_METRICS)]
        for one in outcome.base_points
    ]


def reasons(outcome: Outcome) -> list[tuple[str, str]]:
    """Give why ours differ: about what, and the paragraph; of the topics that the claims are about."""
    topics = {verdict.claim.topic for verdict in outcome.verdicts}
    return [(entry["about"], entry["text"]) for entry in outcome.plan.said["why"] if entry["topic"] in topics]


def markdown(outcome: Outcome) -> str:
    """Write the whole report."""
    return "\n".join(_lines(outcome)).rstrip() + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    yield f"# {outcome.plan.study.title}: the published evaluation, run again"
    yield ""
    yield f"**{size(outcome)}**"
    yield ""
    reference = "[How it is run, and what the words mean](../reference/reproduce.md#routing)"
    yield f"Made by `{command(outcome)}`, never edited by hand, on {where()}. {reference}."
    yield ""
    yield f"Source: {outcome.plan.study.source}. All runs of a replication have the same random streams."
    yield ""
    yield f"**{summary(outcome)}**"
    yield ""
    yield from (f"- A claim is *{status}* when {meaning}." for status, meaning in verdicts.MEANINGS.items())
    yield ""
    yield from _headline(outcome)
    yield from _readings(outcome.plan.readings)
    yield from _standing(outcome)
    yield from _why(outcome)
    yield from _claims(outcome)
    yield from _figures(outcome)
    yield from _anova(outcome)
    yield from _association(outcome)
    yield from _base(outcome)
    yield from _interpretations(outcome)


def _headline(outcome: Outcome) -> Iterator[str]:
    """Put what the publication promises in its abstract and its conclusions first."""
    lines = [line for line in claim_lines(outcome) if line[1].startswith(outcome.plan.study.headline)]
    if lines and outcome.plan.study.headline:
        yield "## Headline and conclusions"
        yield ""
        yield from table(CLAIM_COLUMNS, lines)


def _readings(readings: Sequence[Reading]) -> Iterator[str]:
    yield "## How the workload is read"
    yield ""
    lines = [[one.name, one.role, one.what, one.why] for one in readings]
    yield from table(("reading", "role", "what it is", "why"), lines)


def _standing(outcome: Outcome) -> Iterator[str]:
    if not outcome.standings:
        return
    yield f"## How the policies stand to {TITLES[outcome.plan.study.reference]}"
    yield ""
    yield "Ratio of means where the sweeps meet."
    yield ""
    metrics = list(BASE_METRICS)
    columns = ratio_columns(metrics)
    yield from table(columns, ratio_lines(outcome, metrics), figures=range(2, len(columns)))


def _why(outcome: Outcome) -> Iterator[str]:
    yield "## Why they differ"
    yield ""
    for about, text in reasons(outcome):
        yield f"**{about}** {text}"
        yield ""


def _claims(outcome: Outcome) -> Iterator[str]:
    yield "## Claims"
    yield ""
    yield "Differences as paired means over replications, with the 95 % interval."
    yield ""
    yield from table(CLAIM_COLUMNS, claim_lines(outcome))


def _figures(outcome: Outcome) -> Iterator[str]:
    shown = ""
    for name in outcome.wanted:
        figure = outcome.plan.study.figures[name]
        picture = picture_of(outcome.plan.study.number, name)
        yield f"## Figure {name}: {figure.title}"
        yield ""
        if picture != shown:
            shown = picture
            yield f"![Figure {name[:-1]}: means with their 95 % intervals as bands]({picture}.svg)"
            yield ""
        yield f"By {outcome.plan.sweeps[figure.letter].axis}; mean and half the width of its 95 % interval."
        yield ""
        yield from _figure_table(outcome, figure, figure.metric)
        for metric in figure.beside:
            yield f"Beside it, `{metric}`:"
            yield ""
            yield from _figure_table(outcome, figure, metric)


def _figure_table(outcome: Outcome, figure: Figure, metric: str) -> Iterator[str]:
    columns = figure_columns(outcome, figure)
    yield from table(columns, figure_lines(outcome, figure, metric), figures=range(2, len(columns)))


def _anova(outcome: Outcome) -> Iterator[str]:
    yield "## Two-way analysis of variance"
    yield ""
    yield (
        "Policy and point of the sweep, replications as blocks; p of each and of the two together. What it "
        "takes for granted: p that residuals are normal (Shapiro, Wilk), p of equal variances (Brown, "
        "Forsythe). The largest coefficient of variation of a mean is below .01 in the publication."
    )
    yield ""
    yield from table(ANOVA_COLUMNS, anova_lines(outcome.panels), figures=range(2, len(ANOVA_COLUMNS)))


def _association(outcome: Outcome) -> Iterator[str]:
    yield "## Response time by VMs preempted (eq 2, Figure 4)"
    yield ""
    yield (
        f"Printed: {EQUATION_2}, a positive correlation; neither unit nor runs are stated. Ours: mean "
        "response time of guests in seconds, a line through all runs of these figures in each replication, "
        "and the mean of the lines. A slope that is surely above zero is *reproduced*."
    )
    yield ""
    lines = [
        [
            one.reading,
            *(signed(each) for each in (one.line.intercept, one.line.slope, one.line.r_squared)),
            one.status,
        ]
        for one in outcome.associations
    ]
    yield from table(("reading", "intercept", "slope", "R squared", "status"), lines, figures={1, 2, 3})


def _base(outcome: Outcome) -> Iterator[str]:
    if not outcome.base_points:
        return
    yield "## All readings where the sweeps meet"
    yield ""
    columns = ratio_columns(list(BASE_METRICS))
    yield from table(columns, base_lines(outcome), figures=range(2, len(columns)))


def _interpretations(outcome: Outcome) -> Iterator[str]:
    yield "## How else it is read"
    yield ""
    lines = [[one.key, one.reading, one.why] for one in outcome.plan.interpretations]
    yield from table(("what", "reading", "why"), lines)
    yield "The streams as printed, that of external requests where the sweeps meet:"
    yield ""
    streams = outcome.plan.said["stream"]
    keys = list(next(iter(streams.values())))
    rows = [[name, *(f"{values[key]:g}" for key in keys)] for name, values in streams.items()]
    yield from table(["stream", *keys], rows, figures=range(1, len(keys) + 1))
