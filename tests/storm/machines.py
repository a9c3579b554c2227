"""Machines as the gateway meets them: emulated ones, behind a site that may be silent, or lie.

A plug-in like anybody's: `leasehold.service.drivers.protocol` is all that the product and this have in
common. What carries orders out is Leasehold's own emulated driver, on the true time; in front of it stands
what goes wrong between the machines and us. `Site` is what outlives processes, and the witness of what was
ordered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.fault_injection import Faults
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Observation, Order, Phase, Problem, Verb

KIND = "storm"

T = TypeVar("T")

HUGE = 10**30
LIES: dict[str, Callable[[Observation, Random], Observation]] = {
    "status": lambda seen, rng: replace(seen, exit_status=rng.choice([HUGE, -HUGE, 2**63, 256, -1])),
    "since": lambda seen, rng: replace(seen, since_ms=rng.choice([0, -1, -HUGE, HUGE, 2**63, 4 * 10**12])),
    "text": lambda seen, rng: replace(
        seen,
        detail=rng.choice(["x" * 300_000, "\x00\x1b[2J\x07", "\ud800", "'; DROP TABLE leases; --", "é" * 9]),
    ),
    "fault": lambda seen, rng: replace(seen, fault=rng.choice(["nonsense", "", "node-died", "\x00"])),
    "phase": lambda seen, rng: replace(seen, phase=rng.choice(list(Phase))),
    "incarnation": lambda seen, rng: replace(
        seen, incarnation=rng.choice([0, -1, seen.incarnation + 1, seen.incarnation - 1, 2**63, HUGE])
    ),
    "lease": lambda seen, rng: replace(seen, lease_id=rng.choice([0, -1, 1, 2, 3, 2**63, HUGE])),
}
"""What can be said instead of what is so."""
STRANGE_NODES: tuple[dict[str, object], ...] = (
    {"cores": 0, "free_cores": HUGE},
    {"cores": -4, "free_cores": -HUGE},
    {"memory_mib": HUGE, "free_memory_mib": HUGE},
    {"cpu_mhz": -1, "bytes_per_s": HUGE},
    {"software": frozenset({("\x00", "x" * 10_000), ("bash", "not.a.version")})},
    {"problem": "\x1b[31m" + "y" * 100_000, "fault": "nonsense"},
)


@dataclass(slots=True)
class Told:
    """One order, as it was told to a site at its time (true ms)."""

    at_ms: int
    order: Order


@dataclass(slots=True)
class Site:
    """One site: how it is, and what was asked of it. ``process`` is the one that has it.

    ``silent``        "" for not, "cut" for an error at once, "hang" for no answer at all
    ``lies``          which lies it tells now, and ``lying`` how often
    ``losing``        how often an answer to orders is lost, whose orders were carried out
    ``forgetful``     how often a look leaves somebody out
    ``lied_about``    leases of which something untrue was said
    ``let_go_ms``     when those who had been kept waiting for it got through (true ms)
    ``nodes_told``    at which times of its process (ms) it was heard of nodes, and whether all were said to be up
    """

    name: str
    process: str
    slots: int
    rng: Random
    silent: str = ""
    lies: tuple[str, ...] = ()
    lying: float = 0.0
    losing: float = 0.0
    forgetful: float = 0.0
    faults: Faults = field(default_factory=Faults)
    told: list[Told] = field(default_factory=list)
    lied_about: set[int] = field(default_factory=set)
    let_go_ms: list[int] = field(default_factory=list)
    nodes_told: list[tuple[int, bool]] = field(default_factory=list)
    machines: EmulatedDriver | None = None
    mended: asyncio.Event = field(default_factory=asyncio.Event)
    twin: "Site | None" = None
    """A mutation: another site that is started at what this one is told to start."""

    def set_faults(self, faults: Faults) -> None:
        """Let machines do what they are told as badly as this."""
        self.faults = faults
        if self.machines is not None:
            self.machines.faults = faults

    def falls_silent(self, how: str) -> None:
        """Say nothing from now on; "" again."""
        self.silent = how
        if not how:
            self.mended.set()
            self.mended = asyncio.Event()


@dataclass(frozen=True, slots=True)
class Ground:
    """The sites of a world, and its true time."""

    sites: dict[str, Site]
    now_ms: Callable[[], int]
    trace: Callable[[str], None]


GROUND: ContextVar[Ground] = ContextVar("ground")


class StormMachines:
    """The machines of one site, as one life of its process sees them."""

    def __init__(self, setup: DriverSetup) -> None:
        self._ground = GROUND.get()
        self._site = self._ground.sites[setup.site]
        self._clock = setup.clock
        self._within = EmulatedDriver(replace(setup, clock=self._ground.now_ms))
        self._within.faults = self._site.faults
        self._site.machines = self._within

    @property
    def capabilities(self) -> Capabilities:
        return self._within.capabilities

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        site, now_ms = self._site, self._ground.now_ms()
        for order in orders:
            site.told.append(Told(now_ms, order))
            self._ground.trace(f"{site.name} is told {order.id} {list(order.command)}")
        await self._reach()
        problems = await self._within.carry_out(orders)
        for name, problem in problems.items():
            self._ground.trace(f"{site.name} does not take on {name}: {problem}")
        if site.twin is not None and site.twin.machines is not None:
            await site.twin.machines.carry_out([one for one in orders if one.verb is Verb.START])
        if site.rng.random() < site.losing:
            self._ground.trace(f"{site.name} answers, and nobody hears it")
            raise ConnectionError("storm: the answer was lost")
        return problems

    async def observe(self) -> list[Observation]:
        seen = self._said(await self._ask(self._within.observe))
        site = self._site
        shown = " ".join(f"{one.lease_id}.{one.incarnation}:{one.phase}" for one in seen)
        self._ground.trace(f"{site.name} shows {shown}"[:2000])
        left_out = [one for one in seen if site.rng.random() < site.forgetful]
        site.lied_about.update(one.lease_id for one in left_out)
        return [one for one in seen if one not in left_out]

    async def changes(self) -> list[Observation]:
        seen = self._said(await self._ask(self._within.changes))
        shown = " ".join(f"{one.lease_id}.{one.incarnation}:{one.phase}" for one in seen)
        self._ground.trace(f"{self._site.name} tells {shown}"[:2000])
        return seen

    async def console(self, lease_id: int) -> str:
        return self._words(await self._ask(lambda: self._within.console(lease_id)))

    async def output(self, lease_id: int) -> Output:
        output = await self._ask(lambda: self._within.output(lease_id))
        return replace(output, text=self._words(output.text))

    async def nodes(self) -> list[NodeFacts]:
        nodes = [self._strange(node) for node in await self._ask(self._within.nodes)]
        self._site.nodes_told.append((self._clock(), not any(node.problem for node in nodes)))
        return nodes

    async def close(self) -> None:
        await self._within.close()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the machines; silence may begin on the way there, and on the way back."""
        await self._reach()
        answer = await ask()
        await self._reach()
        return answer

    async def _reach(self) -> None:
        while self._site.silent == "hang":
            await self._site.mended.wait()
            self._site.let_go_ms.append(self._ground.now_ms())
        if self._site.silent:
            raise ConnectionError("storm: the site does not answer")

    def _said(self, seen: Sequence[Observation]) -> list[Observation]:
        """What is said of what is so: with times of the service's clock, and now and then something else."""
        ahead_ms = self._clock() - self._ground.now_ms()
        said = [self._lie(replace(one, since_ms=one.since_ms + ahead_ms)) for one in seen]
        if any(one.fault for one in said):
            self._site.nodes_told.append((self._clock(), False))
        return said

    def _lie(self, one: Observation) -> Observation:
        site = self._site
        if not site.lies or site.rng.random() >= site.lying:
            return one
        lie = site.rng.choice(site.lies)
        site.lied_about.add(one.lease_id)
        untrue = LIES[lie](one, site.rng)
        site.lied_about.add(untrue.lease_id)
        self._ground.trace(f"{site.name} lies about the {lie} of lease {one.lease_id}")
        return untrue

    def _words(self, text: str) -> str:
        site = self._site
        if site.lies and site.rng.random() < site.lying:
            return site.rng.choice(["z" * 3_000_000, "\x00\x1b[2J", "\ud800 half a character", text])
        return text

    def _strange(self, node: NodeFacts) -> NodeFacts:
        site = self._site
        if site.lies and site.rng.random() < site.lying:
            return replace(node, **site.rng.choice(STRANGE_NODES))  # type: ignore[arg-type]
        return node
