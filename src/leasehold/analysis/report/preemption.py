"""Chart: how many VMs each cluster took back from guests of each type."""

from typing import Any

import altair as alt
import polars as pl

from leasehold.analysis.facts import GUESTS
from leasehold.analysis.metrics import by_cluster_and_party
from leasehold.analysis.report.style import Style
from leasehold.analysis.run import Run

MOST_CLUSTERS = 10
_PREEMPTABLE = GUESTS[:-1]


def preemption_chart(run: Run, style: Style, *, beside: Run | None = None, height: int = 230) -> alt.Chart:
    """Draw the VMs preempted at each cluster by lease type; of many clusters those that took most.

    ``beside`` is a run whose chart stands next to this one and has to have the same scale.
    """
    table = _preempted(run)
    shown = _clusters_that_took_most(table)
    reach = alt.Scale(domain=[0, max(1, *(_most_vms(_preempted(each)) for each in (run, beside or run)))])
    colours = alt.Scale(domain=list(_PREEMPTABLE), range=style.colours_of(_PREEMPTABLE))
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=_rows(table, shown)))
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


def _rows(table: pl.DataFrame, shown: list[str]) -> list[dict[str, Any]]:
    place = {party: number for number, party in enumerate(_PREEMPTABLE)}
    return [row | {"place": place[row["party"]]} for row in table.to_dicts() if row["site"] in shown]


def _clusters_that_took_most(table: pl.DataFrame) -> list[str]:
    """Rank the clusters by VMs taken back; a handful of clusters stay in the order they have."""
    by_site = table.group_by("site", maintain_order=True).agg(pl.col("vms_preempted").sum())
    if by_site.height > MOST_CLUSTERS:
        by_site = by_site.sort("vms_preempted", descending=True, maintain_order=True).head(MOST_CLUSTERS)
    return by_site["site"].to_list()
