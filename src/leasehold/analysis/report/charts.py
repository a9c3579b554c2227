"""The charts of a report: VMs held by each party, utilisation of clusters, waiting times, preemptions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from leasehold.analysis.export import assign_processors, holdings
from leasehold.analysis.facts import GUESTS, PARTIES, PARTY
from leasehold.analysis.measures import summary_of, waits_of
from leasehold.analysis.metrics import by_cluster_and_party, totals
from leasehold.analysis.passes import Cells, mean_held, slices_of
from leasehold.analysis.report.render import FILE_STYLE, IDLE, Spec, Style, write_png, write_svg
from leasehold.analysis.run import Run, streamed
from leasehold.analysis.waits import curve
from leasehold.analysis.wording import duration
from leasehold.model.errors import UnknownName

READABLE_SEGMENTS = 150
"""About how many bars a reader can still tell apart in one Gantt chart."""

_MOST_STEPS = 4_000
_READABLE_SLOTS = (8, 160)
"""Of these sizes a cluster is both worth looking at and high enough for each VM to be seen."""

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_MOST_TICKS = 14
_STEPS: dict[str, tuple[int, ...]] = {
    "seconds": (1, 5, 10, 15, 30, 60),
    "minutes": (1, 5, 10, 15, 30, 60),
    "hours": (1, 2, 3, 6, 12, 24),
    "days": (1, 2, 7, 14, 28, 56, 91, 182, 364),
}
"""Steps between ticks that people know from clocks and calendars."""


@dataclass(frozen=True, slots=True)
class GanttWindow:
    """A stretch of time at one cluster; ``is_whole`` when that is all of the cluster's run."""

    site: str
    from_ms: int
    to_ms: int
    is_whole: bool


def most_contended(run: Run) -> GanttWindow | None:
    """Choose the cluster with most VMs preempted, and its most contended readable stretch.

    Clusters of a readable size come first; without preemptions it is the fullest cluster and stretch.
    None for a run in which nothing ran.
    """
    cells = summary_of(run).segments
    if cells.is_empty():
        return None
    sites = cells.group_by("site").agg(contention=pl.col("vms_preempted").sum(), held=pl.col("held_vm_h").sum())
    sized = sites.join(run.sites.select("site", "slots"), on="site", how="inner")
    ranked = sized.sort(
        pl.col("slots").is_between(*_READABLE_SLOTS) & (pl.col("contention") > 0),
        "contention",
        "held",
        "site",
        descending=[True, True, True, False],
    )
    site = ranked["site"][0]
    return _readable_stretch(run, site)


