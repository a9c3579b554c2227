"""From segments to holdings: the stretches for which a lease keeps the same VMs without a break."""

import polars as pl


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
