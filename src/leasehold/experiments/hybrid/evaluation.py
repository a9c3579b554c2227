"""The published evaluation of physical and virtual machines: campaign, curves and claims, report and pictures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from leasehold.analysis.report.render import FILE_STYLE, write_svg
from leasehold.analysis.wording import count
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.hybrid import world
from leasehold.experiments.hybrid.plan import HYBRID, PREFIX, HybridPlan, JobRun, parts, plan_of, stated
from leasehold.experiments.kept import Results, marks
from leasehold.experiments.report import Block, MarkdownTable, Title, amount, bullets, opening, reasons, signed
from leasehold.experiments.statistics import (
    ALPHA,
    ClaimVerdict,
    Interval,
    Status,
    Values,
    differing,
    in_words,
    interval,
    is_equal_within,
    paired,
    status_of,
    status_of_equality,
    tally,
    tested,
)
from leasehold.matching.reliability import at_least

NEAR = 0.02
"""How far success and formula may be apart to be called close: the margin of the test of their equality."""

CLAIM_IS = {
    Status.REPRODUCED: "it follows from the formulas at every point; or each of its orderings holds "
    f"significantly ({100 * ALPHA:.0f} %, paired by seed, Holm over all claims); or success and formula are surely "
    f"closer than {NEAR:g} at every point (two one-sided tests, {100 * ALPHA:.0f} %)",
    Status.IN_DIRECTION: "its orderings hold in the mean, and not all significantly; or success and formula differ "
    "significantly nowhere, and are not surely that close everywhere",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "both sides are the same in every run",
}


# Figures 6 to 8


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """One curve and its points; ``kind`` is shown by its colour, ``dash`` by dashes."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str
    dash: str = ""


def figure_6() -> list[ReliabilityCurve]:
    """Reliability by failure probability, for k of the units of Figure 6, and for one node alone."""
    units, at = stated()["published"]["units"], stated()["curves"]["failure_probabilities"]
    alone = ReliabilityCurve("one node alone", tuple((q, 1 - q) for q in at), "one node alone")
    groups = [
        ReliabilityCurve(name, tuple((q, at_least(needed, [1 - q] * units)) for q in at), name)
        for needed in stated()["curves"]["needed"]
        for name in [f"{needed} of {units}"]
    ]
    return [alone, *groups]


def figure_7() -> list[ReliabilityCurve]:
    """Reliability by the number of nodes, for jobs that need 1, 2 and 3 of them."""
    curves = stated()["curves"]
    return [
        ReliabilityCurve(
            f"{needed} needed, each fails with {q:g}",
            tuple((size, at_least(needed, [1 - q] * size)) for size in curves["nodes"] if size >= needed),
            f"q = {q:g}",
            f"{needed} needed",
        )
        for q in curves["of_figure_7"]
        for needed in curves["needed"]
    ]


@dataclass(frozen=True, slots=True)
class Ordering:
    """One configuration has less of a metric than another."""

    less: str
    more: str
    metric: str
    where: str


@dataclass(frozen=True, slots=True)
class OrderingClaim:
    """One sentence, with the orderings that it takes; none where a figure decides.

    ``is_ours``  whether it is not the paper's, but about what we added
    """

    text: str
    orderings: tuple[Ordering, ...] = ()
    is_ours: bool = False


def verdicts(plan: HybridPlan, results: Results) -> list[ClaimVerdict[OrderingClaim]]:
    """Judge everything that is claimed; all orderings are one family of hypotheses."""
    listed = claims(plan) if plan.is_whole else []
    found = tested([[_difference(one, results) for one in claim.orderings] for claim in listed])
    judged = [
        ClaimVerdict(
            claim,
            Status.NOT_COMPARABLE if all(one.is_zero for one in of_claim) else status_of(of_claim),
            tally(of_claim),
            of_claim,
        )
        for claim, of_claim in zip(listed, found, strict=True)
    ]
    of_figures: Mapping[int, Callable[[], ClaimVerdict[OrderingClaim]]]
    of_figures = {6: _of_figure_6, 7: _of_figure_7, 8: partial(_of_figure_8, plan, results)}
    return [*(of_figures[number]() for number in plan.figures), *judged]


