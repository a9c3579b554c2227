"""The same clusters and requests if nobody ever had to give way: for comparison, and no policy to use.

Every guest comes as Non-preemptable, so that local requests are refused where guests hold the room that they
need. Guests that can wait still do: at the gateway, until some cluster has room for them.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import ClassVar

from leasehold.experiments.intergrid.settings import Configuration
from leasehold.model.request import LeaseType, Request
from leasehold.routing.facts import SiteFacts
from leasehold.routing.policy import Dispatch, Hold, Information, Refuse, RoutingPolicy, RoutingView, Verdict
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
        in_turn = view.sites[len(self._site) % len(view.sites)]
        site = self._site.setdefault(request.id, in_turn)
        if view.live(site.name).free_vms >= request.vms:
            return Dispatch(site.name)
        return Hold() if _can_wait(self._jobs[request.id], site, now_ms) else Refuse()


def _can_wait(job: Job, site: SiteFacts, now_ms: int) -> bool:
    if job.lease_type.is_best_effort or job.deadline_ms is None:
        return job.lease_type.is_best_effort
    wall_ms = job.requested_ms * site.reference_mips / site.speed_mips
    return now_ms + wall_ms <= job.deadline_ms
