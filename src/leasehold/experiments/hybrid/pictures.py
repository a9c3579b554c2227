"""Figures 6 to 8 as pictures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from leasehold.analysis.report.render import write_svg
from leasehold.analysis.report.style import FILE_STYLE
from leasehold.experiments.hybrid.claims import gap, was_planned
from leasehold.experiments.hybrid.curves import Curve, figure_6, figure_7
from leasehold.experiments.hybrid.outcome import Outcome
from leasehold.experiments.statistics import interval

WIDTH, HEIGHT = 560, 280
_COLOURS = ["#667085", *FILE_STYLE.parties.values()]
_DASHES = ([1, 0], [6, 3], [2, 2])


def write_pictures(outcome: Outcome, folder: Path) -> list[Path]:
    """Write each figure as SVG into the folder; returns where they are."""
    charts = {
        6: curves_chart(figure_6(), alt.X("x:Q", title="probability that a node fails")),
        7: curves_chart(figure_7(), alt.X("x:O", title="nodes", axis=alt.Axis(labelAngle=0))),
        8: agreement_chart(outcome),
    }
    return [
        write_svg(chart, FILE_STYLE, folder / f"hybrid-fig{number}.svg") for number, chart in charts.items()
    ]


def curves_chart(curves: list[Curve], axis: alt.X) -> alt.LayerChart:
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
        lines = lines.encode(
            strokeDash=alt.StrokeDash("dash:N", scale=_scale(dashes, _DASHES), legend=legend)
        )
    return alt.LayerChart(layer=[lines, base.mark_point(filled=True, size=35)], width=WIDTH, height=HEIGHT)


def _scale(names: Sequence[str], range_: Sequence[Any]) -> alt.Scale:
    return alt.Scale(domain=list(names), range=list(range_[: len(names)]))


def agreement_chart(outcome: Outcome) -> alt.LayerChart:
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


def _points(outcome: Outcome) -> Iterator[dict[str, float | str]]:
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
