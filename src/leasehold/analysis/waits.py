"""How long leases waited: quantiles and curves that are exact, though no list of all waits is ever in memory.

One pass counts waits roughly (`leasehold.analysis.passes`). That says between which two rough values each quantile
lies; a second pass counts the exact waits there, and only there.
"""

from collections.abc import Sequence

import polars as pl

from leasehold.analysis.facts import PARTIES, PARTY
from leasehold.analysis.passes import CELL, LOW, Cells, slices_of
from leasehold.analysis.run import Run

_COLUMNS = ("origin", "home", "lease_type", "site", "ready_ms", "first_start_ms")

POINTS = 160
"""How many points a curve has at most."""

_GROUPS: tuple[tuple[str, ...], ...] = ((), ("site",), ("origin",), ("party",), ("site", "party"))
"""What quantiles are asked for."""

_LEASES = pl.col("leases").sum()
_RANKS = {
    "lower": (_LEASES - 1) // 2,
    "upper": _LEASES // 2,
    "p95": ((_LEASES - 1) * 0.95 + 0.5).floor(),
}
"""The two middle waits, and the one nearest to 95 %, counted from 0."""


def exact_where_needed(run: Run, rough: pl.DataFrame) -> pl.DataFrame:
    """Return how many leases of each cell waited how long: exactly where a quantile or a point of a curve lies."""
    rough = rough.rename({"low": "wait_ms"})
    needed = {wait_ms for by in _GROUPS for wait_ms in _needed(rough, by)}
    needed |= {wait_ms for party in PARTIES for wait_ms, _ in _points(rough.filter(party=party))}
    there = pl.Series(sorted(needed), dtype=pl.Int64).implode()
    exact = Cells((*CELL, "wait_ms"))
    for part in slices_of(run, "leases", _COLUMNS):
        waits = part.select(
            "origin",
            site=pl.coalesce("site", "home"),
            party=PARTY,
            wait_ms=pl.col("first_start_ms") - pl.col("ready_ms"),
        )
        started = waits.filter(pl.col("wait_ms").is_not_null() & LOW.is_in(there)).cast({pl.String: pl.Categorical})
        exact.add(started.group_by(*CELL, "wait_ms").agg(leases=pl.len().cast(pl.Int64)))
    others = rough.filter(~pl.col("wait_ms").is_in(there))
    return pl.concat([others.select(*CELL, "wait_ms", "leases"), exact.total()])


def quantiles(waits: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return ``wait_median_s`` and ``wait_p95_s`` for each group of ``by``."""
    lower, upper, p95 = (pl.col(name) / 1_000 for name in _RANKS)
    found = _at_ranks(waits, by)
    return found.select(*by, wait_median_s=(lower + upper) / 2, wait_p95_s=p95)


def curve(waits: pl.DataFrame, party: str) -> list[tuple[float, float]]:
    """Return points of a curve: after how many seconds which share of a party's leases had started, in percent."""
    mine = waits.filter(party=party)
    total = int(mine["leases"].sum())
    return [(wait_ms / 1_000, 100 * started / total) for wait_ms, started in _points(mine)]


def _needed(waits: pl.DataFrame, by: Sequence[str]) -> list[int]:
    return [wait_ms for row in _at_ranks(waits, by).select(_RANKS.keys()).iter_rows() for wait_ms in row]


def _at_ranks(waits: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Find the waits at these ranks in each group."""
    whole = waits.with_columns(all=pl.lit(1))  # so that there is a group where none is asked for
    groups = ["all", *by]
    ladder = whole.group_by(*groups, "wait_ms").agg(_LEASES).sort("wait_ms")
    ladder = ladder.with_columns(until=pl.col("leases").cum_sum().over(groups))
    at_rank = {name: pl.col("wait_ms").filter(pl.col("until") > rank).first() for name, rank in _RANKS.items()}
    return ladder.group_by(groups, maintain_order=True).agg(**at_rank)


def _points(waits: pl.DataFrame) -> list[tuple[int, int]]:
    """Give waits at even ranks, each once, and how many leases had started by then."""
    ladder = waits.group_by("wait_ms").agg(_LEASES).sort("wait_ms").with_columns(until=pl.col("leases").cum_sum())
    total = int(ladder["leases"].sum())
    if not total:
        return []
    step = 1 / (POINTS - 1)
    shares = [number * step for number in range(POINTS - 1)] + [1.0]
    ranks = pl.Series([min(int(share * total), total - 1) for share in shares])
    found = ladder[ladder["until"].search_sorted(ranks, side="right").to_list()]
    return list(dict.fromkeys(found.select("wait_ms", "until").iter_rows()))
