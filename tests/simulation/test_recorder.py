"""What is handed over as columns is written as rows would be, in the order in which both come."""

from array import array
from pathlib import Path

import polars as pl
import pytest

from leasehold.simulation.recorder import Recorder
from leasehold.simulation.table_writer import Coded, TableWriter, Values

ROWS = [
    (1, "north", "run", 0, 50, 4, "completed"),
    (2, "south", "run", 10, 60, 2, "completed"),
    (3, "north", "run", 20, 70, 1, "completed"),
    (4, "south", "resume", 30, 80, 8, "preempted"),
]


def written(folder: Path, table: TableWriter) -> pl.DataFrame:
    """Close the table and read its file."""
    table.close()
    return pl.read_parquet(folder / "segments.parquet")


def by_rows(folder: Path) -> pl.DataFrame:
    """Write all rows one by one."""
    folder.mkdir()
    table = TableWriter(folder, "segments")
    for row in ROWS:
        table.add(row)
    return written(folder, table)


def test_blocks_and_rows_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.simulation.table_writer.ROWS_PER_BLOCK", 2)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    table = TableWriter(mixed, "segments")
    table.add(ROWS[0])
    block: dict[str, Values] = {
        "lease_id": array("q", [2, 3]),
        "site": Coded(array("q", [1, 0]), ["north", "south"]),
        "kind": "run",
        "start_ms": array("q", [10, 20]),
        "end_ms": [60, 70],
        "vms": (2, 1),
        "ended_by": "completed",
    }
    table.extend(2, block)
    table.add(ROWS[3])
    assert written(mixed, table).equals(by_rows(tmp_path / "rows"))


def test_negative_numbers_and_columns_not_given_are_null(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    block: dict[str, Values] = {
        "seq": recorder.numbers(2),
        "time_ms": array("q", [5, 6]),
        "lease_id": array("q", [1, 2]),
        "site": Coded([-1, 0], ["north"]),
        "outcome": "wait",
        "reason": ["no-room", "no-room"],
        "rule": "easy",
        "planned_ms": array("q", [-1, 9]),
    }
    recorder.decisions.extend(2, block)
    recorder.finish({}, 7)
    found = pl.read_parquet(tmp_path / "decisions.parquet")
    assert found["seq"].to_list() == [1, 2]
    assert found["site"].to_list() == [None, "north"]
    assert found["planned_ms"].to_list() == [None, 9]
    assert found["agreement"].to_list() == found["exact"].to_list() == [None, None]
    assert recorder.numbers(1) == range(3, 4)


def test_numbers_of_a_log_become_text(tmp_path: Path) -> None:
    table = TableWriter(tmp_path, "baseline")
    table.extend(2, {"lease_id": range(1, 3), "start_ms": 7})
    table.close()
    assert pl.read_parquet(tmp_path / "baseline.parquet").rows() == [(1, 7), (2, 7)]
    leases = TableWriter(tmp_path, "leases")
    leases.extend(2, {"source_id": array("q", [17, 18])})
    leases.close()
    assert pl.read_parquet(tmp_path / "leases.parquet")["source_id"].to_list() == ["17", "18"]
