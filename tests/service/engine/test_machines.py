"""From what is seen on machines to what that means: desired against observed state.

Site a has 4 VMs; saving takes 2 s, loading 3 s, moving to b 7 s. Unless said, machines are as they should be.
"""

import pytest
from tests.gateway.random_worlds import QUICK, to_the_first
from tests.service.engine.examples import (
    S,
    end,
    guest,
    journal,
    lease,
    local,
    orders,
    seen,
    state,
    story,
    submitted,
    survey,
    two_sites,
)

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.request import LeaseType
from leasehold.service.commands import Cancel
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.record import brought_up_twice
from leasehold.service.drivers.protocol import Observation, Order, Phase, Problem, Verb, order_id
from leasehold.service.engine.orders import MOST_ATTEMPTS, Outbox, confirm
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.store.store import Store
from leasehold.testing.live import BEGIN_MS, Live
from leasehold.testing.worlds import live_site

MIGRATABLE = LeaseType.MIGRATABLE


def injector(live: Live, site: str = "a") -> FaultInjector:
    return live.sites[site].machines.injector


def phases(live: Live, site: str = "a") -> dict[int, tuple[int, Phase]]:
    """What is on the machines of a site: incarnation and phase by lease."""
    return {one.lease_id: (one.incarnation, one.phase) for one in live.sites[site].machines.observe()}


def differences(live: Live, kind: str, site: str = "a") -> float:
    """How often something at a site was not as it should be."""
    name, labels = "leasehold_reconcile_differences_total", {"site": site, "kind": kind}
    return live.metrics.registry.get_sample_value(name, labels) or 0


class TestALife:
    def test_from_the_first_order_to_the_last(self, live: Live) -> None:
        submitted(live, guest(4, 60, needed_s=20))
        assert phases(live) == {1: (1, Phase.RUNNING)}
        assert orders(live) == []
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        assert phases(live) == {1: (1, Phase.SAVING), 2: (1, Phase.RUNNING)}
        assert orders(live) == ["1.1.suspend"]
        live.pass_time(2 * S)
        assert phases(live)[1] == (1, Phase.SAVED)
        assert (state(live, 1), orders(live)) == ("suspended", [])
        live.pass_time(3 * S)
        assert phases(live) == {1: (2, Phase.RESUMING)}
        live.pass_time(3 * S)
        assert phases(live) == {1: (2, Phase.RUNNING)}
        live.pass_time(10 * S)
        assert end(live, 1) == ("completed", "completed")
        assert phases(live) == {}
        live.look()
        assert orders(live) == []

    def test_from_site_to_site(self, live: Live) -> None:
        submitted(live, guest(4, 60, MIGRATABLE, needed_s=20))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        assert (phases(live), phases(live, "b")) == ({2: (1, Phase.RUNNING)}, {1: (2, Phase.RECEIVING)})
        live.pass_time(17 * S)
        assert (state(live, 1), lease(live, 1).metadata.end_ms) == ("completed", BEGIN_MS + 27 * S)
        live.look()
        assert orders(live) == []

    def test_machines_of_a_lease_that_never_started_are_not_stopped(self, live: Live) -> None:
        submitted(live, local(4, 60), local(4, 60))
        live.do(Cancel(2))
        assert orders(live) == []


class TestNews:
    """Of the present incarnation, at the lease's own site; whatever else is said is out of date."""

    @pytest.fixture(autouse=True)
    def _guest_that_was_resumed_once(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 1))
        live.pass_time(2 * S)
        assert (state(live, 1), lease(live, 1).lease.incarnation) == ("resuming", 2)

    @pytest.mark.parametrize("phase", [Phase.ENDED, Phase.FAILED, Phase.SAVED, Phase.RUNNING])
    def test_of_an_earlier_incarnation_means_nothing(self, live: Live, phase: Phase) -> None:
        live.do(seen(1, 1, phase))
        assert state(live, 1) == "resuming"

    @pytest.mark.parametrize("phase", [Phase.ENDED, Phase.FAILED, Phase.RUNNING])
    def test_from_another_site_means_nothing(self, live: Live, phase: Phase) -> None:
        live.do(seen(1, 2, phase, site="b"))
        assert state(live, 1) == "resuming"

    def test_of_nobody_means_nothing(self, live: Live) -> None:
        live.do(seen(77, 1, Phase.ENDED))
        assert journal(live, 77) == []

    def test_who_runs_has_been_resumed(self, live: Live) -> None:
        live.do(seen(1, 2, Phase.RUNNING), seen(1, 2, Phase.RUNNING))
        assert state(live, 1) == "running"
        assert story(live, 1).count("continues") == 1

    def test_who_has_ended_already_has_been_resumed_too(self, live: Live) -> None:
        live.do(seen(1, 2, Phase.ENDED), seen(1, 2, Phase.ENDED))
        assert end(live, 1) == ("completed", "completed")
        assert story(live, 1).count("closed") == 1

    def test_who_fails_twice_has_failed_once(self, live: Live) -> None:
        live.do(seen(1, 2, Phase.FAILED), seen(1, 2, Phase.FAILED))
        assert end(live, 1) == ("failed", "machines-lost")

    def test_who_fails_is_stopped_and_its_room_is_free(self, live: Live) -> None:
        [_, (row, _)] = live.do(seen(1, 2, Phase.FAILED), local(4, 5))
        assert row.lease.state == "starting"
        assert phases(live) == {3: (1, Phase.RUNNING)}


