"""Jobs at sites with managers: the same placement, results and reasons, whoever dies and whatever lines do."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.messages.errands import left_as
from tests.service.messages.job_line import NODES, NUMPY, OFFERED_FOR_MS, JobWorld, stored
from tests.service.messages.line import FAR, rows_of

from leasehold.jobs.job import AttemptState, Fault, JobReason, JobState
from leasehold.model.event import SiteFellSilent
from leasehold.service.commands import Happened, JobNodesOffered, JobNodesSeen, JobSiteSilent, MessageBatch
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.protocol import Order, PlacementConstraints, Verb
from leasehold.service.drivers.staging import JobFiles, StagedFile
from leasehold.service.messages.about_jobs import (
    MOST_BYTES,
    MOST_TOLD,
    NodeOffered,
    NodesOffered,
    NodesTold,
    NodeTold,
)
from leasehold.service.messages.endpoints import GATEWAY

A = AttemptState


@pytest.fixture
def world(tmp_path: Path) -> Iterator[JobWorld]:
    one = JobWorld(tmp_path)
    yield one
    one.close()


def to_and_fro(world: JobWorld, rounds: int = 3, for_ms: int = 1_000) -> None:
    """Calls of all sites over a whole line, and some time between them."""
    for _ in range(rounds):
        for name in FAR:
            world.exchange(name)
        world.pass_time(for_ms)
        world.check()


class TestNodes:
    def test_those_of_sites_with_managers_are_known_as_they_are(self, world: JobWorld) -> None:
        assert sorted(world.nodes()) == ["far/f1", "far/f2", "home/h1", "north/n1"]
        there = world.nodes()["far/f1"]
        assert (there.cores, there.memory_mib, there.software) == (2, 4_096, frozenset({("numpy", "1.24.2")}))
        assert there.takes_files

    def test_one_that_fails_is_out_until_it_is_back(self, world: JobWorld) -> None:
        machines = world.sites["north"].sites["north"].machines
        machines.inject("n1", Fault.NODE_DIED, world.gateway.now_ms, 60_000)
        world.look("north")
        world.exchange("north")
        assert world.nodes()["north/n1"].fault == "node-died"
        world.pass_time(61_000)
        world.look("north")
        world.exchange("north")
        assert world.nodes()["north/n1"].fault == ""

    def test_only_what_has_changed_is_told_and_one_message_at_a_time(self, world: JobWorld) -> None:
        for _ in range(3):
            world.pass_time(30_000)
            world.look("far")
        [left] = world.sites["far"].store.messages("gateway", 0, 10)
        told = NodesTold.model_validate_json(left.body)
        assert (told.nodes, told.software, told.gone, told.complete) == ((), (), (), True)
        seen_ms = world.nodes()["far/f1"].seen_ms
        world.exchange("far")
        assert world.nodes()["far/f1"].seen_ms > seen_ms, "they are as they were told"

    def test_a_node_that_a_site_has_no_more_is_gone(self, world: JobWorld) -> None:
        world.sites["far"].do(world_without("f2", world))
        world.exchange("far")
        assert world.nodes()["far/f2"].problem == "is not among the nodes of its site any more"

    def test_a_manager_that_is_killed_tells_all_anew_and_nothing_is_lost(self, world: JobWorld) -> None:
        before = world.nodes()
        world.pass_time(1_000)
        world.restart("far")
        world.exchange("far")
        world.exchange("far")
        after = world.nodes()
        assert after.keys() == before.keys()
        assert after["far/f1"].listing > before["far/f1"].listing
        now, then = ([replace(at["far/f1"], listing=0, seen_ms=0, well_ms=0, watched_ms=0)] for at in (after, before))
        assert now == then

    def test_what_cannot_be_told_is_not_and_the_rest_is(self, world: JobWorld) -> None:
        live = world.sites["far"]
        odd = frozenset({("gcc\0", "1"), ("numpy", "2.0")})
        [first, second] = live.sites["far"].machines.nodes(live.now_ms)
        names = (replace(first, name="a\nb"), replace(second, software=odd, problem="x" * 5_000))
        live.do(JobNodesSeen("far", names, live.now_ms))
        world.exchange("far")
        assert world.nodes()["far/f2"].software == {("numpy", "2.0")}
        assert "far/a\nb" not in world.nodes()

    def test_a_large_site_is_told_in_parts_and_each_list_of_software_once(self, world: JobWorld) -> None:
        live = world.sites["far"]
        [first, _] = live.sites["far"].machines.nodes(live.now_ms)
        many = frozenset((f"package-{number}", "1.0") for number in range(20_000))
        nodes = tuple(replace(first, name=f"w{number}", software=many) for number in range(MOST_TOLD + 10))
        live.do(JobNodesSeen("far", nodes, live.now_ms))
        sizes = []
        for _ in range(5):
            sizes += [len(row.body) for row in live.store.messages("gateway", 0, 10)]
            world.exchange("far")
        there = [row for row in world.nodes().values() if row.name.startswith("far/w")]
        assert len(there) == MOST_TOLD + 10
        assert {len(row.software) < len(many) for row in there} == {True}, "as much as a message may have"
        assert max(sizes) < 2 * MOST_BYTES
        assert world.nodes()["far/f1"].problem == "is not among the nodes of its site any more"

    def test_a_site_that_is_forgotten_has_none(self, world: JobWorld) -> None:
        world.gateway.engine.jobs.forget_site("far")
        world.gateway.do()
        assert sorted(world.nodes()) == ["home/h1", "north/n1"]


def world_without(node: str, world: JobWorld) -> JobNodesSeen:
    live = world.sites["far"]
    nodes = live.sites["far"].machines.nodes(live.now_ms)
    return JobNodesSeen("far", tuple(one for one in nodes if one.name != node), live.now_ms)


class TestJobs:
    def test_one_runs_where_its_software_is_and_its_result_comes_back(self, world: JobWorld) -> None:
        world.submit_job("sh", "-c", "echo 42; sleep 2; exit 3")
        [(node, _, _)] = world.tried()
        assert node.split("/")[0] in FAR
        to_and_fro(world, 6)
        assert (world.state(), world.job().exit_status) == (JobState.FAILED, 3)
        wrote = world.output()
        assert wrote is not None
        assert (wrote.text, wrote.is_whole) == ("42\n", True)

    def test_it_finds_its_variables_and_the_number_in_its_array(self, world: JobWorld) -> None:
        world.submit_job("printenv", "LEASEHOLD_ARRAY_INDEX", array=(4, 7), environment=(("X", "1"),))
        to_and_fro(world, 6)
        for number, text in ((1, "4\n"), (2, "7\n")):
            wrote = world.output(number)
            assert world.state(number) is JobState.COMPLETED
            assert wrote is not None
            assert wrote.text == text

    def test_it_runs_on_the_nodes_that_were_chosen(self, world: JobWorld) -> None:
        for _ in range(2):
            world.submit_job("sleep", "60", runs_s=60, cores=2)
        to_and_fro(world, 2)
        chosen = {row.attempt.nodes[0] for number in (1, 2) for row in world.attempts(number)}
        there = {f"{name}/{seen.nodes[0]}" for name in FAR for seen in world.sites[name].sites[name].machines.observe()}
        assert chosen == there
        assert len(chosen) == 2

    def test_those_that_share_a_gpu_are_planned_on_it(self, tmp_path: Path) -> None:
        shared = EmulatedNode("f1", 4, 4_096, software=NUMPY, gpu_model="a100", gpus=1, gpu_shares=4)
        whole = EmulatedNode("n1", 3, 4_096, software=NUMPY, gpu_model="a100", gpus=1, gpu_shares=0)
        world = JobWorld(tmp_path, NODES | {"far": (shared,), "north": (whole,)})
        node = world.nodes()["far/f1"]
        assert (node.gpu_model, node.gpus, node.gpu_shares, node.free_gpus) == ("a100", 1, 4, (1_000,))
        for gpu_milli in (500, 300):  # the second has two shares, too
            world.submit_job("sleep", "60", runs_s=60, gpu_milli=gpu_milli)
        to_and_fro(world, 3)
        placed = {row.lease.request.gpu_milli: row.lease.placed for row in rows_of(world.sites["far"])}
        assert placed == {500: (("f1", 1, (0,)),), 300: (("f1", 1, (0,)),)}
        world.look("far")
        world.exchange("far")
        assert world.nodes()["far/f1"].free_gpus == (0,)
        world.submit_job("sleep", "1", gpu_milli=100)
        assert (world.state(3), world.job(3).record.what) == (JobState.WAITING, "gpus-in-use")
        world.close()

    def test_each_state_is_told(self, world: JobWorld) -> None:
        world.submit_job("sleep", "3")
        assert (world.state(), world.attempts()[0].attempt.started_ms) == (JobState.STARTING, -1)
        to_and_fro(world, 2)
        assert world.state() is JobState.RUNNING
        assert world.attempts()[0].attempt.started_ms > 0
        to_and_fro(world, 4)
        assert world.state() is JobState.COMPLETED

    def test_its_site_is_told_of_its_files_and_what_it_left_is_asked_for(self, world: JobWorld) -> None:
        world.submit_job("sleep", "1", inputs=(stored(),), outputs=("out", "log"))
        [(node, _, _)] = world.tried()
        to_and_fro(world, 1)
        [there] = rows_of(world.sites[node.partition("/")[0]])
        sent = world.attempts()[0].lease_id
        inputs = (StagedFile("sky.fits", "ab" * 32, 10),)
        assert there.metadata.files == JobFiles(inputs, ("out", "log"), GATEWAY, sent or 0)
        to_and_fro(world, 6)
        wrote = world.output()
        assert wrote is not None
        assert wrote.files == (left_as("out"), left_as("log"))
        assert world.state() is JobState.COMPLETED

    def test_one_with_files_is_refused_where_sites_take_none(self, world: JobWorld) -> None:
        for name in FAR:
            live = world.sites[name]
            nodes = live.sites[name].machines.nodes(live.now_ms)
            live.do(JobNodesSeen(name, tuple(replace(node, takes_files=False) for node in nodes), live.now_ms))
            world.exchange(name)
        world.submit_job("sleep", "1", outputs=("out",))
        assert (world.state(), world.job().record.what) == (JobState.REFUSED, "takes-no-files")

    def test_one_that_fits_no_node_is_refused_with_the_same_reason_as_here(self, world: JobWorld) -> None:
        world.submit_job("true", cores=4)
        record = world.job().record
        assert (record.state, record.reason) == (JobState.REFUSED, JobReason.NEVER_HERE)
        assert record.what == "too-few-cores: asks for 4 cores on each node, and none has more than 3 cores"

    def test_a_cancelled_one_is_stopped_there(self, world: JobWorld) -> None:
        world.submit_job("sleep", "60", runs_s=60)
        to_and_fro(world, 2)
        world.cancel_job(1)
        assert world.state() is JobState.CANCELLED
        to_and_fro(world, 3)
        assert world.is_quiet()
        assert not any(world.sites[name].sites[name].machines.observe() for name in FAR)

    def test_a_node_that_dies_lets_it_begin_again_elsewhere(self, world: JobWorld) -> None:
        world.submit_job("sleep", "10", runs_s=10)
        to_and_fro(world, 2)
        [(node, _, _)] = world.tried()
        site, _, name = node.partition("/")
        world.sites[site].sites[site].machines.inject(name, Fault.NODE_DIED, world.gateway.now_ms, 600_000)
        world.look(site)
        to_and_fro(world, 20)
        (first, state, fault), (second, done, _) = world.tried()
        assert (first, state, fault) == (node, A.FENCED, "node-died")
        assert second != node
        assert (done, world.state()) == (A.SUCCEEDED, JobState.COMPLETED)

    def test_software_that_is_gone_is_no_fault_of_the_command(self, world: JobWorld) -> None:
        world.submit_job("sh", "-c", "sleep 1; exit 127", runs_s=10)
        to_and_fro(world, 3)
        assert world.tried()[0][2] == "software-gone"

    def test_a_command_that_takes_too_long_is_not_tried_again(self, world: JobWorld) -> None:
        world.submit_job("sleep", "60", runs_s=2)
        to_and_fro(world, 12)
        assert world.tried()[0][1:] == (A.FAILED, "time-over")
        assert (world.state(), world.job().record.reason) == (JobState.FAILED, JobReason.TIME_OVER)

    def test_it_is_so_though_all_of_it_is_heard_late(self, world: JobWorld) -> None:
        world.submit_job("sleep", "60", runs_s=2)
        for name in FAR:
            world.exchange(name)
        world.pass_time(10_000)  # the line is cut: neither its start is heard of nor its end
        to_and_fro(world, 3)
        assert world.tried()[0][2] == "time-over"

    def test_where_the_owner_has_the_room_it_waits_in_the_queue_of_the_site(self, world: JobWorld) -> None:
        for _ in range(3):
            world.submit_job("sleep", "4", cores=2)
        assert {row.attempt.nodes[0] for number in (1, 2, 3) for row in world.attempts(number)} == {
            "far/f1",
            "far/f2",
            "north/n1",
        }
        world.submit_at("north", 3, 30_000)
        to_and_fro(world, 3)
        [waits] = [number for number in (1, 2, 3) if world.attempts(number)[0].site == "north"]
        assert (world.state(waits), world.job(waits).record.reason) == (JobState.WAITING, JobReason.WAITS_AT_SITE)
        to_and_fro(world, 40)
        assert all(world.state(number) is JobState.COMPLETED for number in (1, 2, 3))
        assert all(world.job(number).record.restarts == 0 for number in (1, 2, 3))


@pytest.fixture
def full(world: JobWorld) -> JobWorld:
    """No core is free at sites with managers, and a job waits for one."""
    world.look_and_find("far", f1=0, f2=0)
    world.look_and_find("north", n1=0)
    for _ in range(2):  # as it is, and what it had to tell first
        for name in FAR:
            world.exchange(name)
    world.submit_job(*SAYS)
    assert (world.state(), world.job().record.what) == (JobState.WAITING, "cores-in-use")
    return world


class TestOffers:
    def test_a_job_that_waits_starts_where_a_node_offers_itself_before_anything_else_is_told(
        self, full: JobWorld
    ) -> None:
        full.look_and_find("far", f1=0, f2=0)  # that is on its way: what is new of nodes is told after it
        full.offer("far", f2=1)
        assert full.attempts() == []
        full.exchange("far")
        assert [node for node, *_ in full.tried()] == ["far/f2"]
        full.check_the_end("42\n")

    @pytest.mark.parametrize("is_offered", [True, False])
    def test_one_that_stands_is_looked_at_first(self, full: JobWorld, is_offered: bool) -> None:  # noqa: FBT001 - a case
        if is_offered:
            full.offer("far", f2=0)
            full.exchange("far")
        full.look("far")
        full.exchange("far")
        assert [node for node, *_ in full.tried()] == ["far/f2" if is_offered else "far/f1"]

    @pytest.mark.parametrize(("for_ms", "node"), [(OFFERED_FOR_MS - 1, "far/f2"), (OFFERED_FOR_MS, "far/f1")])
    def test_it_is_valid_for_its_time_from_when_it_arrives(self, full: JobWorld, for_ms: int, node: str) -> None:
        full.offer("far", f2=0)
        full.pass_time(2 * OFFERED_FOR_MS)  # the line is cut
        full.exchange("far")
        full.pass_time(for_ms)
        full.look("far")
        full.exchange("far")
        assert [node for node, *_ in full.tried()] == [node]

    def test_one_message_of_them_is_under_way_and_the_rest_is_told_as_it_is_then(self, full: JobWorld) -> None:
        full.offer("far", f1=0)
        full.offer("far", f2=0)
        full.pass_time(1_000)
        full.offer("far", f2=1)
        assert [list(_named(body)) for body in _offered(full, "far")] == [["f1"]]
        full.exchange("far")
        [then] = _offered(full, "far")
        assert {name: offer.node.free_cores for name, offer in _named(then).items()} == {"f2": 1}
        assert _named(then)["f2"].lasts_ms == OFFERED_FOR_MS
        full.exchange("far")
        full.exchange("far")
        assert [node for node, *_ in full.tried()] == ["far/f2"]
        assert _offered(full, "far") == []

    def test_what_it_said_is_taken_back_by_the_next_look(self, full: JobWorld) -> None:
        """Also where the node is again as it was told before it offered itself."""
        full.cancel_job(1)
        full.look_and_find("far", f1=0, f2=0)  # that is on its way, and says that nothing has changed
        full.offer("far", f2=1)
        full.look_and_find("far", f1=0, f2=0)
        full.exchange("far")
        assert full.nodes()["far/f2"].free_cores == 1
        full.exchange("far")
        assert full.nodes()["far/f2"].free_cores == 0

    def test_a_node_that_the_gateway_does_not_know_is_told_first(self, full: JobWorld) -> None:
        live = full.sites["far"]
        full.look_and_find("far", f1=0, f2=0)  # and that is on its way
        new = replace(live.sites["far"].machines.nodes(live.now_ms)[1], name="f3")
        live.do(JobNodesSeen("far", (new,), live.now_ms))
        live.do(JobNodesOffered("far", (new,), live.now_ms, live.now_ms + OFFERED_FOR_MS))
        assert _offered(full, "far") == []
        full.exchange("far")
        assert [list(_named(body)) for body in _offered(full, "far")] == [["f3"]]
        full.exchange("far")
        assert [node for node, *_ in full.tried()] == ["far/f3"]

    def test_one_that_the_gateway_has_never_heard_of_is_declined(self, full: JobWorld) -> None:
        full.offer("far", f2=1)
        [body] = _offered(full, "far")
        [offer] = body.offers
        lie = body.model_copy(update={"offers": (offer.model_copy(update={"node": _called(offer.node, "f9")}),)})
        _, received = full.gateway.store.message_numbers("far")
        _, read = full.sites["far"].store.message_numbers(GATEWAY)
        full.gateway.do(MessageBatch("far", ((received + 1, lie.model_dump_json()),), read, full.about("far")))
        assert (full.attempts(), "far/f9" in full.nodes()) == ([], False)

    def test_a_site_that_lends_no_more_makes_none(self, full: JobWorld) -> None:
        full.offer("far", f2=1)
        full.drain_or_resume("far")
        full.exchange("far")
        assert full.attempts() == []
        assert full.gateway.engine.jobs.scheduler.standing_offers(full.gateway.now_ms) == {}

    def test_they_are_made_again_to_a_gateway_that_believed_the_nodes_to_have_failed(self, full: JobWorld) -> None:
        full.offer("far", f2=0)
        full.exchange("far")
        full.gateway.do(JobSiteSilent("far", "its manager has not called for 120 s"))
        assert full.gateway.engine.jobs.scheduler.standing_offers(full.gateway.now_ms) == {}
        full.pass_time(1_000)
        full.exchange("far")
        [again] = _offered(full, "far")
        assert (_named(again)["f2"].lasts_ms, _named(again)["f2"].age_ms) == (OFFERED_FOR_MS - 1_000, 0)
        full.exchange("far")
        assert [node for node, *_ in full.tried()] == ["far/f2"]

    @pytest.mark.parametrize("who", [GATEWAY, "far"])
    @pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
    @pytest.mark.parametrize("step", range(4))
    def test_whoever_is_killed_it_is_taken_once(
        self,
        full: JobWorld,
        who: str,
        lost: bool,  # noqa: FBT001 - a case
        step: int,
    ) -> None:
        full.offer("far", f2=1)
        for number in range(4):
            if number == step:
                full.interrupt(who, "far", lost=lost)
            else:
                full.call("far")
                full.deliver(0, again=True)
                full.deliver(0)
                full.on_the_line.clear()
            full.pass_time(200)
            full.check()
        full.check_the_end("42\n")
        assert [(node, state) for node, state, _ in full.tried()] == [("far/f2", A.SUCCEEDED)]


def _offered(world: JobWorld, site: str) -> list[NodesOffered]:
    """The offers of a site that have not arrived yet."""
    waiting = [row.body for row in world.sites[site].store.messages(GATEWAY, 0, 100)]
    return [NodesOffered.model_validate_json(body) for body in waiting if json.loads(body)["kind"] == "offered"]


def _named(body: NodesOffered) -> dict[str, NodeOffered]:
    return {offer.node.name: offer for offer in body.offers}


def _called(node: NodeTold, name: str) -> NodeTold:
    return node.model_copy(update={"name": name})


class TestSitesThatTakeNothing:
    def test_one_that_is_drained_while_it_is_asked_gives_the_job_back(self, world: JobWorld) -> None:
        world.submit_job("true")
        for name in FAR:
            world.drain_or_resume(name)
        to_and_fro(world, 3)
        assert (world.state(), world.job().record.reason) == (JobState.WAITING, JobReason.SITE_SAID_NOT_NOW)
        assert world.tried()[0][1] is A.FENCED
        for name in FAR:
            world.drain_or_resume(name)
        to_and_fro(world, 4, 30_000)  # it is tried again at its time
        to_and_fro(world, 5)
        assert world.state() is JobState.COMPLETED
        assert world.job().record.restarts == 0

    def test_a_node_that_was_filled_since_it_was_seen_is_not_now_and_costs_no_restart(self, world: JobWorld) -> None:
        """More of the owner's machines are on that node than its site knows."""
        world.submit_job("sleep", "4", cores=2)
        [(node, _, _)] = world.tried()
        site, _, name = node.partition("/")
        full = Order("99.1.start", Verb.START, 99, 1, 1, 64, constraints=PlacementConstraints((name,), cores=2))
        world.sites[site].sites[site].machines.carry_out([full], world.gateway.now_ms)
        to_and_fro(world, 8)
        assert world.state() is JobState.COMPLETED
        assert world.job().record.restarts == 0
        lines = world.gateway.store.journal(0, 1_000)
        assert "node-full" in [line.reason for line in lines if line.what == "job"]


