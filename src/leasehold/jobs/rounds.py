"""A round: the jobs that are looked at now, one after the other, and what becomes of each.

Hundreds may wait for a few nodes. To whom no answer is owed is looked at only if a node that has more room
than before has enough for it: all others would be told what they were told the last time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from leasehold.jobs.building import key_of
from leasehold.jobs.floor import site_of
from leasehold.jobs.job import NOT_YET, JobRecord, JobRequest, JobState, Place, has_lost_a_place
from leasehold.jobs.lateness import is_too_late, last_call_ms
from leasehold.jobs.life import Lives, where
from leasehold.jobs.matched import TogetherOrInTurn
from leasehold.jobs.office import Office
from leasehold.jobs.places import Placing, names_of, recipe_of
from leasehold.jobs.placing import Placer
from leasehold.jobs.settings import JobSettings, Machines
from leasehold.jobs.why import JobReason
from leasehold.matching.images import Recipe
from leasehold.matching.nodes import Node, judge
from leasehold.matching.verdict import FITS, Feasibility, Verdict, Why, wait


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


class Rounds:
    """Places waiting jobs, tells them to wait, or gives them up."""

    def __init__(self, office: Office, lives: Lives, placer: Placer) -> None:
        self._settings = office.settings
        self._book = office.book
        self._floor = office.floor
        self._line = office.line
        self._images = office.images
        self._offers = office.offers
        self._lives = lives
        self._placer = placer
        self._matching = TogetherOrInTurn(office, placer)
        self._given: dict[str, Node] = {}
        self._roomier: tuple[str, ...] | None = None
        """The nodes that have more room than in the last round, None where anything may have changed."""
        self._in_vain: set[tuple[object, ...]] = set()
        """What somebody wanted in this round and did not get: there is no more of it until the next."""

    def hold(self, now_ms: int) -> None:
        """Look at all whose turn it is."""
        self._end_late_builds(now_ms)
        book = self._book
        sites, self._floor.roomier = sorted(self._floor.roomier), set()
        listed = self._line.round(now_ms, room=book.anything or bool(book.roomier or sites))
        self._roomier = None
        if listed and not book.anything:
            self._roomier = (*book.roomier, *chain.from_iterable(map(self._floor.names, sites)))
        book.anything, book.roomier = False, set()
        self._given, self._in_vain = {}, set()
        for together in self._matching.groups(listed):
            hopeful = [record for record in together if self._has_hope(record, now_ms)]
            places = self._matching.match(hopeful, now_ms)
            for record in hopeful:
                if record.id in places:
                    self._start(record, Placing((places[record.id],)), now_ms)
            for record in hopeful:
                if record.id not in places:
                    self._look_at(record, now_ms)
        self._line.looked_at(listed)

    def _has_hope(self, record: JobRecord, now_ms: int) -> bool:
        """Whether an answer is owed to a job, or there may be a place where there was none before."""
        if self._roomier is None or self._line.is_due(record, now_ms):
            return True
        amounts = record.request.job.needs.amounts
        return any(self._floor.has_room(name, amounts) for name in self._roomier)

    def _end_late_builds(self, now_ms: int) -> None:
        for record in self._book.open():
            if record.state is JobState.BUILDING and is_too_late(record, now_ms):
                self._lives.give_up(record, JobReason.TOO_LATE, now_ms)

    def _look_at(self, record: JobRecord, now_ms: int) -> None:
        if is_too_late(record, now_ms):
            self._lives.give_up(record, JobReason.TOO_LATE, now_ms)
            return
        is_due, wish = self._line.is_due(record, now_ms), _wish(record)
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

    def _start(self, record: JobRecord, found: Placing, now_ms: int) -> None:
        record.surest = found.surest
        for number, place in enumerate(found.places):
            for name in names_of(place):
                self._note_given(name)
            self._lives.start(record, place, now_ms, JobReason.RUNS_ALONG if number else None)
        record.standby = found.standby

    def _note_given(self, name: str) -> None:
        """Keep how a node was before it was given away in this round."""
        self._offers.drop(name)
        node = self._floor.node(name)
        if node is not None:
            self._given.setdefault(name, node)

    def _build(self, record: JobRecord, recipe: Recipe, now_ms: int) -> None:
        """Have an image built; one that was built and has not all that is needed is not built for ever."""
        if record.reason is JobReason.IMAGE_IS_BUILT and record.what == key_of(recipe):
            self._lives.give_up(record, JobReason.IMAGE_FAILED, now_ms, f"{record.what} has not all of it")
            return
        key = self._images.want(record, recipe)
        self._lives.build(record, key, last_call_ms(record))

    def _answer(self, record: JobRecord, found: Placing, now_ms: int) -> None:
        """Tell a job to wait, or that it is over."""
        record.surest = found.surest
        verdict = self._hopeful(found.verdict)
        next_ms = next_try_ms(self._settings, record, now_ms)
        if verdict.answer is Feasibility.NEVER:
            self._lives.give_up(record, _for_good(verdict), now_ms, told(verdict))
            return
        if self._takes_machines(record, next_ms, now_ms):
            return
        if next_ms is None:
            verdict = self._placer.choosing.waits_for_nodes(record.request.job, now_ms) or verdict
        if verdict.why is Why.NODES_DOWN:
            self._wait_for_nodes(record, verdict.what, now_ms)
        elif next_ms is None:
            self._lives.give_up(record, JobReason.WAITED_TOO_LONG, now_ms, told(verdict))
        elif self._went_to_others(record, now_ms):
            self._lives.wait(record, JobReason.WAITS_ITS_TURN, told(wait(Why.TAKEN_BY_OTHERS)), next_ms)
        else:
            self._lives.wait(record, JobReason.TRIED_AGAIN_LATER, told(verdict), next_ms)

    def _wait_for_nodes(self, record: JobRecord, which: str, now_ms: int) -> None:
        """Let a job wait as long as the nodes are down: its tries count from their return."""
        record.since_ms = now_ms
        next_ms, last_ms = now_ms + self._settings.retrying.interval_ms, last_call_ms(record)
        at_ms = next_ms if last_ms == NOT_YET else min(next_ms, last_ms)
        self._lives.wait(record, JobReason.NODES_DOWN, which, at_ms)

    def _takes_machines(self, record: JobRecord, next_ms: int | None, now_ms: int) -> bool:
        """Let machines be made for a job that waits for nodes, where its operator wants that, at last.

        That is at its last try, and as soon as the image is built for which it stopped waiting.
        """
        is_last = next_ms is None or record.reason is JobReason.IMAGE_IS_BUILT
        if self._settings.machines is not Machines.RATHER_THAN_REFUSE or not is_last:
            return False
        found = self._placer.choosing.machines(record.request.job, now_ms)
        if isinstance(found, Verdict):
            return False
        if (recipe := recipe_of(found)) is not None:
            self._build(record, recipe, now_ms)
        else:
            self._start(record, Placing((found,)), now_ms)
        return True

    def foresee(self, request: JobRequest, now_ms: int) -> Forecast:
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
            return Forecast(JobState.REFUSED, _for_good(verdict), told(verdict), (), found.surest)
        if verdict.why is Why.NODES_DOWN:
            return Forecast(JobState.WAITING, JobReason.NODES_DOWN, verdict.what, (), found.surest)
        return Forecast(JobState.WAITING, JobReason.TRIED_AGAIN_LATER, told(verdict), (), found.surest)

    def _hopeful(self, verdict: Verdict) -> Verdict:
        """Say *not now* as long as not everything was seen that should be."""
        unseen = sorted(self._settings.sites - self._floor.complete)
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
        moment = self._placer.choosing.moment(now_ms)
        would = [name for name, node in self._given.items() if judge(job, node, 0, moment) is FITS]
        return most_of_one_site(would) >= job.needs.nodes if job.needs.nodes > 1 else bool(would)


def next_try_ms(settings: JobSettings, record: JobRecord, now_ms: int) -> int | None:
    """Give when a job is tried again, or is too late if it did not begin before; None for no more."""
    at_ms = settings.retrying.next_ms(record.since_ms, now_ms)
    last_ms = last_call_ms(record)
    return at_ms if at_ms is None or last_ms == NOT_YET else min(at_ms, last_ms)


def _wish(record: JobRecord) -> tuple[object, ...] | None:
    """Give all that decides whether there is a place for a job; None where that is more than its needs."""
    request, needs = record.request, record.request.job.needs
    if request.job.deadline_ms is not None or has_lost_a_place(record):
        return None
    return needs.amounts, needs.nodes, needs.cpu_mhz, needs.software


def _for_good(verdict: Verdict) -> JobReason:
    """Say what a *never here* is for a job."""
    said = {
        Why.DEADLINE_TOO_TIGHT: JobReason.TOO_LATE,
        Why.RELIABILITY_OUT_OF_REACH: JobReason.NOT_SURE_ENOUGH,
    }
    return said.get(verdict.why, JobReason.NEVER_HERE)


def most_of_one_site(names: Sequence[str]) -> int:
    """Give how many of these nodes the site has that has most of them."""
    sites = [site_of(name) for name in names]
    return max((sites.count(site) for site in set(sites)), default=0)


def told(verdict: Verdict) -> str:
    """Write a verdict of matching as data: its reason, and what is lacking where that has a name."""
    if verdict.why is Why.RELIABILITY_OUT_OF_REACH:
        return verdict.what
    return f"{verdict.why.value}: {verdict.what}" if verdict.what else verdict.why.value
