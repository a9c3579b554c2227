"""The charts of a run beside the Gantt chart, and all of them as picture files, for papers and slides."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from leasehold.analysis.facts import GUESTS, PARTIES, lease_facts
from leasehold.analysis.metrics import by_cluster_and_party
from leasehold.analysis.occupancy import mean_held
from leasehold.analysis.report.gantt import draw_window
from leasehold.analysis.report.render import FILE_STYLE, IDLE, AnyChart, Style, write_png, write_svg
from leasehold.analysis.report.window import TimeScale, most_contended, scale_for
from leasehold.analysis.run import Run
from leasehold.analysis.wording import duration

_WRITERS: tuple[tuple[str, Callable[..., Path]], ...] = (("svg", write_svg), ("png", write_png))

_LAYERS = (*PARTIES, IDLE)

_POINTS = 160
_TICKS_S = (0, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000)
_TICK_NAMES = ("at once", "1 min", "10 min", "1 h", "6 h", "1 d", "1 w", "30 d")

_MOST_CLUSTERS = 10
_PREEMPTABLE = GUESTS[:-1]


def write_pictures(run: Run, folder: Path) -> list[Path]:
    """Write each chart of the run as SVG and PNG into ``folder`` and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write(chart, FILE_STYLE, folder / f"{name}.{suffix}")
        for name, chart in pictures(run).items()
        for suffix, write in _WRITERS
    ]


def pictures(run: Run) -> dict[str, AnyChart]:
    """Return the charts of a run by name; the Gantt chart only where something ran."""
    charts: dict[str, AnyChart] = {
        "utilisation": utilisation_chart(run, FILE_STYLE),
        "waiting": waiting_chart(run, FILE_STYLE),
        "preemption": preemption_chart(run, FILE_STYLE),
    }
    window = most_contended(run)
    return charts | ({"gantt": draw_window(run, window, FILE_STYLE)} if window else {})


# --- who held the VMs over time, stacked up to all slots of a cluster or of all clusters ------------------


def utilisation_chart(
    run: Run, style: Style, *, sites: Sequence[str] | None = None, bins: int = 240, height: int = 240
) -> alt.LayerChart:
    """Draw the mean VMs held in each of ``bins`` stretches of the run, locals at the bottom, idle on top."""
    scale = scale_for(run.span_ms)
    rows = _stretches(mean_held(run, bins, sites), scale)
    slots = max(sum(rows[0][name] for name in _LAYERS), 1)
    data = alt.InlineData(values=rows)
    time = alt.Axis(grid=False, format=",d", values=scale.ticks(run.begin_ms, run.end_ms), labelOverlap=True)
    x = alt.X("from:Q", title=scale.title, scale=alt.Scale(nice=False), axis=time)
    areas = _held_areas(data, style, x, slots)
    hover = _hovered(data, scale)
    return alt.LayerChart(layer=[areas, hover], width="container", height=height)


def _stretches(held: pl.DataFrame, scale: TimeScale) -> list[dict[str, float]]:
    times = [(pl.col(name) / scale.unit_ms).round(4).alias(name[:-3]) for name in ("from_ms", "to_ms")]
    rows = held.select(*times, *(pl.col(name).round(2) for name in _LAYERS)).to_dicts()
    last = rows[-1]
    return [*rows, last | {"from": last["to"]}]


def _held_areas(data: alt.InlineData, style: Style, x: alt.X, slots: float) -> alt.Chart:
    legend = alt.Legend(values=list(_LAYERS), columns=len(_LAYERS)) if style.carries_legend else None
    order = " : ".join(f"datum.party == '{name}' ? {place}" for place, name in enumerate(_LAYERS)) + " : 9"
    colours = alt.Scale(domain=list(_LAYERS), range=style.colours_of(_LAYERS))
    chart: alt.Chart = (
        alt.Chart(data)
        .transform_fold(list(_LAYERS), as_=["party", "vms"])
        .transform_calculate(place=order)
        .mark_area(interpolate="step-after", line=False)
        .encode(
            x=x,
            y=alt.Y("vms:Q", title="VMs", stack="zero", scale=alt.Scale(domain=[0, slots], nice=False)),
            color=alt.Color("party:N", scale=colours, legend=legend),
            order=alt.Order("place:Q"),
        )
    )
    return chart


def _hovered(data: alt.InlineData, scale: TimeScale) -> alt.Chart:
    """Lay an unseen bar over each stretch that shows its numbers."""
    when = [alt.Tooltip("from:Q", title=f"from ({scale.unit})", format=",.2f")]
    held = [alt.Tooltip(f"{name}:Q", title=name, format=",.1f") for name in _LAYERS]
    pointed = alt.selection_point(on="pointerover", clear="pointerout", fields=["from"], empty=False)
    chart: alt.Chart = (
        alt.Chart(data)
        .mark_rect(color="currentColor")
        .encode(
            x="from:Q",
            x2="to:Q",
            opacity=alt.condition(pointed, alt.value(0.25), alt.value(0)),
            tooltip=when + held,
        )
        .add_params(pointed)
    )
    return chart


