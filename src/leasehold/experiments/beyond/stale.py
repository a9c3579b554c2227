"""What a gateway knows where sites report at intervals: their state of some time ago, and its own doings."""

from dataclasses import dataclass, replace
from typing import Any, cast

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.knowledge import Knowledge
from leasehold.routing.facts import SiteLive


@dataclass(frozen=True, slots=True)
class _Report:
    """How a site was in some turn, and the VMs that this gateway had in flight there at that moment."""

    turn: int
    live: SiteLive
    in_flight_vms: int


class StaleKnowledge:
    """Knowledge in which the state of a site is read every so often; a plan is not shown.

    What the gateway has sent there since, or of it has ended there, it knows by itself.
    """

    def __init__(self, knowledge: Knowledge, every_ms: int) -> None:
        """Stand in front of what is really known."""
        self._knowledge = knowledge
        self._every_ms = every_ms
        self._reports: dict[str, _Report] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else is known
        """Pass everything else on."""
        return getattr(self._knowledge, name)

    def live(self, site_name: str, now_ms: int) -> SiteLive:
        """Give how the site was when it last reported, but for what the gateway did there since."""
        in_flight_vms = self._knowledge.history(site_name).in_flight_vms
        turn = now_ms // self._every_ms
        report = self._reports.get(site_name)
        if report is None or report.turn != turn:
            live = replace(self._knowledge.live(site_name, now_ms), earliest_start_ms=None)
            report = self._reports[site_name] = _Report(turn, live, in_flight_vms)
        since_vms = in_flight_vms - report.in_flight_vms
        return replace(report.live, free_vms=report.live.free_vms - since_vms)


def make_stale(gateway: Gateway, every_ms: int) -> None:
    """Let the routing policy of a gateway see its sites as they were when they last reported."""
    seen = cast("Knowledge", StaleKnowledge(gateway.knowledge, every_ms))
    gateway.knowledge = gateway.desk.knowledge = seen
