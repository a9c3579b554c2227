"""Nodes of peers that offer themselves: to jobs that wait, over one hop and over two, and in their turn."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.peers.job_peers import NUMPY, OFFERED_FOR_MS, JobPeers
from tests.service.peers.triangle import site_of

from leasehold.gateway.peering import AskWhen
from leasehold.jobs.job import AttemptState, JobState
from leasehold.jobs.offers import MOST_STANDING
from leasehold.service.commands import JobNodesOffered, JobNodesSeen, MessageBatch
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.messages.about_jobs import NodesOffered
from leasehold.service.messages.endpoints import asking

SAYS = ("sh", "-c", "echo 42; sleep 2")
NODES = {
    "a": (EmulatedNode("n1", 2, 2_048),),
    "b": (EmulatedNode("n1", 2, 4_096, software=NUMPY), EmulatedNode("n2", 2, 4_096, software=NUMPY)),
    "c": (EmulatedNode("n1", 2, 4_096, software=NUMPY), EmulatedNode("n2", 2, 4_096, software=NUMPY)),
}


@pytest.fixture
def full(tmp_path: Path) -> Iterator[JobPeers]:
    """A job waits for nodes, all of which others use."""
    world = JobPeers(tmp_path, NODES)
    use_all(world)
    world.submit_job(*SAYS)
    assert (world.state(), world.job().record.what) == (JobState.WAITING, "cores-in-use")
    yield world
    world.close()


def use_all(world: JobPeers) -> None:
    for name in "bc":
        world.gateways[name].do(world.seen(name, n1=0, n2=0))
    for _ in range(3):
        world.exchange_all()


def is_offered(world: JobPeers, by: str, to: str) -> list[NodesOffered]:
    """What one passes on to a peer that has not arrived yet."""
    waiting = [row.body for row in world.stores[by].messages(asking(to), 0, 100)]
    return [NodesOffered.model_validate_json(body) for body in waiting if json.loads(body)["kind"] == "offered"]


def standing(world: JobPeers, name: str = "a") -> list[str]:
    live = world.gateways[name]
    return sorted(live.engine.jobs.scheduler.standing_offers(live.now_ms))


@pytest.mark.parametrize(("who", "node"), [("b", "b:site-b/n2"), ("c", "b:c:site-c/n2")], ids=["one hop", "two hops"])
def test_a_job_that_waits_starts_where_a_node_offers_itself(full: JobPeers, who: str, node: str) -> None:
    full.offer(who, n2=1)
    assert full.attempts() == []
    if who == "c":
        full.exchange("c", "b")
        full.exchange("b", "a")
    full.exchange("b", "a")
    assert [nodes for nodes, _, _ in full.tried()] == [(node,)]
    full.check_the_end("42\n")
    assert full.state() is JobState.COMPLETED


@pytest.mark.parametrize("is_made", [True, False])
def test_one_that_stands_is_looked_at_first(full: JobPeers, is_made: bool) -> None:  # noqa: FBT001 - a case
    if is_made:
        full.offer("b", n2=0)
        full.exchange("b", "a")
        full.exchange("b", "a")
        assert standing(full) == ["b:site-b/n2"]
    full.look("b")
    full.exchange("b", "a")
    assert full.tried()[0][0] == ("b:site-b/n2" if is_made else "b:site-b/n1",)


def test_but_no_farther_one_before_a_nearer_node(full: JobPeers) -> None:
    full.offer("c", n2=0)
    for _ in range(3):
        full.exchange("c", "b")
        full.exchange("b", "a")
    assert standing(full) == ["b:c:site-c/n2"]
    for name in "cb":
        full.look(name)
    full.exchange("c", "b")
    full.exchange("b", "a")
    full.exchange("b", "a")
    assert full.tried()[0][0] == ("b:site-b/n1",)


@pytest.mark.parametrize(("ask", "where"), [(AskWhen.NONE_CAN, ()), (AskWhen.NONE_CAN_NOW, ("b:site-b/n2",))])
def test_ones_own_come_first_as_the_terms_say(tmp_path: Path, ask: AskWhen, where: tuple[str, ...]) -> None:
    """A node of one's own that is used is waited for, unless peers are asked for what none can run now."""
    own = {**NODES, "a": (EmulatedNode("n1", 2, 2_048, software=NUMPY),)}
    world = JobPeers(tmp_path, own, ask=ask)
    use_all(world)
    world.gateways["a"].do(world.seen("a", n1=0))
    world.submit_job(*SAYS)
    world.offer("b", n2=1)
    world.exchange("b", "a")
    world.exchange("b", "a")
    assert [nodes for nodes, _, _ in world.tried()] == [where][: len(where)]
    if not where:
        world.look("a")
        assert world.tried()[0][0] == ("site-a/n1",)
    world.close()


@pytest.mark.parametrize(("for_ms", "node"), [(OFFERED_FOR_MS - 1, "b:site-b/n2"), (OFFERED_FOR_MS, "b:site-b/n1")])
def test_it_is_valid_for_its_time_from_when_it_arrives(full: JobPeers, for_ms: int, node: str) -> None:
    full.offer("b", n2=0)
    full.pass_time(2 * OFFERED_FOR_MS)  # the line is cut
    full.exchange("b", "a")
    full.exchange("b", "a")
    full.pass_time(for_ms)
    full.look("b")
    full.exchange("b", "a")
    assert full.tried()[0][0] == (node,)


