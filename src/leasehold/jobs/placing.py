"""At which places does a job begin now, and what is lacking where at none?

In this order: as sure as it is asked to be; a machine where its software was lost; nodes that have offered
themselves, for a job that waits or has lost its place; the best place that there is. Hot copies are placed
as far as there is room for them, each on nodes that no other has.
"""

from leasehold.jobs.choosing import Choosing
from leasehold.jobs.job import Backup, Fault, JobRecord, Place
from leasehold.jobs.office import Office
from leasehold.jobs.places import Placing, names_of, recipe_of
from leasehold.jobs.sureness import Sureness
from leasehold.jobs.why import JobReason
from leasehold.matching.verdict import Verdict


class Placer:
    """Decides, and changes nothing."""

    def __init__(self, office: Office, choosing: Choosing) -> None:
        self._settings = office.settings
        self._offers = office.offers
        self.choosing = choosing
        self._sureness = Sureness(office, choosing)

    def place(self, record: JobRecord, now_ms: int) -> Placing:
        """Say where a job begins."""
        first = self.one(record, now_ms)
        if isinstance(first, Verdict):
            return Placing(verdict=self.choosing.hopeful(record.request.job, first, now_ms))
        if record.request.reliability is not None and recipe_of(first) is None:
            return self._sureness.place(record, first, now_ms)
        return Placing((first, *self._copies(record, first, now_ms)))

    def one(self, record: JobRecord, now_ms: int, without: frozenset[str] = frozenset()) -> Place | Verdict:
        """Give one place for a job, but for some nodes."""
        job = record.request.job
        if not without and (lost := _where_software_was_lost(record)):
            there = self.choosing.machines_on(lost, job, now_ms)
            if not isinstance(there, Verdict):
                return there
        if record.reason is not JobReason.SUBMITTED:
            offered = [name for name in self._offers.names(now_ms) if name not in without]
            there = self.choosing.find_among(offered, job, now_ms)
            if not isinstance(there, Verdict):
                return there
        return self.choosing.find(job, now_ms, without)

    def _copies(self, record: JobRecord, first: Place, now_ms: int) -> list[Place]:
        copies: list[Place] = []
        if record.request.backup is not Backup.HOT or recipe_of(first) is not None:
            return copies
        taken = set(names_of(first))
        while len(copies) < self._settings.hot_copies - 1:
            copy = self.one(record, now_ms, frozenset(taken))
            if isinstance(copy, Verdict) or recipe_of(copy) is not None:
                break
            copies.append(copy)
            taken.update(names_of(copy))
        return copies


def _where_software_was_lost(record: JobRecord) -> tuple[str, ...]:
    """Give the nodes where the last attempt found its software gone (Thamarai Selvi et al., section 4.6)."""
    if record.attempts and record.attempts[-1].fault is Fault.SOFTWARE_GONE:
        return record.attempts[-1].nodes
    return ()
