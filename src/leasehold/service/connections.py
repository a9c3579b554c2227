"""The connections of a gateway: how many there are, and how long one may take to say what it wants.

uvicorn waits without end for a client that has connected and sends nothing, or a little now and then. Here
each connection has so long for the head of a request, so long for its body, and so long to take its answer;
and there are at most so many connections. Where there are too many, those go first that have waited longest
without having asked for anything: of the address that has the most of them, or of all. A request that was
read, and so every stream and every message that is waited for, is left alone for as long as it lasts.
"""

import asyncio
import resource
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from leasehold.service.auth.limits import address_key

MOST_DESCRIPTORS = 65_536
"""So many files are opened at most, where the system allows more: some programs look through all of them."""

_KEPT_DESCRIPTORS = 256
"""So many are left for the store, machines, and calls to others."""

MOST_HEAD_BYTES = 64 * 1024
"""The longest head of a request: its line and its headers."""

_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds on connections.

    ``most``          open at a time
    ``per_address``   of them, those of one address (a /64 of IPv6) that have not asked for anything yet
    ``head_s``        for the head of a request, from its first byte (of the first one, from connecting)
    ``body_s``        for the body after it
    ``answer_s``      for the other side to take in some of an answer that waits for it
    """

    most: int = 4_000
    per_address: int = 200
    head_s: float = 10.0
    body_s: float = 60.0
    answer_s: float = 60.0


def raise_descriptor_limit() -> int:
    """Let this process open as many files as the system allows it, within reason; gives how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def fitting_descriptors(limits: ConnectionLimits, descriptors: int) -> ConnectionLimits:
    """Limit connections to the available file descriptors, less those kept for other uses."""
    most = max(1, min(limits.most, descriptors - _KEPT_DESCRIPTORS))
    return replace(limits, most=most)


class Connected(Protocol):
    """A client's connection: ``address`` is where it is from."""

    address: str

    def drop(self) -> None:
        """Abort it at once, whatever was still to be written."""


