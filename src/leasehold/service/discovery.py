"""What jobs need from sites: which nodes and images there are, what commands wrote, images built to order.

Drivers are asked here, outside the engine: a driver may fail in any way or not answer, and the engine learns the
outcome by commands. Nothing here decides.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import structlog

from leasehold.gateway.planning import Prospect
from leasehold.jobs.offers import OfferAnswer, OfferingNodes, OfferTerms, load_of
from leasehold.matching.needs import Amounts
from leasehold.model.errors import LeaseholdError
from leasehold.service.commands import (
    Command,
    GuestFiles,
    GuestOutput,
    GuestPlan,
    JobImageBuilt,
    JobImageFailed,
    JobImagesSeen,
    JobNodesOffered,
    JobNodesSeen,
    JobOutput,
    JobSiteSilent,
    Submit,
)
from leasehold.service.config import JobsSpec, SiteSpec
from leasehold.service.drivers.facts import Buildable, BuildsImages, HasImages, HasNodes, HasOutput, NodeFacts, Output
from leasehold.service.drivers.protocol import Driver
from leasehold.service.drivers.staging import JobFiles, Staging, TakesFiles
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.nodes import NODE_BATCH
from leasehold.service.engine.tasks import BackgroundTasks, Build, Fetch, PlanFor, Read, Send
from leasehold.service.engine_thread import Clock
from leasehold.service.errors import NoSuchSite, Unavailable
from leasehold.service.files import FileStore, NoSuchFile
from leasehold.service.messages.about_plans import Planned
from leasehold.service.remote_queries import RemoteQueries
from leasehold.service.store.rows import OutputFile

ANSWER_WITHIN_S = 60.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

BUILDABLE_EVERY_MS = 600_000
"""How often a site is asked what could be built: that may mean to fetch the lists of a repository."""

NO_OUTPUT = Output("", is_whole=False)
OUTPUT_NOT_STORED = "the store cannot keep it"
IMAGE_NOT_STORED = "the image was built, but its description cannot be stored"
_NOT_LEFT = "the command left no file of this name"
NOT_CONFIGURED = "its site is not in the configuration any more"

Do = Callable[[Command], Awaitable[object]]
T = TypeVar("T")
E = TypeVar("E", Fetch, Build, Read, Send)
AskPlan = Callable[[Submit, int], Awaitable[tuple[Prospect, Planned | None]]]
"""Says what would become of a request here, and what whoever would decide instead says within so many milliseconds.

