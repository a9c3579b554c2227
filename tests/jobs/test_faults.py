"""Each fault has its reaction, and whatever comes back from the dead, a job has one result."""

import pytest
from tests.jobs.making import MINUTE, S, Told, catalogue, image, seen, site, submitted

from leasehold.jobs.effects import JobDecided
from leasehold.jobs.event_handlers import REACTIONS
from leasehold.jobs.events import AttemptEnded, AttemptFailed, AttemptRuns, NodeFell
from leasehold.jobs.job import AttemptState, Fault, JobReason, sentence

OF_NODES = [Fault.NETWORK_FAILED, Fault.SERVICE_STOPPED, Fault.NODE_DIED]
GCC = {"gcc": "12.2"}


def running(*, restarts: int = 3) -> Told:
    """One job on the first of two nodes."""
    told = Told(site(seen("a/1", at_ms=1), seen("a/2", at_ms=1)))
    return told.tell(1, submitted(at_ms=1, restarts=restarts)).tell(2, AttemptRuns(1, 1))


def test_there_is_a_reaction_to_every_fault() -> None:
    assert {*REACTIONS, Fault.JOB_ERROR} == set(Fault)


def test_every_reason_has_a_sentence() -> None:
    assert all(sentence(reason) for reason in JobReason)


def test_an_error_of_the_job_itself_is_its_result_and_is_not_tried_again() -> None:
    told = running().tell(3, AttemptEnded(1, 1, 2, "NameError: name 'x' is not defined"))

    assert told.closed == [(1, "failed", "job-error", 1)]
    assert told.decided == [(1, "job-error", "NameError: name 'x' is not defined")]
    assert told.started == []


def test_an_error_that_a_site_reports_as_such_is_the_same() -> None:
    told = running().tell(3, AttemptFailed(1, 1, Fault.JOB_ERROR, "no such command"))

    assert told.closed == [(1, "failed", "job-error", 1)]


@pytest.mark.parametrize("fault", OF_NODES)
def test_after_a_fault_of_its_node_a_job_begins_anew_elsewhere(fault: Fault) -> None:
    told = running().tell(3, NodeFell("a/1", fault, "no answer for 30 s"))

    assert told.stopped == [(1, 1)]
    assert told.decided[0] == (1, fault.value, "no answer for 30 s")
    assert told.started == [(1, 2, ("a/2",))]
    record = told.scheduler.records[1]
    assert record.restarts == 1
    assert record.attempt(1).state is AttemptState.FENCED


@pytest.mark.parametrize("fault", OF_NODES)
def test_a_node_that_an_attempt_failed_on_is_not_used_until_it_is_seen_again(fault: Fault) -> None:
    told = running().tell(3, AttemptFailed(1, 1, fault))
    assert told.looked_at == ["a/1"]
    assert told.tell(4, submitted(2, cores=4, at_ms=4)).started == []

    # What was seen before it fell says nothing.
    assert told.tell(5, site(seen("a/1", at_ms=2), seen("a/2", at_ms=2))).started == []
    assert told.tell(6, site(seen("a/1", at_ms=6), seen("a/2", at_ms=6))).started == [(2, 1, ("a/1",))]


def test_what_comes_back_from_the_dead_is_stopped_and_its_result_does_not_count() -> None:
    told = running().tell(3, NodeFell("a/1", Fault.NETWORK_FAILED)).tell(4, AttemptRuns(1, 2))

    told.tell(5, site(seen("a/1", at_ms=5), seen("a/2", at_ms=5)))
    assert told.stopped == [(1, 1)]
    told.tell(6, AttemptEnded(1, 1, 0))
    assert told.effects == [JobDecided(told.scheduler.records[1], JobReason.RESULT_FENCED, "", 1)]

    told.tell(7, AttemptEnded(1, 2, 0))
    assert told.closed == [(1, "completed", "completed", 2)]
    assert told.tell(8, AttemptEnded(1, 2, 0)).effects == []


def test_a_result_after_the_end_does_not_count_either() -> None:
    told = running().tell(3, NodeFell("a/1", Fault.NODE_DIED)).tell(4, AttemptEnded(1, 2, 0))
    assert told.closed == [(1, "completed", "completed", 2)]

    assert told.tell(5, AttemptEnded(1, 1, 0)).decided == [(1, "result-fenced", "")]
    assert told.tell(6, AttemptEnded(1, 1, 0)).effects == []


def test_a_fenced_attempt_that_begins_to_run_is_stopped_again() -> None:
    told = running().tell(3, NodeFell("a/1", Fault.NETWORK_FAILED))

    assert told.tell(4, AttemptRuns(1, 1)).stopped == [(1, 1)]


def test_where_software_is_gone_a_machine_is_built_if_the_node_can() -> None:
    nodes = site(seen("a/1", has=GCC, is_host=True), seen("a/2", has=GCC), seen("a/3", is_host=True))
    told = Told(nodes, catalogue(image("with gcc", GCC))).tell(1, submitted(needs="gcc"))
    assert told.started == [(1, 1, ("a/1",))]

    told.tell(2, AttemptFailed(1, 1, Fault.SOFTWARE_GONE, "gcc: command not found"))

    assert told.started == [(1, 2, ("a/1",))]
    assert told.decided[-1] == (1, "runs-in-machines", "")
    assert told.looked_at == ["a/1"]


