"""The sites of peers that have told of their nodes: by which gateways each is reached, and what may be told on.

Like a request, what is told of a site goes from gateway to gateway no further than the terms of both ends of each hop
allow, and never to one that it has passed (`leasehold.gateway.peering`). A site that is told by several ways is known
by each of them, and considered by the shortest.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.peering import AskWhen
from leasehold.jobs.events import Turn
from leasehold.jobs.job import OF_PEER, behind, provider_of
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.messages.about_jobs import SiteTold
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import SNAPSHOTS, SnapshotRow

PEER_SITES = "peer-sites"
"""The name of a snapshot."""


@dataclass(frozen=True, slots=True)
class PeerSite:
    """A site behind a peer, as `SiteTold`."""

    via: tuple[str, ...]
    hop_limit: int
    speed_mips: int
    by_nodes: bool


class PeerSites:
    """Those of all peers, by the names that they have here: ``peer:site``."""

    def __init__(self, store: Reading, unit: UnitOfWork, gateway: Gateway) -> None:
        """Begin with what is in the store."""
        self._unit = unit
        self._registry = gateway.registry
        self._peering = gateway.peering
        kept = json.loads(store.snapshots().get(PEER_SITES, "{}"))
        self._sites = {
            name: PeerSite(tuple(one["via"]), one["hop_limit"], one["speed_mips"], one["by_nodes"])
            for name, one in kept.items()
        }

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._sites)

    def get(self, site: str) -> PeerSite | None:
        """Give one; None for a site that is not a peer's, or was never told."""
        return self._sites.get(site)

    def of(self, peer: str) -> list[str]:
        """List those of a peer that may be used."""
        return [site for site in self._sites if provider_of(site) == peer]

    def hear(self, peer: str, told: Iterable[SiteTold]) -> dict[str, int]:
        """Take in which sites a peer tells of; gives how old is what it knows of each that may be used, in ms.

        Left out are those that a request from here may not reach by the gateways that are stated.
        """
        may = [one for one in told if self._may_go(peer, one.via)]
        heard = {behind(peer, one.name): PeerSite(one.via, one.hop_limit, one.speed_mips, one.by_nodes) for one in may}
        others = {name: one for name, one in self._sites.items() if provider_of(name) != peer}
        self._keep(others | heard)
        return {behind(peer, one.name): one.age_ms for one in may}

    def forget(self, peer: str) -> None:
        """Forget those of a peer."""
        self._keep({name: one for name, one in self._sites.items() if provider_of(name) != peer})

    def _keep(self, sites: dict[str, PeerSite]) -> None:
        if sites != self._sites:
            self._sites = sites
            text = json.dumps({name: asdict(one) for name, one in sites.items()})
            self._unit.put(SNAPSHOTS, SnapshotRow(PEER_SITES, text))

    def _may_go(self, peer: str, via: tuple[str, ...]) -> bool:
        """Whether a request of one's own may go by these gateways, the first of which is the peer."""
        remote, terms = self._registry.remotes.get(peer), self._peering.terms.get(peer)
        if remote is None or terms is None or via[0] != remote.gateway_id:
            return False
        return len(via) <= terms.max_hops and len(set(via)) == len(via) and self._peering.gateway_id not in via

    def turns(self, closed: Collection[str]) -> dict[str, Turn]:
        """Say when each is considered: as the terms with its peer say, and by the shortest way that is open."""
        best: dict[tuple[str, str], tuple[bool, int, str]] = {}
        ranks = {name: (provider_of(name) in closed, len(one.via), name) for name, one in self._sites.items()}
        for name, one in self._sites.items():
            place = one.via[-1], name.rpartition(OF_PEER)[2]
            best[place] = min(ranks[name], best.get(place, ranks[name]))
        chosen = {name for _, _, name in best.values()}
        return {name: self._asked(provider_of(name)) if name in chosen else Turn.NEVER for name in self._sites}

    def _asked(self, peer: str) -> Turn:
        terms = self._peering.terms.get(peer)
        return Turn.NEVER if terms is None else Turn(terms.ask.value)

    def told_to(self, peer: str, sites: Iterable[str]) -> Mapping[str, SiteTold]:
        """Give those of these sites, one's own and others', of which a peer is told, without the age of what is known.

        Of a site that is known by several ways, the shortest is told.
        """
        terms = self._peering.terms.get(peer)
        if terms is None:
            return {}
        found: dict[tuple[str, str], SiteTold] = {}
        for site in sorted(sites):
            told = self._told_to(peer, site, terms.max_hops)
            if told is not None:
                place = told.via[-1], site.rpartition(OF_PEER)[2]
                if place not in found or len(told.via) < len(found[place].via):
                    found[place] = told
        return {one.name: one for one in found.values()}

    def _told_to(self, peer: str, site: str, max_hops: int) -> SiteTold | None:
        us, registry = self._peering.gateway_id, self._registry
        remote = registry.remotes.get(site)
        if site in registry.own or (remote is not None and not remote.is_peer):
            speed_mips, by_nodes = registry.speed_of(site), registry.is_planned_by_nodes(site)
            return SiteTold(
                name=site, via=(us,), hop_limit=max_hops - 1, speed_mips=speed_mips, by_nodes=by_nodes, age_ms=0
            )
        one, other = self._sites.get(site), provider_of(site)
        terms = self._peering.terms.get(other)
        if one is None or terms is None or other == peer or terms.ask is AskWhen.NEVER:
            return None
        hops, theirs = len(one.via) + 1, registry.remotes.get(peer)
        known = self._peering.ids.get(peer, "") if theirs is None else theirs.gateway_id
        hop_limit = min(one.hop_limit - 1, max_hops - hops, terms.max_hops - hops)
        if hop_limit < 0 or known in one.via:
            return None
        return SiteTold(
            name=site, via=(us, *one.via), hop_limit=hop_limit, speed_mips=one.speed_mips,
            by_nodes=one.by_nodes, age_ms=0,
        )  # fmt: skip