Raises LeaseholdError.
"""

KeepFile = Callable[[str, Path], Awaitable[OutputFile]]
"""Keeps a file of this name that a command has left, or says why not; raises LeaseholdError, OSError."""

SendFile = Callable[[JobFiles, str, Path], Awaitable[OutputFile]]
"""Sends a file of this name that a command has left to the gateway of its lease."""

_log = structlog.get_logger("leasehold.discovery")


def job_setup(spec: JobsSpec, drivers: Mapping[str, Driver], outputs_mib: int) -> JobSetup:
    """Say how jobs are served with these machines; so much is kept of the outputs of a consumer."""
    with_nodes = frozenset(site for site, driver in drivers.items() if isinstance(driver, HasNodes))
    with_images = frozenset(site for site, driver in drivers.items() if isinstance(driver, HasImages))
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


@dataclass(frozen=True, slots=True)
class JobFilePaths:
    """Where the files of jobs go.

    ``store``     takes what jobs of this gateway leave behind
    ``send``      sends what those of another one leave behind
    ``stagings``  bring inputs to sites, and know how fast that is
    """

    store: FileStore
    send: SendFile
    stagings: Mapping[str, Staging] = field(default_factory=dict)


class NodeDiscovery:
    """Looks at all sites until closed, and carries out what the engine asks for on behalf of jobs."""

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        do: Do,
        clock: Clock,
        spec: JobsSpec,
        sites: Iterable[SiteSpec] = (),
        *,
        files: JobFilePaths | None = None,
        plan: AskPlan,
    ) -> None:
        self._plan = plan
        self.queries = RemoteQueries(do, clock)
        self._files = files
        self._clock = clock
        self._spec = spec
        self._sites = {site: SiteDiscovery(site, driver, do, clock, spec, files) for site, driver in drivers.items()}
        self._offers = [
            SiteOffers(site.name, drivers[site.name], do, clock, site.offer_every_ms, site.offers(spec.offers_last_ms))
            for site in sites
            if site.offer_every_ms and isinstance(drivers[site.name], HasNodes)
        ]
        self._do = do
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[Fetch | Build | Read | Send] = set()

    def begin(self) -> None:
        """Look at all sites from now on."""
        for site in self._sites.values():
            self._start(site.run())
        for offers in self._offers:
            self._start(offers.run())

    def send(self, tasks: BackgroundTasks) -> None:
        """Do what the engine wants done; what is under way when the service stops is asked for again.

        An engine that has read its store again asks again for what is under way: that is done once.
        """
        for fetch in tasks.fetches:
            self._start_once(fetch, self._fetch)
        for build in tasks.builds:
            self._start_once(build, self._build)
        for site in tasks.looks & self._sites.keys():
            self._sites[site].look_soon()
        for read in tasks.reads:
            self._start_once(read, self._read)
        for send in tasks.sends:
            self._start_once(send, self._send)
        for asked in tasks.plans:
            self._start(self._plan_for(asked))
        self.queries.take(tasks.heard)

    async def close(self) -> None:
        """Stop whatever is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _fetch(self, fetch: Fetch) -> None:
        if fetch.site in self._sites:
            await self._sites[fetch.site].fetch(fetch)
            return
        remote = SiteDiscovery(fetch.site, self.queries, self._do, self._clock, self._spec, self._files)
        try:
            await remote.fetch(fetch)
        except NoSuchSite:
            lost = JobOutput(fetch.lease_id, NO_OUTPUT, NOT_CONFIGURED)
            await report_until_accepted(self._do, lost, lost)
        finally:
            self.queries.done(fetch.lease_id)

    async def _read(self, read: Read) -> None:
        """Read it at a site of one's own, or ask where the lease has gone on to."""
        remote = SiteDiscovery(read.site, self.queries, self._do, self._clock, self._spec)
        await self._sites.get(read.site, remote).read(read.lease_id)

    async def _send(self, send: Send) -> None:
        """Send it from a site of one's own, or ask where the lease has gone on to."""
        remote = SiteDiscovery(send.site, self.queries, self._do, self._clock, self._spec)
        await self._sites.get(send.site, remote).send(send)

    async def _plan_for(self, asked: PlanFor) -> None:
        """Say what would become of a request, once; others are asked for less time than whoever asks waits."""
        try:
            prospect, beyond = await self._plan(asked.submit, asked.within_ms * 3 // 4)
        except LeaseholdError as error:
            answer = GuestPlan(asked.number, asked.gateway, None, problem=str(error))
        else:
            answer = GuestPlan(asked.number, asked.gateway, prospect, beyond)
        with suppress(LeaseholdError):
            await self._do(answer)

    async def _build(self, build: Build) -> None:
        if build.site in self._sites:
            await self._sites[build.site].build(build)
        else:
            failed = JobImageFailed(build.key, build.site, NOT_CONFIGURED)
            await report_until_accepted(self._do, failed, failed)

    def _start_once(self, task: E, do: Callable[[E], Coroutine[Any, Any, None]]) -> None:
        if task not in self._under_way:
            self._under_way.add(task)
            self._start(do(task), lambda: self._under_way.discard(task))

    def _start(self, work: Coroutine[Any, Any, None], is_done: Callable[[], None] = lambda: None) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: is_done())