class TestTooLate:
    """News that comes later than what it speaks of changes the way, and not the end."""

    def test_a_command_that_ended_as_it_was_told_to_give_way_has_ended(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        [(row, _)] = live.at(BEGIN_MS + 10 * S, local(1, 1))
        assert row.lease.state == "starting"
        live.do(seen(1, 1, Phase.ENDED, BEGIN_MS + 10 * S))
        assert end(live, 1) == ("completed", "completed")
        live.look()
        assert (phases(live), orders(live)) == ({2: (1, Phase.RUNNING)}, [])

    def test_it_is_no_news_that_somebody_runs_who_has_been_suspended_since(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 1))
        live.do(seen(1, 1, Phase.RUNNING))
        assert state(live, 1) == "suspending"

    def test_the_end_of_a_command_counts_although_its_time_is_up_by_now(self, live: Live) -> None:
        submitted(live, guest(1, 10, needed_s=20), guest(1, 10, needed_s=20))
        live.now_ms += 10 * S + 3
        live.do(seen(1, 1, Phase.ENDED, BEGIN_MS + 10 * S))
        assert end(live, 1) == ("completed", "completed")
        assert end(live, 2) == ("killed", "walltime-reached")
        assert lease(live, 2).metadata.end_ms == BEGIN_MS + 10 * S

    def test_saving_that_takes_longer_than_planned_breaks_no_promise_in_silence(self, live: Live) -> None:
        injector(live).faults = Faults(slow_factor=5)
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(4, 1))
        live.engine.check()
        live.at(BEGIN_MS + 13 * S, local(4, 10))
        live.engine.check()
        assert [(line.what, line.reason) for line in journal(live, 1)][-1] == ("wait", "still-suspending")
        live.pass_time(30 * S)
        assert state(live, 1) in ("resuming", "running")


