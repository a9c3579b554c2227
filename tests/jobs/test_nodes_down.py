"""Jobs wait while nodes that could run them are down, and only what is gone for good is not waited for."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.making import MINUTE, S, Told, ask, catalogue, image, seen, site, submitted
from tests.searching import examples

from leasehold.jobs.events import AttemptEnded, AttemptRuns, JobEvent, JobTick, NodeFell
from leasehold.jobs.job import Fault
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Retrying


def down(name: str = "a/1", fault: Fault | None = Fault.NODE_DIED, **about: Any) -> Any:
    return seen(name, problem="is down", fault=fault, **about)


class TestAJobThatNoNodeCanRunNow:
    @pytest.mark.parametrize("fault", [*(fault for fault in (Fault.NODE_DIED, Fault.NETWORK_FAILED)), None])
    def test_waits_for_the_nodes_that_could(self, fault: Fault | None) -> None:
        """Also for one that is drained: nothing has befallen it, and nothing new can run there."""
        told = Told(site(down(fault=fault))).tell(1, submitted(at_ms=1))

        assert told.decided == [(1, "nodes-down", "a/1")]
        assert told.scheduler.records[1].state.value == "waiting"

    def test_waits_longer_than_it_would_for_room(self) -> None:
        told = Told(site(down())).tell(1, submitted(at_ms=1))
        for minutes in range(2, 60, 2):
            told.tell(minutes * MINUTE + 1, JobTick())
            assert told.decided == [(1, "nodes-down", "a/1")]

        assert told.tell(HOUR, site(seen("a/1", at_ms=HOUR))).started == [(1, 1, ("a/1",))]

    def test_waits_as_long_as_for_room_once_they_are_up_and_full(self) -> None:
        told = Told(site(down())).tell(1, submitted(at_ms=1))
        told.tell(4 * MINUTE + 1, JobTick())
        told.tell(4 * MINUTE + 2, site(seen("a/1", free_cores=0, at_ms=4 * MINUTE + 2)))
        told.tell(6 * MINUTE + 1, JobTick())
        assert told.decided == [(1, "tried-again-later", "cores-in-use")]
        told.tell(10 * MINUTE + 1, JobTick())

        assert told.closed == [(1, "refused", "waited-too-long", 0)]

    def test_is_not_given_up_for_want_of_room_while_a_node_is_down_that_could_run_it(self) -> None:
        full = seen("a/2", free_cores=0, at_ms=1)
        told = Told(site(down(), full)).tell(1, submitted(at_ms=1))
        assert told.decided == [(1, "tried-again-later", "cores-in-use")]
        told.tell(6 * MINUTE + 1, JobTick())

        assert told.decided == [(1, "nodes-down", "a/1")]

    def test_does_not_wait_for_nodes_that_could_not_run_it_either(self) -> None:
        told = Told(site(down(cores=2))).tell(1, submitted(cores=3, at_ms=1))

        assert told.closed == [(1, "refused", "never-here", 0)]

    def test_of_several_nodes_waits_only_where_one_site_has_enough_of_them(self) -> None:
        one_each = (site(down("a/1")), site(down("b/1"), name="b"))
        assert Told(*one_each).tell(1, submitted(nodes=2, at_ms=1)).closed[0][2] == "never-here"

        told = Told(site(down("a/1"), seen("a/2"))).tell(1, submitted(nodes=2, at_ms=1))
        assert told.decided == [(1, "nodes-down", "a/1")]

    def test_waits_for_hosts_of_machines_as_well(self) -> None:
        told = Told(site(down(is_host=True)), catalogue(image("r", {"r": "4.3"})))

        assert told.tell(1, submitted(needs="r", at_ms=1)).decided == [(1, "nodes-down", "a/1")]

    def test_names_the_first_of_many(self) -> None:
        told = Told(site(*(down(f"a/{number}") for number in range(1, 6))))

        assert told.tell(1, submitted(at_ms=1)).decided == [(1, "nodes-down", "a/1, a/2, a/3 and 2 more")]

    def test_is_told_that_it_is_too_late_for_its_deadline_all_the_same(self) -> None:
        told = Told(site(down())).tell(1, submitted(at_ms=1, deadline_ms=90 * S, execution_ms=30 * S))
        assert told.scheduler.records[1].next_ms == 60 * S

        assert told.tell(60 * S, JobTick()).closed == [(1, "refused", "too-late", 0)]

    def test_that_asks_to_be_sure_waits_for_the_nodes_that_would_make_it_so(self) -> None:
        unsure: dict[str, Any] = {"reliability": 0.999999, "deadline_ms": 3_600 * S, "execution_ms": 600 * S}
        told = Told(site(seen("a/1"), down("a/2"), down("a/3")))

        told.tell(1, submitted(at_ms=1, **unsure))

        assert told.decided == [(1, "nodes-down", "a/2, a/3")]

    def test_is_foreseen_to_wait(self) -> None:
        forecast = Told(site(down())).scheduler.forecast(ask(at_ms=1), 1)

        assert (forecast.state.value, forecast.reason.value, forecast.what) == (
            "waiting",
            "nodes-down",
            "a/1",
        )


class TestAJobWhoseNodeDies:
    def test_begins_anew_when_the_node_is_back(self) -> None:
        told = Told(site(seen())).tell(1, submitted(at_ms=1)).tell(2, AttemptRuns(1, 1))

        told.tell(3, site(down(at_ms=3)))  # as the service tells of it: listed, with its fault

        assert [reason for _, reason, _ in told.decided] == ["node-died", "nodes-down"]
        assert told.scheduler.records[1].restarts == 1
        assert told.tell(9, site(seen(at_ms=9))).started == [(1, 2, ("a/1",))]

    def test_counts_one_failure_however_often_it_is_seen_down(self) -> None:
        told = Told(site(seen()))
        for now_ms in range(2, 6):
            told.tell(now_ms, site(down(at_ms=now_ms)))

        assert told.scheduler.failures.all()["a/1"].failures == 1

    def test_is_not_waited_for_any_more_when_its_site_does_not_list_it(self) -> None:
        told = Told(site(down())).tell(1, submitted(at_ms=1)).tell(2, site())

        assert told.tell(2 * MINUTE + 1, JobTick()).closed == [(1, "refused", "never-here", 0)]


HOUR = 60 * MINUTE
NODES = ("a/1", "a/2", "b/1")
Times = dict[str, list[tuple[int, int]]]


@pytest.mark.soak
@given(
    falls=st.fixed_dictionaries(
        {name: st.lists(st.tuples(st.integers(1, 60), st.integers(1, 90)), max_size=5) for name in NODES}
    ),
    jobs=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), min_size=1, max_size=3),
    listed=st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_no_job_is_lost_to_nodes_that_are_down_for_a_while(
    falls: Times, jobs: list[tuple[int, int]], *, listed: bool
) -> None:
    """Nodes fall and come back, minutes later; every job that may begin anew often enough is done."""
    world = World(falls, listed=listed)
    for number, (at, minutes) in enumerate(jobs, 1):
        world.jobs.setdefault(at * MINUTE, []).append((number, minutes * MINUTE))
    world.run()

    assert world.closed == dict.fromkeys(range(1, len(jobs) + 1), "completed")


class World:
    """Three nodes of one core, looked at each half minute, as the service does."""

    def __init__(self, falls: Times, *, listed: bool) -> None:
        self.jobs: dict[int, list[tuple[int, int]]] = {}
        self.closed: dict[int, str] = {}
        self._listed = listed  # else it is told once that a node fell, and it is listed as it was
        self._down: dict[str, list[range]] = {name: [] for name in falls}
        for name, times in falls.items():
            at = 0
            for after, lasts in times:
                self._down[name].append(range((at + after) * MINUTE, (at + after + lasts) * MINUTE))
                at += after + lasts
        wanted = JobSettings(retrying=Retrying(2 * MINUTE, 10**9))
        self._told = Told(*self._looks(0), settings=wanted)
        self._running: dict[str, tuple[int, int, int]] = {}

    def run(self) -> None:
        latest = max([0, *(one.stop for spans in self._down.values() for one in spans), *self.jobs])
        now_ms = 0
        while now_ms < latest + 2 * HOUR:
            now_ms += 30 * S
            events = [*self._ends(now_ms), *self._looks(now_ms)]
            for number, length_ms in self.jobs.get(now_ms, ()) or self.jobs.pop(0, ()):
                events.append(submitted(number, at_ms=now_ms, execution_ms=length_ms, restarts=100))
            self._told.tell(now_ms, *events, JobTick())
            for job_id, state, _, _ in self._told.closed:
                self.closed[job_id] = state
            for job_id, number, (name,) in self._told.started:
                length_ms = self._told.scheduler.records[job_id].request.job.needs.execution_ms
                self._running[name] = (job_id, number, now_ms + length_ms)

    def _is_down(self, name: str, now_ms: int) -> bool:
        return any(now_ms in span for span in self._down[name])

    def _ends(self, now_ms: int) -> list[JobEvent]:
        ended: list[JobEvent] = []
        for name, (job_id, number, ends_ms) in list(self._running.items()):
            if self._is_down(name, now_ms):
                del self._running[name]
            elif ends_ms <= now_ms:
                del self._running[name]
                ended.append(AttemptEnded(job_id, number, 0))
        return ended

    def _looks(self, now_ms: int) -> list[JobEvent]:
        there = []
        for name in self._down:
            is_down = self._is_down(name, now_ms)
            about: dict[str, Any] = {"cores": 1, "at_ms": now_ms or 1}
            if is_down and self._listed:
                about |= {"problem": "is down", "fault": Fault.NODE_DIED}
            there.append(seen(name, **about))
        fell = [NodeFell(name, Fault.NODE_DIED) for name in self._down if self._is_down(name, now_ms)]
        sites = [site(*(one for one in there if one.node.name[0] == name), name=name) for name in "ab"]
        return [*sites, *(() if self._listed else fell)]
