"""Nobody is sent to a node that Leasehold itself has filled, and a full node is nobody's fault."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.jobs.making import MINUTE, S, Told, seen, site, submitted
from tests.searching import examples

from leasehold.jobs.effects import JobClosed, StartAttempt, StopAttempt
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptNotNow,
    AttemptRuns,
    AttemptStands,
    JobEvent,
    JobTick,
    RoomLeft,
    RoomTaken,
)
from leasehold.jobs.job import AttemptState, JobRecord, site_of
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Retrying
from leasehold.matching.needs import Amounts

CORE = Amounts(1, 100)


def given_away(*nodes: str, vms: int = 4, since_ms: int = -1, lease_id: int = 7) -> RoomTaken:
    return RoomTaken(lease_id, "a", len(nodes) or vms, CORE, nodes, since_ms)


class TestWhatOthersWereGiven:
    def test_since_the_last_look_is_not_given_away_again(self) -> None:
        told = Told(site(seen("a/1", at_ms=1), seen("a/2", at_ms=1)))

        told.tell(2, given_away("a/1", "a/1", since_ms=2), submitted(cores=3, at_ms=2))

        assert told.started == [(1, 1, ("a/2",))]

    def test_may_be_on_any_node_of_the_site_where_nobody_says_on_which(self) -> None:
        told = Told(site(seen("a/1", at_ms=1)), site(seen("b/1", at_ms=1), name="b"))

        told.tell(2, given_away(vms=2), submitted(1, cores=2, at_ms=2), submitted(2, cores=3, at_ms=2))

        assert told.started == [(1, 1, ("a/1",)), (2, 1, ("b/1",))]

    def test_is_on_a_node_that_a_later_look_has_shown(self) -> None:
        told = Told(site(seen("a/1", at_ms=1), seen("a/2", at_ms=1)))
        told.tell(2, given_away(), submitted(cores=2, at_ms=2))
        assert told.decided == [(1, "tried-again-later", "cores-in-use")]
        told.tell(3, given_away(since_ms=3))
        assert told.started == []

        told.tell(5, site(seen("a/1", free_cores=0, at_ms=4), seen("a/2", at_ms=4)))

        assert told.started == [(1, 1, ("a/2",))]

    def test_is_not_on_those_nodes_any_more_when_it_is_known_where_it_is(self) -> None:
        told = Told(site(seen("a/1", at_ms=1), seen("a/2", at_ms=1))).tell(2, given_away(), submitted(cores=2))
        assert told.started == []

        assert told.tell(3, given_away(*["a/1"] * 4, since_ms=3)).started == [(1, 1, ("a/2",))]

    def test_and_they_gave_back_can_be_given_away_before_the_next_look(self) -> None:
        full = seen("a/1", free_cores=0, at_ms=2)
        told = Told(given_away(*["a/1"] * 4, since_ms=1), site(full)).tell(3, submitted(cores=4, at_ms=3))
        assert told.started == []

        assert told.tell(4, RoomLeft(7, 4)).started == [(1, 1, ("a/1",))]

    def test_and_they_gave_back_counts_once(self) -> None:
        told = Told(given_away(*["a/1"] * 2, since_ms=1), site(seen("a/1", free_cores=0, at_ms=2)))
        told.tell(3, RoomLeft(7, 3)).tell(5, site(seen("a/1", free_cores=2, at_ms=4)))

        assert told.tell(6, submitted(cores=3, at_ms=6)).started == []

    def test_is_known_to_who_asks_what_would_become_of_a_job(self) -> None:
        told = Told(site(seen("a/1", at_ms=1)))
        told.scheduler.observe([given_away()], 2)

        assert told.scheduler.forecast(submitted(at_ms=2).request, 2).what == "cores-in-use"


class TestANodeThatIsFullAllTheSame:
    def test_costs_nothing_and_the_job_goes_elsewhere_at_once(self) -> None:
        told = Told(site(seen("a/1", at_ms=1), seen("a/2", at_ms=1))).tell(1, submitted(at_ms=1))

        told.tell(2, AttemptNotNow(1, 1, "node 1 has 0 cores free now", full=("a/1",)))

        assert told.decided[0] == (1, "node-full", "node 1 has 0 cores free now")
        assert told.started == [(1, 2, ("a/2",))]
        assert told.looked_at == ["a/1"]
        record = told.scheduler.records[1]
        assert (record.restarts, record.attempt(1).fault) == (0, None)
        assert told.scheduler.failures.all()["a/1"].failures == 0

    def test_is_not_used_before_it_was_looked_at_again(self) -> None:
        told = Told(site(seen("a/1", at_ms=1))).tell(1, submitted(at_ms=1))
        told.tell(2, AttemptNotNow(1, 1, "full", full=("a/1",)))
        assert told.scheduler.records[1].state.value == "waiting"

        assert told.tell(9, site(seen("a/1", at_ms=8))).started == [(1, 2, ("a/1",))]

    def test_leaves_the_other_nodes_of_its_attempt_out_of_doubt(self) -> None:
        three = site(*(seen(f"a/{number}", at_ms=1) for number in (1, 2, 3)))
        told = Told(three).tell(1, submitted(nodes=2, at_ms=1))

        told.tell(2, AttemptNotNow(1, 1, "full", full=("a/2",)))

        assert told.started == [(1, 2, ("a/1", "a/3"))]


class TestHowAJobStands:
    @pytest.mark.parametrize(
        ("now", "state", "reason", "what"),
        [
            (
                AttemptStands(1, 1, AttemptState.QUEUED, "behind-others"),
                "waiting",
                "waits-at-site",
                "behind-others",
            ),
            (AttemptStands(1, 1, AttemptState.ORDERED), "starting", "runs-on-nodes", ""),
            (AttemptRuns(1, 1), "running", "runs-on-nodes", ""),
            (AttemptStands(1, 1, AttemptState.SUSPENDED, "room-made"), "suspended", "suspended", "room-made"),
        ],
    )
    def test_is_as_its_attempt_stands(self, now: JobEvent, state: str, reason: str, what: str) -> None:
        told = Told(site(seen())).tell(1, submitted(at_ms=1))
        assert told.scheduler.records[1].state.value == "starting"

        told.tell(2, now)

        record = told.scheduler.records[1]
        assert (record.state.value, record.reason.value, record.what) == (state, reason, what)

    def test_is_told_when_it_changes_and_not_again(self) -> None:
        told = Told(site(seen())).tell(1, submitted(at_ms=1))
        waits = AttemptStands(1, 1, AttemptState.QUEUED, "behind-others")

        assert told.tell(2, waits).decided == [(1, "waits-at-site", "behind-others")]
        assert told.tell(3, waits).decided == []
        assert told.tell(4, AttemptStands(1, 1, AttemptState.ORDERED)).decided == [(1, "runs-on-nodes", "")]
        assert told.tell(5, AttemptRuns(1, 1)).decided == []


NODES = {"a/1": 2, "a/2": 3, "b/1": 2}


class GivingAway(RuleBasedStateMachine):
    """Machines come and go, of jobs, of other leases and of people whom nobody knows, and looks are late.

    Other leases come to the node that hurts most: whichever the test draws of those with room. What the desk
    is told of them comes later, or never.
    """

    @initialize()
    def begin(self) -> None:
        self.scheduler = JobScheduler(JobSettings(retrying=Retrying(2 * MINUTE, 10**12)))
        self.now_ms, self.last = 1, 0
        self.ours: dict[object, dict[str, int]] = {}
        self.strangers: dict[str, int] = dict.fromkeys(NODES, 0)
        self.leases: dict[int, tuple[str, ...]] = {}
        self.looks: list[list[Any]] = []
        self.attempts: set[tuple[int, int]] = set()
        self.closed: dict[int, JobRecord] = {}
        self.tell(*self.look())

    def used(self, name: str) -> int:
        return sum(held.get(name, 0) for held in self.ours.values())

    def free(self, name: str) -> int:
        return NODES[name] - self.used(name) - self.strangers[name]

    def look(self) -> list[Any]:
        return [
            site(
                *(
                    seen(node, cores=cores, free_cores=max(0, self.free(node)), at_ms=self.now_ms)
                    for node, cores in NODES.items()
                    if site_of(node) == name
                ),
                name=name,
            )
            for name in "ab"
        ]

    def tell(self, *events: JobEvent) -> None:
        todo = list(events)
        while todo or events:
            effects = self.scheduler.handle(todo, self.now_ms)
            self.scheduler.check()
            todo, events = [], ()
            for effect in effects:
                if isinstance(effect, StartAttempt):
                    todo += self.start(effect)
                elif isinstance(effect, StopAttempt):
                    self.leave((effect.record.id, effect.attempt.number))
                elif isinstance(effect, JobClosed):
                    self.closed[effect.record.id] = effect.record

    def start(self, effect: StartAttempt) -> list[JobEvent]:
        key, cores = (effect.record.id, effect.attempt.number), effect.record.request.job.needs.amounts.cores
        for name in effect.attempt.nodes:
            assert self.used(name) + cores <= NODES[name], f"{name} was filled by Leasehold itself"
        full = tuple(name for name in effect.attempt.nodes if self.free(name) < cores)
        if full:  # of strangers
            return [AttemptNotNow(*key, "full now", full=full)]
        self.ours[key] = dict.fromkeys(effect.attempt.nodes, cores)
        self.attempts.add(key)
        return []

    def leave(self, key: tuple[int, int]) -> None:
        self.ours.pop(key, None)
        self.attempts.discard(key)

    def pass_time(self) -> None:
        self.now_ms += S

    @rule(cores=st.integers(1, 3), nodes=st.sampled_from([1, 1, 2]))
    def submit(self, cores: int, nodes: int) -> None:
        self.pass_time()
        if nodes == 2:
            cores = min(cores, 2)
        self.last += 1
        self.tell(submitted(self.last, at_ms=self.now_ms, cores=cores, nodes=nodes, restarts=0))

    @rule(data=st.data(), vms=st.integers(1, 3), where=st.sampled_from("ab"), together=st.booleans())
    def give(self, data: st.DataObject, vms: int, where: str, *, together: bool) -> None:
        """A lease gets machines where there is room, and the desk hears of it before it decides again."""
        self.pass_time()
        names: list[str] = []
        lease_id = 1000 + len(self.leases) + self.last + self.now_ms
        held: dict[str, int] = {}
        for _ in range(vms):
            there = [name for name in NODES if name[0] == where and self.free(name) > held.get(name, 0)]
            if not there:
                return
            name = data.draw(st.sampled_from(there))
            held[name] = held.get(name, 0) + 1
            names.append(name)
        self.ours[lease_id], self.leases[lease_id] = held, tuple(names)
        events: list[JobEvent] = [RoomTaken(lease_id, where, vms, CORE)]
        if together:
            self.last += 1
            events.append(submitted(self.last, at_ms=self.now_ms, restarts=0))
        self.tell(*events)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), says_where=st.booleans())
    def see(self, data: st.DataObject, *, says_where: bool) -> None:
        self.pass_time()
        lease_id = data.draw(st.sampled_from(sorted(self.leases)))
        names = self.leases[lease_id]
        nodes = names if says_where else ()
        self.tell(RoomTaken(lease_id, site_of(names[0]), len(names), CORE, nodes, self.now_ms))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.pass_time()
        lease_id = data.draw(st.sampled_from(sorted(self.leases)))
        del self.leases[lease_id], self.ours[lease_id]
        self.tell(RoomLeft(lease_id, self.now_ms))

    @rule(name=st.sampled_from(sorted(NODES)), cores=st.integers(0, 3))
    def stranger(self, name: str, cores: int) -> None:
        self.pass_time()
        self.strangers[name] = min(cores, NODES[name] - self.used(name))

    @rule()
    def begin_to_look(self) -> None:
        self.pass_time()
        self.looks.append(self.look())

    @precondition(lambda self: self.looks)
    @rule()
    def have_looked(self) -> None:
        self.pass_time()
        self.tell(*self.looks.pop(0))

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), ends=st.booleans())
    def go_on(self, data: st.DataObject, *, ends: bool) -> None:
        self.pass_time()
        key = data.draw(st.sampled_from(sorted(self.attempts)))
        if ends:
            self.leave(key)
            self.tell(AttemptEnded(*key, 0))
        else:
            self.tell(AttemptRuns(*key))

    @rule(passes_ms=st.sampled_from([S, MINUTE, 3 * MINUTE]))
    def time(self, passes_ms: int) -> None:
        self.now_ms += passes_ms
        self.tell(JobTick())

    @invariant()
    def fullness_costs_no_restart(self) -> None:
        for record in getattr(self, "desk", JobScheduler()).records.values():
            assert record.restarts == 0
            assert not any(attempt.fault for attempt in record.attempts)

    def teardown(self) -> None:
        """Everybody else leaves, and all jobs are done."""
        if not hasattr(self, "desk"):
            return
        self.strangers = dict.fromkeys(NODES, 0)
        for lease_id in list(self.leases):
            del self.leases[lease_id], self.ours[lease_id]
            self.tell(RoomLeft(lease_id, self.now_ms))
        for _ in range(2 * self.last + 2):
            self.pass_time()
            self.tell(*self.look())
            for key in sorted(self.attempts):
                self.pass_time()
                self.leave(key)
                self.tell(AttemptEnded(*key, 0))
        assert {record.state.value for record in self.closed.values()} <= {"completed"}
        assert set(self.closed) == set(range(1, self.last + 1))
        assert all(known.failures == 0 for known in self.scheduler.failures.all().values())


TestGivingAway = GivingAway.TestCase
TestGivingAway.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
