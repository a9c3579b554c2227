"""The demonstration, served in virtual time: the shipped federation, drivers and forecasts, on a clock that jumps.

Nothing waits and nothing is left to chance: half an hour of the demonstration passes as fast as it is decided, and the
same seed gives the same predictions to the bit.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import anyio.to_thread
from tests.storm.loop import VirtualLoop

from leasehold.cli.serving import LEAST_GAP_S, MOST_WAITING, PACE, demo_requests
from leasehold.forecasting import worker
from leasehold.model.errors import LeaseholdError
from leasehold.model.request import Request
from leasehold.service import forecasts
from leasehold.service.commands import Submit
from leasehold.service.config import EstimatesSpec, demo
from leasehold.service.federation import Federation
from leasehold.service.forecasts import Forecasts
from leasehold.service.metrics import Metrics
from leasehold.service.store.rows import LeaseMetadata
from leasehold.service.store.store import open_store
from leasehold.service.surroundings import Surroundings
from leasehold.simulation.workload.job import WorkloadJob

BEGIN_MS = 1_800_000_000_000
_NO_LIMIT_S = 1e9
_COST_S = 1.0


class Inline:
    """Answers as the process of forecasts does, at once; each answer counts as one second of its processor."""

    async def ask(self, request: bytes, within_s: float) -> bytes:  # noqa: ARG002 - it takes no time
        line, _, body = worker.answer(request).partition(b"\n")
        return line.replace(line[line.index(b'"cpu_s"') :], b'"cpu_s": %f}' % _COST_S) + b"\n" + body

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Show:
    """How the demonstration is served.

    ``seed``      of its requests, and of all chance
    ``minutes``   for so long
    ``estimates`` how they are made
    ``needs``     the least part of the time asked for that a lease needs; each needs a part drawn from there to all of
                  it. 1 is the demonstration as it is shipped
    """

    seed: int
    minutes: int
    estimates: EstimatesSpec
    needs: float = 1.0


def serve_demo(folder: Path, show: Show, looking: Callable[[Federation], None] = lambda _: None) -> Forecasts:
    """Serve the demonstration; ``looking`` is called after each minute of its time."""
    loop, names = VirtualLoop(lambda _: 0.001), Random(show.seed)
    asyncio.set_event_loop(loop)

    async def in_thread(work: Callable[..., Any], *args: Any, **_: Any) -> Any:
        return await loop.run_in_executor(None, partial(work, *args))

    def clock() -> int:
        return BEGIN_MS + round(loop.time() * 1000)

    async def serve() -> Forecasts:
        config = demo()
        config = replace(config, limits=replace(config.limits, open_requests_per_consumer=0), estimates=show.estimates)
        store = open_store(f"sqlite:///{folder / 'leasehold.db'}")
        surroundings = Surroundings(
            lambda: Random(show.seed), lambda: f"{names.getrandbits(128):032x}", forecasts=False
        )
        async with Federation.open(config, store, folder, clock, Metrics(), surroundings=surroundings) as federation:
            federation.forecasts._worker = Inline()  # type: ignore[assignment]
            forecasting = asyncio.create_task(federation.forecasts.run())
            asking = asyncio.create_task(_ask(federation, loop, show))
            for _ in range(show.minutes):
                await asyncio.sleep(60)
                looking(federation)
            for task in (asking, forecasting):
                task.cancel()
            await asyncio.gather(asking, forecasting, return_exceptions=True)
            return federation.forecasts

    with patch.object(anyio.to_thread, "run_sync", in_thread), patch.object(forecasts, "_BUDGET_S", _NO_LIMIT_S):
        found = loop.run_until_complete(serve())
    loop.close()
    return found


async def _ask(federation: Federation, loop: asyncio.AbstractEventLoop, show: Show) -> None:
    """Make the requests of the demonstration, as `leasehold.cli.serving` does over HTTP."""
    seen_s, is_crowded, parts = float("-inf"), False, Random(show.seed)
    for at_s, consumer, job in demo_requests(show.seed):
        await asyncio.sleep(max(LEAST_GAP_S, at_s - loop.time()))
        if loop.time() - seen_s > 5:
            seen_s = loop.time()
            leases = await federation.ask(lambda engine: list(engine.gateway.leases.values()))
            waiting = [one.site for one in leases if not one.request.is_local and one.held_since_ms < 0]
            is_crowded = max(map(waiting.count, set(waiting)), default=0) > MOST_WAITING
        if job.site is None and is_crowded:
            continue
        try:
            await federation.submit(_request(consumer, job, parts.uniform(show.needs, 1.0)))
        except LeaseholdError:
            continue


def _request(consumer: str, job: WorkloadJob, part: float) -> Submit:
    duration_ms = max(1, round(job.requested_ms / PACE))
    command = ("sleep", f"{part * job.actual_ms / PACE / 1000:.3f}")
    request = Request(0, job.lease_type, job.vms, duration_ms, 0, 0, site=job.site, consumer=consumer)
    return Submit(request, LeaseMetadata("", command))
