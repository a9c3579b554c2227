"""The client that awaits its answers; its methods are told of in `leasehold.client.client`."""

from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self, Unpack

from leasehold.client import calls
from leasehold.client.access import Access, find_access
from leasehold.client.async_coallocations import AsyncCoAllocations
from leasehold.client.async_jobs import AsyncImages, AsyncJobs, AsyncNodes
from leasehold.client.async_sharing import AsyncAccounts, AsyncAgreements
from leasehold.client.calls import Agreement, Rights, Which, Wish
from leasehold.client.coallocation_records import LeaseExplanation
from leasehold.client.patience import Patience
from leasehold.client.records import Caller, Change, Entry, Health, Lease, NewToken, Peer, Site, Token
from leasehold.client.watching import Opened, Watch
from leasehold.client.wire import AsyncWire


class AsyncLeases:
    """Ask for leases, and look after them."""

    def __init__(self, wire: AsyncWire, patience: Patience) -> None:
        self._wire = wire
        self._patience = patience

    async def submit(self, **wish: Unpack[Wish]) -> Lease:
        """Ask for a lease, which is taken in exactly once."""
        return await self._wire.ask(calls.submit(wish))

    async def explain(self, **wish: Unpack[Wish]) -> LeaseExplanation:
        """Say what would become of one that is asked for now, without asking for it."""
        return await self._wire.ask(calls.explain(wish))

    async def get(self, lease_id: int) -> Lease:
        """Look at one."""
        return await self._wire.ask(calls.lease(lease_id))

    def list(self, **which: Unpack[Which]) -> AsyncIterator[Lease]:
        """Go through those that are asked for, the newest first."""
        return self._wire.pages(calls.leases(which))

    async def cancel(self, lease_id: int) -> Lease:
        """Take one back."""
        return await self._wire.ask(calls.cancel(lease_id))

    async def extend(self, lease_id: int, by_s: float) -> Lease:
        """Let one last longer."""
        return await self._wire.ask(calls.extend(lease_id, by_s))

    def journal(self, lease_id: int) -> AsyncIterator[Entry]:
        """Tell what happened to one, the oldest first."""
        return self._wire.pages(calls.journal(lease_id))

    async def console(self, lease_id: int) -> str:
        """Give what its machines wrote."""
        return await self._wire.ask(calls.console(lease_id))

    def watch(
        self, *lease_ids: int, after: int | None = None, opened: Opened | None = None
    ) -> AsyncGenerator[Change, None]:
        """Tell what happens to these, or to all that are visible, for ever."""
        return self._wire.follow(Watch(lease_ids, after, self._patience, opened))


class AsyncSites:
    """Look at sites, and drain them."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def list(self) -> tuple[Site, ...]:
        """Look at all of them."""
        return await self._wire.ask(calls.sites())

    async def get(self, name: str) -> Site:
        """Look at one."""
        return await self._wire.ask(calls.site(name))

    async def drain(self, name: str, note: str = "") -> Site:
        """Take no new guests there."""
        return await self._wire.ask(calls.drain(name, note))

    async def resume(self, name: str) -> Site:
        """Let it take guests again."""
        return await self._wire.ask(calls.resume(name))

    async def forget(self, name: str) -> None:
        """Let go of one that will not come back; raises NotFound, and Conflict while it may be there."""
        await self._wire.ask(calls.forget_site(name))


class AsyncPeers:
    """Agree with other gateways, and see what goes to and fro."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def list(self) -> tuple[Peer, ...]:
        """Look at all of them."""
        return await self._wire.ask(calls.peers())

    async def get(self, name: str) -> Peer:
        """Look at one."""
        return await self._wire.ask(calls.peer(name))

    async def keep(self, name: str, **agreement: Unpack[Agreement]) -> Peer:
        """Exchange requests with a gateway, known before or not."""
        return await self._wire.ask(calls.keep_peer(name, agreement))

    async def remove(self, name: str) -> None:
        """Exchange nothing with one any more; raises Conflict while leases are under way."""
        await self._wire.ask(calls.remove_peer(name))


class AsyncTokens:
    """Give out tokens, and take them back."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def create(self, **rights: Unpack[Rights]) -> NewToken:
        """Make one; its text is told here and never again."""
        return await self._wire.ask(calls.create_token(rights))

    async def list(self) -> tuple[Token, ...]:
        """Look at all of them."""
        return await self._wire.ask(calls.tokens())

    async def revoke(self, token_id: str) -> None:
        """Let one count no more."""
        await self._wire.ask(calls.revoke_token(token_id))

    async def inspect(self) -> Caller:
        """Say who we are."""
        return await self._wire.ask(calls.caller())


class AsyncClient:
    """Speaks to a gateway from asyncio; arguments and errors are those of `leasehold.client.Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: Patience | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self.access: Access = find_access(url, token)
        patience = patience or Patience()
        self._wire = AsyncWire(self.access, patience, timeout_s)
        self.leases = AsyncLeases(self._wire, patience)
        self.sites = AsyncSites(self._wire)
        self.peers = AsyncPeers(self._wire)
        self.tokens = AsyncTokens(self._wire)
        self.coallocations = AsyncCoAllocations(self._wire)
        self.jobs = AsyncJobs(self._wire)
        self.nodes = AsyncNodes(self._wire)
        self.images = AsyncImages(self._wire)
        self.agreements = AsyncAgreements(self._wire)
        self.usage = AsyncAccounts(self._wire)

    async def health(self) -> Health:
        """Say whether the gateway lives and serves."""
        alive, why_not = await self._wire.ask(calls.alive()), await self._wire.ask(calls.why_not_ready())
        return Health(alive, why_not is None, why_not or "")

    async def close(self) -> None:
        """Let go of the connections."""
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
