"""Whatever happens, in whatever order: one result, every job ends, and a restart changes nothing."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.jobs.making import MINUTE, S, ask, catalogue, image, seen, site
from tests.searching import examples

from leasehold.jobs.effects import BuildImage, JobClosed, JobEffect, StartAttempt, WakeJobsAt
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptFailed,
    AttemptNotNow,
    AttemptRuns,
    ImageBuilt,
    ImageFailed,
    JobCancelled,
    JobEvent,
    JobSubmitted,
    JobTick,
    NodeFell,
    NodeOffers,
    SeenNode,
)
from leasehold.jobs.job import NOT_YET, Backup, Fault, JobRecord, JobState
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings, Matching

NODES: dict[str, dict[str, Any]] = {
    "a/1": {"has": {"gcc": "12"}},
    "a/2": {"cores": 2},
    "a/3": {"has": {"gcc": "13"}, "is_host": True},
    "b/1": {"cores": 8, "is_host": True, "runs": False},
    "b/2": {"cores": 1, "has": {"gcc": "12"}},
}
BUILDABLE = {"r": "4.3", "gcc": "12"}
FAULTS = [Fault.NETWORK_FAILED, Fault.SERVICE_STOPPED, Fault.NODE_DIED]


class AnyOrder(RuleBasedStateMachine):
    """A desk, another one that is restarted now and then, and one that skips nobody, told the same."""

    @initialize(
        queue=st.sampled_from(["min-wait-deadline-first", "fcfs", "edf"]),
        matching=st.sampled_from(Matching),
        eager=st.booleans(),
    )
    def begin(self, queue: str, matching: Matching, *, eager: bool) -> None:
        self.settings = JobSettings(queue=queue, matching=matching, eager=eager, images_awaited=True)
        self.scheduler, self.twin = JobScheduler(self.settings), JobScheduler(self.settings)
        self.thorough = thorough(JobScheduler(self.settings))
        self.now_ms, self.jobs = 1, 0
        self.facts: dict[str, SeenNode] = {name: seen(name, at_ms=1, **able) for name, able in NODES.items()}
        self.fallen: dict[str, int] = {}
        self.attempts: list[tuple[int, int]] = []
        self.closed: dict[int, JobRecord] = {}
        self.building: dict[str, Any] = {}
        self.tell(*self.everything())

    def everything(self) -> list[JobEvent]:
        """All that is known of nodes and images."""
        by_site = [[one for name, one in sorted(self.facts.items()) if name[0] == site_] for site_ in "ab"]
        return [
            site(*by_site[0], name="a"), site(*by_site[1], name="b"), catalogue(buildable=BUILDABLE)
        ]  # fmt: skip

    def tell(self, *events: JobEvent) -> None:
        """Tell both, and look at what they do."""
        effects = self.scheduler.handle(events, self.now_ms)
        for other in (self.twin, self.thorough):
            assert told(effects) == told(other.handle(events, self.now_ms))
            other.check()
        self.scheduler.check()
        for effect in effects:
            if isinstance(effect, StartAttempt):
                self.note_start(effect)
            elif isinstance(effect, JobClosed):
                assert effect.record.id not in self.closed
                self.closed[effect.record.id] = effect.record
            elif isinstance(effect, BuildImage):
                assert effect.key not in self.building
                self.building[effect.key] = effect.recipe

    def note_start(self, effect: StartAttempt) -> None:
        key = (effect.record.id, effect.attempt.number)
        assert key not in self.attempts
        assert effect.record.id not in self.closed
        assert not set(effect.attempt.nodes) & self.fallen.keys()
        self.attempts.append(key)

    @rule(
        cores=st.sampled_from([1, 1, 2, 4, 9]),
        nodes=st.sampled_from([1, 1, 1, 2]),
        needs=st.sampled_from(["", "gcc", "gcc >= 13", "r", "julia"]),
        backup=st.sampled_from(Backup),
        deadline_ms=st.sampled_from([None, 30 * S, 5 * MINUTE]),
        reliability=st.sampled_from([None, None, 0.9, 0.999999]),
        restarts=st.integers(0, 3),
    )
    def submit(self, deadline_ms: int | None, reliability: float | None, **wishes: Any) -> None:
        self.jobs += 1
        if deadline_ms is not None:
            wishes |= {"deadline_ms": self.now_ms + deadline_ms, "reliability": reliability}
        self.tell(JobSubmitted(ask(self.jobs, at_ms=self.now_ms, **wishes)))

    @rule(
        name=st.sampled_from(sorted(NODES)),
        free=st.integers(0, 8),
        how=st.sampled_from(["well", "gone", "down", "drained"]),
        both=st.booleans(),
    )
    def look(self, name: str, free: int, how: str, *, both: bool) -> None:
        self.now_ms += S
        able: dict[str, Any] = {"cores": 4} | NODES[name]
        if how == "gone" and free == 0:
            self.facts.pop(name, None)
            self.fallen[name] = self.now_ms
        elif how in {"down", "drained"} and free <= 1:
            fault = Fault.NODE_DIED if how == "down" else None
            self.facts[name] = seen(name, **able, at_ms=self.now_ms, problem=how, fault=fault)
            self.fallen[name] = self.now_ms
        else:
            free_cores = min(free, able["cores"])
            self.facts[name] = seen(name, **able, free_cores=free_cores, at_ms=self.now_ms)
            self.fallen.pop(name, None)
        self.tell(*(self.everything() if both else self.everything()[:2]))

    @rule(name=st.sampled_from(sorted(NODES)))
    def offer(self, name: str) -> None:
        self.now_ms += S
        able: dict[str, Any] = NODES[name]
        self.facts[name] = seen(name, **able, at_ms=self.now_ms)
        self.fallen.pop(name, None)
        self.tell(NodeOffers(self.facts[name]))

    @rule(names=st.lists(st.sampled_from(sorted(NODES)), min_size=1, max_size=3), fault=st.sampled_from(FAULTS))
    def fall(self, names: list[str], fault: Fault) -> None:
        self.fallen |= dict.fromkeys(names, self.now_ms)
        self.tell(*(NodeFell(name, fault) for name in names))

    @precondition(lambda self: self.building)
    @rule(data=st.data(), fails=st.booleans(), again=st.booleans())
    def build(self, data: st.DataObject, *, fails: bool, again: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.building)))
        recipe = self.building.pop(key)
        made = image(key, dict(recipe.packages))
        self.tell(ImageFailed(key, "no network", again) if fails else ImageBuilt(key, made))

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), what=st.sampled_from(["runs", "ends", "ends", "fails", "error", "not now", "cancel"]))
    def something(self, data: st.DataObject, what: str) -> None:
        job_id, number = data.draw(st.sampled_from(self.attempts))
        fault = data.draw(st.sampled_from(Fault))
        if what == "fails" and fault in FAULTS and (nodes := self.open_nodes(job_id, number)):
            self.fallen |= dict.fromkeys(nodes, self.now_ms)
        events: dict[str, JobEvent] = {
            "runs": AttemptRuns(job_id, number),
            "ends": AttemptEnded(job_id, number, 0),
            "error": AttemptEnded(job_id, number, 1),
            "fails": AttemptFailed(job_id, number, fault),
            "not now": AttemptNotNow(job_id, number),
            "cancel": JobCancelled(job_id),
        }
        self.tell(events[what])

    def open_nodes(self, job_id: int, number: int) -> tuple[str, ...]:
        record = self.scheduler.records.get(job_id)
        attempt = record.attempt(number) if record else None
        return attempt.nodes if attempt and attempt.state.is_open else ()

    @rule(passes_ms=st.sampled_from([1, S, MINUTE, 2 * MINUTE, 10 * MINUTE]))
    def time(self, passes_ms: int) -> None:
        self.now_ms += passes_ms
        self.tell(JobTick())

    @rule()
    def restart(self) -> None:
        """The twin begins anew from what was kept, and both are told what is known."""
        kept = deepcopy([*self.twin.records.values(), *self.fenced_and_closed()])
        memory, watched = json.loads(json.dumps(self.twin.snapshot())), deepcopy(self.twin.failures.all())
        self.twin = JobScheduler(self.settings)
        self.twin.take_up(kept, self.now_ms)
        self.twin.restore(memory)
        self.twin.failures.restore(watched)
        self.tell(*self.everything())

    def fenced_and_closed(self) -> list[JobRecord]:
        jobs = {job_id for job_id, _ in self.twin.snapshot()["fenced"]}
        return [self.closed[job_id] for job_id in sorted(jobs & self.closed.keys())]

    @invariant()
    def every_job_ends_or_waits_for_something(self) -> None:
        for record in getattr(self, "desk", JobScheduler()).records.values():
            if record.state is JobState.WAITING:
                assert record.next_ms > self.now_ms
            elif record.state is JobState.BUILDING:
                assert record.what in self.building or record.next_ms != NOT_YET
            else:
                assert record.open_attempts

    def teardown(self) -> None:
        """As nodes come back, time goes by and every attempt ends, every job does."""
        if not hasattr(self, "desk"):
            return
        self.now_ms += S
        self.facts = {name: seen(name, at_ms=self.now_ms, **able) for name, able in NODES.items()}
        self.fallen.clear()
        self.tell(*self.everything())
        for _ in range(4 + 2 * len(self.attempts)):
            self.now_ms += 10 * MINUTE
            ends = [AttemptEnded(*key, 0) for key in self.attempts]
            fails = [ImageFailed(key, "no network") for key in self.building]
            self.building.clear()
            self.tell(*ends, *fails)
        assert not self.scheduler.records
        assert set(self.closed) == set(range(1, self.jobs + 1))
        for record in self.closed.values():
            assert sum(one.state.value == "succeeded" for one in record.attempts) <= 1


def thorough(desk: JobScheduler) -> JobScheduler:
    """Let a desk look at every job that waits, whether there is hope for it or not."""
    desk._cycle._has_hope = lambda *_: True  # type: ignore[method-assign]
    return desk


def told(effects: list[JobEffect]) -> list[str]:
    """Write down what was decided, but for what may be said again after a restart."""
    return [_line(one) for one in effects if not isinstance(one, BuildImage | WakeJobsAt)]


def _line(effect: Any) -> str:
    number = getattr(effect, "attempt", "")
    if not isinstance(number, int | str):
        number = f"{number.number} {number.nodes} {getattr(number.place, 'image_name', '')}"
    record = getattr(effect, "record", None)
    rest = [getattr(effect, name, "") for name in ("reason", "what", "node")]
    return f"{type(effect).__name__} {record and (record.id, record.state, record.surest)} {number} {rest}"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
