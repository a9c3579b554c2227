"""A job that asks to be sure gets the cheapest plan that is, or hears how sure it can be had."""

from copy import deepcopy
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.making import S, Told, catalogue, image, seen, site, submitted

from leasehold.jobs.events import NodeFell, NodesSeen, Turn
from leasehold.jobs.job import Fault, names_of
from leasehold.jobs.placement import ReliabilityPlanner, at_most
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.state import NodeHistory
from leasehold.matching.reliability import FailureRate

OFTEN = JobSettings(belief=FailureRate(1, 100), takeover_ms=0)
"""Every node is thought to fail once in a hundred seconds: ten seconds are survived with 0.905."""


def nodes(count: int) -> Told:
    return Told(site(*(seen(f"a/{number}") for number in range(1, count + 1))), settings=OFTEN)


def test_one_node_is_enough_where_that_is_sure_enough() -> None:
    told = nodes(3).tell(0, submitted(reliability=0.9, deadline_ms=15 * S))

    assert told.started == [(1, 1, ("a/1",))]
    assert told.scheduler.records[1].surest == pytest.approx(0.9048, abs=1e-4)


def test_copies_run_along_where_there_is_no_time_for_another_try() -> None:
    told = nodes(3).tell(0, submitted(reliability=0.99, deadline_ms=15 * S))

    assert told.started == [(1, 1, ("a/1",)), (1, 2, ("a/2",))]
    assert told.scheduler.records[1].surest == pytest.approx(1 - 0.09516**2, abs=1e-4)


def test_one_stands_by_where_there_is_time() -> None:
    told = nodes(3).tell(0, submitted(reliability=0.99, deadline_ms=60 * S))

    assert told.started == [(1, 1, ("a/1",))]
    record = told.scheduler.records[1]
    assert record.standby is not None
    assert record.surest == pytest.approx(0.9909, abs=1e-3)
    assert told.tell(1, NodeFell("a/1", Fault.NODE_DIED)).decided[-1] == (1, "takes-over", "")


def test_who_cannot_be_made_so_sure_hears_what_can_be_had_at_most() -> None:
    told = nodes(2).tell(0, submitted(reliability=0.999, deadline_ms=15 * S))

    assert told.decided == [(1, "not-sure-enough", "0.99094 at most")]
    assert told.closed == [(1, "refused", "not-sure-enough", 0)]


def test_who_could_be_made_so_sure_if_nodes_were_free_waits_for_them() -> None:
    told = nodes(2).tell(0, submitted(1, cores=4))

    told.tell(1, submitted(2, at_ms=1, reliability=0.95, deadline_ms=15 * S))

    assert told.decided == [(2, "tried-again-later", "0.99094 at most")]


def test_a_job_of_several_nodes_has_copies_of_all_of_them() -> None:
    told = nodes(4).tell(0, submitted(nodes=2, reliability=0.95, deadline_ms=15 * S))

    assert told.started == [(1, 1, ("a/1", "a/2")), (1, 2, ("a/3", "a/4"))]
    assert told.scheduler.records[1].surest == pytest.approx(1 - (1 - 0.90484**2) ** 2, abs=1e-4)


def test_machines_are_made_sure_likewise() -> None:
    told = Told(
        site(seen("a/1", is_host=True), seen("a/2", is_host=True)),
        catalogue(image("r", {"r": "4.3"})),
        settings=OFTEN,
    )

    told.tell(0, submitted(needs="r", reliability=0.85, deadline_ms=50 * S))

    assert [place for _, _, place in told.started] == [("a/1",), ("a/2",)]


def test_rates_are_learnt_from_what_happened() -> None:
    told = nodes(2)
    for second in range(1, 9):
        told.tell(second * S, site(seen("a/1", at_ms=second * S), seen("a/2", at_ms=second * S)))
        if second < 5:
            told.tell(second * S + 1, NodeFell("a/1", Fault.NODE_DIED))

    watched = told.scheduler.failures.all()

    assert watched == {"a/1": NodeHistory(4, 4_004, 8 * S), "a/2": NodeHistory(0, 8 * S, 8 * S)}
    again = nodes(0)
    again.scheduler.failures.restore(deepcopy(watched))
    assert again.scheduler.failures.all() == watched
    told.tell(9 * S, submitted(at_ms=9 * S, reliability=0.5, deadline_ms=25 * S))
    assert told.started == [(1, 1, ("a/2",))]


def afar(name: str, *, hosts: bool = False, turn: Turn = Turn.NONE_CAN, **facts: Any) -> NodesSeen:
    """A peer's site of two nodes."""
    nodes = tuple(seen(f"{name}/{number}", is_host=hosts, **facts) for number in (1, 2))
    return NodesSeen(name, nodes, turn=turn)


def test_nodes_of_peers_are_added_where_ones_own_are_not_sure_enough_the_nearest_first() -> None:
    told = Told(site(seen("a/1")), afar("p:z"), afar("p:q:y"), settings=OFTEN)

    asked = [submitted(number, at_ms=number, reliability=r, deadline_ms=15 * S) for number, r in enumerate(SURE, 1)]
    started = [told.tell(number, one).started for number, one in enumerate(asked, 1)]

    assert [[place for _, _, place in one] for one in started] == [
        [("a/1",)],
        [("a/1",), ("p:z/1",)],
        [("a/1",), ("p:q:y/1",), ("p:q:y/2",), ("p:z/1",)],
    ]


SURE = (0.9, 0.99, 0.9999)


