"""A gateway in one hand: told events at given seconds, with every invariant checked after each instant."""

from collections.abc import Iterable
from random import Random
from typing import Any

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import Decision, Effect, LeaseClosed, MigrateLease, ResumeLease, StartLease
from leasehold.model.event import Event, Submitted
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LEASE_TYPES, LeaseType, Request
from leasehold.routing.policy import RoutingPolicy
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing


class Told:
    """A gateway at these sites; `at` is told what happens at a second, and gives what is to be done."""

    def __init__(
        self,
        *sites: SiteSettings,
        routing: str | RoutingPolicy = "rr",
        reference_mips: int = 1,
        sharing: Sharing | None = None,
        **options: Any,
    ) -> None:
        policy = routing_policy(routing)(Random(0)) if isinstance(routing, str) else routing
        self.gateway = Gateway(sites, Routing(policy, **options), reference_mips, sharing)
        self._invariants = Invariants(self.gateway)

    def at(self, now_s: float, *events: Event) -> list[Effect]:
        now_ms = round(now_s * 1000)
        effects = self.gateway.handle(events, now_ms)
        self._invariants.check(effects, now_ms)
        return effects

    def lease(self, number: int) -> Lease:
        return self.gateway.leases[number]


def own(number: int, vms: int, span_s: float, home: str = "a") -> Submitted:
    """A local request comes."""
    return Submitted(Request(number, LeaseType.NON_PREEMPTABLE, vms, round(span_s * 1000), 0, 0, site=home))


def lent(
    number: int,
    vms: int,
    span_s: float,
    kind: str = "suspendable",
    *,
    ready_s: float = 0,
    deadline_s: float | None = None,
    **said: Any,
) -> Submitted:
    """A request from outside comes."""
    deadline_ms = None if deadline_s is None else round(deadline_s * 1000)
    ready_ms = round(ready_s * 1000)
    span_ms = round(span_s * 1000)
    return Submitted(Request(number, LEASE_TYPES[kind], vms, span_ms, 0, ready_ms, deadline_ms=deadline_ms, **said))


def decided(effects: Iterable[Effect], *outcomes: Outcome) -> list[tuple[int, Outcome, Reason]]:
    """What was decided about whom, and why; only these outcomes where some are named."""
    made = [effect for effect in effects if isinstance(effect, Decision)]
    return [(e.lease.id, e.outcome, e.reason) for e in made if not outcomes or e.outcome in outcomes]


def closed(effects: Iterable[Effect]) -> list[tuple[int, Reason]]:
    """Who is over, and why."""
    return [(effect.lease.id, effect.reason) for effect in effects if isinstance(effect, LeaseClosed)]


def begun(effects: Iterable[Effect]) -> list[tuple[int, str]]:
    """Who starts, goes on or moves, and where."""
    kinds = StartLease | ResumeLease | MigrateLease
    return [(effect.lease.id, effect.lease.site) for effect in effects if isinstance(effect, kinds)]
