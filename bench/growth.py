"""What does one more request cost where there are many already? In process, processor time.

    python -m bench.growth KIND SIZE...

The kinds: a queue of local jobs at a site, sites behind a gateway, guests held by ten sites, jobs that wait for
nodes, agreements in force. Prints, for each operation, the median of microseconds at each size. Sizes that would
take too long are left out.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from statistics import median
from time import process_time, process_time_ns

from bench.sharing import asked, asking_paths, contracts, places
from bench.waiting import waiting_jobs
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.backfill import reservation_depth
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.event import Event, LeaseEnded, Submitted
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing

FILL_S, DRAW_S = 20.0, 3.0
"""Processor time that filling, and timing one operation, may take."""
DRAWS = 300
HOUR_MS = 3_600_000
LOCAL, GUEST = LeaseType.NON_PREEMPTABLE, LeaseType.SUSPENDABLE
Costs = Iterator[tuple[str, float]]


class TooLong(Exception):
    """Filling took too long."""


class Crowd:
    """A gateway that is filled and then asked; leases are numbered in order, and each request has its instant."""

    def __init__(self, sites: int, slots: int, routing: str = "rr") -> None:
        settings = [_site(f"site-{number}", slots) for number in range(sites)]
        self.gateway = Gateway(settings, Routing(routing_policy(routing)(Random(1))))
        self.now_ms = 0
        self._ids = count(1)

    def step(self, event: Event) -> int:
        """Let one thing happen; returns the nanoseconds that it took."""
        begun_ns = process_time_ns()
        self.gateway.handle([event], self.now_ms)
        return process_time_ns() - begun_ns

    def submit(self, kind: LeaseType, vms: int, duration_ms: int, site: str | None = None) -> int:
        """Ask for a lease."""
        self.now_ms += 1
        return self.step(
            Submitted(Request(next(self._ids), kind, vms, duration_ms, self.now_ms, self.now_ms, site=site))
        )

    def end(self, lease_id: int) -> int:
        """Let a lease end."""
        self.now_ms += 1
        return self.step(LeaseEnded(lease_id, self.gateway.leases[lease_id].incarnation))

    def running(self) -> list[int]:
        """Return the leases that run."""
        return [number for number, one in self.gateway.leases.items() if one.state is LeaseState.RUNNING]


def _site(name: str, slots: int) -> SiteSettings:
    return SiteSettings(name, slots, victim_policy("by-value:pareto"), local_depth=reservation_depth("conservative"))


def queue(size: int) -> Costs:
    """One site, half of it held by small jobs, and a queue of jobs of all sizes before a large one."""
    random, crowd, held = Random(size), Crowd(1, 100), 50

    def arrive() -> int:
        return crowd.submit(LOCAL, random.randint(1, 60), random.randrange(HOUR_MS // 60, HOUR_MS * 4), "site-0")

    for _ in range(held):
        crowd.submit(LOCAL, 1, HOUR_MS * 8, "site-0")
    crowd.submit(LOCAL, 60, HOUR_MS * 8, "site-0")
    _fill(arrive, size)
    ends = iter(range(1, held))
    yield "queue-early-end", _median_us(lambda: crowd.end(next(ends)), held // 2)
    yield "queue-arrival", _median_us(arrive, min(DRAWS, 2 * size))


def sites(size: int) -> Costs:
    """Guests that come and go at many sites, four for each."""
    for routing in ("rr", "pap-rtdp", "selective"):
        yield f"sites-{routing}", _come_and_go_us(size, routing)


def _come_and_go_us(size: int, routing: str) -> float:
    random, crowd = Random(size), Crowd(size, 16, routing)

    def come() -> int:
        return crowd.submit(GUEST, random.randint(1, 4), HOUR_MS)

    _fill(come, 4 * size)
    running = iter(crowd.running())
    return _median_us(lambda: come() + crowd.end(next(running)), min(DRAWS, 2 * size))


def guests(size: int) -> Costs:
    """Ten sites full of guests: another that waits, and local jobs before which guests give way."""
    random, crowd = Random(size), Crowd(10, max(1, size // 10))
    _fill(lambda: crowd.submit(GUEST, 1, random.randrange(HOUR_MS, HOUR_MS * 8)), size)
    numbers = count()
    wide = min(8, max(1, size // 10))
    yield "guests-another", _median_us(lambda: crowd.submit(GUEST, 1, HOUR_MS), 50)
    yield "guests-give-way", _median_us(lambda: crowd.submit(LOCAL, wide, HOUR_MS, f"site-{next(numbers) % 10}"), 20)


def jobs(size: int) -> Costs:
    """Jobs of all kinds that wait for 32 nodes."""
    found = waiting_jobs(size, 32)
    yield "jobs-submitted", found.submitting_median_us
    yield "jobs-end", found.ending_median_us


def agreements(size: int) -> Costs:
    """A question to the agreements, of which about three apply."""
    sharing = Sharing(places(), agreements=contracts(size))
    admitted_ns, refused_ns = asked(sharing, asking_paths(sharing), DRAWS * 10, Random(size))
    yield "agreements-question", median(admitted_ns + refused_ns) / 1e3


MEASURES: dict[str, Callable[[int], Costs]] = {
    "queue": queue,
    "sites": sites,
    "guests": guests,
    "jobs": jobs,
    "agreements": agreements,
}


def _fill(add: Callable[[], int], times: int) -> None:
    end_s = process_time() + FILL_S
    for _ in range(times):
        add()
        if process_time() > end_s:
            raise TooLong


def _median_us(do: Callable[[], int], draws: int = DRAWS) -> float:
    """Do it some times, at least three if that many are wanted; returns the median of microseconds."""
    end_s, taken_ns = process_time() + DRAW_S, list[int]()
    for _ in range(draws):
        taken_ns.append(do())
        if process_time() > end_s:
            break
    return median(taken_ns) / 1e3


def grown(kind: str, sizes: Sequence[int]) -> dict[str, dict[int, float]]:
    """Measure at rising sizes, as far as time allows."""
    found: dict[str, dict[int, float]] = {}
    for size in sizes:
        try:
            for what, cost_us in MEASURES[kind](size):
                found.setdefault(what, {})[size] = cost_us
        except TooLong:
            break
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=MEASURES)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    print(json.dumps(grown(given.kind, given.sizes)))
