"""A gateway that is woken decides as one that asks its policy at every tick and every event."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import SLOTS, Case, Chronicle, three_sites, unfold
from tests.searching import examples

from leasehold.gateway.alarm import Alarm
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.state import InstantChanges
from leasehold.model.effect import AlarmCalledOff, WakeAt
from leasehold.model.request import LeaseType
from leasehold.routing.demand import HORIZONS_MS, LocalDemand
from leasehold.routing.policies.late_binding import LateBinding
from leasehold.routing.policies.price_and_park import PriceAndPark
from leasehold.routing.policies.selective import Selective
from leasehold.routing.policies.wait_for_idle import WaitForIdle
from leasehold.routing.policy import RoutingPolicy, RoutingView, Selection, Waiting
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import guest, local, site

WOKEN = (WaitForIdle, PriceAndPark, Selective, LateBinding)


def polled(policy: type[RoutingPolicy]) -> RoutingPolicy:
    """Make a policy that never says until when it need not be asked, and rests by itself."""

    class Polled(policy):  # type: ignore[valid-type, misc]
        rests_until_ms = 0

        def select(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Sequence[Waiting]:
            if now_ms < self.rests_until_ms:
                return ()
            selection = super().select(waiting, view, now_ms)
            assert isinstance(selection, Selection)
            self.rests_until_ms = now_ms + selection.rests_ms
            return selection.ripe

    made: RoutingPolicy = Polled(Random(0))
    return made


def world(seed: int, apart_s: float, held_s: float) -> Case:
    """Local leases in bursts, and guests of all types, for half an hour; some are cancelled."""
    random, jobs, now_s = Random(seed), list[WorkloadJob](), 0.0
    while now_s < 1_800:
        now_s += random.expovariate(1 / apart_s) * random.choice((0.2, 0.2, 4))
        home = random.choice((None, *SLOTS))
        asked_ms = 1 + round(1_000 * random.expovariate(1 / held_s)) * (1 if home else random.choice((1, 4)))
        vms = random.randint(1, SLOTS[home] if home else 4)
        job = WorkloadJob(
            round(now_s * 1_000), vms, asked_ms, max(1, round(asked_ms * random.uniform(0.3, 1.1))), site=home
        )
        if home is None:
            job.lease_type = random.choice([*LeaseType, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE])
            if not job.lease_type.is_best_effort and random.random() < 0.7:
                job.deadline_ms = job.ready_ms + job.requested_ms * 2 + random.randrange(600_000)
        jobs.append(job)
    numbers = random.sample(range(1, len(jobs) + 1), len(jobs) // 20)
    return Case(tuple(jobs), tuple((random.randrange(1_800_000), number) for number in numbers))


def decided(chronicle: Chronicle) -> list[tuple[int, str]]:
    """Give everything that was done and said, but for alarms."""
    alarms = (WakeAt.__name__, AlarmCalledOff.__name__)
    return [(now_ms, what) for now_ms, what in chronicle.told if not what.startswith(alarms)]


class Instants:
    """Counts instants."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, gateway: Gateway, now_ms: int) -> None:  # noqa: ARG002 - a watch is shown them
        self.count += 1


@given(
    st.sampled_from(WOKEN),
    st.integers(0, 2**32),
    st.sampled_from([3, 10, 40]),
    st.sampled_from([10, 60]),
    st.sampled_from([700, 1_000, 10_000]),
)
@settings(max_examples=examples(30), deadline=None)
def test_who_is_woken_decides_as_who_asks_at_every_tick(
    policy: type[RoutingPolicy], seed: int, apart_s: float, held_s: float, tick_ms: int
) -> None:
    case, woken, asking = world(seed, apart_s, held_s), Instants(), Instants()
    expected = unfold(case, three_sites(), polled(policy), watch=asking, tick_ms=tick_ms)
    found = unfold(case, three_sites(), policy(Random(0)), watch=woken, tick_ms=tick_ms)
    assert decided(found) == decided(expected)
    assert woken.count <= asking.count


