"""Pictures of evaluations: curves with their confidence bands, and points with their intervals.

They are drawn by the library that draws the report of a run (extra ``report``), as SVG for the pages and as
PNG for slides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


def trade_off(title: str, axes: tuple[str, str], dots: Sequence[Dot], wanted: tuple[float, float]) -> AnyChart:
    """Draw what one thing costs of another; dots below and left of ``wanted`` have both."""
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
        layer=[_box(wanted, axes), joined, across, up, dot],
        title=title,
        width=1.4 * WIDTH,
        height=1.6 * HEIGHT,
    )


def beside(charts: Sequence[AnyChart]) -> AnyChart:
    """Put charts with the same names beside each other."""
    return alt.hconcat(*charts)


def _box(wanted: tuple[float, float], axes: tuple[str, str]) -> AnyChart:
    corner = [{"x": 0.0, "y": 0.0, "right": wanted[0], "top": wanted[1]}]
    box = alt.Chart(alt.InlineData(values=corner)).mark_rect(opacity=0.08, color=FILE_STYLE.mark)
    x, y = alt.X("x:Q", title=axes[0]), alt.Y("y:Q", title=axes[1])
    drawn: alt.Chart = box.encode(x=x, x2="right:Q", y=y, y2="top:Q")
    return drawn


def intervals(
    titles: Sequence[str], axis: str, found: Sequence[Mapping[str, Interval]], bounds: Sequence[float]
) -> AnyChart:
    """Draw one panel for each title: a point with its interval for each name, and a line at the bound."""
    panels = [_ranked(*each, axis) for each in zip(titles, found, bounds, strict=True)]
    return alt.concat(*panels, columns=3)


def _ranked(title: str, found: Mapping[str, Interval], bound: float, axis: str) -> alt.LayerChart:
    rows = [
        {"name": name, "mean": one.mean, "low": one.low, "high": one.high}
        for name, one in found.items()
        if isfinite(one.mean)
    ]
    room = alt.Axis(minExtent=PX_PER_LETTER * max(map(len, found)))
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("name:N", sort=list(found), title=None, axis=room))
    dot = base.mark_point(filled=True, size=40, opacity=1, color=COLOURS[0]).encode(x=alt.X("mean:Q", title=axis))
    across = base.mark_rule(color=COLOURS[0]).encode(x=alt.X("low:Q", title=axis), x2="high:Q")
    line = (
        alt.Chart(alt.InlineData(values=[{"at": bound}]))
        .mark_rule(color=FILE_STYLE.mark, strokeDash=[4, 3])
        .encode(x=alt.X("at:Q", title=axis))
    )
    return alt.LayerChart(layer=[line, across, dot], title=title, width=WIDTH, height=alt.Step(16))


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
