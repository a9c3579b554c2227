"""Jobs of a site's own scheduler: leases that guests give way to, and for which nothing is ever ordered."""

from typing import Any

from tests.service.engine.examples import S, guest, submitted

from leasehold.service.commands import NativeJobsSeen
from leasehold.service.drivers.protocol import NativeJob
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.rows import LeaseRow
from leasehold.testing.live import Live


def job(name: str, vms: int, *, running: bool = False, duration_s: int = 600) -> NativeJob:
    return NativeJob(name, "astro", vms, 512, duration_s * S, running)


def look(live: Live, *jobs: NativeJob, after_s: int = 1) -> Any:
    """Let a little time pass, and see these jobs at site a."""
    live.pass_time(after_s * S)
    [with_room] = live.do(NativeJobsSeen("a", jobs))
    return with_room


def rows(live: Live, name: str) -> list[LeaseRow]:
    """All leases that have stood for a job, the oldest first."""
    found = live.store.leases(LeaseFilter(EVERYTHING), 100)
    return [row for row in reversed(found) if row.metadata.native_job == name]


def states(live: Live, name: str) -> list[str]:
    return [row.lease.state for row in rows(live, name)]


def test_a_guest_is_saved_and_comes_back_when_the_job_has_gone(live: Live) -> None:
    submitted(live, guest(4, 3600))
    live.pass_time(10 * S)
    assert look(live, job("7", 3)) == frozenset()  # the guest is still leaving
    live.pass_time(5 * S)
    live.look()
    assert look(live, job("7", 3)) == {"7"}
    assert states(live, "7") == ["starting"]  # room was made, and its scheduler has not begun it yet
    look(live, job("7", 3, running=True))
    assert states(live, "7") == ["running"]
    look(live, after_s=60)
    live.pass_time(10 * S)
    assert states(live, "7") == ["completed"]
    [lent] = [row for row in live.store.leases(LeaseFilter(EVERYTHING), 10) if not row.metadata.native_job]
    assert (lent.lease.state, lent.lease.preemptions) == ("running", 1)


def test_nothing_is_ordered_for_it_and_no_machines_are_missed(live: Live) -> None:
    look(live, job("7", 3, running=True))
    for _ in range(3):
        live.look()
        look(live, job("7", 3, running=True))
    assert states(live, "7") == ["running"]
    assert list(live.engine.outbox) == []


def test_the_same_jobs_again_are_no_news(live: Live) -> None:
    for _ in range(2):
        look(live, job("7", 3, running=True), job("8", 3))
    written = live.store.last_seq()
    assert look(live, job("7", 3, running=True), job("8", 3)) == {"7"}
    assert live.store.last_seq() == written


def test_the_schedulers_choice_is_followed(live: Live) -> None:
    look(live, job("7", 3), job("8", 3))
    assert (states(live, "7"), states(live, "8")) == (["starting"], ["waiting"])
    look(live, job("8", 3, running=True), job("7", 3))
    assert (states(live, "7"), states(live, "8")) == (["waiting"], ["starting"])
    look(live, job("8", 3, running=True), job("7", 3))
    assert (states(live, "7"), states(live, "8")) == (["waiting"], ["running"])


def test_one_that_is_taken_back_before_it_starts_is_cancelled(live: Live) -> None:
    look(live, job("7", 4, running=True), job("8", 1))
    look(live, job("7", 4, running=True))
    assert states(live, "8") == ["cancelled"]


def test_one_that_needs_another_width_is_asked_for_anew(live: Live) -> None:
    look(live, job("7", 4, running=True), job("8", 1))
    look(live, job("7", 4, running=True), job("8", 2))
    assert [(row.lease.vms, row.lease.state) for row in rows(live, "8")] == [(1, "cancelled"), (2, "waiting")]


def test_one_wider_than_the_site_gets_all_of_it(live: Live) -> None:
    look(live, job("7", 9))
    assert [(row.lease.vms, row.lease.state) for row in rows(live, "7")] == [(4, "starting")]


def test_a_restarted_gateway_knows_whom_its_leases_stand_for(live: Live) -> None:
    look(live, job("7", 3, running=True), job("8", 3))
    live.restart()
    look(live, job("8", 3, running=True))
    assert (states(live, "7"), states(live, "8")) == (["completed"], ["starting"])


def test_native_jobs_do_not_use_up_what_a_consumer_may_ask_for(live: Live) -> None:
    look(live, job("7", 3, running=True), job("8", 3))
    assert live.engine.leases.requests.counts == {}
    live.restart()
    look(live)
    assert live.engine.leases.requests.counts == {}
