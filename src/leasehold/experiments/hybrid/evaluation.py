"""The published evaluation of physical and virtual machines: its campaign, its report and its pictures."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from leasehold.analysis.report.render import FILE_STYLE, write_svg
from leasehold.experiments.claims import in_words
from leasehold.experiments.evaluation import Campaign, Evaluation, Report, Size
from leasehold.experiments.hybrid import world
from leasehold.experiments.hybrid.outcome import (
    CLAIM_IS,
    HybridOutcome,
    ReliabilityCurve,
    as_data,
    figure_6,
    figure_7,
    gap,
    outcome_of,
    was_planned,
)
from leasehold.experiments.hybrid.plan import HYBRID, JobRun, Plan, plan, stated
from leasehold.experiments.kept import Results, marks
from leasehold.experiments.report import Block, Table, Title, amount, bullets, reasons, signed
from leasehold.experiments.statistics import interval

SEEDS, QUICK_SEEDS = 30, 6

_MAKES_RESULTS = ("model/errors.py", "matching", "jobs", "experiments/hybrid/world.py")

FIGURE_TITLES = {
    6: "Figure 6: how sure three units are, by how likely one fails",
    7: "Figure 7: how sure a group is, by how many nodes it has",
    8: "Figure 8: formula and implementation",
}


def campaign(_: Sequence[str], size: Size) -> Campaign:
    """Run every configuration."""
    read = plan(quick=size.quick)
    count = size.count(SEEDS, QUICK_SEEDS)
    return Campaign(
        runs=dict.fromkeys(read.configurations, range(1, count + 1)),
        marks=marks(_MAKES_RESULTS, {name: one.as_data() for name, one in read.configurations.items()}),
        measure=world.measure,
        report=partial(report, read, count),
    )


EVALUATIONS = {"hybrid": Evaluation(campaign)}


def report(read: Plan, seeds: int, results: Results) -> Report:
    """Report on these results."""
    found = outcome_of(read, results, seeds)
    return Report("hybrid", as_data(found), partial(page, found), partial(screen, found), partial(draw, found))


def screen(outcome: HybridOutcome) -> Iterator[Block]:
    """Give the claims, the figures and the tables."""
    yield Title("Claims")
    yield _claim_table(outcome)
    for number, table in _figure_tables(outcome).items():
        yield Title(FIGURE_TITLES[number])
        yield table
    yield Title("Physical only, virtual only, hybrid")
    yield _ablation_table(outcome)
    yield _needless(outcome)
    yield Title("Queues")
    yield _queue_table(outcome)
    yield Title("Why it comes out so")
    yield from (f"{entry['about']} {entry['text']}" for entry in stated()["why"])
    yield Title(f"{outcome.seeds} seeds. {_summary(outcome)}")


def page(outcome: HybridOutcome) -> Iterator[str | Table]:
    """Give the whole report."""
    quick = " --quick" if outcome.plan.is_quick else ""
    made_by = f"Made by `leasehold reproduce hybrid{quick} --seeds {outcome.seeds}`, never edited by hand."
    yield "# Physical or virtual: the published evaluation, run again"
    yield f"{made_by}\n[How it is run, and what the words mean](../reference/reproduce.md)."
    source = stated()["published"]["source"]
    yield f"Source: {source}, section 5. {outcome.seeds} seeds, the same for all ways."
    yield f"**{_summary(outcome)}**"
    yield bullets(f"A claim is *{status}* when {meaning}." for status, meaning in CLAIM_IS.items())
    yield _claim_table(outcome)
    for number, table in _figure_tables(outcome).items():
        yield f"## {FIGURE_TITLES[number]}"
        yield f"![{FIGURE_TITLES[number]}](hybrid-fig{number}.svg)"
        yield table
    yield "## Physical only, virtual only, hybrid"
    yield _needless(outcome)
    yield _ablation_table(outcome)
    yield "## Queues"
    yield _queue_table(outcome)
    yield "## Why it comes out so"
    yield from reasons(stated()["why"])
    yield "## How the paper is read"
    read = outcome.plan.interpretations
    yield bullets(f"**{one.key}**: {one.reading}. Why: {one.why}." for one in read)
    yield "Everything that is drawn, and how, stands in `src/leasehold/experiments/hybrid/hybrid.toml`."


def _claim_table(outcome: HybridOutcome) -> Table:
    lines = [[one.claim.text, str(one.status), one.why] for one in outcome.verdicts]
    return Table(("claim", "status", "what decided"), lines)


def _figure_tables(outcome: HybridOutcome) -> dict[int, Table]:
    return {
        6: _curve_table(figure_6(), "q of a node"),
        7: _curve_table(figure_7(), "nodes"),
        8: _agreement_table(outcome),
    }


def _curve_table(curves: Sequence[ReliabilityCurve], axis: str) -> Table:
    """Give one line for each point of the axis; a curve that has no such point has none in its line."""
    at = sorted({x for curve in curves for x, _ in curve.points})
    values = [dict(curve.points) for curve in curves]
    lines = [[f"{x:g}", *(f"{one[x]:.3f}" if x in one else "-" for one in values)] for x in at]
    return Table((axis, *(curve.name for curve in curves)), lines, range(len(curves) + 1))


def _agreement_table(outcome: HybridOutcome) -> Table:
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
    return Table(columns, lines, range(6))


def _ablation_table(outcome: HybridOutcome) -> Table:
    """Give one line for each way and load."""
    shown = ("refused_pct", "machines", "builds", "wait_s", "in_time_pct")
    lines = [[f"{one.load:g}", one.way, *_amounts(outcome, one, shown)] for one in outcome.plan.of("ablation")]
    columns = ("load", "way", "refused (%)", "machines", "images built", "wait (s)", "done in time (%)")
    return Table(columns, lines, range(2, 7))


def _queue_table(outcome: HybridOutcome) -> Table:
    """Give one line for each queue, load and patience."""
    shown = ("wait_s", "longest_wait_s", "refused_pct", "in_time_pct")
    lines = [
        [f"{one.retry_for_s:,}", f"{one.load:g}", one.queue, *_amounts(outcome, one, shown)]
        for one in outcome.plan.of("queues")
    ]
    columns = ("tried for (s)", "load", "queue", "wait (s)", "longest (s)", "refused (%)", "done in time (%)")
    return Table(columns, lines, (0, 1, 3, 4, 5, 6))


def _amounts(outcome: HybridOutcome, one: JobRun, metrics: Sequence[str]) -> list[str]:
    return [amount(interval(outcome.results[one.name][metric])) for metric in metrics]


def _summary(outcome: HybridOutcome) -> str:
    """Count in one sentence how the claims came out."""
    return f"Of {len(outcome.verdicts)} claims: {in_words(one.status for one in outcome.verdicts)}."


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
        6: _curves_chart(figure_6(), alt.X("x:Q", title="probability that a node fails")),
        7: _curves_chart(figure_7(), alt.X("x:O", title="nodes", axis=alt.Axis(labelAngle=0))),
        8: _agreement_chart(outcome),
    }
    return [write_svg(chart, FILE_STYLE, folder / f"hybrid-fig{number}.svg") for number, chart in charts.items()]


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
