"""Images over the line: sites with managers are hosts for machines, and what is to be built is built beside them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.service.messages.builders import Builder, Builders, check_that_nothing_is_built
from tests.service.messages.job_line import JobWorld
from tests.service.messages.line import FAR, HOME

from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.store.rows import ImageRow
from leasehold.testing.live import Live

HOSTS = {
    HOME: (EmulatedNode("h1", 2, 2_048),),
    "far": (EmulatedNode("f1", 2, 4_096),),
    "north": (EmulatedNode("n1", 3, 4_096),),
}


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

    @property
    def _building(self) -> Builders:
        return Builders(self.builders, {name: (live, name) for name, live in self.named()})

    def see_images(self) -> None:
        """All sites that have images are asked for them."""
        self._building.see()

    def exchange_all(self) -> None:
        for name in FAR:
            self.exchange(name)

    def restart(self, who: str) -> None:
        super().restart(who)
        own = who if who in FAR else HOME
        if own in self.builders:
            self.builders[own].begun = []
            self.see_images()

    def _errands_of(self, name: str, live: Live) -> bool:
        has_begun = self._building.begin(name)
        return super()._errands_of(name, live) or has_begun

    def finish(self, name: str) -> bool:
        """All builds of a site that have begun come to their end; whether there were any."""
        return self._building.finish(name)

    def make_whole(self) -> None:
        self._building.end_waits()
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
        for _, live in self.named():
            check_that_nothing_is_built(live)
