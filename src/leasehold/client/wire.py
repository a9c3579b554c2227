"""The two ways of talking to a gateway, waiting and awaiting; what is said is the same.

Every rule (what to ask, when to ask again, how to read it) is elsewhere: here are only the loops around
the network.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from socket import gaierror
from typing import Any, TypeVar

from leasehold import __version__
from leasehold.client.access import Access, Bearer
from leasehold.client.answer import Answer
from leasehold.client.errors import Lost, NotInstalled, Unreachable
from leasehold.client.patience import ONCE, Attempts, Patience
from leasehold.client.place import is_at_work
from leasehold.client.question import Call, Page
from leasehold.client.records import Change
from leasehold.client.watching import PATH, Watch, stream_ended
from leasehold.model.errors import InputError

try:
    import httpx2
except ModuleNotFoundError as error:
    raise NotInstalled("Talking to a gateway", "client") from error

T = TypeVar("T")
CONNECT_S = 5.0
SILENCE_S = 60.0
"""A stream that is silent for longer, without even a heartbeat, is taken for broken."""


class Wire:
    """Asks and waits for the answer."""

    def __init__(self, access: Access, patience: Patience, timeout_s: float) -> None:
        self._url = access.url
        self._patience = patience
        self._http = httpx2.Client(**_settings(access, timeout_s))

    def ask(self, call: Call[T]) -> T:
        """Ask until there is an answer, and read it; raises Unreachable or what the reading raises."""
        attempts = Attempts(self._patience if call.repeatable else ONCE, call.key)
        while True:
            try:
                response = self._http.request(**_request(call))
            except httpx2.TransportError as error:
                pause_s = attempts.after_failure(_failure(self._url, error))
            else:
                answer = _answer(response)
                wanted_s = attempts.after_answer(answer)
                if wanted_s is None:
                    return call.read(answer)
                pause_s = wanted_s
            time.sleep(pause_s)

    def pages(self, call: Call[Page[T]]) -> Iterator[T]:
        """Ask for one page after the other."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = self.ask(following)
            yield from page.items
            following = page.following

    def follow(self, watch: Watch) -> Generator[Change, None, None]:
        """Give changes as they come, over as many connections as it takes."""
        while True:
            try:
                with self._http.sse(PATH, **_stream(watch)) as source:
                    if source.response.is_success:
                        watch.opened()
                        for event in source:
                            yield from watch.changes(event.event, event.data)
                        pause_s = watch.after_failure(stream_ended(self._url))
                    else:
                        source.response.read()
                        pause_s = watch.after_refusal(_answer(source.response))
            except httpx2.TransportError as error:
                pause_s = watch.after_failure(_failure(self._url, error))
            time.sleep(pause_s)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()


class AsyncWire:
    """Asks, and lets others work while it waits for the answer."""

    def __init__(self, access: Access, patience: Patience, timeout_s: float) -> None:
        self._url = access.url
        self._patience = patience
        self._http = httpx2.AsyncClient(**_settings(access, timeout_s))

    async def ask(self, call: Call[T]) -> T:
        """Ask until there is an answer, and read it; raises Unreachable or what the reading raises."""
        attempts = Attempts(self._patience if call.repeatable else ONCE, call.key)
        while True:
            try:
                response = await self._http.request(**_request(call))
            except httpx2.TransportError as error:
                pause_s = attempts.after_failure(_failure(self._url, error))
            else:
                answer = _answer(response)
                wanted_s = attempts.after_answer(answer)
                if wanted_s is None:
                    return call.read(answer)
                pause_s = wanted_s
            await asyncio.sleep(pause_s)

    async def pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Ask for one page after the other."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.ask(following)
            for item in page.items:
                yield item
            following = page.following

    async def follow(self, watch: Watch) -> AsyncGenerator[Change, None]:
        """Give changes as they come, over as many connections as it takes."""
        while True:
            try:
                async with self._http.sse(PATH, **_stream(watch)) as source:
                    if source.response.is_success:
                        watch.opened()
                        async for event in source:
                            for change in watch.changes(event.event, event.data):
                                yield change
                        pause_s = watch.after_failure(stream_ended(self._url))
                    else:
                        await source.response.aread()
                        pause_s = watch.after_refusal(_answer(source.response))
            except httpx2.TransportError as error:
                pause_s = watch.after_failure(_failure(self._url, error))
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()


def _settings(access: Access, timeout_s: float) -> dict[str, Any]:
    """Say how to connect; over plain http, which stays on this machine, no proxy is asked."""
    return {
        "base_url": access.url,
        "headers": {"User-Agent": f"leasehold/{__version__}", "Accept": "application/json"},
        "auth": _Showing(access.token) if access.token.text else None,
        "verify": _authorities(access),
        "trust_env": access.is_encrypted,
        "timeout": httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
    }


class _Showing(httpx2.Auth):
    """Shows a token with each request; one that is for a single gateway, only while that is at work."""

    def __init__(self, token: Bearer) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Sign a request, or have it fail as if nobody had answered."""
        folder = self._token.folder
        if folder is not None and not is_at_work(folder):
            raise httpx2.ConnectError(f"the gateway of {folder} is not at work")
        request.headers["Authorization"] = f"Bearer {self._token.text}"
        yield request


def _authorities(access: Access) -> ssl.SSLContext:
    """Say who may vouch for a gateway. Raises InputError for a file of authorities that holds none."""
    if not access.is_encrypted:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody, and costs nothing to make
    if access.ca_file is None:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=access.ca_file)
    except OSError as error:  # SSLError is one
        raise InputError(access.ca_file, None, f"no certificates of authorities: {error}") from error


def _request(call: Call[Any]) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "params": call.query,
        "json": call.body,
        "headers": {"Idempotency-Key": call.key} if call.key else {},
    }


def _stream(watch: Watch) -> dict[str, Any]:
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
    return {"params": watch.query, "headers": watch.headers, "timeout": timeout}


def _answer(response: httpx2.Response) -> Answer:
    return Answer(response.status_code, dict(response.headers), response.content)


_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def _failure(url: str, error: httpx2.TransportError) -> Unreachable:
    """Say what a broken connection means: whether anything may have been taken in."""
    kind = Unreachable if isinstance(error, _UNSENT) else Lost
    return kind(url, _cause(error) or str(error) or type(error).__name__)


def _cause(error: BaseException) -> str:
    """Give the words of the system, where it was the system that failed."""
    cause = error.__cause__ or error.__context__
    if cause is not None and (deeper := _cause(cause)):
        return deeper
    if isinstance(error, ssl.SSLError | gaierror):  # their numbers are not those of the system
        return error.strerror or ""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else ""