def _of_figure_6() -> ClaimVerdict[OrderingClaim]:
    alone, *groups = figure_6()
    above = {
        group.name: [ours[1] > theirs[1] for ours, theirs in zip(group.points, alone.points, strict=True)]
        for group in groups
    }
    text = "Figure 6: a group of three is surer than one node, however likely a node fails"
    counts = "; ".join(f"{name}: at {sum(held)} of {len(held)} points" for name, held in above.items())
    return _figure(text, counts, holds=all(above[groups[0].name]))


def _of_figure_7() -> ClaimVerdict[OrderingClaim]:
    rising = [later[1] > earlier[1] for curve in figure_7() for earlier, later in pairwise(curve.points)]
    why = f"{sum(rising)} of {len(rising)} steps go up"
    return _figure("Figure 7: the more nodes there are, the surer is the group", why, holds=all(rising))


def _of_figure_8(plan: HybridPlan, results: Results) -> ClaimVerdict[OrderingClaim]:
    of_runs = [results[one.name] for one in plan.of("reliability") if was_planned(one, results)]
    found = [paired(one["done_in_time"], one["sure_by_plan"]) for one in of_runs]
    close = [is_equal_within(np.subtract(one["done_in_time"], one["sure_by_plan"]), NEAR) for one in of_runs]
    widest = max(abs(each.difference.mean) for each in found)
    never = len(plan.of("reliability")) - len(found)
    why = (
        f"{sum(close)} of {len(close)} points are surely closer than {NEAR:g}, "
        f"{differing(found)} differ significantly; the widest gap is {widest:.3f}; "
        f"{never} are out of reach"
    )
    status = status_of_equality(found, are_equal=all(close))
    return ClaimVerdict(OrderingClaim("Figure 8: formula and implementation agree closely"), status, why)


def _figure(text: str, why: str, *, holds: bool) -> ClaimVerdict[OrderingClaim]:
    return ClaimVerdict(OrderingClaim(text), Status.REPRODUCED if holds else Status.NOT_REPRODUCED, why)


def was_planned(configuration: JobRun, results: Results) -> bool:
    """Whether anything was planned: what is out of reach is refused, and has no reliability."""
    return not any(isnan(value) for value in results[configuration.name]["sure_by_plan"])


def gap(configuration: JobRun, results: Results) -> Interval:
    """Give the jobs done in time less those by formula, as parts of one."""
    found = results[configuration.name]
    return paired(found["done_in_time"], found["sure_by_plan"]).difference


# Orderings


def claims(plan: HybridPlan) -> list[OrderingClaim]:
    """List what is claimed of ways and queues, as orderings of configurations that else are the same."""
    return [
        OrderingClaim(one["text"], _orderings(plan, one), one.get("ours", False))
        for one in stated()["section_5"]["claims"]
    ]


def _orderings(plan: HybridPlan, entry: Mapping[str, str]) -> tuple[Ordering, ...]:
    among, field = plan.of(entry["part"]), "queue" if entry["part"] == "queues" else "way"
    less, more = ([one for one in among if getattr(one, field) == entry[side]] for side in ("less", "more"))
    return tuple(
        Ordering(one.name, other.name, entry["metric"], f"load {one.load:g}, tried for {one.retry_for_s:,} s")
        for one, other in zip(less, more, strict=True)
    )


def _difference(ordering: Ordering, results: Results) -> Values:
    return np.subtract(results[ordering.more][ordering.metric], results[ordering.less][ordering.metric])


# All of it


@dataclass(frozen=True, slots=True)
class HybridOutcome:
    """What was run, and how the claims came out."""

    plan: HybridPlan
    results: Results
    verdicts: Sequence[ClaimVerdict[OrderingClaim]]
    seeds: int


def outcome_of(plan: HybridPlan, results: Results, seeds: int) -> HybridOutcome:
    """Judge the results."""
    return HybridOutcome(plan, results, verdicts(plan, results), seeds)


def as_data(outcome: HybridOutcome) -> dict[str, Any]:
    """Give all of it as plain data."""
    return {
        "source": stated()["published"]["source"],
        "seeds": outcome.seeds,
        "figure_6": [asdict(curve) for curve in figure_6()],
        "figure_7": [asdict(curve) for curve in figure_7()],
        "claims": [
            {
                "text": verdict.claim.text,
                "is_ours": verdict.claim.is_ours,
                "status": verdict.status,
                "why": verdict.why,
                "tested": [
                    {"ordering": asdict(ordering), "found": asdict(one.difference), "p": one.p}
                    for ordering, one in zip(verdict.claim.orderings, verdict.tested, strict=True)
                ],
            }
            for verdict in outcome.verdicts
        ],
        "configurations": {
            name: {metric: asdict(interval(values)) for metric, values in metrics.items()}
            for name, metrics in outcome.results.items()
        },
    }