class TestSilence:
    def test_a_site_that_is_not_heard_of_gets_no_jobs(self, world: JobWorld) -> None:
        world.gateway.do(*(Happened(SiteFellSilent(name)) for name in FAR))
        world.submit_job("true")
        assert (world.state(), world.attempts()) == (JobState.WAITING, [])
        to_and_fro(world, 5)
        assert world.state() is JobState.COMPLETED

    def test_after_longer_what_runs_there_begins_again_elsewhere_and_counts_once(self, world: JobWorld) -> None:
        world.submit_job("sleep", "20", runs_s=20)
        to_and_fro(world, 2)
        [(node, _, _)] = world.tried()
        site = node.partition("/")[0]
        other = next(name for name in FAR if name != site)
        world.gateway.do(JobSiteSilent(site, "its manager has not called for 120 s"))
        assert world.tried()[0][1:] == (A.FENCED, "network-failed")
        assert world.tried()[1][0].startswith(other)
        world.pass_time(25_000)  # and it ends where nobody is heard of
        to_and_fro(world, 30)
        assert (world.state(), world.job().record.delivered) == (JobState.COMPLETED, 2)
        assert world.nodes()[node].fault == "", "it is told anew"
        assert world.is_quiet()


STEPS = 8
"""More exchanges than it takes until a job has run and its output has come."""

