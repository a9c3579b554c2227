"""Which cluster and which hours of a run to look at closely: where most VMs changed hands."""

from dataclasses import dataclass

import polars as pl

from leasehold.analysis.facts import segment_facts
from leasehold.analysis.run import Run

READABLE_SEGMENTS = 150
"""About how many bars a reader can still tell apart in one Gantt chart."""

_MOST_STEPS = 4_000
_READABLE_SLOTS = (8, 160)
"""Of these sizes a cluster is both worth looking at and high enough for each VM to be seen."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time at one cluster; ``is_whole`` when that is all of the cluster's run."""

    site: str
    from_ms: int
    to_ms: int
    is_whole: bool


def most_contended(run: Run) -> Window | None:
    """Choose the cluster with most VMs preempted, and its most contended readable stretch.

    Clusters of a readable size come first; without preemptions it is the fullest cluster and stretch.
    None for a run in which nothing ran.
    """
    facts = segment_facts(run)
    if facts.is_empty():
        return None
    contention = pl.when("is_preempted").then("vms").otherwise(0).sum()
    sites = facts.group_by("site").agg(contention=contention, held=pl.col("held_vm_ms").sum())
    sized = sites.join(run.sites.select("site", "slots"), on="site", how="inner")
    ranked = sized.sort(
        pl.col("slots").is_between(*_READABLE_SLOTS) & (pl.col("contention") > 0),
        "contention",
        "held",
        "site",
        descending=[True, True, True, False],
    )
    site = ranked["site"][0]
    return _readable_stretch(run, site, facts.filter(pl.col("site") == site))


def _readable_stretch(run: Run, site: str, facts: pl.DataFrame) -> Window:
    steps = min(-(-facts.height * 2 // READABLE_SEGMENTS), _MOST_STEPS)
    if steps <= 2:  # noqa: PLR2004 - two halves make a whole
        return Window(site, run.begin_ms, run.end_ms, is_whole=True)
    step_ms = -(-run.span_ms // steps)
    number = (pl.col("end_ms") - run.begin_ms) // step_ms
    stirred = pl.when("is_preempted").then("vms").otherwise(0).sum()
    by_step = facts.group_by(step=number).agg(stirred=stirred, held=pl.col("held_vm_ms").sum())
    step = by_step.sort(["stirred", "held", "step"], descending=[True, True, False])["step"][0]
    # Half a step before and after, so that the bars that were cut there are seen whole.
    middle_ms = run.begin_ms + step * step_ms + step_ms // 2
    from_ms = max(run.begin_ms, min(middle_ms - step_ms, run.end_ms - 2 * step_ms))
    return Window(site, from_ms, min(from_ms + 2 * step_ms, run.end_ms), is_whole=False)
