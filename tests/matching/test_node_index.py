"""The index finds what looking at every node would find, also after nodes have changed."""

from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matching.making import make_job, make_node

from leasehold.matching.assignment import Edge
from leasehold.matching.needs import Amounts, InputFile, Job
from leasehold.matching.node_index import NodeIndex
from leasehold.matching.nodes import EvaluationTime, Link, Network, Node, judge
from leasehold.matching.resource_sets import AS_PRINTED, BestFit, JointResourceSets, SequentialResourceSets
from leasehold.matching.verdict import FITS

NETWORK = Network(Link(5, 1_000_000), {("store", "there"): Link(50, 200_000)})
NOW = EvaluationTime(now_ms=1_000, fresh_for_ms=500)

SOFTWARE = [{}, {"gcc": "9"}, {"gcc": "12"}, {"gcc": "12", "r": "4"}, {"r": "3"}, {"x": "1"}, {"gcc": "13"}]


@st.composite
def nodes(draw: st.DrawFn, name: str = "") -> Node:
    cores, memory_mib, disk_mib = (
        draw(st.integers(0, 4)),
        draw(st.integers(0, 12)) * 10,
        draw(st.integers(0, 3)),
    )
    return make_node(
        name,
        cores=4,
        memory_mib=120,
        disk_mib=3,
        free=Amounts(
            cores,
            memory_mib,
            disk_mib,
            draw(st.sampled_from([(0, 0), (500, 0), (500, 500), (1_000, 0), (1_000, 500), (1_000, 1_000)])),
        ),
        gpus=2,
        gpu_shares=draw(st.sampled_from([0, 2])),
        gpu_model=draw(st.sampled_from(["a100", "t4"])),
        cpu_mhz=draw(st.sampled_from([1_000, 2_000])),
        has=draw(st.sampled_from(SOFTWARE)),
        place=draw(st.sampled_from(["here", "there"])),
        bytes_per_s=draw(st.sampled_from([100_000, 1_000_000])),
        waiting_ms=draw(st.integers(0, 3)) * 100,
        seen_ms=draw(st.sampled_from([400, 500, 1_000])),
        takes_files=draw(st.booleans()),
    )


FLEETS = st.lists(nodes(), max_size=14).map(
    lambda drawn: [
        replace(node, capabilities=replace(node.capabilities, name=f"n{number}")) for number, node in enumerate(drawn)
    ]
)
JOBS = st.builds(
    make_job,
    cores=st.integers(1, 3),
    memory_mib=st.integers(1, 100),
    disk_mib=st.integers(0, 3),
    cpu_mhz=st.sampled_from([0, 2_000]),
    gpu_milli=st.sampled_from([250, 500, 1_000, 2_000, 3_000]),
    gpu_model=st.sampled_from(["", "a100"]),
    needs=st.sampled_from(["", "gcc", "gcc >= 12", "r", "gcc;r >= 4", "z"]),
    nodes=st.integers(1, 3),
    deadline_ms=st.sampled_from([None, 2_101, 2_301, 9_000]),
    inputs=st.sampled_from([(), (InputFile("a", 20_000, "store"),)]),
    outputs=st.sampled_from([(), ("out",)]),
)


def all_edges(job: Job, fleet: list[Node]) -> list[Edge]:
    """Look at every node."""
    found = []
    for node in fleet:
        able = node.capabilities
        transfer_ms = NETWORK.transfer_ms(job.needs.inputs, able.place, able.bytes_per_s)
        if judge(job, node, transfer_ms, NOW) is FITS:
            found.append(Edge(transfer_ms + node.waiting_ms, node.free.memory_mib, -able.bytes_per_s, node.name))
    return sorted(found)


@given(FLEETS, JOBS, st.sets(st.sampled_from(["n0", "n1", "n2"])))
def test_without_a_window_it_gives_every_node_that_fits_the_best_first(
    fleet: list[Node], job: Job, taken: set[str]
) -> None:
    sets = SequentialResourceSets(NodeIndex(fleet, NETWORK), NOW, best_fit=None)
    assert list(sets.edges(job, taken)) == [edge for edge in all_edges(job, fleet) if edge.node not in taken]


