"""The peers of a live gateway: added, looked at and removed while it is at work."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkstemp

from leasehold.gateway.peering import AskWhen, PeerTraffic
from leasehold.model.errors import InputError, InvalidField, LeaseholdError
from leasehold.service.auth.bootstrap_token import read_token_file
from leasehold.service.auth.tokens import id_of
from leasehold.service.commands import KeepPeer, RemovePeer
from leasehold.service.engine.engine import Engine
from leasehold.service.engine_thread import EngineThread
from leasehold.service.errors import NoSuchPeer
from leasehold.service.messages.endpoints import asking
from leasehold.service.messages.files import GatewayFiles
from leasehold.service.messages.routing import MessageRouter
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.messages.uplink import Uplink, check_gateway
from leasehold.service.peers.summary import status_for
from leasehold.service.store.rows import PeerRow
from leasehold.service.surroundings import Surroundings

_PRIVATE = 0o700

StatusFor = Callable[[PeerRow], Awaitable[SiteStatus]]
"""Says what a peer is to know of us."""


class PeerCredentials:
    """The tokens that we show to peers: one file for each, by the peer's name, that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        """Whether there is a token to show to a peer."""
        return self._path(name).exists()

    def read(self, name: str) -> str:
        """Give the token to show to a peer; raises InputError where there is none, or others can read it."""
        return read_token_file(self._path(name))

    def put(self, name: str, token: str) -> None:
        """Keep a token: all of it or nothing, readable by its owner only; raises InputError."""
        try:
            self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            descriptor, temporary = mkstemp(dir=self._folder, prefix=f".{name}.")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{token}\n")
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(self._path(name))
        except OSError as error:
            raise InputError(self._path(name), None, f"cannot be written: {error.strerror}") from None

    def drop(self, name: str) -> None:
        """Remove a token, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.token"


@dataclass(slots=True)
class _Link:
    """One link, while it is open; ``problem`` says why it cannot even be tried."""

    uplink: Uplink | None = None
    task: asyncio.Task[None] | None = None
    problem: str = ""


class PeerLinks:
    """The links to all peers: this gateway calls each, as a site calls its gateway, so that it can be asked."""

    def __init__(
        self,
        messages: MessageRouter,
        files: GatewayFiles,
        status_for: StatusFor,
        credentials: PeerCredentials,
        surroundings: Surroundings,
    ) -> None:
        self._messages = messages
        self._files = files
        self._status_for = status_for
        self._credentials = credentials
        self._surroundings = surroundings
        self._links: dict[str, _Link] = {}

    async def open(self, peer: PeerRow) -> None:
        """Call a peer from now on, as it is now; one without an address is not called."""
        await self.close(peer.name)
        if not peer.url:
            return
        link = self._links[peer.name] = _Link()
        try:
            token = await asyncio.to_thread(self._credentials.read, peer.name)
        except LeaseholdError as error:
            link.problem = str(error)
            return
        status = partial(self._status_for, peer)
        transport = self._surroundings.transport()
        link.uplink = Uplink(
            self._messages, self._files, status, peer.url, token, endpoint=asking(peer.name), transport=transport
        )
        link.task = asyncio.create_task(link.uplink.run())

    async def close(self, name: str) -> None:
        """Stop calling a peer."""
        link = self._links.pop(name, None)
        if link is not None and link.task is not None:
            link.task.cancel()
            await asyncio.gather(link.task, return_exceptions=True)

    async def close_all(self) -> None:
        """Stop calling all peers."""
        for name in list(self._links):
            await self.close(name)

    def problem(self, name: str) -> str:
        """Say why a peer cannot be reached now, "" while it can, or is not called."""
        link = self._links.get(name)
        if link is None:
            return ""
        return link.problem if link.uplink is None else link.uplink.problem


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FOLDER = "peers"

UP, CLOSED, SILENT, OFF = "up", "closed", "silent", "off"


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """What is agreed with a peer.

    ``url``      where it is called, so that it can ask us; "" where we lend it nothing
    ``ask``      when we ask it
    ``max_vms``  most VMs that it may have here at a time; None: any number
    ``max_hops`` most hops in all of requests that are exchanged with it
    """

    url: str = ""
    ask: AskWhen = AskWhen.NONE_CAN
    max_vms: int | None = None
    max_hops: int = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went one way between two gateways so far: leases, and VMs of those that are open."""

    offered: int = 0
    taken: int = 0
    refused: int = 0
    open: int = 0
    open_vms: int = 0
    rate_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkState:
    """One direction between two gateways.

    ``status``  up; closed (the one that is asked takes nothing now); silent (not heard of for too long, or never); off
    """

    traffic: Traffic
    status: str
    last_heard_ms: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class PeerState:
    """One peer as it is now: ``borrowing`` is what we ask of it, ``lending`` what it asks of us.

    ``status``  the last status that it reported
    """

    row: PeerRow
    borrowing: LinkState
    lending: LinkState
    status: SiteStatus | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A peer as the engine knows it."""

    row: PeerRow
    status: SiteStatus | None
    asked: Traffic
    asking: Traffic


class Peers:
    """The peers of one gateway."""

    def __init__(
        self,
        engine: EngineThread,
        messages: MessageRouter,
        files: GatewayFiles,
        identity: str,
        folder: Path,
        surroundings: Surroundings,
    ) -> None:
        self._engine = engine
        self._messages = messages
        self._identity = identity
        self._new_id = surroundings.new_id
        self._credentials = PeerCredentials(folder / FOLDER)
        self._links = PeerLinks(messages, files, self._status_for, self._credentials, surroundings)

    async def open(self) -> None:
        """Call all peers that are to be called."""
        for seen in await self._engine.ask(_look):
            await self._links.open(seen.row)

    async def close(self) -> None:
        """Stop calling peers."""
        await self._links.close_all()

    async def keep(self, name: str, terms: PeerTerms, token: str | None, by: str) -> PeerState:
        """Exchange requests with another gateway from now on, or on these terms.

        ``token`` is the one it issued to us; without it, the earlier one stays in use. Raises InvalidField.
        """
        self._check(name, terms, token)
        ask = terms.ask.value
        await self._engine.do(KeepPeer(name, terms.url, ask, terms.max_vms, terms.max_hops, by, self._new_id()))
        if not terms.url:
            self._credentials.drop(name)
        elif token is not None:
            self._credentials.put(name, token)
        state = await self.get(name)
        await self._links.open(state.row)
        return state

    async def remove(self, name: str, by: str) -> None:
        """Exchange nothing with a peer any more; raises NoSuchPeer, CannotRemovePeer."""
        silent = frozenset(one for one in (name, asking(name)) if self._messages.is_silent(one))
        await self._engine.do(RemovePeer(name, silent, by))
        await self._links.close(name)
        self._credentials.drop(name)
        self._messages.forget((name, asking(name)))

    async def list(self) -> list[PeerState]:
        """Look at all peers, by name."""
        return [self._state(seen) for seen in await self._engine.ask(_look)]

    async def get(self, name: str) -> PeerState:
        """Look at one; raises NoSuchPeer."""
        states = {state.row.name: state for state in await self.list()}
        if name not in states:
            raise NoSuchPeer(name, states)
        return states[name]

    def _check(self, name: str, terms: PeerTerms, token: str | None) -> None:
        if NAME.fullmatch(name) is None:
            raise InvalidField("name", name, "letters, digits, dots, dashes and underscores, 64 at most")
        if token is not None and id_of(token) is None:
            raise InvalidField("token", "(not shown)", "a token as `leasehold token create` prints it")
        if not terms.url:
            return
        check_gateway(terms.url, "url")
        if token is None and not self._credentials.has(name):
            raise InvalidField("token", None, "a token of the other gateway, with the role peer")

    async def _status_for(self, row: PeerRow) -> SiteStatus:
        def look(engine: Engine) -> SiteStatus:
            return status_for(engine, engine.peers.rows.get(row.name, row), self._identity)

        return await self._engine.ask(look)

    def _state(self, seen: _Seen) -> PeerState:
        return PeerState(seen.row, self._borrowing(seen), self._lending(seen), seen.status)

    def _borrowing(self, seen: _Seen) -> LinkState:
        is_away = self._messages.is_away(seen.row.name)
        is_closed = seen.status is not None and not seen.status.lends
        status = SILENT if is_away else CLOSED if is_closed else UP
        heard_ms = self._messages.last_heard_ms(seen.row.name)
        return LinkState(seen.asked, status, heard_ms, "it does not call" if is_away else "")

    def _lending(self, seen: _Seen) -> LinkState:
        endpoint = asking(seen.row.name)
        problem = self._links.problem(seen.row.name)
        is_away = self._messages.is_away(endpoint) or bool(problem)
        status = CLOSED if seen.row.max_vms == 0 else SILENT if is_away else UP
        heard_ms = self._messages.last_heard_ms(endpoint)
        return LinkState(seen.asking, status if seen.row.url else OFF, heard_ms, problem)


def _look(engine: Engine) -> list[_Seen]:
    rows, statuses = engine.peers.rows, engine.remote_sites.remotes
    return [
        _Seen(row, statuses.get(name), _traffic_to(engine, name), _asking(engine, name))
        for name, row in sorted(rows.items())
    ]


def _traffic_to(engine: Engine, name: str) -> Traffic:
    gateway = engine.gateway
    remote, unanswered = gateway.registry.remotes.get(name), gateway.registry.offers.leases_at(name)
    leases = {} if remote is None else {lease.id: lease.vms for lease in remote.leases.values()}
    return _traffic(gateway.peering.asked.get(name), leases, unanswered, engine.now_ms)


def _asking(engine: Engine, name: str) -> Traffic:
    peering = engine.gateway.peering
    leases = {lease.id: lease.vms for lease in peering.here.get(name, {}).values()}
    return _traffic(peering.asking.get(name), leases, 0, engine.now_ms)


def _traffic(tally: PeerTraffic | None, leases: dict[int, int], unanswered: int, now_ms: int) -> Traffic:
    if tally is None:
        return Traffic()
    return Traffic(
        offered=tally.offered,
        taken=tally.offered - tally.refused - unanswered,
        refused=tally.refused,
        open=len(leases),
        open_vms=sum(leases.values()),
        rate_per_hour=3_600 * tally.stream.moments(now_ms).rate_per_s,
    )
