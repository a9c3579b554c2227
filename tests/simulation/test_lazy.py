"""Memory: a stream is read as it is needed, and what is over is forgotten, however long the stream."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest
from tests.by_slots import slot_queue, slots
from tests.simulation.worlds import HOUR_MS, busy, replaying, write_log

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.lease import LeaseState
from leasehold.routing.policies.rr import RoundRobin
from leasehold.simulation import run as running
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.recorder import Recorder
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.workload import combine, log_columns
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import History, guest, local, site

HOLDS_VMS = (LeaseState.RUNNING, LeaseState.RESUMING, LeaseState.MIGRATING)


class Counted(Iterator[tuple[int, WorkloadJob]]):
    """A stream without end that counts what was taken of it: a local job and a guest every ten seconds."""

    def __init__(self) -> None:
        self.taken = 0

    def __next__(self) -> tuple[int, WorkloadJob]:
        self.taken += 1
        at_s, kind = 5 * self.taken, "suspendable" if self.taken % 4 else "cancelable"
        return self.taken, local(at_s, 2, 30, 12) if self.taken % 2 else guest(at_s, 1, 30, kind, needed_s=7)


def gateway() -> Gateway:
    overhead = OverheadModel(suspend_ms_per_gib=2_000, resume_ms_per_gib=3_000)
    return Gateway([site("a", 4, overhead=overhead)], Routing(RoundRobin(Random(0))))


def test_an_endless_stream_is_read_one_job_ahead() -> None:
    stream = Counted()
    for now_ms in SimulatedWorld(gateway(), stream, History()).run(until_ms=HOUR_MS):
        assert stream.taken == now_ms // 5_000 + 1
    assert stream.taken == HOUR_MS // 5_000 + 1


def test_what_is_kept_is_what_has_not_ended(tmp_path: Path) -> None:
    recorder, sites = Recorder(tmp_path), gateway()
    world = SimulatedWorld(sites, Counted(), recorder)
    most = 0
    for _ in islice(world.run(), 5_000):
        live = sites.leases
        assert recorder._jobs.keys() == world._actual_work.keys() == live.keys()
        assert recorder._open.keys() == {n for n, lease in live.items() if lease.state in HOLDS_VMS}
        assert not sites.has_pending_work
        most = max(most, len(live))
    assert most < 20
    assert sites.knowledge.history("a").preempted_leases > 100
    recorder.finish(sites.leases, world.now_ms)


def test_so_are_events_and_reservations(tmp_path: Path) -> None:
    """Alarms and reservations that were overtaken may lie about for a while, but do not pile up."""
    recorder, sites = Recorder(tmp_path), gateway()
    world, home = SimulatedWorld(sites, Counted(), recorder), sites.sites["a"]
    lying_about: list[int] = []
    for _ in islice(world.run(), 6_000):
        assert home.guests is None or len(home.guests._reservations) == 0
        due = slot_queue(home.locals)._queue._due.size
        due += 0 if home.guests is None else slot_queue(home.guests.queue)._queue._due.size
        lying_about.append(len(world._event_queue) + due + len(slots(home.home).times))
    assert max(lying_about[3_000:]) <= max(lying_about[:3_000]) + 5 < 100
    recorder.finish(sites.leases, world.now_ms)


def test_also_where_a_long_queue_closes_up_again_and_again() -> None:
    """Two hundred jobs that ask for a thousand seconds each and need one."""
    jobs = [local(0, 4, 1_000, 1) for _ in range(200)]
    sites = gateway()
    queue = slot_queue(sites.sites["a"].locals)
    for _ in SimulatedWorld(sites, enumerate(jobs, 1), History()).run():
        assert queue._queue._due.size <= 4 * len(jobs)


def test_rows_are_written_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.simulation.table_writer.ROWS_PER_BLOCK", 100)
    monkeypatch.setattr("leasehold.simulation.table_writer.ROWS_PER_FILE", 200)
    recorder, sites = Recorder(tmp_path), gateway()
    sizes = set[int]()
    for _ in islice(SimulatedWorld(sites, Counted(), recorder).run(), 2_000):
        for table in (recorder.leases, recorder.segments, recorder.decisions):
            assert len(table._cells) < 100 * len(table._columns)
        sizes.add(len([*(tmp_path / "leases.parquet.part").iterdir()]))
    assert len(sizes) >= 3
    assert not (tmp_path / "leases.parquet").exists()


def test_a_scenario_takes_no_job_before_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = count()
    seen = [0]

    def counting(jobs: Iterator[WorkloadJob]) -> Iterator[WorkloadJob]:
        for job in jobs:
            seen[0] = next(taken) + 1
            yield job

    monkeypatch.setattr(running, "INSTANTS_PER_REPORT", 1)
    monkeypatch.setattr(running, "open_streams", lambda *args: counting(open_streams(*args)))
    told: list[tuple[int, int]] = []
    run_scenario(busy(), tmp_path / "run", baseline=False, progress=lambda p: told.append((p.jobs, seen[0])))
    assert all(read <= now_taken <= read + 1 for read, now_taken in told)


def test_a_log_is_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose end is bad has been simulated up to there when that is found out."""
    log = write_log(tmp_path / "own.swf", [*((10 * n, 9, 1, 9) for n in range(300)), (5, 9, 1, 9)])
    monkeypatch.setattr(log_columns, "BYTES_PER_BLOCK", 256)
    told: list[int] = []
    with pytest.raises(Exception, match=r"own\.swf:302: "):
        run_scenario(replaying(log), tmp_path / "run", progress=lambda p: told.append(p.now_ms))
    assert max(told) >= 290 * 10_000


def test_streams_are_merged_without_reading_them_to_their_end() -> None:
    streams = [(local(n, 1, 1) for n in count(start)) for start in (0, 100)]
    merged = combine.merged(*streams)
    assert [job.submit_ms // 1000 for job in islice(merged, 104)] == [*range(101), 100, 101, 101]
