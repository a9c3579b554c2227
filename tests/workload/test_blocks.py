"""Logs read in blocks: the same jobs, notes and errors as line by line, wherever a block ends."""

import gzip
from collections.abc import Iterator
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload.literal import literal_jobs, literal_window

from leasehold.model.errors import LeaseholdError
from leasehold.model.request import LeaseType
from leasehold.model.tables import LogRecord
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sources import (
    fitting,
    fitting_blocks,
    jobs_in,
    open_blocks,
    open_streams,
    placing_rules,
)
from leasehold.simulation.scenario.spec import LogStream, Scenario
from leasehold.simulation.workload import log_columns
from leasehold.simulation.workload.combine import merged, numbered, whole_instants
from leasehold.simulation.workload.gwf import GWF
from leasehold.simulation.workload.interpretation import LoggedStream, LogInterpretation, PlacingRule, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.job_block import OfStream, block_of
from leasehold.simulation.workload.lease_mix import LeaseMix
from leasehold.simulation.workload.log_columns import LogColumns, Names, as_texts
from leasehold.simulation.workload.log_record import ID_FIELDS, LogFormat, ReadingNotes, log_records
from leasehold.simulation.workload.swf import SWF

T = TypeVar("T")
NAMES = Names()

# --- logs, good and bad ---

plain = st.integers(-1, 30).map(str)
ODD = "0 -0 007 +3 1.5 4.0 -1 -2 1_0 x nan 1e2 - --1 12345678 123456789 99999999999 100000000000 100000000001"
odd = st.sampled_from([*ODD.split(), "9999999999999999", "-9" * 12, "-" + "9" * 30, "\u0663", "\xe9", "5\x1c"])
token = plain | plain | plain | plain | odd


NO_JOBS = ["", " ", "; a", " # b", "\x1c", "\xa0", "\x00;", ";\xe9", "\t", "1 2 3", "#", "x\ty"]


@st.composite
def lines(draw: st.DrawFn, log_format: LogFormat, now_s: int) -> str:
    """Give a line that is mostly a job, submitted about now."""
    kind = draw(st.integers(0, 40))
    if kind == 0:
        return draw(st.sampled_from(NO_JOBS))
    fields = [draw(plain) for _ in range(18)]
    fields[1] = str(now_s)
    fields[10] = draw(st.sampled_from(["1", "1", "1", "2", "3", "5", "5", "-1", "12"]))
    if kind < 5:
        fields[draw(st.integers(0, 17))] = draw(token)
    by_tab = log_format is GWF and draw(st.booleans())
    if by_tab:
        names = ["", "U 7", " a", "site.b", "a-longer-name.example", " "]
        fields[draw(st.integers(11, 16))] = draw(st.sampled_from(names))
    if kind == 1:
        del fields[draw(st.integers(12, 17)) :]
    if by_tab:
        return draw(st.sampled_from(["", "", "", " ", "\t"])) + "\t".join(fields)
    return draw(st.sampled_from(["", "", " ", "\t"])) + draw(st.sampled_from([" ", "  ", "\t"])).join(fields)


@st.composite
def logs(draw: st.DrawFn, log_format: LogFormat) -> bytes:
    """Give the bytes of a log, its lines mostly in order."""
    text, now_s = [], 0
    for gap in draw(st.lists(st.sampled_from([0, 0, 1, 3, 100_000_000]), max_size=14)):
        now_s += gap
        text.append(draw(lines(log_format, now_s if draw(st.integers(0, 30)) else 1)))
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    whole = (end.join(text) + draw(st.sampled_from(["", end]))).encode()
    return whole.replace("\xe9".encode(), b"\xe9") if draw(st.booleans()) else whole


def taken(things: Iterator[T]) -> tuple[list[T], str]:
    """Take what comes until it ends or is refused, and how that is said."""
    came = list[T]()
    try:
        came.extend(things)
    except LeaseholdError as error:
        return came, str(error)
    return came, ""


def records_of(log: LogColumns) -> Iterator[LogRecord]:
    for block in log.blocks():
        texts = [[log.names[name].texts[code] for code in block.fields[name].tolist()] for name in ID_FIELDS]
        numbers = [column.tolist() for column in block.columns()[1:]]
        for is_partial, *one in zip(block.partial.tolist(), as_texts(block.source_id), *numbers, *texts, strict=True):
            if not is_partial:
                yield LogRecord(*one)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks") / "log.swf"


block_sizes = st.sampled_from([7, 60, 200, 1 << 20])


