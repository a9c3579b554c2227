"""One run of a contender: the product's own gateway and clusters, and what a setting changes of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from leasehold.experiments.beyond import logs
from leasehold.experiments.beyond.clairvoyant import Clairvoyant, room_beside
from leasehold.experiments.beyond.scenario import is_clairvoyant, scenario
from leasehold.experiments.beyond.settings import Configuration, Setting, plan
from leasehold.experiments.beyond.stale import make_stale
from leasehold.experiments.beyond.trained import is_trained, train
from leasehold.experiments.intergrid.world import observed
from leasehold.gateway.gateway import Routing
from leasehold.simulation.run import make_gateway
from leasehold.simulation.scenario.sites import routing, site_settings
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.combine import merged, shifted
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.streams import random_stream

MS_PER_S, MS_PER_HOUR = 1_000, 3_600_000


def run(configuration: Configuration, replication: int, folder: Path | None = None) -> dict[str, float]:
    """Let the requests of the period come, and everything end; logs are in ``folder``."""
    made, setting = scenario(configuration, replication), configuration.setting

    def jobs() -> Iterator[Job]:
        return _jobs(made, configuration, replication, folder)

    gateway = make_gateway(made, _routing(configuration, made, jobs))
    if setting.stale_s:
        make_stale(gateway, setting.stale_s * MS_PER_S)
    if is_trained(configuration):
        train(gateway, configuration, replication)
    return observed(gateway, jobs(), _span_ms(configuration))


def _span_ms(configuration: Configuration) -> int:
    """Say for how long requests come, local ones before the first guest included."""
    return configuration.hours * MS_PER_HOUR + _lead_ms(configuration.setting)


def _lead_ms(setting: Setting) -> int:
    return 0 if setting.log is None else plan().said["logs"]["lead_hours"] * MS_PER_HOUR


def _jobs(
    made: Scenario, configuration: Configuration, replication: int, folder: Path | None
) -> Iterator[Job]:
    """Give all requests by time: the same for every contender."""
    setting = configuration.setting
    jobs = open_streams(made, [])
    if setting.log is not None:
        assert folder is not None
        slots = {cluster.name: int(cluster.slots) for cluster in made.clusters}
        ours = logs.local_jobs(setting.log, folder, slots, _span_ms(configuration), replication)
        jobs = merged(ours, shifted(jobs, _lead_ms(setting)))
    return jobs if setting.overestimate == 1.0 else overestimated(jobs, setting.overestimate, replication)


def overestimated(jobs: Iterator[Job], most: float, seed: int) -> Iterator[Job]:
    """Let everybody ask for one to ``most`` times what is needed; what is left until a deadline stays."""
    random = random_stream(seed, "estimates")
    for job in jobs:
        asked_ms = round(job.actual_ms * random.uniform(1.0, most))
        deadline_ms = None if job.deadline_ms is None else job.deadline_ms + asked_ms - job.requested_ms
        yield replace(job, requested_ms=asked_ms, deadline_ms=deadline_ms)


def _routing(configuration: Configuration, made: Scenario, jobs: Callable[[], Iterator[Job]]) -> Routing:
    """Route as the scenario says, or with all knowledge of what is to come."""
    told = routing(made)
    return replace(told, policy=_clairvoyant(made, jobs)) if is_clairvoyant(configuration) else told


def _clairvoyant(made: Scenario, jobs: Callable[[], Iterator[Job]]) -> Clairvoyant:
    own = (job for job in jobs() if job.site is not None)
    room = room_beside(site_settings(made), own, made.reference_mips)
    needs_ms = {number: min(job.actual_ms, job.requested_ms) for number, job in enumerate(jobs(), 1)}
    return Clairvoyant(random_stream(made.seed, "routing"), room, needs_ms)
