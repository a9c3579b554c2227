"""Jobs on nodes of peers, over one hop and over two: the same placement, results and reasons, whoever dies."""

import json
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.messages.errands import left_as
from tests.service.messages.line import rows_of
from tests.service.peers.job_peers import GCC, NODES, NUMPY, SLOTS, JobPeers
from tests.service.peers.triangle import site_of

from leasehold.gateway.peering import AskWhen
from leasehold.jobs.events import Turn
from leasehold.jobs.job import AttemptState, Backup, Fault, JobReason, JobRequest, JobState
from leasehold.matching.needs import Amounts, Job, Needs
from leasehold.matching.software import software
from leasehold.service.commands import MessageBatch, RemovePeer
from leasehold.service.drivers.protocol import Order, PlacementConstraints, Verb
from leasehold.service.jobs import NOT_ASKED, OWN_FIRST, answer_of_own, verdicts
from leasehold.service.messages.about_jobs import MOST_OF_A_PEER, NodesTold
from leasehold.service.messages.endpoints import asking

A = AttemptState
ONE_HOP, TWO_HOPS = ("b:site-b/n1", "b:site-b/n2"), "b:c:site-c/n1"
RING = tuple(permutations(NODES, 2))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[JobPeers]:
    one = JobPeers(tmp_path)
    yield one
    one.close()


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[..., JobPeers]]:
    """Make worlds that are not as usual."""
    made: list[JobPeers] = []

    def make(*said: object, **more: object) -> JobPeers:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(JobPeers(folder, *said, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


class TestNodes:
    def test_those_of_peers_are_known_and_those_of_their_peers(self, world: JobPeers) -> None:
        assert sorted(world.nodes()) == [TWO_HOPS, *ONE_HOP, "site-a/n1"]
        there = world.nodes()[TWO_HOPS]
        assert (there.site, there.cores, there.software) == ("b:c:site-c", 4, NUMPY | GCC)

    def test_no_further_than_the_terms_of_both_ends_allow(self, worlds: Callable[..., JobPeers]) -> None:
        world = worlds(hops=1)
        assert sorted(world.nodes()) == [*ONE_HOP, "site-a/n1"]
        for name, other in (("b", "a"), ("b", "c"), ("c", "b")):
            world.hops = 2
            world.agree(name, other)
        for _ in range(4):
            world.exchange_all()
        assert TWO_HOPS not in world.nodes(), "the terms of the first allow one hop"
        world.agree("a", "b")
        for _ in range(4):
            world.exchange_all()
        assert TWO_HOPS in world.nodes(), "all of it is told once more"

    def test_nobody_hears_of_its_own_and_the_shortest_way_is_taken(self, worlds: Callable[..., JobPeers]) -> None:
        world = worlds(ways=RING, hops=7)
        for name in NODES:
            others = [node for node in world.nodes(name) if ":" in node]
            assert not any(site_of(name) in node for node in others)
        assert {"b:c:site-c/n1", "c:site-c/n1"} <= world.nodes().keys()
        turns = world.gateways["a"].engine.jobs.peer_sites.turns(())
        assert (turns["c:site-c"], turns["b:c:site-c"]) == (Turn.NONE_CAN, Turn.NEVER)
        world.submit_job("true", needs="gcc")
        assert world.tried()[0][0] == ("c:site-c/n1",)

    def test_the_next_shortest_way_is_taken_where_a_peer_is_silent(self, worlds: Callable[..., JobPeers]) -> None:
        world = worlds(ways=RING)
        world.fall_silent("a", "c")
        world.submit_job("true", needs="gcc")
        assert world.tried()[0][0] == (TWO_HOPS,)

    def test_a_site_that_takes_nothing_now_is_there_and_not_used(self, world: JobPeers) -> None:
        world.drain_or_resume("c")
        world.to_and_fro(3)
        assert world.nodes()[TWO_HOPS].problem == "c:site-c: its site takes no leases now"
        world.submit_job("true", needs="gcc")
        assert (world.state(), world.job().record.reason) == (JobState.WAITING, JobReason.NODES_DOWN)
        world.drain_or_resume("c")
        world.to_and_fro(12)
        assert world.state() is JobState.COMPLETED

    @pytest.mark.parametrize("who", NODES)
    def test_nothing_is_lost_when_one_is_killed(self, world: JobPeers, who: str) -> None:
        before = {name: sorted(world.nodes(name)) for name in NODES}
        world.pass_time(1_000)
        world.restart(who)
        world.to_and_fro(4)
        assert {name: sorted(world.nodes(name)) for name in NODES} == before
        assert not any(row.problem for name in NODES for row in world.nodes(name).values())
        world.submit_job("true", needs="gcc")
        world.to_and_fro(10)
        assert world.state() is JobState.COMPLETED

    def test_only_what_has_changed_is_told_and_one_message_at_a_time(self, world: JobPeers) -> None:
        world.to_and_fro(3)
        for _ in range(3):
            world.pass_time(30_000)
            world.look("b")
        [left] = [row for row in world.stores["b"].messages(asking("a"), 0, 10) if '"nodes"' in row.body]
        told = NodesTold.model_validate_json(left.body)
        assert (told.nodes, told.gone, told.complete) == ((), (), True)
        for _ in range(20):
            world.exchange_all()
        assert not any(
            world.stores[by].messages(to, 0, 10) for by in NODES for other in NODES for to in (other, asking(other))
        )

    def test_a_peer_that_is_removed_has_none(self, world: JobPeers) -> None:
        both = frozenset({"b", "a", asking("a"), asking("b")})
        world.do("a", RemovePeer("b", both, "operator"))
        assert sorted(world.nodes()) == ["site-a/n1"]
        world.submit_job("true")
        assert (world.state(), world.job().record.what) == (JobState.REFUSED, "no-image: numpy")

    def test_images_and_hosts_are_not_lent(self, worlds: Callable[..., JobPeers]) -> None:
        world = worlds()
        assert not any(row.is_host for row in world.nodes().values() if ":" in row.site)


class TestWhenPeersAreAsked:
    @pytest.mark.parametrize(
        ("ask", "first", "second"),
        [
            (AskWhen.NONE_CAN, JobState.WAITING, JobState.STARTING),
            (AskWhen.NONE_CAN_NOW, JobState.STARTING, JobState.STARTING),
            (AskWhen.NEVER, JobState.WAITING, JobState.REFUSED),
        ],
    )
    def test_as_the_terms_say(
        self, worlds: Callable[..., JobPeers], ask: AskWhen, first: JobState, second: JobState
    ) -> None:
        world = worlds(ask=ask)
        world.submit_job("sleep", "60", needs="", cores=2, runs_s=60)
        assert world.tried()[0][0] == ("site-a/n1",), "one's own come first"
        world.submit_job("true", needs="", cores=1)
        world.submit_job("true")
        assert (world.state(2), world.state(3)) == (first, second)

    def test_terms_that_change_hold_from_then_on(self, world: JobPeers) -> None:
        world.agree("a", "b", AskWhen.NEVER)
        world.submit_job("true")
        assert world.state() is JobState.REFUSED
        world.agree("a", "b", AskWhen.NONE_CAN)
        world.submit_job("true")
        assert world.state(2) is JobState.STARTING

    def test_what_runs_there_goes_on_though_no_more_is_asked_for(self, world: JobPeers) -> None:
        world.submit_job("sleep", "5", runs_s=5)
        world.to_and_fro(2)
        world.agree("a", "b", AskWhen.NEVER)
        world.to_and_fro(10)
        assert [state for _, state, _ in world.tried()] == [A.SUCCEEDED]

    def test_a_lender_that_lends_nothing_more_is_not_asked(self, world: JobPeers) -> None:
        world.agree("b", "a", max_vms=0)
        world.to_and_fro(3)
        world.submit_job("true")
        assert world.job().record.reason is JobReason.NODES_DOWN
        assert "b:site-b/n1" in world.job().record.what

    def test_a_job_that_is_to_be_sure_has_copies_here_and_at_peers(self, world: JobPeers) -> None:
        soon_ms = world.gateways["a"].now_ms + 600_000
        world.submit_job("sleep", "4", reliability=0.9, deadline_ms=soon_ms)
        world.to_and_fro(10)
        assert (world.state(), world.tried()[0][:2]) == (JobState.COMPLETED, (("b:site-b/n1",), A.SUCCEEDED))
        assert world.job().record.surest is not None
        world.submit_job("sleep", "4", needs="", reliability=0.9, deadline_ms=soon_ms)
        assert [nodes for nodes, _, _ in world.tried(2)] == [("site-a/n1",)], "one's own come first"

    def test_how_often_nodes_of_a_peer_fail_is_learnt_from_what_it_tells(self, world: JobPeers) -> None:
        live = world.gateways["b"]
        for _ in range(3):
            live.sites["site-b"].machines.inject("n1", Fault.NODE_DIED, live.now_ms, 5_000)
            world.look("b")
            world.to_and_fro(3, 3_000)
            world.look("b")
            world.to_and_fro(2)
        nodes = world.nodes()
        assert [(nodes[name].failures, nodes[name].charged) for name in ONE_HOP] == [(3, 3), (0, 0)]
        world.submit_job("true", reliability=0.5, deadline_ms=live.now_ms + 600_000)
        assert world.tried()[0][0] == ("b:site-b/n2",)

    def test_how_sure_a_job_can_be_had_is_said_over_all_nodes_that_it_may_use(self, world: JobPeers) -> None:
        soon_ms = world.gateways["a"].now_ms + 60_000
        world.submit_job("true", needs="gcc", reliability=0.999999999, deadline_ms=soon_ms, restarts=0)
        record = world.job().record
        assert (record.state, record.reason) == (JobState.REFUSED, JobReason.NOT_SURE_ENOUGH)
        assert record.what.endswith(" at most")

    def test_nodes_of_peers_say_to_it_that_ones_own_come_first_only_if_these_are_sure_enough(
        self, world: JobPeers
    ) -> None:
        engine = world.gateways["a"].engine
        needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=5_000)
        for reliability, said in ((0.5, OWN_FIRST), (0.999999999, "")):
            job = Job(job_id=1, submitted_ms=0, needs=needs, deadline_ms=engine.now_ms + 8_000)
            asked = JobRequest(job=job, command=("true",), consumer="physics", reliability=reliability)
            groups = verdicts(engine, job, answer_of_own(engine, asked))
            assert {group.site: group.says.problem for group in groups}["b:site-b"] == said

    def test_the_nodes_of_a_peer_give_their_reasons_under_its_name(self, world: JobPeers) -> None:
        needs = Needs(amounts=Amounts(8, 256, 0), execution_ms=1, software=(software("numpy"),))
        groups = verdicts(world.gateways["a"].engine, Job(job_id=1, submitted_ms=0, needs=needs))
        said = {group.site: group.says.as_node and group.says.as_node.why.value for group in groups}
        assert said == {
            "site-a": "software-not-there",
            "b:site-b": "too-few-cores",
            "b:c:site-c": "too-few-cores",
        }

    @pytest.mark.parametrize(
        ("ask", "busy", "nodes", "said"),
        [
            (AskWhen.NONE_CAN, False, 1, OWN_FIRST),
            (AskWhen.NONE_CAN, True, 1, OWN_FIRST),
            (AskWhen.NONE_CAN, False, 2, ""),
            (AskWhen.NONE_CAN_NOW, False, 1, OWN_FIRST),
            (AskWhen.NONE_CAN_NOW, True, 1, ""),
            (AskWhen.NEVER, True, 1, NOT_ASKED),
        ],
    )
    def test_and_say_why_they_are_not_considered(
        self,
        worlds: Callable[..., JobPeers],
        ask: AskWhen,
        busy: bool,  # noqa: FBT001 - a case
        nodes: int,
        said: str,
    ) -> None:
        world = worlds(ask=ask)
        if busy:
            world.gateways["a"].do(world.seen("a", n1=0))
        needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=1, nodes=nodes)
        groups = verdicts(world.gateways["a"].engine, Job(job_id=1, submitted_ms=0, needs=needs))
        assert {group.site: group.says.problem for group in groups}["b:site-b"] == said
        world.submit_job("true", needs="", nodes=nodes)
        assert bool(world.tried() and world.tried()[0][0][0].startswith("b:")) == (said == "")