SEEDS, QUICK_SEEDS = 30, 6

_MAKES_RESULTS = ("model/errors.py", "matching", "jobs", "experiments/hybrid/world.py")

FIGURE_TITLES = {
    6: "Figure 6: reliability of three units, by failure probability",
    7: "Figure 7: reliability of a group, by number of nodes",
    8: "Figure 8: reliability by formula, and jobs done in time",
}
LEAD = 8
"""The figure at the top of the page."""


def campaign(parts: Sequence[str], size: Size) -> Campaign:
    """Run every configuration, or those of some figures."""
    read = plan_of(parts, quick=size.quick)
    seeds = size.count(SEEDS, QUICK_SEEDS)
    return Campaign(
        runs=dict.fromkeys(read.configurations, range(1, seeds + 1)),
        marks=marks(_MAKES_RESULTS, {name: one.as_data() for name, one in read.configurations.items()}),
        measure=world.measure,
        report=partial(report, read, seeds),
    )


EVALUATIONS = {"hybrid": Evaluation(campaign, parts)}


def report(read: HybridPlan, seeds: int, results: Results) -> EvaluationReport:
    """Report on these results."""
    found = outcome_of(read, results, seeds)
    return EvaluationReport(
        "hybrid", as_data(found), partial(page, found), partial(screen, found), partial(draw, found)
    )


def screen(outcome: HybridOutcome) -> Iterator[Block]:
    """Give the claims, the figures and the tables."""
    yield Title("Claims")
    yield _claim_table(outcome)
    for number, table in _figure_tables(outcome).items():
        yield Title(FIGURE_TITLES[number])
        yield table
    if outcome.plan.is_whole:
        yield Title("Physical only, virtual only, hybrid")
        yield _ablation_table(outcome)
        yield _needless(outcome)
        yield Title("Queues")
        yield _queue_table(outcome)
        yield Title("Why results differ")
        yield from (f"{entry['about']} {entry['text']}" for entry in stated()["why"])
    yield Title(f"{outcome.seeds} seeds. {_summary(outcome)}")


def page(outcome: HybridOutcome) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    lead = LEAD if LEAD in outcome.plan.figures else outcome.plan.figures[0]
    yield from opening(
        "Physical nodes or virtual machines for jobs: the published evaluation, reproduced",
        f"{_lesson(outcome)} {_summary(outcome)}".lstrip(),
        _image(lead),
    )
    yield (
        f"Generated by `{_command(outcome)}`: {outcome.seeds} seeds, the same "
        "for all ways. [How it is run](../reference/reproduce.md#physical-or-virtual)."
    )
    yield f"Source: {stated()['published']['source']}, section 5."
    yield bullets(f"A claim is *{status}* when {meaning}." for status, meaning in CLAIM_IS.items())
    yield _claim_table(outcome)
    for number, table in _figure_tables(outcome).items():
        yield f"## {FIGURE_TITLES[number]}"
        yield "Its picture is at the top of this page." if number == lead else _image(number)
        yield table
    if outcome.plan.is_whole:
        yield "## Physical only, virtual only, hybrid"
        yield _needless(outcome)
        yield _ablation_table(outcome)
        yield "## Queues"
        yield _queue_table(outcome)
        yield "## Why results differ"
        yield from reasons(stated()["why"])
    yield "## Interpretations"
    read = outcome.plan.interpretations
    yield bullets(f"**{one.key}**: {one.reading}. Why: {one.why}." for one in read)
    yield "Everything that is drawn, and how, stands in `src/leasehold/experiments/hybrid/hybrid.toml`."


def _command(outcome: HybridOutcome) -> str:
    """Give the command that makes this report."""
    names = ["hybrid"] if outcome.plan.is_whole else [f"{PREFIX}{number}" for number in outcome.plan.figures]
    quick = " --quick" if outcome.plan.is_quick else ""
    return f"leasehold reproduce {' '.join(names)}{quick} --seeds {outcome.seeds}"


