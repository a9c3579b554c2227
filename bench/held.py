"""A whole gateway that holds so many leases: how fast it takes requests in, decides, recalls, and starts again.

    python -m bench.held FOLDER LEASES            # fill it, time it, and die as if killed
    python -m bench.held FOLDER LEASES --again    # start on what was left, and ask while nodes are taken in

Ten emulated sites with room for two thirds of the leases; the others wait. Each VM has a node of its own. The
store is a SQLite file on the disk of FOLDER, and a request counts as taken in when it is committed there.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median, quantiles

from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.clock import wall_ms
from leasehold.service.commands import Command, JobNodesSeen, Submit
from leasehold.service.config import Limits, LogSpec, ServiceConfig, ServiceSpec, SiteSpec, default_terms
from leasehold.service.federation import Federation
from leasehold.service.logs import set_up_logs
from leasehold.service.metrics import Metrics
from leasehold.service.serving import LONGEST_TURN_S, collecting_little_garbage, keep_what_was_read
from leasehold.service.store.store import open_store
from leasehold.testing.rows import submit

SITES = 10
AT_ONCE = 256
DRAWS = 1_000
LOCAL_DRAWS = 100
RECALLED_VMS = 10_000
TYPES = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.SUSPENDABLE)
WIDTHS = (1, 1, 2, 4)
"""VMs of a guest; two on average."""

INTAKE_WITHIN_S, FOLLOWED_WITHIN_S = 300.0, 60.0
PAUSE_S = 0.01


def slots_of(leases: int) -> int:
    """Give the VMs of each site: two thirds of the leases have room."""
    return max(32, leases * 2 * 2 // 3 // SITES)


def config(leases: int) -> ServiceConfig:
    """Ten equal sites; machines are looked at, and promises checked, only at the start."""
    sites = tuple(SiteSpec(f"site-{i}", slots_of(leases), default_terms()) for i in range(SITES))
    seldom_ms = 3_600_000
    service = ServiceSpec(check_every_ms=seldom_ms, reconcile_every_ms=seldom_ms)
    limits = Limits(requests_per_s=0, open_requests_per_consumer=10_000_000)
    return ServiceConfig(clusters=sites, service=service, limits=limits, defaults=default_terms())


class Counting(Federation):
    """A federation that knows when its engine has taken in every node once."""

    nodes_seen = 0
    has_all_nodes: asyncio.Event | None = None

    async def do(self, command: Command) -> object:
        """Ask the engine; raises what it answers with."""
        answer = await super().do(command)
        if isinstance(command, JobNodesSeen):
            self.nodes_seen += len(command.nodes)
            if self.nodes_seen >= sum(site.slots for site in self.config.clusters):
                self.all_nodes.set()
        return answer

    @property
    def all_nodes(self) -> asyncio.Event:
        """Set when every node was taken in once."""
        if self.has_all_nodes is None:
            self.has_all_nodes = asyncio.Event()
        return self.has_all_nodes


def guest(number: int, random: Random) -> Submit:
    """One request from outside, for hours."""
    duration_ms = random.randrange(7_200_000, 86_400_000)
    return submit("physics", random.choice(TYPES), random.choice(WIDTHS), duration_ms, key=f"g{number}")


def local(number: int, random: Random) -> Submit:
    """One request of a site's own user, before whom guests give way; not where most is recalled (`recall`)."""
    vms, site = random.choice((1, 8, 32)), f"site-{1 + number % (SITES - 1)}"
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
        begun_s = time.perf_counter()
        await federation.submit(make(number, random))
        times_ms.append((time.perf_counter() - begun_s) * 1000)
    return {"median_ms": median(times_ms), "p99_ms": quantiles(times_ms, n=100)[98], "most_ms": max(times_ms)}


async def recall(federation: Federation, leases: int) -> dict[str, float]:
    """Let a site's own user need most of it at once; gives the seconds until that was decided, and followed.

    It was followed when the machines of that request run, for which those of all its guests had to give way.
    """
    vms = min(RECALLED_VMS, slots_of(leases) * 3 // 4)
    request = submit("owner", LeaseType.NON_PREEMPTABLE, vms, 7_200_000, site="site-0", key="recall")
    begun_s = time.perf_counter()
    row, _ = await federation.submit(request)
    decided_s = time.perf_counter() - begun_s
    while row.lease.state is not LeaseState.RUNNING and time.perf_counter() - begun_s < FOLLOWED_WITHIN_S:
        await asyncio.sleep(PAUSE_S)
        row = federation.store.lease(row.lease.id) or row
    return {"vms": vms, "decided_s": decided_s, "followed_s": time.perf_counter() - begun_s}


async def intake(federation: Counting, random: Random, first: int) -> dict[str, float]:
    """Ask again and again until all nodes were taken in; gives the longest of the waits in milliseconds."""
    begun_s, waits_ms = time.perf_counter(), [0.0]
    while not federation.all_nodes.is_set() and time.perf_counter() - begun_s < INTAKE_WITHIN_S:
        asked_s = time.perf_counter()
        await federation.submit(guest(first + len(waits_ms), random))
        waits_ms.append((time.perf_counter() - asked_s) * 1000)
        await asyncio.sleep(PAUSE_S)
    return {"median_ms": median(waits_ms), "most_ms": max(waits_ms), "intake_s": time.perf_counter() - begun_s}


async def hold(folder: Path, leases: int) -> None:
    """Fill a gateway, and time it while it holds them."""
    random = Random(leases)
    with open_store(f"sqlite:///{folder / 'leasehold.db'}") as store:
        async with Counting.open(config(leases), store, folder, wall_ms, Metrics()) as federation:
            keep_what_was_read()
            accepted_per_s = await fill(federation, leases, random)
            await federation.all_nodes.wait()
            guests = await one_by_one(federation, guest, leases, DRAWS, random)
            locals_ = await one_by_one(federation, local, 0, LOCAL_DRAWS, random)
            recalled = await recall(federation, leases)
            told = {"accepted_per_s": accepted_per_s, "guest": guests, "local": locals_, "recall": recalled}
            print(json.dumps(told), flush=True)
            os._exit(0)  # as if killed: nothing is closed, nothing put in order


async def start_again(folder: Path, leases: int) -> None:
    """Start on what a killed gateway has left, and ask while its nodes are taken in."""
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    with open_store(f"sqlite:///{folder / 'leasehold.db'}") as store:
        async with Counting.open(config(leases), store, folder, wall_ms, Metrics()) as federation:
            restart_s, restart_cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
            keep_what_was_read()
            assert federation.health.ready, federation.health.why_not
            asked = await intake(federation, Random(leases), 2 * leases)
            restart = {"restart_s": restart_s, "restart_cpu_s": restart_cpu_s, "intake": asked}
            print(json.dumps(restart), flush=True)
            os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("leases", type=int)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    work = start_again if given.again else hold
    set_up_logs(LogSpec(level="error"), sys.stderr)  # standard output is the answer
    sys.setswitchinterval(LONGEST_TURN_S)  # as `leasehold serve` does
    with collecting_little_garbage():
        asyncio.run(work(given.folder, given.leases))
