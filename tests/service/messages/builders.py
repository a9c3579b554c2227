"""What builds images at sites, which is done beside the engines; a test says when, and how it goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leasehold.matching.software import Installed
from leasehold.service.commands import JobImageBuilt, JobImageFailed, JobImagesSeen
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.engine.tasks import Build
from leasehold.testing.live import Live

DEBIAN = ImageFacts(name="debian", software=frozenset({("python3", "3.11")}), size_bytes=1 << 20, least_memory_mib=64)
GROMACS = frozenset({("gromacs", "2022.5")})
BUILDABLE = Buildable("debian", GROMACS)
KEY = "debian+gromacs=2022.5"


@dataclass
class Builder:
    """What builds images at one site; ``flaw``: why that fails. While it ``waits`` nothing is built."""

    buildable: Buildable | None = BUILDABLE
    there: list[ImageFacts] = field(default_factory=lambda: [DEBIAN])
    flaw: str = ""
    waits: bool = False
    begun: list[Build] = field(default_factory=list)
    built: list[Installed] = field(default_factory=list)


class Builders:
    """Those of several services, by name; ``places`` gives the service of each, and its site there."""

    def __init__(self, builders: Mapping[str, Builder], places: Mapping[str, tuple[Live, str]]) -> None:
        self._builders = dict(builders)
        self._places = places

    def see(self) -> None:
        """All sites that have images are asked for them."""
        for name, builder in self._builders.items():
            live, site = self._places[name]
            self._boot_from(name)
            live.do(JobImagesSeen(site, tuple(builder.there), builder.buildable))

    def begin(self, name: str) -> bool:
        """Begin what is wanted of one, and finish it unless that waits; whether there was anything."""
        live, site = self._places[name]
        wanted, live.tasks.builds = live.tasks.builds, []
        for build in wanted:
            assert build.site == site, "what others build is nothing that a gateway can do"
            if build not in self._builders[name].begun:
                self._builders[name].begun.append(build)
        builder = self._builders.get(name)
        has_finished = builder is not None and not builder.waits and self.finish(name)
        return bool(wanted) or has_finished

    def finish(self, name: str) -> bool:
        """All builds of one that have begun come to their end; whether there were any."""
        builder, (live, site) = self._builders[name], self._places[name]
        begun, builder.begun = builder.begun, []
        for build in begun:
            builder.built.append(build.packages)
            if builder.flaw:
                live.do(JobImageFailed(build.key, site, builder.flaw))
                continue
            image = image_with(build.packages)
            if image not in builder.there:
                builder.there.append(image)
                self._boot_from(name)
            live.do(JobImageBuilt(build.key, site, image))
        return bool(begun)

    def _boot_from(self, name: str) -> None:
        """Machines boot from the images that are there, and from no other."""
        builder, (live, site) = self._builders[name], self._places[name]
        machines = live.sites[site].machines
        able = replace(machines.hardware.capabilities, images=tuple(image.name for image in builder.there))
        machines.hardware = replace(machines.hardware, capabilities=able)

    def end_waits(self) -> None:
        """Nothing is waited for any more."""
        for builder in self._builders.values():
            builder.waits = False


def image_with(packages: Installed) -> ImageFacts:
    """An image as it is built with these packages."""
    name = "-".join(["debian", *sorted(one for one, _ in packages)])
    return replace(DEBIAN, name=name, software=DEBIAN.software | packages, size_bytes=2 << 20)


def check_that_nothing_is_built(live: Live) -> None:
    """Nobody waits for an image, nothing is being built, and nobody is to be answered."""
    assert not [row for row in live.store.images() if row.state == "building" or row.asked]
    assert not live.engine.jobs.images.answers
