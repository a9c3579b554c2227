"""The workload of `leasehold serve --demo`: institutions that ask for machines, through the front door.

The requests are those of the scenario ``demo`` (JPDC 2012, section 5.2), sped up, so that within a minute
one sees guests run, give way, wait suspended and come back. Each is a real request over HTTP, with a token of
the institution that makes it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle

import structlog

from leasehold.client import AsyncClient, LeaseSpec, Role, TokenSpec
from leasehold.client.errors import ProblemError
from leasehold.simulation.scenario.parse import load_scenario, packaged_path
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.workload.job import WorkloadJob

PACE = 10
"""A minute of the demonstration is so many of the scenario: gaps and run times are divided by it."""
HEAD_START_S = 300
"""So many seconds of the scenario are over when it begins, and their requests come at once."""
LEAST_GAP_S = 0.05
"""No more often than this is anything asked for, whatever the scenario says."""
MOST_WAITING = 100
"""Guests that wait at a site; beyond that no more are sent, so that the demonstration can run for days."""

OWNERS = {"C64": "physics", "C128": "climate", "C256": "genomics"}
"""Whose clusters they are: these make the local requests."""
GUESTS = ("astro-pipeline", "materials", "seismology")
"""These have none, and take turns in asking for room at all of them."""
_NOTE = "made for the demonstration"


@dataclass(frozen=True, slots=True)
class DemoLoad:
    """Makes requests of a gateway for as long as it is let; ``admin_token`` gives it tokens to do so."""

    url: str
    admin_token: str

    async def run(self) -> None:
        """Take the institutions in, and let them work until cancelled."""
        async with AsyncExitStack() as clients:
            admin = await clients.enter_async_context(AsyncClient(self.url, self.admin_token))
            tokens = await self._tokens(admin)
            asking = {
                name: await clients.enter_async_context(AsyncClient(self.url, token)) for name, token in tokens.items()
            }
            await _work(admin, asking)

    async def _tokens(self, admin: AsyncClient) -> dict[str, str]:
        """Give every institution a token; those of an earlier demonstration count no more."""
        for token in await admin.tokens.list():
            if token.note == _NOTE and token.revoked_at is None:
                await admin.tokens.revoke(token.id)
        homes = {owner: [site] for site, owner in OWNERS.items()}
        return {
            name: (
                await admin.tokens.create(
                    TokenSpec(consumer=name, roles=[Role.MEMBER], sites=homes.get(name, []), note=_NOTE)
                )
            ).token
            for name in (*OWNERS.values(), *GUESTS)
        }


async def _work(admin: AsyncClient, asking: dict[str, AsyncClient]) -> None:
    """Send each request when its time has come; one that is turned away is let go."""
    loop = asyncio.get_running_loop()
    began_s, crowded = loop.time(), Crowd(admin)
    for at_s, consumer, job in demo_requests():
        await asyncio.sleep(max(LEAST_GAP_S, began_s + at_s - loop.time()))
        if job.site is None and await crowded.now():
            continue
        try:
            await _submit(asking[consumer], job)
        except ProblemError as error:
            structlog.get_logger("leasehold.demo").warning("turned away", consumer=consumer, why=str(error))


async def _submit(client: AsyncClient, job: WorkloadJob) -> None:
    """Ask for what a job of the scenario needs, and let it run for as long as it really does."""
    command = ["sleep", f"{job.actual_ms / PACE / 1000:.3f}"]
    duration_s = max(1, round(job.requested_ms / PACE)) / 1000
    kind = {"type": job.lease_type.label} if job.site is None else {"local": True, "site": job.site}
    await client.leases.submit(LeaseSpec.of(vms=job.vms, duration_s=duration_s, command=command, **kind))


def demo_requests() -> Iterator[tuple[float, str, WorkloadJob]]:
    """Give the scenario's jobs, over and over: when to ask (in seconds), who asks, and for what."""
    scenario = load_scenario(packaged_path("demo"))
    assert scenario.horizon_ms is not None
    guests, begins_ms = cycle(GUESTS), -HEAD_START_S * 1000
    while True:
        for job in open_streams(scenario, []):
            consumer = next(guests) if job.site is None else OWNERS[job.site]
            yield max(0, begins_ms + job.submit_ms) / PACE / 1000, consumer, job
        begins_ms += scenario.horizon_ms


class Crowd:
    """Whether enough guests wait already; asked of the gateway now and then."""

    def __init__(self, admin: AsyncClient) -> None:
        self._admin = admin
        self._asked_s = float("-inf")
        self._is_there = False

    async def now(self) -> bool:
        """Say so, by what was the case a few seconds ago."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._asked_s > _LOOK_EVERY_S:
            self._asked_s = now_s
            waiting = [site.waiting.guests for site in await self._admin.sites.list()]
            self._is_there = max(waiting) > MOST_WAITING
        return self._is_there


_LOOK_EVERY_S = 5.0
