"""Jobs over the line: the gateway and both sites have nodes, and what engines want done is done beside them."""

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.service.messages.errands import Errands
from tests.service.messages.line import FAR, HOME, World, rows_of

from leasehold.jobs.job import AttemptState, JobState
from leasehold.matching.devices import devices_of
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software
from leasehold.model.event import SiteFellSilent
from leasehold.model.lease import LeaseState
from leasehold.service.commands import (
    CancelJob,
    Happened,
    JobNodesOffered,
    JobNodesSeen,
    JobSiteSilent,
    SubmitJob,
)
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.messages.endpoints import GATEWAY
from leasehold.service.store.rows import AttemptRow, JobRow, NodeRow, OutputRow
from leasehold.testing.live import Live

NUMPY = frozenset({("numpy", "1.24.2")})
NODES = {
    HOME: (EmulatedNode("h1", 2, 2_048),),
    "far": (EmulatedNode("f1", 2, 4_096, software=NUMPY), EmulatedNode("f2", 2, 4_096, software=NUMPY)),
    "north": (EmulatedNode("n1", 3, 4_096, software=NUMPY),),
}
OFFERED_FOR_MS = 60_000
_MOST_ROUNDS = 20
_LOOKS = 30
"""So many seconds: longer than any node is down here."""


class JobWorld(World):
    """All three, and whoever looks at nodes and reads outputs for them."""

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, tuple[EmulatedNode, ...]] = NODES,
        *,
        with_images: Container[str] = (),
    ) -> None:
        super().__init__(folder, nodes=nodes, with_images=with_images)
        self._errands = {
            name: Errands(live, name, partial(self.written, name), partial(self.look, name))
            for name, live in self.named()
        }
        for name, live in self.named():
            self.look(name)
            live.pass_time(0)
        for name in FAR:
            self.exchange(name)  # the gateway is heard of, and so the site tells its nodes
            self.exchange(name)

    def named(self) -> list[tuple[str, Live]]:
        return [(HOME, self.gateway), *self.sites.items()]

    def live_at(self, name: str) -> Live:
        return self.gateway if name == HOME else self.sites[name]

    def happen(self, action: str, which: int) -> None:
        """Let one thing happen to the line or to who is on it; ``which`` says to what, where there are several."""
        what, _, name = action.partition(" ")
        index = which % max(1, len(self.on_the_line))
        match what:
            case "call":
                self.call(name)
            case "lose" if self.on_the_line:
                self.on_the_line.pop(index)
            case "deliver" if self.on_the_line:
                self.deliver(index, again=name == "again")
            case "kill":
                self.restart(name)
            case "look":
                self.look(name)
            case "silent":
                self.fall_silent(name)
            case "pass":
                self.pass_time(int(name))

    def fall_silent(self, name: str) -> None:
        """The gateway has not heard of a manager for so long that it counts as silent."""
        self.gateway.do(Happened(SiteFellSilent(name)), JobSiteSilent(name, "its manager does not call"))

    # What is done beside the engines

    def look(self, name: str) -> None:
        live = self.live_at(name)
        live.do(JobNodesSeen(name, self.nodes_at(name), live.now_ms))

    def nodes_at(self, name: str) -> tuple[NodeFacts, ...]:
        """What a look at a site shows."""
        live = self.live_at(name)
        return tuple(live.sites[name].machines.nodes(live.now_ms))

    def look_and_find(self, name: str, **free_cores: int) -> None:
        """A site is looked at, and so many cores of nodes are free; whoever uses the others is not Leasehold."""
        live = self.live_at(name)
        live.do(JobNodesSeen(name, self._with_free(name, free_cores), live.now_ms))

    def offer(self, name: str, **free_cores: int) -> None:
        """Some nodes of a site offer themselves, of which so many cores are free."""
        live = self.live_at(name)
        nodes = tuple(node for node in self._with_free(name, free_cores) if node.name in free_cores)
        live.do(JobNodesOffered(name, nodes, live.now_ms, live.now_ms + OFFERED_FOR_MS))

    def _with_free(self, name: str, free_cores: Mapping[str, int]) -> tuple[NodeFacts, ...]:
        nodes = self.nodes_at(name)
        return tuple(replace(node, free_cores=free_cores.get(node.name, node.free_cores)) for node in nodes)

    def restart(self, who: str) -> None:
        """Somebody is killed and comes back; what it was doing is forgotten."""
        self._errands[HOME if who == GATEWAY else who].forget()
        super().restart(who)

    def errands(self) -> None:
        """Do what engines want done, until they want nothing more."""
        for _ in range(_MOST_ROUNDS):
            done = [self._errands_of(name, live) for name, live in self.named()]
            if not any(done):
                return
        raise AssertionError("there is always something to do")

    def _errands_of(self, name: str, _live: Live) -> bool:
        return self._errands[name].run()

    def ask_again(self) -> None:
        """What was asked for and did not come is asked for again, as after a while."""
        self._errands[HOME].ask_again()

    def written(self, name: str, lease_id: int) -> Output:
        self._keep_audits()
        here = self.live_at(name).sites[name].machines.output(lease_id)
        return here or Output(*_apart(self.outputs[name].get(lease_id, ("", ""))))

    def deliver(self, index: int, *, again: bool = False) -> None:
        super().deliver(index, again=again)
        self.errands()

    def pass_time(self, for_ms: int) -> None:
        super().pass_time(for_ms)
        self.errands()

    def make_whole(self) -> None:
        """As of leases; and what engines ask for is asked for until it comes."""
        self.on_the_line.clear()
        for _ in range(_LOOKS):
            for name in (HOME, *FAR):
                self.look(name)
            self.ask_again()
            for name in FAR:
                self.exchange(name)
            self.pass_time(1_000)
        super().make_whole()

    def is_quiet(self) -> bool:
        return super().is_quiet() and not self.gateway.engine.jobs.scheduler.records

    def check(self) -> None:
        super().check()
        for _, live in self.named():
            live.engine.jobs.scheduler.check()

    # Jobs

    def submit_job(self, *command: str, runs_s: float = 5, cores: int = 1, needs: str = "numpy", **said: Any) -> int:
        inputs, outputs, gpu_milli = said.pop("inputs", ()), said.pop("outputs", ()), said.pop("gpu_milli", 0)
        wanted = Needs(
            amounts=Amounts(cores, 256, 0, devices_of(gpu_milli)),
            execution_ms=round(runs_s * 1_000),
            software=tuple(software(one) for one in needs.split() if one),
            inputs=inputs,
            outputs=outputs,
        )
        [(row, _)] = self.gateway.do(SubmitJob(consumer="physics", command=command, needs=wanted, **said))
        self.errands()
        number: int = row[0].record.id
        return number

    def cancel_job(self, number: int) -> None:
        self.gateway.do(CancelJob(number))

    def job(self, number: int = 1) -> JobRow:
        row = self.gateway.store.job(number)
        assert row is not None
        return row

    def state(self, number: int = 1) -> JobState:
        return self.job(number).record.state

    def attempts(self, number: int = 1) -> list[AttemptRow]:
        return self.gateway.store.attempts([number])

    def tried(self, number: int = 1) -> list[tuple[str, AttemptState, str]]:
        """Where it was tried, how each try stands, and which fault it was."""
        return [
            (row.attempt.nodes[0], row.attempt.state, "" if row.attempt.fault is None else row.attempt.fault.value)
            for row in self.attempts(number)
        ]

    def output(self, number: int = 1) -> OutputRow | None:
        return self.gateway.store.output(number, self.job(number).record.delivered)

    def nodes(self) -> dict[str, NodeRow]:
        """What the gateway knows of nodes."""
        return {row.name: row for row in self.gateway.store.nodes_after("", 1_000, None)}

    def check_the_end(self, text: str) -> None:
        """Nothing of a job is left anywhere; if it is completed, one attempt has ended so, with its whole output."""
        self.make_whole()
        self.check()
        self.check_that_nothing_ran_twice()
        assert self.is_quiet()
        assert self.state().is_final
        assert all(row.lease.state.is_final for live in self.lives for row in rows_of(live))
        done = [row for row in self.attempts() if row.attempt.state is AttemptState.SUCCEEDED]
        assert len(done) == (self.state() is JobState.COMPLETED)
        for row in done:
            there = self.sites[row.site].store.lease_from(GATEWAY, row.lease_id or 0)
            assert there is not None
            assert there.lease.state is LeaseState.COMPLETED
            wrote = self.output()
            assert wrote is not None
            assert (wrote.text, wrote.is_whole) == (text, True)


def stored(name: str = "sky.fits") -> InputFile:
    """A file that the gateway has."""
    return InputFile(name, 10, "", sha256="ab" * 32)


def _apart(wrote: tuple[str, str]) -> tuple[str, bool, str]:
    return wrote[0], True, wrote[1]
