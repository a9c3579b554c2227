"""Peer gateways: when one is asked, what may come from one, and the traffic both ways.

A peer is to a gateway what a site is that decides for itself (`leasehold.gateway.sites`), with more rules:

1. One's own sites come first: a peer is asked for what none of them can take or, where its terms say so, can
   start now.
2. A request makes no more hops from gateway to gateway than the terms of both ends of each of them allow, and never
   passes a gateway twice. It carries the gateways that it has passed and how many more it may pass; it is offered to
   none on its path, and is refused where it has been before, or is already.
3. What a peer has here at a time may be limited, whoever asked it; what would be more waits, or is refused if it does
   not.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leasehold.gateway.sites import Reach, RemoteSite, SiteRegistry
from leasehold.model.errors import InvalidField
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.routing.estimators import DAY_S, StreamEstimator
from leasehold.routing.moments import StreamMoments

PEERS = "peers"
"""The rule that sends a request to a peer, or refuses one from there."""

MOST_HOPS = 7
"""No request makes more: each hop adds two parts to the path of its consumer, which has 16 at most."""


class AskWhen(StrEnum):
    """When a peer is asked."""

    NONE_CAN = "none-can"  # what no own site can take
    NONE_CAN_NOW = "none-can-now"  # that, and what none can start at once, while the peer can
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds with one peer: when it is ``ask``ed, and the most VMs that it may have here (None: any).

    ``max_hops``  the most hops that a request makes in all which is exchanged with it, in either direction
    """

    ask: AskWhen = AskWhen.NONE_CAN
    max_vms: int | None = None
    max_hops: int = 1


@dataclass(frozen=True, slots=True)
class PeerAgreed:
    """The terms with a peer, new or changed, and since when its traffic is counted where it is new."""

    name: str
    terms: Terms
    at_ms: int


@dataclass(frozen=True, slots=True)
class Hop:
    """What a request carries to the next gateway; the fields are those of `leasehold.model.request.Request`."""

    global_id: str
    via: tuple[str, ...]
    hop_limit: int


@dataclass(slots=True)
class PeerTraffic:
    """What one gateway has offered another so far; ``stream`` learns its rate."""

    stream: StreamEstimator
    offered: int = 0
    refused: int = 0

    def count(self, request: Request, now_ms: int) -> None:
        """Count an offer."""
        self.offered += 1
        self.stream.observe(request.vms, request.duration_ms / 1000, now_ms)

    def snapshot(self) -> dict[str, Any]:
        """Give everything, as plain data for `restored`."""
        return {"offered": self.offered, "refused": self.refused, "stream": self.stream.memory()}

    @classmethod
    def restored(cls, snapshot: Mapping[str, Any]) -> "PeerTraffic":
        """Go on from what `snapshot` gave."""
        return cls(StreamEstimator.recalled(snapshot["stream"], DAY_S), snapshot["offered"], snapshot["refused"])