def test_one_message_of_them_is_under_way(full: JobPeers) -> None:
    full.offer("b", n1=0)
    full.offer("b", n2=0)
    [told] = is_offered(full, "b", "a")
    assert [offer.node.name for offer in told.offers] == ["site-b/n1"]
    full.exchange("b", "a")
    [told] = is_offered(full, "b", "a")
    assert [offer.node.name for offer in told.offers] == ["site-b/n2"]
    for _ in range(4):
        full.exchange_all()
    assert is_offered(full, "b", "a") == []


def test_nobody_hears_of_its_own(full: JobPeers) -> None:
    full.offer("c", n2=0)
    for _ in range(4):
        full.exchange_all()
    assert [standing(full, name) for name in "abc"] == [["b:c:site-c/n2"], ["c:site-c/n2"], ["site-c/n2"]]


@pytest.mark.parametrize("how", ["drained", "nothing is lent"])
def test_where_nothing_is_lent_now_none_are_made(full: JobPeers, how: str) -> None:
    if how == "drained":
        full.drain_or_resume("b")
    else:
        full.agree("b", "a", max_vms=0)
    full.offer("b", n2=1)
    for _ in range(3):
        full.exchange("b", "a")
    assert (standing(full), full.attempts()) == ([], [])


def test_a_node_that_was_not_told_is_told_first(full: JobPeers) -> None:
    live = full.gateways["b"]
    full.gateways["b"].do(full.seen("b", n1=0, n2=1))  # and that is on its way
    full.gateways["b"].do(full.seen("b", n1=0, n2=0))
    new = replace(full.nodes_at("b")[1], name="n3")
    live.do(JobNodesSeen(site_of("b"), (*full.seen("b", n1=0, n2=0).nodes, new), live.now_ms))
    live.do(JobNodesOffered(site_of("b"), (new,), live.now_ms, live.now_ms + OFFERED_FOR_MS))
    assert is_offered(full, "b", "a") == []
    full.exchange("b", "a")
    assert [[offer.node.name for offer in told.offers] for told in is_offered(full, "b", "a")] == [["site-b/n3"]]


def test_no_more_than_so_many_stand_of_a_peer(tmp_path: Path) -> None:
    many = tuple(EmulatedNode(f"n{number:02}", 1, 4_096, software=NUMPY) for number in range(MOST_STANDING))
    world = JobPeers(tmp_path, {"a": NODES["a"], "b": many, "c": many})
    for name in "bc":
        world.offer(name, **dict.fromkeys((node.name for node in many), 1))
    for _ in range(6):
        world.exchange_all()
    assert len(standing(world)) == MOST_STANDING
    world.close()


def test_after_a_silence_they_are_made_again_when_nodes_were_seen(full: JobPeers) -> None:
    full.offer("b", n2=0)
    full.exchange("b", "a")
    full.exchange("b", "a")
    full.fall_silent("a", "b")
    assert standing(full) == []
    full.exchange("b", "a")
    full.exchange("b", "a")
    assert standing(full) == []
    full.pass_time(1_000)
    full.offer("b", n2=0)
    full.exchange("b", "a")
    full.exchange("b", "a")
    assert standing(full) == ["b:site-b/n2"]


@pytest.mark.parametrize(
    "name", ["site-b/n9", "site-x/n1", "n1", "a:site-a/n1", "site-a/n1", "../site-a/n1"],
)  # fmt: skip
def test_one_that_is_not_told_is_none(full: JobPeers, name: str) -> None:
    before = full.nodes()
    assert say(full, name, 1) is None
    assert (standing(full), full.attempts(), full.nodes().keys()) == ([], [], before.keys())


def test_more_than_so_many_at_once_are_not_understood(full: JobPeers) -> None:
    answer = say(full, "site-b/n1", MOST_STANDING + 1)
    assert isinstance(answer, Exception)
    assert f"at most {MOST_STANDING}" in str(answer)


def say(world: JobPeers, name: str, count: int) -> object:
    """Let ``b`` say so often to ``a`` that a node of this name offers itself; gives the answer."""
    world.offer("b", n2=0)
    [told] = is_offered(world, "b", "a")
    body = json.loads(told.model_dump_json())
    body["offers"] = [{**body["offers"][0], "node": {**body["offers"][0]["node"], "name": name}}] * count
    _, received = world.stores["a"].message_numbers("b")
    world.call("b", "a")
    call = world.on_the_line.pop()
    said = tuple(one for one in call.mail.messages if one[0] <= received)
    mail = MessageBatch("b", (*said, (received + 1, json.dumps(body))), call.mail.acknowledged, call.mail.status)
    return world.do("a", mail)


@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
@pytest.mark.parametrize("step", range(4))
def test_whoever_is_killed_it_is_taken_once(
    full: JobPeers,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
    step: int,
) -> None:
    full.offer("b", n2=1)
    for number in range(4):
        if number == step:
            full.interrupt(who, ("b", "a"), lost=lost)
        else:
            full.exchange("b", "a")
        full.pass_time(200)
        full.check()
    full.check_the_end("42\n")
    assert [(nodes, state) for nodes, state, _ in full.tried()] == [(("b:site-b/n2",), AttemptState.SUCCEEDED)]
