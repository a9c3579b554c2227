"""Images over peers: gateways in a chain, or in a ring; some have hosts for machines, and build images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.service.messages.builders import Builder, Builders, check_that_nothing_is_built
from tests.service.peers.job_peers import JobPeers
from tests.service.peers.triangle import site_of

from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.engine.remote_jobs import RemoteJobs
from leasehold.service.messages.about_jobs import BuildableTold, BuildTold, BuildWanted, ImagesTold
from leasehold.service.messages.endpoints import asking
from leasehold.service.store.rows import ImageRow

HOSTS = {
    "a": (EmulatedNode("n1", 2, 2_048),),
    "b": (EmulatedNode("h1", 2, 4_096), EmulatedNode("h2", 2, 4_096)),
    "c": (EmulatedNode("h1", 3, 4_096),),
}


class BuildPeers(JobPeers):
    """``a`` has a node, ``builders`` hosts; jobs need software that is on no node."""

    def __init__(self, folder: Path, builders: Mapping[str, Builder], **said: Any) -> None:
        self.builders = dict(builders)
        super().__init__(folder, HOSTS, with_images=self.builders.keys(), **said)
        self.see_images()
        for _ in range(2 * len(HOSTS)):  # images, and what can be built, each in a message for each hop
            self.exchange_all()

    @property
    def _building(self) -> Builders:
        return Builders(self.builders, {name: (live, site_of(name)) for name, live in self.gateways.items()})

    def nodes_at(self, name: str) -> Sequence[NodeFacts]:
        nodes = super().nodes_at(name)
        return [replace(node, is_host=True, runs=False) for node in nodes] if name in self.builders else nodes

    def see_images(self) -> None:
        self._building.see()

    def finish(self, name: str) -> bool:
        """All builds of one that have begun come to their end; whether there were any."""
        return self._building.finish(name)

    def restart(self, name: str) -> None:
        super().restart(name)
        if name in self.builders:
            self.builders[name].begun = []
            self.see_images()

    def _errands_of(self, name: str) -> bool:
        has_begun = self._building.begin(name)
        return super()._errands_of(name) or has_begun

    def make_whole(self) -> None:
        self._building.end_waits()
        super().make_whole()

    def remote_jobs(self, name: str) -> RemoteJobs:
        return self.gateways[name].engine.remote_sites.jobs

    def say(self, by: str, to: str, *bodies: ImagesTold | BuildableTold | BuildTold) -> None:
        """One says this to a peer, after what it has to tell anyway, and that hears it."""
        for body in bodies:
            self.remote_jobs(by)._log.send(asking(to), body.model_dump(mode="json"), self.gateways[by].now_ms)
        self.gateways[by].do()
        self.exchange(by, to)

    def ask(self, by: str, at: str, wanted: BuildWanted) -> None:
        """One asks a peer for a build, for no job of its own, and hears what is answered at once."""
        self.remote_jobs(by)._log.send(at, wanted.model_dump(mode="json"), self.gateways[by].now_ms)
        self.gateways[by].do()
        for _ in range(2):
            self.exchange(at, by)

    def images(self, name: str = "a") -> list[tuple[str, str, str]]:
        """What somebody knows of images."""
        return [(row.name, row.site, row.state) for row in self.image_rows(name)]

    def image_rows(self, name: str = "a") -> list[ImageRow]:
        return self.stores[name].images()

    def check_that_nothing_is_left(self) -> None:
        for live in self.gateways.values():
            check_that_nothing_is_built(live)
