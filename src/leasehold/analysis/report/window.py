"""Which cluster and which hours of a run to look at closely, and the time axis that they are drawn on.

Where most VMs changed hands; in the unit that suits the length, with ticks at a handful of round numbers.
"""

import math
from dataclasses import dataclass

import polars as pl

from leasehold.analysis.facts import segment_facts
from leasehold.analysis.run import Run

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
