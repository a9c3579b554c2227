"""Which processors a lease may have had and for how long, since a run counts VMs and not places.

A *holding* is a stretch for which a lease keeps the same VMs without a break. Its processors are chosen by
first fit: the lowest unbroken row that is wide enough, and where there is none, the lowest free ones.
"""

import heapq
from bisect import bisect_left

import polars as pl

Interval = tuple[int, int]
"""First and last processor of an unbroken row of them, both included."""


def holdings(segments: pl.DataFrame) -> pl.DataFrame:
    """Join each resume, migrate or claim segment to the run segment that it goes over into.

    Returns ``lease_id``, ``site``, ``part`` (from 0, counts a lease's holdings), ``start_ms``,
    ``end_ms``, ``run_from_ms`` (when its work began, null if it never did), ``vms``, ``ended_by``;
    in order of start.
    """
    continued = (pl.col("ended_by") == "phase").shift(1, fill_value=False).over("lease_id")
    is_run = pl.col("kind") == "run"
    return (
        segments.sort("lease_id", "start_ms", "end_ms")
        .with_columns(part=(~continued).cast(pl.Int64).cum_sum().over("lease_id") - 1)
        .group_by("lease_id", "part", maintain_order=True)
        .agg(
            pl.col("site", "start_ms", "vms").first(),
            pl.col("end_ms", "ended_by").last(),
            run_from_ms=pl.col("start_ms").filter(is_run).first(),
        )
        .sort("start_ms", "lease_id", "part")
    )


class FreeProcessors:
    """The free processors of one cluster as disjoint intervals in ascending order."""

    def __init__(self, first: int, count: int) -> None:
        self._free: list[Interval] = [(first, first + count - 1)] if count else []

    def take(self, count: int) -> list[Interval]:
        """Take ``count`` free processors in one row if possible; fewer where there are not as many."""
        for at, (low, high) in enumerate(self._free):
            if high - low + 1 >= count > 0:
                self._free[at : at + 1] = [(low + count, high)] if high - low + 1 > count else []
                return [(low, low + count - 1)]
        return self._take_pieces(count)

    def _take_pieces(self, count: int) -> list[Interval]:
        taken: list[Interval] = []
        while count > 0 and self._free:
            low, high = self._free.pop(0)
            last = min(high, low + count - 1)
            taken.append((low, last))
            if last < high:
                self._free.insert(0, (last + 1, high))
            count -= last - low + 1
        return taken

    def give_back(self, taken: list[Interval]) -> None:
        """Free intervals that were taken, joined to their neighbours."""
        for low, high in taken:
            at = bisect_left(self._free, (low, high))
            if at < len(self._free) and self._free[at][0] == high + 1:
                high = self._free.pop(at)[1]  # noqa: PLW2901 - the interval grows to the right
            if at > 0 and self._free[at - 1][1] == low - 1:
                low = self._free.pop(at - 1)[0]  # noqa: PLW2901 - and to the left
                at -= 1
            self._free.insert(at, (low, high))


def assign_processors(holdings: pl.DataFrame, slots: int, first: int = 0) -> list[list[Interval]]:
    """Give each holding of one cluster, in order of start, processors ``first`` to ``first + slots - 1``.

    What ends at an instant is free for what starts at it. A run that holds more VMs than there are
    slots gets what there is.
    """
    free = FreeProcessors(first, slots)
    ending: list[tuple[int, int, list[Interval]]] = []
    assigned: list[list[Interval]] = []
    for start_ms, end_ms, vms in holdings.select("start_ms", "end_ms", "vms").iter_rows():
        while ending and ending[0][0] <= start_ms:
            free.give_back(heapq.heappop(ending)[2])
        taken = free.take(vms)
        heapq.heappush(ending, (end_ms, len(assigned), taken))
        assigned.append(taken)
    return assigned


def interval_set(intervals: list[Interval]) -> str:
    """Write intervals as Batsim does: ``0-3 7 9-11``."""
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in intervals)
