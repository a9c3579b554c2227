"""The same clusters and requests if nobody ever had to give way: for comparison, and no policy to use.

Every guest comes as Non-preemptable, so that local requests are refused where guests hold the room that they
need. Guests that can wait still do: at the gateway, until some cluster has room for them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import ClassVar

from leasehold.experiments.intergrid.settings import Configuration
from leasehold.model.request import LeaseType, Request
from leasehold.routing.facts import SiteFacts
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    Refuse,
    RoutingPolicy,
    RoutingView,
    Verdict,
    Waiting,
)
from leasehold.simulation.workload.job import Job

NEVER = "never"


def is_without(configuration: Configuration) -> bool:
    """Whether it is run without preemption."""
    return configuration.policy == NEVER


class WaitsForRoom(RoutingPolicy):
    """Does the site whose turn it is have room right now?

    Rule: each request gets the next site in turn, as with RR, and goes out once that has the VMs free. Until
    then best-effort requests wait, Migratable ones as long as their deadline allows; others are refused.
    Source: our reading of the baseline of ACSC 2011.
    """

    name: ClassVar[str] = NEVER
    information: ClassVar[Information] = Information.LIVE

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._jobs: dict[int, Job] = {}
        self._site: dict[int, SiteFacts] = {}
        self._until_ms: dict[int, float] = {}

    def hardened(self, jobs: Iterator[Job]) -> Iterator[Job]:
        """Let guests come that hold what they have; remembers what they were."""
        for number, job in enumerate(jobs, 1):
            if job.site is None:
                self._jobs[number] = job
                yield replace(job, lease_type=LeaseType.NON_PREEMPTABLE, deadline_ms=None)
            else:
                yield job

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Send who finds room."""
        if request.id not in self._site:
            self._take_turn(request.id, view.sites, now_ms)
        site = self._site[request.id]
        if view.live(site.name).free_vms >= request.vms:
            return Dispatch(site.name)
        return Hold() if self._can_wait(request.id, now_ms) else Refuse()

    def ripe(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Sequence[Waiting]:
        """Give those for whom there is room, and those who cannot wait any longer: they can be thousands."""
        free_vms = {site.name: view.live(site.name).free_vms for site in view.sites}
        return [
            one
            for one in waiting
            if one.request.vms <= free_vms[self._site[one.request.id].name]
            or not self._can_wait(one.request.id, now_ms)
        ]

    def _take_turn(self, number: int, sites: Sequence[SiteFacts], now_ms: int) -> None:
        site = self._site[number] = sites[len(self._site) % len(sites)]
        self._until_ms[number] = _until_ms(self._jobs[number], site, now_ms)

    def _can_wait(self, number: int, now_ms: int) -> bool:
        return now_ms <= self._until_ms[number]


def _until_ms(job: Job, site: SiteFacts, now_ms: int) -> float:
    """Say how long somebody who has just come can wait: not at all, for ever, or while a deadline allows."""
    if job.lease_type.is_best_effort:
        return inf
    if job.deadline_ms is None:
        return now_ms - 1
    return job.deadline_ms - job.requested_ms * site.reference_mips / site.speed_mips