SAYS = ("sh", "-c", "echo 42; sleep 2")


class TestJobs:
    @pytest.mark.parametrize(("needs", "at"), [("numpy", "b"), ("gcc", "c")], ids=["one hop", "two hops"])
    def test_one_runs_where_its_software_is_and_its_result_comes_back(
        self, world: JobPeers, needs: str, at: str
    ) -> None:
        world.submit_job("sh", "-c", "echo 42; sleep 2; exit 3", needs=needs)
        world.to_and_fro(8)
        assert (world.state(), world.job().exit_status) == (JobState.FAILED, 3)
        wrote = world.output()
        assert wrote is not None
        assert (wrote.text, wrote.is_whole) == ("42\n", True)
        where, row = world.where_it_ran(world.attempts()[0].lease_id or 0)
        assert (where, row.lease.site) == (at, site_of(at))

    def test_it_runs_on_the_nodes_that_were_chosen(self, world: JobPeers) -> None:
        world.submit_job("sleep", "60", runs_s=60, nodes=2)
        assert world.tried()[0][0] == ONE_HOP
        world.to_and_fro(2)
        [seen] = world.gateways["b"].sites["site-b"].machines.observe()
        assert sorted(seen.nodes) == ["n1", "n2"]

    def test_all_nodes_of_one_are_of_one_site(self, world: JobPeers) -> None:
        world.submit_job("true", nodes=3)
        assert (world.state(), world.job().record.what) == (
            JobState.REFUSED,
            "too-few-nodes: asks for 3, and no site has more than 2 that would do",
        )

    def test_one_that_fits_no_node_is_refused_with_the_same_reason_as_here(self, world: JobPeers) -> None:
        world.submit_job("true", cores=5)
        record = world.job().record
        assert (record.state, record.reason) == (JobState.REFUSED, JobReason.NEVER_HERE)
        assert record.what == "too-few-cores: asks for 5 cores on each node, and none has more than 4 cores"

    def test_each_state_is_told(self, world: JobPeers) -> None:
        world.submit_job("sleep", "3", needs="gcc")
        assert (world.state(), world.attempts()[0].attempt.started_ms) == (JobState.STARTING, -1)
        world.to_and_fro(3)
        assert world.state() is JobState.RUNNING
        world.to_and_fro(5)
        assert world.state() is JobState.COMPLETED

    @pytest.mark.parametrize("needs", ["numpy", "gcc"])
    def test_a_cancelled_one_is_stopped_there(self, world: JobPeers, needs: str) -> None:
        world.submit_job("sleep", "60", runs_s=60, needs=needs)
        world.to_and_fro(3)
        world.cancel_job()
        assert world.state() is JobState.CANCELLED
        world.to_and_fro(4)
        assert world.is_quiet()
        assert not any(live.sites[site_of(name)].machines.observe() for name, live in world.gateways.items())

    def test_a_node_that_dies_lets_it_begin_again_elsewhere(self, world: JobPeers) -> None:
        world.submit_job("sleep", "10", runs_s=10)
        world.to_and_fro(3)
        world.gateways["b"].sites["site-b"].machines.inject("n1", Fault.NODE_DIED, world.gateways["a"].now_ms, 600_000)
        world.look("b")
        world.to_and_fro(20)
        first, second = world.tried()
        assert first == (("b:site-b/n1",), A.FENCED, "node-died")
        assert second == (("b:site-b/n2",), A.SUCCEEDED, "")
        assert world.state() is JobState.COMPLETED

    def test_software_that_is_gone_is_no_fault_of_the_command(self, world: JobPeers) -> None:
        world.submit_job("sh", "-c", "sleep 1; exit 127", runs_s=10, needs="gcc")
        world.to_and_fro(6)
        assert world.tried()[0][2] == "software-gone"

    def test_a_command_that_takes_too_long_is_not_tried_again(self, world: JobPeers) -> None:
        world.submit_job("sleep", "60", runs_s=2, needs="gcc")
        world.to_and_fro(14)
        assert world.tried()[0][1:] == (A.FAILED, "time-over")

    def test_where_the_owner_has_the_room_it_waits_in_the_queue_of_the_site(self, world: JobPeers) -> None:
        world.submit_job("sleep", "4", needs="gcc", cores=2)
        world.submit_at("c", 4, 30_000)
        world.to_and_fro(4)
        assert (world.state(), world.job().record.reason) == (JobState.WAITING, JobReason.WAITS_AT_SITE)
        world.to_and_fro(40)
        assert (world.state(), world.job().record.restarts) == (JobState.COMPLETED, 0)

    def test_a_node_that_was_filled_since_it_was_seen_is_not_now_and_costs_no_restart(self, world: JobPeers) -> None:
        """More of the owner's machines are on that node than its gateway knows."""
        world.submit_job("sleep", "4", cores=2)
        full = Order("99.1.start", Verb.START, 99, 1, 1, 64, constraints=PlacementConstraints(("n1",), cores=2))
        world.gateways["b"].sites["site-b"].machines.carry_out([full], world.gateways["a"].now_ms)
        world.to_and_fro(10)
        assert (world.state(), world.job().record.restarts) == (JobState.COMPLETED, 0)
        lines = world.stores["a"].journal(0, 1_000)
        assert "node-full" in [line.reason for line in lines if line.what == "job"]

    def test_a_copy_may_run_at_a_peer(self, world: JobPeers) -> None:
        world.submit_job("sleep", "4", backup=Backup.HOT)
        assert {nodes for nodes, _, _ in world.tried()} == {("b:site-b/n1",), ("b:site-b/n2",)}
        world.to_and_fro(10)
        assert sorted(state for _, state, _ in world.tried()) == sorted([A.SUCCEEDED, A.FENCED])

    @pytest.mark.parametrize("needs", ["numpy", "gcc"], ids=["one hop", "two hops"])
    def test_what_it_leaves_comes_back(self, world: JobPeers, needs: str) -> None:
        world.submit_job("true", needs=needs, outputs=("out",))
        world.to_and_fro(12)
        assert world.state() is JobState.COMPLETED
        wrote = world.output()
        assert wrote is not None
        assert wrote.files == (left_as("out"),)

    def test_it_takes_as_long_as_on_the_site_and_not_as_on_the_slowest_of_the_peer(self, world: JobPeers) -> None:
        site = world.gateways["a"].engine.jobs.peer_sites.get("b:site-b")
        assert site is not None
        assert site.speed_mips == world.gateways["b"].gateway.registry.speed_of("site-b")

    def test_the_lender_accounts_for_it_and_its_quota_holds(self, world: JobPeers) -> None:
        world.agree("b", "a", max_vms=1)
        world.to_and_fro(2)
        for _ in range(2):
            world.submit_job("sleep", "4", runs_s=4)
        world.to_and_fro(2)
        assert world.gateways["b"].gateway.peering.vms_here("a") == 1
        assert [world.state(number) for number in (1, 2)] == [JobState.RUNNING, JobState.WAITING]
        assert world.job(2).record.reason is JobReason.SITE_SAID_NOT_NOW
        assert "more VMs than its gateway may hold at this peer" in world.job(2).record.what
        world.to_and_fro(8, 30_000)  # it is tried again at its time
        assert {world.state(number) for number in (1, 2)} == {JobState.COMPLETED}


