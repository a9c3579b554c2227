"""Events at times that a scenario says: sites are drained and resumed, and machines stop and begin to answer."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from leasehold.forecasting.world import Handler
from leasehold.model.event import Event, LendingChanged, SiteAnswered, SiteFellSilent
from leasehold.model.request import NEVER_MS, Request
from leasehold.simulation.scenario.events import TimelineEntry
from leasehold.simulation.workload.job import WorkloadJob

_ABOUT_SITES: Mapping[str, Callable[[str], Event]] = {
    "drain": lambda site: LendingChanged(site, lends=False),
    "resume": lambda site: LendingChanged(site, lends=True),
    "unreachable": SiteFellSilent,
    "reachable": SiteAnswered,
}
_OPPOSITE = {"drain": "resume", "unreachable": "reachable"}
"""What ends a kind of event that lasts."""


class SiteTimeline:
    """Sites that are drained or unreachable for a time; ``counts`` says how often that happened."""

    handlers: Mapping[type, Handler] = {}

    def __init__(self, entries: Iterable[TimelineEntry]) -> None:
        """Take the entries about whole sites; others are left out."""
        self.counts = Counter[str]()
        due: list[tuple[int, str, str]] = []
        for entry in entries:
            if entry.kind in _ABOUT_SITES:
                due.append((entry.at_ms, entry.kind, entry.site))
                if entry.lasts_ms is not None:
                    due.append((entry.at_ms + entry.lasts_ms, _OPPOSITE[entry.kind], entry.site))
        self._due = sorted(due, key=lambda one: one[0], reverse=True)

    @property
    def is_over(self) -> bool:
        """Whether none is to come."""
        return not self._due

    is_busy = False

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Nothing here is about a single request."""

    def next_ms(self, *, idle: bool) -> int:  # noqa: ARG002 - there is an end to them
        """When the next of them is due."""
        return self._due[-1][0] if self._due else NEVER_MS

    def events(self, now_ms: int) -> list[Event]:
        """Take those of this instant."""
        found: list[Event] = []
        while self._due and self._due[-1][0] <= now_ms:
            _, kind, site = self._due.pop()
            self.counts[kind] += 1
            found.append(_ABOUT_SITES[kind](site))
        return found
