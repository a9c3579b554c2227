"""How long each page of the dashboard takes a gateway that holds so many leases.

    python -m bench.dashboard FOLDER LEASES

And how long it takes to plan a request, and to explain a lease.

The gateway of `bench.held`, with forty consumers; a third of the leases wait. Each page is asked for as by a browser of
an administrator, without a socket: the milliseconds are processor time of routing, reading, and rendering. The first
look of the day is not timed: it reads the day's journal, twenty thousand lines at a time, and a gateway does that once.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from random import Random
from statistics import median

import httpx2 as httpx

from bench.held import AT_ONCE, TYPES, WIDTHS, config
from leasehold.service.api.app import Api, create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.sessions import COOKIE
from leasehold.service.auth.tokens import Tokens
from leasehold.service.clock import wall_ms
from leasehold.service.config import LogSpec
from leasehold.service.federation import Federation
from leasehold.service.logs import set_up_logs
from leasehold.service.metrics import Metrics
from leasehold.service.serving import LONGEST_TURN_S, collecting_little_garbage, keep_what_was_read
from leasehold.service.store.store import open_store
from leasehold.testing.rows import submit

CONSUMERS = 40
ROUNDS = 7
PAGES = (
    "/", "/queue", "/queue?consumer=vo-7", "/leases", "/leases/77", "/decisions", "/nodes?site=site-0", "/timeline",
    "/loans", "/history",
)  # fmt: skip


async def fill(federation: Federation, leases: int, random: Random) -> None:
    """Ask for that many leases of several consumers."""
    numbers = iter(range(leases))

    async def ask() -> None:
        for number in numbers:
            kind, vms = random.choice(TYPES), random.choice(WIDTHS)
            await federation.submit(submit(f"vo-{number % CONSUMERS}", kind, vms, 36_000_000, key=f"d{number}"))

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))


async def look(app: Api, token: str) -> dict[str, float]:
    """Ask for each page some times; gives the median of its milliseconds."""
    cookie, _ = await app.state.sessions.begin(token)
    headers = {"Cookie": f"{COOKIE}={cookie}", "Accept": "text/html"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        while not app.state.today.is_complete:
            (await client.get("/")).raise_for_status()
        times_ms: dict[str, list[float]] = {page: [] for page in PAGES}
        for _ in range(ROUNDS):
            for page in PAGES:
                begun_s = time.process_time()
                (await client.get(page)).raise_for_status()
                times_ms[page].append((time.process_time() - begun_s) * 1000)
    return {page: median(taken) for page, taken in times_ms.items()}


async def ask(app: Api, token: str, leases: int) -> dict[str, float]:
    """Plan requests, and ask why leases run and wait; gives the medians of their milliseconds.

    Plans are of the deciding code alone, without futures: with so many leases none are simulated.
    """
    transport, headers = httpx.ASGITransport(app), {"Authorization": f"Bearer {token}"}
    times_ms: dict[str, list[float]] = {"plan": [], "explain": []}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        for turn in range(4 * ROUNDS):
            body = {"type": "suspendable", "vms": 1 + turn % 4, "duration_s": 600}
            asked = (
                ("plan", "POST", "/v1/leases/plan?within_s=2", body),
                ("explain", "GET", f"/v1/leases/{1 + turn * 7919 % leases}/explanation", None),
            )
            for name, method, path, content in asked:
                begun_s = time.process_time()
                (await client.request(method, path, json=content)).raise_for_status()
                times_ms[name].append((time.process_time() - begun_s) * 1000)
    return {name: median(taken) for name, taken in times_ms.items()}


async def measure(folder: Path, leases: int) -> dict[str, float]:
    """Fill a gateway, and time its pages."""
    with open_store(f"sqlite:///{folder / 'leasehold.db'}") as store:
        async with Federation.open(config(leases), store, folder, wall_ms, Metrics()) as federation:
            tokens = Tokens(store, wall_ms)
            token = tokens.issue(Principal("chief", frozenset({Role.FEDERATION_ADMIN})))[1]
            settings = ApiSettings("bench", rate=RateLimit(0))
            app = create_app(federation, Authenticator(tokens, Jwts((), wall_ms)), tokens, settings)
            await fill(federation, leases, Random(leases))
            keep_what_was_read()
            return await look(app, token) | await ask(app, token, leases)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("leases", type=int)
    given = parser.parse_args()
    set_up_logs(LogSpec(level="error"), sys.stderr)  # standard output is the answer
    sys.setswitchinterval(LONGEST_TURN_S)  # as `leasehold serve` does
    with collecting_little_garbage():
        print(json.dumps(asyncio.run(measure(given.folder, given.leases))))