class SiteDiscovery:
    """Asks the driver of one site; a site that does not answer for long enough counts as out of reach.

    Of a site with a manager of its own only outputs are asked for.
    """

    def __init__(
        self,
        site: str,
        driver: Driver | RemoteQueries,
        do: Do,
        clock: Clock,
        spec: JobsSpec,
        files: JobFilePaths | None = None,
    ) -> None:
        self._site = site
        self._files = None if files is None else files.store
        self._send_file = None if files is None else files.send
        self._staging = None if files is None else files.stagings.get(site)
        self._driver = driver
        self._takes_files = isinstance(driver, TakesFiles)
        self._do = do
        self._clock = clock
        self._spec = spec
        self._soon = asyncio.Event()
        self._answered_ms = clock()
        self._is_silent = False
        self._buildable: Buildable | None = None
        self._buildable_asked_ms: int | None = None
        self._one_build_at_a_time = asyncio.Lock()

    # Nodes and images

    def look_soon(self) -> None:
        """What is known of the site has proved wrong."""
        self._soon.set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(min(PAUSE_S, self._spec.look_every_ms / 1000))
            try:
                async with asyncio.timeout(self._spec.look_every_ms / 1000):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()

    async def look(self) -> None:
        """Look once."""
        if isinstance(self._driver, HasNodes):
            asked_ms = self._clock()
            try:
                nodes = await _answer(self._driver.nodes())
            except _NoAnswer as error:
                await self._note_silence(str(error))
                return
            self._answered_ms, self._is_silent = self._clock(), False
            await self._report_nodes(tuple(map(self._as_measured, nodes)), asked_ms)
        if isinstance(self._driver, HasImages):
            await self._look_at_images(self._driver)

    def _as_measured(self, node: NodeFacts) -> NodeFacts:
        """Say how fast inputs get to a node: the way there is as fast as its slowest part, where that was measured."""
        node = _as_served(node, self._takes_files)
        measured = self._staging.rate.bytes_per_s if self._staging else 0
        if not measured or 0 < node.bytes_per_s <= measured:
            return node
        return replace(node, bytes_per_s=measured)

    async def _report_nodes(self, nodes: tuple[NodeFacts, ...], asked_ms: int) -> None:
        """Report very many nodes a part at a time: requests come in between."""
        if len(nodes) <= NODE_BATCH:
            await self._report(JobNodesSeen(self._site, nodes, asked_ms))
            return
        names = frozenset(node.name for node in nodes)
        for first in range(0, len(nodes), NODE_BATCH):
            part = nodes[first : first + NODE_BATCH]
            if not await self._report(JobNodesSeen(self._site, part, asked_ms, names)):
                return  # all of them are reported again at the next look

    async def _note_silence(self, problem: str) -> None:
        silent_ms = self._clock() - self._answered_ms
        if not self._is_silent and silent_ms >= self._spec.silent_after_ms:
            why = f"no answer for {silent_ms / 1000:.0f} s: {problem}"
            self._is_silent = await self._report(JobSiteSilent(self._site, why))

    async def _look_at_images(self, driver: HasImages) -> None:
        try:
            images = await _answer(driver.images())
        except _NoAnswer:
            return
        now_ms = self._clock()
        is_due = self._buildable_asked_ms is None or now_ms - self._buildable_asked_ms >= BUILDABLE_EVERY_MS
        if is_due and isinstance(driver, BuildsImages):
            self._buildable_asked_ms = now_ms
            try:
                self._buildable = await _answer(driver.buildable())
            except _NoAnswer:
                self._buildable = None
        await self._report(JobImagesSeen(self._site, tuple(images), self._buildable))

    async def _report(self, command: Command) -> bool:
        """Report to the engine once; whether it was accepted. What was not may be reported again."""
        try:
            await self._do(command)
        except Unavailable:
            return False
        except Exception:  # noqa: BLE001 - logged; the other reports continue
            _log.exception("the engine did not accept a report", site=self._site)
            return False
        return True

    # What commands wrote

    async def fetch(self, fetch: Fetch) -> None:
        """Fetch what the command of a lease wrote, and the files that it left, before its end counts.

        It is tried again with growing pauses for as long as the configuration says, from when something of it arrived
        last; then the job is over with an empty output, marked as not whole. The machines themselves may be gone by
        then: drivers keep what commands wrote for some time after a lease is over (`HasOutput`).
        """
        until_ms, pause_s = self._clock() + self._spec.output_for_ms, PAUSE_S
        while True:
            try:
                output, problem = await self._output(fetch.lease_id), ""
                files = await self._collected(fetch)
                break
            except _NoAnswer as error:
                output, problem = NO_OUTPUT, str(error)
                files = tuple(OutputFile(name, problem=f"it could not be fetched: {error}") for name in fetch.outputs)
            if self._clock() >= max(until_ms, self._arrived_ms(fetch.lease_id) + self._spec.output_for_ms):
                break
            await asyncio.sleep(pause_s)
            pause_s = _longer(pause_s)
        lost = JobOutput(fetch.lease_id, NO_OUTPUT, OUTPUT_NOT_STORED)
        await report_until_accepted(self._do, JobOutput(fetch.lease_id, output, problem, files), lost)

    async def read(self, lease_id: int) -> None:
        """Read what the command of a lease has written so far, once: the gateway that wants it asks again."""
        try:
            output, problem = await self._output(lease_id), ""
        except _NoAnswer as error:
            output, problem = NO_OUTPUT, str(error)
        await self._report(GuestOutput(lease_id, output, problem))

    async def send(self, send: Send) -> None:
        """Send what the command of a lease has left, once: the gateway that wants it asks again, and that continues.

        Where the lease has gone on, whoever has it sends it through here.
        """
        try:
            if isinstance(self._driver, RemoteQueries):
                files = await _answer(self._driver.files(send.lease_id))
            elif self._send_file is None:
                files = self._gives_none(send.files.outputs)
            else:
                files = await self._left(send.lease_id, send.files.outputs, partial(self._send_file, send.files))
            problem = ""
        except (_NoAnswer, LeaseholdError) as error:
            files, problem = (), str(error)
        await self._report(GuestFiles(send.lease_id, files, problem))

    async def _left(self, lease_id: int, names: Sequence[str], keep: KeepFile) -> tuple[OutputFile, ...]:
        """Keep the files that a command has left; raises _NoAnswer, and what ``keep`` raises but for OSError."""
        if not names or not isinstance(self._driver, TakesFiles):
            return self._gives_none(names)
        left, kept = await _answer(self._driver.output_files(lease_id)), list[OutputFile]()
        for name in names:
            path = left.get(name)
            if not isinstance(path, Path):
                kept.append(OutputFile(name, problem=path or _NOT_LEFT))
                continue
            try:
                kept.append(await keep(name, path))
            except OSError as error:
                raise _NoAnswer(f"{name}: {error.strerror or error}") from error
        return tuple(kept)

    def _gives_none(self, wanted: Iterable[str]) -> tuple[OutputFile, ...]:
        return tuple(OutputFile(name, problem=f"site {self._site} gives no files back") for name in wanted)

    def _arrived_ms(self, lease_id: int) -> int:
        return self._driver.arrived_ms(lease_id) if isinstance(self._driver, RemoteQueries) else -1

    async def _collected(self, fetch: Fetch) -> tuple[OutputFile, ...]:
        """Store the files that a command has left; raises _NoAnswer."""
        if not fetch.outputs or self._files is None:
            return self._gives_none(fetch.outputs)
        if isinstance(self._driver, RemoteQueries):
            sent = {file.name: file for file in await _answer(self._driver.files(fetch.lease_id))}
            return tuple(self._checked(fetch.consumer, name, sent.get(name)) for name in fetch.outputs)
        return await self._left(fetch.lease_id, fetch.outputs, partial(self._stored, fetch.consumer))

    def _checked(self, consumer: str, name: str, sent: OutputFile | None) -> OutputFile:
        """Give what a site says of a file; what it says was sent has to be here, with the hash that it says."""
        assert self._files is not None
        if sent is None:
            return OutputFile(name, problem=f"site {self._site} says nothing of it")
        if sent.problem:
            return OutputFile(name, problem=sent.problem)
        try:
            self._files.content(consumer, sent.sha256)
        except NoSuchFile:
            return OutputFile(name, problem=f"site {self._site} says that it was sent, and it has not arrived")
        return OutputFile(name, sent.sha256, self._files.get(consumer, sent.sha256).size_bytes)

    async def _stored(self, consumer: str, name: str, path: Path) -> OutputFile:
        assert self._files is not None
        try:
            kept = await asyncio.to_thread(self._files.add, consumer, name, path, self._clock())
        except LeaseholdError as error:
            return OutputFile(name, problem=str(error))
        return OutputFile(name, kept.sha256, kept.size_bytes)

    async def _output(self, lease_id: int) -> Output:
        """Where a driver keeps no output apart, the console has to do, which is not the same."""
        if isinstance(self._driver, HasOutput):
            return await _answer(self._driver.output(lease_id))
        return Output(await _answer(self._driver.console(lease_id)), is_whole=False)

    # Images

    async def build(self, build: Build) -> None:
        """Build an image and report the outcome; one at a time, as each takes a processor and a network for minutes."""
        async with self._one_build_at_a_time:
            outcome = await self._build(build)
        await report_until_accepted(self._do, outcome, JobImageFailed(build.key, self._site, IMAGE_NOT_STORED))

    async def _build(self, build: Build) -> Command:
        if not isinstance(self._driver, BuildsImages):
            return JobImageFailed(build.key, self._site, f"{self._site} builds no images any more")
        try:
            image = await self._driver.build(build.packages)
        except LeaseholdError as error:
            return JobImageFailed(build.key, self._site, str(error))
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way; the others continue
            return JobImageFailed(build.key, self._site, f"{type(error).__name__}: {error}", again=True)
        return JobImageBuilt(build.key, self._site, image)


