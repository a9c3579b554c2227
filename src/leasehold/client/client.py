"""The client that waits for its answers, and the one that awaits them; their methods are `leasehold.client.nouns`."""

from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self

from leasehold.client.access import Access, find_access
from leasehold.client.nouns import (
    Accounts,
    Agreements,
    CoAllocations,
    Images,
    Jobs,
    Leases,
    Nodes,
    Peers,
    Probes,
    Sites,
    Tokens,
)
from leasehold.client.retry import RetryPolicy
from leasehold.client.transport import AsyncTransport, Transport, W


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a gateway lives, whether it serves, and if not, why not."""

    alive: bool
    ready: bool
    why_not: str = ""


class _Nouns(Generic[W]):
    """What both clients have methods for."""

    def __init__(self, access: Access, transport: W) -> None:
        self.access = access
        self._transport = transport
        self._probes = Probes(transport)
        self.leases = Leases(transport)
        self.coallocations = CoAllocations(transport)
        self.jobs = Jobs(transport)
        self.nodes = Nodes(transport)
        self.images = Images(transport)
        self.sites = Sites(transport)
        self.peers = Peers(transport)
        self.tokens = Tokens(transport)
        self.agreements = Agreements(transport)
        self.usage = Accounts(transport)


class Client(_Nouns[Transport]):
    """Speaks to a gateway.

    ``url, token``  without them they are looked for (see `leasehold.client.access.find_access`)
    ``retry``       how often to ask again what may be asked twice
    ``timeout_s``   how long to wait for one response

    Raises InvalidField for an address that is none, or where a token could be read on the way. Every method
    raises Unreachable, ProblemError and BadResponse. May be shared by threads.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        access = find_access(url, token)
        super().__init__(access, Transport(access, retry or RetryPolicy(), timeout_s))

    def health(self) -> Health:
        """Say whether the gateway lives and serves; raises Unreachable where there is none."""
        alive, why_not = self._probes.alive(), self._probes.why_not_ready()
        return Health(alive, not why_not, why_not)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Nouns[AsyncTransport]):
    """Speaks to a gateway from asyncio; arguments, methods and errors are those of `Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        access = find_access(url, token)
        super().__init__(access, AsyncTransport(access, retry or RetryPolicy(), timeout_s))

    async def health(self) -> Health:
        """Say whether the gateway lives and serves; raises Unreachable where there is none."""
        alive, why_not = await self._probes.alive(), await self._probes.why_not_ready()
        return Health(alive, not why_not, why_not)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
