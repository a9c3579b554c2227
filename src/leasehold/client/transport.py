"""The two transports to a gateway, blocking and asynchronous; the requests are the same.

Every rule (what to ask, when to ask again, how to read it) is elsewhere: here are only the loops around
the network, and the methods that use them. A noun's method (`leasehold.client.client`) only says which call is to be
made, once for both clients: ``client.leases.get(42)`` is ``transport.ask(Call("GET", "/v1/leases/42", ...))``.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from socket import gaierror
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from leasehold import __version__
from leasehold.client.access import Access, Bearer, is_at_work
from leasehold.client.calls import ONCE, Attempts, Call, Page, Pages, Response, RetryPolicy, Source
from leasehold.client.errors import Lost, NotInstalled, Unreachable
from leasehold.client.watching import PATH, Looks, Watch, stream_ended
from leasehold.model.errors import InputError
from leasehold.protocol.jobs import Job
from leasehold.protocol.leases import Change

try:
    import httpx2
except ModuleNotFoundError as error:
    raise NotInstalled("Talking to a gateway", "client") from error

T = TypeVar("T")
CONNECT_S = 5.0
SILENCE_S = 60.0
"""A stream that is silent for longer, without even a heartbeat, is taken for broken."""


class Transport:
    """Asks and waits for the response."""

    def __init__(self, access: Access, retry: RetryPolicy, timeout_s: float) -> None:
        self.retry = retry
        self._url = access.url
        self._http = httpx2.Client(**_settings(access, timeout_s))

    def ask(self, call: Call[T] | Source[T]) -> T:
        """Ask until there is an answer, and read it; raises Unreachable or what the reading raises."""
        if isinstance(call, Source):
            *_, last = self.items(call)
            return last
        attempts = Attempts(self.retry if call.repeatable else ONCE, call.key)
        while True:
            try:
                response = _response(self._http.request(**_request(call)))
            except httpx2.TransportError as error:
                pause_s = attempts.after_failure(_failure(self._url, error))
            else:
                wanted_s = attempts.after_response(response)
                if wanted_s is None:
                    return call.read(response)
                pause_s = wanted_s
            time.sleep(pause_s)

    def items(self, source: Source[T]) -> Generator[T, None, None]:
        """Give one thing after the other; see the three loops below."""
        loops: dict[type, Any] = {Pages: self._pages, Watch: self._follow, Looks: self._look}
        return cast("Generator[T, None, None]", loops[type(source)](source))

    def _pages(self, pages: Pages[T]) -> Generator[T, None, None]:
        call: Call[Page[T]] | None = pages.first
        while call is not None:
            page = self.ask(call)
            yield from page.items
            call = pages.after(page)

    def _look(self, looks: Looks) -> Generator[Job, None, None]:
        while True:
            job = self.ask(looks.call)
            if looks.is_news(job):
                yield job
            if job.is_over:
                return
            time.sleep(looks.pause_s())

    def _follow(self, watch: Watch) -> Generator[Change, None, None]:
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
                        pause_s = watch.after_refusal(_response(source.response))
            except httpx2.TransportError as error:
                pause_s = watch.after_failure(_failure(self._url, error))
            time.sleep(pause_s)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncTransport:
    """Asks, and lets others work while it waits for the response; the loops are those of `Transport`."""

    def __init__(self, access: Access, retry: RetryPolicy, timeout_s: float) -> None:
        self.retry = retry
        self._url = access.url
        self._http = httpx2.AsyncClient(**_settings(access, timeout_s))

    async def ask(self, call: Call[T] | Source[T]) -> T:
        """Ask until there is an answer, and read it; raises Unreachable or what the reading raises."""
        if isinstance(call, Source):
            return [item async for item in self.items(call)][-1]
        attempts = Attempts(self.retry if call.repeatable else ONCE, call.key)
        while True:
            try:
                response = _response(await self._http.request(**_request(call)))
            except httpx2.TransportError as error:
                pause_s = attempts.after_failure(_failure(self._url, error))
            else:
                wanted_s = attempts.after_response(response)
                if wanted_s is None:
                    return call.read(response)
                pause_s = wanted_s
            await asyncio.sleep(pause_s)

    def items(self, source: Source[T]) -> AsyncGenerator[T, None]:
        """Give one thing after the other; see the three loops below."""
        loops: dict[type, Any] = {Pages: self._pages, Watch: self._follow, Looks: self._look}
        return cast("AsyncGenerator[T, None]", loops[type(source)](source))

    async def _pages(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        call: Call[Page[T]] | None = pages.first
        while call is not None:
            page = await self.ask(call)
            for item in page.items:
                yield item
            call = pages.after(page)

    async def _look(self, looks: Looks) -> AsyncGenerator[Job, None]:
        while True:
            job = await self.ask(looks.call)
            if looks.is_news(job):
                yield job
            if job.is_over:
                return
            await asyncio.sleep(looks.pause_s())

    async def _follow(self, watch: Watch) -> AsyncGenerator[Change, None]:
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
                        pause_s = watch.after_refusal(_response(source.response))
            except httpx2.TransportError as error:
                pause_s = watch.after_failure(_failure(self._url, error))
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """Close the connections."""
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
        """Add the token to a request, or let it fail as if there were no answer."""
        folder = self._token.folder
        if folder is not None and not is_at_work(folder):
            raise httpx2.ConnectError(f"the gateway of {folder} is not at work")
        request.headers["Authorization"] = f"Bearer {self._token.text}"
        yield request


def _authorities(access: Access) -> ssl.SSLContext:
    """Return the trusted certificate authorities. Raises InputError for a file that holds none."""
    if not access.is_encrypted:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authority, and is cheap to create
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
        "content": call.content,
        "headers": dict(call.headers) | ({"Idempotency-Key": call.key} if call.key else {}),
    }


def _stream(watch: Watch) -> dict[str, Any]:
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
    return {"params": watch.query, "headers": watch.headers, "timeout": timeout}


def _response(response: httpx2.Response) -> Response:
    return Response(response.status_code, dict(response.headers), response.content)


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


# Methods of nouns, for both clients

P = ParamSpec("P")
W = TypeVar("W", bound=Transport | AsyncTransport)


class Noun(Generic[W]):
    """What a client has methods for; ``transport`` makes the calls."""

    def __init__(self, transport: W) -> None:
        self.transport = transport


class Asking(Generic[P, T]):
    """A method that makes one call: with the one client it returns what came, with the other it is awaited.

    Of a source, which gives one thing after the other, it is the last one.
    """

    def __init__(self, make: Callable[Concatenate[Any, P], Call[T] | Source[T]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, noun: Noun[Transport], kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, noun: Noun[AsyncTransport], kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, noun: Noun[Any], kind: type) -> Callable[P, Any]:
        @wraps(self.make)
        def ask(*arguments: P.args, **named: P.kwargs) -> Any:  # noqa: ANN401 - the overloads say what
            return noun.transport.ask(self.make(noun, *arguments, **named))

        return ask


class Iterating(Generic[P, T]):
    """A method that gives one thing after the other, with or without waiting."""

    def __init__(self, make: Callable[Concatenate[Any, P], Source[T]]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, noun: Noun[Transport], kind: type) -> Callable[P, Generator[T, None, None]]: ...
    @overload
    def __get__(self, noun: Noun[AsyncTransport], kind: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, noun: Noun[Any], kind: type) -> Callable[P, Any]:
        @wraps(self.make)
        def iterate(*arguments: P.args, **named: P.kwargs) -> Any:  # noqa: ANN401 - the overloads say what
            return noun.transport.items(self.make(noun, *arguments, **named))

        return iterate
