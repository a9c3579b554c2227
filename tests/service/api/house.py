"""A whole federation with emulated machines behind the API, in one process and without a socket."""

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import anyio
import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from tests.service.stores import store_at
from tests.waiting import until

from leasehold.configuration.tables import SharingSpec
from leasehold.service.api.app import Api, create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import Tokens
from leasehold.service.config import ServiceConfig, SiteSpec, default_terms
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import Store, open_store
from leasehold.service.surroundings import REAL, Surroundings

PATIENCE_S = 120
"""How long a test waits for what must come; when it does not, the test fails."""

UNLIMITED = RateLimit(0)
SETTINGS = ApiSettings(version="1.2.3", rate=UNLIMITED)
GENEROUS = replace(default_terms(), non_preemptable_share=1.0, non_preemptable_max_ms=86_400_000)
"""The terms of owners who lend everything for a day, also to who cannot be preempted."""
CONFIG = ServiceConfig(clusters=(SiteSpec("das3", 64, GENEROUS), SiteSpec("lyon", 32, GENEROUS)), sharing=SharingSpec())


def now_ms() -> int:
    """The time of the machine that the tests run on: nothing here depends on which it is."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class House:
    """A federation behind its API. Tests are outside its event loop; `ask` goes in."""

    app: Api
    federation: Federation
    tokens: Tokens
    portal: BlockingPortal
    client: httpx2.AsyncClient

    def token(
        self,
        *roles: Role,
        consumer: str = "physics",
        groups: tuple[str, ...] = (),
        sites: tuple[str, ...] = (),
    ) -> str:
        """Make a token for somebody with these roles; without any, for a member."""
        owner = Principal(consumer, frozenset(roles or {Role.MEMBER}), groups, frozenset(sites))
        return self.tokens.issue(owner)[1]

    def ask(self, method: str, path: str, token: str = "", **options: Any) -> httpx2.Response:
        """Ask the API, with a token where there is one."""
        headers = dict(options.pop("headers", {}))
        if token:
            headers["Authorization"] = f"Bearer {token}"

        async def ask() -> httpx2.Response:
            return await self.client.request(method, path, headers=headers, **options)

        return self.portal.call(ask)

    @contextmanager
    def stream(self, path: str, token: str = "", **headers: str) -> Iterator["Stream"]:
        """Listen at a path for as long as the block lasts, then hang up."""
        stream = Stream()
        scope = stream.scope(path, headers | ({"Authorization": f"Bearer {token}"} if token else {}))
        answering = self.portal.start_task_soon(self.app, scope, stream.receive, stream.send)
        try:
            yield stream
        finally:
            self.portal.call(stream.hang_up)
            answering.result(PATIENCE_S)

    def wait_for_nodes(self, sites: int) -> None:
        """Wait until so many sites have told of their nodes, as they are asked to at the beginning."""

        async def wait() -> None:
            with anyio.fail_after(PATIENCE_S):
                while len({node.site for node in await self.federation.jobs.nodes()}) < sites:  # noqa: ASYNC110 - no journal has it
                    await anyio.sleep(0.01)

        self.portal.call(wait)

    def submit(self, token: str, **fields: Any) -> dict[str, Any]:
        """Ask for a lease that no test minds, and give it."""
        answer = self.ask("POST", "/v1/leases", token, json=asked(**fields))
        assert answer.status_code == 201, answer.text
        lease: dict[str, Any] = answer.json()
        return lease

    def running(self, lease_id: int, token: str) -> dict[str, Any]:
        """Wait until the machines of a lease were seen, and give it as it is then."""
        shown: dict[str, Any] = {}

        def is_running() -> bool:
            shown.update(self.ask("GET", f"/v1/leases/{lease_id}", token).json())
            return bool(shown["state"] == "running")

        until(is_running)
        return shown


class Stream:
    """One listener to a stream of server-sent events, at the level of ASGI: what comes can be waited for."""

    def __init__(self) -> None:
        self.status = 0
        self._gone = anyio.Event()
        self._reading = anyio.Event()
        self._reading.set()
        self._events: SimpleQueue[str | None] = SimpleQueue()
        self._started = threading.Event()
        self._rest = ""

    def scope(self, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        path, _, query = path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("gateway", 80),
        }

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def hang_up(self) -> None:
        self._gone.set()

    async def stop_reading(self) -> None:
        self._reading = anyio.Event()

    async def go_on_reading(self) -> None:
        self._reading.set()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._started.set()
            return
        await self._reading.wait()
        self._rest += message.get("body", b"").decode()
        *events, self._rest = self._rest.split("\n\n")
        for event in events:
            self._events.put(event)
        if not message.get("more_body", False):
            self._events.put(None)

    def answered(self) -> int:
        """Wait for the answer to begin, and give its status."""
        assert self._started.wait(PATIENCE_S)
        return self.status

    def next_raw(self) -> str | None:
        """Wait for the next event or comment; None: the stream has ended."""
        return self._events.get(timeout=PATIENCE_S)

    def next(self) -> dict[str, str] | None:
        """Wait for the next event; None: the stream has ended."""
        raw = self.next_raw()
        while raw is not None and raw.startswith(":"):
            raw = self.next_raw()
        return None if raw is None else dict(line.split(": ", 1) for line in raw.splitlines())

    def changes(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many events, and give their data."""
        return [json.loads((self.next() or {})["data"]) for _ in range(count)]


def asked(**fields: Any) -> dict[str, Any]:
    """A body that asks for a lease, with these fields changed, and those left out that are None."""
    body = {"type": "suspendable", "vms": 2, "duration_s": 3600} | fields
    return {name: value for name, value in body.items() if value is not None}


@asynccontextmanager
async def opened(
    store: Store, folder: Path, settings: ApiSettings, config: ServiceConfig, surroundings: Surroundings = REAL
) -> AsyncIterator[tuple[Federation, Tokens, Api]]:
    tokens = Tokens(store, now_ms)
    authenticator = Authenticator(tokens, Jwts(config.issuers, now_ms), failures=UNLIMITED)
    async with Federation.open(config, store, folder, now_ms, Metrics(), surroundings=surroundings) as federation:
        yield federation, tokens, create_app(federation, authenticator, tokens, settings)


@contextmanager
def house_in(
    folder: Path, settings: ApiSettings = SETTINGS, config: ServiceConfig = CONFIG, url: str = ""
) -> Iterator[House]:
    """Build a house in a folder, its store at the URL, or else there too."""
    with (
        open_store(url) if url else store_at(folder / "store.db") as store,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(store, folder, settings, config)) as (
            federation,
            tokens,
            app,
        ),
        portal.wrap_async_context_manager(
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://gateway")
        ) as client,
    ):
        yield House(app, federation, tokens, portal, client)
        portal.call(app.close_streams)
