"""Chart: which share of the leases of each party had started after how long a wait."""

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from leasehold.analysis.facts import PARTIES, lease_facts
from leasehold.analysis.report.style import Style
from leasehold.analysis.run import Run
from leasehold.analysis.wording import duration

_POINTS = 160
_TICKS_S = (0, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000)
_TICK_NAMES = ("at once", "1 min", "10 min", "1 h", "6 h", "1 d", "1 w", "30 d")


def waiting_chart(run: Run, style: Style, *, beside: Run | None = None, height: int = 230) -> alt.LayerChart:
    """Draw the wait from ready time to first start as the share of leases that started within it.

    A dot at the left says which share started at once. ``beside`` is a run whose chart stands next
    to this one and has to have the same scale.
    """
    curves = [_curve(run, party) for party in PARTIES]
    rows = [row for curve in curves for row in curve]
    most_s = max(_longest_wait_s(shown) for shown in (run, beside or run))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("wait_s:Q", title="wait from ready time to first start", **_time_axis(most_s)),
        y=alt.Y("started:Q", title="% of leases started", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("party:N", scale=_colours(style), legend=_legend(style)),
        tooltip=["party:N", alt.Tooltip("told:N", title="within"), alt.Tooltip("started:Q", format=".1f")],
    )
    lines = base.mark_line(interpolate="step-after", strokeWidth=2.2, clip=True)
    at_once = base.transform_filter("datum.wait_s == 0").mark_point(filled=True, size=70, opacity=1)
    return alt.LayerChart(layer=[lines, at_once], width="container", height=height)


def _colours(style: Style) -> alt.Scale:
    return alt.Scale(domain=list(PARTIES), range=style.colours_of(PARTIES))


def _legend(style: Style) -> alt.Legend | None:
    return alt.Legend() if style.carries_legend else None


def _time_axis(most_s: float) -> dict[str, Any]:
    """Return scale and axis for waits: fine where they are short, and named in readable units."""
    ticks = [tick for tick in _TICKS_S if tick <= max(most_s, _TICKS_S[1])]
    named = zip(_TICKS_S, _TICK_NAMES, strict=True)
    names = " : ".join(f"datum.value == {tick} ? '{name}'" for tick, name in named) + " : ''"
    reach = alt.Scale(type="symlog", constant=30, domain=[0, max(most_s, ticks[-1])], nice=False)
    return {
        "scale": reach,
        "axis": alt.Axis(values=ticks, labelExpr=names, labelFlush=True, labelOverlap=True),
    }


def _longest_wait_s(run: Run) -> float:
    longest = run.leases.select(pl.col("first_start_ms") - pl.col("ready_ms")).max().item()
    return (longest or 0) / 1_000


def _curve(run: Run, party: str) -> list[dict[str, float | str]]:
    """Return the share started by wait, among those that started, at most `_POINTS` points."""
    waits = lease_facts(run).filter(party=party)["wait_ms"].drop_nulls().sort().to_numpy() / 1_000
    if not len(waits):
        return []
    shares = np.linspace(0, 1, _POINTS)
    at = np.unique(np.minimum((shares * len(waits)).astype(int), len(waits) - 1))
    started = np.searchsorted(waits, waits[at], side="right")
    points = dict(zip(waits[at].tolist(), (100 * started / len(waits)).tolist(), strict=True))
    return [_point(party, wait_s, percent) for wait_s, percent in points.items()]


def _point(party: str, wait_s: float, started: float) -> dict[str, float | str]:
    return {
        "party": party,
        "wait_s": round(wait_s, 1),
        "started": round(started, 2),
        "told": duration(wait_s),
    }
