"""Cold copies: a second place is kept in mind for a job, and it begins there when the first has failed.

It costs nothing until then: nothing is promised there. So it is looked at again at every instant, and if
somebody else has taken the room, or the node has fallen, another place is kept in mind.
Source: Thamarai Selvi et al., section 4.6.2: the copy begins "only when failure occurs", at the least
loaded node, which is first among those that have offered themselves.
"""

from leasehold.jobs.choosing import Choosing
from leasehold.jobs.job import NOT_YET, Backup, JobRecord, Place
from leasehold.jobs.life import Lives
from leasehold.jobs.office import Office
from leasehold.jobs.places import names_of, recipe_of
from leasehold.jobs.placing import Placer
from leasehold.jobs.why import JobReason
from leasehold.matching.verdict import Verdict


class Backups:
    """Keeps second places up to date, and lets jobs go on there."""

    def __init__(self, office: Office, lives: Lives, choosing: Choosing, placer: Placer) -> None:
        self._book = office.book
        self._choosing = choosing
        self._placer = placer
        self._lives = lives

    def take_over(self, now_ms: int) -> None:
        """Begin where a place was kept ready, for each job that lost its own."""
        for record in self._book.open():
            if record.standby is not None and not record.open_attempts:
                place, record.standby = record.standby, None
                if self._is_ready(record, place, now_ms):
                    self._lives.start(record, place, now_ms, JobReason.TAKES_OVER)

    def keep_ready(self, now_ms: int) -> None:
        """Choose a second place for each job that is to have one and has not, or whose place is no more."""
        for record in self._book.open():
            if not wants_standby(record):
                record.standby = None
            elif record.standby is None or not self._is_ready(record, record.standby, now_ms):
                record.standby = self._choose(record, now_ms)

    def _choose(self, record: JobRecord, now_ms: int) -> Place | None:
        taken = frozenset(record.open_attempts[0].nodes)
        found = self._placer.one(record, now_ms, taken)
        return None if isinstance(found, Verdict) or recipe_of(found) else found

    def _is_ready(self, record: JobRecord, place: Place, now_ms: int) -> bool:
        """Whether a job could begin there now, on these nodes or in machines with that image."""
        found = self._choosing.find_among(names_of(place), record.request.job, now_ms)
        return type(found) is type(place)


def wants_standby(record: JobRecord) -> bool:
    """Whether a second place is kept in mind: for a job that asks to be sure and of which one copy runs."""
    asks = record.request.backup is Backup.COLD or record.request.reliability is not None
    may = record.restarts < record.request.restarts and record.ended_ms == NOT_YET
    return asks and may and len(record.open_attempts) == 1
