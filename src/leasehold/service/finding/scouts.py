"""The scouts of all sites: each looks at its own, fetches from it, and builds there."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from leasehold.service.commands import JobImageFailed, JobOutput
from leasehold.service.config import JobsSpec
from leasehold.service.drivers.facts import BuildsImages, HasNodes
from leasehold.service.drivers.protocol import Driver
from leasehold.service.engine.errands import Errands, Fetch
from leasehold.service.engine.imagebook import Build
from leasehold.service.engine.job_setup import JobSetup
from leasehold.service.engine_thread import Clock
from leasehold.service.finding.asking import Asking, Do
from leasehold.service.finding.building import Building
from leasehold.service.finding.fetching import NOTHING, Fetching
from leasehold.service.finding.looking import Looking

E = TypeVar("E", Fetch, Build)

NOT_CONFIGURED = "its site is not in the configuration any more"


def job_setup(spec: JobsSpec, drivers: Mapping[str, Driver], outputs_mib: int) -> JobSetup:
    """Say how jobs are served with these machines; so much is kept of the outputs of a consumer."""
    with_nodes = frozenset(site for site, driver in drivers.items() if isinstance(driver, HasNodes))
    with_images = frozenset(site for site, driver in drivers.items() if isinstance(driver, BuildsImages))
    settings = spec.settings(with_nodes, images_awaited=bool(with_images))
    return JobSetup(
        settings,
        spec.network(),
        margin=spec.margin,
        output_kib=spec.output_kib,
        outputs_mib=outputs_mib,
        image_sites=with_images,
        gone_after_ms=spec.gone_after_ms,
    )


class Scouts:
    """Does for jobs what has to be done outside the engine."""

    def __init__(self, drivers: Mapping[str, Driver], do: Do, clock: Clock, spec: JobsSpec) -> None:
        told = (do, clock, spec)
        self._looking = {site: Looking(site, driver, *told) for site, driver in drivers.items()}
        self._fetching = {site: Fetching(site, driver, *told) for site, driver in drivers.items()}
        self._building = {site: Building(site, driver, do) for site, driver in drivers.items()}
        self._do = do
        self._under_way: set[asyncio.Task[None]] = set()
        self._errands: set[Fetch | Build] = set()

    def begin(self) -> None:
        """Look at all sites from now on."""
        for looking in self._looking.values():
            self._set_out(looking.run())

    def send(self, errands: Errands) -> None:
        """Do what the engine wants done; what is under way when the service stops is asked for again.

        An engine that reads its store anew asks again for what is under way: that is done once.
        """
        for fetch in errands.fetches:
            self._set_out_once(fetch, self._fetch)
        for build in errands.builds:
            self._set_out_once(build, self._build)
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
            await Asking(fetch.site, self._do).tell_until_heard(lost, lost)

    async def _build(self, build: Build) -> None:
        if build.site in self._building:
            await self._building[build.site].build(build)
        else:
            failed = JobImageFailed(build.key, build.site, NOT_CONFIGURED)
            await Asking(build.site, self._do).tell_until_heard(failed, failed)

    def _set_out_once(self, errand: E, do: Callable[[E], Coroutine[Any, Any, None]]) -> None:
        if errand in self._errands:
            return
        self._errands.add(errand)
        self._set_out(do(errand), lambda: self._errands.discard(errand))

    def _set_out(self, errand: Coroutine[Any, Any, None], is_done: Callable[[], None] = lambda: None) -> None:
        task = asyncio.create_task(errand)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda _: is_done())