def test_a_job_that_no_node_of_ones_own_can_serve_is_made_sure_at_a_peer() -> None:
    told = Told(site(seen("a/1")), afar("p:z", has={"r": "4.3"}), settings=OFTEN)

    told.tell(0, submitted(needs="r", reliability=0.99, deadline_ms=15 * S))

    assert told.started == [(1, 1, ("p:z/1",)), (1, 2, ("p:z/2",))]


@pytest.mark.parametrize(
    ("turn", "decided"),
    [
        (Turn.NONE_CAN, [(2, "tried-again-later", "0.99094 at most")]),
        (Turn.NONE_CAN_NOW, [(2, "runs-on-nodes", "")]),
        (Turn.NEVER, [(2, "tried-again-later", "0.99094 at most")]),
    ],
)
def test_where_ones_own_nodes_would_be_sure_enough_if_they_were_free_peers_are_asked_as_their_terms_say(
    turn: Turn, decided: list[tuple[int, str, str]]
) -> None:
    told = nodes(2).tell(0, afar("p:z", turn=turn), submitted(1, cores=4))

    told.tell(1, submitted(2, at_ms=1, reliability=0.95, deadline_ms=15 * S))

    assert told.decided == decided
    records = told.scheduler.records
    standby = None if records[2].standby is None else names_of(records[2].standby)
    assert ([place for _, _, place in told.started], standby) == (
        ([("a/2",)], ("p:z/1",)) if turn is Turn.NONE_CAN_NOW else ([], None)
    )


def test_a_job_waits_for_nodes_of_a_peer_that_would_make_it_sure_enough() -> None:
    busy = afar("p:z", free_cores=0)
    told = Told(site(seen("a/1")), busy, settings=OFTEN)

    told.tell(0, submitted(1, reliability=0.99, deadline_ms=15 * S))
    assert told.decided == [(1, "tried-again-later", "0.999138 at most")]
    told.tell(1, submitted(2, at_ms=1, reliability=0.9999, deadline_ms=15 * S))
    assert told.decided == [(2, "not-sure-enough", "0.999138 at most")]
    assert told.tell(2, afar("p:z", at_ms=2)).started == [(1, 1, ("p:z/1",)), (1, 2, ("p:z/2",))]


def test_nodes_of_a_peer_that_are_down_are_waited_for() -> None:
    told = Told(site(seen("a/1")), afar("p:z", problem="drained"), settings=OFTEN)

    told.tell(0, submitted(reliability=0.99, deadline_ms=15 * S))

    assert told.decided == [(1, "nodes-down", "p:z/1, p:z/2")]


def test_what_is_learnt_of_nodes_of_a_peer_counts() -> None:
    told = Told(site(seen("a/1", cores=1)), afar("p:z"), settings=OFTEN)
    for second in range(1, 9):
        told.tell(second * S, NodesSeen("p:z", tuple(seen(f"p:z/{one}", at_ms=second * S) for one in (1, 2)), turn=FAR))
        if second < 5:
            told.tell(second * S + 1, NodeFell("p:z/1", Fault.NODE_DIED))

    told.tell(9 * S, submitted(at_ms=9 * S, cores=2, reliability=0.5, deadline_ms=25 * S))

    assert told.started == [(1, 1, ("p:z/2",))]


FAR = Turn.NONE_CAN


def test_a_job_that_has_lost_its_node_takes_the_most_reliable_that_is_left_anywhere() -> None:
    told = Told(site(seen("a/1")), afar("p:z"), settings=OFTEN)
    told.tell(0, submitted(reliability=0.9, deadline_ms=15 * S))

    assert told.started == [(1, 1, ("a/1",))]

    told.tell(4 * S, NodeFell("a/1", Fault.NODE_DIED), afar("p:z", at_ms=4 * S))

    assert [place for _, _, place in told.started] == [("p:z/1",)]


WATCHED = st.builds(NodeHistory, st.sampled_from([0, 0, 1, 5]), st.sampled_from([0, 10 * S, 90 * S]))


@given(
    st.lists(st.tuples(WATCHED, st.sampled_from([0, 3 * S])), min_size=1, max_size=12),
    st.sampled_from([0.5, 0.9, 0.99, 0.9999]),
    st.sampled_from([15 * S, 40 * S]),
    st.integers(0, 3),
)
@settings(deadline=None)
def test_of_nodes_that_are_alike_so_many_are_looked_at_as_a_plan_can_have_and_no_other_comes_of_it(
    histories: list[tuple[NodeHistory, int]], reliability: float, deadline_ms: int, restarts: int
) -> None:
    asked = submitted(reliability=reliability, deadline_ms=deadline_ms, restarts=restarts)
    said = []
    for few_of_each in (ReliabilityPlanner._few_of_each, lambda _, edges: list(edges)):
        nodes = [seen(f"a/{number}", waiting_ms=ms) for number, (_, ms) in enumerate(histories)]
        told = Told(site(*nodes), settings=OFTEN)
        history = {f"a/{number}": replace(watched) for number, (watched, _) in enumerate(histories)}
        told.scheduler.failures.restore(history)
        with mock.patch.object(ReliabilityPlanner, "_few_of_each", few_of_each):
            told.tell(0, asked)
        standby = told.scheduler.records[1].standby if 1 in told.scheduler.records else None
        said.append((told.started, told.decided, told.closed, standby))
    assert said[0] == said[1]


@given(st.floats(0.0, 1.0, exclude_max=True))
@settings(deadline=None)
def test_what_can_be_had_is_never_told_as_more_than_it_is(reliability: float) -> None:
    assert float(at_most(reliability)) <= reliability
    assert float(at_most(reliability)) >= reliability - 1e-4