class TestSilence:
    def test_after_long_what_runs_there_begins_again_elsewhere_and_counts_once(self, world: JobPeers) -> None:
        world.submit_job("sleep", "20", runs_s=20)
        world.to_and_fro(2)
        world.fall_silent("b", "c")  # further on, which concerns nobody
        world.fall_silent("a", "b")
        assert world.tried()[0][1:] == (A.FENCED, "network-failed")
        assert world.state() is JobState.WAITING
        world.pass_time(25_000)  # and it ends where nobody is heard of
        world.to_and_fro(40)
        assert (world.state(), world.job().record.delivered) == (JobState.COMPLETED, 2)
        assert not any(row.problem for row in world.nodes().values()), "they are told anew"
        assert world.is_quiet()

    def test_a_peer_tells_that_what_is_beyond_it_is_silent(self, world: JobPeers) -> None:
        world.submit_job("sleep", "20", runs_s=20, needs="gcc")
        world.to_and_fro(3)
        world.fall_silent("b", "c")
        world.exchange("b", "a")
        assert world.tried()[0][1:] == (A.FENCED, "network-failed")
        assert world.nodes()[TWO_HOPS].problem.startswith("c:site-c: the site does not answer")
        world.to_and_fro(60)
        assert (world.state(), world.job().record.delivered) == (JobState.COMPLETED, 2)