@pytest.mark.parametrize("log_format", [SWF, GWF], ids=["swf", "gwf"])
@given(data=st.data(), size=block_sizes)
def test_a_log_has_the_same_records_and_errors(
    path: Path, log_format: LogFormat, data: st.DataObject, size: int
) -> None:
    path.write_bytes(data.draw(logs(log_format)))
    notes, careful_notes = ReadingNotes("x"), ReadingNotes("x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_columns, "BYTES_PER_BLOCK", size)
        found = taken(records_of(LogColumns(path, log_format, notes)))
    assert found == taken(log_records(path, log_format, careful_notes))


@pytest.mark.parametrize("kept", [0.3, 0.8, 0.999])
@pytest.mark.parametrize("size", [pytest.param(500, marks=pytest.mark.soak), 20_000, 1 << 20])
def test_a_damaged_log_is_read_as_far(path: Path, kept: float, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{n} {n} -1 {n * n % 977} 4 -1 -1 4 {n % 89} -1 1 1 1 -1 1 1 -1 -1\n" for n in range(4_000)]
    packed = gzip.compress("".join(lines).encode())
    path.write_bytes(packed[: int(len(packed) * kept)])
    monkeypatch.setattr(log_columns, "BYTES_PER_BLOCK", size)
    found = taken(records_of(LogColumns(path, SWF, ReadingNotes("x"))))
    assert found == taken(log_records(path, SWF, ReadingNotes("x")))
    assert "cut off or damaged" in found[1]


# --- what the lines mean ---

EVERY_TYPE = LeaseMix()
some_rules = st.lists(
    st.builds(
        PlacingRule,
        where=st.dictionaries(st.sampled_from(ID_FIELDS), st.lists(st.integers(-1, 20), max_size=20), max_size=2),
        site=st.sampled_from([None, "home", "p-{partition}", "{group}/{queue}"]),
        consumer=st.sampled_from(["{user}", "plain", "{group}/{user}", "{user}{queue}{partition}{site}"]),
        mix=st.sampled_from([EVERY_TYPE, LeaseMix.only(LeaseType.MIGRATABLE)]),
    ),
    min_size=1,
    max_size=3,
)
readings = st.builds(
    LogInterpretation, size=st.sampled_from(["requested", "allocated"]), overrun=st.sampled_from(["raise", "kill"])
)


def account(notes: ReadingNotes) -> tuple[int, list[str]]:
    return notes.read, notes.sentences()


@given(
    data=st.data(),
    size=block_sizes,
    rules=some_rules,
    reading=readings,
    seed=st.integers(1, 3),
    stop=st.integers(0, 15),
)
def test_lines_mean_the_same_and_are_noted_as_far_as_they_were_read(
    path: Path,
    data: st.DataObject,
    size: int,
    rules: list[PlacingRule],
    reading: LogInterpretation,
    seed: int,
    stop: int,
) -> None:
    path.write_bytes(data.draw(logs(SWF)))
    stream = LoggedStream(path, SWF, rules, reading, seed, data.draw(st.booleans()))
    notes, literal_notes, some, literally_some = (ReadingNotes("x") for _ in range(4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_columns, "BYTES_PER_BLOCK", size)
        assert taken(logged_jobs(stream, notes)) == taken(literal_jobs(stream, literal_notes))
        assert account(notes) == account(literal_notes)
        assert taken(islice(logged_jobs(stream, some), stop)) == taken(
            islice(literal_jobs(stream, literally_some), stop)
        )
        assert account(some) == account(literally_some)


# --- streams ---


@st.composite
def streams(draw: st.DrawFn, name: str, path: Path) -> dict[str, object]:
    """Give the keys of a stream of a log."""
    stream: dict[str, object] = {"name": name, "log": str(path), "format": "swf"}
    if draw(st.booleans()):
        stream |= {"external": True}
        if draw(st.booleans()):
            stream |= {"together": {"share": draw(st.sampled_from([0.3, 1.0])), "components": draw(st.integers(2, 3))}}
    else:
        stream |= {"cluster_by": "partition"}
    begin_s = draw(st.integers(0, 9))
    stream |= {"begin_s": begin_s, "end_s": begin_s + draw(st.integers(1, 9))} if draw(st.booleans()) else {}
    stream |= {"load": draw(st.sampled_from([0.7, 2.0, 3.0]))} if draw(st.booleans()) else {}
    stream |= {"shift_s": draw(st.integers(0, 5))} if draw(st.booleans()) else {}
    return stream | ({"from_zero": True} if draw(st.booleans()) else {})


MODEL = {"name": "model", "model": "das2", "l": 0.5, "m": 1.5, "h": 3, "q": 0.9, "p_one": 0.2, "p_pow2": 0.5}
MODEL |= {"a": 4.6, "b": 1.7, "alpha": 3.0, "beta": 0.5}


@st.composite
def scenarios(draw: st.DrawFn, folder: Path) -> Scenario:
    """Give a scenario of up to three streams, two of them logs."""
    values: dict[str, object] = {"name": "x", "cluster": [{"name": "a", "slots": 8}], "stream": []}
    chosen = []
    for name in ("first", "second")[: draw(st.integers(1, 2))]:
        path = folder / f"{name}.swf"
        gaps = draw(st.lists(st.integers(0, 2), min_size=1, max_size=30))
        times = [sum(gaps[: place + 1]) for place in range(len(gaps))]
        path.write_text("".join(f"{draw(line_of(place, at_s))}\n" for place, at_s in enumerate(times)))
        chosen.append(draw(streams(name, path)))
    if draw(st.booleans()):
        values |= {"horizon_s": draw(st.integers(1, 60))}
        chosen.insert(draw(st.integers(0, len(chosen))), MODEL)
    return scenario_from_dict(values | {"stream": chosen})


def line_of(place: int, at_s: int) -> st.SearchStrategy[str]:
    numbers = st.tuples(st.integers(-1, 5), st.integers(0, 4), st.integers(-1, 3), st.integers(1, 9))
    return numbers.map(lambda n: f"{place} {at_s} -1 {n[0]} {n[1]} -1 -1 {n[2]} 3 -1 1 1 1 1 1 {n[3]} -1 -1")


def literally(scenario: Scenario, notes: list[ReadingNotes]) -> Iterator[WorkloadJob]:
    """Give the jobs of the logs of a scenario."""
    of_streams = []
    for stream in scenario.streams:
        assert isinstance(stream, LogStream)
        notes.append(ReadingNotes(stream.name))
        logged = LoggedStream(Path(stream.path), SWF, placing_rules(stream), stream.reading, scenario.seed)
        of_streams.append(literal_window(literal_jobs(logged, notes[-1]), stream, scenario.seed, scenario.horizon_ms))
    return merged(*of_streams)


def left_none(error: str) -> bool:
    return "no job is left" in error


@given(st.data(), block_sizes)
def test_streams_have_the_same_jobs_and_numbers_in_blocks(path: Path, data: st.DataObject, size: int) -> None:
    scenario = data.draw(scenarios(path.parent))
    notes, literal_notes, block_notes = (list[ReadingNotes]() for _ in range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_columns, "BYTES_PER_BLOCK", size)
        jobs, problem = taken(open_streams(scenario, notes))
        blocks, block_problem = taken(open_blocks(scenario, block_notes))
        assert (problem, [job for block in blocks for job in block.jobs()]) == (block_problem, jobs)
        numbers = [number for block in blocks for number in block.number.tolist()]
        assert numbers == [number for number, _ in numbered(iter(jobs))]
        assert all(len(block) for block in blocks)
        assert problem or [*map(account, notes)] == [*map(account, block_notes)]
        if all(isinstance(stream, LogStream) for stream in scenario.streams) and not left_none(problem):
            assert jobs == list(literally(scenario, literal_notes))
            assert [*map(account, notes)] == [*map(account, literal_notes)]


@given(data=st.data(), size=block_sizes)
def test_blocks_fit_as_jobs_do(path: Path, data: st.DataObject, size: int) -> None:
    scenario = data.draw(scenarios(path.parent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_columns, "BYTES_PER_BLOCK", size)
        found = [
            taken(jobs)
            for jobs in (
                fitting(open_streams(scenario, []), scenario),
                jobs_in(fitting_blocks(open_blocks(scenario, []), scenario)),
            )
        ]
    assert found[0] == found[1]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=6))
def test_instants_can_be_kept_whole(gaps: list[list[int]]) -> None:
    """Blocks that end anywhere, as lists of the gaps before their jobs."""
    times_ms = [*accumulate(chain.from_iterable(gaps))]
    jobs = iter([WorkloadJob(at_ms, 1, 5, 5, source_id=str(place)) for place, at_ms in enumerate(times_ms)])
    blocks = [block_of(list(islice(jobs, len(some))), NAMES, OfStream("x")) for some in gaps]
    whole = list(whole_instants(iter(blocks)))
    assert [place for block, _ in whole for place in block.source_ids()] == [
        str(place) for place in range(len(times_ms))
    ]
    begins = [int(block.submit_ms[0]) for block, _ in whole]
    assert [next_ms for _, next_ms in whole] == [*begins[1:], None][: len(begins)]
    assert all(int(block.submit_ms[-1]) < next_ms for block, next_ms in whole if next_ms is not None)
