"""What a gateway or a peer is told of images, and of what can be built: what is not as it was told.

One message of each of the two at a time, and the next when that has arrived. A peer is told by the same code as the
gateway of a site: of the sites that it was told with their nodes, each by its name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from leasehold.matching.software import Installed
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.engine.images import THERE
from leasehold.service.engine.jobs import JobController
from leasehold.service.engine.message_log import MessageLog
from leasehold.service.messages.about_jobs import (
    MOST_BYTES,
    MOST_PACKAGES,
    MOST_PARTS,
    MOST_PARTS_OF_A_PEER,
    MOST_SOFTWARE_BYTES,
    BuildableTold,
    ImagesTold,
    ImageTold,
    SoftwareTold,
)
from leasehold.service.messages.site_status import LONGEST_NAME, MOST_IMAGES
from leasehold.service.store.rows import ImageRow


@dataclass(slots=True)
class _BuildableListing:
    """What was told of what can be built at a site.

    ``number``   of the listing
    ``found``    what was told, or is being told; None: that nothing can be built
    ``parts``    what is told of it, in so many messages; none before the first listing
    ``told``     how many of them were
    """

    number: int = 0
    found: Buildable | None = None
    parts: list[SoftwareTold] = field(default_factory=list)
    told: int = 0


class ImageReporter:
    """Tells one endpoint, as far as it can be told."""

    def __init__(self, jobs: JobController, log: MessageLog, endpoint: str) -> None:
        """Begin with one that was told of nothing."""
        self._jobs = jobs
        self._log = log
        self._endpoint = endpoint
        self._told: dict[str, ImageTold] | None = None
        """The images that it was told of, by the names under which it was; None: of none, be there some or not."""
        self._state: object = None
        """All that the images follow from that it was told last, where it was told of all; None: it was not."""
        self._images_message = 0
        self._buildable: dict[str, _BuildableListing] = {}
        self._buildable_message = 0

    def tell_anew(self) -> None:
        """Tell everything once more."""
        self._told = self._state = None
        for listing in self._buildable.values():
            listing.parts = []

    def tell(self, sites: Mapping[str, str], now_ms: int) -> None:
        """Tell of these sites what is not as it was told, of each kind unless the last of it is still on its way.

        ``sites`` gives the names by which they are told; "" for the only one.
        """
        if self._log.has_arrived(self._endpoint, self._images_message):
            self._tell_images(sites, now_ms)
        if self._log.has_arrived(self._endpoint, self._buildable_message):
            self._tell_buildable(sites, now_ms)

    def _tell_images(self, sites: Mapping[str, str], now_ms: int) -> None:
        state = self._jobs.images.changes, dict(sites)
        if state == self._state:
            return
        rows = self._images(sites)
        if self._told is None and not rows and not self._jobs.images.are_known:
            return
        known = {} if self._told is None else self._told
        size, images, is_full = 0, list[ImageTold](), False
        for name, row in rows.items():
            told = image_told(row, name)
            if known.get(name) != told:
                size += len(told.model_dump_json())
                if images and size > MOST_BYTES:
                    is_full = True
                    break
                images.append(told)
        gone = known.keys() - rows.keys()
        self._state = None if is_full else state
        if not images and not gone and self._told is not None:
            return
        self._told = {name: told for name, told in known.items() if name not in gone} | {i.name: i for i in images}
        there = tuple(name for name in rows if name in self._told)
        body = ImagesTold(images=tuple(images), names=there).model_dump(mode="json")
        self._images_message = self._log.send(self._endpoint, body, now_ms)

    def _images(self, sites: Mapping[str, str]) -> dict[str, ImageRow]:
        """Give the images that are told, by the names under which they are."""
        rows: dict[str, ImageRow] = {}
        for row in self._jobs.images.rows.values():
            if row.state == THERE and row.site in sites:
                rows[name_told(row.name, sites[row.site])] = row
        return {name: rows[name] for name in nsmallest(MOST_IMAGES, filter(is_sound, rows))}

    def _tell_buildable(self, sites: Mapping[str, str], now_ms: int) -> None:
        """Tell the next part of what can be built somewhere; from the beginning where that has changed."""
        for site in self._buildable.keys() - sites.keys():
            del self._buildable[site]
        for site, called in sorted(sites.items()):
            told = self._next_part(site, called, now_ms)
            if told is not None:
                self._buildable_message = self._log.send(self._endpoint, told.model_dump(mode="json"), now_ms)
                return

    def _next_part(self, site: str, called: str, now_ms: int) -> BuildableTold | None:
        """Give what is still to be told of a site, the next part of it; None for nothing."""
        is_known, found = self._jobs.images.buildable_at(site)
        if not is_known:
            return None
        if found is not None and not is_sound(found.base):
            found = None
        listing = self._buildable.get(site, _BuildableListing())
        if found is not listing.found or not listing.parts:
            parts: list[SoftwareTold] = [()] if found is None else _in_parts(found.packages)
            parts = parts[: self._room_for(site) if called else None]
            listing = _BuildableListing(max(now_ms, listing.number + 1), found, parts)
            self._buildable[site] = listing
        if listing.told == len(listing.parts):
            return None
        listing.told += 1
        return BuildableTold(
            site=called,
            listing=listing.number,
            part=listing.told - 1,
            parts=len(listing.parts),
            base="" if found is None else found.base,
            packages=listing.parts[listing.told - 1],
        )

    def _room_for(self, site: str) -> int:
        """Say how many parts may be told of a site of several."""
        return max(
            0, MOST_PARTS_OF_A_PEER - sum(len(one.parts) for name, one in self._buildable.items() if name != site)
        )


def name_told(image: str, site: str) -> str:
    """Give the name by which an image of a site is told; "" for the only one."""
    return f"{site}/{image}" if site else image


def is_sound(name: str) -> bool:
    """Whether a name can be told: nobody could call anything else by its name."""
    return name.isprintable() and 0 < len(name) <= LONGEST_NAME


def _is_sound_version(version: str) -> bool:
    return version.isprintable() and len(version) <= LONGEST_NAME


def image_told(image: ImageRow | ImageFacts, name: str) -> ImageTold:
    """Tell of an image by this name."""
    return ImageTold(
        name=name,
        software=software_told(image.software),
        size_bytes=image.size_bytes,
        least_memory_mib=image.least_memory_mib,
    )


def software_told(software: Installed) -> SoftwareTold:
    """Give what is installed by its names, as much of it as may be told."""
    found, size = list[tuple[str, str]](), 0
    for one in sorted(pair for pair in software if "".join(pair).isprintable()):
        size += len(json.dumps(one)) + 1
        if size > MOST_SOFTWARE_BYTES:
            break
        found.append(one)
    return tuple(found)


def _in_parts(packages: Installed) -> list[SoftwareTold]:
    """Divide packages into what one message may tell, in the order of their names; as many as may be told."""
    parts, size = [list[tuple[str, str]]()], 0
    for one in sorted(pair for pair in packages if is_sound(pair[0]) and _is_sound_version(pair[1])):
        more = len(json.dumps(one)) + 1
        if size + more > MOST_SOFTWARE_BYTES or len(parts[-1]) >= MOST_PACKAGES:
            parts.append([])
            size = 0
        size += more
        parts[-1].append(one)
    return [tuple(part) for part in parts[:MOST_PARTS]]
