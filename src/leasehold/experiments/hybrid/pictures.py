"""Figures 6 to 8 as pictures."""

from collections.abc import Iterator
from pathlib import Path

import altair as alt

from leasehold.analysis.report.render import write_svg
from leasehold.analysis.report.style import FILE_STYLE
from leasehold.experiments.hybrid.claims import gap
from leasehold.experiments.hybrid.curves import Curve, figure_6, figure_7
from leasehold.experiments.hybrid.outcome import Outcome
from leasehold.experiments.statistics import interval

WIDTH, HEIGHT = 560, 280
_COLOURS = ["#667085", *FILE_STYLE.parties.values()]


def write_pictures(outcome: Outcome, folder: Path) -> list[Path]:
    """Write each figure as SVG into the folder; returns where they are."""
    charts = {
        6: curves_chart(figure_6(), "probability that a node fails"),
        7: curves_chart(figure_7(), "nodes"),
        8: agreement_chart(outcome),
    }
    return [
        write_svg(chart, FILE_STYLE, folder / f"hybrid-fig{number}.svg") for number, chart in charts.items()
    ]


def curves_chart(curves: list[Curve], axis: str) -> alt.LayerChart:
    """Draw reliability along an axis, a line for each curve, the points marked."""
    rows = [{"x": x, "y": y, "curve": curve.name} for curve in curves for x, y in curve.points]
    names = [curve.name for curve in curves]
    colours = [_COLOURS[index % len(_COLOURS)] for index in range(len(names))]
    dashes = [[1, 0] if index < len(_COLOURS) else [4, 3] for index in range(len(names))]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q", title=axis, scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title="reliability", scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("curve:N", sort=names, scale=alt.Scale(domain=names, range=colours)),
        strokeDash=alt.StrokeDash("curve:N", sort=names, scale=alt.Scale(domain=names, range=dashes)),
    )
    layers = [base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=35)]
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)


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
            color=alt.Color("node:N", scale=alt.Scale(range=list(FILE_STYLE.parties.values()))),
        )
    )
    return alt.LayerChart(layer=[line, bars, dots], width=WIDTH, height=HEIGHT)


def _points(outcome: Outcome) -> Iterator[dict[str, float | str]]:
    for one in outcome.plan.of("reliability"):
        by_formula = interval(outcome.results[one.name]["sure_by_plan"]).mean
        off = gap(one, outcome.results)
        yield {
            "by_formula": by_formula,
            "done": by_formula + off.mean,
            "low": by_formula + off.low,
            "high": by_formula + off.high,
            "node": f"a node fails with {one.q:g}",
        }