class TestLost:
    """Machines that should be there, and are not."""

    def test_they_are_lost_when_two_looks_in_a_row_do_not_find_them(self, live: Live) -> None:
        submitted(live, guest(1, 60), guest(1, 60))
        there = (2, 1, Phase.RUNNING)
        live.do(survey(live, there))
        assert state(live, 1) == "running"
        live.do(survey(live, there))
        assert end(live, 1) == ("failed", "machines-lost")
        assert (state(live, 2), differences(live, "lost")) == ("running", 1)

    def test_one_look_may_have_been_too_early(self, live: Live) -> None:
        submitted(live, guest(1, 60))
        for _ in range(3):
            live.do(survey(live))
            live.do(survey(live, (1, 1, Phase.RUNNING)))
        assert state(live, 1) == "running"

    def test_looks_at_other_sites_do_not_count(self, live: Live) -> None:
        submitted(live, guest(1, 60))
        live.do(survey(live), survey(live, site="b"))
        live.do(survey(live, site="b"))
        assert state(live, 1) == "running"

    def test_a_guest_that_may_begins_again_and_its_journal_tells_it(self, sqlite_store: Store) -> None:
        def gateway() -> Gateway:
            sites = [live_site(name, 4, overhead=QUICK) for name in "ab"]
            return Gateway(sites, Routing(to_the_first(), try_elsewhere=True, max_restarts=3))

        live = two_sites(sqlite_store, make_gateway=gateway)
        submitted(live, guest(4, 60))
        assert (state(live, 1), live.gateway.leases[1].site) == ("running", "a")
        live.pass_time(20 * S)
        for _ in range(2):
            live.do(survey(live))
        live.restart()
        live.pass_time(10 * S)
        lease = live.gateway.leases[1]
        assert (lease.state, lease.site, lease.incarnation, lease.restarts) == ("running", "a", 2, 1)
        told = [(row.what, row.site, row.reason) for row in journal(live, 1)]
        assert ("hold", "a", "machines-lost-restarted") in told
        assert phases(live, "a") == {1: (2, Phase.RUNNING)}  # what was left of the first was ordered to stop
        live.pass_time(60 * S)
        assert end(live, 1) == ("completed", "completed")
        assert live.store.lease(1).lease.restarts == 1  # type: ignore[union-attr]

    def test_saved_memory_can_be_lost_too(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(4, 20))
        live.pass_time(2 * S)
        for _ in range(2):
            live.do(survey(live, (2, 1, Phase.RUNNING)))
        assert end(live, 1) == ("failed", "machines-lost")

    def test_those_of_an_earlier_incarnation_are_not_those_that_should_be_there(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 1))
        live.pass_time(5 * S)
        assert (state(live, 1), orders(live, 1)) == ("running", [])
        for _ in range(2):
            live.do(survey(live, (1, 1, Phase.SAVED)))
        assert state(live, 1) == "failed"

    def test_nobody_is_lost_who_has_not_been_started_yet(self, live: Live) -> None:
        live.sites["a"].is_cut = True
        submitted(live, guest(1, 60))
        for _ in range(4):
            live.do(survey(live))
        assert state(live, 1) == "starting"

    def test_nor_who_waits(self, live: Live) -> None:
        submitted(live, local(4, 60), local(4, 60))
        for _ in range(4):
            live.do(survey(live, (1, 1, Phase.RUNNING)))
        assert state(live, 2) == "waiting"

    def test_what_machines_say_of_their_failure_is_in_the_journal(self, live: Live) -> None:
        submitted(live, guest(1, 60))
        live.sites["a"].machines.crash(1, live.now_ms)
        live.do()
        assert journal(live, 1)[-1].detail == '{"cause": "emulated fault: crash"}'


class TestStray:
    """Machines that are there, and should not be."""

    def test_they_are_stopped_once(self, live: Live) -> None:
        submitted(live, guest(1, 10))
        live.pass_time(10 * S)
        live.look()
        live.sites["a"].is_cut = True
        for _ in range(3):
            live.do(survey(live, (1, 1, Phase.RUNNING)))
            live.pass_time(10)
        [row] = live.store.open_orders()
        assert (row.order.verb, row.order.lease_id, row.order.incarnation) == ("stop", 1, 1)
        assert differences(live, "stray") == 1

    def test_also_those_of_a_lease_that_the_store_has_never_known(self, live: Live) -> None:
        """As after an older store was put back."""
        live.sites["a"].is_cut = True
        for _ in range(3):
            live.do(survey(live, (9, 3, Phase.RUNNING)))
            live.pass_time(10)
        [row] = live.engine.outbox
        assert (row.order.verb, row.order.lease_id, row.order.incarnation) == ("stop", 9, 3)
        live.sites["a"].is_cut = False
        live.pass_time(60 * S)
        live.look()
        assert list(live.engine.outbox) == []

    def test_and_its_number_is_not_given_to_anybody_else(self, live: Live) -> None:
        live.do(survey(live, (9, 3, Phase.RUNNING)))
        assert submitted(live, guest(1, 60)) == [10]

    def test_when_they_are_gone_all_is_well(self, live: Live) -> None:
        live.do(survey(live, (9, 3, Phase.RUNNING)))
        live.look()
        assert orders(live) == []

    def test_when_they_come_again_they_are_stopped_again(self, live: Live) -> None:
        for _ in range(2):
            live.do(survey(live, (9, 3, Phase.RUNNING)))
            live.look()
            live.pass_time(10)
        assert differences(live, "stray") == 2

    @pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.SAVED, Phase.ENDED, Phase.FAILED])
    def test_those_of_a_lease_that_is_over_are_told_to_stop_again(self, live: Live, phase: Phase) -> None:
        submitted(live, guest(1, 60))
        live.do(Cancel(1))
        live.pass_time(10)
        told_ms = [row.next_try_ms for row in live.store.open_orders()]
        live.do(survey(live, (1, 1, phase)))
        assert orders(live) == ["1.1.stop"]
        assert [row.next_try_ms for row in live.store.open_orders()] != told_ms
        assert differences(live, "stray") == 0

    def test_those_of_a_lease_that_is_elsewhere(self, live: Live) -> None:
        submitted(live, guest(1, 60))
        live.do(survey(live, (1, 1, Phase.RUNNING), site="b"))
        assert orders(live)[0].startswith("1.1.stop~")
        assert live.engine.outbox.of(1)[0].site == "b"
        assert state(live, 1) == "running"

    def test_those_of_a_lease_that_waits(self, live: Live) -> None:
        submitted(live, local(4, 60), local(4, 60))
        live.do(survey(live, (1, 1, Phase.RUNNING), (2, 1, Phase.RUNNING)))
        assert [row.order.lease_id for row in live.store.open_orders()] == [2]

    def test_those_of_an_incarnation_that_nobody_ordered(self, live: Live) -> None:
        submitted(live, guest(1, 60))
        live.do(survey(live, (1, 7, Phase.RUNNING)))
        assert orders(live)[0].startswith("1.7.stop~")


