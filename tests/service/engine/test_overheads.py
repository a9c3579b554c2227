"""How long machines take is measured by what is ordered and seen, and planned with, also after a restart.

Sites a and b have 4 VMs. By their terms saving takes 2 s, loading 3 s, moving 7 s; in truth twice as long.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.service.engine.examples import (
    S,
    guest,
    journal,
    lease,
    local,
    seen,
    state,
    submitted,
    survey,
    two_sites,
)

from leasehold.leasing.overhead import ONE
from leasehold.model.event import Operation, OverheadMeasured
from leasehold.model.request import LeaseType
from leasehold.service.drivers.emulated.fault_injection import Faults
from leasehold.service.drivers.protocol import Observation, Order, Phase, Problem, Verb, order_id
from leasehold.service.engine.orders import PENDING, TAKEN, measured_by
from leasehold.service.engine.sites import overheads
from leasehold.service.store.rows import OrderRow
from leasehold.service.store.store import Store
from leasehold.testing.live import Live

SLOW = Faults(slow_factor=2)
DAY_S = 86_400


@pytest.fixture
def slow(sqlite_store: Store) -> Live:
    """A gateway whose machines take twice as long as their owners say."""
    return two_sites(sqlite_store, SLOW)


def disturb(live: Live, times: int) -> None:
    """A guest of 4 VMs runs at a, and that often a local user needs a VM for 10 s."""
    submitted(live, guest(4, DAY_S))
    for _ in range(times):
        live.pass_time(60 * S)
        live.do(local(1, 10))
        live.pass_time(60 * S)
        live.look()


def told(live: Live, what: str, key: str) -> list[int]:
    """Which times were planned with, according to the journal."""
    return [json.loads(line.detail)[key] for line in journal(live, 1) if line.what == what]


def learnt(live: Live, site: str = "a") -> dict[str, tuple[float, int]]:
    """The factor and the number of measurements of what was measured there."""
    experience = live.gateway.sites[site].allocations.experience
    return {
        operation.value: (experience.factor(operation) / ONE, experience.count(operation))
        for operation in Operation
        if experience.count(operation)
    }


class TestSuspensions:
    def test_what_was_measured_twice_is_planned_with(self, slow: Live) -> None:
        disturb(slow, 4)
        assert told(slow, "suspending", "save_ms") == [2_000, 2_000, 4_000, 4_000]
        assert told(slow, "resuming", "resume_ms") == [3_000, 3_000, 6_000, 6_000]
        assert learnt(slow) == {"start": (1, 5), "suspend": (2, 4), "resume": (2, 4)}

    def test_as_stated_everything_stays_as_it_is(self, live: Live) -> None:
        disturb(live, 4)
        assert told(live, "suspending", "save_ms") == [2_000] * 4
        assert learnt(live) == {"start": (1, 5), "suspend": (1, 4), "resume": (1, 4)}

    def test_they_are_known_after_a_restart(self, slow: Live) -> None:
        disturb(slow, 2)
        before = slow.gateway.overheads_snapshot()
        slow.restart()
        assert slow.gateway.overheads_snapshot() == before
        slow.do(local(1, 10))
        assert told(slow, "suspending", "save_ms")[-1] == 4_000

    def test_and_after_a_long_sleep(self, slow: Live) -> None:
        disturb(slow, 2)
        gateway, before = slow.gateway, slow.gateway.overheads_snapshot()
        submitted(slow, local(4, 30))
        slow.now_ms += 3_600 * S
        slow.do(local(1, 10))
        assert slow.gateway is not gateway
        assert slow.gateway.overheads_snapshot()["a"]["resume"][:2] == before["a"]["resume"]

    def test_whoever_restarts_at_any_time_decides_the_same(self, new_store: Callable[[], Any]) -> None:
        """Only alarms that were set may be told of: they are the gateway's own."""
        with new_store() as one, new_store() as other:
            steady, shaky = two_sites(one, SLOW), two_sites(other, SLOW)
            for live in (steady, shaky):
                submitted(live, guest(4, DAY_S))
            for _ in range(5):
                for live in (steady, shaky):
                    live.pass_time(60 * S)
                    live.do(local(1, 10))
                shaky.restart()
                for live in (steady, shaky):
                    live.pass_time(60 * S)
                    live.look()
                shaky.restart()
            assert journal(steady) == journal(shaky)
            assert learnt(steady) == learnt(shaky)

    def test_that_they_were_measured_is_written_at_once(self, slow: Live) -> None:
        submitted(slow, guest(4, 600))
        kept = json.loads(slow.store.snapshots()["experience"])
        assert kept["a"]["start"] == [[1024, 4, 0]]

    def test_they_are_metrics(self, slow: Live) -> None:
        disturb(slow, 2)
        value = slow.metrics.registry.get_sample_value
        labels = {"site": "a", "operation": "suspend"}
        assert value("leasehold_operation_duration_seconds_count", labels) == 2
        assert value("leasehold_operation_duration_seconds_sum", labels) == 8
        steady = {"site": "b", "operation": "suspend"}
        assert value("leasehold_operation_duration_seconds_count", steady) is None

    def test_they_can_be_looked_at(self, slow: Live) -> None:
        disturb(slow, 2)
        shown = {one.operation: one for one in overheads(slow.gateway.sites["a"])}
        assert (shown[Operation.SUSPEND].configured_ms, shown[Operation.SUSPEND].learnt_ms) == (2_000, 4_000)
        assert (shown[Operation.MIGRATE].configured_ms, shown[Operation.MIGRATE].count) == (7_000, 0)
        assert (shown[Operation.START].configured_ms, shown[Operation.START].learnt_ms) == (None, 0)


