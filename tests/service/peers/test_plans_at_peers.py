"""Plans of leases and jobs that would go to peers: these are asked, and ask on, and never in circles."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
from tests.service.peers.job_peers import NODES, JobPeers
from tests.service.peers.trio import RING, SLOTS, Trio
from tests.waiting import until

from leasehold.cli.live.jobs import _summary
from leasehold.client import AnswerElsewhere, JobProspect, JobSpec, LeasePlan, LeaseSpec, PeerSpec
from leasehold.gateway.peering import AskWhen
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.service.commands import Submit
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.protocol import PlacementConstraints
from leasehold.service.engine.tasks import PlanFor
from leasehold.service.messages.about_plans import Planned
from leasehold.service.store.rows import LeaseMetadata

BEYOND = "b:c:site-c/n1"


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with Trio.open(tmp_path_factory.mktemp("trio")) as here:
        here.await_node(BEYOND)
        yield here


def lease_plan(trio: Trio, **said: object) -> LeasePlan:
    return trio.clients["a"].leases.plan(LeaseSpec.of(**{"type": "suspendable", "duration_s": 600, **said}))


def job_plan(trio: Trio, *software: str, **said: object) -> JobProspect:
    spec = JobSpec.of(**{"command": ["true"], "software": list(software), "execution_s": 60, **said})
    return trio.clients["a"].jobs.plan(spec)


def answered(plan: LeasePlan | JobProspect) -> AnswerElsewhere | None:
    return None if plan.elsewhere is None else plan.elsewhere.answer


def heard(ask: Callable[[], LeasePlan | JobProspect]) -> AnswerElsewhere:
    """What is answered once all have heard of each other, and none of them is too busy to answer in time."""
    found: list[AnswerElsewhere] = []

    def is_answered() -> bool:
        said = answered(ask())
        found[:] = [] if said is None or said.passed_on else [said]
        return bool(found)

    until(is_answered)
    return found[0]


def said_of_lease(trio: Trio, **said: object) -> AnswerElsewhere:
    return heard(lambda: lease_plan(trio, **said))


def said_of_job(trio: Trio, *software: str, **said: object) -> AnswerElsewhere:
    return heard(lambda: job_plan(trio, *software, **said))


def test_a_lease_would_start_at_the_peer(trio: Trio) -> None:
    said = said_of_lease(trio, vms=SLOTS["b"])
    assert (said.state.value, said.onward) == ("starting", ())
    assert said.starts_at is not None


def test_a_lease_would_go_on_to_the_next_which_says_what_it_would_do(trio: Trio) -> None:
    said = said_of_lease(trio, vms=SLOTS["c"])
    assert (said.state.value, said.onward) == ("starting", ("c",))


def test_one_that_would_wait_there_is_told_until_when(trio: Trio) -> None:
    owner = trio.clients["c"].leases
    held = owner.submit(LeaseSpec.of(type=None, local=True, site="site-c", vms=1, duration_s=3_600))
    until(lambda: owner.get(held.id).state.value == "running")
    said = said_of_lease(trio, vms=SLOTS["c"])
    assert (said.state.value, said.onward, said.reason) == ("waiting", ("c",), "room-in-use")
    assert said.starts_at is not None
    owner.cancel(held.id)
    until(lambda: owner.get(held.id).is_over)


def test_a_job_would_start_on_the_nodes_of_the_peer(trio: Trio) -> None:
    said = said_of_job(trio, "numpy")
    assert (said.state.value, said.onward) == ("starting", ())


def test_a_job_would_go_on_to_the_next_and_nothing_is_left_behind(trio: Trio) -> None:
    said = said_of_job(trio, "gcc")
    assert (said.state.value, said.onward) == ("starting", ("c",))
    for name in "abc":
        assert not [lease for lease in trio.clients[name].leases.list() if not lease.is_over]


def test_it_is_said_in_words(trio: Trio) -> None:
    found: list[str] = []

    def asked() -> bool:
        plan = job_plan(trio, "gcc")
        found[:] = _summary(plan)
        said = answered(plan)
        return said is not None and not said.passed_on

    until(asked)
    assert found[-1] == (
        "  its lease would be offered to the peer b, which decides for itself"
        " and says that it would start now at c, which it would go on to"
    )


def test_one_that_would_be_refused_there_is_told_why(trio: Trio) -> None:
    peers = trio.clients["b"].peers
    [terms] = [one for one in peers.list() if one.name == "a"]
    peers.keep("a", PeerSpec(url=terms.url, ask=AskWhen(terms.ask), max_hops=2, max_vms=3))
    held = trio.clients["a"].leases.submit(LeaseSpec.of(type="suspendable", vms=3, duration_s=3_600))
    until(lambda: trio.clients["a"].leases.get(held.id).state.value == "running")
    found: list[AnswerElsewhere] = []

    def is_refused() -> bool:
        plan = lease_plan(trio, type="migratable", vms=3, wait=False)
        said = answered(plan)
        found[:] = [] if said is None else [said]
        return said is not None and said.state.is_final

    until(is_refused)
    assert (found[0].reason, found[0].starts_at) == ("peer-quota-exceeded", None)
    trio.clients["a"].leases.cancel(held.id)
    until(lambda: trio.clients["a"].leases.get(held.id).is_over)
    peers.keep("a", PeerSpec(url=terms.url, ask=AskWhen(terms.ask), max_hops=2))


def test_a_peer_that_does_not_answer_is_not_waited_for(trio: Trio) -> None:
    trio.served["c"].kill()
    try:
        plan = job_plan(trio, "gcc")
        assert plan.elsewhere is not None
        assert plan.elsewhere.answer is None or plan.elsewhere.answer.passed_on
        trio.served["b"].kill()
        plan = job_plan(trio, "gcc")
        assert plan.elsewhere is not None
        assert plan.elsewhere.answer is None
        assert list(_summary(plan))[-1] == "  its lease would be offered to b, which decides for itself"
    finally:
        trio.served["b"].start()
        trio.served["c"].start()
    until(lambda: said_of_job(trio, "gcc").onward == ("c",))  # at first it takes no leases, as nothing is heard of it


def hears_of_all(trio: Trio, name: str) -> bool:
    return len([*trio.clients[name].nodes.list()]) >= sum(SLOTS[one] for one in "abc")


def test_questions_go_in_no_circle(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Trio.open(tmp_path_factory.mktemp("ring"), RING, hops=7) as ring:
        for name in "abc":
            until(partial(hears_of_all, ring, name))
        plan = lease_plan(ring, vms=SLOTS["c"] + 1)
        assert (plan.verdict, plan.elsewhere) == ("refused", None)
        said = said_of_lease(ring, vms=SLOTS["c"])
        assert (said.state.value, said.onward) == ("starting", ())


MORE_AT_C = {**NODES, "c": (*NODES["c"], EmulatedNode("n2", 4, 4_096))}


class TestQuestions:
    """What one engine asks the next."""

    def asked(self, world: JobPeers, vms: int) -> tuple[Planned | None, list[PlanFor]]:
        plan = world.plan("a", vms)
        world.to_and_fro(4)
        return world.planned("a", plan), [one for name in "bc" for one in world.asked_for_plans(name)]

    def test_each_says_by_whom_it_was_passed_on_and_waits_for_less_than_whoever_asks(self, tmp_path: Path) -> None:
        world = JobPeers(tmp_path, MORE_AT_C)
        said, [first, second] = self.asked(world, 6)
        a, b = world.identity("a"), world.identity("b")
        assert [one.submit.request.via for one in (first, second)] == [(a,), (a, b)]
        assert (first.within_ms, second.within_ms) == (2_000, 1_500)
        assert said is not None
        assert (said.state, said.onward, said.passed_on) == (LeaseState.STARTING, ("c",), False)
        assert world.is_quiet()
        world.close()

    def test_no_answer_from_beyond_is_said(self, tmp_path: Path) -> None:
        world = JobPeers(tmp_path, MORE_AT_C)
        plan = world.plan("a", 6)
        world.exchange("b", "a")
        world.leave_plans("b")
        world.exchange("b", "a")
        said = world.planned("a", plan)
        assert said is not None
        assert (said.onward, said.passed_on, said.starts_in_ms) == (("c",), True, -1)
        world.close()

    def test_one_is_not_asked_again_by_another_way(self, tmp_path: Path) -> None:
        world = JobPeers(tmp_path, ways=tuple(permutations("abc", 2)), hops=7)
        request = world.request("a", 1)
        a, c = world.identity("a"), world.identity("c")
        looped = replace(
            request, via=(c, a, c), global_id=f"{c}/9", from_peer="c", is_foreign=True, consumer="peer/c/x"
        )
        prospect = world.gateways["a"].engine.plan(Submit(looped, LeaseMetadata())).prospect
        assert (prospect.state, prospect.reason) == (LeaseState.REFUSED, Reason.REQUEST_LOOP)
        world.close()

    def test_a_lease_that_is_submitted_between_the_plan_and_its_question_is_another_one(self, tmp_path: Path) -> None:
        world = JobPeers(tmp_path, MORE_AT_C)
        request = world.request("a", 3)
        world.gateways["a"].do(Submit(request, LeaseMetadata()))
        world.to_and_fro(4)
        assert world.gateways["a"].engine.leases.row(request.id).lease.site == "b"
        question = world.question("a", "b", request)
        world.to_and_fro(4)
        said = world.planned("a", question)
        assert said is not None
        assert said.state is LeaseState.WAITING
        world.close()

    def test_nodes_that_are_not_there_any_more_are_not_planned_for(self, tmp_path: Path) -> None:
        world = JobPeers(tmp_path)
        gone = PlacementConstraints(("site-b/n9",), cores=1)
        plan = world.plan("a", 1, "b", LeaseMetadata(constraints=gone))
        world.to_and_fro(2)
        said = world.planned("a", plan)
        assert said is not None
        assert said.problem == "placed.nodes: got ('site-b/n9',), expected nodes of one site that was told"
        world.close()