class TestALiar:
    """`b` says to `a` what is not so, or asks `c` for what it may not have."""

    def tell(self, world: JobPeers, **lie: object) -> object:
        """Let ``b`` tell ``a`` of nodes, with a lie in it."""
        world.look("b")
        [row] = [row for row in world.stores["b"].messages(asking("a"), 0, 10) if '"nodes"' in row.body]
        body = json.loads(row.body) | {"listing": 1 << 50} | lie
        world.call("b", "a")
        call = world.on_the_line.pop()
        messages = tuple((seq, json.dumps(body) if seq == row.seq else text) for seq, text in call.mail.messages)
        return world.do("a", MessageBatch("b", messages, call.mail.acknowledged, call.mail.status))

    def site(self, world: JobPeers, name: str = "site-b", **said: object) -> dict[str, object]:
        via = [world.identity("b")]
        return {"name": name, "via": via, "hop_limit": 1, "speed_mips": 1, "by_nodes": False, "age_ms": 0} | said

    def node(self, world: JobPeers, name: str) -> dict[str, object]:
        [first, *_] = [
            told
            for told, _ in world.gateways["b"].engine.remote_sites.jobs._reporters[asking("a")]._listing.nodes.values()
        ]
        return first.model_dump(mode="json") | {"name": name, "software": -1}

    @pytest.mark.parametrize(
        "way",
        ["without itself", "through us", "twice through one", "too far"],
    )
    def test_a_way_that_cannot_be_is_not_gone(self, world: JobPeers, way: str) -> None:
        us, b = world.identity("a"), world.identity("b")
        via = {
            "without itself": ["x"],
            "through us": [b, us],
            "twice through one": [b, b],
            "too far": [b, "x", "y"],
        }[way]
        site = self.site(world, "x:far", via=via)
        assert self.tell(world, sites=[site], nodes=[self.node(world, "x:far/n1")]) is None
        assert "b:x:far/n1" not in world.nodes()
        world.check()

    def test_nodes_of_a_site_that_it_does_not_name_are_not_understood(self, world: JobPeers) -> None:
        answer = self.tell(world, sites=[self.site(world)], nodes=[self.node(world, "site-x/n1")])
        assert "a node is of no site that is told" in str(answer)

    def test_it_cannot_name_nodes_of_others(self, world: JobPeers) -> None:
        for name in ("site-a", "a:site-a", "../site-a"):
            self.tell(world, sites=[self.site(world, name)], nodes=[self.node(world, f"{name}/n1")])
        own = [name for name in world.nodes() if not name.startswith("b:")]
        assert own == ["site-a/n1"]
        world.check()

    def test_no_more_are_believed_than_a_peer_may_tell(self, world: JobPeers) -> None:
        nodes = world.gateways["a"].engine.jobs.nodes
        name = "site-b"
        for first in range(0, MOST_OF_A_PEER + 200, 200):
            lie = [self.node(world, f"{name}/w{number}") for number in range(first, first + 200)]
            told = NodesTold.model_validate(
                {"listing": 1 << 50, "nodes": lie, "complete": False, "age_ms": 0, "sites": [self.site(world)]}
            )
            world.gateways["a"].engine.jobs.hear_of_nodes_of_peer("b", told, world.gateways["a"].now_ms)
        assert sum(row.site.startswith("b:") for row in nodes.rows.values()) == MOST_OF_A_PEER
        world.gateways["a"].restart()

    def ask(self, world: JobPeers, **lie: object) -> tuple[str, str]:
        """Let ``a`` ask ``b`` for a job, with a lie in it; gives what became of the try, and why."""
        world.submit_job("true")
        [row] = [row for row in world.stores["a"].messages("b", 0, 10) if '"offer"' in row.body]
        body = json.loads(row.body) | lie
        assert world.do("b", MessageBatch(asking("a"), ((row.seq, json.dumps(body)),), 0)) is None
        assert {row.lease.state.value for row in rows_of(world.gateways["b"])} <= {"refused"}
        world.exchange("b", "a")
        world.exchange("b", "a")
        return world.tried()[0][1], world.attempts()[0].attempt.detail

    @pytest.mark.parametrize(
        "names", [["site-x/n1"], ["site-b/n9"], ["n1"], ["site-b/n1", "c:site-c/n1"], ["a:site-a/n1"]]
    )
    def test_nodes_that_it_was_not_told_are_not_given(self, world: JobPeers, names: list[str]) -> None:
        """Its own, too: no request goes back to where it came from."""
        state, why = self.ask(world, placed={"nodes": names, "image": "", "cores": 1, "least": 0})
        assert state is A.FENCED
        assert "expected nodes of one site that was told" in why
        world.to_and_fro(10)
        assert world.state() is JobState.COMPLETED, "it is placed again at once, on another node"

    def test_what_is_beyond_the_hop_limit_is_not_given(self, worlds: Callable[..., JobPeers]) -> None:
        world = worlds(hops=1)
        placed = {"nodes": ["c:site-c/n1"], "image": "", "cores": 1, "least": 0}
        assert self.ask(world, placed=placed)[0] is A.FENCED

    def test_nothing_is_read_of_leases_that_are_not_its_own(self, world: JobPeers) -> None:
        world.submit_job("echo", "secret", at="c", needs="")
        world.to_and_fro(4)
        body = json.dumps({"kind": "read", "lease": 1})
        _, received = world.stores["c"].message_numbers(asking("b"))
        world.do("c", MessageBatch(asking("b"), ((received + 1, body),), 0))
        world.errands()
        told = [json.loads(row.body) for row in world.stores["c"].messages(asking("b"), 0, 100)]
        [answer] = [one for one in told if one["kind"] == "output"]
        assert (answer["text"], answer["problem"]) == ("", "the site has nothing of it")

    def test_what_it_reports_of_leases_that_are_not_there_counts_for_nothing(self, world: JobPeers) -> None:
        world.submit_job("sleep", "5", needs="", runs_s=5)
        body = {
            "kind": "report", "lease": 1, "state": "completed", "reason": "completed", "planned_ms": -1,
            "first_start_ms": 1, "preemptions": 0, "overhead_vm_ms": 0, "migrations": 0, "work_left": 0,
            "prepared_until_ms": -1, "onward": [], "command": {"ended": True, "exit_status": 0},
        }  # fmt: skip
        world.call("b", "a")
        call = world.on_the_line.pop()
        _, received = world.stores["a"].message_numbers("b")
        said = tuple(one for one in call.mail.messages if one[0] <= received)
        world.do("a", MessageBatch("b", (*said, (received + 1, json.dumps(body))), 0, call.mail.status))
        assert world.state() is not JobState.COMPLETED


