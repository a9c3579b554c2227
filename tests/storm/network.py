"""The network: calls from one process to the application of another, that are late, lost, doubled, or cut
off.

HTTP runs over a stream of bytes, which doubles nothing; but whoever lost an answer asks again, proxies do so
on their own, and messages are told again. So what is doubled here is what may be: whatever says the same the
second time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol

import httpx2
from tests.storm.loop import Life, in_life


class Server(Protocol):
    """A process as the network sees it."""

    life: Life
    app: Any
    """What answers there; None while nothing does."""


@dataclass(slots=True)
class Weather:
    """How bad the network is now.

    ``lost, doubled``  probability for each message, and for each call
    ``late_s``         the longest delay of one message
    ``cut``            processes that nobody reaches, and that reach nobody
    """

    lost: float = 0.0
    doubled: float = 0.0
    late_s: float = 0.02
    cut: frozenset[str] = frozenset()


class Network:
    """All lines between all processes; ``servers`` are found by their names. ``lost`` counts messages."""

    def __init__(self, rng: Random, servers: dict[str, Any], trace: Callable[[str], None]) -> None:
        self.weather = Weather()
        self.lost = 0
        self.rng = rng
        self.strips: frozenset[str] = frozenset()
        self._servers = servers
        self._trace = trace

    async def call(self, source: str, request: httpx2.Request) -> httpx2.Response:
        """Bring a request to the host that it names, and its answer back."""
        name = request.url.host
        body = await request.aread()
        await self._travel(source, name, httpx2.ConnectError)
        server = self._servers[name]
        if server.app is None:
            raise httpx2.ConnectError("connection refused")
        answer = self._ask(server, request, body)
        if self.rng.random() < self.weather.doubled and may_be_doubled(request):
            later = asyncio.get_running_loop().call_later
            later(self.rng.uniform(0, 5), self._ask_again, server, request, body)
        try:
            async with asyncio.timeout(request.extensions["timeout"]["read"]):
                response: httpx2.Response = await answer
                await self._travel(name, source, httpx2.ReadError)
        except TimeoutError:
            raise httpx2.ReadTimeout("no answer in time") from None
        return response

    async def _travel(self, source: str, to: str, error: type[httpx2.TransportError]) -> None:
        weather = self.weather
        await asyncio.sleep(self.rng.uniform(0.001, weather.late_s))
        if source in weather.cut or to in weather.cut or self.rng.random() < weather.lost:
            self.lost += 1
            await asyncio.sleep(self.rng.uniform(0, 3))
            raise error(f"lost between {source} and {to}")

    def _ask_again(self, server: Server, request: httpx2.Request, body: bytes) -> None:
        if server.app is not None:
            self._trace(f"doubled: {request.method} {request.url.path}")
            self._ask(server, request, body).add_done_callback(_look_away)

    def _ask(self, server: Server, request: httpx2.Request, body: bytes) -> asyncio.Future[Any]:
        """Let the other process answer in a task of its own; when it dies, the connection breaks soon."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        life = server.life
        life.calls[done] = None
        done.add_done_callback(lambda one: life.calls.pop(one, None), context=in_life(None))
        serving = loop.create_task(
            _serve(server.app, scope_of(request, self.strips), body, done), context=in_life(life)
        )
        serving.add_done_callback(partial(_give_up, done), context=in_life(None))
        return done

    def break_off(self, life: Life) -> None:
        """Nobody answers any more whom this life has begun to answer."""
        loop = asyncio.get_running_loop()
        for done in life.calls:
            loop.call_later(self.rng.uniform(0, 1), _break, done, context=in_life(None))
        life.calls.clear()


def may_be_doubled(request: httpx2.Request) -> bool:
    """Whether it is promised that a request does the same when it comes a second time."""
    return request.method != "POST" or "Idempotency-Key" in request.headers or request.url.path.endswith("/messages")


class Wire(httpx2.AsyncBaseTransport):
    """The network for one that calls."""

    def __init__(self, network: Network, source: str) -> None:
        self._network = network
        self._source = source

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._network.call(self._source, request)


async def _serve(app: Any, scope: dict[str, Any], body: bytes, done: asyncio.Future[Any]) -> None:
    """Answer one request as an ASGI server would."""
    begun: dict[str, Any] = {}
    parts: list[bytes] = []
    bodies = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if bodies:
            return bodies.pop()
        await asyncio.Event().wait()  # nobody hangs up
        raise AssertionError

    async def send(message: Any) -> None:
        begun.update(message if message["type"] == "http.response.start" else {})
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    if not done.done():
        done.set_result(httpx2.Response(begun["status"], headers=begun["headers"], content=b"".join(parts)))


def scope_of(request: httpx2.Request, strips: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Say of a request what an ASGI server says, without the headers of these names."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(key.lower(), value) for key, value in request.headers.raw if key.lower().decode() not in strips],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, 443),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }


def _break(done: asyncio.Future[Any]) -> None:
    if not done.done():
        done.set_exception(httpx2.ReadError("connection reset by peer"))


def _give_up(done: asyncio.Future[Any], serving: "asyncio.Task[None]") -> None:
    """Where the application itself broke, the connection does."""
    if not serving.cancelled() and serving.exception() is not None and not done.done():
        done.set_exception(httpx2.ReadError(f"the application broke: {serving.exception()!r}"))


def _look_away(done: asyncio.Future[Any]) -> None:
    done.exception()