def _readable_stretch(run: Run, site: str) -> GanttWindow:
    here = pl.col("site") == site
    segments = streamed(run.scan("segments").filter(here).select(pl.len())).item()
    steps = min(-(-segments * 2 // READABLE_SEGMENTS), _MOST_STEPS)
    if steps <= 2:  # noqa: PLR2004 - two halves make a whole
        return GanttWindow(site, run.begin_ms, run.end_ms, is_whole=True)
    step_ms = -(-run.span_ms // steps)
    number = (pl.col("end_ms") - run.begin_ms) // step_ms
    stirred = pl.when(pl.col("ended_by") == "preempted").then("vms").otherwise(0).sum()
    held = ((pl.col("end_ms") - pl.col("start_ms")) * pl.col("vms")).sum()
    by_step = Cells(("step",))
    for part in slices_of(run, "segments", ("site", "start_ms", "end_ms", "vms", "ended_by")):
        by_step.add(part.filter(here).group_by(step=number).agg(stirred=stirred, held=held))
    step = by_step.total().sort(["stirred", "held", "step"], descending=[True, True, False])["step"][0]
    # Half a step before and after, so that the bars that were cut there are seen whole.
    middle_ms = run.begin_ms + step * step_ms + step_ms // 2
    from_ms = max(run.begin_ms, min(middle_ms - step_ms, run.end_ms - 2 * step_ms))
    return GanttWindow(site, from_ms, min(from_ms + 2 * step_ms, run.end_ms), is_whole=False)


@dataclass(frozen=True, slots=True)
class TimeScale:
    """A unit of time with its length in milliseconds."""

    unit: str
    unit_ms: int

    @property
    def title(self) -> str:
        """What the axis says."""
        return f"{self.unit} since the start of the log"

    def ticks(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the ticks between two instants, in units."""
        first, last = from_ms / self.unit_ms, to_ms / self.unit_ms
        steps = _STEPS[self.unit]
        step = next((step for step in steps if (last - first) / step <= _MOST_TICKS), steps[-1])
        return list(range(math.ceil(first / step) * step, math.floor(last) + 1, step))


def scale_for(span_ms: int) -> TimeScale:
    """Choose seconds, minutes, hours or days for an axis of this length."""
    if span_ms < 3 * _MINUTE_MS:
        return TimeScale("seconds", _SECOND_MS)
    if span_ms < 3 * _HOUR_MS:
        return TimeScale("minutes", _MINUTE_MS)
    if span_ms < 4 * _DAY_MS:
        return TimeScale("hours", _HOUR_MS)
    return TimeScale("days", _DAY_MS)


_LEAST_HEIGHT = 220
_MOST_HEIGHT = 460
_PIXELS_PER_SLOT = 6


def chosen_window(
    run: Run, site: str | None = None, from_ms: int | None = None, to_ms: int | None = None
) -> GanttWindow:
    """Choose a cluster and a stretch: by default those with most contention.

    Raises UnknownName for a site that the run has not.
    """
    window = most_contended(run) or GanttWindow(run.sites["site"][0], run.begin_ms, run.end_ms, is_whole=True)
    if site is not None:
        window = _of_site(run, site, window)
    begin_ms = window.from_ms if from_ms is None else from_ms
    end_ms = window.to_ms if to_ms is None else to_ms
    return GanttWindow(window.site, begin_ms, end_ms, window.is_whole)


def _of_site(run: Run, site: str, window: GanttWindow) -> GanttWindow:
    if site not in run.sites["site"]:
        raise UnknownName("site", site, run.sites["site"].to_list())
    return window if window.site == site else GanttWindow(site, run.begin_ms, run.end_ms, is_whole=True)


def draw_window(run: Run, window: GanttWindow, style: Style) -> Spec:
    """Draw the leases of a window in a style."""
    scale = scale_for(window.to_ms - window.from_ms)
    slots = int(run.sites.filter(pl.col("site") == window.site)["slots"][0])
    domain = [window.from_ms / scale.unit_ms, window.to_ms / scale.unit_ms]
    time = quantity(
        "from",
        title=scale.title,
        scale={"domain": domain, "nice": False},
        axis=_time_ticks(scale, window.from_ms, window.to_ms),
    )
    vms = quantity("low", title="VMs", scale={"domain": [0, slots], "nice": False}, axis={"grid": False})
    height = min(max(slots * _PIXELS_PER_SLOT, _LEAST_HEIGHT), _MOST_HEIGHT)
    layers = [_room(slots, style), _leases(time, vms, style), _overheads(style), _cuts(style)]
    bars = {"leases": _lease_bars(run, window, slots, scale)}
    return {"layer": layers, "datasets": bars, "width": "container", "height": height}


def quantity(field: str, **more: object) -> Spec:
    """Encode a column of numbers."""
    return {"field": field, "type": "quantitative", **more}


def name(field: str, **more: object) -> Spec:
    """Encode a column of names."""
    return {"field": field, "type": "nominal", **more}


def coloured(style: Style, parties: Sequence[str], legend: Spec) -> Spec:
    """Encode parties by their colours; the report has one legend for all charts."""
    scale = {"domain": list(parties), "range": style.colours_of(tuple(parties))}
    return name("party", scale=scale, legend=legend if style.carries_legend else None)


def _time_ticks(scale: TimeScale, from_ms: int, to_ms: int) -> Spec:
    return {"grid": False, "format": ",d", "values": scale.ticks(from_ms, to_ms), "labelOverlap": True}


_ROW = {"y": quantity("low"), "y2": {"field": "high"}}


def _room(slots: int, style: Style) -> Spec:
    """Fill the unused room."""
    room = {"values": [{"low": 0, "high": slots}]}
    return {"data": room, "mark": {"type": "rect", "color": style.idle}, "encoding": _ROW}


def _leases(time: Spec, vms: Spec, style: Style) -> Spec:
    shown = ("lease", "party", "consumer", "VMs", "starts", "ends", "ended by", "gave way to")
    return {
        "data": {"name": "leases"},
        "mark": {"type": "rect", "stroke": style.idle, "strokeWidth": 0.6, "clip": True},
        "encoding": {
            "x": time,
            "x2": {"field": "to"},
            "y": vms,
            "y2": {"field": "high"},
            "color": coloured(style, PARTIES, {"columns": len(PARTIES)}),
            "tooltip": [name(field) for field in shown],
        },
    }


def _overheads(style: Style) -> Spec:
    """Pale the stretch in which memory is restored or moved and no work is done."""
    return {
        "data": {"name": "leases"},
        "transform": [{"filter": "datum.works > datum.from"}],
        "mark": {"type": "rect", "color": style.idle, "opacity": 0.55, "clip": True},
        "encoding": {"x": quantity("from"), "x2": {"field": "works"}, **_ROW},
    }


def _cuts(style: Style) -> Spec:
    """Draw a heavy edge where a lease had to give way."""
    return {
        "data": {"name": "leases"},
        "transform": [{"filter": "datum.cut"}],
        "mark": {"type": "rule", "color": style.mark, "strokeWidth": 2.5, "clip": True},
        "encoding": {"x": quantity("to"), **_ROW},
    }


def _lease_bars(run: Run, window: GanttWindow, slots: int, scale: TimeScale) -> list[dict[str, Any]]:
    """Return one bar for each unbroken row of VMs of each holding that is seen in the window."""
    seen = _seen(run, window)
    described = _with_owners(run, seen)
    placed = zip(described.iter_rows(named=True), assign_processors(seen, slots), strict=True)
    return [_bar(row, scale) | {"low": low, "high": high + 1} for row, taken in placed for low, high in taken]


def _seen(run: Run, window: GanttWindow) -> pl.DataFrame:
    """Find the holdings that are seen in a window, and read no others."""
    here = (pl.col("site") == window.site) & (pl.col("end_ms") > window.from_ms) & (pl.col("start_ms") < window.to_ms)
    ids = streamed(run.scan("segments").filter(here).select("lease_id").unique())["lease_id"]
    segments = streamed(run.scan("segments").filter(pl.col("lease_id").is_in(ids.implode())))
    return holdings(segments).filter(here)


def _with_owners(run: Run, seen: pl.DataFrame) -> pl.DataFrame:
    is_seen = pl.col("lease_id").is_in(seen["lease_id"].implode())
    leases = run.scan("leases").filter(is_seen)
    preempted = run.scan("decisions").filter(is_seen & (pl.col("outcome") == "preempt"))
    owners = streamed(leases.select("lease_id", "consumer", party=PARTY))
    gave_way = streamed(preempted.select("seq", "lease_id", "beneficiary", end_ms="time_ms")).sort("seq").drop("seq")
    return seen.join(owners, on="lease_id", how="left", maintain_order="left").join(
        gave_way.unique(["lease_id", "end_ms"], keep="first"),
        on=["lease_id", "end_ms"],
        how="left",
        maintain_order="left",
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


_WRITERS: tuple[tuple[str, Callable[..., Path]], ...] = (("svg", write_svg), ("png", write_png))

_LAYERS = (*PARTIES, IDLE)

_TICKS_S = (0, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000)
_TICK_NAMES = ("at once", "1 min", "10 min", "1 h", "6 h", "1 d", "1 w", "30 d")

_MOST_CLUSTERS = 10
_PREEMPTABLE = GUESTS[:-1]


def write_pictures(run: Run, folder: Path) -> list[Path]:
    """Write each chart of the run as SVG and PNG into ``folder`` and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write(chart, FILE_STYLE, folder / f"{title}.{suffix}")
        for title, chart in pictures(run).items()
        for suffix, write in _WRITERS
    ]


def pictures(run: Run) -> dict[str, Spec]:
    """Return the charts of a run by name; the Gantt chart only where something ran."""
    charts: dict[str, Spec] = {
        "utilisation": utilisation_chart(run, FILE_STYLE),
        "waiting": waiting_chart(run, FILE_STYLE),
        "preemption": preemption_chart(run, FILE_STYLE),
    }
    window = most_contended(run)
    return charts | ({"gantt": draw_window(run, window, FILE_STYLE)} if window else {})


# --- the VMs of each party over time, stacked up to all slots of a cluster or of all clusters ------------------


def utilisation_chart(
    run: Run, style: Style, *, sites: Sequence[str] | None = None, bins: int = 240, height: int = 240
) -> Spec:
    """Draw the mean VMs held in each of ``bins`` stretches of the run, locals at the bottom, idle on top."""
    scale = scale_for(run.span_ms)
    rows = _stretches(mean_held(run, summary_of(run).levels, bins, sites), scale)
    slots = max(sum(rows[0][layer] for layer in _LAYERS), 1)
    time = quantity("from", title=scale.title, scale={"nice": False}, axis=_time_ticks(scale, run.begin_ms, run.end_ms))
    layers = [_held_areas(time, slots, style), _hovered(scale)]
    return {"data": {"values": rows}, "layer": layers, "width": "container", "height": height}


def _stretches(held: pl.DataFrame, scale: TimeScale) -> list[dict[str, float]]:
    times = [(pl.col(edge) / scale.unit_ms).round(4).alias(edge[:-3]) for edge in ("from_ms", "to_ms")]
    rows = held.select(*times, *(pl.col(layer).round(2) for layer in _LAYERS)).to_dicts()
    last = rows[-1]
    return [*rows, last | {"from": last["to"]}]


def _held_areas(time: Spec, slots: float, style: Style) -> Spec:
    order = " : ".join(f"datum.party == '{layer}' ? {place}" for place, layer in enumerate(_LAYERS)) + " : 9"
    legend = {"values": list(_LAYERS), "columns": len(_LAYERS)}
    return {
        "transform": [{"fold": list(_LAYERS), "as": ["party", "vms"]}, {"calculate": order, "as": "place"}],
        "mark": {"type": "area", "interpolate": "step-after", "line": False},
        "encoding": {
            "x": time,
            "y": quantity("vms", title="VMs", stack="zero", scale={"domain": [0, slots], "nice": False}),
            "color": coloured(style, _LAYERS, legend),
            "order": quantity("place"),
        },
    }


def _hovered(scale: TimeScale) -> Spec:
    """Lay an unseen bar over each stretch that shows its numbers."""
    when = [quantity("from", title=f"from ({scale.unit})", format=",.2f")]
    held = [quantity(layer, title=layer, format=",.1f") for layer in _LAYERS]
    pointed = {"type": "point", "on": "pointerover", "clear": "pointerout", "fields": ["from"]}
    shown = {"condition": {"param": "pointed", "empty": False, "value": 0.25}, "value": 0}
    return {
        "params": [{"name": "pointed", "select": pointed}],
        "mark": {"type": "rect", "color": "currentColor"},
        "encoding": {"x": quantity("from"), "x2": {"field": "to"}, "opacity": shown, "tooltip": when + held},
    }


# --- which share of the leases of each party had started after how long a wait ----------------------------


def waiting_chart(run: Run, style: Style, *, beside: Run | None = None, height: int = 230) -> Spec:
    """Draw the wait from ready time to first start as the share of leases that started within it.

    A dot at the left says which share started at once. ``beside`` is a run whose chart is shown next
    to this one and has to have the same scale.
    """
    rows = [row for party in PARTIES for row in _waiting_curve(run, party)]
    most_s = max(_longest_wait_s(shown) for shown in (run, beside or run))
    encoding = {
        "x": quantity("wait_s", title="wait from ready time to first start", **_time_axis(most_s)),
        "y": quantity("started", title="% of leases started", scale={"domain": [0, 100]}),
        "color": coloured(style, PARTIES, {}),
        "tooltip": [name("party"), name("told", title="within"), quantity("started", format=".1f")],
    }
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 2.2, "clip": True}
    at_once = {
        "transform": [{"filter": "datum.wait_s == 0"}],
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
        "encoding": encoding,
    }
    layers = [{"mark": line, "encoding": encoding}, at_once]
    return {"data": {"values": rows}, "layer": layers, "width": "container", "height": height}


def _time_axis(most_s: float) -> Spec:
    """Return scale and axis for waits: fine where they are short, and named in readable units."""
    ticks = [tick for tick in _TICKS_S if tick <= max(most_s, _TICKS_S[1])]
    named = zip(_TICKS_S, _TICK_NAMES, strict=True)
    names = " : ".join(f"datum.value == {tick} ? '{label}'" for tick, label in named) + " : ''"
    return {
        "scale": {"type": "symlog", "constant": 30, "domain": [0, max(most_s, ticks[-1])], "nice": False},
        "axis": {"values": ticks, "labelExpr": names, "labelFlush": True, "labelOverlap": True},
    }


def _longest_wait_s(run: Run) -> float:
    return totals(run)["wait_max_s"] or 0


def _waiting_curve(run: Run, party: str) -> list[dict[str, float | str]]:
    """Return the share started by wait, among those that started."""
    points = dict(curve(waits_of(run), party))
    return [_curve_point(party, wait_s, percent) for wait_s, percent in points.items()]


def _curve_point(party: str, wait_s: float, started: float) -> dict[str, float | str]:
    return {
        "party": party,
        "wait_s": round(wait_s, 1),
        "started": round(started, 2),
        "told": duration(wait_s),
    }


# --- how many VMs each cluster took back from guests of each type -----------------------------------------


def preemption_chart(run: Run, style: Style, *, beside: Run | None = None, height: int = 230) -> Spec:
    """Draw the VMs preempted at each cluster by lease type; of many clusters those that took most.

    ``beside`` is a run whose chart is shown next to this one and has to have the same scale.
    """
    table = _preempted(run)
    shown = _clusters_that_took_most(table)
    most = max(1, *(_most_vms(_preempted(each)) for each in (run, beside or run)))
    vms = quantity("vms_preempted", title="VMs preempted", axis={"tickCount": 5}, scale={"domain": [0, most]})
    return {
        "data": {"values": _bars(table, shown)},
        "mark": {"type": "bar", "size": max(8, min(26, height // (2 * max(len(shown), 1))))},
        "encoding": {
            "x": vms,
            "y": name("site", title=None, sort=shown, axis={"grid": False, "labelLimit": 110}),
            "color": coloured(style, _PREEMPTABLE, {}),
            "order": quantity("place"),
            "tooltip": [name("site"), name("party"), quantity("vms_preempted"), quantity("preemptions")],
        },
        "width": "container",
        "height": height,
    }


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
