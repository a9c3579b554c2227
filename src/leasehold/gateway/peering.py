"""Peer gateways: when one is asked, what may come from one, and the traffic both ways.

A peer is to a gateway what a site is that decides for itself (`leasehold.gateway.sites`), with more rules:

1. One's own sites come first: a peer is asked for what none of them can take or, where its terms say so, can
   start now.
2. A request makes one hop. What came from a peer is offered to no peer, nor back to where it came from.
3. What a peer has here at a time may be limited; what would be more waits, or is refused if it does not.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leasehold.gateway.sites import RemoteSite, SiteRegistry
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.routing.estimators import DAY_S, StreamEstimator
from leasehold.routing.moments import StreamMoments

PEERS = "peers"
"""The rule that sends a request to a peer, or refuses one from there."""


class AskWhen(StrEnum):
    """When a peer is asked."""

    NONE_CAN = "none-can"  # what no own site can take
    NONE_CAN_NOW = "none-can-now"  # that, and what none can start at once, while the peer can
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds with one peer: when it is ``ask``ed, and the most VMs that it may have here (None: any)."""

    ask: AskWhen = AskWhen.NONE_CAN
    max_vms: int | None = None


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

    ``terms``          what holds with each of them
    ``asked, asking``  what was offered to each, and what each has offered here
    ``here``           the open leases that each of them has here
    """

    def __init__(self, registry: SiteRegistry) -> None:
        """Begin without peers."""
        self.terms: dict[str, Terms] = {}
        self.asked: dict[str, PeerTraffic] = {}
        self.asking: dict[str, PeerTraffic] = {}
        self.here: dict[str, dict[int, Lease]] = {}
        self._within: dict[str, dict[int, Lease]] = {}
        """Those of them that count against its limit: the others wait until there is room below it."""
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
        for kept in (self.terms, self.asked, self.asking):
            kept.pop(name, None)

    # What peers offer here

    def receive(self, lease: Lease, now_ms: int) -> Reason | None:
        """Count a request from a peer; returns why it is refused at once, None if it is not."""
        request = lease.request
        name = request.from_peer
        if not name:
            return None
        self.begin_to_count(name, now_ms)
        self.asking[name].count(request, now_ms)
        most = self.terms.get(name, Terms()).max_vms
        if most is None or self.vms_here(name) + request.vms <= most:
            self._admit(lease)
        elif not request.wait or request.vms > most:
            return Reason.PEER_QUOTA_EXCEEDED
        self._count(lease)
        return None

    def _count(self, lease: Lease) -> None:
        self.here.setdefault(lease.request.from_peer, {})[lease.id] = lease

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

    def streams(self, now_ms: int) -> list[StreamMoments]:
        """Give the streams of requests that come from peers, one for each of them."""
        return [tally.stream.moments(now_ms) for tally in self.asking.values()]

    # What peers are offered

    def choose(self, lease: Lease, when: AskWhen, closed: Collection[str]) -> RemoteSite | None:
        """Choose the peer that a lease is offered to: the one with most VMs to spare, else the first by name.

        ``when`` says what own sites can do; ``closed`` peers have refused or must not be asked.
        """
        open_ = [peer for peer in self._able(lease, when) if peer.is_open and peer.name not in closed]
        if when is AskWhen.NONE_CAN_NOW:
            open_ = [peer for peer in open_ if self._to_spare(peer) >= lease.vms]
        return min(open_, key=lambda peer: (-self._to_spare(peer), peer.name), default=None)

    def might_take(self, lease: Lease) -> bool:
        """Whether some peer can be asked for what no own site can take, though it may not lend now."""
        return any(True for _ in self._able(lease, AskWhen.NONE_CAN))

    @property
    def asks_early(self) -> bool:
        """Whether some peer is asked already for what own sites cannot start now."""
        return any(terms.ask is AskWhen.NONE_CAN_NOW for terms in self.terms.values())

    def _able(self, lease: Lease, when: AskWhen) -> Iterable[RemoteSite]:
        """Give the peers that a lease may go to at all; what came from a peer goes to none."""
        if lease.request.from_peer or lease.request.prepared_until_ms is not None:
            return
        for name, terms in self.terms.items():
            peer = self._registry.remotes.get(name)
            is_asked = terms.ask in (when, AskWhen.NONE_CAN_NOW)
            if peer is None or not is_asked or peer.slots < lease.vms:
                continue
            if peer.can_serve(lease.request.lease_type) and peer.lacks(lease.request) is None:
                yield peer

    def _to_spare(self, peer: RemoteSite) -> int:
        """The VMs that are free there, less those that others wait for, and what was offered since."""
        return peer.live.unclaimed_vms - self._registry.offers.vms_at(peer.name)

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
            "asked": {name: tally.snapshot() for name, tally in self.asked.items()},
            "asking": {name: tally.snapshot() for name, tally in self.asking.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state that `snapshot` returned."""
        self.asked = {name: PeerTraffic.restored(traffic) for name, traffic in snapshot.get("asked", {}).items()}
        self.asking = {name: PeerTraffic.restored(traffic) for name, traffic in snapshot.get("asking", {}).items()}
