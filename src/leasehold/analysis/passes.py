"""One pass over the tables of a run: what its measures are made of, added up for each cluster and party.

Leases, segments and the starts without guests are read slice by slice, side by side: each was written when something
was over, so that a segment stands before the end of its lease. Only segments of leases that have not ended yet are
kept, and only the cells remain. What is added up is declared by the measures (`leasehold.analysis.measures`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import polars as pl

from leasehold.analysis.facts import (
    LEASE_COLUMNS,
    OWNER,
    PARTIES,
    PARTY,
    SEGMENT_COLUMNS,
    lease_facts,
    segment_facts,
)
from leasehold.analysis.run import Run, streamed

CELL = ("site", "origin", "party")
"""What cells are kept for; everything that is asked for is a sum over some of them."""

WORKED = ("run", "claim")
"""Segments of a lease whose machines were there: without one it may have been saved or moved, but never began."""

STRETCHES = 480
"""Into how many stretches the time of a run is cut; charts show as many, or a divisor."""

_MOST_ROWS = 15_000
_MOST_PARTS = 100

Expressions = Mapping[str, pl.Expr]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is added up, and the largest of what is kept, over leases, segments, and delays of local jobs."""

    leases: Expressions
    segments: Expressions
    delays: Expressions
    largest: frozenset[str]


class Cells:
    """Rows that are added up: slice after slice, in order, so that sums of floats are the same every time."""

    def __init__(self, by: tuple[str, ...], largest: frozenset[str] = frozenset()) -> None:
        """Keep one row for each of ``by``; all other columns are added up, but of ``largest`` the most is kept."""
        self._by = by
        self._largest = largest
        self._parts: list[pl.DataFrame] = []
        self._rows = 0
        self._most_rows = _MOST_ROWS

    def add(self, part: pl.DataFrame) -> None:
        """Add rows."""
        self._parts.append(part)
        self._rows += part.height
        if self._rows > self._most_rows or len(self._parts) > _MOST_PARTS:
            self._parts = [added_up(pl.concat(self._parts), self._by, self._largest)]
            self._rows = self._parts[0].height
            self._most_rows = max(_MOST_ROWS, 2 * self._rows)

    def total(self) -> pl.DataFrame:
        """Return one row for each cell, in order."""
        named = pl.concat(self._parts).cast({pl.Categorical: pl.String})
        return added_up(named, self._by, self._largest).sort(self._by)


def added_up(cells: pl.DataFrame, by: tuple[str, ...] | list[str], largest: frozenset[str]) -> pl.DataFrame:
    """Add up cells for each of ``by``, a choice of their columns."""
    amounts = [name for name, kind in cells.schema.items() if kind.is_numeric() and name not in by]
    added = [pl.col(name).max() if name in largest else pl.col(name).sum() for name in amounts]
    return cells.group_by(by, maintain_order=True).agg(added)


@dataclass(frozen=True, slots=True)
class Summary:
    """What remains of a pass, by cell.

    ``leases``, ``segments``, ``delays``  what was wanted of each
    ``endings``    number and VMs of leases, by party, state and reason
    ``waits``      how many leases waited about so long: ``low`` is at most 0.4 % less than the wait
    ``levels``     by stretch of the run: by how much the VMs held changed, and that times the time since the begin
    ``preempted``  the leases that were preempted at each cluster
    ``owned``      how many leases hold segments, beyond waiting for their machines
    """

    leases: pl.DataFrame
    segments: pl.DataFrame
    delays: pl.DataFrame
    endings: pl.DataFrame
    waits: pl.DataFrame
    levels: pl.DataFrame
    preempted: pl.DataFrame
    owned: int


_IN_WORDS = {"leases": pl.len().cast(pl.Int64), "vms": pl.col("vms").sum()}

_HALVINGS = (pl.col("wait_ms").clip(1).log(2).floor() - 8).clip(0)
_STEP_MS = pl.lit(2.0).pow(_HALVINGS).cast(pl.Int64)
LOW = pl.col("wait_ms") // _STEP_MS * _STEP_MS
"""A wait, rounded down to nine binary digits."""


