"""Providers and consumers: sites and the virtual domains that they form; paths of consumers.

Consumers are paths: a VO, groups within it, a user (``atlas/production/simulation-team``). What is beneath a path
is used on its account, too; that is what makes rights pass down and use add up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from leasehold.model.agreement import EVERYBODY
from leasehold.model.errors import InvalidField

MOST_NAME = 255
"""The longest name of a consumer or group, in characters: what the WLCG profile grants to a subject."""

MOST_DEPTH = 16
"""The most parts of a path."""

A_NAME = f"a name of 1 to {MOST_NAME} visible characters, without blanks or '/', not beginning with '@' or '*'"
A_PATH = f"1 to {MOST_DEPTH} names joined by '/', each {A_NAME.removeprefix('a name ')}"

ALL_AND_OWNERS = ""
"""The account of all use at a provider, that of the owners' own users included."""


def is_name(text: str) -> bool:
    """Whether a text is one part of a path: it cannot be mistaken for a path, EVERYBODY or a domain."""
    if not 1 <= len(text) <= MOST_NAME or text[0] in "@*":
        return False
    return text.isprintable() and "/" not in text and not any(map(str.isspace, text))


def is_path(text: str) -> bool:
    """Whether a text is a path of at most `MOST_DEPTH` names."""
    parts = text[: MOST_DEPTH * (MOST_NAME + 1)].split("/")
    return len(text) <= MOST_DEPTH * (MOST_NAME + 1) and len(parts) <= MOST_DEPTH and all(map(is_name, parts))


@lru_cache(maxsize=65_536)
def accounts_of_guest(path: str, domain: str) -> tuple[str, ...]:
    """Name the accounts on which a guest of this path is at a site of this domain, widest first."""
    via = (f"@{domain}",) if domain else ()
    return (ALL_AND_OWNERS, EVERYBODY, *via, *prefixes(path))


def prefixes(path: str) -> tuple[str, ...]:
    """Give a path and all that it is beneath, the VO first."""
    parts = path.split("/") if path else []
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def is_beneath(path: str, above: str) -> bool:
    """Whether a path is this one or beneath it."""
    return above in {EVERYBODY, path} or path.startswith(f"{above}/")


@dataclass(frozen=True, slots=True)
class Provider:
    """A site, or a peer gateway: its ``domain`` ("" for none), and how many units it has of each resource."""

    name: str
    capacity: Mapping[str, int]
    domain: str = ""


class Providers:
    """All providers: each site, each virtual domain, and all of them together (EVERYBODY)."""

    def __init__(self, places: Iterable[Provider]) -> None:
        """Begin with these sites; raises InvalidField where a domain is named as a site is."""
        self.places: dict[str, Provider] = {}
        self._capacity: dict[tuple[str, str], int] = {}
        self._sites_of: dict[str, frozenset[str]] = {}
        for place in places:
            self.join(place)

    def join(self, place: Provider) -> None:
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
        """Return the providers a site belongs to: itself, its domain, EVERYBODY."""
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

    def know_of(self, resource: str) -> bool:
        """Whether any site says how much of a resource it has."""
        return (EVERYBODY, resource) in self._capacity

    def capacity(self, provider: str, resource: str) -> int:
        """Give how many units of a resource a provider has; 0 of one that it does not have."""
        return self._capacity.get((provider, resource), 0)
