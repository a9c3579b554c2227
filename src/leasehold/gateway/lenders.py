"""Who lends: a gateway's own sites, those that decide for themselves, and which of them take guests now."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from leasehold.gateway.remote import RemoteSite
from leasehold.gateway.settings import SiteSettings
from leasehold.gateway.site import Site
from leasehold.model.request import LeaseType
from leasehold.routing.facts import Federation, SiteFacts
from leasehold.routing.moments import StreamMoments


class Lenders:
    """The sites behind a gateway. Peers are among ``remotes``, and nowhere else here.

    ``remotes``      who decides for itself: sites elsewhere, and peers
    ``not_lending``  sites whose owners take no new guests
    ``federation``   the sites that routing policies choose from
    """

    def __init__(
        self, sites: Mapping[str, Site], reference_mips: int, told_locals: Mapping[str, StreamMoments]
    ) -> None:
        """Begin with the gateway's own sites."""
        self.remotes: dict[str, RemoteSite] = {}
        self.not_lending: set[str] = set()
        self._sites = sites
        self._reference_mips = reference_mips
        self._be(self._facts(s.settings, told_locals.get(s.name)) for s in sites.values())

    def join(self, remote: RemoteSite) -> None:
        """Let somebody take part who decides for itself; one that was there before may have changed."""
        before = self.remotes.get(remote.name)
        if before is not None:
            remote.leases = before.leases
        self.remotes[remote.name] = remote
        if not remote.is_peer:
            self._be([*self._all_but(remote.name), self._facts(remote)])

    def part_with(self, name: str) -> RemoteSite | None:
        """Somebody who decides for itself will not come back; returns how it was, None if it never came."""
        remote = self.remotes.pop(name, None)
        self.not_lending.discard(name)
        self._be(self._all_but(name))
        return remote

    def able(
        self, lease_type: LeaseType, sites: Sequence[SiteFacts], refused_by: Collection[str]
    ) -> Sequence[SiteFacts]:
        """Of these sites, those that can serve such a lease and have not refused it: nearly always all."""
        if lease_type in self._served_everywhere and not refused_by:
            return sites
        return [s for s in sites if s.name not in refused_by and self._can_serve(s.name, lease_type)]

    def open(self, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Of these sites, those that take guests now."""
        closed = self.closed | {name for name, remote in self.remotes.items() if not remote.is_open}
        return [site for site in sites if site.name not in closed] if closed else sites

    @property
    def closed(self) -> set[str]:
        """Own sites, and others, to which no guests are sent because of their owner, or their machines."""
        return self.not_lending | {name for name, site in self._sites.items() if site.floor.is_silent}

    def own(self) -> list[Site]:
        """Give the gateway's own sites that take guests now."""
        closed = self.closed
        return [site for site in self._sites.values() if site.name not in closed]

    def speed_of(self, name: str) -> int:
        """Give the speed of one slot of a site or peer, MIPS."""
        remote = self.remotes.get(name)
        return self._sites[name].settings.speed_mips if remote is None else remote.speed_mips

    def _can_serve(self, name: str, lease_type: LeaseType) -> bool:
        place = self.remotes.get(name) or self._sites[name].settings
        return place.can_serve(lease_type)

    def _facts(self, place: SiteSettings | RemoteSite, told: StreamMoments | None = None) -> SiteFacts:
        return SiteFacts(place.name, place.slots, place.speed_mips, self._reference_mips, told)

    def _all_but(self, name: str) -> list[SiteFacts]:
        return [facts for facts in self.federation.sites if facts.name != name]

    def _be(self, sites: Iterable[SiteFacts]) -> None:
        """Let these be the sites, and see what all of them can do."""
        self.federation = Federation(sites)
        names = [site.name for site in self.federation.sites]
        self._served_everywhere = {kind for kind in LeaseType if all(self._can_serve(name, kind) for name in names)}
