"""A site whose own users ask another scheduler: guests make room, and that scheduler's choice is followed."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.random_worlds import PREEMPTABLE, QUICK
from tests.gateway.telling import Told, begun, decided, lent, own

from leasehold.model.event import Event, LeaseEnded, LeaseSaved, NativeQueueSeen
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.testing.worlds import site

HELD_BACK = (Outcome.WAIT, Reason.NATIVE_JOB_STARTED_FIRST)
BY_ITSELF = (Outcome.START, Reason.STARTED_BY_NATIVE_SCHEDULER)


def seen(running: tuple[int, ...] = (), waiting: tuple[int, ...] = ()) -> NativeQueueSeen:
    return NativeQueueSeen("a", running, waiting)


def cluster() -> Told:
    return Told(site("a", 4, overhead=QUICK))


class TestTheOtherSchedulersChoice:
    def test_guests_make_room_before_the_job_starts(self) -> None:
        told = cluster()
        told.at(0, lent(1, 4, 100))
        effects = told.at(1, own(2, 3, 10), seen(waiting=(2,)))
        assert decided(effects, Outcome.PREEMPT) == [(1, Outcome.PREEMPT, Reason.LOCAL_NEEDS_ROOM)]
        assert begun(effects) == [(2, "a")]

    def test_one_that_started_as_planned_is_no_news(self) -> None:
        told = cluster()
        told.at(0, own(1, 3, 10))
        assert told.at(1, seen(running=(1,))) == []

    def test_another_takes_the_place_of_the_one_that_room_was_made_for(self) -> None:
        told = cluster()
        told.at(0, own(1, 3, 10), own(2, 3, 10))
        effects = told.at(1, seen(running=(2,), waiting=(1,)))
        assert decided(effects)[:2] == [(1, *HELD_BACK), (2, *BY_ITSELF)]
        assert told.lease(1).state is LeaseState.WAITING
        assert (told.lease(1).first_start_ms, told.lease(1).reserved_ms) == (-1, 11_000)
        assert begun(told.at(5, LeaseEnded(2, 1))) == [(1, "a")]

    def test_those_that_wait_are_planned_in_the_other_schedulers_order(self) -> None:
        told = cluster()
        told.at(0, own(1, 4, 10), own(2, 4, 10), own(3, 4, 10), own(4, 4, 10))
        told.at(1, seen(running=(3,), waiting=(4, 1, 2)))
        assert [told.lease(number).reserved_ms for number in (4, 1, 2)] == [11_000, 21_000, 31_000]

    def test_a_job_that_is_seen_for_the_first_time_when_it_runs_drives_guests_out_of_the_books(self) -> None:
        told = cluster()
        told.at(0, own(1, 2, 10), lent(2, 2, 100))
        effects = told.at(1, own(3, 2, 10), own(4, 2, 10), seen(running=(1, 4), waiting=(3,)))
        assert (4, Outcome.START, Reason.ROOM_MADE) in decided(effects)
        assert [what[0] for what in decided(effects, Outcome.PREEMPT)] == [2]
        assert told.lease(3).state is LeaseState.WAITING

    def test_what_does_not_fit_the_books_is_followed_as_soon_as_it_does(self) -> None:
        told = cluster()
        told.at(0, lent(1, 3, 10, "non-preemptable"))
        told.at(1, own(2, 2, 5), seen(running=(2,)))
        assert told.lease(2).state is LeaseState.WAITING
        told.at(2, LeaseEnded(1, 1))
        assert told.lease(2).state is LeaseState.RUNNING

    def test_requests_that_the_other_scheduler_does_not_know_wait_behind_its_own(self) -> None:
        told = cluster()
        told.at(0, own(1, 4, 10), own(2, 4, 10), own(3, 4, 10))
        told.at(1, seen(running=(3,), waiting=(1,)))
        assert [told.lease(number).reserved_ms for number in (1, 2)] == [11_000, 21_000]


@dataclass
class Batch:
    """A scheduler that starts whichever of its jobs it likes, as long as there is room beside the guests."""

    random: Random
    running: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)

    def pick(self, room_vms: int) -> None:
        for number, vms in self.random.sample(sorted(self.waiting.items()), len(self.waiting)):
            if vms <= room_vms and self.random.random() < 0.5:
                room_vms -= vms
                self.running[number] = self.waiting.pop(number)


@given(st.integers(0, 2**32))
def test_whatever_it_starts_every_promise_holds_and_all_that_runs_is_in_the_books(seed: int) -> None:
    random = Random(seed)
    told, batch = Told(site("a", 6, overhead=QUICK)), Batch(random)
    for second in range(1, 40):
        events: list[Event] = []
        if random.random() < 0.4:
            batch.waiting[second] = random.randint(1, 6)
            events.append(own(second, batch.waiting[second], random.randint(40, 99)))
        elif random.random() < 0.4:
            kind = random.choice(PREEMPTABLE).label
            events.append(lent(second, random.randint(1, 6), random.randint(40, 99), kind))
        for number in [n for n in batch.running if random.random() < 0.2]:
            events.append(LeaseEnded(number, told.lease(number).incarnation))
            del batch.running[number]
        leaving = (one for one in told.gateway.leases.values() if one.state is LeaseState.SUSPENDING)
        events += [LeaseSaved(lease.id, lease.incarnation) for lease in leaving]
        guest_vms = told.gateway.sites["a"].allocations.guest_vms
        batch.pick(6 - guest_vms - sum(batch.running.values()))
        told.at(second, *events, seen(tuple(batch.running), tuple(batch.waiting)))
        assert all(told.lease(number).state is LeaseState.RUNNING for number in batch.running)