SAYS = ("sh", "-c", "echo 42; sleep 2")


def killed_at(folder: Path, number: int, who: str, *, lost: bool) -> JobWorld:
    """A job, of which somebody does not hear at one of its steps, because it is killed or the line is cut."""
    world = JobWorld(folder)
    world.submit_job(*SAYS)
    for step in range(STEPS):
        name = [*FAR][step % len(FAR)]
        if step == number:
            world.interrupt(who, name, lost=lost)
        else:
            world.exchange(name)
        world.pass_time(700)
        world.check()
    return world


@pytest.mark.storm
@pytest.mark.parametrize("who", [GATEWAY, "far", "north"])
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
        world.close()


@pytest.mark.storm
def test_its_user_may_cancel_it_at_any_step(tmp_path: Path) -> None:
    for cancelled_at in range(STEPS):
        folder = tmp_path / str(cancelled_at)
        folder.mkdir()
        world = JobWorld(folder)
        world.submit_job(*SAYS)
        for step in range(cancelled_at):
            world.exchange([*FAR][step % len(FAR)])
            world.pass_time(700)
        was_over = world.state().is_final
        world.cancel_job(1)
        assert world.state() is (JobState.COMPLETED if was_over else JobState.CANCELLED)
        world.check_the_end("42\n")
        world.close()


