"""How many VMs are held at each instant: the sum of what starts less the sum of what has ended."""

from collections.abc import Sequence

import polars as pl


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
