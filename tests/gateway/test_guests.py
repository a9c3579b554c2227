"""What each lease type gets: examples that read as the specification.

Suspending takes 2 s, resuming 3 s and migrating 7 s here (1 GiB); one site `a` of 4 VMs unless said.
"""

from random import Random
from typing import Any

import pytest

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.overhead import OverheadModel
from leasehold.leasing.victims.guard import by_value
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.effect import Effect, LeaseClosed, ResumeLease, StartLease
from leasehold.model.event import CancelRequested, LeaseEnded, LeaseSaved, Submitted, Tick
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason, sentence
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView, Verdict
from leasehold.testing.worlds import guest, local, play, site

COSTS = OverheadModel(suspend_ms_per_gib=2_000, resume_ms_per_gib=3_000, network_mbps=10_000, migrate_fixed_ms=1_141)


class ToTheFirst(RoutingPolicy):
    """Send everything to the first site."""

    name = "to-the-first"
    information = Information.STATIC

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:  # noqa: ARG002
        return Dispatch(view.sites[0].name)


def home(name: str = "a", slots: int = 4, **settings: Any) -> SiteSettings:
    return site(name, slots, overhead=COSTS, **settings)


def test_the_costs_are_what_the_examples_say() -> None:
    assert [COSTS.suspend_ms(1024), COSTS.resume_ms(1024), COSTS.migrate_ms(1024)] == [2000, 3000, 7000]


def test_a_cancelable_lease_ends_when_its_room_is_needed() -> None:
    history = play([guest(0, 4, 100, "cancelable"), local(10, 1, 5)], [home()])
    assert history.first_start_s(2) == 10
    assert history.ends()[1] == (10, Reason.TERMINATED)


def test_a_suspendable_lease_goes_on_with_the_rest_of_its_work() -> None:
    history = play([guest(0, 4, 100, "suspendable"), local(10, 1, 5)], [home()])
    # 10 s done; the local request ends at 15; resuming takes 3 s; 90 s of work are left.
    assert history.moves(1) == [(0, "start", "a"), (15, "resume", "a")]
    assert history.ends()[1] == (15 + 3 + 90, Reason.COMPLETED)


def test_it_is_not_resumed_before_its_memory_is_saved() -> None:
    history = play([guest(0, 4, 100, "suspendable"), local(10, 1, 1)], [home()])
    assert history.moves(1)[1] == (12, "resume", "a")


def test_preempted_while_it_resumes_it_has_lost_no_work() -> None:
    log = [guest(0, 4, 100, "suspendable"), local(10, 1, 5), local(16, 1, 5)]
    history = play(log, [home()])
    # Resumed at 15, preempted at 16 before it went on: still 90 s to do.
    assert history.moves(1) == [(0, "start", "a"), (15, "resume", "a"), (21, "resume", "a")]
    assert history.ends()[1] == (21 + 3 + 90, Reason.COMPLETED)


def test_work_done_is_counted_at_the_speed_of_the_site() -> None:
    fast = home(speed_mips=2)
    history = play([guest(0, 4, 100, "suspendable"), local(10, 1, 10)], [fast], reference_mips=1)
    # 100 s asked are 50 s here; after 10 s, 40 s are left.
    assert history.ends()[1] == (15 + 3 + 40, Reason.COMPLETED)


def test_a_migratable_lease_moves_to_where_it_finishes_first() -> None:
    sites = [home("a"), home("b", speed_mips=1), home("c", speed_mips=2)]
    log = [guest(0, 4, 100, "migratable"), local(10, 1, 5, home="a")]
    history = play(log, sites, ToTheFirst(Random(0)))
    assert history.moves(1) == [(0, "start", "c"), (10, "migrate", "c")]
    assert history.ends()[1] == (10 + 7 + 45, Reason.COMPLETED)


def test_with_no_room_elsewhere_it_waits_at_home_for_its_deadline() -> None:
    log = [guest(0, 4, 100, "migratable", deadline_s=110), local(10, 1, 5)]
    history = play(log, [home()])
    assert history.moves(1) == [(0, "start", "a"), (15, "resume", "a")]
    assert history.ends()[1] == (15 + 3 + 90, Reason.COMPLETED)


def test_when_no_site_can_keep_its_deadline_that_is_said_at_once() -> None:
    log = [guest(0, 4, 100, "migratable", deadline_s=107), local(10, 1, 5)]
    history = play(log, [home()])
    assert history.ends()[1] == (10, Reason.DEADLINE_LOST)


def test_a_parked_migratable_lease_moves_when_its_plan_at_home_is_spoilt() -> None:
    # b is full until 20, so that the lease waits at a; then a's own users take a's room as well.
    sites = [home("a"), home("b")]
    log = [
        guest(0, 4, 50, "migratable", deadline_s=90),
        local(0, 4, 20, home="b"),
        local(10, 4, 15, home="a"),
        local(22, 4, 40, home="a"),
    ]
    history = play(log, sites, ToTheFirst(Random(0)))
    assert history.moves(1) == [(0, "start", "b"), (22, "migrate", "b")]
    assert history.ends()[1] == (22 + 7 + 40, Reason.COMPLETED)


