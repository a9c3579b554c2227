"""The desk for jobs: the one way in.

``handle`` is called with all events of an instant and gives what is to be done and what has become known. It
never asks what time it is and never waits. The service uses it, and so do the simulated worlds of
`leasehold.experiments.hybrid` and `leasehold.testing.job_world`; `leasehold sim` knows leases alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.jobs.backups import Backups
from leasehold.jobs.choosing import Choosing
from leasehold.jobs.effects import JobEffect, WakeJobsAt
from leasehold.jobs.events import JobEvent, RoomLeft, RoomTaken
from leasehold.jobs.faults import Faults
from leasehold.jobs.invariants import check
from leasehold.jobs.job import NOT_YET, AttemptState, JobRecord, JobRequest
from leasehold.jobs.life import Lives
from leasehold.jobs.notes import Notes
from leasehold.jobs.office import Office
from leasehold.jobs.placing import Placer
from leasehold.jobs.rounds import Forecast, Rounds
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.watching import Watching
from leasehold.matching.assignment import Solve, solve_plain
from leasehold.matching.nodes import Network


class JobDesk:
    """Decides what becomes of jobs, by the settings of an operator."""

    def __init__(
        self, settings: JobSettings | None = None, network: Network | None = None, solve: Solve = solve_plain
    ) -> None:
        """Begin without jobs and nodes.

        ``network`` says how long files take from place to place, ``solve`` solves assignment problems where
        matching is optimal.
        """
        self._office = office = Office(settings or JobSettings(), network or Network(), solve)
        self._book = office.book
        self._lives = Lives(office)
        self._notes = Notes(office, self._lives, Faults(office, self._lives))
        choosing = Choosing(office)
        self._placer = Placer(office, choosing)
        self._rounds = Rounds(office, self._lives, self._placer)
        self._backups = Backups(office, self._lives, choosing, self._placer)
        self._alarm_ms = NOT_YET

    @property
    def records(self) -> Mapping[int, JobRecord]:
        """The open jobs by number."""
        return self._book.records

    @property
    def moved(self) -> Mapping[int, JobRecord]:
        """The jobs that the last `handle` has changed, those that it closed included."""
        return self._book.moved

    def handle(self, events: Iterable[JobEvent], now_ms: int) -> list[JobEffect]:
        """Take note of all events of an instant, then decide; gives what is to be done and known."""
        self._book.begin()
        # 1. What happened, before anything is decided.
        self._notes.take(events, now_ms)
        # 2. Whoever lost its place goes on where a place was kept ready.
        self._backups.take_over(now_ms)
        # 3. Waiting jobs are looked at, seeing the nodes as they are now.
        self._rounds.hold(now_ms)
        # 4. Second places are chosen or given up, and the desk says when it wants to be woken.
        self._backups.keep_ready(now_ms)
        self._set_alarm(now_ms)
        return self._book.effects

    def note(self, events: Iterable[RoomTaken | RoomLeft], now_ms: int) -> None:
        """Take note of what other leases have, and decide nothing yet."""
        self._notes.take(events, now_ms)

    @property
    def has_waiting(self) -> bool:
        """Whether a job waits for room."""
        return bool(self._office.line)

    def _set_alarm(self, now_ms: int) -> None:
        times_ms = [record.next_ms for record in self._book.records.values() if record.next_ms != NOT_YET]
        if self._alarm_ms <= now_ms:
            self._alarm_ms = NOT_YET
        if times_ms and min(times_ms) != self._alarm_ms:
            self._alarm_ms = min(times_ms)
            self._book.effects.append(WakeJobsAt(self._alarm_ms))

    def foresee(self, request: JobRequest, now_ms: int) -> Forecast:
        """Say what would become of a job if it was submitted now; changes nothing."""
        return self._rounds.foresee(request, now_ms)

    def take_up(self, records: Iterable[JobRecord], now_ms: int) -> None:
        """Go on from records: open attempts stay open, and nothing is started twice.

        Give the open jobs, and if it is known the closed ones of which a fenced attempt may still run. What
        is known of nodes and images has to be told again (`NodesSeen`, `ImagesSeen`), before or after.
        """
        for record in records:
            for attempt in record.attempts:
                if attempt.state is AttemptState.FENCED:
                    self._book.fence(record, attempt)
            if not record.state.is_final:
                self._lives.take_up(record)
        self._book.anything = True
        self._alarm_ms = min(self._alarm_ms, now_ms)

    @property
    def watching(self) -> Watching:
        """How often each node failed; kept apart from the `memory`, since it has an entry for every node."""
        return self._office.watching

    def memory(self) -> dict[str, Any]:
        """Give what was learnt, and what does not come back by looking, as plain JSON."""
        office = self._office
        return {
            "nodes": office.floor.memory(),
            "offers": office.offers.memory(),
            "warm": office.warmth.memory(),
            "queue": office.line.memory(),
            "fenced": [list(key) for key in sorted(office.book.fenced)],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on with what was kept; after `take_up`."""
        office = self._office
        office.floor.recall(memory.get("nodes", {}))
        office.offers.recall(memory.get("offers", {}))
        office.warmth.recall(memory.get("warm", {}))
        office.line.recall(memory.get("queue", {}))
        if "fenced" in memory:
            office.book.still_fenced(memory["fenced"])

    def check(self) -> None:
        """Raise InvariantBroken if anything is not as it must be."""
        check(self._office)
