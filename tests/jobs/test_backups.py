"""Copies: cold ones that begin only when the first has failed, hot ones that run along, offers of nodes."""

from dataclasses import replace
from typing import Any

from tests.jobs.making import Told, seen, site, submitted

from leasehold.jobs.events import AttemptEnded, AttemptFailed, AttemptRuns, NodeFell, NodeOffers
from leasehold.jobs.job import Backup, Fault, names_of
from leasehold.jobs.offers import MOST_STANDING
from leasehold.jobs.settings import JobSettings


def three_nodes(**settings: Any) -> Told:
    nodes = [seen(f"a/{number}", at_ms=1) for number in (1, 2, 3)]
    return Told(site(*nodes), settings=JobSettings(**settings))


def standby(told: Told) -> tuple[str, ...]:
    place = told.scheduler.records[1].standby
    return () if place is None else names_of(place)


def test_a_cold_copy_is_kept_in_mind_and_costs_nothing() -> None:
    told = three_nodes().tell(1, submitted(at_ms=1, backup=Backup.COLD))

    assert told.started == [(1, 1, ("a/1",))]
    assert standby(told) == ("a/2",)
    # Nothing is promised there: somebody else may have it, and another place is kept in mind.
    told.tell(2, submitted(2, cores=4, at_ms=2), submitted(3, cores=3, at_ms=2))
    assert ("a/2",) in [nodes for _, _, nodes in told.started]
    assert standby(told) == ("a/3",)


def test_it_begins_only_when_the_first_has_failed_and_is_fenced() -> None:
    told = three_nodes().tell(1, submitted(at_ms=1, backup=Backup.COLD)).tell(2, AttemptRuns(1, 1))

    told.tell(3, NodeFell("a/1", Fault.NETWORK_FAILED))

    assert [type(effect).__name__ for effect in told.effects[:3]] == [
        "StopAttempt",
        "JobDecided",
        "StartAttempt",
    ]
    assert told.started == [(1, 2, ("a/2",))]
    assert told.decided == [(1, "network-failed", ""), (1, "takes-over", "")]
    assert told.scheduler.records[1].attempt(2).is_backup
    assert standby(told) == ("a/3",)


def test_a_place_that_falls_with_the_first_is_not_taken() -> None:
    told = three_nodes().tell(1, submitted(at_ms=1, backup=Backup.COLD))

    told.tell(2, NodeFell("a/1", Fault.NODE_DIED), NodeFell("a/2", Fault.NODE_DIED))

    assert told.started == [(1, 2, ("a/3",))]
    assert standby(told) == ()


def test_hot_copies_run_along_on_nodes_of_their_own_and_the_first_result_counts() -> None:
    told = three_nodes(hot_copies=3).tell(1, submitted(at_ms=1, backup=Backup.HOT))
    assert told.started == [(1, 1, ("a/1",)), (1, 2, ("a/2",)), (1, 3, ("a/3",))]
    assert [reason for _, reason, _ in told.decided] == ["runs-on-nodes", "runs-along", "runs-along"]

    told.tell(2, AttemptEnded(1, 2, 0))

    assert told.stopped == [(1, 1), (1, 3)]
    assert told.closed == [(1, "completed", "completed", 2)]
    assert told.tell(3, AttemptEnded(1, 1, 0)).decided == [(1, "result-fenced", "")]


def test_two_results_of_one_instant_are_one() -> None:
    told = three_nodes().tell(1, submitted(at_ms=1, backup=Backup.HOT))

    told.tell(2, AttemptEnded(1, 2, 0), AttemptEnded(1, 1, 0))

    assert told.closed == [(1, "completed", "completed", 2)]
    assert [reason for _, reason, _ in told.decided] == ["completed", "result-fenced"]


def test_a_copy_that_fails_is_not_missed_as_long_as_another_runs() -> None:
    told = three_nodes().tell(1, submitted(at_ms=1, backup=Backup.HOT, restarts=0))

    told.tell(2, NodeFell("a/1", Fault.NODE_DIED))
    assert told.started == []
    assert told.scheduler.records[1].restarts == 0

    assert told.tell(3, AttemptEnded(1, 2, 0)).closed == [(1, "completed", "completed", 2)]


def test_copies_begin_as_far_as_there_is_room() -> None:
    told = Told(site(seen("a/1"))).tell(1, submitted(backup=Backup.HOT))

    assert told.started == [(1, 1, ("a/1",))]


def test_nodes_that_offer_themselves_come_first_for_whoever_lost_its_place() -> None:
    told = three_nodes().tell(1, submitted(at_ms=1)).tell(2, NodeOffers(seen("a/3", at_ms=2)))

    told.tell(3, AttemptFailed(1, 1, Fault.NODE_DIED))

    assert told.started == [(1, 2, ("a/3",))]


def test_and_for_whoever_waits_but_not_for_new_jobs() -> None:
    told = Told(site(seen("a/1", cores=1, at_ms=1))).tell(1, submitted(1, at_ms=1), submitted(2, at_ms=1))

    told.tell(2, NodeOffers(seen("b/1", at_ms=2)))
    assert told.started == [(2, 1, ("b/1",))]


def test_an_offer_is_looked_at_for_memory_software_and_deadline() -> None:
    told = Told(site(seen("a/1", cores=2, has={"gcc": "12"}, at_ms=1)))
    told.tell(1, submitted(1, cores=2, at_ms=1), submitted(2, needs="gcc", at_ms=1))

    assert told.tell(2, NodeOffers(seen("a/2", at_ms=2))).started == []
    assert told.tell(3, NodeOffers(seen("a/3", has={"gcc": "11"}, memory_mib=50, at_ms=3))).started == []
    assert told.tell(4, NodeOffers(seen("a/4", has={"gcc": "11"}, at_ms=4))).started == [(2, 1, ("a/4",))]


def test_no_more_offers_of_a_site_stand_than_are_of_use() -> None:
    many = [f"a/{number}" for number in range(MOST_STANDING + 1)]
    told = Told(site(*(seen(name, at_ms=1) for name in many)))

    told.tell(2, *(NodeOffers(seen(name, at_ms=2), until_ms=9) for name in (*many, many[0], "b/1")))
    assert [*told.scheduler.standing_offers(2)] == [*many[:-1], "b/1"]
    told.tell(9, NodeOffers(seen(many[-1], at_ms=9)))
    assert [*told.scheduler.standing_offers(9)] == many[-1:]


def test_an_offer_of_a_node_that_cannot_be_used_is_none() -> None:
    told = three_nodes().tell(2, NodeOffers(replace(seen("a/3", at_ms=2), problem="its site takes no leases now")))
    assert told.scheduler.standing_offers(2) == {}


def test_an_offer_ends_with_time_with_a_fault_and_when_it_is_taken() -> None:
    told = three_nodes(offers_last_ms=10).tell(1, submitted(at_ms=1)).tell(2, NodeOffers(seen("a/3", at_ms=2)))
    assert told.tell(20, AttemptFailed(1, 1, Fault.TAKEN_AWAY)).started == [(1, 2, ("a/1",))]

    told.tell(21, NodeOffers(seen("a/3", at_ms=21))).tell(22, NodeFell("a/3", Fault.NODE_DIED))
    assert told.tell(23, AttemptFailed(1, 2, Fault.TAKEN_AWAY)).started == [(1, 3, ("a/1",))]