STEPS = 16
"""More exchanges than it takes until a job has run two hops away, and its output and its files have come."""


def killed_at(folder: Path, number: int, who: str, *, lost: bool) -> JobPeers:
    """A job, of which somebody does not hear at one of its steps, because it is killed or the line is cut."""
    world = JobPeers(folder)
    world.submit_job(*SAYS, needs="gcc", outputs=("out",))
    for step in range(STEPS):
        way = world.ways[step % len(world.ways)]
        if step == number:
            world.interrupt(who, way, lost=lost)
        else:
            world.exchange(*way)
        world.pass_time(500)
        world.check()
    return world


@pytest.mark.storm
@pytest.mark.parametrize("who", NODES)
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
def test_whoever_is_killed_at_whatever_step_a_job_is_done_once(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
) -> None:
    for number in range(STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = killed_at(folder, number, who, lost=lost)
        world.check_the_end("42\n")
        assert world.state() is JobState.COMPLETED
        assert len(world.attempts()) == 1, "nothing has failed"
        assert world.left() == (left_as("out"),)
        world.close()


@pytest.mark.storm
def test_its_user_may_cancel_it_at_any_step(tmp_path: Path) -> None:
    for cancelled_at in range(STEPS):
        folder = tmp_path / str(cancelled_at)
        folder.mkdir()
        world = JobPeers(folder)
        world.submit_job(*SAYS, needs="gcc")
        for step in range(cancelled_at):
            world.exchange(*world.ways[step % len(world.ways)])
            world.pass_time(500)
        was_over = world.state().is_final
        world.cancel_job()
        assert world.state() is (JobState.COMPLETED if was_over else JobState.CANCELLED)
        world.check_the_end("42\n")
        world.close()


def happen(world: JobPeers, action: str, which: int) -> None:
    """Let one thing happen; ``which`` says to what, where there are several."""
    what, _, name = action.partition(" ")
    match what:
        case "look":
            world.look(name)
        case "dies":
            node = NODES[name][which % len(NODES[name])].name
            live = world.gateways[name]
            live.sites[site_of(name)].machines.inject(node, Fault.NODE_DIED, live.now_ms, 20_000)
        case "owner":
            world.submit_at(name, SLOTS[name], 15_000)
        case "drain":
            world.drain_or_resume(name)
        case "ask":
            world.ask_again()
        case "offer":
            world.offer(name, **{NODES[name][which % len(NODES[name])].name: which % 3})
        case _:
            world.happen(action, which)


_ACTIONS = st.sampled_from(
    [
        *("call", "call", "call", "deliver", "deliver", "deliver again", "lose"),
        *(f"{what} {name}" for what in ("kill", "look", "dies") for name in NODES),
        *(
            "offer b",
            "offer c",
            "owner b",
            "owner c",
            "drain b",
            "drain c",
            "silent",
            "terms",
            "ask",
            "pass 100",
            "pass 1000",
            "pass 10000",
        ),
    ]
)


@given(
    st.sampled_from(["numpy", "gcc"]),
    st.sampled_from([(), ("out",)]),
    st.booleans(),
    st.lists(st.tuples(_ACTIONS, st.integers(0, 11)), max_size=30),
)
@settings(max_examples=examples(20))
def test_whatever_the_lines_do_a_job_has_one_result_or_none_and_nothing_is_left(
    needs: str,
    outputs: tuple[str, ...],
    is_ring: bool,  # noqa: FBT001 - a case
    actions: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        world = JobPeers(Path(folder), ways=RING if is_ring else None)
        world.submit_job(*SAYS, needs=needs, outputs=outputs)
        for action, which in actions:
            happen(world, action, which)
            world.errands()
            world.check()
        world.check_the_end("42\n")
        if world.state() is JobState.COMPLETED:
            assert world.left() == tuple(map(left_as, outputs))
        world.close()
