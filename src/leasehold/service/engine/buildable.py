"""What images can be built, and from what, at each site: the packages of a repository, tens of thousands of them.

Sites of this service are asked for it, again after a restart. Managers of others, and peers, tell it in parts, which
are kept: what they told before counts until all parts of a new listing are there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import structlog

from leasehold.jobs.job import hops_to, provider_of
from leasehold.matching.images import BuildSource, Image
from leasehold.matching.software import Installed
from leasehold.service.drivers.facts import Buildable
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.messages.about_jobs import MOST_PARTS_OF_A_PEER, BuildableTold
from leasehold.service.store.rows import BUILDABLE, BuildableRow

_log = structlog.get_logger("leasehold.images")


@dataclass(frozen=True, slots=True)
class _Known:
    """What can be built at sites that have the same: ``ordered`` are the packages in a stated order."""

    found: Buildable
    ordered: tuple[tuple[str, str], ...]


class BuildableRepository:
    """Knows what can be built where; ``own`` are the sites that are asked, the others have told it."""

    def __init__(self, rows: Collection[BuildableRow], unit: UnitOfWork, own: Collection[str]) -> None:
        """Begin with what is in the store, in its order."""
        self._unit = unit
        self._own = frozenset(own)
        self._known: dict[str, _Known] = {}
        self._listings: dict[str, tuple[int, int]] = {}
        """The last listing of which all parts were told, and how many those are, by site."""
        self._arriving: dict[str, list[BuildableRow]] = {}
        for (site, _), few in groupby(rows, key=attrgetter("site", "listing")):
            parts = list(few)
            if len(parts) == parts[0].parts:
                self._arrived(site, parts)
            else:
                self._arriving[site] = parts

    def at(self, site: str) -> Buildable | None:
        """What can be built at a site; None for nothing, or where nobody knows."""
        known = self._known.get(site)
        return None if known is None else known.found

    def was_told(self, site: str) -> bool:
        """Whether it was told what can be built at a site, be it nothing."""
        return site in self._listings

    def sites_of(self, provider: str) -> set[str]:
        """Name the sites of which a manager, or a peer, has told that."""
        return {site for site in (*self._listings, *self._arriving) if provider_of(site) == provider}

    def sites_for(self, base: str, packages: Installed) -> list[str]:
        """Name the sites that can put these packages on a base, own ones first, and those of peers last."""
        able = (site for site, known in self._known.items() if not why_not(known.found, base, packages))
        return sorted(able, key=self._preference)

    def sources(self, images: Mapping[str, Image]) -> tuple[BuildSource, ...]:
        """What can be built from these images; own sites come first. A base that is nowhere is left out."""
        together: dict[int, list[str]] = {}
        for site in sorted(self._known, key=self._preference):
            together.setdefault(id(self._known[site]), []).append(site)
        listed = ((self._known[sites[0]], sites) for sites in together.values())
        return tuple(
            BuildSource(images[known.found.base], known.ordered, frozenset(sites))
            for known, sites in listed
            if known.found.base in images
        )

    def see(self, site: str, found: Buildable | None) -> None:
        """Note what can be built at a site here: mostly the same as a moment ago."""
        self._keep(site, found)

    def hear(self, site: str, told: BuildableTold, base: str) -> bool:
        """Take in a part of what can be built at a site of others; whether all of it is there now.

        ``base`` is what its base is called here. A part that does not follow the one before says nothing.
        """
        parts = self._arriving.setdefault(site, [])
        before = self._listings.get(site)
        if told.part == 0:
            if before is not None and told.listing == before[0]:
                return self._refuse(site, told, "a listing that was told before")
            if hops_to(site) and self._parts_beside(site) + told.parts > MOST_PARTS_OF_A_PEER:
                return self._refuse(site, told, f"more than {MOST_PARTS_OF_A_PEER} parts of the sites of a peer")
            if parts:
                self._unit.remove(BUILDABLE, site=site, listing=parts[0].listing)
                parts.clear()
        elif [(told.listing, told.part, told.parts, base)] != [
            (last.listing, last.part + 1, last.parts, last.base) for last in parts[-1:]
        ]:
            return self._refuse(site, told, "a part that does not follow the one before")
        row = BuildableRow(site, told.listing, told.part, told.parts, base, frozenset(told.packages))
        self._unit.put(BUILDABLE, row)
        parts.append(row)
        if len(parts) < told.parts:
            return False
        if before is not None:
            self._unit.remove(BUILDABLE, site=site, listing=before[0])
        self._arrived(site, self._arriving.pop(site))
        return True

    def forget(self, site: str) -> None:
        """Forget a site that will not come back."""
        if self._listings.pop(site, None) is not None or self._arriving.get(site):
            self._unit.remove(BUILDABLE, site=site)
        self._arriving.pop(site, None)
        self._known.pop(site, None)

    def _arrived(self, site: str, parts: Sequence[BuildableRow]) -> None:
        """All parts of a listing are there."""
        self._listings[site] = parts[0].listing, len(parts)
        packages = frozenset[tuple[str, str]]().union(*(row.packages for row in parts))
        self._keep(site, Buildable(parts[0].base, packages) if parts[0].base else None)

    def _parts_beside(self, site: str) -> int:
        """Count the parts that its peer has told of the other sites, or begun to tell."""
        others = self.sites_of(provider_of(site)) - {site}
        begun = (self._arriving[one][0].parts for one in others if self._arriving.get(one))
        return sum(self._listings[one][1] for one in others if one in self._listings) + sum(begun)

    def _keep(self, site: str, found: Buildable | None) -> None:
        if found is None:
            self._known.pop(site, None)
        elif found != self.at(site):
            same = (known for known in self._known.values() if known.found == found)
            self._known[site] = next(same, None) or _Known(found, tuple(sorted(found.packages)))

    def _preference(self, site: str) -> tuple[bool, int, str]:
        return site not in self._own, hops_to(site), site

    def _refuse(self, site: str, told: BuildableTold, why: str) -> bool:
        _log.warning("what can be built was told wrongly", site=site, listing=told.listing, part=told.part, why=why)
        return False


def why_not(found: Buildable, base: str, packages: Iterable[tuple[str, str]]) -> str:
    """Say why these packages cannot be put on a base, "" where they can."""
    if base != found.base:
        return f"images are built from {found.base}, not from {base}"
    missing = min((one for one in packages if one not in found.packages), default=None)
    return "" if missing is None else f"{missing[0]} {missing[1]} cannot be put into an image"
