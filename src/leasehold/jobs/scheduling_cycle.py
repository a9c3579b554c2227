"""A scheduling cycle: the jobs that are looked at now, one after the other, and what becomes of each; standby places.

Hundreds may wait for a few nodes. A job whose next try is not due is looked at only if a node that has more room than
before has enough for it: for all others the answer would be the same as last time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from leasehold.jobs.job import (
    NOT_YET,
    Backup,
    JobPlacement,
    JobReason,
    JobRecord,
    JobRequest,
    JobState,
    Place,
    has_lost_a_place,
    is_too_late,
    last_call_ms,
    names_of,
    recipe_of,
    site_of,
)
from leasehold.jobs.placement import BatchMatcher, PlaceFinder, Placer
from leasehold.jobs.settings import Machines
from leasehold.jobs.state import SchedulerState, key_of
from leasehold.jobs.transitions import Transitions, next_try_ms, where
from leasehold.matching.images import Recipe
from leasehold.matching.needs import Amounts
from leasehold.matching.nodes import Node, judge
from leasehold.matching.verdict import FITS, Feasibility, Verdict, Why, wait


class Standbys:
    """Cold copies: a second place is kept in mind for a job, which starts there when its first place has failed.

    It costs nothing until then: nothing is promised there. So it is looked at again at every instant, and if another
    lease has taken the room, or the node has failed, another place is chosen.
    Source: Thamarai Selvi et al., section 4.6.2: the copy begins "only when failure occurs", at the least loaded node,
    which is first among those that have offered themselves.
    """

    def __init__(self, state: SchedulerState, transitions: Transitions, finder: PlaceFinder, placer: Placer) -> None:
        self._jobs = state.jobs
        self._finder = finder
        self._placer = placer
        self._transitions = transitions

    def take_over(self, now_ms: int) -> None:
        """Begin where a place was kept ready, for each job that lost its own."""
        for record in self._jobs.open_with_copies():
            if record.standby is not None and not record.open_attempts:
                place, record.standby = record.standby, None
                if self._is_ready(record, place, now_ms):
                    self._transitions.start(record, place, now_ms, JobReason.TAKES_OVER)

    def keep_ready(self, now_ms: int) -> None:
        """Choose a second place for each job that is to have one and has not, or whose place is no more."""
        for record in self._jobs.open_with_copies():
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
        found = self._finder.find_among(names_of(place), record.request.job, now_ms)
        return type(found) is type(place)


def wants_standby(record: JobRecord) -> bool:
    """Whether a second place is kept in mind: for a job that asks to be sure and of which one copy runs."""
    wants_copies = record.request.backup is Backup.COLD or record.request.reliability is not None
    may = record.restarts < record.request.restarts and record.ended_ms == NOT_YET
    return wants_copies and may and len(record.open_attempts) == 1


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of a job that was submitted now.

    ``places``  where it would begin; with an image that has to be built, that is a recipe
    ``what``    what is lacking, where there is something
    """

    state: JobState
    reason: JobReason
    what: str = ""
    places: tuple[Place, ...] = ()
    surest: float | None = None


