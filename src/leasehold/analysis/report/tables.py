"""The tables of the report: rows of words ready to be laid out."""

from dataclasses import dataclass

import polars as pl

from leasehold.analysis.facts import PARTIES
from leasehold.analysis.metrics import (
    CATALOGUE,
    COALLOCATION_CATALOGUE,
    Number,
    by_cluster,
    by_cluster_and_party,
    by_party,
    by_reason,
    coallocation_totals,
)
from leasehold.analysis.report.sentences import because
from leasehold.analysis.run import Run
from leasehold.analysis.wording import NOTHING, duration, number, value

MOST_ROWS = 24
"""How many clusters a table lists; of more, those with most requests."""

_PARTY_COLUMNS = (
    "leases",
    "completed",
    "killed",
    "refused",
    "terminated",
    "failed",
    "wait_median_s",
    "wait_p95_s",
    "slowdown_mean",
    "preemptions",
    "vms_preempted",
)
_CLUSTER_COLUMNS = (
    "leases",
    "occupancy_pct",
    "idle_lent_pct",
    "utilisation_pct",
    "vms_preempted",
    "preemptions",
    "overhead_vm_h",
    "awrt_s",
    "locals_delayed",
    "locals_refused",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell says, how strongly it is tinted (0 to 1), and the party whose colour it bears."""

    text: str
    tint: float = 0.0
    party: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A caption, the heads of its columns, and its rows; ``note`` says what was left out."""

    caption: str
    heads: list[str]
    rows: list[list[Cell]]
    note: str = ""


def party_table(run: Run) -> Table:
    """Tabulate each party: how its leases ended, waited and were preempted."""
    rows = [[Cell(row["party"], party=row["party"]), *_cells(row, _PARTY_COLUMNS)] for row in by_party(run).to_dicts()]
    return Table("By lease type", ["", *_titles(_PARTY_COLUMNS)], rows)


def cluster_table(run: Run) -> Table:
    """Tabulate each cluster: what it was used for, what it took back, what that cost."""
    table = by_cluster(run)
    slots = dict(run.sites.select("site", "slots").iter_rows())
    rows = [
        [Cell(row["site"]), Cell(number(slots[row["site"]])), *_cells(row, _CLUSTER_COLUMNS)]
        for row in _busiest(table).to_dicts()
    ]
    heads = ["cluster", "slots", *_titles(_CLUSTER_COLUMNS)]
    return Table("By cluster", heads, rows, _left_out(table.height))


def coallocation_tables(run: Run) -> list[Table]:
    """Tabulate how co-allocations fared; no table for a run without any."""
    numbers = coallocation_totals(run)
    if not numbers:
        return []
    row = [Cell(value(numbers[key], m.unit)) for key, m in COALLOCATION_CATALOGUE.items()]
    return [Table("Co-allocations", [m.title for m in COALLOCATION_CATALOGUE.values()], [row])]


def waiting_matrix(run: Run) -> Table:
    """Tabulate the mean wait of each party at each cluster, tinted by how long it is."""
    table = by_cluster_and_party(run)
    waits = {(row["site"], row["party"]): row["wait_mean_s"] for row in table.to_dicts()}
    longest = max((wait for wait in waits.values() if wait), default=1.0)
    sites = _busiest(by_cluster(run))["site"].to_list()
    rows = [[Cell(site), *(_tinted(waits.get((site, party)), longest) for party in PARTIES)] for site in sites]
    return Table("Mean wait by cluster and type", ["cluster", *PARTIES], rows, _left_out(run.sites.height))


def ending_table(run: Run) -> Table:
    """Tabulate how leases ended and why, most frequent first."""
    endings = by_reason(run)
    most = max(endings["leases"].to_list(), default=1)
    rows = [
        [
            Cell(row["party"], party=row["party"]),
            Cell(row["state"]),
            Cell(because(row["reason"])),
            Cell(number(row["leases"]), tint=row["leases"] / most),
            Cell(number(row["vms"])),
        ]
        for row in endings.to_dicts()
    ]
    return Table("How leases ended, and why", ["", "state", "reason", "leases", "VMs asked"], rows)


def site_table(run: Run) -> Table:
    """Tabulate the clusters as they were set up."""
    rows = [[Cell(_setting(cell)) for cell in row] for row in run.sites.head(MOST_ROWS).iter_rows()]
    heads = [name.replace("_", " ") for name in run.sites.columns]
    note = f"The first {MOST_ROWS} of {run.sites.height} clusters." if run.sites.height > MOST_ROWS else ""
    return Table("The clusters", heads, rows, note)


def _setting(cell: object) -> str:
    return NOTHING if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def _titles(keys: tuple[str, ...]) -> list[str]:
    return [CATALOGUE[key].title for key in keys]


def _cells(row: dict[str, Number], keys: tuple[str, ...]) -> list[Cell]:
    return [Cell(value(row[key], CATALOGUE[key].unit)) for key in keys]


def _tinted(wait_s: float | None, longest_s: float) -> Cell:
    return Cell(duration(wait_s), tint=(wait_s or 0) / longest_s)


def _busiest(table: pl.DataFrame) -> pl.DataFrame:
    """Keep the clusters with most requests, in the run's own order."""
    ranked = table.with_row_index("place").sort("leases", descending=True, maintain_order=True)
    return ranked.head(MOST_ROWS).sort("place").drop("place")


def _left_out(clusters: int) -> str:
    return f"The {MOST_ROWS} clusters with most requests, of {clusters}." if clusters > MOST_ROWS else ""
