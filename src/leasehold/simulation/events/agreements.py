"""Agreements that are signed, changed and revoked while a scenario runs, and penalties that are lifted."""

from collections import Counter
from collections.abc import Iterable, Mapping

from leasehold.forecasting.world import Handler
from leasehold.gateway.quotas import holding_of
from leasehold.model.agreement import Agreement
from leasehold.model.effect import Used
from leasehold.model.event import Agreed, Event, PenaltyLifted
from leasehold.model.request import NEVER_MS, Request
from leasehold.model.use import Segment
from leasehold.sharing.limits import reach_ms
from leasehold.simulation.scenario.events import AGREEMENT_KINDS, TimelineEntry, agreements_after
from leasehold.simulation.workload.job import WorkloadJob


class AgreementTimeline:
    """The agreements that are signed, as the timeline changes them; ``counts`` says how often it does.

    What was used is kept as far back as any of them looks, for agreements that begin to look at it later.
    """

    def __init__(self, agreements: Iterable[Agreement], entries: Iterable[TimelineEntry]) -> None:
        """Begin with the agreements of the scenario."""
        self.counts = Counter[str]()
        self._agreements = tuple(agreements)
        self._due = sorted((one for one in entries if one.kind in AGREEMENT_KINDS), key=_at_ms, reverse=True)
        to_come = [one.terms for one in self._due if one.terms is not None]
        self._reach_ms = max((reach_ms(one.limit) for one in (*self._agreements, *to_come)), default=0)
        self._history: list[Segment] = []
        self.handlers: Mapping[type, Handler] = {Used: self._used} if self._reach_ms else {}

    is_busy = False

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Agreements change whatever is asked for."""

    def next_ms(self, *, idle: bool) -> int:  # noqa: ARG002 - there is an end to them
        """When the next agreement changes."""
        return self._due[-1].at_ms if self._due else NEVER_MS

    def events(self, now_ms: int) -> list[Event]:
        """Say what is agreed from now on."""
        found: list[Event] = []
        while self._due and self._due[-1].at_ms <= now_ms:
            entry = self._due.pop()
            self.counts[entry.kind] += 1
            if entry.kind == "lift-penalty":
                found.append(PenaltyLifted(entry.agreement, entry.consumer))
                continue
            self._agreements, revoked = agreements_after(self._agreements, entry)
            self._history = [one for one in self._history if one.end_ms > now_ms - self._reach_ms]
            found.append(Agreed(self._agreements, tuple(self._history), revoked))
        return found

    def _used(self, effect: Used, now_ms: int) -> None:  # noqa: ARG002 - one signature for all handlers
        self._history.append(Segment(holding_of(effect.lease, effect.site), effect.begin_ms, effect.end_ms))


def _at_ms(entry: TimelineEntry) -> int:
    return entry.at_ms
