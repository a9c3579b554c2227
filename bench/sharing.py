"""How long does it take to ask the agreements? In process, processor time.

    python -m bench.sharing [--agreements N] [--draws N]

Sites in virtual domains lend to VOs, and VOs pass parts on to their groups. Each question is about three
agreements: of the VO and of its group at the domain, and of all guests everywhere. All kinds of limit are
among them, and some VOs ask for far more than others. Leases come and go between the questions, so that
nothing stays as it was remembered. Wanted: under 20 microseconds with 1,000 agreements in force.
"""

import argparse
import json
from collections import deque
from dataclasses import asdict
from random import Random
from time import thread_time_ns
from typing import Any

from bench.decisions import Latency
from leasehold.model.agreement import (
    CPUS,
    EVERYBODY,
    Agreement,
    Commitment,
    Limit,
    NoLimit,
    TimeDecay,
    UsageDecay,
)
from leasehold.model.use import Holding
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import UsageRequest

DOMAINS, SITES_EACH, SLOTS = 5, 4, 128
GROUPS = 4
HELD = 1_000
MS_PER_MINUTE = 60_000
HOUR_MS = 60 * MS_PER_MINUTE
LIMITS: tuple[Limit, ...] = (
    Commitment(300_000, 4 * HOUR_MS, 600_000, HOUR_MS),
    TimeDecay(300_000, HOUR_MS),
    UsageDecay(300_000, HOUR_MS, normalise=True),
    NoLimit(),
)


def latencies(agreements: int, draws: int) -> list[dict[str, Any]]:
    """Time questions that are answered with yes, and with no."""
    random = Random(agreements)
    sharing = Sharing(places(), agreements=contracts(agreements))
    admitted_ns, refused_ns = asked(sharing, asking_paths(sharing), draws, random)
    named = (("admitted", admitted_ns), ("held back", refused_ns))
    return [asdict(Latency.of(f"{agreements:,} agreements asked, {what}", times)) for what, times in named if times]


def asking_paths(sharing: Sharing) -> list[str]:
    """Return the groups that have agreements, at least one group."""
    return sorted({one.consumer for one in sharing.book.agreements.values() if "/" in one.consumer}) or ["vo0/group0"]


def places() -> list[Provider]:
    """Give the sites, each in a virtual domain."""
    return [
        Provider(f"site{domain}-{number}", {CPUS: SLOTS}, f"domain{domain}")
        for domain in range(DOMAINS)
        for number in range(SITES_EACH)
    ]


def contracts(many: int) -> list[Agreement]:
    """Give this many agreements: of each domain with VOs, each with those of its groups, and one with all."""
    made = [Agreement("all", EVERYBODY, EVERYBODY, Commitment(900_000, HOUR_MS, 950_000, HOUR_MS // 4))]
    number = 0
    while len(made) < many:
        vo, domain = f"vo{number // DOMAINS}", f"domain{number % DOMAINS}"
        limit = LIMITS[number % len(LIMITS)]
        own = Agreement(f"{vo}-{domain}", domain, vo, limit)
        made += [own, *(_passed_on(own, group, limit) for group in range(GROUPS))]
        number += 1
    return made[:many]


def _passed_on(own: Agreement, group: int, limit: Limit) -> Agreement:
    consumer = f"{own.consumer}/group{group}"
    return Agreement(f"{own.name}-{group}", own.provider, consumer, limit, parent=own.name)


def asked(sharing: Sharing, paths: list[str], draws: int, random: Random) -> tuple[list[int], list[int]]:
    """Ask, hold what is admitted, and let the oldest go; returns the times of yes and of no, nanoseconds."""
    sites = list(sharing.providers.places)
    eager = [1 / place for place in range(1, len(paths) + 1)]
    asking = random.choices(paths, eager, k=draws)
    admitted_ns, refused_ns, held = list[int](), list[int](), deque[int]()
    now_ms = 0
    for lease_id in range(draws):
        now_ms += random.randrange(2_000)
        path, site = f"{asking[lease_id]}/user{random.randrange(20)}", random.choice(sites)
        ask = UsageRequest(path, {CPUS: random.choice([1, 1, 2, 4])}, HOUR_MS, now_ms)
        begun_ns = thread_time_ns()
        breach = sharing.why_not(ask, site, now_ms)
        passed_ns = thread_time_ns() - begun_ns
        (admitted_ns if breach is None else refused_ns).append(passed_ns)
        if breach is None:
            sharing.ledger.begin(lease_id, Holding(ask.path, site, ask.amounts), now_ms)
            held.append(lease_id)
        if len(held) > HELD:
            sharing.ledger.end(held.popleft(), now_ms)
    return admitted_ns, refused_ns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agreements", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=50_000)
    given = parser.parse_args()
    print(json.dumps(latencies(given.agreements, given.draws)))