@given(FLEETS, JOBS, st.sets(st.sampled_from(["n0", "n1", "n2"])))
def test_with_a_window_it_gives_those_near_enough_in_memory(fleet: list[Node], job: Job, taken: set[str]) -> None:
    fitting = [edge for edge in all_edges(job, fleet) if edge.node not in taken]
    upper = AS_PRINTED.upper_mib(
        job.needs.amounts.memory_mib, iter(sorted(edge.memory_mib for edge in fitting)), job.needs.nodes
    )
    near = [edge for edge in fitting if upper is None or edge.memory_mib <= upper]
    assert list(SequentialResourceSets(NodeIndex(fleet, NETWORK), NOW).edges(job, taken)) == near


@given(FLEETS, JOBS, st.integers(1, 8), st.sets(st.sampled_from(["n0", "n1", "n2"])))
def test_a_set_made_in_turn_lies_within_one_made_for_all(
    fleet: list[Node], job: Job, more: int, taken: set[str]
) -> None:
    index = NodeIndex(fleet, NETWORK)
    wanted = job.needs.nodes + len(taken) + more
    together = set(JointResourceSets(index, NOW, wanted, BestFit()).edges(job, ()))
    assert set(SequentialResourceSets(index, NOW).edges(job, taken)) <= together


@given(FLEETS, FLEETS, JOBS)
def test_after_changes_it_is_as_if_made_anew(before: list[Node], after: list[Node], job: Job) -> None:
    index = NodeIndex(before, NETWORK)
    for node in after:
        index.put(node)
    for node in before[len(after) :]:
        index.drop(node.name)
    assert len(index) == len(after)
    assert list(SequentialResourceSets(index, NOW).edges(job, ())) == list(
        SequentialResourceSets(NodeIndex(after, NETWORK), NOW).edges(job, ())
    )


@given(FLEETS, FLEETS, st.sampled_from([0, 1, 2]), st.sets(st.sampled_from(["n0", "n1", "n2", "n99"])))
def test_nodes_that_differ_in_their_names_alone_are_one_kind(
    before: list[Node], after: list[Node], unlike: int, without: set[str]
) -> None:
    """Of a few nodes none is like another: so only some of those that were drawn are what the others are."""
    index = NodeIndex(before, NETWORK)
    drawn = after[: unlike + 1]
    fleet = [_named(drawn[number % len(drawn)], node.name) for number, node in enumerate(after)]
    index.put_all(fleet)
    index.drop_all([node.name for node in before[len(after) :]])
    kinds = [(_named(node, ""), count) for node, count in index.kinds(without)]
    expected = Counter(_named(node, "") for node in fleet if node.name not in without)
    assert len(kinds) == len(expected)
    assert dict(kinds) == expected


def _named(node: Node, name: str) -> Node:
    return replace(node, capabilities=replace(node.capabilities, name=name))


@given(FLEETS, FLEETS, JOBS, st.sampled_from([0, 1, 16]))
def test_many_at_once_come_and_go_as_one_after_the_other(
    before: list[Node], after: list[Node], job: Job, few: int
) -> None:
    one_by_one, at_once = NodeIndex(before, NETWORK), NodeIndex(before, NETWORK)
    with mock.patch("leasehold.matching.node_index._FEW_BUCKETS", few):
        at_once.put_all(after)
        at_once.drop_all([node.name for node in before[len(after) :]])
    for node in after:
        one_by_one.put(node)
    for node in before[len(after) :]:
        one_by_one.drop(node.name)
    assert list(at_once.nodes()) == list(one_by_one.nodes())
    assert list(SequentialResourceSets(at_once, NOW).edges(job, ())) == list(
        SequentialResourceSets(one_by_one, NOW).edges(job, ())
    )


def test_a_node_that_is_not_there_is_an_error() -> None:
    index = NodeIndex([make_node("a")])
    assert index.node("a").name == "a"
    with pytest.raises(KeyError):
        index.drop("b")
