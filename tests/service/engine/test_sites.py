"""Draining: a site whose owner lends no more, and what becomes of those who are there."""

import pytest
from tests.service.engine.examples import S, guest, journal, lease, local, orders, state, story, submitted

from leasehold.model.request import LeaseType
from leasehold.service.commands import Cancel, Drain, Undrain
from leasehold.service.errors import NoSuchSite
from leasehold.testing.live import BEGIN_MS, Live

MIGRATABLE, FIXED = LeaseType.MIGRATABLE, LeaseType.NON_PREEMPTABLE


def test_new_guests_go_elsewhere(live: Live) -> None:
    live.do(Drain("a", "operator", "new disks"))
    submitted(live, guest(1, 10), local(1, 10))
    assert [lease(live, number).lease.site for number in (1, 2)] == ["b", "a"]


def test_drained_and_asked_in_one_batch_the_order_of_asking_does_not_matter(live: Live) -> None:
    _, (row, _) = live.do(Drain("a", "operator"), guest(1, 10))
    assert row.lease.site == "b"
    live.do(Undrain("a", "operator"))
    (row, _), _ = live.do(guest(1, 10), Drain("a", "operator"))
    assert row.lease.site == "b"


def test_who_runs_stays_and_who_waits_goes_elsewhere(live: Live) -> None:
    submitted(live, guest(4, 60), guest(4, 30))
    live.do(Drain("a", "operator"))
    assert (lease(live, 1).lease.site, state(live, 1)) == ("a", "running")
    assert (lease(live, 2).lease.site, state(live, 2)) == ("b", "running")
    assert story(live, 2) == ["submitted", "dispatch", "wait", "hold", "dispatch", "start", "started"]


def test_who_was_promised_a_time_keeps_it(live: Live) -> None:
    later = BEGIN_MS + 20 * S
    submitted(live, guest(2, 10, FIXED, ready_ms=later), guest(2, 10, MIGRATABLE, ready_ms=later))
    live.do(Drain("a", "operator"))
    live.pass_time(20 * S)
    assert [(lease(live, n).lease.site, state(live, n)) for n in (1, 2)] == [
        ("a", "running"),
        ("a", "running"),
    ]


def test_who_is_suspended_is_resumed_where_it_was(live: Live) -> None:
    submitted(live, guest(4, 60))
    live.at(BEGIN_MS + 10 * S, local(4, 5))
    live.do(Drain("a", "operator"))
    live.pass_time(5 * S)
    assert (lease(live, 1).lease.site, state(live, 1)) == ("a", "resuming")


def test_who_moves_away_does_not_come(live: Live) -> None:
    submitted(live, guest(4, 60, MIGRATABLE))
    live.do(Drain("b", "operator"))
    live.at(BEGIN_MS + 10 * S, local(4, 5))
    assert (lease(live, 1).lease.site, state(live, 1)) == ("a", "suspending")


@pytest.mark.parametrize("restarts", [False, True])
def test_where_nobody_lends_requests_wait_until_somebody_does(live: Live, *, restarts: bool) -> None:
    live.do(Drain("a", "operator"), Drain("b", "operator"))
    [number] = submitted(live, guest(1, 10))
    if restarts:
        live.restart()
    live.pass_time(3600 * S)
    assert (state(live, number), lease(live, number).metadata.reason) == ("held", "no-site-available")
    live.do(Undrain("b", "operator"))
    assert (lease(live, number).lease.site, state(live, number)) == ("b", "running")
    assert story(live, number) == ["submitted", "hold", "dispatch", "start", "started"]


def test_both_may_lend_again_at_once(live: Live) -> None:
    live.do(Drain("a", "operator"), Drain("b", "operator"))
    submitted(live, guest(1, 10), guest(4, 10))
    live.do(Undrain("a", "operator"), Undrain("b", "operator"))
    assert [(lease(live, n).lease.site, state(live, n)) for n in (1, 2)] == [
        ("a", "running"),
        ("a", "waiting"),
    ]


def test_one_that_waits_for_a_site_can_be_taken_back_as_that_opens(live: Live) -> None:
    live.do(Drain("a", "operator"), Drain("b", "operator"))
    submitted(live, guest(1, 10))
    live.do(Undrain("a", "operator"), Cancel(1))
    assert state(live, 1) == "cancelled"
    assert orders(live) == []


def test_drained_twice_is_drained_and_the_last_note_counts(live: Live) -> None:
    live.do(Drain("a", "operator", "disks"), Drain("a", "owner", "fans"))
    [row] = live.store.sites()
    assert (row.name, row.drained_ms, row.drained_by, row.note) == (
        "a",
        BEGIN_MS,
        "owner",
        "fans",
    )
    live.do(Undrain("a", "owner"), Undrain("a", "owner"))
    [row] = live.store.sites()
    assert (row.drained_ms, row.note) == (None, "")
    submitted(live, guest(1, 10))
    assert lease(live, 1).lease.site == "a"


def test_it_is_remembered_after_a_restart(live: Live) -> None:
    live.do(Drain("a", "operator"))
    live.restart()
    submitted(live, guest(1, 10))
    assert lease(live, 1).lease.site == "b"
    live.do(Undrain("a", "operator"))
    live.restart()
    submitted(live, guest(1, 10))
    assert lease(live, 2).lease.site == "a"


def test_after_a_long_sleep_too(live: Live) -> None:
    live.do(Drain("a", "operator"))
    submitted(live, guest(1, 10), local(4, 10))
    live.now_ms += 3600 * S
    live.do()
    submitted(live, guest(1, 10))
    assert lease(live, 3).lease.site == "b"


def test_the_journal_tells_who_did_it_and_why(live: Live) -> None:
    live.do(Drain("a", "operator", "new disks"), Undrain("a", "owner"))
    lines = [(line.what, line.site, line.lease_id, line.detail) for line in journal(live)]
    assert lines == [
        ("drained", "a", None, '{"by": "operator", "note": "new disks"}'),
        ("resumed", "a", None, '{"by": "owner"}'),
    ]


@pytest.mark.parametrize("command", [Drain("z", "operator"), Undrain("z", "operator")])
def test_a_site_that_nobody_knows(live: Live, command: Drain | Undrain) -> None:
    [answer] = live.do(command)
    assert isinstance(answer, NoSuchSite)
    assert journal(live) == []