class SchedulingCycle:
    """Places waiting jobs, tells them to wait, or gives them up."""

    def __init__(self, state: SchedulerState, transitions: Transitions, placer: Placer) -> None:
        self._settings = state.settings
        self._jobs = state.jobs
        self._inventory = state.inventory
        self._waiting = state.waiting
        self._images = state.images
        self._offers = state.offers
        self._transitions = transitions
        self._placer = placer
        self._matching = BatchMatcher(state, placer)
        self._given: dict[str, Node] = {}
        self._roomier: tuple[str, ...] | None = None
        """The nodes that have more room than in the last round, None where anything may have changed."""
        self._rooms: list[Amounts] | None = None
        """What those of them that can be used have left; None after a job was looked at, which may have taken some."""
        self._in_vain: set[tuple[object, ...]] = set()
        """What a job wanted in this cycle and did not get: there is no more of it until the next."""

    def run(self, now_ms: int) -> None:
        """Look at all jobs whose turn it is."""
        self._end_late_builds(now_ms)
        jobs = self._jobs
        sites, self._inventory.roomier = sorted(self._inventory.roomier), set()
        listed = self._waiting.round(now_ms, room=jobs.dirty or bool(jobs.roomier or sites))
        self._roomier = None
        if listed and not jobs.dirty:
            self._roomier = (*jobs.roomier, *chain.from_iterable(map(self._inventory.names, sites)))
        jobs.dirty, jobs.roomier = False, set()
        self._given, self._in_vain, self._rooms = {}, set(), None
        for together in self._matching.groups(listed):
            hopeful = [record for record in together if self._has_hope(record, now_ms)]
            if not hopeful:
                continue  # as of nearly all
            self._rooms = None
            places = self._matching.match(hopeful, now_ms)
            left = [record for record in hopeful if not self._takes(record, places.get(record.id), now_ms)]
            for record in left:
                self._look_at(record, now_ms)
        self._waiting.looked_at(listed)

    def _takes(self, record: JobRecord, place: Place | None, now_ms: int) -> bool:
        """Start a job where it was matched to, unless its lease would wait there: it is looked at in its turn."""
        if place is None or not self._placer.finder.starts_at_once(place, record.request.job, now_ms):
            return False
        self._start(record, JobPlacement((place,)), now_ms)
        return True

    def _has_hope(self, record: JobRecord, now_ms: int) -> bool:
        """Whether an answer is owed to a job, or there may be a place where there was none before."""
        if self._roomier is None or self._waiting.is_due(record, now_ms):
            return True
        if self._rooms is None:
            self._rooms = [room for room in map(self._inventory.room, self._roomier) if room is not None]
        amounts = record.request.job.needs.amounts
        return any(room.holds(amounts) for room in self._rooms)

    def _end_late_builds(self, now_ms: int) -> None:
        building = [record for record in self._jobs.records.values() if record.state is JobState.BUILDING]
        for record in sorted(building, key=attrgetter("id")):
            if is_too_late(record, now_ms):
                self._transitions.give_up(record, JobReason.TOO_LATE, now_ms)

    def _look_at(self, record: JobRecord, now_ms: int) -> None:
        if is_too_late(record, now_ms):
            self._transitions.give_up(record, JobReason.TOO_LATE, now_ms)
            return
        is_due, wish = self._waiting.is_due(record, now_ms), _wish(record)
        if wish in self._in_vain and not is_due:
            return
        found = self._placer.place(record, now_ms)
        if found.recipe is not None:
            self._build(record, found.recipe, now_ms)
        elif found.places:
            self._start(record, found, now_ms)
        elif is_due:
            self._answer(record, found, now_ms)
        if not found.places and wish is not None:
            self._in_vain.add(wish)

    def _start(self, record: JobRecord, found: JobPlacement, now_ms: int) -> None:
        record.surest = found.surest
        for number, place in enumerate(found.places):
            for name in names_of(place):
                self._note_given(name)
            self._transitions.start(record, place, now_ms, JobReason.RUNS_ALONG if number else None)
        record.standby = found.standby

    def _note_given(self, name: str) -> None:
        """Keep how a node was before it was given away in this round."""
        self._offers.drop(name)
        node = self._inventory.node(name)
        if node is not None:
            self._given.setdefault(name, node)

    def _build(self, record: JobRecord, recipe: Recipe, now_ms: int) -> None:
        """Have an image built; one that was built and has not all that is needed is not built for ever."""
        if record.reason is JobReason.IMAGE_IS_BUILT and record.what == key_of(recipe):
            self._transitions.give_up(record, JobReason.IMAGE_FAILED, now_ms, f"{record.what} has not all of it")
            return
        key = self._images.want(record, recipe)
        self._transitions.build(record, key, last_call_ms(record))

    def _answer(self, record: JobRecord, found: JobPlacement, now_ms: int) -> None:
        """Tell a job to wait, or that it is over."""
        record.surest = found.surest
        verdict = self._hopeful(found.verdict)
        next_ms = next_try_ms(self._settings, record, now_ms)
        if verdict.answer is Feasibility.NEVER:
            self._transitions.give_up(record, _refusal_reason(verdict), now_ms, lacking(verdict))
            return
        if self._takes_machines(record, next_ms, now_ms):
            return
        if next_ms is None:
            verdict = self._placer.finder.waits_for_nodes(record.request.job, now_ms) or verdict
        if verdict.why is Why.NODES_DOWN:
            self._wait_for_nodes(record, verdict.what, now_ms)
        elif next_ms is None:
            self._transitions.give_up(record, JobReason.WAITED_TOO_LONG, now_ms, lacking(verdict))
        elif self._went_to_others(record, now_ms):
            self._transitions.wait(record, JobReason.WAITS_ITS_TURN, lacking(wait(Why.TAKEN_BY_OTHERS)), next_ms)
        else:
            self._transitions.wait(record, JobReason.TRIED_AGAIN_LATER, lacking(verdict), next_ms)

    def _wait_for_nodes(self, record: JobRecord, which: str, now_ms: int) -> None:
        """Keep a job waiting while the nodes are down; its retries count from their return."""
        record.since_ms = now_ms
        next_ms, last_ms = now_ms + self._settings.retrying.interval_ms, last_call_ms(record)
        at_ms = next_ms if last_ms == NOT_YET else min(next_ms, last_ms)
        self._transitions.wait(record, JobReason.NODES_DOWN, which, at_ms)

    def _takes_machines(self, record: JobRecord, next_ms: int | None, now_ms: int) -> bool:
        """Let machines be made for a job that waits for nodes, where its operator wants that, at last.

        That is at its last try, and as soon as the image is built for which it stopped waiting.
        """
        is_last = next_ms is None or record.reason is JobReason.IMAGE_IS_BUILT
        if self._settings.machines is not Machines.RATHER_THAN_REFUSE or not is_last:
            return False
        found = self._placer.finder.machines(record.request.job, now_ms)
        if isinstance(found, Verdict):
            return False
        if (recipe := recipe_of(found)) is not None:
            self._build(record, recipe, now_ms)
        else:
            self._start(record, JobPlacement((found,)), now_ms)
        return True

    def forecast(self, request: JobRequest, now_ms: int) -> Forecast:
        """Say what would become of a job if it was submitted now; changes nothing."""
        record = JobRecord(request, since_ms=now_ms)
        if is_too_late(record, now_ms):
            return Forecast(JobState.REFUSED, JobReason.TOO_LATE)
        found = self._placer.place(record, now_ms)
        if found.recipe is not None:
            key = key_of(found.recipe)
            return Forecast(JobState.BUILDING, JobReason.IMAGE_IS_BUILT, key, found.places, found.surest)
        if found.places:
            reason = where(found.places[0])
            return Forecast(JobState.RUNNING, reason, "", found.places, found.surest)
        verdict = self._hopeful(found.verdict)
        if verdict.answer is Feasibility.NEVER:
            return Forecast(JobState.REFUSED, _refusal_reason(verdict), lacking(verdict), (), found.surest)
        if verdict.why is Why.NODES_DOWN:
            return Forecast(JobState.WAITING, JobReason.NODES_DOWN, verdict.what, (), found.surest)
        return Forecast(JobState.WAITING, JobReason.TRIED_AGAIN_LATER, lacking(verdict), (), found.surest)

    def _hopeful(self, verdict: Verdict) -> Verdict:
        """Return *not now* until everything expected has been reported."""
        unseen = sorted(self._settings.sites - self._inventory.complete)
        if verdict.answer is not Feasibility.NEVER:
            return verdict
        if unseen:
            return wait(Why.FACTS_TOO_OLD, unseen[0])
        if self._settings.images_awaited and not self._images.were_seen:
            return wait(Why.FACTS_TOO_OLD, "images")
        return verdict

    def _went_to_others(self, record: JobRecord, now_ms: int) -> bool:
        """Whether enough nodes that would have served a job were given away in this round."""
        job = record.request.job
        moment = self._placer.finder.moment(now_ms)
        would = [name for name, node in self._given.items() if judge(job, node, 0, moment) is FITS]
        return most_of_one_site(would) >= job.needs.nodes if job.needs.nodes > 1 else bool(would)


