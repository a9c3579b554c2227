"""Who provides: sites, the virtual domains that they form, and what they have of each resource."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.model.agreement import EVERYBODY
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Place:
    """A site, or a peer gateway: its ``domain`` ("" for none), and how many units it has of each resource."""

    name: str
    capacity: Mapping[str, int]
    domain: str = ""


class Providers:
    """All who provide: each site, each virtual domain, and all of them together (EVERYBODY)."""

    def __init__(self, places: Iterable[Place]) -> None:
        """Begin with these sites; raises InvalidField where a domain is named as a site is."""
        self.places: dict[str, Place] = {}
        self._capacity: dict[tuple[str, str], int] = {}
        self._sites_of: dict[str, frozenset[str]] = {}
        for place in places:
            self.join(place)

    def join(self, place: Place) -> None:
        """Let a site take part, in place of what was known under its name."""
        if place.domain and place.domain in self.places:
            expected = "a name that no site has"
            raise InvalidField("domain", place.domain, expected)
        self.places[place.name] = place
        self._capacity, self._sites_of = {}, {}
        for member in self.places.values():
            for provider in self.over(member.name):
                self._sites_of[provider] = self._sites_of.get(provider, frozenset()) | {member.name}
                for resource, units in member.capacity.items():
                    key = (provider, resource)
                    self._capacity[key] = self._capacity.get(key, 0) + units

    def part_with(self, name: str) -> None:
        """A site does not take part any more."""
        left = [place for place in self.places.values() if place.name != name]
        self.places, self._capacity, self._sites_of = {}, {}, {}
        for place in left:
            self.join(place)

    def over(self, site: str) -> tuple[str, ...]:
        """Name the providers that speak for a site: itself, its domain, everybody."""
        place = self.places.get(site)
        if place is None:
            return (site, EVERYBODY)
        return (site, place.domain, EVERYBODY) if place.domain else (site, EVERYBODY)

    def domain_of(self, site: str) -> str:
        """Name the domain of a site, "" for none."""
        place = self.places.get(site)
        return "" if place is None else place.domain

    def sites_of(self, provider: str) -> frozenset[str]:
        """Name the sites that a provider speaks for."""
        return self._sites_of.get(provider, frozenset())

    def capacity(self, provider: str, resource: str) -> int:
        """Give how many units of a resource a provider has; 0 of one that it does not have."""
        return self._capacity.get((provider, resource), 0)
