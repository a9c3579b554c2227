"""A whole gateway that holds so many leases: how fast it takes requests in, decides, and starts again.

    python -m bench.held FOLDER LEASES            # fill it, time it, and die as if killed
    python -m bench.held FOLDER LEASES --again    # start on what was left: until every promise is checked

Ten emulated sites with room for two thirds of the leases; the others wait. The store is a SQLite file on the
disk of FOLDER, and a request counts as taken in when it is committed there.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

from leasehold.model.request import LeaseType
from leasehold.service.clock import wall_ms
from leasehold.service.commands import Submit
from leasehold.service.config import Limits, ServiceConfig, ServiceSpec, SiteSpec, default_terms
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import open_store
from leasehold.testing.rows import submit

SITES = 10
AT_ONCE = 256
DRAWS = 1_000
LOCAL_DRAWS = 100
TYPES = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.SUSPENDABLE)
WIDTHS = (1, 1, 2, 4)
"""VMs of a guest; two on average."""


def config(leases: int) -> ServiceConfig:
    """Ten equal sites; machines are looked at, and promises checked, only at the start."""
    slots = max(32, leases * 2 * 2 // 3 // SITES)
    sites = tuple(SiteSpec(f"site-{i}", slots, default_terms()) for i in range(SITES))
    seldom_ms = 3_600_000
    service = ServiceSpec(check_every_ms=seldom_ms, reconcile_every_ms=seldom_ms)
    limits = Limits(requests_per_s=0, open_requests_per_consumer=10_000_000)
    return ServiceConfig(clusters=sites, service=service, limits=limits, defaults=default_terms())


def guest(number: int, random: Random) -> Submit:
    """One request from outside, for hours."""
    duration_ms = random.randrange(7_200_000, 86_400_000)
    return submit("physics", random.choice(TYPES), random.choice(WIDTHS), duration_ms, key=f"g{number}")


def local(number: int, random: Random) -> Submit:
    """One request of a site's own user, before whom guests give way."""
    vms, site = random.choice((1, 8, 32)), f"site-{number % SITES}"
    return submit("owner", LeaseType.NON_PREEMPTABLE, vms, 7_200_000, site=site, key=f"l{number}")


async def fill(federation: Federation, leases: int, random: Random) -> float:
    """Ask for that many, so many at once; gives how many were taken in within a second."""
    numbers = iter(range(leases))

    async def ask() -> None:
        for number in numbers:
            await federation.submit(guest(number, random))

    begun_s = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return leases / (time.perf_counter() - begun_s)


async def one_by_one(
    federation: Federation, make: Callable[[int, Random], Submit], first: int, draws: int, random: Random
) -> dict[str, float]:
    """Ask for one after the other; gives the milliseconds from asking until the answer is committed."""
    times_ms = []
    for number in range(first, first + draws):
        request = make(number, random)
        begun_s = time.perf_counter()
        await federation.submit(request)
        times_ms.append((time.perf_counter() - begun_s) * 1000)
    return {"median_ms": median(times_ms), "p99_ms": quantiles(times_ms, n=100)[98]}


async def hold(folder: Path, leases: int) -> dict[str, Any]:
    """Fill a gateway, and time it while it holds them."""
    random = Random(leases)
    with open_store(f"sqlite:///{folder / 'leasehold.db'}") as store:
        async with Federation.open(config(leases), store, folder, wall_ms, Metrics()) as federation:
            accepted_per_s = await fill(federation, leases, random)
            guests = await one_by_one(federation, guest, leases, DRAWS, random)
            locals_ = await one_by_one(federation, local, 0, LOCAL_DRAWS, random)
            told = {"accepted_per_s": accepted_per_s, "guest": guests, "local": locals_}
            print(json.dumps(told), flush=True)
            os._exit(0)  # as if killed: nothing is closed, nothing put in order


async def start_again(folder: Path, leases: int) -> dict[str, Any]:
    """Start on what a killed gateway has left."""
    begun_s = time.perf_counter()
    with open_store(f"sqlite:///{folder / 'leasehold.db'}") as store:
        async with Federation.open(config(leases), store, folder, wall_ms, Metrics()) as federation:
            restart_s = time.perf_counter() - begun_s
            assert federation.health.ready, federation.health.why_not
            held = sum(store.count_by_state().values())
    return {"restart_s": restart_s, "held": held}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("leases", type=int)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    work = start_again if given.again else hold
    print(json.dumps(asyncio.run(work(given.folder, given.leases))))
