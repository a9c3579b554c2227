"""How jobs with needs are served: the keys of ``[jobs]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain, seconds
from leasehold.jobs.settings import JobSettings, Machines, Matching
from leasehold.matching.best_fit import BestFit
from leasehold.matching.hosts import Making
from leasehold.matching.network import Network, Way
from leasehold.matching.queues.registry import JOB_QUEUES
from leasehold.matching.reliability.learning import YEAR_S, FailureRate
from leasehold.matching.retrying import Retrying

_BYTES_PER_MBIT = 125_000
_MOST_COPIES = 100
_MOST_OUTPUT_KIB = 2**20


@dataclass(frozen=True, slots=True)
class JobsSpec:
    """How jobs are served; what is not said here is said in `leasehold.jobs.settings.JobSettings`.

    ``look_every_ms``    how often sites are asked for their nodes and images
    ``silent_after_ms``  after so long without an answer the nodes of a site count as out of reach
    ``gone_after_ms``    after so long a node that its site does not list any more is gone for good
    ``fresh_for_ms``     how long what was seen of a node can be relied upon
    ``margin``           how many times its estimate a job may take before its lease is over
    ``output_kib``       so much is kept of what a command writes, the end of it
    ``output_for_ms``    for so long it is tried to fetch that; then the job is over without
    ``failures_a_year``  how often a node is thought to fail that was never watched
    ``mbps, delay_ms``   the usual way between two places; ``ways`` has those that are different
    """

    look_every_ms: int = 30_000
    silent_after_ms: int = 120_000
    gone_after_ms: int = 3_600_000
    fresh_for_ms: int = 300_000
    queue: str = "min-wait-deadline-first"
    patience_ms: int = 240_000
    retry_every_ms: int = 120_000
    retry_for_ms: int = 360_000
    eager: bool = True
    matching: str = Matching.GREEDY.value
    best_fit_mib: int = 10
    machines: str = Machines.FOR_WANT_OF_NODES.value
    margin: float = 2.0
    boot_ms: int = 30_000
    build_ms: int = 300_000
    warm_for_ms: int = 0
    hot_copies: int = 2
    spares: int = 3
    takeover_ms: int = 10_000
    offers_last_ms: int = 300_000
    failures_a_year: float = 1.0
    output_kib: int = 1024
    output_for_ms: int = 600_000
    mbps: float = 100.0
    delay_ms: int = 20
    ways: Mapping[tuple[str, str], Way] = field(default_factory=dict)

    def settings(self, sites: frozenset[str] = frozenset(), *, images_awaited: bool = False) -> JobSettings:
        """Give what the desk of jobs needs; ``sites`` will tell of their nodes."""
        return JobSettings(
            queue=self.queue,
            patience_ms=self.patience_ms or None,
            retrying=Retrying(self.retry_every_ms, self.retry_for_ms),
            eager=self.eager,
            matching=Matching(self.matching),
            best_fit=BestFit(self.best_fit_mib, self.best_fit_mib) if self.best_fit_mib else None,
            machines=Machines(self.machines),
            making=Making(self.boot_ms),
            build_ms=self.build_ms,
            fresh_for_ms=self.fresh_for_ms or None,
            hot_copies=self.hot_copies,
            spares=self.spares,
            takeover_ms=self.takeover_ms,
            belief=FailureRate(1.0, YEAR_S / self.failures_a_year),
            offers_last_ms=self.offers_last_ms,
            warm_for_ms=self.warm_for_ms,
            sites=sites,
            images_awaited=images_awaited,
        )

    def network(self) -> Network:
        """Give the ways between places; the places of nodes are their sites."""
        return Network(Way(self.delay_ms, round(self.mbps * _BYTES_PER_MBIT)), self.ways)

    def to_dict(self) -> Plain:
        """Give the keys of ``[jobs]``."""
        told: Plain = {}
        for name in self.__slots__:
            value = getattr(self, name)
            in_seconds = name.endswith("_ms") and name != "delay_ms"
            told |= seconds(f"{name.removesuffix('_ms')}_s", value) if in_seconds else {name: value}
        del told["ways"]
        return told | ({"ways": [_way_to_dict(*pair) for pair in self.ways.items()]} if self.ways else {})


def read_jobs(keys: Keys) -> JobsSpec:
    """Check the keys of ``[jobs]``, and refuse others.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    usual = JobsSpec()
    spec = JobsSpec(
        look_every_ms=keys.milliseconds("look_every_s", usual.look_every_ms, least_ms=1),
        silent_after_ms=keys.milliseconds("silent_after_s", usual.silent_after_ms, least_ms=1),
        gone_after_ms=keys.milliseconds("gone_after_s", usual.gone_after_ms),
        fresh_for_ms=keys.milliseconds("fresh_for_s", usual.fresh_for_ms),
        queue=keys.name_of("queue", JOB_QUEUES, usual.queue),
        patience_ms=keys.milliseconds("patience_s", usual.patience_ms),
        retry_every_ms=keys.milliseconds("retry_every_s", usual.retry_every_ms, least_ms=1),
        retry_for_ms=keys.milliseconds("retry_for_s", usual.retry_for_ms),
        eager=keys.flag("eager", default=usual.eager),
        matching=keys.name_of("matching", Matching, usual.matching),
        best_fit_mib=keys.whole("best_fit_mib", usual.best_fit_mib, least=0),
        machines=keys.name_of("machines", Machines, usual.machines),
        margin=float(keys.number("margin", usual.margin, 1)),
        boot_ms=keys.milliseconds("boot_s", usual.boot_ms),
        build_ms=keys.milliseconds("build_s", usual.build_ms),
        warm_for_ms=keys.milliseconds("warm_for_s", usual.warm_for_ms),
        hot_copies=keys.whole("hot_copies", usual.hot_copies, least=2, most=_MOST_COPIES),
        spares=keys.whole("spares", usual.spares, least=0, most=_MOST_COPIES),
        takeover_ms=keys.milliseconds("takeover_s", usual.takeover_ms),
        offers_last_ms=keys.milliseconds("offers_last_s", usual.offers_last_ms),
        failures_a_year=float(keys.number("failures_a_year", usual.failures_a_year, 0.001)),
        output_kib=keys.whole("output_kib", usual.output_kib, most=_MOST_OUTPUT_KIB),
        output_for_ms=keys.milliseconds("output_for_s", usual.output_for_ms),
        mbps=float(keys.number("mbps", usual.mbps, 0.001)),
        delay_ms=keys.whole("delay_ms", usual.delay_ms, least=0),
        ways=dict(_way(table) for table in keys.tables("ways")),
    )
    keys.done()
    return spec


def _way(keys: Keys) -> tuple[tuple[str, str], Way]:
    usual = JobsSpec()
    source, target = keys.text("from"), keys.text("to")
    rate = round(float(keys.number("mbps", usual.mbps, 0.001)) * _BYTES_PER_MBIT)
    delay_ms = keys.whole("delay_ms", usual.delay_ms, least=0)
    keys.done()
    return (source, target), Way(delay_ms, rate)


def _way_to_dict(places: tuple[str, str], way: Way) -> Plain:
    mbps = way.bytes_per_s / _BYTES_PER_MBIT
    return {"from": places[0], "to": places[1], "mbps": mbps, "delay_ms": way.delay_ms}