class SiteOffers:
    """The nodes of one site offer themselves when they are lightly loaded: the site says so, and is not asked.

    What becomes of an offer is the gateway's answer. One that did not arrive is made again; one that stands is not,
    until it has expired.
    """

    def __init__(self, site: str, driver: Driver, do: Do, clock: Clock, every_ms: int, terms: OfferTerms) -> None:
        self._site = site
        self._driver = driver
        self._do = do
        self._clock = clock
        self._every_s = every_ms / 1000
        self._terms = terms
        self._nodes = OfferingNodes(terms)
        self._takes_files = isinstance(driver, TakesFiles)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.look()

    async def look(self) -> None:
        """Look once at the own nodes, and make the offers that are due."""
        asked_ms = self._clock()
        try:
            found = await _answer(cast("HasNodes", self._driver).nodes())
        except _NoAnswer:
            return  # whoever asks for the nodes notices that too
        sound = {facts.name: facts for facts in found if not facts.problem}
        due = self._nodes.due({name: _load(facts) for name, facts in sound.items()}, asked_ms)
        for first in range(0, len(due), NODE_BATCH):
            part = tuple(_as_served(sound[name], self._takes_files) for name in due[first : first + NODE_BATCH])
            await self._offer(JobNodesOffered(self._site, part, asked_ms, asked_ms + self._terms.lasts_ms))

    async def _offer(self, offers: JobNodesOffered) -> None:
        try:
            answers = cast("Mapping[str, OfferAnswer]", await self._do(offers))
        except Exception as error:  # noqa: BLE001 - whatever it was, the offers are made again
            if not isinstance(error, Unavailable):
                _log.exception("the engine did not accept offers", site=self._site)
            answers = {}
        for facts in offers.nodes:
            if facts.name not in answers:
                self._nodes.unheard(facts.name)
        counted = Counter(answers.values())
        _log.debug("nodes offered themselves", site=self._site, **{one.value: counted[one] for one in OfferAnswer})


