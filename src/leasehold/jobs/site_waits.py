"""How long would the lease of a job wait at a place, by the plan of its site?

Nodes may be free while their site is not: it lends fewer VMs than its nodes have room for, or has promised the room to
leases that wait. Only the site's plan says that, and the scheduler is given a way to ask it.
"""

from collections import Counter
from collections.abc import Callable

from leasehold.jobs.job import Place, names_of, site_of
from leasehold.matching.needs import Job

PlannedWait = Callable[[Place, Job, int, int], int | None]
"""Asks the plan of a site: place, job, how many VMs more are ordered there and not in its plan yet, and the time in ms.

Gives the wait in ms, 0 where nothing is planned for that site; None where it is only known that it is not now.
"""

UNKNOWN_MS = 10**15
"""The wait at a site of which it is only known that there is one: such a site comes last."""


def unplanned(_place: Place, _job: Job, _ordered_vms: int, _now_ms: int) -> int | None:
    """Know no plan of any site."""
    return 0


class SiteWaits:
    """Asks the plans of sites, and counts what this instant has ordered there, which they do not have yet."""

    def __init__(self, planned: PlannedWait) -> None:
        self._planned = planned
        self._ordered_vms = Counter[str]()

    def of(self, place: Place, job: Job, now_ms: int) -> int:
        """Say how long the lease of a job would wait there, in ms."""
        wait_ms = self._planned(place, job, self._ordered_vms[_site(place)], now_ms)
        return UNKNOWN_MS if wait_ms is None else wait_ms

    def ordered(self, place: Place) -> None:
        """Note that a lease is ordered there in this instant."""
        self._ordered_vms[_site(place)] += len(names_of(place))

    def end_instant(self) -> None:
        """From now on what was ordered is in the plans."""
        self._ordered_vms.clear()


def _site(place: Place) -> str:
    return site_of(names_of(place)[0])
