"""What a gateway knows where sites report at intervals: all as it is, but their state of some time ago."""

from dataclasses import replace
from typing import Any, cast

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.knowledge import Knowledge
from leasehold.routing.facts import SiteLive


class StaleKnowledge:
    """Knowledge in which the state of a site is read every so often; a plan is not shown."""

    def __init__(self, knowledge: Knowledge, every_ms: int) -> None:
        """Stand in front of what is really known."""
        self._knowledge = knowledge
        self._every_ms = every_ms
        self._seen: dict[str, tuple[int, SiteLive]] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else is known
        """Pass everything else on."""
        return getattr(self._knowledge, name)

    def live(self, site_name: str, now_ms: int) -> SiteLive:
        """Give how the site was when it last reported."""
        turn = now_ms // self._every_ms
        seen = self._seen.get(site_name)
        if seen is None or seen[0] != turn:
            state = replace(self._knowledge.live(site_name, now_ms), earliest_start_ms=None)
            seen = self._seen[site_name] = (turn, state)
        return seen[1]


def make_stale(gateway: Gateway, every_ms: int) -> None:
    """Let the routing policy of a gateway see its sites as they were when they last reported."""
    seen = cast("Knowledge", StaleKnowledge(gateway.knowledge, every_ms))
    gateway.knowledge = gateway.desk.knowledge = seen