def _as_served(facts: NodeFacts, takes_files: bool) -> NodeFacts:  # noqa: FBT001 - it is what is said
    """Say whether a node takes files: its driver does for all of its nodes, or for none."""
    return facts if facts.takes_files is takes_files else replace(facts, takes_files=takes_files)


def _load(facts: NodeFacts) -> int:
    total = Amounts(facts.cores, facts.memory_mib, facts.disk_mib)
    return load_of(total, Amounts(facts.free_cores, facts.free_memory_mib, facts.free_disk_mib))


class _NoAnswer(Exception):
    """A driver gave no answer; says why."""


async def _answer(call: Awaitable[T]) -> T:
    """Wait for a driver's answer, but not for ever; raises _NoAnswer."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return await call
    except TimeoutError:
        raise _NoAnswer(f"no answer within {ANSWER_WITHIN_S:g} s") from None
    except NoSuchSite:
        raise
    except Exception as error:  # noqa: BLE001 - a driver may fail in any way, and the others go on
        raise _NoAnswer(f"{type(error).__name__}: {error}") from None


async def report_until_accepted(do: Do, command: Command, otherwise: Command) -> None:
    """Report to the engine, again while it is not available; ``otherwise`` where it can never accept the command.

    If it cannot accept that either, nothing more is reported: it would fail in the same way for ever.
    """
    pause_s = PAUSE_S
    for one in (command, otherwise):
        while True:
            try:
                await do(one)
            except Unavailable:
                await asyncio.sleep(pause_s)
                pause_s = _longer(pause_s)
            except Exception:  # noqa: BLE001 - logged
                _log.exception("the engine did not accept a report", command=type(one).__name__)
                break
            else:
                return


def _longer(pause_s: float) -> float:
    """Wait twice as long the next time, but not for ever."""
    return min(2 * pause_s, LONGEST_PAUSE_S)
