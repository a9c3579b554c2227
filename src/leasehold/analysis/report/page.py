"""The report page: what happened in words, then in pictures, then in tables, then how it was counted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from leasehold.analysis.facts import GUESTS, PARTIES
from leasehold.analysis.metrics import CATALOGUE, by_origin, reconcile, totals
from leasehold.analysis.report.charts import (
    GanttWindow,
    draw_window,
    most_contended,
    preemption_chart,
    utilisation_chart,
    waiting_chart,
)
from leasehold.analysis.report.contents import (
    Totals,
    cluster_table,
    coallocation_tables,
    ending_table,
    headline,
    headline_of_two,
    metric_rows,
    party_table,
    site_table,
    waiting_matrix,
    what_differs,
    what_happened,
)
from leasehold.analysis.report.render import (
    PAGE_STYLE,
    Draw,
    Spec,
    as_script_data,
    drawing,
    live_spec,
    still_spec,
    vega_bundle,
)
from leasehold.analysis.run import Run
from leasehold.analysis.wording import duration, number, percent

_CLUSTERS_DRAWN = 6
_MS_PER_S = 1_000


@dataclass(slots=True)
class ReportFigure:
    """A chart with its title and what to see in it; ``svg`` shows at once, ``spec`` answers the pointer.

    ``still`` is what ``svg`` is drawn from: all figures of a page at a time.
    """

    title: str
    caption: str
    spec: Spec
    still: Spec
    svg: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """One big number with its name, and a line that explains it."""

    amount: str
    name: str
    meaning: str


def write_run_page(run: Run, path: Path) -> Path:
    """Write the report of one run as a single HTML file that needs no network; return its path."""
    with drawing() as draw:
        return _write(path, "report.html", *_on_one(run), draw)


def _on_one(run: Run) -> tuple[dict[str, Any], list[ReportFigure]]:
    """Give what the page on a run shows, and its figures, to be drawn."""
    numbers = totals(run)
    utilisation, gantt = list(_utilisation(run)), _gantt(run)
    waiting, preemption = _waiting(run), _preemption(run)
    context = {
        "run": run,
        "about": _about(run),
        "headline": headline(run, numbers),
        "paragraphs": what_happened(run, numbers),
        "tiles": _tiles(run, numbers),
        "utilisation": utilisation,
        "gantt": gantt,
        "waiting": waiting,
        "preemption": preemption,
        "matrix": waiting_matrix(run),
        "tables": [party_table(run), cluster_table(run), *coallocation_tables(run)],
        "endings": ending_table(run),
        "sites": site_table(run),
        "disagreements": reconcile(run),
    }
    figures = [*utilisation, *([gantt] if gantt else []), waiting, preemption]
    return context, figures


def write_comparison_page(first: Run, second: Run, path: Path) -> Path:
    """Write two runs on one page: the differences in words, pictures side by side, every metric."""
    with drawing() as draw:
        return _write(path, "comparison.html", *_on_two(first, second), draw)


def _on_two(first: Run, second: Run) -> tuple[dict[str, Any], list[ReportFigure]]:
    """Give what the page on two runs shows, and its figures, to be drawn."""
    utilisation = [_figure(utilisation_chart(run, PAGE_STYLE), run.name) for run in (first, second)]
    waiting = _side_by_side(waiting_chart, first, second)
    preemption = _side_by_side(preemption_chart, first, second)
    context = {
        "runs": [(first, _about(first)), (second, _about(second))],
        "headline": headline_of_two(first, second),
        "paragraphs": what_differs(first, second),
        "metrics": metric_rows(first, second),
        "utilisation": utilisation,
        "waiting": waiting,
        "preemption": preemption,
    }
    return context, [*utilisation, *waiting, *preemption]


def _side_by_side(draw: Callable[..., Spec], first: Run, second: Run) -> list[ReportFigure]:
    """Draw the same chart of two runs on the same scales."""
    pairs = ((first, second), (second, first))
    return [_figure(draw(run, PAGE_STYLE, beside=other), run.name, width=560) for run, other in pairs]


def _write(path: Path, template: str, context: dict[str, Any], figures: Sequence[ReportFigure], draw: Draw) -> Path:
    for figure, svg in zip(figures, draw([figure.still for figure in figures]), strict=True):
        figure.svg = svg
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("leasehold.analysis.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    shared = {
        "parties": PARTIES,
        "guests": GUESTS,
        "catalogue": CATALOGUE.values(),
        "bundle": vega_bundle(),
        "as_script_data": as_script_data,
    }
    path.write_text(environment.get_template(template).render(shared | context), encoding="utf-8")
    return path


def _about(run: Run) -> str:
    jobs = run.manifest.get("jobs", {})
    slots = number(int(run.sites["slots"].sum()))
    clusters = "cluster" if run.sites.height == 1 else "clusters"
    return (
        f"{run.sites.height} {clusters} with {slots} slots, {number(jobs.get('local', 0))} local jobs and "
        f"{number(jobs.get('external', 0))} guest requests over {duration(run.span_ms / _MS_PER_S)}"
    )


def _tiles(run: Run, numbers: Totals) -> list[Tile]:
    guests = next((row for row in by_origin(run).to_dicts() if row["origin"] == "external"), None)
    served = (guests["completed"] + guests["killed"]) / guests["leases"] * 100 if guests else None
    delayed = numbers["locals_delayed"] if run.height("baseline") else None
    return [
        Tile(number(delayed), "local jobs delayed", "compared with the same log without guests"),
        Tile(percent(numbers["idle_lent_pct"]), "of the idle time lent", "VM-time that local jobs left idle"),
        Tile(percent(served), "of the guests served", "leases that got all the time they requested"),
        Tile(number(numbers["vms_preempted"]), "VMs preempted", "taken back for local jobs, each time counted"),
    ]


def _figure(chart: Spec, title: str, caption: str = "", width: int = 1000) -> ReportFigure:
    return ReportFigure(title, caption, live_spec(chart, PAGE_STYLE), still_spec(chart, PAGE_STYLE, width))


def _utilisation(run: Run) -> Iterator[ReportFigure]:
    sites = run.sites["site"].to_list()
    if len(sites) > 1:
        chart = utilisation_chart(run, PAGE_STYLE, height=250)
        yield _figure(chart, f"All {len(sites)} clusters together", "Mean VMs held, stretch by stretch.")
    for site, slots in _drawn(run).iter_rows():
        chart = utilisation_chart(run, PAGE_STYLE, sites=[site], bins=160, height=130)
        yield _figure(chart, site, f"{slots} slots")


def _drawn(run: Run) -> pl.DataFrame:
    """Choose the clusters that get a chart of their own: all, or of many the largest."""
    sites = run.sites.select("site", "slots").with_row_index("place")
    largest = sites.sort("slots", descending=True, maintain_order=True).head(_CLUSTERS_DRAWN)
    return largest.sort("place").drop("place")


def _gantt(run: Run) -> ReportFigure | None:
    window = most_contended(run)
    if window is None:
        return None
    chart = draw_window(run, window, PAGE_STYLE)
    return _figure(chart, f"Cluster {window.site}, lease by lease", _of_window(run, window))


def _of_window(run: Run, window: GanttWindow) -> str:
    if window.is_whole:
        return "The whole run at this cluster."
    shown = duration((window.to_ms - window.from_ms) / _MS_PER_S)
    return (
        f"The {shown} with the most VMs preempted, at a cluster that preempted many; "
        f"a drawing of all {duration(run.span_ms / _MS_PER_S)} would not be readable."
    )


def _waiting(run: Run) -> ReportFigure:
    caption = "A dot: the share that started at once. A line: the share that had started after how long."
    return _figure(waiting_chart(run, PAGE_STYLE, height=240), "How long leases waited", caption, width=560)


def _preemption(run: Run) -> ReportFigure:
    caption = "VMs that local jobs took back, by lease type of the preempted guest."
    return _figure(preemption_chart(run, PAGE_STYLE, height=240), "Preempted guests", caption, width=560)
