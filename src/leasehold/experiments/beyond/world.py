"""One run of a contender: the product's own gateway and clusters, and what a setting changes of them."""

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast

from leasehold.experiments.beyond.plan import STUDY, ContenderRun, Log, configuration_named, plan
from leasehold.experiments.intergrid.plan import BASE
from leasehold.experiments.intergrid.plan import plan as published_plan
from leasehold.experiments.intergrid.world import as_keys as published_keys
from leasehold.experiments.intergrid.world import observed
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.kernel import Profile
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType, Request
from leasehold.routing.demand import WEEK_MS, LocalDemand
from leasehold.routing.policy import Dispatch, Hold, Information, Refuse, RoutingPolicy, RoutingView, Verdict
from leasehold.routing.view import SiteFacts, SiteLive
from leasehold.simulation.run import make_gateway
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import routing, site_settings
from leasehold.simulation.scenario.sources import open_log, open_streams
from leasehold.simulation.scenario.spec import LogStream, Scenario
from leasehold.simulation.workload.combine import merged, shifted, within
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.streams import random_stream

MS_PER_S, MS_PER_HOUR = 1_000, 3_600_000


# A contender that knows every local request of the whole period

Room = Mapping[str, Profile]
"""By site, what its own users and the guests that are booked will leave free."""


