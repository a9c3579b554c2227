"""Chart: who held the VMs over time, stacked up to all slots of a cluster or of all clusters."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from leasehold.analysis.facts import PARTIES
from leasehold.analysis.occupancy import mean_held
from leasehold.analysis.report.style import IDLE, Style
from leasehold.analysis.report.timescale import TimeScale, scale_for
from leasehold.analysis.run import Run

LAYERS = (*PARTIES, IDLE)


def utilisation_chart(
    run: Run, style: Style, *, sites: Sequence[str] | None = None, bins: int = 240, height: int = 240
) -> alt.LayerChart:
    """Draw the mean VMs held in each of ``bins`` stretches of the run, locals at the bottom, idle on top."""
    scale = scale_for(run.span_ms)
    rows = _rows(mean_held(run, bins, sites), scale)
    slots = max(sum(rows[0][name] for name in LAYERS), 1)
    data = alt.InlineData(values=rows)
    time = alt.Axis(grid=False, format=",d", values=scale.ticks(run.begin_ms, run.end_ms), labelOverlap=True)
    x = alt.X("from:Q", title=scale.title, scale=alt.Scale(nice=False), axis=time)
    areas = _areas(data, style, x, slots)
    hover = _hover(data, scale)
    return alt.LayerChart(layer=[areas, hover], width="container", height=height)


def _rows(held: pl.DataFrame, scale: TimeScale) -> list[dict[str, float]]:
    times = [(pl.col(name) / scale.unit_ms).round(4).alias(name[:-3]) for name in ("from_ms", "to_ms")]
    rows = held.select(*times, *(pl.col(name).round(2) for name in LAYERS)).to_dicts()
    last = rows[-1]
    return [*rows, last | {"from": last["to"]}]


def _areas(data: alt.InlineData, style: Style, x: alt.X, slots: float) -> alt.Chart:
    legend = alt.Legend(values=list(LAYERS), columns=len(LAYERS)) if style.carries_legend else None
    order = " : ".join(f"datum.party == '{name}' ? {place}" for place, name in enumerate(LAYERS)) + " : 9"
    colours = alt.Scale(domain=list(LAYERS), range=style.colours_of(LAYERS))
    chart: alt.Chart = (
        alt.Chart(data)
        .transform_fold(list(LAYERS), as_=["party", "vms"])
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


def _hover(data: alt.InlineData, scale: TimeScale) -> alt.Chart:
    """Lay an unseen bar over each stretch that tells its numbers."""
    when = [alt.Tooltip("from:Q", title=f"from ({scale.unit})", format=",.2f")]
    held = [alt.Tooltip(f"{name}:Q", title=name, format=",.1f") for name in LAYERS]
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