def test_or_another_place_is_found_and_the_node_is_not_taken_for_that_software() -> None:
    told = Told(site(seen("a/1", has=GCC, at_ms=1), seen("a/2", has=GCC, at_ms=1)))
    told.tell(1, submitted(needs="gcc", at_ms=1))

    told.tell(2, AttemptFailed(1, 1, Fault.SOFTWARE_GONE))
    assert told.started == [(1, 2, ("a/2",))]
    assert told.stopped == []

    # Others may still have it; whoever needs gcc may not, until it is seen there again.
    assert told.tell(3, submitted(2, cores=4, at_ms=3)).started == [(2, 1, ("a/1",))]
    told.tell(3, AttemptEnded(2, 1, 0))
    assert told.tell(4, submitted(3, cores=3, needs="gcc", at_ms=4)).started == [(3, 1, ("a/2",))]
    told.tell(5, submitted(4, cores=3, needs="gcc", at_ms=5))
    told.tell(6, site(seen("a/1", has=GCC, at_ms=6), seen("a/2", has=GCC, at_ms=6)))
    assert told.started == [(4, 1, ("a/1",))]


def test_an_image_that_lacks_what_it_should_have_is_forgotten() -> None:
    images = catalogue(image("a", GCC), image("b", GCC))
    told = Told(site(seen("a/1", is_host=True)), images).tell(1, submitted(needs="gcc"))

    told.tell(2, AttemptFailed(1, 1, Fault.SOFTWARE_GONE))

    assert told.scheduler.records[1].attempt(2).place.image.name == "b"  # type: ignore[union-attr]


def test_a_lease_that_was_taken_away_begins_anew_and_the_node_stays() -> None:
    told = running().tell(3, AttemptFailed(1, 1, Fault.TAKEN_AWAY, "preempted for good"))

    assert told.started == [(1, 2, ("a/1",))]
    assert told.stopped == []
    assert told.scheduler.records[1].restarts == 1


def test_a_job_whose_time_is_over_would_take_as_long_again_and_does_not_begin_anew() -> None:
    told = running().tell(3, AttemptFailed(1, 1, Fault.TIME_OVER, "its lease was ended at its requested time"))

    assert told.started == []
    assert told.stopped == []
    assert told.closed == [(1, "failed", "time-over", 0)]
    assert told.decided == [(1, "time-over", "its lease was ended at its requested time")]


def test_an_input_that_is_gone_is_the_fault_of_no_node() -> None:
    started = running()
    told = started.tell(3, AttemptFailed(1, 1, Fault.INPUT_GONE, "it was removed"))
    assert told.closed == [(1, "failed", "input-gone", 0)]
    assert told.looked_at == []


def test_a_job_begins_anew_only_so_often() -> None:
    told = running(restarts=1).tell(3, AttemptFailed(1, 1, Fault.TAKEN_AWAY))
    told.tell(4, AttemptFailed(1, 2, Fault.TAKEN_AWAY))

    assert told.closed == [(1, "failed", "too-many-faults", 0)]
    assert told.decided[-1] == (1, "too-many-faults", "taken-away")


def test_after_a_fault_a_job_waits_for_the_only_node_that_could_serve_it() -> None:
    told = Told(site(seen("a/1", at_ms=1))).tell(1, submitted(at_ms=1))

    told.tell(9 * MINUTE, NodeFell("a/1", Fault.NODE_DIED))

    assert told.decided[-1] == (1, "nodes-down", "a/1")
    assert told.scheduler.records[1].next_ms == 11 * MINUTE
    told.tell(10 * MINUTE, site(seen("a/1", at_ms=10 * MINUTE)))
    assert told.started == [(1, 2, ("a/1",))]


def test_a_job_with_a_deadline_that_cannot_be_met_any_more_has_failed() -> None:
    told = Told(site(seen("a/1"), seen("a/2")))
    told.tell(1, submitted(execution_ms=60 * S, deadline_ms=100 * S))

    told.tell(50 * S, NodeFell("a/1", Fault.NODE_DIED))

    assert told.closed == [(1, "failed", "too-late", 0)]


def test_a_node_that_is_listed_no_more_has_died() -> None:
    told = running().tell(3, site(seen("a/2", at_ms=3)))

    assert told.decided[0] == (1, "node-died", "is not among the nodes of its site any more")
    assert told.started == [(1, 2, ("a/2",))]


def test_a_node_may_be_listed_as_long_as_it_is_said_to_have_fallen() -> None:
    told = running()
    broken = (site(seen("a/1", at_ms=3), seen("a/2", at_ms=3)), NodeFell("a/1", Fault.SERVICE_STOPPED))
    assert told.tell(3, *broken).started == [(1, 2, ("a/2",))]

    later = (site(seen("a/1", at_ms=4), seen("a/2", at_ms=4)), NodeFell("a/1", Fault.SERVICE_STOPPED))
    told.tell(4, *later, submitted(2, cores=4, at_ms=4))

    assert told.started == []
    assert told.scheduler.failures.all()["a/1"].failures == 1


def test_all_that_runs_on_a_node_falls_with_it_and_each_of_several_nodes_ends_a_job() -> None:
    nodes = [seen(f"a/{number}", at_ms=1) for number in range(1, 6)]
    told = Told(site(*nodes)).tell(1, submitted(1, nodes=2, cores=2), submitted(2, cores=2))
    assert told.started == [(1, 1, ("a/1", "a/2")), (2, 1, ("a/1",))]

    told.tell(2, NodeFell("a/1", Fault.NODE_DIED))

    assert told.started == [(1, 2, ("a/2", "a/3")), (2, 2, ("a/2",))]


def test_what_nobody_knows_is_no_news() -> None:
    told = running()

    told.tell(3, AttemptEnded(7, 1, 0), AttemptRuns(1, 9), AttemptFailed(8, 1, Fault.NODE_DIED))

    assert told.effects == []
