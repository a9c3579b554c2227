"""What a person sees of a gateway that they start: where it is, what to type next, that it has stopped."""

import asyncio
from dataclasses import dataclass
from typing import TextIO

import structlog

from leasehold import __version__
from leasehold.cli.demo_load import DemoLoad
from leasehold.cli.screen import answer_json, talk
from leasehold.cli.service_options import Wanted
from leasehold.client.local_gateway import data_folder
from leasehold.service.config import ServiceConfig
from leasehold.service.config_file import without_password
from leasehold.service.logs import is_for_people, set_up_logs
from leasehold.service.serving import DataFolder, Listening, loop_for, serve
from leasehold.service.sites import allowed_at, summary


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
            await DemoLoad(listening.url, listening.token_file.read_text(encoding="utf-8").strip()).run()

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
                "Ctrl-C stops it. Now, in another terminal:",
                f"  {self._next_command()}",
            )
        )

    def _next_command(self) -> str:
        """Say what to type next; it has to say where the gateway is only if nobody would look there."""
        command = "lease list --watch" if self.wanted.demo else "lease submit --type suspendable --duration 60"
        usual = data_folder().expanduser().absolute() == self.place.folder
        return f"{'' if usual else f'LEASEHOLD_DATA={self.place.folder} '}leasehold {command}"
