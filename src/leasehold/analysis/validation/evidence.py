"""What a rule looks at: the tables of a run, joined once so that each rule is one filter."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from leasehold.analysis.run import Run


class Evidence:
    """A run prepared for checking; knows only the run folder, not the program that wrote it."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def leases(self) -> pl.DataFrame:
        """The leases, one row each even where the folder has more, with ``is_local``."""
        once = self.run.leases.unique("lease_id", keep="first", maintain_order=True)
        return once.with_columns(is_local=pl.col("origin") == "local")

    @cached_property
    def segments(self) -> pl.DataFrame:
        """The segments in order of time within each lease, with its type and its previous segment.

        ``before_*`` is the lease's previous segment, ``number`` counts from 0, ``after_preemption``
        says that the lease was preempted earlier. Those in which machines are waited for are left out.
        """
        owners = self.leases.select(
            "lease_id",
            "is_local",
            "lease_type",
            "home",
            "ready_ms",
            "overhead_vm_ms",
            lease_vms="vms",
            state="state",
            final_ms="end_ms",
        )
        mine = "lease_id"
        columns = ("site", "kind", "end_ms", "ended_by")
        preempted = (pl.col("ended_by") == "preempted").cast(pl.Int64)
        return (
            self.run.segments.filter(pl.col("kind") != "start")
            .sort("lease_id", "start_ms", "end_ms")
            .join(owners, on="lease_id", how="left", maintain_order="left")
            .with_columns(pl.col(c).shift(1).over(mine).alias(f"before_{c}") for c in columns)
            .with_columns(
                number=pl.int_range(pl.len()).over(mine),
                is_last=pl.int_range(pl.len()).over(mine) == pl.len().over(mine) - 1,
                after_preemption=(preempted.cum_sum().over(mine) - preempted) > 0,
            )
        )

    @cached_property
    def work(self) -> pl.DataFrame:
        """The leases that ran, with the work done and asked for, in units of milliseconds times MIPS.

        ``slack`` is what rounding may add or leave: each run segment ends at a whole millisecond, so
        up to one millisecond's work of the cluster for each.
        """
        sites = self.run.sites.select("site", "speed_mips", "reference_mips")
        duration_ms = pl.col("end_ms") - pl.col("start_ms")
        done = (
            self.run.segments.filter(pl.col("kind") == "run")
            .join(sites, on="site", how="inner")
            .group_by("lease_id")
            .agg(
                done=(duration_ms * pl.col("speed_mips")).sum(),
                slack=pl.col("speed_mips").sum(),
                reference_mips=pl.col("reference_mips").first(),
            )
        )
        return self.leases.join(done, on="lease_id", how="inner")

    @cached_property
    def preemptions(self) -> pl.DataFrame:
        """One row for each victim of each preemption decision."""
        return self.run.decisions.filter(pl.col("outcome") == "preempt")


def findings(
    frame: pl.DataFrame,
    sentence: pl.Expr,
    *,
    lease_id: str | None = "lease_id",
    site: str | None = None,
    time_ms: str | None = None,
) -> pl.DataFrame:
    """Return one finding for each row: ``sentence`` and where and when, by the columns named."""
    return frame.select(
        _column(lease_id, pl.Int64).alias("lease_id"),
        _column(site, pl.String).alias("site"),
        _column(time_ms, pl.Int64).alias("time_ms"),
        sentence.alias("sentence"),
    )


def _column(name: str | None, kind: type[pl.DataType]) -> pl.Expr:
    return pl.lit(None, dtype=kind) if name is None else pl.col(name).cast(kind)


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One thing that must be true of every run.

    ``meaning`` states it; ``check`` returns the findings that contradict it (`findings`).
    """

    name: str
    meaning: str
    check: Callable[[Evidence], pl.DataFrame]
