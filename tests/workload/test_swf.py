"""The SWF reader: what a line means, what is refused and how, headers, gzip."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload.interpretation import LogInterpretation, PlacingRule
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.swf import SwfHeader, swf_header, swf_records

Log = Callable[[str], Path]
Line = Callable[..., str]
Read = Callable[..., tuple[list[WorkloadJob], ReadingNotes]]

HEADER = """\
; Version: 2.2
; Computer: IBM SP2
; Information: http://www.example.org/
;              http://www.example.org/more/
; MaxNodes: 50
; MaxProcs: 100 (two to a node)
; Queue: 1 batch
; Partition:  1 west wing
; Partition:  2 east wing
; X-Site-Secret: kept though unknown
; Note: first
; Note: second
;
"""


# --- what a line means ---


def test_a_complete_line(log: Log, read_swf: Read) -> None:
    line = "17 100 5 60 4 55.1 2048 8 120 4096 1 3 2 9 1 6 -1 -1\n"
    consumer = PlacingRule(site="p{partition}", consumer="{user}/{group}/{queue}")

    jobs, notes = read_swf(log(line), consumer)

    assert jobs == [
        WorkloadJob(
            submit_ms=100_000,
            vms=8,
            requested_ms=120_000,
            actual_ms=60_000,
            consumer="3/2/1",
            source_id="17",
            site="p6",
            memory_mib=4,
            source="small",
        )
    ]
    assert notes.sentences() == []
    assert notes.read == notes.jobs == 1


def test_blank_lines_and_comments_anywhere_are_passed_over(log: Log, swf_line: Line, read_swf: Read) -> None:
    jobs, notes = read_swf(log(f"\n; Head: x\n\n{swf_line(1)}   ; between\n  {swf_line(2)}\n"))

    assert [job.source_id for job in jobs] == ["1", "2"]
    assert notes.read == 2


def test_times_may_have_decimals(log: Log, swf_line: Line, read_swf: Read) -> None:
    jobs, _ = read_swf(log(swf_line(submit="1.5", run="0.0004", size="4.0", time="2e3")))

    assert (jobs[0].submit_ms, jobs[0].actual_ms, jobs[0].vms, jobs[0].requested_ms) == (
        1500,
        1,
        4,
        2_000_000,
    )


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 10**5), st.integers(0, 3))
def test_a_number_means_the_same_with_and_without_decimals(
    tmp_path_factory: pytest.TempPathFactory, submit: int, run: int, size: int, zeros: int
) -> None:
    path = tmp_path_factory.mktemp("swf") / "log.swf"

    def record(tail: str) -> LogRecord:
        numbers = f"1 {submit}{tail} -1 {run}{tail} {size}{tail} -1 -1 {size}{tail} {run}{tail}"
        path.write_text(f"{numbers} -1 1 1 1 -1 1 1 -1 -1")
        return next(swf_records(path, ReadingNotes("x")))

    assert record("") == record("." + "0" * zeros)


# --- what is missing or odd, and is counted ---


@pytest.mark.parametrize(
    ("size", "allocated", "requested", "vms", "noted"),
    [
        ("requested", 4, 8, 8, 0),
        ("requested", 4, -1, 4, 1),
        ("requested", 4, 0, 4, 1),
        ("allocated", 4, 8, 4, 0),
        ("allocated", -1, 8, 8, 1),
    ],
)
def test_which_size_counts(
    log: Log, swf_line: Line, read_swf: Read, size: str, allocated: int, requested: int, vms: int, noted: int
) -> None:
    line = swf_line(size=allocated, requested=requested)

    jobs, notes = read_swf(log(line), interpretation=LogInterpretation(size=size))

    assert jobs[0].vms == vms
    assert sum(count for phrase, count in notes.assumed.items() if "only one of" in phrase) == noted


@pytest.mark.parametrize("time", [-1, 0])
def test_without_requested_time_a_job_asks_for_what_it_needs(
    log: Log, swf_line: Line, read_swf: Read, time: int
) -> None:
    jobs, notes = read_swf(log(swf_line(run=60, time=time)))

    assert (jobs[0].requested_ms, jobs[0].actual_ms) == (60_000, 60_000)
    assert any("the time they requested" in phrase for phrase in notes.assumed)


@pytest.mark.parametrize(("overrun", "requested_s", "actual_s"), [("raise", 90, 90), ("kill", 60, 90)])
def test_a_run_longer_than_requested(
    log: Log, swf_line: Line, read_swf: Read, overrun: str, requested_s: int, actual_s: int
) -> None:
    line = swf_line(run=90, time=60)

    jobs, notes = read_swf(log(line), interpretation=LogInterpretation(overrun=overrun))

    assert (jobs[0].requested_ms, jobs[0].actual_ms) == (requested_s * 1000, actual_s * 1000)
    assert any(phrase.startswith("ran longer than they had requested") for phrase in notes.assumed)


def test_a_run_shorter_than_requested_is_an_over_estimate_and_needs_no_note(
    log: Log, swf_line: Line, read_swf: Read
) -> None:
    jobs, notes = read_swf(log(swf_line(run=60, time=90, requested=4, memory=1024)))

    assert (jobs[0].requested_ms, jobs[0].actual_ms) == (90_000, 60_000)
    assert not notes.assumed


def test_a_run_of_zero_seconds_takes_a_millisecond(log: Log, swf_line: Line, read_swf: Read) -> None:
    jobs, notes = read_swf(log(swf_line(run=0)))

    assert jobs[0].actual_ms == 1
    assert any("1 ms" in phrase for phrase in notes.assumed)


@pytest.mark.parametrize(("field", "value", "reason"), [("run", -1, "run time"), ("size", 0, "processors")])
def test_jobs_that_never_ran_are_left_out_and_counted(
    log: Log, swf_line: Line, read_swf: Read, field: str, value: int, reason: str
) -> None:
    jobs, notes = read_swf(log(swf_line(1) + swf_line(2, **{field: value}) + swf_line(3)))

    assert [job.source_id for job in jobs] == ["1", "3"]
    assert [count for phrase, count in notes.skipped.items() if reason in phrase] == [1]
    assert (notes.read, notes.jobs) == (3, 2)


@pytest.mark.parametrize("status", [2, 3, 4])
def test_partial_executions_are_not_counted_twice(log: Log, swf_line: Line, read_swf: Read, status: int) -> None:
    part = swf_line(1, submit=-1, run=30, status=status)

    jobs, notes = read_swf(log(swf_line(1, submit=5) + part + swf_line(2, submit=6)))

    assert [job.source_id for job in jobs] == ["1", "2"]
    assert notes.skipped.total() == 1


@pytest.mark.parametrize("run", [-1, 0])
def test_what_was_cancelled_before_it_began_did_not_run(log: Log, swf_line: Line, read_swf: Read, run: int) -> None:
    jobs, notes = read_swf(log(swf_line(1) + swf_line(2, run=run, status=5) + swf_line(3, run=5, status=5)))

    assert [(job.source_id, job.actual_ms) for job in jobs] == [("1", 60_000), ("3", 5_000)]
    assert notes.sentences()[0] == "small: 1 of 3 jobs were left out: cancelled before they began"


@pytest.mark.parametrize("status", [0, 1, 5, -1])
def test_whatever_came_of_a_job_that_ran_it_ran_for_its_run_time(
    log: Log, swf_line: Line, read_swf: Read, status: int
) -> None:
    jobs, _ = read_swf(log(swf_line(run=60, status=status)))

    assert [job.actual_ms for job in jobs] == [60_000]


@pytest.mark.parametrize(("kib", "mib"), [(1, 1), (1024, 1), (1025, 2), (2_097_152, 2048), ("1024.5", 2)])
def test_requested_memory_is_rounded_up_to_mib(log: Log, swf_line: Line, read_swf: Read, kib: object, mib: int) -> None:
    jobs, _ = read_swf(log(swf_line(memory=kib)))

    assert jobs[0].memory_mib == mib


@pytest.mark.parametrize("kib", [-1, 0])
def test_unknown_memory_is_the_stated_default(log: Log, swf_line: Line, read_swf: Read, kib: int) -> None:
    jobs, notes = read_swf(log(swf_line(memory=kib)), interpretation=LogInterpretation(memory_mib=512))

    assert jobs[0].memory_mib == 512
    assert any("memory" in phrase for phrase in notes.assumed)


def test_what_was_assumed_becomes_sentences_with_counts(log: Log, swf_line: Line, read_swf: Read) -> None:
    complete = {"requested": 4, "time": 60, "memory": 1024}

    _, notes = read_swf(log(swf_line(1, **complete) + swf_line(2, run=-1) + swf_line(3, **complete)))

    assert notes.sentences() == ["small: 1 of 3 jobs were left out: no run time"]


# --- what is refused ---

GOOD = "1 0 -1 60 4 -1 -1 4 60 -1 1 1 1 -1 1 1 -1 -1\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1 2 3", "found 3 fields, expected the 18 of the Standard Workload Format"),
        (GOOD.strip() + " 7", "found 19 fields, expected the 18"),
        ("submit,run,procs", "found 1 fields"),
        (GOOD.replace(" 0 ", " -5 ", 1), "submit time: got '-5', expected 0 or more"),
        (GOOD.replace(" 0 ", " nan ", 1), "submit time: got 'nan', expected a number of seconds"),
        (GOOD.replace(" 0 ", " inf ", 1), "submit time: got 'inf'"),
        (GOOD.replace(" 60 ", " 1e999 ", 1), "run time: got '1e999'"),
        (
            GOOD.replace(" 60 ", " one ", 1),
            "run time: got 'one', expected a number of seconds (-1 for unknown)",
        ),
        (GOOD.replace(" 60 ", " 99999999999999 ", 1), "run time: got '99999999999999', expected a number"),
        (GOOD.replace(" 4 ", " 4.5 ", 1), "allocated processors: got '4.5', expected a whole number"),
        (GOOD.replace(" 4 60", " x 60"), "requested processors: got 'x', expected a whole number"),
        (GOOD.replace(" 4 60", " 4 --"), "requested time: got '--'"),
        (GOOD.replace("60 -1 1 ", "60 ? 1 ", 1), "requested memory: got '?'"),
    ],
)
def test_a_bad_line_is_refused_with_file_line_and_expectation(log: Log, line: str, told: str) -> None:
    path = log(f"; Version: 2.2\n{GOOD}{line}\n")

    with pytest.raises(InputError) as refusal:
        list(swf_records(path, ReadingNotes("x")))

    assert str(refusal.value).startswith(f"{path}:3: ")
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_submit_times_out_of_order_are_refused_with_the_way_to_sort(log: Log, swf_line: Line) -> None:
    path = log(swf_line(1, submit=7) + swf_line(2, submit="6.5"))

    with pytest.raises(InputError, match=r":2: submit time: 6\.5 s is before the job above it \(7 s\)") as told:
        list(swf_records(path, ReadingNotes("x")))

    assert "sort -s -n -k 2,2" in str(told.value)


def test_lines_before_a_bad_one_are_read(log: Log, swf_line: Line) -> None:
    records = swf_records(log(swf_line(1) + "broken\n"), ReadingNotes("x"))

    assert next(records).source_id == "1"
    with pytest.raises(InputError):
        next(records)


@pytest.mark.parametrize("text", ["", "; Version: 2.2\n", "\n\n"])
def test_a_log_without_jobs_is_refused(log: Log, text: str) -> None:
    with pytest.raises(InputError, match="holds no job"):
        list(swf_records(log(text), ReadingNotes("x")))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.swf: cannot be read: No such file"):
        list(swf_records(tmp_path / "nowhere.swf", ReadingNotes("x")))


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(swf_records(tmp_path, ReadingNotes("x")))


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.swf"
    path.write_bytes(bytes(range(256)) * 4)

    with pytest.raises(InputError, match="fields, expected the 18"):
        list(swf_records(path, ReadingNotes("x")))


@pytest.mark.parametrize(("setting", "value", "near"), [("size", "request", "requested"), ("overrun", "kil", "kill")])
def test_a_misspelt_setting_is_refused_with_the_nearest(setting: str, value: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
        LogInterpretation(**{setting: value})  # type: ignore[arg-type]  # one setting of three


def test_memory_of_no_mib_is_refused() -> None:
    with pytest.raises(InvalidField, match="memory_mib"):
        LogInterpretation(memory_mib=0)


# --- gzip ---


@pytest.mark.parametrize("name", ["log.swf.gz", "log.swf"])
def test_gzip_is_known_by_its_content(tmp_path: Path, read_swf: Read, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress((HEADER + GOOD * 3).encode()))

    jobs, _ = read_swf(path)

    assert len(jobs) == 3
    assert swf_header(path).max_procs() == 100


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_gzip_file_that_is_cut_off_is_refused(tmp_path: Path, swf_line: Line, kept: float) -> None:
    lines = "".join(swf_line(number, submit=number * number % 977 + number * 1000) for number in range(3000))
    packed = gzip.compress(lines.encode())
    path = tmp_path / "cut.swf.gz"
    path.write_bytes(packed[: int(len(packed) * kept)])

    with pytest.raises(InputError, match=r"cut\.swf\.gz:\d+: the gzip file is cut off or damaged"):
        list(swf_records(path, ReadingNotes("x")))


def test_a_damaged_gzip_file_is_refused(tmp_path: Path, swf_line: Line) -> None:
    packed = bytearray(gzip.compress("".join(swf_line(number) for number in range(3000)).encode()))
    packed[-6] ^= 0xFF
    path = tmp_path / "damaged.swf.gz"
    path.write_bytes(packed)

    with pytest.raises(InputError, match="cut off or damaged"):
        list(swf_records(path, ReadingNotes("x")))


# --- headers ---


def test_a_header_keeps_every_line_as_it_is(log: Log) -> None:
    assert swf_header(log(HEADER + GOOD)).lines == tuple(HEADER.splitlines())


def test_a_header_ends_at_the_first_job(log: Log) -> None:
    assert swf_header(log(f"; A: 1\n{GOOD}; B: 2\n")).values() == {"A": ["1"]}


def test_header_values_by_label(log: Log) -> None:
    values = swf_header(log(HEADER + GOOD)).values()

    assert values["Computer"] == ["IBM SP2"]
    assert values["Note"] == ["first", "second"]
    assert values["Information"] == ["http://www.example.org/ http://www.example.org/more/"]


def test_header_names_of_partitions(log: Log) -> None:
    header = swf_header(log(HEADER + GOOD))

    assert header.names("Partition") == {"1": "west wing", "2": "east wing"}
    assert header.names("Queue") == {"1": "batch"}
    assert header.names("Group") == {}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("; MaxNodes: 50", "; MaxProcs: 100"), 100),
        (("; MaxNodes: 50",), 50),
        (("; MaxNodes: 50", "; MaxProcs: -1"), 50),
        (("; Note: none",), None),
    ],
)
def test_max_procs_of_a_header(lines: tuple[str, ...], expected: int | None) -> None:
    assert SwfHeader(lines).max_procs() == expected


@pytest.mark.parametrize("text", ["many", ""])
def test_max_procs_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="MaxProcs"):
        SwfHeader((f"; MaxProcs: {text}",)).max_procs()
