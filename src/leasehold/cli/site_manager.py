"""Be the manager of one site: serve its own users whatever happens elsewhere, and guests of a gateway."""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import structlog
from uvicorn.loops.auto import auto_loop_factory

from leasehold import __version__
from leasehold.cli.screen import talk
from leasehold.cli.service_options import Wanted
from leasehold.configuration.tables import SharingSpec
from leasehold.model.errors import InvalidField
from leasehold.service.auth.bootstrap_token import read_token_file
from leasehold.service.config import ServiceConfig, SiteSpec, default_sharing, default_terms
from leasehold.service.logs import is_for_people, set_up_logs
from leasehold.service.messages.uplink import Uplink, check_gateway
from leasehold.service.serving import Listening, serve
from leasehold.service.sites import allowed_at
from leasehold.sharing.enforcement import MEMBERS

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
            talk(_greeting(line, config.clusters[0], listening))
        else:
            fields = {"url": listening.url, "site": line.site, "allowed": allowed_at(config.clusters[0])}
            structlog.get_logger("leasehold.serving").info("listening", **fields)
        messages, status = listening.federation.messages, listening.federation.sites.own_status
        await Uplink(messages, status, line.gateway_url, line.token, site=line.site).run()

    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(serve(config, wanted.place(config), keep_in_touch))


def _greeting(line: Line, site: SiteSpec, listening: Listening) -> str:
    return "\n".join(
        (
            f"Leasehold {__version__} manages {site.name} ({site.slots} VMs, {site.driver}).",
            f"  its own users  {listening.url}",
            f"  gateway        {line.gateway_url}",
            f"  lends to       {allowed_at(site)}, as its gateway agrees",
            "Ctrl-C stops it; machines go on.",
        )
    )