def test_a_non_preemptable_guest_keeps_its_room_and_local_users_wait() -> None:
    history = play([guest(0, 4, 100, "non-preemptable"), local(10, 1, 5)], [home()])
    assert history.first_start_s(2) == 100


def test_deadline_constrained_leases_start_at_their_ready_time_or_are_refused() -> None:
    log = [local(0, 4, 10), guest(1, 1, 5, "non-preemptable"), guest(1, 1, 5, "migratable")]
    history = play(log, [home()])
    assert history.ends()[2] == (1, Reason.NO_ROOM_AT_READY_TIME)
    assert history.ends()[3] == (1, Reason.NO_ROOM_AT_READY_TIME)


def test_a_promise_for_a_later_ready_time_is_booked_at_once() -> None:
    log = [guest(0, 4, 10, "non-preemptable", ready_s=20), local(1, 4, 30), guest(2, 4, 15, "suspendable")]
    history = play(log, [home()])
    assert [history.first_start_s(n) for n in (1, 2, 3)] == [20, 30, 2]


def test_a_deadline_that_cannot_be_met_is_refused() -> None:
    history = play([guest(0, 1, 10, "non-preemptable", deadline_s=9)], [home()])
    assert history.ends()[1] == (0, Reason.DEADLINE_TOO_TIGHT)


def test_best_effort_never_stands_in_a_local_reservation() -> None:
    log = [local(0, 3, 10), local(1, 4, 10), guest(2, 1, 9), guest(2, 1, 8)]
    history = play(log, [home()])
    # The wide local request is promised 10 to 20: nine seconds from 2 on would be in its way, eight are not.
    assert [history.first_start_s(n) for n in (2, 3, 4)] == [10, 20, 2]


def test_waiting_guests_step_aside_before_running_ones_are_preempted() -> None:
    log = [guest(0, 3, 20), guest(1, 2, 20), local(5, 1, 30)]
    history = play(log, [home()])
    assert history.decisions(Outcome.PREEMPT) == []
    assert history.first_start_s(3) == 5
    assert history.first_start_s(2) == 20


def test_a_request_wider_than_every_site_is_refused_for_good() -> None:
    history = play([guest(0, 5, 10)], [home(), home("b")])
    assert history.ends()[1] == (0, Reason.WIDER_THAN_ANY_SITE)


def test_a_local_request_wider_than_its_site_is_refused_for_good() -> None:
    history = play([local(0, 5, 10)], [home()])
    assert history.ends()[1] == (0, Reason.WIDER_THAN_SITE)


@pytest.mark.parametrize("kind", ["cancelable", "suspendable", "migratable"])
def test_a_preemption_says_who_took_the_room_and_what_it_cost(kind: str) -> None:
    log = [guest(0, 2, 50, kind), guest(0, 2, 40, kind), local(10, 3, 5)]
    history = play(log, [home()])
    reports = [decision.preemption for _, decision in history.decisions(Outcome.PREEMPT)]
    report = reports[0]
    assert report is not None
    assert (report.beneficiary, report.victims, report.needed_vms, report.freed_vms) == (3, (1, 2), 3, 4)
    per_vm_s = {"cancelable": 0, "suspendable": 5, "migratable": 7}[kind]
    assert report.cost_vm_ms == 4 * per_vm_s * 1000


def test_less_valuable_types_give_way_first() -> None:
    log = [guest(0, 2, 50, "migratable"), guest(0, 1, 50, "suspendable"), guest(0, 1, 50, "cancelable")]
    history = play([*log, local(10, 2, 5)], [home(victims=by_value(victim_policy("moml")))])
    assert sorted(decision.lease.id for _, decision in history.decisions(Outcome.PREEMPT)) == [2, 3]


def test_two_local_requests_of_one_instant_have_their_own_victims() -> None:
    log = [guest(0, 2, 50, "cancelable"), guest(0, 2, 50, "cancelable"), local(10, 2, 5), local(10, 2, 5)]
    history = play(log, [home()])
    reports = [decision.preemption for _, decision in history.decisions(Outcome.PREEMPT)]
    assert [report.beneficiary for report in reports if report is not None] == [3, 4]


def test_a_site_may_refuse_local_requests_that_would_wait() -> None:
    log = [local(0, 4, 10), local(1, 1, 5), local(10, 1, 5)]
    history = play(log, [home(queues_locals=False)])
    assert history.ends()[2] == (1, Reason.LOCAL_QUEUE_CLOSED)
    assert history.first_start_s(3) == 10