def happen(world: JobWorld, action: str, which: int) -> None:
    """Let one thing happen; ``which`` says to what, where there are several."""
    what, _, name = action.partition(" ")
    match what:
        case "offer":
            world.offer(name, **{NODES[name][which % len(NODES[name])].name: which % 3})
        case "dies":
            node = NODES[name][which % len(NODES[name])].name
            world.sites[name].sites[name].machines.inject(node, Fault.NODE_DIED, world.gateway.now_ms, 20_000)
        case "owner":
            world.submit_at(name, FAR[name], 15_000)
        case "ask":
            world.ask_again()
        case _:
            world.happen(action, which)


_ACTIONS = st.sampled_from(
    [
        *("call far", "call north", "deliver", "deliver again", "lose"),
        *("kill gateway", "kill far", "kill north"),
        *("look far", "look north", "offer far", "offer north", "silent far", "silent north"),
        *("dies far", "dies north", "owner far", "pass 100", "pass 1000", "pass 10000", "ask"),
    ]
)


@given(st.lists(st.tuples(_ACTIONS, st.integers(0, 9)), max_size=30))
@settings(max_examples=examples(20))
def test_whatever_the_line_does_a_job_has_one_result_or_none_and_nothing_is_left(
    actions: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        world = JobWorld(Path(folder))
        world.submit_job(*SAYS)
        for action, which in actions:
            happen(world, action, which)
            world.errands()
            world.check()
        world.check_the_end("42\n")
        world.close()