class Connections:
    """All connections of one gateway; the idle ones, without a request so far, in order of arrival."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open = 0
        self._idle: OrderedDict[Connected, None] = OrderedDict()
        self._by_address: dict[str, OrderedDict[Connected, None]] = {}

    def admit(self, connection: Connected) -> bool:
        """Admit a connection, and drop another if there are too many; False: there is no room."""
        self.open += 1
        own = self._by_address.get(connection.address, OrderedDict())
        if len(own) >= self.limits.per_address:
            next(iter(own)).drop()
        elif self.open > self.limits.most:
            if not self._idle:
                return False
            next(iter(self._idle)).drop()
        self.is_idle(connection)
        return True

    def is_idle(self, connection: Connected) -> None:
        """A connection waits for a request; what has waited longest is first in line."""
        self._idle[connection] = None
        self._by_address.setdefault(connection.address, OrderedDict())[connection] = None

    def is_busy(self, connection: Connected) -> None:
        """A connection has a request under way."""
        if connection in self._idle:
            del self._idle[connection]
            own = self._by_address[connection.address]
            del own[connection]
            if not own:
                del self._by_address[connection.address]

    def drop_handshakes(self) -> None:
        """Abort the handshakes under way, which uvicorn does not know of."""
        for connection in [one for one in self._idle if isinstance(one, Handshake)]:
            connection.drop()

    def leave(self, connection: Connected) -> None:
        """A connection is closed."""
        self.open -= 1
        self.is_busy(connection)


class _Gathering:
    """A transport that sends what is written in one turn of the loop at once.

    uvicorn writes the head of an answer and its body apart: two calls of the system, and a client that wakes twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport can do
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this with whatever else is written in this turn."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._parts.clear()
        self._transport.abort()

    def _send(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # whichever parser is installed
    """One connection: uvicorn's, with deadlines."""

    def __init__(self, connections: Connections, **of_uvicorn: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**of_uvicorn)
        self.address = ""
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._slow_reader: asyncio.TimerHandle | None = None
        self._phase = ""
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request, if there is room."""
        super().connection_made(_Gathering(transport, self.loop))
        self.address = address_key(self.client[0]) if self.client else ""
        if not self._all.admit(self):
            transport.write(_BUSY)
            transport.close()
            return
        self._enter("head", self._all.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._all.leave(self)
        self._stop(self._deadline, self._slow_reader)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a request that has begun has to end in time."""
        super().data_received(data)
        if self._phase == "idle" and (self.cycle is None or self.cycle.response_complete):
            self._enter("head", self._all.limits.head_s)  # most heads come as a whole
        self._head_bytes += len(data)
        self._look()
        if self._phase == "head" and self._head_bytes > MOST_HEAD_BYTES:
            self.drop()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes a connection that stays silent then."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The client does not read what is written: wait, but not for ever."""
        super().pause_writing()
        self._slow_reader = self.loop.call_later(self._all.limits.answer_s, self.drop)

    def resume_writing(self) -> None:
        """The other side takes its answer in."""
        super().resume_writing()
        self._stop(self._slow_reader)

    def drop(self) -> None:
        """Abort it at once."""
        self._all.is_busy(self)
        self.transport.abort()

    def _look(self) -> None:
        """See how far the request is."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            if self._phase in {"body", "answer"}:
                self._enter("idle", 0)
        elif cycle.more_body:
            self._enter("body", self._all.limits.body_s)
        else:
            self._enter("answer", 0)

    def _enter(self, phase: str, within_s: float) -> None:
        if phase == self._phase:
            return
        self._phase, self._head_bytes = phase, 0
        self._stop(self._deadline)
        self._deadline = self.loop.call_later(within_s, self._too_late) if within_s else None
        if phase == "idle":
            self._all.is_idle(self)
        elif phase != "head":
            self._all.is_busy(self)

    def _too_late(self) -> None:
        """Say so where nothing was answered yet, and close; the kernel takes care of so few bytes."""
        if self._phase == "head":
            self.transport.write(_TIMEOUT)
            self.transport.close()
        else:
            self.drop()

    @staticmethod
    def _stop(*timers: asyncio.TimerHandle | None) -> None:
        for timer in timers:
            if timer is not None:
                timer.cancel()


class Handshake(asyncio.Protocol):
    """A connection until TLS stands: counted from the first, it gives way like those that ask for nothing.

    asyncio's TLS servers make a protocol only when the handshake is over; until then it would not be counted.
    """

    def __init__(self, connections: Connections, context: ssl.SSLContext, make: Callable[[], asyncio.Protocol]) -> None:
        self.address = ""
        self._all = connections
        self._context = context
        self._make = make
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._early = b""
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, if there is room."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # until TLS reads
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = address_key(peer[0]) if peer else ""
        if self._all.admit(self):
            self._task = asyncio.get_running_loop().create_task(self._shake_hands())
        else:
            self._all.leave(self)
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Keep what came with the end of the handshake; the connection's own protocol reads on from there."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it so
        """The client is gone."""
        self._is_lost = True

    def drop(self) -> None:
        """Abort it at once."""
        self._all.is_busy(self)
        self._transport.abort()

    async def _shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        within_s = self._all.limits.head_s
        try:
            secured = await loop.start_tls(
                self._transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=within_s,
                ssl_shutdown_timeout=within_s,
            )
        except OSError:  # of TLS too: a client that does not speak it, leaves, or takes too long
            return
        finally:
            self._all.leave(self)
        if secured is None or self._is_lost:
            return
        protocol = self._make()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early and not secured.is_closing():
            protocol.data_received(self._early)


def protocol_of(
    connections: Connections,
    context: ssl.SSLContext | None,
    **of_uvicorn: Any,  # noqa: ANN401 - passed on
) -> Callable[[], asyncio.Protocol]:
    """Give what makes the protocol of each connection, behind TLS where there is a context for it."""

    def make() -> asyncio.Protocol:
        return Connection(connections, **of_uvicorn)

    return make if context is None else lambda: Handshake(connections, context, make)