def test_the_owner_caps_what_is_lent_for_good() -> None:
    log = [guest(0, vms, 10, "non-preemptable") for vms in (3, 1, 2)]
    history = play(log, [home(non_preemptable_share_vms=2)])
    assert history.ends()[1] == (0, Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE)
    assert history.first_start_s(2) == 0
    assert history.ends()[3] == (0, Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED)


def test_and_for_how_long() -> None:
    log = [guest(0, 1, 11, "non-preemptable"), guest(0, 1, 10, "non-preemptable")]
    history = play(log, [home(non_preemptable_max_ms=10_000)])
    assert history.ends()[1] == (0, Reason.NON_PREEMPTABLE_TOO_LONG)
    assert history.first_start_s(2) == 0


def test_who_asked_for_too_little_time_is_ended_at_it() -> None:
    history = play([local(0, 1, 10, needed_s=12)], [home()])
    assert history.ends()[1] == (10, Reason.WALLTIME_REACHED)


def test_a_lease_whose_saving_takes_longer_than_planned_is_resumed_once_it_is_saved() -> None:
    gateway = Gateway([home()], Routing(ToTheFirst(Random(0))))
    request = Request(1, LeaseType.SUSPENDABLE, 4, 100_000, 0, 0)
    gateway.handle([Submitted(request)], 0)
    own = Request(2, LeaseType.NON_PREEMPTABLE, 4, 1_000, 10_000, 10_000, site="a")
    gateway.handle([Submitted(own)], 10_000)
    gateway.handle([LeaseEnded(2, 1)], 11_000)
    # Planned to be saved at 12 s; the machines need until 14 s.
    assert not resumptions(gateway.handle([Tick("a")], 12_000))
    assert resumptions(gateway.handle([LeaseSaved(1, 1)], 14_000)) == [1]


def test_news_of_an_earlier_start_are_out_of_date() -> None:
    gateway = Gateway([home()], Routing(ToTheFirst(Random(0))))
    gateway.handle([Submitted(Request(1, LeaseType.SUSPENDABLE, 4, 100_000, 0, 0))], 0)
    own = Request(2, LeaseType.NON_PREEMPTABLE, 4, 1_000, 10_000, 10_000, site="a")
    gateway.handle([Submitted(own)], 10_000)
    gateway.handle([LeaseEnded(2, 1), LeaseSaved(1, 1)], 15_000)
    assert gateway.handle([LeaseEnded(1, 1)], 16_000) == []
    assert gateway.leases[1].state is LeaseState.RESUMING


@pytest.mark.parametrize(("at_s", "room_back_s"), [(0, 0), (5, 5)], ids=["while it waits", "while it runs"])
def test_a_user_may_take_a_lease_back(at_s: int, room_back_s: int) -> None:
    gateway = Gateway([home()], Routing(ToTheFirst(Random(0))))
    first = Request(1, LeaseType.SUSPENDABLE, 4, 100_000, 0, 0)
    second = Request(2, LeaseType.CANCELABLE, 4, 100_000, 0, 0)
    gateway.handle([Submitted(first), Submitted(second)], 0)
    target = 1 if at_s else 2
    effects = gateway.handle([CancelRequested(target)], at_s * 1000)
    closed = [effect for effect in effects if isinstance(effect, LeaseClosed)]
    assert [(c.lease.id, c.reason) for c in closed] == [(target, Reason.CANCELLED_BY_USER)]
    started = [effect.lease.id for effect in effects if isinstance(effect, StartLease)]
    assert started == ([2] if room_back_s else [])


def test_cancelling_what_is_over_changes_nothing() -> None:
    gateway = Gateway([home()], Routing(ToTheFirst(Random(0))))
    assert gateway.handle([CancelRequested(7)], 0) == []


def resumptions(effects: list[Effect]) -> list[int]:
    return [effect.lease.id for effect in effects if isinstance(effect, ResumeLease)]


def test_who_waits_is_told_what_for() -> None:
    log = [local(0, 3, 10), local(1, 4, 10), local(2, 1, 20), local(3, 1, 5, ready_s=60)]
    history = play(log, [home()])
    waits = {d.lease.id: (d.reason, d.planned_ms) for _, d in history.decisions(Outcome.WAIT)}
    assert waits == {
        2: (Reason.ROOM_IN_USE, 10_000),
        3: (Reason.BEHIND_OTHERS, 20_000),
        4: (Reason.NOT_READY_YET, 60_000),
    }


def test_where_the_owner_allows_no_such_guests_the_refusal_says_which_keys_would() -> None:
    history = play([guest(0, 1, 10, "non-preemptable")], [home(non_preemptable_share_vms=0)])
    assert history.ends()[1] == (0, Reason.NON_PREEMPTABLE_NOT_ALLOWED)
    said = sentence(Reason.NON_PREEMPTABLE_NOT_ALLOWED)
    assert "non_preemptable_share" in said
    assert "non_preemptable_max_s" in said
