"""Writing SWF: what is written is read back, whole or not at all."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.notes import ReadingNotes
from leasehold.simulation.workload.swf import SwfHeader, swf_header, swf_records
from leasehold.simulation.workload.swf_writer import SwfRow, swf_rows, write_swf

Read = Callable[..., tuple[list[Job], ReadingNotes]]

HEADER = SwfHeader((";", "; Version: 2.2", ";   Odd:  spacing kept", "; Überschrift: yes"))
whole_ms = st.integers(1, 10**12)


@st.composite
def some_jobs(draw: st.DrawFn) -> list[Job]:
    jobs = []
    now_ms = 0
    for number in range(1, draw(st.integers(1, 6)) + 1):
        now_ms += draw(st.integers(0, 10**9))
        actual_ms = draw(whole_ms)
        requested_ms = actual_ms + draw(st.integers(0, 10**6))
        vms, memory_mib = draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6))
        jobs.append(Job(now_ms, vms, requested_ms, actual_ms, source_id=str(number), memory_mib=memory_mib))
    return jobs


@given(some_jobs(), st.sampled_from(["log.swf", "log.swf.gz"]))
def test_jobs_are_read_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, jobs: list[Job], name: str) -> None:
    path = tmp_path_factory.mktemp("swf") / name

    write_swf(path, HEADER, swf_rows(jobs))

    back = [
        (r.source_id, r.submit_ms, r.requested_vms, r.requested_ms, r.run_ms, r.memory_mib)
        for r in swf_records(path, ReadingNotes("x"))
    ]
    assert back == [(j.source_id, j.submit_ms, j.vms, j.requested_ms, j.actual_ms, j.memory_mib) for j in jobs]


def test_a_header_is_written_back_as_it_was_even_where_it_is_no_text(tmp_path: Path) -> None:
    original = b"; Version: 2.2\n; Note: caf\xe9 and \xc3\xbc\n;\n;Unknown: 1\n1 0 -1 1 1\n"
    (tmp_path / "one.swf").write_bytes(original)

    write_swf(tmp_path / "two.swf", swf_header(tmp_path / "one.swf"), [])

    assert original.startswith((tmp_path / "two.swf").read_bytes())
    assert len((tmp_path / "two.swf").read_bytes().splitlines()) == 4


def test_a_header_can_be_made_of_values(tmp_path: Path) -> None:
    header = SwfHeader.of({"Version": 2.2, "MaxProcs": 64})

    write_swf(tmp_path / "log.swf", header, [])

    assert swf_header(tmp_path / "log.swf") == header
    assert header.max_procs() == 64


def test_a_row_has_eighteen_fields_in_seconds() -> None:
    row = SwfRow(7, 1500, wait_ms=0, run_ms=60_001, allocated=4, status=1, think_ms=250)

    assert row.line() == "7 1.5 0 60.001 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 0.25"


def test_consumers_and_clusters_are_numbered_as_they_occur() -> None:
    jobs = [
        Job(0, 1, 1, 1, consumer="b", site="west"),
        Job(0, 1, 1, 1, consumer="a"),
        Job(0, 1, 1, 1, consumer="b", site="east"),
    ]

    rows = list(swf_rows(jobs))

    assert [(row.job, row.user, row.partition) for row in rows] == [(1, 1, 1), (2, 2, 0), (3, 1, 2)]


def test_a_log_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def breaking() -> Iterator[SwfRow]:
        yield SwfRow(1, 0)
        raise RuntimeError("the source broke")

    path = tmp_path / "log.swf"
    path.write_text("what was there before")

    with pytest.raises(RuntimeError, match="the source broke"):
        write_swf(path, HEADER, breaking())

    assert path.read_text() == "what was there before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_packed_file_knows_neither_its_time_nor_its_name(tmp_path: Path) -> None:
    for name in ("one.swf.gz", "two.swf.gz"):
        write_swf(tmp_path / name, HEADER, [SwfRow(1, 0)])

    packed = (tmp_path / "one.swf.gz").read_bytes()
    assert packed == (tmp_path / "two.swf.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # the time, in the header of gzip
