"""What a rule looks at: the tables of a run, joined once so that each rule is one filter.

A run is looked at in parts, so that memory does not grow with it. Which rows are needed together depends on the rule:
those of a lease, of a preemption with everything that took part in it, of a co-allocation, or sums over all tables.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from leasehold.analysis.run import Run, Window, streamed

LEASE, WITH_BENEFICIARIES, COALLOCATION, WHOLE = range(4)
"""What a rule needs together: all of a lease, of the leases of a preemption, of those of a co-allocation, or sums."""

IS_HARD = (pl.col("origin") != "local") & (pl.col("lease_type") == "non-preemptable")
"""Guests that local jobs may have to wait for."""

ROWS_PER_PART = 40_000


class Evidence:
    """A run, or a part of one, prepared for checking; knows only the run folder, not the program that wrote it.

    ``run`` has the rows of the part; sites and manifest are those of the ``whole``.
    """

    def __init__(self, run: Run, whole: "Evidence | None" = None) -> None:
        self.run = run
        self.whole = self if whole is None else whole

    @cached_property
    def leases(self) -> pl.DataFrame:
        """The leases, one row each even where the folder has more, with ``is_local``."""
        once = self.run.leases.unique("lease_id", keep="first", maintain_order=True)
        return once.with_columns(is_local=pl.col("origin") == "local")

    @cached_property
    def segments(self) -> pl.DataFrame:
        """The segments in order of time within each lease, with its type and its previous segment.

        ``before_*`` is the lease's previous segment, ``number`` counts from 0, ``after_preemption``
        says that the lease was preempted earlier. Those in which machines are waited for are left out. A lease
        that begins again after its machines were lost begins to be counted again.
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
        mine = ("lease_id", "lost_before")
        columns = ("site", "kind", "end_ms", "ended_by")
        preempted = (pl.col("ended_by") == "preempted").cast(pl.Int64)
        return (
            self.run.segments.filter(pl.col("kind") != "start")
            .sort("lease_id", "start_ms", "end_ms")
            .join(owners, on="lease_id", how="left", maintain_order="left")
            .with_columns(lost_before=_lost_before())
            .with_columns(pl.col(c).shift(1).over(mine).alias(f"before_{c}") for c in columns)
            .with_columns(
                number=pl.int_range(pl.len()).over(mine),
                is_last=pl.int_range(pl.len()).over("lease_id") == pl.len().over("lease_id") - 1,
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
            self.run.segments.sort("lease_id", "start_ms", "end_ms")
            .with_columns(lost_before=_lost_before())
            .filter((pl.col("kind") == "run") & (pl.col("lost_before") == pl.col("lost_before").max().over("lease_id")))
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
    def may_delay_locals(self) -> bool:
        """Whether a run has guests that local jobs may wait for, or machines that come late: how late, guests teach."""
        guests = self.run.scan("leases").filter(IS_HARD).select("lease_id")
        segments = self.run.scan("segments")
        held_by_guests = segments.filter(pl.col("kind") != "start").join(guests, on="lease_id", how="semi")
        awaited = segments.filter(pl.col("kind") == "start")
        return any(streamed(rows.select(pl.len())).item() for rows in (awaited, held_by_guests))

    @cached_property
    def preemptions(self) -> pl.DataFrame:
        """One row for each victim of each preemption decision."""
        return self.run.decisions.filter(pl.col("outcome") == "preempt")


def _lost_before() -> pl.Expr:
    """How often a lease had lost its machines before a segment, in order of time: all that it had done was lost."""
    lost = (pl.col("ended_by") == "failed").cast(pl.Int64)
    return (lost.cum_sum() - lost).over("lease_id")


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

    ``meaning`` states it; ``check`` returns the findings that contradict it (`findings`), in a part of the run that has
    together what ``needs`` says.
    """

    name: str
    meaning: str
    check: Callable[[Evidence], pl.DataFrame]
    needs: int = LEASE


class _PartOfRun(Run):
    """Some of the rows of a run."""

    def __init__(self, whole: Run, chosen: Mapping[str, pl.LazyFrame]) -> None:
        super().__init__(whole.path, whole.manifest)
        self._chosen = chosen

    def scan(self, table: str) -> pl.LazyFrame:
        """Return the rows of a table that are in this part."""
        return self._chosen[table] if table in self._chosen else super().scan(table)


def parts_of(whole: Evidence, needs: int) -> Iterator[Evidence]:
    """Cut a run into parts that each have together what a rule needs."""
    run = whole.run
    if needs == WHOLE or max(run.height("leases"), run.height("segments")) <= ROWS_PER_PART:
        yield whole
        return
    choose, table, column = {
        LEASE: (_of_leases, "leases", "lease_id"),
        WITH_BENEFICIARIES: (_of_preemptions, "decisions", "victim_set"),
        COALLOCATION: (_of_coallocations, "coallocations", "coallocation_id"),
    }[needs]
    for window in run.windows(table, column, ROWS_PER_PART):
        yield Evidence(_PartOfRun(run, choose(run, window)), whole)


def _of_leases(run: Run, window: Window) -> dict[str, pl.LazyFrame]:
    return {table: run.within(table, "lease_id", window) for table in ("leases", "segments", "decisions", "baseline")}


def _of_preemptions(run: Run, window: Window) -> dict[str, pl.LazyFrame]:
    decisions = run.within("decisions", "victim_set", window).filter(pl.col("outcome") == "preempt")
    took_part = decisions.select("lease_id", "beneficiary").collect()
    lease_ids = pl.concat([took_part["lease_id"], took_part["beneficiary"]]).unique()
    return {"decisions": decisions} | {table: run.of_leases(table, lease_ids) for table in ("leases", "segments")}


def _of_coallocations(run: Run, window: Window) -> dict[str, pl.LazyFrame]:
    leases = run.within("leases", "coallocation_id", window).filter(pl.col("coallocation_id").is_not_null())
    segments = run.of_leases("segments", leases.select("lease_id").collect()["lease_id"])
    coallocations = run.within("coallocations", "coallocation_id", window)
    return {"coallocations": coallocations, "leases": leases, "segments": segments}
