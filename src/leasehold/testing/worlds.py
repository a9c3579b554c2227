"""Run a handful of jobs through the real decision code, in memory, with every invariant checked.

::

    history = play([local(0, 2, 10), guest(0, 3, 20)], sites=[site("a", 4)])
    history.first_start_s(1)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.backfill import reservation_depth
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.effect import Decision, Effect, LeaseClosed, MigrateLease, ResumeLease, StartLease
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LEASE_TYPES, Request
from leasehold.routing.policy import RoutingPolicy
from leasehold.routing.registry import routing_policy
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob


def site(
    name: str,
    slots: int,
    policy: str = "conservative",
    victims: str | VictimPolicy = "moml",
    **settings: Any,  # noqa: ANN401 - whatever SiteSettings takes
) -> SiteSettings:
    """A site with the given number of slots; further settings are those of SiteSettings."""
    chosen = victim_policy(victims) if isinstance(victims, str) else victims
    depth = reservation_depth(policy)
    return SiteSettings(name, slots, chosen, local_depth=depth, **settings)


def live_site(name: str, slots: int, policy: str = "conservative", **settings: Any) -> SiteSettings:  # noqa: ANN401 - as site
    """A site of a live gateway: that machines have started is seen, not assumed."""
    return site(name, slots, policy, confirms_starts=True, **settings)


def local(
    submit_s: float,
    vms: int,
    asked_s: float,
    needed_s: float | None = None,
    *,
    home: str = "a",
    ready_s: float = 0,
) -> WorkloadJob:
    """A local request; times in seconds, ``needed_s`` is what it really takes."""
    submit_ms, asked_ms = round(submit_s * 1000), round(asked_s * 1000)
    actual_ms = asked_ms if needed_s is None else round(needed_s * 1000)
    ready_ms = max(submit_ms, round(ready_s * 1000))
    return WorkloadJob(submit_ms, vms, asked_ms, actual_ms, site=home, ready_ms=ready_ms)


def guest(
    submit_s: float,
    vms: int,
    asked_s: float,
    kind: str = "suspendable",
    *,
    needed_s: float | None = None,
    deadline_s: float | None = None,
    ready_s: float = 0,
) -> WorkloadJob:
    """An outside request at the gateway."""
    job = local(submit_s, vms, asked_s, needed_s, ready_s=ready_s)
    job.site, job.lease_type = None, LEASE_TYPES[kind]
    job.deadline_ms = None if deadline_s is None else round(deadline_s * 1000)
    return job


@dataclass(slots=True)
class History:
    """Everything that happened, by the number of the job (from 1 on, in order of submission)."""

    effects: list[tuple[int, Effect]] = field(default_factory=list)
    unfinished: dict[int, Lease] = field(default_factory=dict)
    handlers: Mapping[type, Handler] = field(init=False)

    def __post_init__(self) -> None:
        self.handlers = dict.fromkeys(get_args(Effect), self._happened)

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Nothing is kept of a submission."""

    def _happened(self, effect: Effect, now_ms: int) -> None:
        self.effects.append((now_ms, effect))

    def starts_ms(self) -> dict[int, int]:
        """When each lease first held VMs."""
        starts: dict[int, int] = {}
        for now_ms, effect in self.effects:
            if isinstance(effect, StartLease):
                starts.setdefault(effect.lease.id, now_ms)
        return starts

    def first_start_s(self, lease_id: int) -> float | None:
        """When one lease first held VMs; None if it never did."""
        start_ms = self.starts_ms().get(lease_id)
        return None if start_ms is None else start_ms / 1000

    def ends(self) -> dict[int, tuple[float, Reason]]:
        """When and why each lease was over."""
        return {
            effect.lease.id: (now_ms / 1000, effect.reason)
            for now_ms, effect in self.effects
            if isinstance(effect, LeaseClosed)
        }

    def decisions(self, outcome: Outcome) -> list[tuple[float, Decision]]:
        """All decisions with this outcome, with their times."""
        found = [(now_ms / 1000, e) for now_ms, e in self.effects if isinstance(e, Decision)]
        return [(now_s, decision) for now_s, decision in found if decision.outcome is outcome]

    def moves(self, lease_id: int) -> list[tuple[float, str, str]]:
        """Every start, resumption and migration of one lease: time, what, where (as it is at the end)."""
        kinds = {StartLease: "start", ResumeLease: "resume", MigrateLease: "migrate"}
        return [
            (now_ms / 1000, kinds[type(effect)], effect.lease.site)
            for now_ms, effect in self.effects
            if isinstance(effect, StartLease | ResumeLease | MigrateLease) and effect.lease.id == lease_id
        ]


def play(
    jobs: Iterable[WorkloadJob],
    sites: Sequence[SiteSettings],
    routing: str | RoutingPolicy = "rr",
    *,
    seed: int = 0,
    reference_mips: int = 1,
    **options: Any,  # noqa: ANN401 - whatever Routing takes
) -> History:
    """Run jobs (in order of submission) to the end; raises InvariantBroken if anything goes wrong."""
    policy = routing_policy(routing)(Random(seed)) if isinstance(routing, str) else routing
    gateway = Gateway(sites, Routing(policy, **options), reference_mips)
    history = History(unfinished=gateway.leases)
    world = SimulatedWorld(gateway, enumerate(jobs, 1), history, Invariants(gateway))
    for _ in world.run():
        pass
    return history
