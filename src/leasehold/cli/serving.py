"""Gateways and site managers in the foreground: what they print, and the workload of the demonstration."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TextIO

import structlog
from uvicorn.loops.auto import auto_loop_factory

from leasehold import __version__
from leasehold.cli.options import Wanted
from leasehold.cli.screen import answer_json, talk
from leasehold.client import AsyncClient, LeaseSpec, Role, TokenSpec
from leasehold.client.access import data_folder
from leasehold.client.errors import ProblemError
from leasehold.configuration.tables import SharingSpec
from leasehold.model.errors import InvalidField
from leasehold.service.auth.bootstrap_token import read_token_file
from leasehold.service.config import ServiceConfig, SiteSpec, default_sharing, default_terms
from leasehold.service.config_file import without_password
from leasehold.service.logs import is_for_people, set_up_logs
from leasehold.service.messages.uplink import Uplink, check_gateway
from leasehold.service.serving import DataFolder, Listening, loop_for, serve
from leasehold.service.sites import allowed_at, summary
from leasehold.sharing.enforcement import MEMBERS
from leasehold.simulation.scenario.parse import load_scenario, packaged_path
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.workload.job import WorkloadJob


def be_a_gateway(wanted: Wanted, config: ServiceConfig, stream: TextIO, *, json: bool) -> None:
    """Serve until told to stop; logs and talk go to ``stream``, which is standard error."""
    set_up_logs(config.log, stream)
    place = wanted.place(config)
    herald = Herald(config, place, wanted, for_people=is_for_people(config.log, stream), json=json)
    with asyncio.Runner(loop_factory=loop_for(config.service)) as runner:
        runner.run(serve(config, place, herald.accompany, wanted.configuration))
    herald.say("Stopped; machines go on, and so will the gateway when it is started again.", "stopped")


@dataclass(frozen=True, slots=True)
class Herald:
    """Says where the gateway is: to people in a few lines, in a log as one."""

    config: ServiceConfig
    place: DataFolder
    wanted: Wanted
    for_people: bool
    json: bool

    async def accompany(self, listening: Listening) -> None:
        """Say that it listens, and let the demonstration run beside it if it is one."""
        facts = self._facts(listening)
        if self.json:
            answer_json(facts)
        self.say(self._greeting(listening), "listening", **facts)
        if self.wanted.demo and listening.token_file is not None:
            await DemoLoad(listening.url, _token(listening.token_file)).run()

    def say(self, text: str, event: str, **facts: object) -> None:
        """Say something in the way that fits."""
        if self.for_people:
            talk(text)
        else:
            structlog.get_logger("leasehold.serving").info(event, **facts)

    def _facts(self, listening: Listening) -> dict[str, object]:
        return {
            "version": __version__,
            "url": listening.url,
            "dashboard": self._dashboard(listening),
            "data": str(self.place.folder),
            "store": without_password(self.place.store_url(self.config.service)),
            "token_file": None if listening.token_file is None else str(listening.token_file),
            "sites": [site.name for site in self.config.clusters],
            "allowed": {site.name: allowed_at(site) for site in self.config.clusters},
            "without_agreement": self.config.sharing.without_agreement,
        }

    def _greeting(self, listening: Listening) -> str:
        sites = ", ".join(f"{site.name} ({site.slots} VMs, {site.driver})" for site in self.config.clusters)
        token = listening.token_file or "none here; LEASEHOLD_TOKEN may hold one"
        return "\n".join(
            (
                f"Leasehold {__version__} serves {sites}.",
                f"  address  {listening.url}",
                f"  store    {without_password(self.place.store_url(self.config.service))}",
                f"  token    {token}",
                "Owners lend to:",
                *(f"  {line}" for line in summary(self.config)),
                *([f"In a browser: {self._dashboard(listening)}"] if self.wanted.demo else []),
                "Ctrl-C stops it. Now, in another terminal:",
                f"  {self._next_command()}",
            )
        )

    def _dashboard(self, listening: Listening) -> str:
        """Return the address for a browser; that of the demonstration signs it in as its administrator."""
        if not self.wanted.demo or listening.token_file is None:
            return listening.url
        return listening.sign_in(_token(listening.token_file))

    def _next_command(self) -> str:
        """Say what to type next; it names the address of the gateway only if that is not the default."""
        command = "lease list --watch" if self.wanted.demo else "lease submit --type suspendable --duration 60"
        usual = data_folder().expanduser().absolute() == self.place.folder
        return f"{'' if usual else f'LEASEHOLD_DATA={self.place.folder} '}leasehold {command}"


def _token(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


# The manager of one site: serves its own users whatever happens elsewhere, and guests of a gateway


TOKEN = "LEASEHOLD_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class Line:
    """How the site reaches its gateway, and under which name it is known there."""

    gateway_url: str
    token: str
    site: str


def site_configuration(wanted: Wanted, name: str, slots: int | None) -> ServiceConfig:
    """Give the configuration of the one site; raises InvalidField where there are more, or none is named."""
    if wanted.file() is None:
        if not name or slots is None:
            raise InvalidField("--name and --slots", None, "both, or a configuration with one [[cluster]]")
        service = wanted.configuration().service
        sharing = _as_the_gateway_agrees(default_sharing())
        return ServiceConfig((SiteSpec(name, slots, default_terms()),), service, sharing=sharing)
    config = wanted.configuration()
    chosen = [site for site in config.clusters if name in ("", site.name)]
    if len(chosen) != 1:
        raise InvalidField("--name", name, f"one of {', '.join(site.name for site in config.clusters)}")
    site = chosen[0] if slots is None else replace(chosen[0], slots=slots)
    return replace(config, clusters=(site,), sharing=_as_the_gateway_agrees(config.sharing))


def _as_the_gateway_agrees(sharing: SharingSpec) -> SharingSpec:
    """Leave agreements to the gateway, which keeps them, unless the owner says otherwise."""
    if sharing.without_agreement != default_sharing().without_agreement:
        return sharing
    return replace(sharing, without_agreement=MEMBERS)


def line_to(gateway_url: str, token_file: Path | None, config: ServiceConfig) -> Line:
    """Find out how to reach the gateway; raises InvalidField without a token, or over an open network."""
    check_gateway(gateway_url)
    token = os.environ.get(TOKEN, "") if token_file is None else read_token_file(token_file)
    if not token:
        raise InvalidField("--token-file", None, f"a file with a token of role peer, or {TOKEN}")
    return Line(gateway_url, token, config.clusters[0].name)


def manage(line: Line, wanted: Wanted, config: ServiceConfig, stream: TextIO) -> None:
    """Serve until told to stop; logs and talk go to ``stream``."""
    set_up_logs(config.log, stream)
    for_people = is_for_people(config.log, stream)

    async def keep_in_touch(listening: Listening) -> None:
        if for_people:
            talk(_site_greeting(line, config.clusters[0], listening))
        else:
            fields = {"url": listening.url, "site": line.site, "allowed": allowed_at(config.clusters[0])}
            structlog.get_logger("leasehold.serving").info("listening", **fields)
        home = listening.federation
        await Uplink(
            home.messages, home.gateway_files, home.sites.own_status, line.gateway_url, line.token, site=line.site
        ).run()

    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(serve(config, wanted.place(config), keep_in_touch))


def _site_greeting(line: Line, site: SiteSpec, listening: Listening) -> str:
    return "\n".join(
        (
            f"Leasehold {__version__} manages {site.name} ({site.slots} VMs, {site.driver}).",
            f"  its own users  {listening.url}",
            f"  gateway        {line.gateway_url}",
            f"  lends to       {allowed_at(site)}, as its gateway agrees",
            "Ctrl-C stops it; machines go on.",
        )
    )


# The workload of `leasehold serve --demo`
#
# The requests are those of the scenario ``demo`` (JPDC 2012, section 5.2), sped up, so that within a minute guests run,
# are preempted, wait suspended and resume. Each is a real request over HTTP, with a token of the institution
# that makes it.


PACE = 10
"""A minute of the demonstration is so many of the scenario: gaps and run times are divided by it."""
HEAD_START_S = 300
"""So many seconds of the scenario are over when it begins, and their requests come at once."""
LEAST_GAP_S = 0.05
"""No more often than this is anything asked for, whatever the scenario says."""
MOST_WAITING = 100
"""Guests that wait at a site; beyond that no more are sent, so that the demonstration can run for days."""

OWNERS = {"C64": "physics", "C128": "climate", "C256": "genomics"}
"""Whose clusters they are: these make the local requests."""
GUESTS = ("astro-pipeline", "materials", "seismology")
"""These have none, and take turns in asking for room at all of them."""
_NOTE = "made for the demonstration"


@dataclass(frozen=True, slots=True)
class DemoLoad:
    """Makes requests of a gateway for as long as it is let; ``admin_token`` gives it tokens to do so."""

    url: str
    admin_token: str

    async def run(self) -> None:
        """Take the institutions in, and let them work until cancelled."""
        async with AsyncExitStack() as clients:
            admin = await clients.enter_async_context(AsyncClient(self.url, self.admin_token))
            tokens = await self._tokens(admin)
            asking = {
                name: await clients.enter_async_context(AsyncClient(self.url, token)) for name, token in tokens.items()
            }
            await _work(admin, asking)

    async def _tokens(self, admin: AsyncClient) -> dict[str, str]:
        """Give every institution a token; those of an earlier demonstration count no more."""
        for token in await admin.tokens.list():
            if token.note == _NOTE and token.revoked_at is None:
                await admin.tokens.revoke(token.id)
        homes = {owner: [site] for site, owner in OWNERS.items()}
        return {
            name: (
                await admin.tokens.create(
                    TokenSpec(consumer=name, roles=[Role.MEMBER], sites=homes.get(name, []), note=_NOTE)
                )
            ).token
            for name in (*OWNERS.values(), *GUESTS)
        }


async def _work(admin: AsyncClient, asking: dict[str, AsyncClient]) -> None:
    """Send each request when its time has come; one that is refused is dropped."""
    loop = asyncio.get_running_loop()
    began_s, crowded = loop.time(), Crowd(admin)
    for at_s, consumer, job in demo_requests():
        await asyncio.sleep(max(LEAST_GAP_S, began_s + at_s - loop.time()))
        if job.site is None and await crowded.now():
            continue
        try:
            await _submit(asking[consumer], job)
        except ProblemError as error:
            structlog.get_logger("leasehold.demo").warning("turned away", consumer=consumer, why=str(error))


async def _submit(client: AsyncClient, job: WorkloadJob) -> None:
    """Ask for what a job of the scenario needs, and let it run for as long as it really does."""
    command = ["sleep", f"{job.actual_ms / PACE / 1000:.3f}"]
    duration_s = max(1, round(job.requested_ms / PACE)) / 1000
    kind = {"type": job.lease_type.label} if job.site is None else {"local": True, "site": job.site}
    await client.leases.submit(LeaseSpec.of(vms=job.vms, duration_s=duration_s, command=command, **kind))


def demo_requests(seed: int = 1) -> Iterator[tuple[float, str, WorkloadJob]]:
    """Give the scenario's jobs, over and over: when to ask (in seconds), who asks, and for what."""
    scenario = load_scenario(packaged_path("demo"), {"seed": seed})
    assert scenario.horizon_ms is not None
    guests, begins_ms = cycle(GUESTS), -HEAD_START_S * 1000
    while True:
        for job in open_streams(scenario, []):
            consumer = next(guests) if job.site is None else OWNERS[job.site]
            yield max(0, begins_ms + job.submit_ms) / PACE / 1000, consumer, job
        begins_ms += scenario.horizon_ms


class Crowd:
    """Whether enough guests wait already; asked of the gateway now and then."""

    def __init__(self, admin: AsyncClient) -> None:
        self._admin = admin
        self._asked_s = float("-inf")
        self._is_there = False

    async def now(self) -> bool:
        """Say so, by what was the case a few seconds ago."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._asked_s > _LOOK_EVERY_S:
            self._asked_s = now_s
            waiting = [site.waiting.guests for site in await self._admin.sites.list()]
            self._is_there = max(waiting) > MOST_WAITING
        return self._is_there


_LOOK_EVERY_S = 5.0