def _wish(record: JobRecord) -> tuple[object, ...] | None:
    """Give all that decides whether there is a place for a job; None where that is more than its needs."""
    request, needs = record.request, record.request.job.needs
    if request.job.deadline_ms is not None or has_lost_a_place(record):
        return None
    return needs.amounts, needs.gpu_model, needs.nodes, needs.cpu_mhz, needs.software, needs.has_files


def _refusal_reason(verdict: Verdict) -> JobReason:
    """Translate a *never* verdict into the reason for a job."""
    reasons = {
        Why.DEADLINE_TOO_TIGHT: JobReason.TOO_LATE,
        Why.RELIABILITY_OUT_OF_REACH: JobReason.NOT_SURE_ENOUGH,
    }
    return reasons.get(verdict.why, JobReason.NEVER_HERE)


def most_of_one_site(names: Sequence[str]) -> int:
    """Give how many of these nodes the site has that has most of them."""
    sites = [site_of(name) for name in names]
    return max((sites.count(site) for site in set(sites)), default=0)


def lacking(verdict: Verdict) -> str:
    """Return a matching verdict as data: its reason, and the name of what is missing, if any."""
    if verdict.why is Why.RELIABILITY_OUT_OF_REACH:
        return verdict.what
    return f"{verdict.why.value}: {verdict.what}" if verdict.what else verdict.why.value
