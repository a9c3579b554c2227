"""Simulated time: all that happens in an instant is known before anything is decided, and ends are exact."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.simulation.worlds import LogLine, replaying, tables, write_log

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.effect import Effect
from leasehold.model.event import Event
from leasehold.model.reason import Outcome, Reason
from leasehold.routing.policies.rr import RoundRobin
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.run import run_scenario
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import History, guest, local, play, site


class TestOneInstant:
    def test_who_arrives_when_another_ends_starts_at_once(self) -> None:
        history = play([local(0, 4, 10), local(10, 4, 5)], [site("a", 4)])
        assert history.first_start_s(2) == 10
        assert history.decisions(Outcome.WAIT) == []

    def test_a_guest_that_ends_is_not_preempted_by_who_arrives(self) -> None:
        history = play([guest(0, 4, 10), local(10, 4, 5)], [site("a", 4)])
        assert history.decisions(Outcome.PREEMPT) == []
        assert history.ends()[1] == (10, Reason.COMPLETED)

    def test_a_local_request_comes_before_a_guest_of_the_same_instant(self) -> None:
        history = play([guest(0, 4, 10), local(0, 4, 5)], [site("a", 4)])
        assert [history.first_start_s(number) for number in (1, 2)] == [5, 0]
        assert history.decisions(Outcome.PREEMPT) == []

    def test_of_two_local_requests_the_first_listed_comes_first(self) -> None:
        history = play([local(0, 3, 10), local(0, 2, 5), local(0, 1, 5)], [site("a", 4)])
        assert [history.first_start_s(number) for number in (1, 2, 3)] == [0, 10, 0]

    def test_two_ends_make_room_together(self) -> None:
        history = play([local(0, 2, 10), local(0, 2, 10), local(1, 4, 5)], [site("a", 4)])
        assert history.first_start_s(3) == 10

    def test_who_has_a_reservation_for_then_starts_before_who_arrives_then(self) -> None:
        history = play([local(0, 4, 10), local(1, 4, 5), local(10, 4, 5)], [site("a", 4)])
        assert [history.first_start_s(number) for number in (2, 3)] == [10, 15]


class Spy(Gateway):
    """Notes at which times it was told something, and that it never was told nothing."""

    def __init__(self, slots: int) -> None:
        super().__init__([site("a", slots)], Routing(RoundRobin(Random(0))))
        self.times_ms: list[int] = []

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        events = list(events)
        assert events
        self.times_ms.append(now_ms)
        return super().handle(events, now_ms)


Row = tuple[int, int, int, bool]
"""Seconds since the one before, VMs, seconds, and whether it is local."""

rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 5), st.booleans()), min_size=1, max_size=12
)


@settings(max_examples=examples(200))
@given(log=rows)
def test_time_goes_forward_and_each_instant_is_handed_over_once(
    log: list[tuple[int, int, int, bool]],
) -> None:
    jobs: list[WorkloadJob] = []
    for gap_s, vms, span_s, is_local in log:
        now_s = gap_s + (jobs[-1].submit_ms // 1000 if jobs else 0)
        jobs.append(local(now_s, vms, span_s) if is_local else guest(now_s, vms, span_s))
    gateway = Spy(4)
    passed = list(SimulatedWorld(gateway, enumerate(jobs, 1), History()).run())
    assert passed == gateway.times_ms == sorted(set(passed))
    assert {job.submit_ms for job in jobs} <= set(passed)


def outcome(tmp_path: Path, line: LogLine, **keys: Any) -> tuple[str, str, int]:
    """Replay one job; its state, reason and end."""
    log = write_log(tmp_path / "own.swf", [line])
    leases = tables(run_scenario(replaying(log, **keys), tmp_path / "run"))["leases"]
    state, reason, end_ms = leases.select("state", "reason", "end_ms").row(0)
    return state, reason, end_ms


class TestHowAJobEnds:
    def test_exactly_at_its_requested_time_it_is_complete(self, tmp_path: Path) -> None:
        assert outcome(tmp_path, (0, 20, 1, 20)) == ("completed", "completed", 20_000)

    def test_exactly_so_also_where_overruns_are_killed(self, tmp_path: Path) -> None:
        assert outcome(tmp_path, (0, 20, 1, 20), overrun="kill") == ("completed", "completed", 20_000)

    def test_a_second_longer_is_killed_at_its_requested_time(self, tmp_path: Path) -> None:
        assert outcome(tmp_path, (0, 21, 1, 20), overrun="kill") == ("killed", "walltime-reached", 20_000)

    def test_unless_its_cluster_let_it_run(self, tmp_path: Path) -> None:
        assert outcome(tmp_path, (0, 21, 1, 20), overrun="raise") == ("completed", "completed", 21_000)

    def test_earlier_than_asked_it_ends_earlier(self, tmp_path: Path) -> None:
        assert outcome(tmp_path, (0, 3, 1, 20)) == ("completed", "completed", 3_000)

    @pytest.mark.parametrize(("needed_s", "end"), [(100, Reason.COMPLETED), (101, Reason.WALLTIME_REACHED)])
    def test_also_after_it_was_preempted(self, needed_s: float, end: Reason) -> None:
        """Ten seconds of work, 160 s to save, 126 s to resume, and the other ninety."""
        log = [guest(0, 4, 100, needed_s=needed_s), local(10, 1, 5)]
        history = play(log, [site("a", 4)])
        assert history.ends()[1] == (10 + 160 + 126 + 90, end)

    def test_work_that_no_speed_divides_ends_at_the_next_whole_millisecond(self) -> None:
        history = play([local(0, 1, 0.010)], [site("a", 1, speed_mips=3)], reference_mips=1)
        assert history.ends()[1] == (0.004, Reason.COMPLETED)
