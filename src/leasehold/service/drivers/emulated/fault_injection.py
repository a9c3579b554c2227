"""Fault injection: what goes wrong at an emulated site, by chance and on demand.

`Faults` are the rates that a configuration asks for; without any nothing goes wrong. `FaultInjector` answers what
happens to orders, machines and commands, `NodeFaults` and `NodeFaultSchedule` what happens to nodes, and `Line` what
happens to news on its way to the gateway.

Chance has no memory here: each question is answered by a random stream of its own, named by the seed and by what is
asked about. So the same orders at the same times meet the same faults, whether or not the process was killed in
between, and nothing of it has to be stored.
"""

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil
from random import Random
from typing import Annotated

from leasehold.configuration.declaration import Key, Number, Seconds, Table, Whole
from leasehold.configuration.keys import MOST_SEED
from leasehold.jobs.job import Fault
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.protocol import NOT_FOUND, Observation, Order, Problem, Verb

_MS_PER_HOUR = 3_600_000
_NEVER_REFUSED = frozenset({Verb.SEND, Verb.STOP})
NODE_FAULTS = (Fault.NETWORK_FAILED, Fault.SERVICE_STOPPED, Fault.NODE_DIED)
"""What happens to a whole node; where several have, the first of these is what can be seen."""

_DESCRIPTIONS = {
    Fault.NODE_DIED: "emulated fault: the node has died",
    Fault.SERVICE_STOPPED: "emulated fault: the node's service has stopped",
    Fault.NETWORK_FAILED: "emulated fault: the node cannot be reached",
}

# --- rates --------------------------------------------------------------------------------------------------------