def summarise(run: Run, wanted: Wanted) -> Summary:
    """Read the tables of a run once."""
    leases, segments = Cells(CELL, wanted.largest), Cells(CELL, wanted.largest)
    endings, waits, levels = Cells(("party", "state", "reason")), Cells((*CELL, "low")), Cells((*CELL, "stretch"))
    delays, starts = Cells(CELL, wanted.largest), _StartsWithoutGuests(run)
    preempted: list[pl.DataFrame] = []
    held = _HeldByLeases(run)
    owned = 0

    def account(matched: pl.DataFrame) -> None:
        facts = segment_facts(matched)
        segments.add(_by_cell(facts, wanted.segments))
        levels.add(_changes(facts, run))
        gave_way = facts.filter("is_preempted").select(*CELL, "lease_id").unique(maintain_order=True)
        if not (preempted and gave_way.is_empty()):
            preempted.append(gave_way)

    def account_with_leases(part: pl.DataFrame) -> int:
        """Return how many of the leases held machines."""
        facts = lease_facts(part, run.sites)
        leases.add(_by_cell(facts, wanted.leases))
        endings.add(facts.group_by("party", "state", "reason").agg(**_IN_WORDS))
        waits.add(facts.drop_nulls("wait_ms").group_by(*CELL, low=LOW).agg(leases=pl.len().cast(pl.Int64)))
        matched = held.take(facts)
        account(matched)
        delays.add(_by_cell(starts.take(facts), wanted.delays))
        return matched["lease_id"].filter(matched["kind"].is_in(WORKED)).n_unique()

    for part in slices_of(run, "leases", LEASE_COLUMNS):
        owned += account_with_leases(part)
    for matched in held.rest():  # tables in another order than ours: their leases are looked up
        account(matched)
        owned = -1
    if owned < 0:
        owned = streamed(
            run.scan("segments").filter(pl.col("kind").is_in(WORKED)).select(pl.col("lease_id").n_unique())
        ).item()
    return Summary(
        leases.total(),
        segments.total(),
        delays.total(),
        endings.total(),
        waits.total(),
        levels.total(),
        pl.concat(preempted).unique(maintain_order=True).cast({pl.Categorical: pl.String}),
        owned,
    )