def test_a_parked_guest_costs_nothing_until_its_time_comes() -> None:
    """Polled every ten seconds, it would be looked at hundreds of times."""
    locals_ = [local(60 * number, 2, 30) for number in range(300)]
    case = Case((*locals_, guest(18_000, 4, 3_000, "suspendable"), local(18_100, 4, 1_200), local(24_500, 1, 1)))
    counts = {}
    for chosen in (polled(PriceAndPark), PriceAndPark(Random(0))):
        instants = Instants()
        chronicle = unfold(case, [site("a", 4)], chosen, watch=instants)
        counts[type(chosen).__name__] = instants.count
    assert counts["PriceAndPark"] < counts["Polled"] - 60
    assert len(chronicle.stays(301)) > 1


@given(st.integers(1, 4_000), st.integers(1, 60), st.integers(1, 2_000), st.integers(0, 40_000), st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_a_table_that_is_looked_at_later_is_as_if_it_had_been_looked_at_at_each_time(
    held_s: int, leases: int, every_s: int, looks: int, seed: int
) -> None:
    at_each, later = LocalDemand(16), LocalDemand(16)
    random, now_ms = Random(seed), 0
    for number in range(leases):
        now_ms += random.randrange(1, 60_000)
        held_ms, vms = random.randrange(1, held_s * 1_000), random.choice((1, 4))
        for table in (at_each, later):
            table.began(number, vms, now_ms)
            table.ended(number, held_ms, now_ms + held_ms)
        now_ms += held_ms
    times = range(now_ms + 701, now_ms + 701 + every_s * 1_000 * (1 + looks % 3_000), every_s * 1_000)
    times = times[: max(1, 6 * 86_400_000 // times.step)]  # before all is scaled down
    for look_ms in times:
        at_each.outlook(look_ms)
    later.look_at_each(times)
    assert later.memory() == at_each.memory()
    assert [list(probes) for probes in later._probes] == [list(probes) for probes in at_each._probes]
    assert (later._next_ms, later._due_ms, later._starts_ms) == (at_each._next_ms, at_each._due_ms, at_each._starts_ms)


@given(st.integers(0, 10_000_000), st.sampled_from(HORIZONS_MS), st.integers(1, 40))
@settings(max_examples=examples(50), deadline=None)
def test_what_is_said_of_a_site_stays_as_long_as_it_says(now_ms: int, span_ms: int, apart_s: int) -> None:
    table = LocalDemand(16)
    for number in range(now_ms // (apart_s * 10_000)):
        table.began(number, 1 + number % 16, number * apart_s * 10_000)
        table.ended(number, apart_s * 5_000, number * apart_s * 10_000 + apart_s * 5_000)
    outlook = table.outlook(now_ms + apart_s * 10_000)
    tail = outlook.within(span_ms)
    until_ms = outlook.steady_until_ms()
    for at_ms in range(now_ms + apart_s * 10_000, until_ms, 12_000):
        assert table.outlook(at_ms).within(span_ms) is tail


def test_the_alarm_leaves_ticks_out_while_it_sleeps_and_goes_on_with_them() -> None:
    changes = InstantChanges()
    alarm = Alarm(10, changes)
    alarm.look_again(15, 5)
    alarm.sleep(45)
    alarm.set(5, may_sleep=True)
    assert changes.take_effects() == [WakeAt("", 45)]
    assert alarm.wake(37) == range(15, 37, 10)
    assert not alarm.rings(37)
    assert alarm.next_ms == 45
    alarm.set(37, may_sleep=True)
    assert changes.take_effects() == []
    assert alarm.rings(45)
    assert alarm.next_ms is None


@pytest.mark.parametrize("may_sleep", [True, False])
def test_an_earlier_tick_moves_those_after_it_and_the_one_that_was_there_stays(*, may_sleep: bool) -> None:
    changes = InstantChanges()
    alarm = Alarm(10, changes)
    alarm.look_again(15, 5)
    alarm.set(5, may_sleep=may_sleep)
    alarm.look_again(12, 6)
    alarm.set(6, may_sleep=may_sleep)
    assert changes.take_effects() == [WakeAt("", 15), WakeAt("", 12)]