def _probability(doc: str, more: str = "") -> Number:
    return Number(f"probability that {doc}", more=more, least=0, most=1)


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong; raises InvalidField for a field that makes no sense."""

    # of the commands that run there, and of the nodes

    fail_jobs: Annotated[float, _probability("a command fails while it runs", " (exit status 1)")] = 0.0
    software_gone: Annotated[float, _probability("a command is not found when it begins", " (exit status 127)")] = 0.0
    node_death_per_hour: Annotated[
        float,
        Number("node failures per hour, on average", more="; everything on the node is lost", least=0),
    ] = 0.0
    service_stop_per_hour: Annotated[
        float, Number("stops of a node's manager per hour, on average, with everything that runs there", least=0)
    ] = 0.0
    network_cut_per_hour: Annotated[
        float,
        Number(
            "network failures of a node per hour, on average",
            more="; what runs on it continues unobserved, and is observed again afterwards",
            least=0,
        ),
    ] = 0.0
    node_down_ms: Annotated[int, Seconds("duration of each of these")] = 600_000

    # of the machines

    fail_orders: Annotated[float, _probability("an order is rejected once")] = 0.0
    refuse_orders: Annotated[
        float,
        # but for SEND and STOP, without which nothing could be put right
        _probability("an order is rejected permanently"),
    ] = 0.0
    lose_memory: Annotated[float, _probability("saving memory fails and the machines are lost")] = 0.0
    crash_per_hour: Annotated[float, Number("crashes of the machines of a lease per hour, on average", least=0)] = 0.0
    slow_factor: Annotated[float, Number("factor on the time to boot, save, load and migrate", least=0)] = 1.0
    delay_ms: Annotated[int, Seconds("additional time to boot, save, load and migrate")] = 0

    # of the wire to them

    no_answer: Annotated[float, _probability("a call fails with an error")] = 0.0
    lose_observations: Annotated[
        float,
        # it can be observed all the same
        _probability("a change is never observed"),
    ] = 0.0
    repeat_observations: Annotated[float, _probability("a change is observed twice")] = 0.0
    observations_late_ms: Annotated[int, Seconds("delay of observations")] = 0
    seed: Annotated[int, Whole("seed of all faults", least=0, most=MOST_SEED)] = 0

    def __post_init__(self) -> None:
        for name, key in FAULTS.declared.items():
            _check(name, getattr(self, name), key)


FAULTS = Table(Faults, "Faults and their probabilities.")


def _check(field: str, value: object, key: Key) -> None:
    kind, noun = ((int, float), "number") if isinstance(key, Number) else (int, "whole number")
    is_probability = isinstance(key, Number) and key.most == 1
    most = 1.0 if is_probability else math.inf
    if isinstance(value, kind) and not isinstance(value, bool) and 0 <= value <= most and math.isfinite(value):
        return
    bounds = "from 0 to 1" if is_probability else "of at least 0"
    raise InvalidField(field, value, f"a {noun} {bounds}")


# --- orders, machines and commands --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Planned:
    """An order that is to fail: of this verb and lease, or of any."""

    problem: Problem
    times: int
    verb: Verb | None
    lease_id: int | None

    def meets(self, order: Order) -> bool:
        fits = self.verb in {None, order.verb} and self.lease_id in {None, order.lease_id}
        return fits and self.times > 0


class FaultInjector:
    """What will go wrong. The rates in ``faults`` may be changed at any time."""

    def __init__(self, faults: Faults, site: str = "") -> None:
        """Begin with rates alone; sites of different names have different luck."""
        self.faults = faults
        self._site = site
        self._planned: list[_Planned] = []
        self._crashes_ms: dict[int, int] = {}
        self._losing_memory: set[int] = set()
        self._failing: dict[int, int] = {}

    # on demand

    def fail_next(
        self, problem: Problem, times: int = 1, verb: Verb | None = None, lease_id: int | None = None
    ) -> None:
        """Let the next orders (of this verb, of this lease) have this problem, so many times."""
        self._planned = [plan for plan in self._planned if plan.times > 0]
        self._planned.append(_Planned(problem, times, verb, lease_id))

    def crash_after(self, lease_id: int, running_ms: int) -> None:
        """Let the machines of a lease crash that long after they come up the next time."""
        self._crashes_ms[lease_id] = running_ms

    def fail_saving(self, lease_id: int) -> None:
        """Let the next saving of this lease's memory fail, so that its machines are lost."""
        self._losing_memory.add(lease_id)

    def fail_job(self, lease_id: int, exit_status: int = 1) -> None:
        """Let the command of this lease fail from the next time on that it comes up; 127: it is not found."""
        self._failing[lease_id] = exit_status

    # what the machines ask

    def problem_of(self, order: Order, now_ms: int) -> Problem | None:
        """Say why an order is not taken on, if it is not."""
        for plan in self._planned:
            if plan.meets(order):
                plan.times -= 1
                return plan.problem
        if order.verb not in _NEVER_REFUSED and self._happens(self.faults.refuse_orders, "refuse", order.id):
            return Problem(f"emulated fault: {order.verb} is refused", again=False)
        if self._happens(self.faults.fail_orders, "fail", order.id, now_ms):
            return Problem(f"emulated fault: {order.verb} has failed this time")
        return None

    def takes_ms(self, default_ms: int) -> int:
        """How long something takes that takes so long without faults."""
        return ceil(default_ms * self.faults.slow_factor) + self.faults.delay_ms

    def crashes_after_ms(self, lease_id: int, incarnation: int) -> int | None:
        """How long the machines run until they crash; None: they do not."""
        if lease_id in self._crashes_ms:
            return self._crashes_ms.pop(lease_id)
        if not self.faults.crash_per_hour:
            return None
        hours = self.random("crash", lease_id, incarnation).expovariate(self.faults.crash_per_hour)
        return ceil(hours * _MS_PER_HOUR)

    def loses_memory(self, lease_id: int, incarnation: int) -> bool:
        """Whether saving the memory of these machines fails."""
        if lease_id in self._losing_memory:
            self._losing_memory.discard(lease_id)
            return True
        return self._happens(self.faults.lose_memory, "memory", lease_id, incarnation)

    def exit_status_of(self, lease_id: int) -> int:
        """With which status a fault ends a lease's command, however often it is resumed; 0: none does."""
        if lease_id in self._failing:
            return self._failing[lease_id]
        if self._happens(self.faults.software_gone, "software", lease_id):
            return NOT_FOUND
        return int(self._happens(self.faults.fail_jobs, "job", lease_id))

    def part_of_the_work(self, lease_id: int) -> float:
        """How much of its work a command has done when a fault ends it."""
        return self.random("part", lease_id).random()

    def random(self, *about: object) -> Random:
        """Return the random stream that belongs to what is asked about."""
        return Random(repr((self.faults.seed, self._site, *about)))

    def _happens(self, probability: float, *about: object) -> bool:
        return probability > 0 and self.random(*about).random() < probability


