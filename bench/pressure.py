"""How long do others wait while one member asks the worst that each route can be asked?

    python -m bench.pressure FOLDER LEASES [--attackers N] [--submits N]

A gateway with ten emulated sites is filled with so many leases, all of one member; `leasehold serve` then
runs as a process of its own. For each route that member asks over N connections, again as soon as there is an
answer, while another member asks for leases, one after the other. Nothing limits how often anybody asks.
Printed is how long the other one waited for each answer. Nothing is asserted.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import httpx2 as httpx

from bench.held import config, fill
from bench.over_http import address, serving
from bench.table import show
from leasehold.service.clock import wall_ms
from leasehold.service.config import JobsSpec, ServiceConfig
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import open_store

_PAUSE_S = 0.02

_GUEST = {"type": "suspendable", "vms": 1, "duration_s": 3_600}
_TOGETHER = {"components": [{"vms": 1 + i % 5} for i in range(16)], "duration_s": 86_400}
_RESERVED = _TOGETHER | {"claim": "reservation"}
_JOB = {"command": ["true"], "execution_s": 60}


@dataclass(frozen=True, slots=True)
class Attack:
    """One thing that is asked again and again."""

    method: str
    path: str
    body: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """What it is called in the table."""
        kind = (self.body or {}).get("claim", "")
        return f"{self.method} {self.path}" + (f" ({kind})" if kind else "")


ATTACKS = (
    Attack("GET", "/v1/leases?limit=1"),
    Attack("GET", "/v1/leases?limit=1000"),
    Attack("GET", "/v1/sites"),
    Attack("GET", "/v1/usage"),
    Attack("GET", "/v1/usage?by=hour"),
    Attack("GET", "/v1/agreements"),
    Attack("GET", "/v1/coallocations"),
    Attack("GET", "/v1/nodes"),
    Attack("POST", "/v1/leases/plan", _GUEST),
    Attack("POST", "/v1/coallocations/plan", _TOGETHER),
    Attack("POST", "/v1/coallocations/plan", _RESERVED),
    Attack("POST", "/v1/jobs/plan", _JOB),
    Attack("POST", "/v1/leases", _GUEST),
    Attack("POST", "/v1/coallocations", _TOGETHER),
    Attack("POST", "/v1/coallocations", _RESERVED),
)


@dataclass(frozen=True, slots=True)
class Waited:
    """What the other member waited, in milliseconds, and how many answers the attacker had meanwhile."""

    attack: str
    median_ms: float
    p99_ms: float
    most_ms: float
    answers: int


def lending(leases: int) -> ServiceConfig:
    """Ten sites that lend for good, too, so that co-allocations have to be planned."""
    asked = config(leases)
    terms = replace(asked.defaults, non_preemptable_share=1.0, non_preemptable_max_ms=10**9)
    clusters = tuple(replace(one, terms=terms) for one in asked.clusters)
    seldom = JobsSpec(look_every_ms=3_600_000)  # the emulated sites have a node for each VM
    return replace(asked, clusters=clusters, defaults=terms, jobs=seldom)


async def filled(folder: Path, leases: int) -> None:
    """Let a gateway take in that many leases, and end."""
    with open_store(f"sqlite:///{folder / 'leasehold.db'}") as store:
        async with Federation.open(lending(leases), store, folder, wall_ms, Metrics()) as federation:
            await fill(federation, leases, Random(leases))


async def pressed(folder: Path, leases: int, attackers: int, submits: int, only: str) -> list[Waited]:
    """Measure one route after the other, once the gateway has found its sites' nodes."""
    host, port = await address(folder, within_s=600)
    admin = (folder / "admin.token").read_text(encoding="utf-8").strip()
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=600) as client:
        tokens = [await _member(client, admin, consumer) for consumer in ("physics", "climate")]
        await _all_nodes_taken_in(client, tokens[0], leases)
        chosen = [attack for attack in ATTACKS if only in attack.name]
        nobody = [await _under(client, None, tokens, 0, submits)]
        return nobody + [await _under(client, one, tokens, attackers, submits) for one in chosen]


async def _all_nodes_taken_in(client: httpx.AsyncClient, token: dict[str, str], leases: int) -> None:
    """Wait until each VM of the emulated sites has told of its node: there are no others."""
    wanted = sum(site.slots for site in lending(leases).clusters)
    found = 0
    while found < wanted:
        await asyncio.sleep(1)
        found, which = 0, {"limit": "1000", "brief": "true"}
        while which:
            page = (await client.get("/v1/nodes", params=which, headers=token)).raise_for_status().json()
            found += len(page["nodes"])
            which = which | {"cursor": page["next"]} if page["next"] else {}


async def _member(client: httpx.AsyncClient, admin: str, consumer: str) -> dict[str, str]:
    said = {"consumer": consumer, "roles": ["member"]}
    made = await client.post("/v1/tokens", json=said, headers={"Authorization": f"Bearer {admin}"})
    return {"Authorization": f"Bearer {made.raise_for_status().json()['token']}"}


async def _under(
    client: httpx.AsyncClient,
    attack: Attack | None,
    tokens: Sequence[dict[str, str]],
    attackers: int,
    submits: int,
) -> Waited:
    answers, times_ms = 0, []

    async def press() -> None:
        nonlocal answers
        while attack is not None:
            with suppress(httpx.HTTPError):
                await client.request(attack.method, attack.path, json=attack.body, headers=tokens[0])
            answers += 1

    pressing = [asyncio.create_task(press()) for _ in range(attackers)]
    await asyncio.sleep(1)
    for _ in range(submits):
        begun_s = time.perf_counter()
        made = await client.post("/v1/leases", json=_GUEST, headers=tokens[1])
        times_ms.append((time.perf_counter() - begun_s) * 1000)
        made.raise_for_status()
        await asyncio.sleep(_PAUSE_S)
    for one in pressing:
        one.cancel()
    await asyncio.gather(*pressing, return_exceptions=True)
    await asyncio.sleep(1)
    cuts = quantiles(times_ms, n=100)
    found = Waited(attack.name if attack else "nobody asks", cuts[49], cuts[98], max(times_ms), answers)
    print(found, file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("leases", type=int)
    parser.add_argument("--attackers", type=int, default=8, help="connections of the attacker")
    parser.add_argument("--submits", type=int, default=50, help="requests of the other member, for each route")
    parser.add_argument("--only", default="", help="only routes with this in their name")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if not (given.folder / "leasehold.db").exists():
        asyncio.run(filled(given.folder, given.leases))
    with serving(given.folder, lending(given.leases)):
        told = asyncio.run(pressed(given.folder, given.leases, given.attackers, given.submits, given.only))
    if given.json:
        print(json.dumps([asdict(one) for one in told]))
        return
    rows = [
        [one.attack, f"{one.median_ms:.0f}", f"{one.p99_ms:.0f}", f"{one.most_ms:.0f}", str(one.answers)]
        for one in told
    ]
    show(["while one member asks", "median, ms", "99 %", "most", "its answers"], rows)


if __name__ == "__main__":
    main()
