"""Where a job begins: nodes that have what it needs, else machines built for it, else nowhere."""

from typing import Any

import pytest
from tests.jobs.making import BASE, S, Told, ask, catalogue, image, seen, site, submitted

from leasehold.jobs.events import AttemptEnded, AttemptRuns, NodesSeen, Turn
from leasehold.jobs.settings import JobSettings, Matching
from leasehold.model.errors import InvalidField, UnknownName

GCC = {"gcc": "12.2"}


def test_a_node_that_has_what_it_needs_runs_it_and_no_machine_is_built() -> None:
    told = Told(site(seen("a/1"), seen("a/2", has=GCC)), catalogue(image("i", GCC)))

    told.tell(1, submitted(needs="gcc >= 12"))

    assert told.started == [(1, 1, ("a/2",))]
    assert told.decided == [(1, "runs-on-nodes", "")]


def test_a_machine_is_built_where_no_node_has_the_software() -> None:
    told = Told(site(seen("a/1", is_host=True)), catalogue(image("with gcc", GCC)))

    told.tell(1, submitted(needs="gcc"))

    assert told.started == [(1, 1, ("a/1",))]
    assert told.decided == [(1, "runs-in-machines", "")]


def test_a_machine_needs_room_for_its_own_system_too() -> None:
    told = Told(site(seen("a/1", is_host=True, memory_mib=199)), catalogue(image("with gcc", GCC)))

    told.tell(1, submitted(needs="gcc", memory_mib=100))

    assert told.closed == [(1, "refused", "never-here", 0)]
    assert told.decided == [(1, "never-here", "no-host")]


@pytest.mark.parametrize(
    ("needs", "what"),
    [
        ({"needs": "julia >= 1.10"}, "no-image: julia >= 1.10"),
        ({"cores": 9}, "too-few-cores: asks for 9 cores on each node, and none has more than 4 cores"),
        (
            {"memory_mib": 5_000},
            "too-little-memory: asks for 5000 MiB on each node, and none has more than 1000 MiB",
        ),
        ({"nodes": 5}, "too-few-nodes: asks for 5, and no site has more than 1 that would do"),
    ],
)
def test_what_can_run_nowhere_is_refused_at_once_with_what_is_lacking(needs: dict[str, int], what: str) -> None:
    told = Told(site(seen("a/1")), catalogue())

    told.tell(1, submitted(**needs))

    assert told.decided == [(1, "never-here", what)]
    assert told.closed == [(1, "refused", "never-here", 0)]


def test_all_nodes_of_a_job_are_of_one_site() -> None:
    told = Told(site(seen("a/1")), NodesSeen("b", (seen("b/1"), seen("b/2"))))

    told.tell(1, submitted(nodes=2))

    assert told.started == [(1, 1, ("b/1", "b/2"))]


def peers(*names: str, turn: Turn = Turn.NONE_CAN, **facts: Any) -> list[NodesSeen]:
    """Sites of one node each, which are considered after the gateway's own."""
    return [NodesSeen(name, (seen(f"{name}/1", **facts),), turn=turn) for name in names]


@pytest.mark.parametrize(
    ("turn", "cores", "busy", "where"),
    [
        (Turn.NONE_CAN, 4, False, "a/1"),
        (Turn.NONE_CAN, 4, True, ""),
        (Turn.NONE_CAN, 8, False, "p:z/1"),
        (Turn.NONE_CAN_NOW, 4, False, "a/1"),
        (Turn.NONE_CAN_NOW, 4, True, "p:z/1"),
        (Turn.NONE_CAN_NOW, 8, False, "p:z/1"),
        (Turn.NEVER, 8, False, ""),
    ],
)
def test_ones_own_nodes_come_before_those_of_peers(turn: Turn, cores: int, busy: bool, where: str) -> None:  # noqa: FBT001 - a case
    """Whatever their names are, the fewest hops first."""
    own = site(seen("a/1", free_cores=0 if busy else 4))
    told = Told(own, *peers("p:z", "p:b:y", turn=turn, cores=8))

    told.tell(1, submitted(cores=cores))

    assert [nodes for _, _, nodes in told.started] == ([(where,)] if where else [])


def test_a_site_may_be_considered_at_another_time_than_before() -> None:
    told = Told(site(seen("a/1")), *peers("p:z", turn=Turn.NEVER, cores=8))

    told.tell(1, submitted(1, cores=8))
    assert told.decided[-1] == (
        1,
        "never-here",
        "too-few-cores: asks for 8 cores on each node, and none has more than 4 cores",
    )
    assert told.tell(2, *peers("p:z", turn=Turn.FIRST, cores=8), submitted(2, cores=8)).started == [(2, 1, ("p:z/1",))]
    assert told.tell(3, *peers("p:z", turn=Turn.NEVER, cores=8), submitted(3, cores=8)).started == []


