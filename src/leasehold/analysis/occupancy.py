"""How many VMs were held, and by whom: at each instant, and as exact means over equal stretches."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from leasehold.analysis.facts import PARTIES, segment_facts
from leasehold.analysis.run import Run


def held_over_time(segments: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return ``time_ms`` and ``held_vms`` from that instant on, for each group of ``by``.

    All that begins and ends at one instant counts together: room given up at an instant is free for
    who starts at it.
    """
    began = segments.select(*by, "vms", time_ms="start_ms")
    ended = segments.select(*by, vms=-pl.col("vms"), time_ms="end_ms")
    return (
        pl.concat([began, ended])
        .group_by(*by, "time_ms")
        .agg(pl.col("vms").sum())
        .sort(*by, "time_ms")
        .with_columns(held_vms=pl.col("vms").cum_sum().over(by))
        .drop("vms")
    )


def mean_held(run: Run, bins: int, sites: Sequence[str] | None = None) -> pl.DataFrame:
    """Return, for each of ``bins`` stretches of the run, the mean VMs held by each party and left idle.

    Columns ``from_ms``, ``to_ms``, one for each party, ``idle``; over ``sites`` or all of them.
    """
    chosen = run.sites if sites is None else run.sites.filter(pl.col("site").is_in(list(sites)))
    segments = segment_facts(run).filter(pl.col("site").is_in(chosen["site"].implode()))
    held = held_over_time(segments, ["party"])
    edges = np.linspace(run.begin_ms, max(run.end_ms, run.begin_ms + 1), bins + 1)
    means = {party: _means(held.filter(pl.col("party") == party), edges) for party in PARTIES}
    idle = np.maximum(float(chosen["slots"].sum()) - sum(means.values()), 0.0)
    return pl.DataFrame({"from_ms": edges[:-1], "to_ms": edges[1:]} | means | {"idle": idle})


def _means(held: pl.DataFrame, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average a step function over the bins: its integral is piecewise linear, so interpolation is exact."""
    if held.is_empty():
        return np.zeros(len(edges) - 1)
    times = held["time_ms"].to_numpy().astype(np.float64)
    levels = held["held_vms"].to_numpy().astype(np.float64)
    integral = np.concatenate([[0.0], np.cumsum(levels[:-1] * np.diff(times))])
    return np.asarray(np.diff(np.interp(edges, times, integral)) / np.diff(edges))