# --- nodes --------------------------------------------------------------------------------------------------------

NodeFault = tuple[int, str, Fault]
"""When, to which node, and what."""


def describe(fault: Fault) -> str:
    """Say in words what is wrong with a node."""
    return _DESCRIPTIONS[fault]


@dataclass(slots=True)
class NodeFaults:
    """What is wrong with each node, and the time (ms) at which that is over: each fault ends by itself.

    A node may have died, its service may have stopped, and the network to it may be cut: then nothing is observed
    there until it can be reached again. Software may be gone from it.

    ``settled_ms``  until when faults by chance were injected; -1 before the first time
    """

    settled_ms: int = -1
    _wrong: dict[str, dict[str, int]] = field(default_factory=dict)
    _lost: dict[str, dict[str, int]] = field(default_factory=dict)

    def inject(self, node: str, fault: Fault, until_ms: int) -> None:
        """Let something be wrong with a node until then; what was wrong already does not end sooner."""
        wrong = self._wrong.setdefault(node, {})
        wrong[fault.value] = max(until_ms, wrong.get(fault.value, until_ms))

    def lose(self, node: str, software: str, until_ms: int) -> None:
        """Let software be gone from a node until then."""
        self._lost.setdefault(node, {})[software] = until_ms

    def known(self) -> Iterator[str]:
        """Name the nodes with which anything is, or was, wrong."""
        yield from self._wrong
        yield from self._lost

    def fault_of(self, node: str, now_ms: int) -> Fault | None:
        """Return what is wrong with a node, as far as that can be seen from outside."""
        wrong = self._wrong.get(node, {})
        return next((fault for fault in NODE_FAULTS if wrong.get(fault.value, 0) > now_ms), None)

    def problem_of(self, nodes: Iterable[str], now_ms: int) -> Problem | None:
        """Say what is wrong with the first of these nodes with which something is."""
        faults = ((name, self.fault_of(name, now_ms)) for name in nodes)
        return next((Problem(f"node {name}: {describe(fault)}") for name, fault in faults if fault is not None), None)

    def dark_until_ms(self, nodes: Iterable[str], now_ms: int) -> int:
        """When all of these nodes can be reached again; 0 where they can be now."""
        ends_ms = (self._wrong.get(node, {}).get(Fault.NETWORK_FAILED.value, 0) for node in nodes)
        return max((end_ms for end_ms in ends_ms if end_ms > now_ms), default=0)

    def lost_from(self, node: str, now_ms: int) -> frozenset[str]:
        """List the software that is gone from a node now."""
        lost = self._lost.get(node, {})
        return frozenset(name for name, until_ms in lost.items() if until_ms > now_ms)

    def to_text(self) -> str:
        """Write it, so that `from_text` gives the same again."""
        return json.dumps([self.settled_ms, self._wrong, self._lost])

    @classmethod
    def from_text(cls, text: str) -> "NodeFaults":
        """Read what `to_text` wrote."""
        return cls(*json.loads(text))


