"""The scouts of all sites: each looks at its own, fetches from it, and builds there."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from leasehold.service.commands import JobImageFailed, JobOutput
from leasehold.service.config_jobs import JobsSpec
from leasehold.service.driver import Clock
from leasehold.service.enactors.facts import BuildsImages, HasNodes
from leasehold.service.enactors.protocol import Enactor
from leasehold.service.engine.errands import Errands, Fetch
from leasehold.service.engine.imagebook import Build
from leasehold.service.engine.job_setup import JobSetup
from leasehold.service.finding.asking import Asking, Do
from leasehold.service.finding.building import Building
from leasehold.service.finding.fetching import NOTHING, Fetching
from leasehold.service.finding.looking import Looking

NOT_CONFIGURED = "its site is not in the configuration any more"


def job_setup(spec: JobsSpec, enactors: Mapping[str, Enactor]) -> JobSetup:
    """Say how jobs are served with these machines."""
    with_nodes = frozenset(site for site, enactor in enactors.items() if isinstance(enactor, HasNodes))
    with_images = frozenset(site for site, enactor in enactors.items() if isinstance(enactor, BuildsImages))
    settings = spec.settings(with_nodes, images_awaited=bool(with_images))
    return JobSetup(settings, spec.network(), spec.margin, spec.output_kib, with_images)


class Scouts:
    """Does for jobs what has to be done outside the engine."""

    def __init__(self, enactors: Mapping[str, Enactor], do: Do, clock: Clock, spec: JobsSpec) -> None:
        told = (do, clock, spec)
        self._looking = {site: Looking(site, enactor, *told) for site, enactor in enactors.items()}
        self._fetching = {site: Fetching(site, enactor, *told) for site, enactor in enactors.items()}
        self._building = {site: Building(site, enactor, do) for site, enactor in enactors.items()}
        self._do = do
        self._under_way: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Look at all sites from now on."""
        for looking in self._looking.values():
            self._set_out(looking.run())

    def send(self, errands: Errands) -> None:
        """Do what the engine wants done; what is under way when the service stops is asked for again."""
        for fetch in errands.fetches:
            self._set_out(self._fetch(fetch))
        for build in errands.builds:
            self._set_out(self._build(build))
        for site in errands.looks & self._looking.keys():
            self._looking[site].look_soon()

    async def close(self) -> None:
        """Stop whatever is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _fetch(self, fetch: Fetch) -> None:
        if fetch.site in self._fetching:
            await self._fetching[fetch.site].fetch(fetch.lease_id)
        else:
            lost = JobOutput(fetch.lease_id, NOTHING, NOT_CONFIGURED)
            await Asking(fetch.site, self._do).tell_until_heard(lost)

    async def _build(self, build: Build) -> None:
        if build.site in self._building:
            await self._building[build.site].build(build)
        else:
            failed = JobImageFailed(build.key, build.site, NOT_CONFIGURED)
            await Asking(build.site, self._do).tell_until_heard(failed)

    def _set_out(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(errand)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