# --- which share of the leases of each party had started after how long a wait ----------------------------


def waiting_chart(run: Run, style: Style, *, beside: Run | None = None, height: int = 230) -> alt.LayerChart:
    """Draw the wait from ready time to first start as the share of leases that started within it.

    A dot at the left says which share started at once. ``beside`` is a run whose chart stands next
    to this one and has to have the same scale.
    """
    curves = [_waiting_curve(run, party) for party in PARTIES]
    rows = [row for curve in curves for row in curve]
    most_s = max(_longest_wait_s(shown) for shown in (run, beside or run))
    colours = alt.Scale(domain=list(PARTIES), range=style.colours_of(PARTIES))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("wait_s:Q", title="wait from ready time to first start", **_time_axis(most_s)),
        y=alt.Y("started:Q", title="% of leases started", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("party:N", scale=colours, legend=alt.Legend() if style.carries_legend else None),
        tooltip=["party:N", alt.Tooltip("told:N", title="within"), alt.Tooltip("started:Q", format=".1f")],
    )
    lines = base.mark_line(interpolate="step-after", strokeWidth=2.2, clip=True)
    at_once = base.transform_filter("datum.wait_s == 0").mark_point(filled=True, size=70, opacity=1)
    return alt.LayerChart(layer=[lines, at_once], width="container", height=height)


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


def _waiting_curve(run: Run, party: str) -> list[dict[str, float | str]]:
    """Return the share started by wait, among those that started, at most `_POINTS` points."""
    waits = lease_facts(run).filter(party=party)["wait_ms"].drop_nulls().sort().to_numpy() / 1_000
    if not len(waits):
        return []
    shares = np.linspace(0, 1, _POINTS)
    at = np.unique(np.minimum((shares * len(waits)).astype(int), len(waits) - 1))
    started = np.searchsorted(waits, waits[at], side="right")
    points = dict(zip(waits[at].tolist(), (100 * started / len(waits)).tolist(), strict=True))
    return [_curve_point(party, wait_s, percent) for wait_s, percent in points.items()]


def _curve_point(party: str, wait_s: float, started: float) -> dict[str, float | str]:
    return {
        "party": party,
        "wait_s": round(wait_s, 1),
        "started": round(started, 2),
        "told": duration(wait_s),
    }


# --- how many VMs each cluster took back from guests of each type -----------------------------------------


def preemption_chart(run: Run, style: Style, *, beside: Run | None = None, height: int = 230) -> alt.Chart:
    """Draw the VMs preempted at each cluster by lease type; of many clusters those that took most.

    ``beside`` is a run whose chart stands next to this one and has to have the same scale.
    """
    table = _preempted(run)
    shown = _clusters_that_took_most(table)
    reach = alt.Scale(domain=[0, max(1, *(_most_vms(_preempted(each)) for each in (run, beside or run)))])
    colours = alt.Scale(domain=list(_PREEMPTABLE), range=style.colours_of(_PREEMPTABLE))
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=_bars(table, shown)))
        .mark_bar(size=max(8, min(26, height // (2 * max(len(shown), 1)))))
        .encode(
            x=alt.X("vms_preempted:Q", title="VMs preempted", axis=alt.Axis(tickCount=5), scale=reach),
            y=alt.Y("site:N", title=None, sort=shown, axis=alt.Axis(grid=False, labelLimit=110)),
            color=alt.Color("party:N", scale=colours, legend=alt.Legend() if style.carries_legend else None),
            order=alt.Order("place:Q"),
            tooltip=["site:N", "party:N", "vms_preempted:Q", "preemptions:Q"],
        )
        .properties(width="container", height=height)
    )
    return chart


def _preempted(run: Run) -> pl.DataFrame:
    """Return one row for each cluster and preemptable party, clusters in the order of the run's sites."""
    table = by_cluster_and_party(run).filter(pl.col("party").is_in(list(_PREEMPTABLE)))
    ordered = run.sites.select("site").join(table, on="site", how="inner", maintain_order="left")
    return ordered.select("site", "party", "vms_preempted", "preemptions")


def _most_vms(table: pl.DataFrame) -> int:
    by_site = table.group_by("site").agg(pl.col("vms_preempted").sum())
    return max(by_site["vms_preempted"].to_list(), default=0)


def _bars(table: pl.DataFrame, shown: list[str]) -> list[dict[str, Any]]:
    place = {party: number for number, party in enumerate(_PREEMPTABLE)}
    return [row | {"place": place[row["party"]]} for row in table.to_dicts() if row["site"] in shown]


def _clusters_that_took_most(table: pl.DataFrame) -> list[str]:
    """Rank the clusters by VMs taken back; a handful of clusters stay in the order they have."""
    by_site = table.group_by("site", maintain_order=True).agg(pl.col("vms_preempted").sum())
    if by_site.height > _MOST_CLUSTERS:
        by_site = by_site.sort("vms_preempted", descending=True, maintain_order=True).head(_MOST_CLUSTERS)
    return by_site["site"].to_list()
