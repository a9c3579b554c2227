"""Jobs of several nodes that go on when they lose some: k of n, as a job asked for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.making import S, Told, ask, seen, site

from leasehold.jobs.events import AttemptEnded, AttemptRuns, JobSubmitted, NodeFell
from leasehold.jobs.job import Fault, JobRequest
from leasehold.matching.needs import Amounts, Needs
from leasehold.model.errors import InvalidField


def group(nodes: int, need: int, restarts: int = 0) -> JobRequest:
    request = ask(1, nodes=nodes, restarts=restarts)
    return replace(request, job=replace(request.job, needs=replace(request.job.needs, need=need)))


def running(nodes: int, need: int, **said: int) -> Told:
    """Its command runs on all of its nodes."""
    told = Told(site(*(seen(f"a/{number}") for number in range(1, nodes + 1))))
    told.tell(1, JobSubmitted(group(nodes, need, **said))).tell(2, AttemptRuns(1, 1))
    return told


def test_it_goes_on_while_as_many_are_left_as_it_needs_and_has_its_result() -> None:
    told = running(3, 2)
    told.tell(3, NodeFell("a/2", Fault.NODE_DIED))
    assert told.decided == [(1, "goes-on-with-fewer", "a/2")]
    assert told.stopped == []
    [(job_id, state, _, delivered)] = told.tell(4, AttemptEnded(1, 1, 0)).closed
    assert (job_id, state, delivered) == (1, "completed", 1)


def test_one_more_than_it_can_spare_and_it_begins_again() -> None:
    told = running(3, 2, restarts=1)
    told.tell(3, NodeFell("a/2", Fault.NODE_DIED)).tell(4, NodeFell("a/3", Fault.NODE_DIED))
    assert told.stopped == [(1, 1)]


def test_before_its_command_runs_it_needs_all_of_them() -> None:
    told = Told(site(*(seen(f"a/{number}") for number in range(1, 4))))
    told.tell(1, JobSubmitted(group(3, 2))).tell(2, NodeFell("a/2", Fault.NODE_DIED))
    assert told.stopped == [(1, 1)]


def test_one_that_did_not_ask_loses_everything_with_one_node() -> None:
    assert running(3, 0).tell(3, NodeFell("a/2", Fault.NODE_DIED)).stopped == [(1, 1)]


@given(st.integers(1, 6), st.data())
def test_it_survives_exactly_the_losses_that_leave_enough(nodes: int, data: st.DataObject) -> None:
    need = data.draw(st.integers(1, nodes))
    fallen = data.draw(st.lists(st.sampled_from(range(1, nodes + 1)), unique=True))
    told = running(nodes, need)
    for at_ms, number in enumerate(fallen, 3):
        told.tell(at_ms, NodeFell(f"a/{number}", Fault.NODE_DIED))
    assert bool(told.scheduler.records) == (nodes - len(fallen) >= need)


@pytest.mark.parametrize("need", [-1, 4])
def test_more_than_there_are_cannot_be_needed(need: int) -> None:
    with pytest.raises(InvalidField, match=f"need: got {need}, expected at most the number of nodes, 3"):
        Needs(amounts=Amounts(1, 1, 0), execution_ms=S, nodes=3, need=need)