def test_each_step_of_the_engine_is_measured_too(slow: Live) -> None:
    disturb(slow, 2)
    value = slow.metrics.registry.get_sample_value
    for part in ("decision", "commit"):
        steps, sum_s = (value(f"leasehold_{part}_duration_seconds_{what}") or 0 for what in ("count", "sum"))
        assert 0 < sum_s < steps  # a step takes less than a second


def test_moves_are_measured_where_they_lead(slow: Live) -> None:
    submitted(slow, guest(4, 600, LeaseType.MIGRATABLE))
    slow.pass_time(10 * S)
    slow.do(local(1, 10))
    slow.pass_time(60 * S)
    assert (state(slow, 1), lease(slow, 1).lease.site) == ("running", "b")
    assert learnt(slow, "b")["migrate"] == (1, 1)
    assert slow.gateway.overheads_snapshot()["b"]["migrate"] == [[1024, 4, 14_000]]
    assert "migrate" not in learnt(slow, "a")


class TestWhatIsNotMeasured:
    def test_how_long_a_site_did_not_answer(self, slow: Live) -> None:
        submitted(slow, guest(4, DAY_S))
        slow.pass_time(60 * S)
        slow.sites["a"].is_cut = True
        slow.do(local(1, 10))
        slow.pass_time(20 * S)
        slow.sites["a"].is_cut = False
        slow.pass_time(60 * S)
        assert slow.gateway.overheads_snapshot()["a"]["suspend"] == [[1024, 4, 4_000]]

    def test_how_long_news_were_on_their_way(self, slow: Live) -> None:
        slow.sites["a"].line.faults = Faults(observations_late_ms=30_000)
        submitted(slow, guest(4, DAY_S))
        slow.pass_time(60 * S)
        slow.do(local(1, 10))
        slow.pass_time(90 * S)
        assert slow.gateway.overheads_snapshot()["a"]["suspend"] == [[1024, 4, 4_000]]

    def test_what_is_seen_again(self, slow: Live) -> None:
        submitted(slow, guest(4, 600))
        slow.do(seen(1, 1, Phase.RUNNING, slow.now_ms), survey(slow, (1, 1, Phase.RUNNING)))
        assert learnt(slow) == {"start": (1, 1)}

    def test_commands_that_have_ended_before_anybody_looked(self, slow: Live) -> None:
        slow.sites["a"].line.faults = Faults(lose_observations=1)
        submitted(slow, guest(4, 600, needed_s=1))
        slow.pass_time(5 * S)
        slow.look()
        assert (state(slow, 1), learnt(slow)) == ("completed", {})

    def test_who_failed(self, slow: Live) -> None:
        slow.sites["a"].machines.injector.fail_next(Problem("no such image", again=False), verb=Verb.START)
        submitted(slow, guest(4, 600))
        assert (lease(slow, 1).lease.site, learnt(slow)) == ("b", {})


def row(verb: Verb, status: str, *, taken_ms: int = 0, created_ms: int = 0, attempts: int = 0) -> OrderRow:
    order = Order(order_id(7, 2, verb), verb, 7, 2, vms=3, memory_mib=512)
    return OrderRow(order, "a", status, attempts, taken_ms, "", created_ms)


class TestOneOrder:
    """It was given at 1 s and taken on at 3 s."""

    def took_ms(self, done_ms: int, status: str = TAKEN, *, attempts: int = 0) -> int | None:
        order = row(Verb.SUSPEND, status, taken_ms=3_000, created_ms=1_000, attempts=attempts)
        measured = measured_by(order, Observation(7, 2, Phase.SAVED, done_ms))
        return None if measured is None else measured.took_ms

    def test_is_measured_from_when_it_was_taken_on(self) -> None:
        assert self.took_ms(10_000) == 7_000
        assert self.took_ms(3_000) == 0

    def test_one_that_was_done_before_we_heard_that_it_was_taken_on_is_measured_from_when_it_was_given(
        self,
    ) -> None:
        assert self.took_ms(2_500) == 1_500
        assert self.took_ms(2_500, PENDING) == 1_500

    def test_unless_it_had_to_be_told_again(self) -> None:
        assert self.took_ms(2_500, attempts=1) is None
        assert self.took_ms(10_000, PENDING, attempts=1) is None
        assert self.took_ms(10_000, attempts=1) == 7_000

    def test_what_was_so_before_anybody_asked_took_no_time_that_counts(self) -> None:
        assert self.took_ms(999) is None
        assert self.took_ms(1_000) == 0

    @pytest.mark.parametrize(
        ("verb", "phase", "operation"),
        [
            (Verb.START, Phase.RUNNING, Operation.START),
            (Verb.SUSPEND, Phase.SAVED, Operation.SUSPEND),
            (Verb.RESUME, Phase.RUNNING, Operation.RESUME),
            (Verb.RECEIVE, Phase.RUNNING, Operation.MIGRATE),
        ],
    )
    def test_is_known_by_its_verb_and_what_it_led_to(self, verb: Verb, phase: Phase, operation: Operation) -> None:
        order = row(verb, TAKEN, taken_ms=3_000)
        found = measured_by(order, Observation(7, 2, phase, 10_000))
        assert found == OverheadMeasured("a", operation, 512, 3, 7_000)
        others = [one for one in Phase if one is not phase]
        assert [measured_by(order, Observation(7, 2, one, 10_000)) for one in others] == [None] * len(others)
        assert measured_by(order, Observation(7, 3, phase, 10_000)) is None

    @pytest.mark.parametrize("verb", [Verb.SEND, Verb.STOP])
    def test_whose_end_cannot_be_seen_is_not_measured(self, verb: Verb) -> None:
        order = row(verb, TAKEN)
        seen_then: Iterator[Observation] = (Observation(7, 2, phase, 10_000) for phase in Phase)
        assert not any(measured_by(order, one) for one in seen_then)
