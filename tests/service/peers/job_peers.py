"""Jobs over peers: each gateway has nodes, and what engines want done is done beside them."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.service.messages.errands import Errands
from tests.service.messages.line import rows_of
from tests.service.peers.triangle import World, site_of

from leasehold.gateway.peering import AskWhen
from leasehold.jobs.job import AttemptState, JobState
from leasehold.matching.needs import Amounts, Needs
from leasehold.matching.software import software
from leasehold.model.event import SiteFellSilent
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.service.commands import (
    AskForPlan,
    CancelJob,
    Happened,
    JobNodesOffered,
    JobNodesSeen,
    JobSiteSilent,
    Submit,
    SubmitJob,
)
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.engine.tasks import PlanFor
from leasehold.service.messages.about_plans import Planned
from leasehold.service.messages.endpoints import asking_peer
from leasehold.service.store.rows import AttemptRow, JobRow, LeaseMetadata, LeaseRow, NodeRow, OutputFile, OutputRow

NUMPY = frozenset({("numpy", "1.24.2")})
GCC = frozenset({("gcc", "12.2")})
NODES = {
    "a": (EmulatedNode("n1", 2, 2_048),),
    "b": (EmulatedNode("n1", 2, 4_096, software=NUMPY), EmulatedNode("n2", 2, 4_096, software=NUMPY)),
    "c": (EmulatedNode("n1", 4, 4_096, software=NUMPY | GCC),),
}
SLOTS = {name: sum(node.cores for node in nodes) for name, nodes in NODES.items()}
OFFERED_FOR_MS = 60_000
_MOST_ROUNDS = 20
_LOOKS = 40
"""So many seconds: longer than any node is down here."""


class JobPeers(World):
    """Gateways in a chain, or each the peer of the next in a ring, and whoever looks at nodes and reads outputs."""

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, tuple[EmulatedNode, ...]] = NODES,
        *,
        ways: Sequence[tuple[str, str]] | None = None,
        hops: int = 2,
        ask: AskWhen = AskWhen.NONE_CAN,
        with_images: Container[str] = (),
    ) -> None:
        lines = [way for line in pairwise(nodes) for way in (line, line[::-1])]
        slots = {name: sum(node.cores for node in its) for name, its in nodes.items()}
        super().__init__(
            folder, ask=ask, slots=slots, nodes=nodes, ways=ways or lines, hops=hops, with_images=with_images
        )
        self._errands = {
            name: Errands(live, site_of(name), partial(self.written, name), partial(self.look, name))
            for name, live in self.gateways.items()
        }
        for name, live in self.gateways.items():
            self.look(name)
            live.pass_time(0)
        for _ in range(2 * len(nodes)):  # each is heard of, and tells its nodes, and what it was told
            self.exchange_all()

    # What is done beside the engines

    def look(self, name: str) -> None:
        self.gateways[name].do(self.seen(name))

    def seen(self, name: str, **free_cores: int) -> JobNodesSeen:
        """What a look shows, where so many cores of nodes are free; whoever uses the others is not Leasehold."""
        live, site = self.gateways[name], site_of(name)
        nodes = self.nodes_at(name)
        as_used = (replace(node, free_cores=free_cores.get(node.name, node.free_cores)) for node in nodes)
        return JobNodesSeen(site, tuple(as_used), live.now_ms)

    def nodes_at(self, name: str) -> Sequence[NodeFacts]:
        """What a look at the site of a gateway shows."""
        live = self.gateways[name]
        return live.sites[site_of(name)].machines.nodes(live.now_ms)

    def offer(self, name: str, **free_cores: int) -> None:
        """Some nodes of a gateway's site offer themselves, of which so many cores are free."""
        live = self.gateways[name]
        nodes = tuple(node for node in self.seen(name, **free_cores).nodes if node.name in free_cores)
        live.do(JobNodesOffered(site_of(name), nodes, live.now_ms, live.now_ms + OFFERED_FOR_MS))

    def errands(self) -> None:
        """Do what engines want done, until they want nothing more."""
        for _ in range(_MOST_ROUNDS):
            done = [self._errands_of(name) for name in self._errands]
            if not any(done):
                return
        raise AssertionError("there is always something to do")

    def _errands_of(self, name: str) -> bool:
        return self._errands[name].run()

    def ask_again(self) -> None:
        for one in self._errands.values():
            one.ask_again()

    def written(self, name: str, lease_id: int) -> Output:
        self._keep_audits()
        here = self.gateways[name].sites[site_of(name)].machines.output(lease_id)
        text, error = self.outputs[name].get(lease_id, ("", ""))
        return here or Output(text, is_whole=True, error=error)

    def restart(self, name: str) -> None:
        """One is killed and comes back."""
        self._errands[name].forget()
        self.gateways[name].restart()

    def interrupt(self, who: str, way: tuple[str, str], *, lost: bool) -> None:
        """Kill one of them while one calls another, and lose what is on the line: all, or what follows two messages."""
        self.call(*way)
        if not lost:
            self.deliver(0)
            self.deliver(0)
        self.on_the_line.clear()
        self.restart(who)

    def happen(self, action: str, which: int) -> None:
        """Let one thing happen to a line or to who is on it; ``which`` says to what, where there are several."""
        what, _, name = action.partition(" ")
        index, way = which % max(1, len(self.on_the_line)), self.ways[which % len(self.ways)]
        match what:
            case "call":
                self.call(*way)
            case "lose" if self.on_the_line:
                self.on_the_line.pop(index)
            case "deliver" if self.on_the_line:
                self.deliver(index, again=name == "again")
            case "kill":
                self.restart(name)
            case "silent":
                self.fall_silent(*way)
            case "terms":
                self.agree(*way, [*AskWhen][which % len(AskWhen)])
            case "pass":
                self.pass_time(int(name))

    def fall_silent(self, name: str, other: str) -> None:
        """One has not heard of its peer for so long that this counts as silent, and its nodes as lost."""
        self.gateways[name].do(Happened(SiteFellSilent(other)), JobSiteSilent(other, "its gateway does not call"))

    def deliver(self, index: int, *, again: bool = False) -> None:
        super().deliver(index, again=again)
        self.errands()

    def pass_time(self, for_ms: int) -> None:
        super().pass_time(for_ms)
        self.errands()

    def to_and_fro(self, rounds: int = 6, for_ms: int = 1_000) -> None:
        for _ in range(rounds):
            self.exchange_all()
            self.pass_time(for_ms)
            self.check()

    def make_whole(self) -> None:
        """As of leases; and what engines ask for is asked for until it comes."""
        self.on_the_line.clear()
        for _ in range(_LOOKS):
            for name in self.gateways:
                self.look(name)
            self.ask_again()
            self.exchange_all()
            self.pass_time(1_000)
        super().make_whole()

    def is_quiet(self) -> bool:
        return super().is_quiet() and not any(live.engine.jobs.scheduler.records for live in self.gateways.values())

    def check(self) -> None:
        super().check()
        for live in self.gateways.values():
            live.engine.jobs.scheduler.check()

    # Plans

    def request(self, name: str, vms: int) -> Request:
        """A request that one makes of its peers."""
        live = self.gateways[name]
        number = live.engine.leases.last_id + 1
        return Request(number, LeaseType.SUSPENDABLE, vms, 60_000, live.now_ms, live.now_ms, consumer="physics")

    def plan(self, name: str, vms: int, peer: str = "", metadata: LeaseMetadata | None = None) -> int:
        """Ask a peer what would become of a request, that to which it would be offered; gives the question's number."""
        live, metadata = self.gateways[name], metadata or LeaseMetadata()
        request = self.request(name, vms)
        if not peer:
            there = live.engine.plan(Submit(request, metadata)).prospect.elsewhere
            assert there is not None
            peer = there.name
        return self.question(name, peer, request, metadata)

    def question(self, name: str, peer: str, request: Request, metadata: LeaseMetadata | None = None) -> int:
        """Ask a peer what would become of a request; gives the question's number, as live ones have it."""
        live = self.gateways[name]
        number = live.now_ms
        live.do(AskForPlan(number, peer, request, metadata or LeaseMetadata(), 2_000))
        return number

    def planned(self, name: str, number: int) -> Planned | None:
        """What was answered to a question."""
        return self._errands[name].planned.get(number)

    def asked_for_plans(self, name: str) -> list[PlanFor]:
        """What one was asked."""
        return self._errands[name].asked

    def leave_plans(self, name: str) -> None:
        self._errands[name].leave_plans()

    # Jobs

    def submit_job(
        self, *command: str, at: str = "a", runs_s: float = 5, cores: int = 1, needs: str = "numpy", **said: Any
    ) -> int:
        wanted = Needs(
            amounts=Amounts(cores, 256, 0),
            execution_ms=round(runs_s * 1_000),
            software=tuple(software(one) for one in needs.split() if one),
            nodes=said.pop("nodes", 1),
            outputs=said.pop("outputs", ()),
        )
        [(row, _)] = self.gateways[at].do(SubmitJob(consumer="physics", command=command, needs=wanted, **said))
        self.errands()
        number: int = row[0].record.id
        return number

    def cancel_job(self, number: int = 1, at: str = "a") -> None:
        self.do(at, CancelJob(number))

    def job(self, number: int = 1, at: str = "a") -> JobRow:
        row = self.stores[at].job(number)
        assert row is not None
        return row

    def state(self, number: int = 1) -> JobState:
        return self.job(number).record.state

    def attempts(self, number: int = 1, at: str = "a") -> list[AttemptRow]:
        return self.stores[at].attempts([number])

    def tried(self, number: int = 1) -> list[tuple[tuple[str, ...], AttemptState, str]]:
        """Where it was tried, how each try stands, and which fault it was."""
        return [
            (row.attempt.nodes, row.attempt.state, "" if row.attempt.fault is None else row.attempt.fault.value)
            for row in self.attempts(number)
        ]

    def output(self, number: int = 1) -> OutputRow | None:
        return self.stores["a"].output(number, self.job(number).record.delivered)

    def left(self, number: int = 1) -> tuple[OutputFile, ...]:
        """What the command of a job has left, as it is stored with its result."""
        wrote = self.output(number)
        return () if wrote is None else wrote.files

    def nodes(self, name: str = "a") -> dict[str, NodeRow]:
        """What a gateway knows of nodes."""
        return {row.name: row for row in self.stores[name].nodes_after("", 1_000, None)}

    def where_it_ran(self, lease_id: int, at: str = "a") -> tuple[str, LeaseRow]:
        """Follow a lease from gateway to gateway to its site."""
        row = self.row(at, lease_id)
        if row.lease.site not in self.gateways:
            return at, row
        [there] = self.guests(row.lease.site, at)[lease_id]
        return self.where_it_ran(there.lease.id, row.lease.site)

    def check_the_end(self, text: str) -> None:
        """Nothing of a job is left anywhere; if it is completed, one attempt has ended so, with its whole output."""
        self.make_whole()
        self.check()
        self.check_that_nothing_ran_twice()
        assert self.is_quiet()
        assert self.state().is_final
        for live in self.gateways.values():
            assert all(row.lease.state.is_final for row in rows_of(live))
            assert not any(live.gateway.peering.here.values())
        done = [row for row in self.attempts() if row.attempt.state is AttemptState.SUCCEEDED]
        assert len(done) == (self.state() is JobState.COMPLETED)
        for row in done:
            _, there = self.where_it_ran(row.lease_id or 0)
            assert there.lease.state is LeaseState.COMPLETED
            wrote = self.output()
            assert wrote is not None
            assert (wrote.text, wrote.is_whole) == (text, True)


def came_from(row: LeaseRow) -> str:
    """The peer that has sent a lease."""
    return asking_peer(row.metadata.origin)