class TestOrders:
    def test_what_is_written_is_not_written_again(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        assert live.engine.unit.is_empty()

    def test_what_came_to_nothing_is_told_again(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.pass_time(10)
        live.do(survey(live, (1, 1, Phase.RUNNING), (2, 1, Phase.RUNNING)))
        assert differences(live, "behind") == 1
        [row] = live.store.open_orders()
        assert (row.order.id, row.next_try_ms) == ("1.1.suspend", BEGIN_MS + 10 * S + 10)

    def test_what_is_on_its_way_is_not(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.pass_time(10)
        live.look()
        assert differences(live, "behind") == 0

    def test_nor_what_a_later_order_has_overtaken(self, live: Live) -> None:
        """Who is saved again while it comes back is past its resumption, though nobody saw it run."""
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.pass_time(6 * S)
        assert phases(live)[1] == (2, Phase.RESUMING)
        submitted(live, local(1, 5))
        live.pass_time(10)
        assert phases(live)[1] == (2, Phase.SAVING)
        live.look()
        assert differences(live, "behind") == 0
        assert [(row.order.id, row.status) for row in live.store.open_orders() if row.order.lease_id == 1] == [
            ("1.2.resume", "taken"),
            ("1.2.suspend", "taken"),
        ]

    def test_but_both_are_where_the_later_has_come_to_nothing_too(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.pass_time(6 * S)
        submitted(live, local(1, 5))
        live.pass_time(10)
        live.do(survey(live, (1, 1, Phase.SAVED), (3, 1, Phase.RUNNING)))
        assert differences(live, "behind") == 2

    def test_nor_what_was_ordered_after_looking_began(self, live: Live) -> None:
        submitted(live, guest(4, 60))
        began_ms = live.now_ms + 10 * S - 1
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.do(survey(live, (1, 1, Phase.RUNNING), asked_ms=began_ms))
        assert differences(live, "behind") == 0

    def test_whatever_comes_later_shows_that_the_earlier_was_done(self) -> None:
        outbox = Outbox(UnitOfWork())
        for verb in (Verb.START, Verb.SUSPEND):
            outbox.give("a", Order(order_id(1, 1, verb), verb, 1, 1, 4, 512), BEGIN_MS)
        confirm(outbox, "a", Observation(1, 1, Phase.SAVED, BEGIN_MS + 10 * S))
        assert list(outbox) == []

    def test_a_problem_that_may_pass_is_tried_again_with_growing_pauses(self, live: Live) -> None:
        injector(live).fail_next(Problem("no disk"), times=4, verb=Verb.START)
        submitted(live, guest(1, 600))
        tries = []
        for now_ms in live.instants(BEGIN_MS + 60 * S):
            rows = live.engine.outbox.of(1)
            if not rows:
                tries.append(now_ms)
                break
            [row] = rows
            tries.append(row.next_try_ms)
            assert (row.status, row.problem, row.attempts) == ("pending", "no disk", len(tries) + 1)
        assert phases(live) == {1: (1, Phase.RUNNING)}
        assert state(live, 1) == "running"

    def test_after_so_many_attempts_it_is_tried_elsewhere(self, live: Live) -> None:
        injector(live).fail_next(Problem("no disk"), times=1_000, verb=Verb.START)
        submitted(live, guest(1, 6_000))
        live.pass_time(590 * S)
        assert (lease(live, 1).lease.site, state(live, 1)) == ("b", "running")
        [gone] = [line for line in journal(live, 1) if line.reason == "never-started"]
        assert (gone.what, gone.site, gone.detail) == ("hold", "a", '{"cause": "no disk"}')
        name, labels = "leasehold_order_failures_total", {"site": "a", "verb": "start"}
        assert live.metrics.registry.get_sample_value(name, labels) == MOST_ATTEMPTS

    def test_one_that_will_not_pass_sends_it_elsewhere_at_once(self, live: Live) -> None:
        injector(live).fail_next(Problem("no such image", again=False), verb=Verb.START)
        submitted(live, guest(1, 600))
        assert (lease(live, 1).lease.site, state(live, 1)) == ("b", "running")
        live.look()
        assert orders(live, 1) == []  # the one to stop it at a was obeyed

    def test_who_can_start_nowhere_has_failed_and_the_log_says_why(self, live: Live) -> None:
        for name in "ab":
            injector(live, name).fail_next(Problem(f"no image at {name}", again=False), verb=Verb.START)
        submitted(live, guest(1, 600))
        assert end(live, 1) == ("failed", "never-started")
        assert journal(live, 1)[-1].detail == '{"cause": "no image at b"}'

    @pytest.mark.parametrize("again", [True, False])
    def test_stop_is_tried_for_ever(self, live: Live, *, again: bool) -> None:
        submitted(live, guest(1, 60))
        injector(live).fail_next(Problem("hangs", again=again), times=100, verb=Verb.STOP)
        live.do(Cancel(1))
        live.pass_time(100 * 61 * S)
        live.look()
        assert (phases(live), orders(live)) == ({}, [])

    def test_whoever_is_to_be_stopped_need_not_do_anything_else_first(self, live: Live) -> None:
        live.sites["a"].is_cut = True
        submitted(live, guest(1, 60))
        live.do(Cancel(1))
        live.sites["a"].is_cut = False
        live.pass_time(60 * S)
        live.look()
        assert orders(live) == []
        audit = live.sites["a"].machines.take_unwritten().audit
        assert audit == []

    def test_what_a_site_took_on_is_told_once_more_after_a_restart_and_done_once(self, live: Live) -> None:
        live.sites["a"].line.faults = Faults(lose_observations=1)
        submitted(live, guest(3, 60), guest(1, 60))
        assert [row.status for row in live.store.open_orders()] == ["taken", "taken"]
        live.restart()
        live.pass_time(1)
        audit = live.sites["a"].machines.take_unwritten().audit
        assert brought_up_twice(audit) == []
        assert len(audit) > 0


class TestMoves:
    """Machines are never at two sites at once, however long one of them does not answer."""

    def test_nobody_is_received_before_he_was_sent(self, live: Live) -> None:
        submitted(live, guest(4, 600, MIGRATABLE, needed_s=100))
        live.sites["a"].is_cut = True
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.pass_time(5 * S)
        assert (phases(live)[1], phases(live, "b")) == ((1, Phase.RUNNING), {})
        live.sites["a"].is_cut = False
        live.pass_time(60 * S)
        assert 1 not in phases(live)
        assert phases(live, "b")[1] == (2, Phase.RUNNING)

    def test_who_is_taken_back_on_the_way_is_stopped_at_both_ends(self, live: Live) -> None:
        submitted(live, guest(4, 600, MIGRATABLE))
        live.sites["a"].is_cut = True
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        live.do(Cancel(1))
        live.sites["a"].is_cut = False
        live.pass_time(60 * S)
        live.look()
        assert (phases(live), phases(live, "b"), orders(live)) == ({}, {}, [])

    def test_a_site_that_cannot_receive_fails_the_lease_and_nothing_is_left(self, live: Live) -> None:
        injector(live, "b").fail_next(Problem("no driver", again=False), verb=Verb.RECEIVE)
        submitted(live, guest(4, 600, MIGRATABLE))
        live.at(BEGIN_MS + 10 * S, local(1, 5))
        assert end(live, 1) == ("failed", "machines-lost")
        live.pass_time(60 * S)
        live.look()
        assert (phases(live), phases(live, "b"), orders(live)) == ({}, {}, [])