class Clairvoyant(RoutingPolicy):
    """Where and when does a guest end soonest without preemption, given all local requests to come?

    No policy to use, but a bound that foresight attains.

    Rule: each guest is booked at its arrival in the room that local requests will leave, at the earliest end;
    it goes out when that begins. Non-preemptable requests that find none are refused, and so are Migratable
    ones that would miss their deadline.
    Source: none; the future is unknown.
    """

    name: ClassVar[str] = "clairvoyant"
    information: ClassVar[Information] = Information.STATIC

    def __init__(self, random: Random, room: Room, needs_ms: Mapping[int, int]) -> None:
        super().__init__(random)
        self._room = room
        self._needs_ms = needs_ms
        self._booked: dict[int, tuple[str, int]] = {}

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Book a new request, and dispatch it when its time begins."""
        booked = self._booked.pop(request.id, None) or self._book(request, view.sites, now_ms)
        if booked is None:
            return Refuse()
        site, start_ms = booked
        if start_ms <= now_ms:
            return Dispatch(site)
        self._booked[request.id] = booked
        return Hold(start_ms)

    def _book(self, request: Request, sites: Iterable[SiteFacts], now_ms: int) -> tuple[str, int] | None:
        """Take the room in which it ends soonest; None where that start or end is too late."""
        is_late, end_ms, start_ms, site = min(self._offers(request, sites, now_ms))
        if is_late:
            return None
        self._room[site].take(start_ms, end_ms, request.vms)
        return site, start_ms

    def _offers(
        self, request: Request, sites: Iterable[SiteFacts], now_ms: int
    ) -> Iterable[tuple[bool, int, int, str]]:
        """Give for each site whether it is too late there, its end, its start, and the name."""
        latest_ms = now_ms if request.lease_type is LeaseType.NON_PREEMPTABLE else None
        for site in sites:
            span_ms = -(-self._needs_ms[request.id] * site.reference_mips // site.speed_mips)
            room = self._room[site.name]
            room.trim(now_ms)
            start_ms = room.earliest(max(now_ms, request.ready_ms), span_ms, request.vms)
            end_ms = start_ms + span_ms
            is_late = (latest_ms is not None and start_ms > latest_ms) or (
                request.deadline_ms is not None and end_ms > request.deadline_ms
            )
            yield is_late, end_ms, start_ms, site.name


def room_beside(settings: Sequence[SiteSettings], jobs: Iterable[WorkloadJob], reference_mips: int) -> Room:
    """Give the room that local requests leave at sites without guests: each starts in turn, or is refused."""
    room = {one.name: Profile(one.slots) for one in settings}
    speed_mips = {one.name: one.speed_mips for one in settings}
    waits = {one.name: one.queues_locals for one in settings}
    for job in jobs:
        assert job.site is not None
        here = room[job.site]
        if job.vms <= here.slots:
            wall_ms = -(-min(job.actual_ms, job.requested_ms) * reference_mips // speed_mips[job.site])
            start_ms = here.earliest(job.submit_ms, wall_ms, job.vms)
            if waits[job.site] or start_ms == job.submit_ms:
                here.take(start_ms, start_ms + wall_ms, job.vms)
    return room


# The run


def measure(name: str, replication: int, folder: Path | None = None, *, handed_over: bool = False) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(configuration_named(name), replication, folder, handed_over=handed_over)


def run(
    configuration: ContenderRun, replication: int, folder: Path | None = None, *, handed_over: bool = False
) -> dict[str, float]:
    """Run the requests of the period to their end; logs are in ``folder``, or what `hand_over` wrote there."""
    made, setting = scenario(configuration, replication), configuration.setting
    lead_ms = 0 if setting.log is None else plan().stated["logs"]["lead_hours"] * MS_PER_HOUR
    span_ms = configuration.hours * MS_PER_HOUR + lead_ms  # local requests come before the first guest

    def requests() -> Iterator[WorkloadJob]:
        """Give all requests by time: the same for every contender."""
        jobs = open_streams(made, [])
        if setting.log is not None:
            assert folder is not None
            slots = {cluster.name: int(cluster.slots) for cluster in made.clusters}
            log = _as_handed_over(setting.log) if handed_over else setting.log
            ours = local_jobs(log, folder, slots, span_ms, replication)
            jobs = merged(ours, shifted(jobs, lead_ms))
        most = setting.overestimate
        return jobs if most == 1.0 else overestimated(jobs, most, replication)

    how = routing(made)
    if is_clairvoyant(configuration):
        how = replace(how, policy=_clairvoyant(made, requests))

    def stale(knowledge: Knowledge) -> Knowledge:
        return cast("Knowledge", StaleKnowledge(knowledge, setting.stale_s * MS_PER_S))

    gateway = make_gateway(made, how, see_through=stale if setting.stale_s else None)
    if is_trained(configuration):
        for name, memory in learnt(configuration, replication).items():
            allocations = gateway.sites[name].allocations
            allocations.demand = LocalDemand.recalled(memory, allocations.settings.slots)
    return observed(gateway, requests(), span_ms)


def overestimated(jobs: Iterator[WorkloadJob], most: float, seed: int) -> Iterator[WorkloadJob]:
    """Request one to ``most`` times the time needed; the slack until a deadline stays."""
    random = random_stream(seed, "estimates")
    for job in jobs:
        asked_ms = round(job.actual_ms * random.uniform(1.0, most))
        deadline_ms = None if job.deadline_ms is None else job.deadline_ms + asked_ms - job.requested_ms
        yield replace(job, requested_ms=asked_ms, deadline_ms=deadline_ms)


def _clairvoyant(made: Scenario, jobs: Callable[[], Iterator[WorkloadJob]]) -> Clairvoyant:
    own = (job for job in jobs() if job.site is not None)
    room = room_beside(site_settings(made), own, made.reference_mips)
    needs_ms = {number: min(job.actual_ms, job.requested_ms) for number, job in enumerate(jobs(), 1)}
    return Clairvoyant(random_stream(made.seed, "routing"), room, needs_ms)


# The scenario: that of JPDC 2012 where its sweeps meet, with the rules of the contender

STAND_IN = "rr"
"""The policy in the scenario of the clairvoyant one, which no scenario can name."""


def scenario(configuration: ContenderRun, replication: int) -> Scenario:
    """Give the scenario of one run."""
    return scenario_from_dict(as_keys(configuration, replication))


def as_keys(configuration: ContenderRun, replication: int) -> dict[str, Any]:
    """Give the keys of its file; where local jobs come from a log, machines are equal."""
    setting, contender = configuration.setting, configuration.contender
    known = published_plan(STUDY, configuration.hours)
    reading = next(one for one in known.readings if one.name == setting.reading)
    base = known.configurations[known.name_of(reading, BASE, STAND_IN)]
    made = published_keys(base, replication) | {"name": configuration.name}
    made["gateway"] |= {**setting.gateway, **contender.gateway}
    made["defaults"] |= {**setting.defaults, **contender.defaults}
    if is_clairvoyant(configuration):
        made["gateway"]["policy"] = STAND_IN
    if setting.log is None:
        return made
    speed, load = made["defaults"].pop("speed_mips"), plan().stated["logs"]["guest_load"]
    return made | {
        "reference_mips": speed,
        "cluster": [cluster | {"speed_mips": speed} for cluster in made["cluster"]],
        "stream": [stream | {"load": load} for stream in made["stream"] if "site" not in stream],
    }


def is_clairvoyant(configuration: ContenderRun) -> bool:
    """Whether its policy knows the future."""
    return bool(configuration.contender.gateway["policy"] == plan(configuration.hours).foresight)


# Local jobs from public logs: for each cluster a window of its own, as wide as the cluster is large

ANY = "any"
BY_SITE = "partition"
HANDED_OVER = ".jobs"
"""How the name of a file ends that has the jobs of a log for another interpreter."""


def log_is_there(log: Log, folder: Path | None) -> bool:
    """Whether the log is in this folder."""
    return folder is not None and (folder / log.file).is_file()


def local_jobs(
    log: Log, folder: Path, slots: Mapping[str, int], span_ms: int, replication: int
) -> Iterator[WorkloadJob]:
    """Give the local jobs of all clusters by time, ``span_ms`` of them.

    Raises InvalidField where the log is shorter than that.
    """
    path = folder / log.file
    whole = _whole(path, by_site=log.procs is None)
    ours = _dealt(path, log, tuple(slots.items()))
    return merged(*(_window(whole, ours[name], name, span_ms, replication) for name in slots))


Widths = Mapping[str, float]
"""How many times as wide the jobs of a site of the log are here; sites that are not named are left out."""


def _window(
    whole: "tuple[WorkloadJob, ...]", ours: Widths, cluster: str, span_ms: int, replication: int
) -> Iterator[WorkloadJob]:
    first_ms, last_ms = whole[0].submit_ms, whole[-1].submit_ms
    if last_ms - first_ms < span_ms:
        raise InvalidField("log", f"{(last_ms - first_ms) // 3_600_000} h long", "longer than what is run")
    begin_ms = random_stream(replication, "window", cluster).randrange(first_ms, last_ms - span_ms + 1)
    jobs = (
        replace(job, site=cluster, vms=max(1, round(job.vms * ours[str(job.site)])))
        for job in within(iter(whole), begin_ms, begin_ms + span_ms)
        if job.site in ours
    )
    return shifted(jobs, -begin_ms)


def hand_over(log: Log, logs: Path, folder: Path) -> None:
    """Write the jobs of a log for processes that cannot read it, which are told that they are ``handed_over``."""
    jobs = _whole(logs / log.file, by_site=log.procs is None)
    (folder / _as_handed_over(log).file).write_bytes(pickle.dumps(jobs))


def _as_handed_over(log: Log) -> Log:
    return replace(log, file=f"{log.file}{HANDED_OVER}")


@cache
def _whole(path: Path, *, by_site: bool) -> tuple[WorkloadJob, ...]:
    """Read a log once in each process."""
    if path.suffix == HANDED_OVER:
        jobs_there: tuple[WorkloadJob, ...] = pickle.loads(path.read_bytes())  # noqa: S301 - by `hand_over`
        return jobs_there
    site, field = (None, BY_SITE) if by_site else (ANY, None)
    stream = LogStream("locals", str(path), "swf", site, field)
    jobs = open_log(stream, 1, ReadingNotes(stream.name))
    return tuple(sorted(jobs, key=lambda job: job.submit_ms))


@cache
def _dealt(path: Path, log: Log, slots: tuple[tuple[str, int], ...]) -> dict[str, Widths]:
    """Deal the sites of the log out to the clusters, with the width of their jobs."""
    if log.procs is not None:
        return {name: {ANY: count / log.procs} for name, count in slots}
    assert log.load is not None
    busy = _mean_busy(_whole(path, by_site=True))
    left = {name: log.load * count for name, count in slots}
    dealt: dict[str, dict[str, float]] = {name: {} for name in left}
    for site in sorted(busy, key=lambda site: (-busy[site], site)):
        name = max(left, key=left.__getitem__)
        if busy[site] <= left[name]:
            left[name] -= busy[site]
            dealt[name][site] = 1.0
    return dict(dealt)


def _mean_busy(whole: tuple[WorkloadJob, ...]) -> Mapping[str, float]:
    """Give the mean number of processors that the jobs of each site of a log keep busy."""
    work = Counter[str]()
    for job in whole:
        work[str(job.site)] += job.vms * min(job.actual_ms, job.requested_ms)
    length_ms = whole[-1].submit_ms - whole[0].submit_ms
    return {site: of_site / length_ms for site, of_site in work.items()}


# The knowledge of a gateway whose sites report at intervals


class StaleKnowledge:
    """Knowledge in which sites report their state at intervals, without their plan.

    The gateway itself knows what it has sent there since, and what of it has ended.
    """

    def __init__(self, knowledge: Knowledge, every_ms: int) -> None:
        """Wrap what is really known."""
        self._knowledge = knowledge
        self._every_ms = every_ms
        self._reports: dict[str, tuple[int, SiteLive, int]] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else that is known
        """Pass everything else on."""
        return getattr(self._knowledge, name)

    def live(self, site_name: str, now_ms: int) -> SiteLive:
        """Give the state that the site last reported, updated by what the gateway did there since."""
        in_flight_vms = self._knowledge.history(site_name).in_flight_vms
        turn = now_ms // self._every_ms
        if site_name not in self._reports or self._reports[site_name][0] != turn:
            live = replace(self._knowledge.live(site_name, now_ms), earliest_start_ms=None)
            self._reports[site_name] = turn, live, in_flight_vms
        _, live, then_vms = self._reports[site_name]
        return replace(live, free_vms=live.free_vms - (in_flight_vms - then_vms))


# Tables that were learnt at another rate
#
# Before the first request of a run, each site has observed its own users, at the other rate,
# for as long as its counts are remembered. From then on it learns as always.


SEEDS_APART = 1_000_000
"""Added to the seed of the run: what was learnt differs from the requests to come."""

Memory = Mapping[str, Any]
"""A table, as `LocalDemand.memory` gives it."""


def is_trained(configuration: ContenderRun) -> bool:
    """Whether tables were learnt before, and the policy may use them."""
    if not configuration.setting.trained_rate or is_clairvoyant(configuration):
        return False
    return configuration.contender.information is Information.LIVE


def learnt(configuration: ContenderRun, replication: int) -> dict[str, Memory]:
    """Give the table of each site after a week without guests that ends now."""
    keys, rate = as_keys(configuration, SEEDS_APART + replication), configuration.setting.trained_rate
    of_locals = [stream | {"load": rate} for stream in keys["stream"] if "site" in stream]
    made = scenario_from_dict(keys | {"horizon_s": WEEK_MS // MS_PER_S, "stream": of_locals})
    gateway = make_gateway(made, routing(made))
    for name in gateway.sites:
        gateway.knowledge.outlook(name, 0)
    observed(gateway, open_streams(made, []), WEEK_MS)
    found = gateway.knowledge.snapshot()["demand"]
    return {name: ending_now(memory) for name, memory in found.items()}


def ending_now(memory: Memory) -> Memory:
    """Move a table in time, so that it was last read at 0."""
    seen_ms, started_ms = memory["seen_ms"], memory["last_start_ms"]
    return {
        **memory,
        "seen_ms": 0,
        "at_ms": memory["at_ms"] - seen_ms,
        "last_start_ms": None if started_ms is None else started_ms - seen_ms,
    }
