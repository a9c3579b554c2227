"""A log in any order becomes a table by submission, whatever its size; and a table is read as any log."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InputError
from leasehold.model.tables import LogRecord
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sources import open_streams, with_sizes
from leasehold.simulation.workload import log_table
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.log_table import LOG_TABLE, TWICE, LogSummary, TableColumns, write_log


def job(number: int, submit_ms: int, run_ms: int = 1000, vms: int = 1, wait_ms: int = 0, **more: Any) -> LogRecord:
    record = LogRecord(str(number), False, submit_ms, run_ms, vms, vms, -1, -1, wait_ms, "u", "g", "q", "p", "s")  # noqa: FBT003
    return record._replace(**more)


def written(folder: Path, records: list[LogRecord], *, distinct: bool = False) -> tuple[LogSummary, ReadingNotes]:
    notes = ReadingNotes("log", read=len(records))
    return write_log(records, folder, notes, distinct=distinct), notes


def rows(folder: Path) -> list[LogRecord]:
    return [LogRecord(*row) for row in pl.read_parquet(folder / LOG_TABLE / "*.parquet").iter_rows()]


jobs = st.lists(
    st.builds(job, st.integers(1, 9), st.integers(0, 30), st.integers(0, 60), st.integers(1, 9), st.integers(0, 40))
)


@given(records=jobs.filter(bool), size=st.integers(1, 7), piece=st.integers(1, 4))
def test_however_few_rows_are_in_memory_the_table_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, records: list[LogRecord], size: int, piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_table, "ROWS_IN_MEMORY", size)
        patch.setattr(log_table, "_ROWS_AT_ONCE", piece)
        folder = tmp_path_factory.mktemp("log")
        summary, _ = written(folder, records)
    order = sorted(records, key=lambda one: (one.submit_ms, one.source_id, one.run_ms))
    assert [one[:4] for one in rows(folder)] == [one[:4] for one in order]
    assert sorted(rows(folder)) == sorted(records)
    assert {path.name for path in folder.iterdir()} == {LOG_TABLE}
    # The most in use at once, counted at every instant.
    instants = range(max(one.submit_ms + one.wait_ms + one.run_ms for one in records) + 1)
    used = (
        sum(one.allocated_vms for one in records if 0 <= at - one.submit_ms - one.wait_ms < one.run_ms)
        for at in instants
    )
    assert summary.used_vms == max(used)


@given(records=jobs.filter(bool), size=st.integers(1, 7))
def test_of_the_same_job_and_submission_the_longest_counts(
    tmp_path_factory: pytest.TempPathFactory, records: list[LogRecord], size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_table, "ROWS_IN_MEMORY", size)
        folder = tmp_path_factory.mktemp("log")
        _, notes = written(folder, records, distinct=True)
    longest: dict[tuple[str, int], int] = {}
    for one in records:
        key = one.source_id, one.submit_ms
        longest[key] = max(longest.get(key, 0), one.run_ms)
    assert {(one.source_id, one.submit_ms): one.run_ms for one in rows(folder)} == longest
    assert len(rows(folder)) == len(longest) == len(records) - notes.skipped[TWICE]


@pytest.mark.soak
def test_memory_holds_a_few_rows_of_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_table, "ROWS_IN_MEMORY", 1_000)
    monkeypatch.setattr(log_table, "_ROWS_AT_ONCE", 50)
    held: list[int] = []
    take = log_table._Batch.take

    def watched(batch: log_table._Batch, before_ms: int | None) -> pl.DataFrame:
        held.append(len(batch.rows))
        return take(batch, before_ms)

    monkeypatch.setattr(log_table._Batch, "take", watched)
    order = random.Random(1)
    records = [job(number, number * 10 + order.randrange(3_000)) for number in range(20_000)]
    summary, _ = written(tmp_path, records)
    assert summary.jobs == 20_000
    assert all(one.submit_ms <= other.submit_ms for one, other in pairwise(rows(tmp_path)))
    assert max(held) <= 2 * 50


class TestReading:
    def scenario(self, folder: Path, **stream: object) -> dict[str, object]:
        size = {"plan": "nodes", "nodes": [{"count": 2, "cores": 8, "gpus": {"model": "a100", "count": 4}}]}
        cluster = {"name": "ours", **(size if stream.get("vm") == "node" else {"slots": "max-procs"})}
        own = {"name": "local", "log": str(folder / LOG_TABLE), "site": "ours", **stream}
        return {"name": "t", "cluster": [cluster], "stream": [own]}

    def test_a_stream_of_a_table_begins_at_zero_and_its_cluster_is_as_large_as_it_was_used(
        self, tmp_path: Path
    ) -> None:
        written(tmp_path, [job(2, 1_700_000_050_000, vms=3), job(1, 1_700_000_000_000, 90_000, 5)])
        scenario = with_sizes(scenario_from_dict(self.scenario(tmp_path)))
        read = list(open_streams(scenario, []))
        assert [(one.source_id, one.submit_ms, one.vms) for one in read] == [("1", 0, 5), ("2", 50_000, 3)]
        assert scenario.clusters[0].slots == 8

    def test_a_vm_of_a_job_may_be_its_part_of_a_node(self, tmp_path: Path) -> None:
        wide = job(1, 0, vms=12, nodes=2, gpu_model="a100", gpu_milli=6000, memory_mib=512)
        half = job(2, 5, vms=1, nodes=1, gpu_milli=500, memory_mib=512)
        plain = job(3, 9, vms=3)
        written(tmp_path, [wide, half, plain])
        read = list(open_streams(scenario_from_dict(self.scenario(tmp_path, vm="node")), []))
        machines = [(one.vms, one.cores, one.memory_mib, one.gpu_model, one.gpu_milli) for one in read]
        assert machines == [(2, 6, 3072, "a100", 3000), (1, 1, 512, "", 500), (1, 3, 3072, "", 0)]

    def test_what_was_noted_when_it_was_written_is_told_again(self, tmp_path: Path) -> None:
        notes = ReadingNotes("log", read=3)
        notes.skip("were left out: still pending")
        write_log([job(1, 0), job(2, 1)], tmp_path, notes, distinct=False)
        found: list[ReadingNotes] = []
        assert len(list(open_streams(with_sizes(scenario_from_dict(self.scenario(tmp_path))), found))) == 2
        sentence = "local: as it was read from the accounting, 1 of 3 jobs were left out: still pending"
        assert sentence in found[0].sentences()

    def test_another_parquet_file_is_refused_with_what_reads_it(self, tmp_path: Path) -> None:
        path = tmp_path / "other.parquet"
        pl.DataFrame({"id": [1]}).write_parquet(path)
        with pytest.raises(InputError, match=r"other.parquet: has no column source_id, expected a log written by `sim"):
            list(TableColumns(path, ReadingNotes("")).blocks())

    def test_a_table_out_of_order_is_refused_with_the_row(self, tmp_path: Path) -> None:
        written(tmp_path, [job(1, 5), job(2, 9)])
        path = tmp_path / "turned.parquet"
        pl.read_parquet(tmp_path / LOG_TABLE / "*.parquet").reverse().write_parquet(path)
        with pytest.raises(InputError, match=r"turned.parquet:2: submit_ms is before that of the row above it"):
            list(TableColumns(path, ReadingNotes("")).blocks())

    def test_what_is_no_parquet_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "log.parquet"
        path.write_text("nothing")
        with pytest.raises(InputError, match=r"log.parquet: is not a table of a log"):
            list(TableColumns(path, ReadingNotes("")).blocks())
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError, match=r"empty: holds no file"):
            list(TableColumns(tmp_path / "empty", ReadingNotes("")).blocks())


def test_a_log_without_a_job_leaves_no_table(tmp_path: Path) -> None:
    notes = ReadingNotes("acc.txt", read=2)
    notes.skip("were left out: still pending")
    with pytest.raises(
        InputError, match=r"acc.txt: no job is left of the 2 in this log: 1 were left out: still pending"
    ):
        write_log([], tmp_path, notes, distinct=True)
