"""Chart: which lease held which VMs of one cluster, and where a local job took them.

A run counts VMs and not places, so the rows are numbered by first fit; a lease may lie in pieces.
"""

from typing import Any

import altair as alt
import polars as pl

from leasehold.analysis.export.processors import assign_processors, holdings
from leasehold.analysis.facts import PARTIES, PARTY
from leasehold.analysis.report.render import FILE_STYLE, Style, vega_config
from leasehold.analysis.report.window import TimeScale, Window, most_contended, scale_for
from leasehold.analysis.run import Run
from leasehold.model.errors import UnknownName

_LEAST_HEIGHT = 220
_MOST_HEIGHT = 460
_PIXELS_PER_SLOT = 6


def gantt_chart(
    run: Run, site: str | None = None, from_ms: int | None = None, to_ms: int | None = None
) -> alt.LayerChart:
    """Draw one cluster's leases, by default where and when contention was highest.

    Raises UnknownName for a site that the run has not.
    """
    window = most_contended(run) or Window(run.sites["site"][0], run.begin_ms, run.end_ms, is_whole=True)
    if site is not None:
        window = _of_site(run, site, window)
    begin_ms = window.from_ms if from_ms is None else from_ms
    end_ms = window.to_ms if to_ms is None else to_ms
    chosen = Window(window.site, begin_ms, end_ms, window.is_whole)
    chart = draw_window(run, chosen, FILE_STYLE)
    configured: alt.LayerChart = chart.properties(width=900).configure(**vega_config(FILE_STYLE))
    return configured


def _of_site(run: Run, site: str, window: Window) -> Window:
    if site not in run.sites["site"]:
        raise UnknownName("site", site, run.sites["site"].to_list())
    return window if window.site == site else Window(site, run.begin_ms, run.end_ms, is_whole=True)


def draw_window(run: Run, window: Window, style: Style) -> alt.LayerChart:
    """Draw the leases of a window in a style."""
    scale = scale_for(window.to_ms - window.from_ms)
    slots = int(run.sites.filter(pl.col("site") == window.site)["slots"][0])
    data = alt.InlineData(values=_bars(run, window, slots, scale))
    time = alt.Axis(grid=False, format=",d", values=scale.ticks(window.from_ms, window.to_ms), labelOverlap=True)
    x = alt.X("from:Q", title=scale.title, scale=_domain(window, scale), axis=time)
    y = alt.Y("low:Q", title="VMs", scale=alt.Scale(domain=[0, slots], nice=False), axis=alt.Axis(grid=False))
    height = min(max(slots * _PIXELS_PER_SLOT, _LEAST_HEIGHT), _MOST_HEIGHT)
    layers = (_room(slots, style), _leases(data, x, y, style), _overheads(data, style), _cuts(data, style))
    return alt.LayerChart(layer=[*layers], width="container", height=height)


def _domain(window: Window, scale: TimeScale) -> alt.Scale:
    return alt.Scale(domain=[window.from_ms / scale.unit_ms, window.to_ms / scale.unit_ms], nice=False)


def _room(slots: int, style: Style) -> alt.Chart:
    """Fill the room that nobody holds."""
    data = alt.InlineData(values=[{"low": 0, "high": slots}])
    chart: alt.Chart = alt.Chart(data).mark_rect(color=style.idle).encode(y="low:Q", y2="high:Q")
    return chart


def _leases(data: alt.InlineData, x: alt.X, y: alt.Y, style: Style) -> alt.Chart:
    legend = alt.Legend(columns=len(PARTIES)) if style.carries_legend else None
    colours = alt.Scale(domain=list(PARTIES), range=style.colours_of(PARTIES))
    shown = ("lease", "party", "consumer", "VMs", "starts", "ends", "ended by", "gave way to")
    chart: alt.Chart = (
        alt.Chart(data)
        .mark_rect(stroke=style.idle, strokeWidth=0.6, clip=True)
        .encode(
            x=x,
            x2="to:Q",
            y=y,
            y2="high:Q",
            color=alt.Color("party:N", scale=colours, legend=legend),
            tooltip=[alt.Tooltip(f"{name}:N") for name in shown],
        )
    )
    return chart


def _overheads(data: alt.InlineData, style: Style) -> alt.Chart:
    """Pale the stretch in which memory is restored or moved and no work is done."""
    chart: alt.Chart = (
        alt.Chart(data)
        .transform_filter("datum.works > datum.from")
        .mark_rect(color=style.idle, opacity=0.55, clip=True)
        .encode(x="from:Q", x2="works:Q", y="low:Q", y2="high:Q")
    )
    return chart


def _cuts(data: alt.InlineData, style: Style) -> alt.Chart:
    """Draw a heavy edge where a lease had to give way."""
    chart: alt.Chart = (
        alt.Chart(data)
        .transform_filter("datum.cut")
        .mark_rule(color=style.mark, strokeWidth=2.5, clip=True)
        .encode(x="to:Q", y="low:Q", y2="high:Q")
    )
    return chart


def _bars(run: Run, window: Window, slots: int, scale: TimeScale) -> list[dict[str, Any]]:
    """Return one bar for each unbroken row of VMs of each holding that is seen in the window."""
    here = (pl.col("site") == window.site) & (pl.col("end_ms") > window.from_ms)
    seen = holdings(run.segments).filter(here & (pl.col("start_ms") < window.to_ms))
    described = _with_owners(run, seen)
    placed = zip(described.iter_rows(named=True), assign_processors(seen, slots), strict=True)
    return [_bar(row, scale) | {"low": low, "high": high + 1} for row, taken in placed for low, high in taken]


def _with_owners(run: Run, seen: pl.DataFrame) -> pl.DataFrame:
    owners = run.leases.select("lease_id", "consumer", party=PARTY)
    gave_way = run.decisions.filter(pl.col("outcome") == "preempt").select("lease_id", "beneficiary", end_ms="time_ms")
    return seen.join(owners, on="lease_id", how="left", maintain_order="left").join(
        gave_way.unique(["lease_id", "end_ms"]), on=["lease_id", "end_ms"], how="left", maintain_order="left"
    )


def _bar(row: dict[str, Any], scale: TimeScale) -> dict[str, Any]:
    unit_ms = scale.unit_ms
    works_ms = row["end_ms"] if row["run_from_ms"] is None else row["run_from_ms"]
    bar = {
        "lease": row["lease_id"],
        "party": row["party"],
        "consumer": row["consumer"],
        "VMs": row["vms"],
        "starts": f"{row['start_ms'] / unit_ms:,.2f} {scale.unit}",
        "ends": f"{row['end_ms'] / unit_ms:,.2f} {scale.unit}",
        "ended by": row["ended_by"],
        "from": round(row["start_ms"] / unit_ms, 4),
        "to": round(row["end_ms"] / unit_ms, 4),
        "works": round(works_ms / unit_ms, 4),
        "cut": row["ended_by"] == "preempted",
    }
    return bar | ({"gave way to": f"lease {row['beneficiary']}"} if bar["cut"] else {})
