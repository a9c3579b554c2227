"""The peers of a live gateway: added, looked at and removed while it is at work."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.gateway.peering import AskWhen, PeerTraffic
from leasehold.model.errors import InvalidField
from leasehold.service.auth.tokens import id_of
from leasehold.service.commands import KeepPeer, RemovePeer
from leasehold.service.engine.engine import Engine
from leasehold.service.errors import NoSuchPeer
from leasehold.service.messages.names import asking
from leasehold.service.messages.uplink import check_gateway
from leasehold.service.messages.wire import About
from leasehold.service.peers.about import about_us
from leasehold.service.peers.lines import Lines
from leasehold.service.peers.purse import Purse
from leasehold.service.store.rows import PeerRow
from leasehold.service.surroundings import Surroundings

if TYPE_CHECKING:
    from leasehold.service.federation import Federation

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FOLDER = "peers"

UP, CLOSED, SILENT, OFF = "up", "closed", "silent", "off"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What is agreed with a peer.

    ``url``      where it is called, so that it can ask us; "" where we lend it nothing
    ``ask``      when we ask it
    ``max_vms``  most VMs that it may have here at a time; None: any number
    """

    url: str = ""
    ask: AskWhen = AskWhen.NONE_CAN
    max_vms: int | None = None


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
class Way:
    """One way between two gateways.

    ``status``  up; closed (who is asked takes nothing now); silent (not heard of for too long, or never); off
    """

    traffic: Traffic
    status: str
    last_heard_ms: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class PeerState:
    """One peer as it is now: ``borrowing`` is what we ask of it, ``lending`` what it asks of us.

    ``about``  what it last said of itself
    """

    row: PeerRow
    borrowing: Way
    lending: Way
    about: About | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A peer as the engine knows it."""

    row: PeerRow
    about: About | None
    asked: Traffic
    asking: Traffic


class Peers:
    """What `Federation` has to do with peers."""

    def __init__(self, federation: "Federation", folder: Path, surroundings: Surroundings) -> None:
        self._federation = federation
        self._new_id = surroundings.new_id
        self._purse = Purse(folder / FOLDER)
        self._lines = Lines(federation.store, federation.post, self._tell, self._purse, surroundings)

    async def open(self) -> None:
        """Call all who are called."""
        for seen in await self._federation.ask(_look):
            await self._lines.hold(seen.row)

    async def close(self) -> None:
        """Call nobody any more."""
        await self._lines.close()

    async def keep(self, name: str, agreement: Agreement, token: str | None, by: str) -> PeerState:
        """Exchange requests with another gateway from now on, or on these terms.

        ``token`` is what it gave us; without one, what it gave before goes on. Raises InvalidField.
        """
        self._check(name, agreement, token)
        ask, most = agreement.ask.value, agreement.max_vms
        await self._federation.do(KeepPeer(name, agreement.url, ask, most, by, self._new_id()))
        if not agreement.url:
            self._purse.drop(name)
        elif token is not None:
            self._purse.put(name, token)
        state = await self.get(name)
        await self._lines.hold(state.row)
        return state

    async def remove(self, name: str, by: str) -> None:
        """Exchange nothing with a peer any more; raises NoSuchPeer, CannotRemovePeer."""
        post = self._federation.post
        silent = frozenset(one for one in (name, asking(name)) if post.is_silent(one))
        await self._federation.do(RemovePeer(name, silent, by))
        await self._lines.cut(name)
        self._purse.drop(name)
        post.forget((name, asking(name)))

    async def list(self) -> list[PeerState]:
        """Look at all peers, by name."""
        return [self._state(seen) for seen in await self._federation.ask(_look)]

    async def get(self, name: str) -> PeerState:
        """Look at one; raises NoSuchPeer."""
        states = {state.row.name: state for state in await self.list()}
        if name not in states:
            raise NoSuchPeer(name, states)
        return states[name]

    def _check(self, name: str, agreement: Agreement, token: str | None) -> None:
        if NAME.fullmatch(name) is None:
            raise InvalidField("name", name, "letters, digits, dots, dashes and underscores, 64 at most")
        if token is not None and id_of(token) is None:
            raise InvalidField("token", "(not shown)", "a token as `leasehold token create` prints it")
        if not agreement.url:
            return
        check_gateway(agreement.url, "url")
        if token is None and not self._purse.has(name):
            raise InvalidField("token", None, "a token of the other gateway, with the role peer")

    async def _tell(self, row: PeerRow) -> About:
        return await self._federation.ask(partial(_about_us, row=row, identity=self._federation.identity))

    def _state(self, seen: _Seen) -> PeerState:
        return PeerState(seen.row, self._borrowing(seen), self._lending(seen), seen.about)

    def _borrowing(self, seen: _Seen) -> Way:
        name, post = seen.row.name, self._federation.post
        heard_ms = post.last_heard_ms(name)
        is_away = heard_ms is None or post.is_silent(name)
        is_closed = seen.about is not None and not seen.about.lends
        status = SILENT if is_away else CLOSED if is_closed else UP
        return Way(seen.asked, status, heard_ms, "it does not call" if is_away else "")

    def _lending(self, seen: _Seen) -> Way:
        name, post = seen.row.name, self._federation.post
        heard_ms = post.last_heard_ms(asking(name))
        problem = self._lines.problem(name)
        is_away = heard_ms is None or post.is_silent(asking(name)) or bool(problem)
        is_closed = seen.row.max_vms == 0
        status = CLOSED if is_closed else SILENT if is_away else UP
        return Way(seen.asking, status if seen.row.url else OFF, heard_ms, problem)


def _about_us(engine: Engine, row: PeerRow, identity: str) -> About:
    current = engine.peers.rows.get(row.name, row)
    return about_us(engine, current, identity)


def _look(engine: Engine) -> list[_Seen]:
    book, abouts = engine.peers, engine.remote_sites.remotes
    return [
        _Seen(row, abouts.get(name), _asked(engine, name), _asking(engine, name))
        for name, row in sorted(book.rows.items())
    ]


def _asked(engine: Engine, name: str) -> Traffic:
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