def _lesson(outcome: HybridOutcome) -> str:
    """Compare the ways under the highest load; "" where they were not run."""
    if not outcome.plan.is_whole:
        return ""
    load = max(one.load for one in outcome.plan.of("ablation"))
    found = {
        one.way: _amounts(outcome, one, ("refused_pct", "machines"))
        for one in outcome.plan.of("ablation")
        if one.load == load
    }
    ways = "; ".join(f"{way} refuses {refused} % and makes {made} machines" for way, (refused, made) in found.items())
    return (
        "The hybrid way makes a virtual machine only where no physical node has what a job needs. Of the same jobs at "
        f"load {load:g}, {ways}."
    )


def _image(number: int) -> str:
    return f"![{FIGURE_TITLES[number]}](hybrid-fig{number}.svg)"


def _claim_table(outcome: HybridOutcome) -> MarkdownTable:
    lines = [[one.claim.text, str(one.status), one.why] for one in outcome.verdicts]
    return MarkdownTable(("claim", "status", "what decided"), lines)


def _figure_tables(outcome: HybridOutcome) -> dict[int, MarkdownTable]:
    tables = {
        6: lambda: _curve_table(figure_6(), "q of a node"),
        7: lambda: _curve_table(figure_7(), "nodes"),
        8: lambda: _agreement_table(outcome),
    }
    return {number: tables[number]() for number in outcome.plan.figures}


def _curve_table(curves: Sequence[ReliabilityCurve], axis: str) -> MarkdownTable:
    """Give one line for each point of the axis; a curve that has no such point has none in its line."""
    at = sorted({x for curve in curves for x, _ in curve.points})
    values = [dict(curve.points) for curve in curves]
    lines = [[f"{x:g}", *(f"{one[x]:.3f}" if x in one else "-" for one in values)] for x in at]
    return MarkdownTable((axis, *(curve.name for curve in curves)), lines, range(len(curves) + 1))


def _agreement_table(outcome: HybridOutcome) -> MarkdownTable:
    """Give one line for each point of Figure 8."""
    lines = [
        [
            f"{one.q:g}",
            f"{one.asked:g}",
            *_amounts(outcome, one, ("sure_by_plan", "done_in_time")),
            signed(gap(one, outcome.results)) if was_planned(one, outcome.results) else "out of reach",
            f"{interval(outcome.results[one.name]['attempts']).mean / one.count:.2f}",
        ]
        for one in outcome.plan.of("reliability")
    ]
    columns = ("a node fails with", "asked", "by formula", "done in time", "difference", "copies")
    return MarkdownTable(columns, lines, range(6))


def _ablation_table(outcome: HybridOutcome) -> MarkdownTable:
    """Give one line for each way and load."""
    shown = ("refused_pct", "machines", "builds", "wait_s", "in_time_pct")
    lines = [[f"{one.load:g}", one.way, *_amounts(outcome, one, shown)] for one in outcome.plan.of("ablation")]
    columns = ("load", "way", "refused (%)", "machines", "images built", "wait (s)", "done in time (%)")
    return MarkdownTable(columns, lines, range(2, 7))


def _queue_table(outcome: HybridOutcome) -> MarkdownTable:
    """Give one line for each queue, load and patience."""
    shown = ("wait_s", "longest_wait_s", "refused_pct", "in_time_pct")
    lines = [
        [f"{one.retry_for_s:,}", f"{one.load:g}", one.queue, *_amounts(outcome, one, shown)]
        for one in outcome.plan.of("queues")
    ]
    columns = ("tried for (s)", "load", "queue", "wait (s)", "longest (s)", "refused (%)", "done in time (%)")
    return MarkdownTable(columns, lines, (0, 1, 3, 4, 5, 6))


def _amounts(outcome: HybridOutcome, one: JobRun, metrics: Sequence[str]) -> list[str]:
    return [amount(interval(outcome.results[one.name][metric])) for metric in metrics]


def _summary(outcome: HybridOutcome) -> str:
    """Count in a sentence how the claims of the paper came out, and in another our own."""
    of_paper, ours = ([one.status for one in outcome.verdicts if one.claim.is_ours is side] for side in (False, True))
    own = f" Of {count(len(ours), 'claim')} of our own: {in_words(ours)}." if ours else ""
    return f"Of {count(len(of_paper), 'claim')} of the paper: {in_words(of_paper)}.{own}"