class NodeFaultSchedule:
    """When chance injects faults into nodes, looked ahead once for each set of rates."""

    def __init__(self, injector: FaultInjector, nodes: Iterable[str], known: NodeFaults) -> None:
        self._injector = injector
        self._nodes = list(nodes)
        self._known = known
        self._coming: list[NodeFault] = []
        self._rates_of: Faults | None = None

    def due(self, now_ms: int) -> Iterator[NodeFault]:
        """Give the faults that are due by now, each at its time."""
        self._look_ahead(now_ms)
        while self._coming and self._coming[0][0] <= now_ms:
            at_ms, node, fault = heappop(self._coming)
            heappush(self._coming, self._next(node, fault, at_ms))
            yield at_ms, node, fault
            self._known.settled_ms = at_ms

    def next_ms(self) -> int | None:
        """When the next one is due; None: never, as far as is known."""
        return self._coming[0][0] if self._coming else None

    def _look_ahead(self, now_ms: int) -> None:
        """What happened to a node before the site was there did not."""
        if self._rates_of is self._injector.faults:
            return
        self._rates_of = self._injector.faults
        from_ms = now_ms if self._known.settled_ms < 0 else self._known.settled_ms
        rated = [fault for fault in NODE_FAULTS if self._rate(fault)]
        self._coming = [self._next(node, fault, from_ms) for fault in rated for node in self._nodes]
        heapify(self._coming)
        if self._coming:
            self._known.settled_ms = from_ms

    def _next(self, node: str, fault: Fault, after_ms: int) -> NodeFault:
        random = self._injector.random
        return next_fault_ms(random, self._rate(fault), (fault.value, node), after_ms), node, fault

    def _rate(self, fault: Fault) -> float:
        faults = self._injector.faults
        return {
            Fault.NODE_DIED: faults.node_death_per_hour,
            Fault.SERVICE_STOPPED: faults.service_stop_per_hour,
            Fault.NETWORK_FAILED: faults.network_cut_per_hour,
        }[fault]


_IN_EACH_STRETCH = 8


def next_fault_ms(random: Callable[..., Random], per_hour: float, about: tuple[str, str], after_ms: int) -> int:
    """When something that happens so often in an hour on average happens next, later than ``after_ms``.

    Time is cut into stretches, in each of which as much happens on average, and each has a random stream of its own.
    So the next one can be computed at any time without knowing those before.
    """
    stretch_ms = ceil(_IN_EACH_STRETCH * _MS_PER_HOUR / per_hour)
    for number in count(after_ms // stretch_ms):
        drawn, at_ms = random(*about, number), float(number * stretch_ms)
        while True:
            at_ms += drawn.expovariate(per_hour) * _MS_PER_HOUR
            if at_ms >= (number + 1) * stretch_ms:
                break
            if at_ms >= after_ms + 1:
                return int(at_ms)
    raise AssertionError("there is always another stretch")


# --- the line -----------------------------------------------------------------------------------------------------

_MOST_UNTOLD = 100_000
"""So much news is kept while it is not taken; an observation of the whole site tells what the older ones would."""


class Line:
    """The line between gateway and site: it may be silent, and news may be lost, doubled or late.

    All of this concerns notifications: `observe` returns the actual state. The rates in ``faults`` may be changed at
    any time.
    """

    def __init__(self, faults: Faults, site: str) -> None:
        """Begin connected."""
        self.faults = faults
        self._site = site
        self._luck = Random(repr((faults.seed, site, "line")))
        self._untold: deque[tuple[int, Observation]] = deque(maxlen=_MOST_UNTOLD)
        self._cut = False
        self._connected = asyncio.Event()
        self._connected.set()

    # on demand

    def cut(self) -> None:
        """From now on, every request gets an error."""
        self._cut = True

    def hang(self) -> None:
        """From now on, no request is answered until the line is mended."""
        self._connected.clear()

    def mend(self) -> None:
        """Answer again, waiting requests first."""
        self._cut = False
        self._connected.set()

    # what passes

    async def reach(self) -> None:
        """Get through to the site; raises ConnectionError where the line is cut."""
        await self._connected.wait()
        if self._cut or self._happens(self.faults.no_answer):
            raise ConnectionError(f"emulated fault: site {self._site} does not answer")

    def send(self, news: Iterable[Observation], now_ms: int) -> None:
        """Put news on its way."""
        arrives_ms = now_ms + self.faults.observations_late_ms
        for one in news:
            if not self._happens(self.faults.lose_observations):
                self._untold.append((arrives_ms, one))
                if self._happens(self.faults.repeat_observations):
                    self._untold.append((arrives_ms, one))

    def receive(self, now_ms: int) -> list[Observation]:
        """Take the news that has arrived, in the order in which it was sent."""
        arrived: list[Observation] = []
        while self._untold and self._untold[0][0] <= now_ms:
            arrived.append(self._untold.popleft()[1])
        return arrived

    def next_arrival_ms(self) -> int | None:
        """When the next news arrives that is on its way."""
        return self._untold[0][0] if self._untold else None

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._luck.random() < probability
