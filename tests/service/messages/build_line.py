"""Images over the line: sites with managers are hosts for machines, and what is to be built is built beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.service.messages.job_line import JobWorld
from tests.service.messages.line import FAR, HOME

from leasehold.matching.software import Installed
from leasehold.service.commands import JobImageBuilt, JobImageFailed, JobImagesSeen
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts
from leasehold.service.engine.tasks import Build
from leasehold.service.store.rows import ImageRow
from leasehold.testing.live import Live

DEBIAN = ImageFacts(name="debian", software=frozenset({("python3", "3.11")}), size_bytes=1 << 20, least_memory_mib=64)
GROMACS = frozenset({("gromacs", "2022.5")})
BUILDABLE = Buildable("debian", GROMACS)
KEY = "debian+gromacs=2022.5"
HOSTS = {
    HOME: (EmulatedNode("h1", 2, 2_048),),
    "far": (EmulatedNode("f1", 2, 4_096),),
    "north": (EmulatedNode("n1", 3, 4_096),),
}


@dataclass
class Builder:
    """What builds images at one site; ``flaw``: why that fails. While it ``waits`` nothing is built."""

    buildable: Buildable | None = BUILDABLE
    there: list[ImageFacts] = field(default_factory=lambda: [DEBIAN])
    flaw: str = ""
    waits: bool = False
    begun: list[Build] = field(default_factory=list)
    built: list[Installed] = field(default_factory=list)


class BuildWorld(JobWorld):
    """All three; machines are built on hosts of these sites, and jobs need software that no image has."""

    def __init__(self, folder: Path, sites: Mapping[str, Builder] | None = None) -> None:
        self.builders = {name: Builder() for name in FAR} if sites is None else dict(sites)
        super().__init__(folder, HOSTS, with_images=self.builders.keys())
        self.see_images()
        for _ in range(4):  # nodes, images and what can be built, each in a message, and the answers
            self.exchange_all()

    def nodes_at(self, name: str) -> tuple[NodeFacts, ...]:
        nodes = super().nodes_at(name)
        if name not in self.builders:
            return nodes
        return tuple(replace(node, is_host=True, runs=False) for node in nodes)

    def see_images(self) -> None:
        """All sites that have images are asked for them."""
        for name, builder in self.builders.items():
            self.live_at(name).do(JobImagesSeen(name, tuple(builder.there), builder.buildable))

    def exchange_all(self) -> None:
        for name in FAR:
            self.exchange(name)

    def restart(self, who: str) -> None:
        super().restart(who)
        for builder in self.builders.values():
            builder.begun = [] if builder is self.builders.get(self._own_site(who)) else builder.begun
        if self._own_site(who) in self.builders:
            self.see_images()

    @staticmethod
    def _own_site(who: str) -> str:
        return who if who in FAR else HOME

    def _errands_of(self, name: str, live: Live) -> bool:
        wanted, live.tasks.builds = live.tasks.builds, []
        has_more = super()._errands_of(name, live)
        for build in wanted:
            assert build.site == name, "what a manager builds is nothing that its gateway can do"
            if build not in self.builders[name].begun:
                self.builders[name].begun.append(build)
        if not self.builders.get(name, Builder(waits=True)).waits:
            has_more = self.finish(name) or has_more
        return has_more or bool(wanted)

    def finish(self, name: str) -> bool:
        """All builds of a site that have begun come to their end; whether there were any."""
        builder, live = self.builders[name], self.live_at(name)
        begun, builder.begun = builder.begun, []
        for build in begun:
            builder.built.append(build.packages)
            if builder.flaw:
                live.do(JobImageFailed(build.key, name, builder.flaw))
                continue
            image = image_with(build.packages)
            if image not in builder.there:
                builder.there.append(image)
                self._be_there(name, image)
            live.do(JobImageBuilt(build.key, name, image))
        return bool(begun)

    def _be_there(self, name: str, image: ImageFacts) -> None:
        """Machines of a site boot from no image that is not there."""
        machines = self.live_at(name).sites[name].machines
        able = machines.hardware.capabilities
        machines.hardware = replace(machines.hardware, capabilities=replace(able, images=(*able.images, image.name)))

    def make_whole(self) -> None:
        for builder in self.builders.values():
            builder.waits = False
        super().make_whole()

    def images(self, name: str = HOME) -> list[tuple[str, str, str]]:
        """What somebody knows of images."""
        return [(row.name, row.site, row.state) for row in self.image_rows(name)]

    def image_rows(self, name: str = HOME) -> list[ImageRow]:
        return self.live_at(name).store.images()

    def to_and_fro(self, rounds: int = 6, for_ms: int = 1_000) -> None:
        for _ in range(rounds):
            self.exchange_all()
            self.pass_time(for_ms)
            self.check()

    def check_that_nothing_is_left(self) -> None:
        """Nobody waits for an image, nothing is being built, and nobody is to be answered."""
        for name, live in self.named():
            assert not [row for row in live.store.images() if row.state == "building" or row.asked], name
            assert not live.engine.jobs.images.answers


def image_with(packages: Installed) -> ImageFacts:
    """An image as it is built with these packages."""
    name = "-".join(["debian", *sorted(one for one, _ in packages)])
    return replace(DEBIAN, name=name, software=DEBIAN.software | packages, size_bytes=2 << 20)
