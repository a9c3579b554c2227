"""The client that waits for its answers."""

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self, Unpack

from leasehold.client import calls
from leasehold.client.access import Access, find_access
from leasehold.client.calls import Agreement, Rights, Which, Wish
from leasehold.client.coallocation_records import LeaseExplanation
from leasehold.client.coallocations import CoAllocations
from leasehold.client.jobs import Images, Jobs, Nodes
from leasehold.client.patience import Patience
from leasehold.client.records import Caller, Change, Entry, Health, Lease, NewToken, Peer, Site, Token
from leasehold.client.sharing import Accounts, Agreements
from leasehold.client.watching import Opened, Watch
from leasehold.client.wire import Wire


class Leases:
    """Ask for leases, and look after them."""

    def __init__(self, wire: Wire, patience: Patience) -> None:
        self._wire = wire
        self._patience = patience

    def submit(self, **wish: Unpack[Wish]) -> Lease:
        """Ask for a lease; what may be said is in `Wish`.

        Asks again, with the same Idempotency-Key, until it is known what became of it, so that it is taken
        in exactly once. Refused is an answer too: look at ``state``. Raises Lost where patience ends before
        it is known, InvalidField and ProblemError.
        """
        return self._wire.ask(calls.submit(wish))

    def explain(self, **wish: Unpack[Wish]) -> LeaseExplanation:
        """Say what would become of one that is asked for now, without asking for it."""
        return self._wire.ask(calls.explain(wish))

    def get(self, lease_id: int) -> Lease:
        """Look at one; raises NotFound."""
        return self._wire.ask(calls.lease(lease_id))

    def list(self, **which: Unpack[Which]) -> Iterator[Lease]:
        """Go through those that are asked for, the newest first, one page after the other."""
        return self._wire.pages(calls.leases(which))

    def cancel(self, lease_id: int) -> Lease:
        """Take one back; what is over stays as it is. Raises NotFound and NotAllowed."""
        return self._wire.ask(calls.cancel(lease_id))

    def extend(self, lease_id: int, by_s: float) -> Lease:
        """Let one last longer; raises Conflict where somebody is in the way. Never asked twice."""
        return self._wire.ask(calls.extend(lease_id, by_s))

    def journal(self, lease_id: int) -> Iterator[Entry]:
        """Tell what happened to one, the oldest first."""
        return self._wire.pages(calls.journal(lease_id))

    def console(self, lease_id: int) -> str:
        """Give what its machines wrote."""
        return self._wire.ask(calls.console(lease_id))

    def watch(
        self, *lease_ids: int, after: int | None = None, opened: Opened | None = None
    ) -> Generator[Change, None, None]:
        """Tell what happens to these, or to all that are visible, for ever.

        ``after`` is the ``seq`` of the last change that is known (0: tell everything from the beginning);
        without it, telling begins now. A connection that breaks is made again, and nothing is told twice.
        Close it when you have seen enough. ``opened`` is called whenever a connection stands: what is looked
        up from then on is no older than the first change.
        Raises Unreachable when patience ends, and ProblemError.
        """
        return self._wire.follow(Watch(lease_ids, after, self._patience, opened))


class Sites:
    """Look at sites, and drain them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self) -> tuple[Site, ...]:
        """Look at all of them."""
        return self._wire.ask(calls.sites())

    def get(self, name: str) -> Site:
        """Look at one; raises NotFound."""
        return self._wire.ask(calls.site(name))

    def drain(self, name: str, note: str = "") -> Site:
        """Take no new guests there; those that run there stay."""
        return self._wire.ask(calls.drain(name, note))

    def resume(self, name: str) -> Site:
        """Let it take guests again."""
        return self._wire.ask(calls.resume(name))

    def forget(self, name: str) -> None:
        """Let go of one that will not come back; the leases there have failed.

        Raises NotFound, and Conflict where it has been heard of lately, or is the gateway's own.
        """
        self._wire.ask(calls.forget_site(name))


class Peers:
    """Agree with other gateways, and see what goes to and fro."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self) -> tuple[Peer, ...]:
        """Look at all of them."""
        return self._wire.ask(calls.peers())

    def get(self, name: str) -> Peer:
        """Look at one; raises NotFound."""
        return self._wire.ask(calls.peer(name))

    def keep(self, name: str, **agreement: Unpack[Agreement]) -> Peer:
        """Exchange requests with a gateway, known before or not; what may be said is in `Agreement`."""
        return self._wire.ask(calls.keep_peer(name, agreement))

    def remove(self, name: str) -> None:
        """Exchange nothing with one any more, and let the tokens that were made for it count no more.

        Raises NotFound, and Conflict while leases are under way between the two and it is in touch.
        """
        self._wire.ask(calls.remove_peer(name))


class Tokens:
    """Give out tokens, and take them back."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, **rights: Unpack[Rights]) -> NewToken:
        """Make one; its text is told here and never again. What may be said is in `Rights`."""
        return self._wire.ask(calls.create_token(rights))

    def list(self) -> tuple[Token, ...]:
        """Look at all of them."""
        return self._wire.ask(calls.tokens())

    def revoke(self, token_id: str) -> None:
        """Let one count no more; raises NotFound."""
        self._wire.ask(calls.revoke_token(token_id))

    def inspect(self) -> Caller:
        """Say who we are."""
        return self._wire.ask(calls.caller())


class Client:
    """Speaks to a gateway.

    ``url, token``  without them they are looked for (see `leasehold.client.access.find_access`)
    ``patience``    how often to ask again what may be asked twice
    ``timeout_s``   how long to wait for one answer

    Raises InvalidField for an address that is none, or where a token could be read on the way. Every method
    raises Unreachable, ProblemError and BadAnswer. May be shared by threads.
    """

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
        self._wire = Wire(self.access, patience, timeout_s)
        self.leases = Leases(self._wire, patience)
        self.sites = Sites(self._wire)
        self.peers = Peers(self._wire)
        self.tokens = Tokens(self._wire)
        self.coallocations = CoAllocations(self._wire)
        self.jobs = Jobs(self._wire)
        self.nodes = Nodes(self._wire)
        self.images = Images(self._wire)
        self.agreements = Agreements(self._wire)
        self.usage = Accounts(self._wire)

    def health(self) -> Health:
        """Say whether the gateway lives and serves; raises Unreachable where there is none."""
        alive, why_not = self._wire.ask(calls.alive()), self._wire.ask(calls.why_not_ready())
        return Health(alive, why_not is None, why_not or "")

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
