"""The job scheduler: the one way in.

``handle`` is called with all events of an instant and gives what is to be done and what has become known. It
never asks what time it is and never waits. The service uses it, and so does the simulator
(`leasehold.simulation.events.jobs`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from leasehold.jobs.effects import JobEffect, WakeJobsAt
from leasehold.jobs.event_handlers import EventHandlers, FaultHandlers
from leasehold.jobs.events import JobEvent, RoomLeft, RoomTaken
from leasehold.jobs.job import NOT_YET, AttemptState, JobRecord, JobRequest, JobState, site_of
from leasehold.jobs.nodes import Holder, SchedulableNodes
from leasehold.jobs.offers import OfferAnswer
from leasehold.jobs.placement import PlaceFinder, Placer
from leasehold.jobs.scheduling_cycle import Forecast, SchedulingCycle, Standbys
from leasehold.jobs.settings import JobSettings
from leasehold.jobs.site_waits import PlannedWait, unplanned
from leasehold.jobs.state import FailureHistory, SchedulerState
from leasehold.jobs.transitions import Transitions
from leasehold.matching.assignment import Solve, solve_plain
from leasehold.matching.nodes import Network, Node
from leasehold.matching.software import Software
from leasehold.matching.verdict import Feasibility
from leasehold.model.errors import InvariantBroken


def check(state: SchedulerState) -> None:
    """Check the state, and the records that the last instant has changed."""
    records = state.jobs.records
    for record in (*records.values(), *state.jobs.moved.values()):
        _stands_in_one_place(record, state)
        _delivers_once(record)
        for attempt in record.open_attempts:
            _is_of_one_site(record, attempt.nodes)
        _copies_run_apart(record)
        if record.state.is_final == (record.id in records):
            raise InvariantBroken(f"job {record.id} is {record.state} and {record.id in records=}")
    _promises_are_those_of_attempts(records.values(), state.inventory)
    _nothing_is_promised_twice(state.inventory)


def _stands_in_one_place(record: JobRecord, state: SchedulerState) -> None:
    """A job waits in the line, or waits for an image, or has attempts that are open, or is over."""
    where = {
        "the line": record.id in state.waiting,
        "images": record.id in state.images.waiting,
        "attempts": bool(record.open_attempts),
    }
    found = {place for place, is_there in where.items() if is_there}
    if found not in _STANDS_IN[record.state]:
        raise InvariantBroken(f"job {record.id} is {record.state}, and is found among {sorted(found)}")
    if "the line" in found and record.next_ms == NOT_YET:
        raise InvariantBroken(f"job {record.id} waits for nothing")


_STANDS_IN: dict[JobState, list[set[str]]] = {
    JobState.WAITING: [{"the line"}, {"attempts"}],
    JobState.BUILDING: [{"images"}],
    **{state: [set()] for state in JobState if state.is_final},
}
_STANDS_IN |= {state: [{"attempts"}] for state in JobState if state not in _STANDS_IN}


def _delivers_once(record: JobRecord) -> None:
    """At most one attempt succeeds, and a result belongs to the attempt recorded for it."""
    done = [one.number for one in record.attempts if one.state is AttemptState.SUCCEEDED]
    if done != ([record.delivered] if record.state is JobState.COMPLETED else []):
        raise InvariantBroken(f"job {record.id} is {record.state}: {done} succeeded, {record.delivered=}")
    if record.delivered and not record.state.is_final:
        raise InvariantBroken(f"job {record.id} has a result but is not final")


def _is_of_one_site(record: JobRecord, nodes: tuple[str, ...]) -> None:
    sites, needs = {site_of(node) for node in nodes}, record.request.job.needs
    least = needs.need or needs.nodes
    if len(sites) != 1 or not least <= len(set(nodes)) == len(nodes) <= needs.nodes:
        raise InvariantBroken(f"job {record.id} runs on {nodes}")


def _copies_run_apart(record: JobRecord) -> None:
    """No node has two copies of a job, and what is kept ready is elsewhere too."""
    counted = Counter(node for attempt in record.open_attempts for node in attempt.nodes)
    if any(count > 1 for count in counted.values()):
        raise InvariantBroken(f"job {record.id} has two copies on one node: {counted}")


def _promises_are_those_of_attempts(records: Iterable[JobRecord], inventory: SchedulableNodes) -> None:
    promised: set[tuple[str, Holder]] = set()
    for name, held in inventory.held():
        promised.update((name, holder) for holder in held)
    expected = {
        (node, (record.id, attempt.number))
        for record in records
        for attempt in record.open_attempts
        for node in attempt.nodes
    }
    if promised != expected:
        raise InvariantBroken(f"promised and not open, or open and not promised: {promised ^ expected}")


def _nothing_is_promised_twice(inventory: SchedulableNodes) -> None:
    for name, _ in inventory.held():
        if not inventory.has_room_for_promises(name) and name not in inventory.shrunk:
            total, promised = inventory.total(name), inventory.promised(name)
            raise InvariantBroken(f"{name} has {total}, of which {promised} is promised")


class JobScheduler:
    """Decides what becomes of jobs, by the settings of an operator."""

    def __init__(
        self,
        settings: JobSettings | None = None,
        network: Network | None = None,
        solve: Solve = solve_plain,
        planned_wait: PlannedWait = unplanned,
    ) -> None:
        """Begin without jobs and nodes.

        ``network`` says how long files take from place to place, ``solve`` solves assignment problems where
        matching is optimal, and ``planned_wait`` asks the plans of sites.
        """
        self._state = state = SchedulerState(settings or JobSettings(), network or Network(), solve, planned_wait)
        self._jobs = state.jobs
        self._transitions = Transitions(state)
        self._handlers = EventHandlers(state, self._transitions, FaultHandlers(state, self._transitions))
        finder = PlaceFinder(state)
        self._placer = Placer(state, finder)
        self._cycle = SchedulingCycle(state, self._transitions, self._placer)
        self._standbys = Standbys(state, self._transitions, finder, self._placer)
        self._alarm_ms = NOT_YET

    @property
    def records(self) -> Mapping[int, JobRecord]:
        """The open jobs by number."""
        return self._jobs.records

    @property
    def moved(self) -> Mapping[int, JobRecord]:
        """The jobs that the last `handle` has changed, those that it closed included."""
        return self._jobs.moved

    def node(self, name: str) -> Node | None:
        """Give a node with what can still be promised there; None for one that was never seen."""
        return self._state.inventory.node(name)

    def handle(self, events: Iterable[JobEvent], now_ms: int) -> list[JobEffect]:
        """Take note of all events of an instant, then decide; gives what is to be done and known."""
        self._jobs.begin()
        # 1. What happened, before anything is decided.
        self._handlers.handle(events, now_ms)
        self._state.inventory.note_waiting(now_ms)
        # 2. Jobs that lost their place continue where a backup place was held ready.
        self._standbys.take_over(now_ms)
        # 3. Waiting jobs are looked at, seeing the nodes as they are now.
        self._cycle.run(now_ms)
        # 4. Second places are chosen or given up, and an alarm is set for the next.
        self._standbys.keep_ready(now_ms)
        self._set_alarm(now_ms)
        self._state.site_waits.end_instant()
        return self._jobs.effects

    def observe(self, events: Iterable[RoomTaken | RoomLeft], now_ms: int) -> None:
        """Take note of what other leases have, and decide nothing yet."""
        self._handlers.handle(events, now_ms)
        self._state.inventory.update_stale()

    @property
    def has_waiting(self) -> bool:
        """Whether a job waits for room."""
        return bool(self._state.waiting)

    def _set_alarm(self, now_ms: int) -> None:
        times_ms = [record.next_ms for record in self._jobs.records.values() if record.next_ms != NOT_YET]
        if self._alarm_ms <= now_ms:
            self._alarm_ms = NOT_YET
        if times_ms and min(times_ms) != self._alarm_ms:
            self._alarm_ms = min(times_ms)
            self._jobs.effects.append(WakeJobsAt(self._alarm_ms))

    def answer_offer(self, node: str, now_ms: int) -> OfferAnswer:
        """Answer the offer of a node that was taken note of in this instant."""
        for record in self._jobs.records.values():
            if any(one.ordered_ms == now_ms and node in one.nodes for one in record.open_attempts):
                return OfferAnswer.TAKEN
        return OfferAnswer.STANDING if node in self._state.offers.names(now_ms) else OfferAnswer.DECLINED

    def standing_offers(self, now_ms: int) -> Mapping[str, int]:
        """Give until when the offers are valid that stand now, by the names of their nodes."""
        return self._state.offers.standing(now_ms)

    def image_places(self, software: tuple[Software, ...]) -> frozenset[str]:
        """Name the sites whose machines can have all of this software: from an image there, or one that is built."""
        found = self._state.images.catalogue.find(software)
        return frozenset().union(*(image.places for image in found))

    def waiting_ms(self, node: str) -> int:
        """How long a job that comes now would wait at a node."""
        return self._state.inventory.waiting_ms(node)

    def forecast(self, request: JobRequest, now_ms: int) -> Forecast:
        """Say what would become of a job if it was submitted now; changes nothing."""
        return self._cycle.forecast(request, now_ms)

    def answer_of_first(self, request: JobRequest, now_ms: int) -> Feasibility:
        """Say what the sites that are considered first would answer to a job if it was submitted now."""
        return self._placer.answer_of_first(JobRecord(request, since_ms=now_ms), now_ms)

    def take_up(self, records: Iterable[JobRecord], now_ms: int) -> None:
        """Go on from records: open attempts stay open, and nothing is started twice.

        Give the open jobs, and if it is known the closed ones of which a fenced attempt may still run. What
        is known of nodes and images has to be reported again (`NodesSeen`, `ImagesSeen`), before or after.
        """
        for record in records:
            for attempt in record.attempts:
                if attempt.state is AttemptState.FENCED:
                    self._jobs.fence(record, attempt)
            if not record.state.is_final:
                self._transitions.take_up(record)
        self._jobs.dirty = True
        self._alarm_ms = min(self._alarm_ms, now_ms)

    @property
    def failures(self) -> FailureHistory:
        """How often each node failed; kept apart from the `snapshot`, since it has an entry for every node."""
        return self._state.failures

    def snapshot(self) -> dict[str, Any]:
        """Give what was learnt, and what does not come back by looking, as plain JSON."""
        state = self._state
        return {
            "nodes": state.inventory.snapshot(),
            "offers": state.offers.snapshot(),
            "warm": state.warm_hosts.snapshot(),
            "waits": state.inventory.waits.snapshot(),
            "queue": state.waiting.snapshot(),
            "fenced": [list(key) for key in sorted(state.jobs.fenced)],
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on with what was kept; after `take_up`."""
        state = self._state
        state.inventory.restore(snapshot.get("nodes", {}))
        state.offers.restore(snapshot.get("offers", {}))
        state.warm_hosts.restore(snapshot.get("warm", {}))
        state.inventory.waits.restore(snapshot.get("waits", {}))
        state.waiting.restore(snapshot.get("queue", {}))
        if "fenced" in snapshot:
            state.jobs.still_fenced(snapshot["fenced"])

    def check(self) -> None:
        """Raise InvariantBroken if anything is not as it must be."""
        check(self._state)
