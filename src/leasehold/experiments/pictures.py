"""Pictures of evaluations: curves with their confidence bands, and points with their intervals.

They are drawn by the library that draws the report of a run (extra ``report``), as SVG for the pages and as
PNG for slides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import altair as alt
import vl_convert

from leasehold.analysis.report.render import FILE_STYLE, vega_config
from leasehold.experiments.statistics import Interval

COLOURS = (
    "#2c4a7c", "#e9b44c", "#3aa294", "#9a78c9", "#d9593f", "#7a8699", "#1d2433", "#c77dab",
    "#6aa84f", "#8c564b", "#00a2c7", "#b8860b", "#5d3a9b", "#ff7f50", "#a3c644", "#0b6e4f",
    "#f2a6c0", "#6b4226", "#9fc5e8", "#c00000", "#ff3d9a", "#555f33", "#7fd1b9", "#b9a7ff",
)  # fmt: skip
WIDTH, HEIGHT, PNG_SCALE = 260, 190, 2.0
PADDING = 16
"""Pixels on every side: letters are a little wider in some viewers than where the picture was made."""
PX_PER_LETTER = 6.5
"""Room that a name has beside its line, for the same reason."""
BELOW_THEIR_TICKS = {"labelFlush": False}
"""Else the first and the last number of an axis are pushed into their neighbours."""

AnyChart = alt.Chart | alt.LayerChart | alt.HConcatChart | alt.VConcatChart | alt.ConcatChart


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of curves: what stands above it, its axes, and the points of each curve in order."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, Interval]]]


def curves(panels: Sequence[Panel], columns: int) -> AnyChart:
    """Draw panels beside each other; the same name has the same colour in all of them."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    return alt.concat(*(_panel(panel, names) for panel in panels), columns=columns)


def _panel(panel: Panel, names: Sequence[str]) -> alt.LayerChart:
    rows = [
        {"policy": name, "x": x, "mean": found.mean, "low": found.low, "high": found.high}
        for name, points in panel.curves.items()
        for x, found in points
        if isfinite(found.mean)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q", title=panel.x, scale=alt.Scale(zero=False, nice=False)),
        color=alt.Color("policy:N", scale=_colours(names), sort=list(names), legend=_legend()),
    )
    level = alt.Y("mean:Q", title=panel.y, scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=panel.y), y2="high:Q")
    line = base.mark_line(strokeWidth=1.8).encode(y=level)
    dots = base.mark_point(filled=True, size=24, opacity=1).encode(y=level)
    return alt.LayerChart(layer=[band, line, dots], title=panel.title, width=WIDTH, height=HEIGHT)


def _colours(names: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=list(names), range=[COLOURS[place % len(COLOURS)] for place in range(len(names))])


def _legend() -> alt.Legend:
    return alt.Legend(orient="right", symbolOpacity=1)


@dataclass(frozen=True, slots=True)
class Dot:
    """One point with an interval each way; points of a ``family`` are joined."""

    name: str
    family: str
    x: Interval
    y: Interval


def trade_off(title: str, axes: tuple[str, str], dots: Sequence[Dot]) -> AnyChart:
    """Draw what one thing costs of another."""
    rows = [
        {"name": dot.name, "family": dot.family, "x": dot.x.mean, "y": dot.y.mean}
        | {"x_low": dot.x.low, "x_high": dot.x.high, "y_low": dot.y.low, "y_high": dot.y.high}
        for dot in dots
        if isfinite(dot.x.mean) and isfinite(dot.y.mean)
    ]
    names = [str(row["name"]) for row in rows]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        color=alt.Color("name:N", scale=_colours(names), sort=names, legend=_legend())
    )
    x, y = alt.X("x:Q", title=axes[0]), alt.Y("y:Q", title=axes[1])
    dot = base.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y)
    across = base.mark_rule(opacity=0.5).encode(x=alt.X("x_low:Q", title=axes[0]), x2="x_high:Q", y=y)
    up = base.mark_rule(opacity=0.5).encode(x=x, y=alt.Y("y_low:Q", title=axes[1]), y2="y_high:Q")
    joined = (
        alt.Chart(alt.InlineData(values=[row for row in rows if row["family"]]))
        .mark_line(color=FILE_STYLE.faint, strokeWidth=1)
        .encode(x=x, y=y, detail="family:N", order="x:Q")
    )
    return alt.LayerChart(
        layer=[joined, across, up, dot],
        title=title,
        width=1.4 * WIDTH,
        height=1.6 * HEIGHT,
    )


def beside(charts: Sequence[AnyChart]) -> AnyChart:
    """Put charts with the same names beside each other."""
    return alt.hconcat(*charts)


@dataclass(frozen=True, slots=True)
class Ranking:
    """One panel of intervals: its title, its axis, and what was found for each name, in this order.

    ``reference``  where a dashed line stands
    ``printed``    published values, drawn as diamonds
    """

    title: str
    axis: str
    found: Mapping[str, Interval]
    reference: float | None = None
    printed: Mapping[str, float] = field(default_factory=dict)


def intervals(rankings: Sequence[Ranking]) -> AnyChart:
    """Draw a point with its interval for each name, up to three panels beside each other."""
    return alt.concat(*map(_ranked, rankings), columns=3)


def _ranked(panel: Ranking) -> alt.LayerChart:
    found = {name: one for name, one in panel.found.items() if isfinite(one.mean)}
    rows = [{"name": name, "mean": one.mean, "low": one.low, "high": one.high} for name, one in found.items()]
    room = alt.Axis(minExtent=PX_PER_LETTER * max(map(len, panel.found)))
    name = alt.Y("name:N", sort=list(panel.found), title=None, axis=room)

    def at(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=panel.axis)

    base = alt.Chart(alt.InlineData(values=rows)).encode(y=name)
    across = base.mark_rule(color=COLOURS[0]).encode(x=at("low"), x2="high:Q")
    dot = base.mark_point(filled=True, size=40, opacity=1, color=COLOURS[0]).encode(x=at("mean"))
    layers = [across, dot]
    if panel.reference is not None:
        line = alt.Chart(alt.InlineData(values=[{"at": panel.reference}])).encode(x=at("at"))
        layers.insert(0, line.mark_rule(color=FILE_STYLE.faint, strokeDash=[4, 3]))
    if panel.printed:
        printed = [{"name": name, "printed": value} for name, value in panel.printed.items()]
        marks = alt.Chart(alt.InlineData(values=printed)).encode(y=name, x=at("printed"))
        layers.append(marks.mark_point(shape="diamond", size=50, opacity=1, color=COLOURS[4]))
    return alt.LayerChart(layer=layers, title=panel.title, width=WIDTH, height=alt.Step(16))


def write(chart: AnyChart, path: Path) -> list[Path]:
    """Draw a chart into ``path`` with the suffixes .svg and .png."""
    spec = chart.to_dict() | {
        "padding": PADDING,
        "config": vega_config(FILE_STYLE) | {"axisX": BELOW_THEIR_TICKS},
    }
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    svg.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    png.write_bytes(vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
    return [svg, png]