def slices_of(run: Run, table: str, columns: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    """Give the slices of a table; one without rows for a table without rows, so that there are always columns."""
    none = True
    for part in run.slices(table, columns):
        none = False
        yield part
    if none:
        yield run.scan(table).select(columns).head(0).collect()


def _by_cell(facts: pl.DataFrame, wanted: Expressions) -> pl.DataFrame:
    return facts.group_by(CELL, maintain_order=True).agg(**wanted)


class _HeldByLeases:
    """The segments of leases, read as far ahead as the leases need."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._slices = run.slices("segments", SEGMENT_COLUMNS)
        self._waiting = _named(run.scan("segments").select(SEGMENT_COLUMNS).head(0).collect())
        self._read_to_ms = -1
        self._is_read = False

    def take(self, leases: pl.DataFrame) -> pl.DataFrame:
        """Give the segments of these leases, with what is to be known of their owners."""
        last_ms = leases["end_ms"].max() if leases["end_ms"].null_count() == 0 else None
        while not self._is_read and not (isinstance(last_ms, int) and self._read_to_ms > last_ms):
            self._read_on()
        found = self._waiting.join(leases.select(OWNER), on="lease_id", how="left", maintain_order="left")
        is_owned = pl.col("party").is_not_null()
        self._waiting = found.filter(~is_owned).select(SEGMENT_COLUMNS)
        return found.filter(is_owned)

    def _read_on(self) -> None:
        part = next(self._slices, None)
        if part is None:
            self._is_read = True
            return
        self._waiting = pl.concat([self._waiting, _named(part)])
        reached_ms = part["end_ms"].max()
        self._read_to_ms = max(self._read_to_ms, reached_ms if isinstance(reached_ms, int) else -1)

    def rest(self) -> Iterator[pl.DataFrame]:
        """Give the segments whose leases stood before them, and those of no lease."""
        waiting, self._waiting = self._waiting, self._waiting.clear()
        for part in chain([waiting], map(_named, self._slices)):
            if not part.is_empty():
                ids = part["lease_id"].unique().implode()
                owners = self._run.scan("leases").filter(pl.col("lease_id").is_in(ids)).with_columns(party=PARTY)
                known = streamed(owners.select(OWNER)).cast({pl.String: pl.Categorical})
                yield part.join(known, on="lease_id", how="left", maintain_order="left")


def _named(segments: pl.DataFrame) -> pl.DataFrame:
    return segments.cast({pl.String: pl.Categorical})


class _StartsWithoutGuests:
    """When local jobs start without guests, beside when they did; what has no counterpart yet is kept."""

    def __init__(self, run: Run) -> None:
        columns = ("lease_id", "start_ms")
        self._slices = run.slices("baseline", columns)
        self._alone = run.scan("baseline").select(columns).head(0).collect()
        self._read_to_ms = -1
        self._is_read = run.height("baseline") == 0
        self._is_without = self._is_read
        self._beside: pl.DataFrame | None = None

    def take(self, leases: pl.DataFrame) -> pl.DataFrame:
        """Give local jobs whose two starts are known now, with their delays."""
        started = leases.filter((pl.col("origin") == "local") & pl.col("first_start_ms").is_not_null())
        beside = started.select(*CELL, "lease_id", "first_start_ms")
        if self._is_without:
            return self._delays(beside.clear())
        self._beside = beside if self._beside is None else pl.concat([self._beside, beside])
        last_ms = self._beside["first_start_ms"].max()
        while not self._is_read and isinstance(last_ms, int) and self._read_to_ms <= last_ms:
            self._read_on()
        both = self._delays(self._beside)
        self._beside = self._beside.join(both, on="lease_id", how="anti", maintain_order="left")
        self._alone = self._alone.join(both, on="lease_id", how="anti", maintain_order="left")
        return both

    def _delays(self, started: pl.DataFrame) -> pl.DataFrame:
        both = started.join(self._alone, on="lease_id", how="inner", maintain_order="left")
        return both.with_columns(delay_ms=pl.col("first_start_ms") - pl.col("start_ms"))

    def _read_on(self) -> None:
        part = next(self._slices, None)
        if part is None:
            self._is_read = True
            return
        self._alone = pl.concat([self._alone, part])
        reached_ms = part["start_ms"].max()
        self._read_to_ms = max(self._read_to_ms, reached_ms if isinstance(reached_ms, int) else -1)


def _changes(segments: pl.DataFrame, run: Run, stretches: int = STRETCHES) -> pl.DataFrame:
    """Add up by how much the VMs held change in each stretch of a run."""
    width_ms = max(run.span_ms, 1) / stretches
    began = segments.select(*CELL, "vms", at_ms=pl.col("start_ms") - run.begin_ms)
    ended = segments.select(*CELL, vms=-pl.col("vms"), at_ms=pl.col("end_ms") - run.begin_ms)
    stretch = (pl.col("at_ms") / width_ms).floor().clip(0, stretches - 1).cast(pl.Int64)
    return (
        pl.concat([began, ended])
        .group_by(*CELL, stretch=stretch)
        .agg(change=pl.col("vms").sum(), moment=(pl.col("vms") * pl.col("at_ms")).sum())
    )


def mean_held(run: Run, levels: pl.DataFrame, stretches: int, sites: Sequence[str] | None = None) -> pl.DataFrame:
    """Return, for stretches of the run (a divisor of `STRETCHES`), the mean VMs held by each party and left idle.

    Columns ``from_ms``, ``to_ms``, one for each party, ``idle``; over ``sites`` or all of them. How many VMs are held
    is a step function: its integral up to an instant follows from the changes before it, and is exact.
    """
    chosen = run.sites if sites is None else run.sites.filter(pl.col("site").is_in(list(sites)))
    joined = STRETCHES // stretches
    width_ms = max(run.span_ms, 1) / stretches
    here = levels.filter(pl.col("site").is_in(chosen["site"].implode()))
    edges = pl.DataFrame({"stretch": range(stretches)}, schema={"stretch": pl.Int64})
    held = edges.select(from_ms=run.begin_ms + pl.col("stretch") * width_ms)
    held = held.with_columns(to_ms=held["from_ms"].shift(-1, fill_value=run.begin_ms + max(run.span_ms, 1)))
    for party in PARTIES:
        changes = (
            here.filter(party=party).group_by(stretch=pl.col("stretch") // joined).agg(pl.col("change", "moment").sum())
        )
        sums = edges.join(changes, on="stretch", how="left", maintain_order="left").select(
            pl.col("change", "moment").fill_null(0).cum_sum()
        )
        until_ms = (edges["stretch"] + 1) * width_ms
        integral = until_ms * sums["change"] - sums["moment"]
        held = held.with_columns((integral.diff().fill_null(integral.first()) / width_ms).alias(party))
    slots = float(chosen["slots"].sum())
    return held.with_columns(idle=(slots - pl.sum_horizontal(PARTIES)).clip(lower_bound=0.0))