class Peering:
    """One gateway's peers.

    ``gateway_id``     the ID of this gateway on paths; ``ids`` are those of peers, as far as they have told them
    ``terms``          what holds with each of them
    ``asked, asking``  what was offered to each, and what each has offered here
    ``here``           the open leases that each of them has here
    """

    def __init__(self, registry: SiteRegistry, gateway_id: str) -> None:
        """Begin without peers."""
        self.gateway_id = gateway_id
        self.ids: dict[str, str] = {}
        self.terms: dict[str, Terms] = {}
        self.asked: dict[str, PeerTraffic] = {}
        self.asking: dict[str, PeerTraffic] = {}
        self.here: dict[str, dict[int, Lease]] = {}
        self._within: dict[str, dict[int, Lease]] = {}
        """Those of them that count against its limit: the others wait until there is room below it."""
        self._by_global_id: dict[str, int] = {}
        self._registry = registry

    # Which peers there are

    def agree(self, name: str, terms: Terms) -> None:
        """Set the terms with a peer, known before or not."""
        self.terms[name] = terms

    def begin_to_count(self, name: str, now_ms: int) -> None:
        """Start measuring the traffic in both directions; no effect for a known peer."""
        self.asked.setdefault(name, PeerTraffic(StreamEstimator(now_ms)))
        self.asking.setdefault(name, PeerTraffic(StreamEstimator(now_ms)))

    def remove(self, name: str) -> None:
        """Remove a peer: only the leases that it still has here count."""
        for kept in (self.terms, self.asked, self.asking, self.ids):
            kept.pop(name, None)

    def identify(self, name: str, gateway_id: str) -> None:
        """Note the ID of a peer, which it keeps; raises as `check_id` does."""
        self.check_id(name, gateway_id)
        self.ids[name] = gateway_id

    def check_id(self, name: str, gateway_id: str) -> None:
        """Refuse another ID than a peer had before, and that of somebody else; raises InvalidField."""
        known = self.ids.get(name, "")
        if known and known != gateway_id:
            raise InvalidField("gateway_id", gateway_id, f"{known}, the ID that {name} had before")
        others = [self.gateway_id, *(id_ for other, id_ in self.ids.items() if other != name)]
        if gateway_id in others:
            raise InvalidField("gateway_id", gateway_id, "an ID that no other gateway has")

    # What peers offer here

    def receive(self, lease: Lease, now_ms: int) -> Reason | None:
        """Count a request from a peer; returns why it is refused at once, None if it is not."""
        request = lease.request
        name = request.from_peer
        if not name:
            return None
        self.begin_to_count(name, now_ms)
        self.asking[name].count(request, now_ms)
        refusal = self._refuse_path(request)
        if refusal is not None:
            return refusal
        most = self.terms.get(name, Terms()).max_vms
        if most is None or self.vms_here(name) + request.vms <= most:
            self._admit(lease)
        elif not request.wait or request.vms > most:
            return Reason.PEER_QUOTA_EXCEEDED
        self._count(lease)
        return None

    def _refuse_path(self, request: Request) -> Reason | None:
        """Say why a request may not come by the path that it states; None if it may.

        Who leaves gateways out of a path is found out by the ID of the request, as long as it is at one of them.
        """
        if not self._is_credible(request):
            return Reason.UNTRUSTED_PATH
        if self.gateway_id in request.via or len(set(request.via)) < len(request.via):
            return Reason.REQUEST_LOOP
        if len(request.via) > self._max_hops(request.from_peer):
            return Reason.HOP_LIMIT_REACHED
        return Reason.DUPLICATE_REQUEST if request.global_id in self._by_global_id else None

    def _is_credible(self, request: Request) -> bool:
        """Whether a path ends with the peer that sent it, and begins where the request got its ID."""
        via = request.via
        if not via:
            return not self.gateway_id
        try:
            self.identify(request.from_peer, via[-1])
        except InvalidField:
            return False
        return request.global_id.partition("/")[0] == via[0]

    def _max_hops(self, name: str) -> int:
        return self.terms.get(name, Terms()).max_hops

    def _count(self, lease: Lease) -> None:
        self.here.setdefault(lease.request.from_peer, {})[lease.id] = lease
        if lease.request.global_id:
            self._by_global_id[lease.request.global_id] = lease.id

    def _admit(self, lease: Lease) -> None:
        self._within.setdefault(lease.request.from_peer, {})[lease.id] = lease

    def take_up(self, lease: Lease) -> None:
        """Go on from a record: a lease that came from a peer is here."""
        if lease.request.from_peer:
            self._count(lease)
            if lease.state is not LeaseState.HELD:
                self._admit(lease)  # the others are admitted by `is_over_limit`, if there is room

    def is_over_limit(self, lease: Lease) -> bool:
        """Whether a lease waits because its peer has as much here as it may have at a time."""
        name = lease.request.from_peer
        if not name or lease.id in self._within.get(name, ()):
            return False
        most = self.terms.get(name, Terms()).max_vms
        if most is not None and self.vms_here(name) + lease.vms > most:
            return True
        self._admit(lease)
        return False

    def vms_here(self, name: str) -> int:
        """Give how many VMs a peer's open leases have here, or wait for within its limit."""
        within = self._within.get(name, {})
        return sum(lease.vms for lease in within.values() if not lease.state.is_final)

    def forget(self, lease: Lease) -> None:
        """A lease is over."""
        name = lease.request.from_peer
        if name and lease.state is LeaseState.REFUSED and name in self.asking:
            self.asking[name].refused += 1
        for kept in (self.here, self._within):
            left = kept.get(name, {})
            left.pop(lease.id, None)
            if not left:
                kept.pop(name, None)
        if self._by_global_id.get(lease.request.global_id) == lease.id:
            del self._by_global_id[lease.request.global_id]

    def streams(self, now_ms: int) -> list[StreamMoments]:
        """Give the streams of requests that come from peers, one for each of them."""
        return [tally.stream.moments(now_ms) for tally in self.asking.values()]

    # What peers are offered

    def hop(self, lease: Lease) -> Hop:
        """Give what a lease carries to where it is offered: a peer, or a site that must not pass it on to a peer."""
        request = lease.request
        global_id = request.global_id or f"{self.gateway_id}/{lease.id}"
        return Hop(global_id, (*request.via, self.gateway_id), max(0, self._hop_limit(request, lease.site)))

    def _hop_limit(self, request: Request, name: str) -> int:
        """How many more gateways a request may pass once it is at a peer; below 0: it must not even go there."""
        if name not in self.terms:
            return -1
        hops = len(request.via) + 1
        limit = self.terms[name].max_hops - hops
        if request.via or request.from_peer:
            limit = min(limit, request.hop_limit - 1)
        if request.from_peer:
            limit = min(limit, self._max_hops(request.from_peer) - hops)
        return limit

    def choose(self, lease: Lease, when: AskWhen, closed: Collection[str]) -> RemoteSite | None:
        """Choose the peer that a lease is offered to.

        It is the one that is fewest hops from where the lease could run; then that with most VMs to spare; then the
        first by name. ``when`` says what own sites can do; ``closed`` peers have refused or must not be asked.
        """
        ranks: list[tuple[int, int, str]] = []
        for peer in self._asked(lease, when):
            if peer.silent or peer.name in closed:
                continue
            for hops, place in self.places(lease.request, peer):
                spare = self._to_spare(peer, place)
                if place.lends and (when is AskWhen.NONE_CAN or spare >= lease.vms):
                    ranks.append((hops, -spare, peer.name))
                    break
        return self._registry.remotes[min(ranks)[2]] if ranks else None

    def might_take(self, lease: Lease) -> bool:
        """Whether some peer can be asked for what no own site can take, though it may not lend now."""
        return any(self.places(lease.request, peer) for peer in self._asked(lease, AskWhen.NONE_CAN))

    def places(self, request: Request, peer: RemoteSite) -> list[tuple[int, Reach]]:
        """Give what could take a request at a peer and beyond it, and so many hops further; nearest first.

        It is as the peer has last told, and as far as the request may go.
        """
        reaches = peer.reaches(self._hop_limit(request, peer.name))
        return [(hops, place) for hops, place in enumerate(reaches) if place.can_take(request)]

    def lacks_hops(self, lease: Lease) -> bool:
        """Whether some peer could be asked, were the request allowed to pass more gateways."""
        return not self.might_take(lease) and any(
            place.can_take(lease.request)
            for peer in self._asked(lease, AskWhen.NONE_CAN)
            for place in peer.reaches(MOST_HOPS)
        )

    @property
    def asks_early(self) -> bool:
        """Whether some peer is asked already for what own sites cannot start now."""
        return any(terms.ask is AskWhen.NONE_CAN_NOW for terms in self.terms.values())

    def _asked(self, lease: Lease, when: AskWhen) -> Iterable[RemoteSite]:
        """Give the peers that are asked for such a lease, however many hops it may make.

        None is on its path, and one that is bound to a domain goes to no peer but that of this name.
        """
        request = lease.request
        if request.prepared_until_ms is not None:
            return
        for name, terms in self.terms.items():
            peer = self._registry.remotes.get(name)
            if peer is None or terms.ask not in (when, AskWhen.NONE_CAN_NOW):
                continue
            is_bound_elsewhere = bool(request.domain) and request.domain != name
            if not is_bound_elsewhere and name != request.from_peer and peer.gateway_id not in request.via:
                yield peer

    def _to_spare(self, peer: RemoteSite, place: Reach) -> int:
        """The VMs that are free there, less those that others wait for, and what was offered to the peer since."""
        return place.free_vms - self._registry.offers.vms_at(peer.name)

    def offered(self, lease: Lease, now_ms: int) -> None:
        """Count a lease that is offered to the peer that it names."""
        self.begin_to_count(lease.site, now_ms)
        self.asked[lease.site].count(lease.request, now_ms)

    def refused_by(self, name: str) -> None:
        """Count an offer that a peer refused."""
        if name in self.asked:
            self.asked[name].refused += 1

    # What outlives a restart

    def snapshot(self) -> dict[str, Any]:
        """Give what cannot be seen in the open leases, as plain data for `restore`."""
        return {
            "ids": self.ids,
            "asked": {name: tally.snapshot() for name, tally in self.asked.items()},
            "asking": {name: tally.snapshot() for name, tally in self.asking.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state that `snapshot` returned."""
        self.ids = dict(snapshot.get("ids", {}))
        self.asked = {name: PeerTraffic.restored(traffic) for name, traffic in snapshot.get("asked", {}).items()}
        self.asking = {name: PeerTraffic.restored(traffic) for name, traffic in snapshot.get("asking", {}).items()}