def test_nobody_else_is_asked_before_all_of_ones_own_nodes_are_known() -> None:
    told = Told(*peers("p:z"), settings=JobSettings(sites=frozenset({"a"})))

    assert told.tell(1, submitted()).started == []
    assert told.tell(2, site(seen("a/1"))).started == [(1, 1, ("a/1",))]


def test_several_jobs_of_an_instant_share_a_node_as_far_as_there_is_room() -> None:
    told = Told(site(seen("a/1", cores=2)))

    told.tell(1, submitted(1), submitted(2), submitted(3))

    assert [job for job, _, _ in told.started] == [1, 2]
    assert told.decided[-1] == (3, "waits-its-turn", "taken-by-others")


def test_what_was_promised_since_a_node_was_seen_is_not_free() -> None:
    told = Told(site(seen("a/1", cores=4, at_ms=1))).tell(2, submitted(1, cores=3))

    assert told.tell(3, submitted(2, cores=2)).started == []
    # It is seen while the attempt has not begun: what it is going to use is not free either.
    assert told.tell(4, site(seen("a/1", cores=4, at_ms=4))).started == []
    # Once it has begun, whoever looks sees it; a site that does not is not believed.
    told.tell(5, AttemptRuns(1, 1))
    assert told.tell(6, site(seen("a/1", cores=4, at_ms=6))).started == []


def test_optimal_matching_lets_an_earlier_job_step_aside_for_a_later_one() -> None:
    both = seen("a/2", cores=1, has=GCC | {"r": "4.3"})
    nodes = site(seen("a/1", cores=1, has=GCC, waiting_ms=S), both)
    jobs = [submitted(1, needs="gcc"), submitted(2, needs="r")]

    greedy = Told(nodes, settings=JobSettings(queue="fcfs")).tell(1, *jobs)
    assert greedy.started == [(1, 1, ("a/2",))]

    optimal = Told(nodes, settings=JobSettings(queue="fcfs", matching=Matching.OPTIMAL)).tell(1, *jobs)
    assert optimal.started == [(1, 1, ("a/1",)), (2, 1, ("a/2",))]


def test_a_foresight_says_what_would_happen_and_changes_nothing() -> None:
    told = Told(site(seen("a/1", is_host=True)), catalogue(buildable={"r": "4.3"}))

    forecast = told.scheduler.forecast(ask(1, needs="r"), 1)

    assert (forecast.state.value, forecast.reason.value, forecast.what) == (
        "building", "image-is-built", "base+r=4.3"
    )  # fmt: skip
    assert told.scheduler.forecast(ask(1), 1).reason.value == "runs-on-nodes"
    assert told.scheduler.forecast(ask(1, cores=9), 1).what.startswith("too-few-cores: ")
    assert told.scheduler.forecast(ask(1, deadline_ms=5 * S), 1).reason.value == "too-late"
    assert not told.scheduler.records


def test_nobody_is_refused_before_all_sites_have_told_of_their_nodes() -> None:
    settings = JobSettings(sites=frozenset("ab"), images_awaited=True)
    told = Told(settings=settings).tell(1, submitted(cores=4, at_ms=1))
    assert told.decided == [(1, "tried-again-later", "facts-too-old: a")]

    told.tell(2, site(seen("a/1", cores=2, at_ms=2)), catalogue(), NodesSeen("b", (seen("b/1", at_ms=2),)))
    assert told.started == [(1, 1, ("b/1",))]


def test_a_finished_job_makes_room_for_the_next() -> None:
    told = Told(site(seen("a/1", cores=1))).tell(1, submitted(1), submitted(2))

    told.tell(9, AttemptEnded(1, 1, 0))

    assert told.closed == [(1, "completed", "completed", 1)]
    assert told.started == [(2, 1, ("a/1",))]


def test_a_job_is_submitted_once() -> None:
    told = Told(site(seen("a/1"))).tell(1, submitted(1))

    with pytest.raises(InvalidField, match="not here already"):
        told.tell(2, submitted(1))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UnknownName, match="edf"):
        JobSettings(queue="edg")
    with pytest.raises(InvalidField, match="hot_copies"):
        JobSettings(hot_copies=1)
    with pytest.raises(InvalidField, match="fresh_for_ms"):
        JobSettings(fresh_for_ms=0)


def test_the_image_is_the_smallest_that_has_the_software() -> None:
    told = Told(site(seen("a/1", is_host=True)), catalogue(image("b", GCC), BASE, image("a", GCC)))

    record = told.tell(1, submitted(needs="gcc")).scheduler.records[1]

    assert record.attempts[0].place.image.name == "a"  # type: ignore[union-attr]