def _needless(outcome: HybridOutcome) -> str:
    """Count the machines that no job needed."""
    hybrid = [outcome.results[one.name] for one in outcome.plan.of("ablation") if one.way == HYBRID]
    made, number = (sum(sum(one[metric]) for one in hybrid) for metric in ("machines", "needless_machines"))
    return (
        f"Of {made:,.0f} machines that the hybrid way made, {number:,.0f} were for jobs for which there were "
        "nodes enough with all that is needed."
    )


# Figures 6 to 8 as pictures

WIDTH, HEIGHT = 560, 280
_COLOURS = ["#667085", *FILE_STYLE.parties.values()]
_DASHES = ([1, 0], [6, 3], [2, 2])


def draw(outcome: HybridOutcome, folder: Path) -> list[Path]:
    """Write each figure as SVG into the folder; returns the paths."""
    charts = {
        6: lambda: _curves_chart(figure_6(), alt.X("x:Q", title="probability that a node fails")),
        7: lambda: _curves_chart(figure_7(), alt.X("x:O", title="nodes", axis=alt.Axis(labelAngle=0))),
        8: lambda: _agreement_chart(outcome),
    }
    return [
        write_svg(charts[number]().to_dict(), FILE_STYLE, folder / f"hybrid-fig{number}.svg")
        for number in outcome.plan.figures
    ]


def _curves_chart(curves: Sequence[ReliabilityCurve], axis: alt.X) -> alt.LayerChart:
    """Draw reliability along an axis, a line for each curve, the points marked."""
    rows = [
        {"x": x, "y": y, "curve": curve.name, "kind": curve.kind, "dash": curve.dash}
        for curve in curves
        for x, y in curve.points
    ]
    kinds = list(dict.fromkeys(curve.kind for curve in curves))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=axis,
        y=alt.Y("y:Q", title="reliability", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("kind:N", scale=_scale(kinds, _COLOURS), legend=alt.Legend(orient="right")),
        detail="curve:N",
    )
    lines = base.mark_line(strokeWidth=2)
    if dashes := list(dict.fromkeys(curve.dash for curve in curves if curve.dash)):
        legend = alt.Legend(orient="right", symbolType="stroke")
        lines = lines.encode(strokeDash=alt.StrokeDash("dash:N", scale=_scale(dashes, _DASHES), legend=legend))
    return alt.LayerChart(layer=[lines, base.mark_point(filled=True, size=35)], width=WIDTH, height=HEIGHT)


def _scale(names: Sequence[str], range_: Sequence[Any]) -> alt.Scale:
    return alt.Scale(domain=list(names), range=list(range_[: len(names)]))


def _agreement_chart(outcome: HybridOutcome) -> alt.LayerChart:
    """Draw how often jobs were done in time, with its interval, by how sure the formula says they are."""
    rows = alt.InlineData(values=list(_points(outcome)))
    same = alt.InlineData(values=[{"by_formula": x, "done": x} for x in (0.0, 1.0)])
    x = alt.X("by_formula:Q", title="reliability by formula", scale=alt.Scale(domain=[0.4, 1]))
    y = alt.Y("done:Q", title="part of the jobs done in time", scale=alt.Scale(domain=[0.4, 1]))
    line = alt.Chart(same).mark_line(color=FILE_STYLE.faint, strokeDash=[3, 3], clip=True).encode(x=x, y=y)
    bars = alt.Chart(rows).mark_rule().encode(x=x, y=alt.Y("low:Q", title=""), y2="high:Q", color="node:N")
    dots = (
        alt.Chart(rows)
        .mark_point(filled=True, size=60)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "node:N",
                scale=alt.Scale(range=list(FILE_STYLE.parties.values())),
                legend=alt.Legend(orient="right"),
            ),
        )
    )
    return alt.LayerChart(layer=[line, bars, dots], width=WIDTH, height=HEIGHT)


def _points(outcome: HybridOutcome) -> Iterator[dict[str, float | str]]:
    for one in outcome.plan.of("reliability"):
        if not was_planned(one, outcome.results):
            continue
        by_formula = interval(outcome.results[one.name]["sure_by_plan"]).mean
        off = gap(one, outcome.results)
        yield {
            "by_formula": by_formula,
            "done": by_formula + off.mean,
            "low": by_formula + off.low,
            "high": by_formula + off.high,
            "node": f"a node fails with {one.q:g}",
        }
