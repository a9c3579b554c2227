"""The configuration of a service: every key of ``leasehold.toml`` that is no other layer's, declared once.

Times are whole milliseconds here and seconds in the file. `leasehold.service.config_file` reads the file and
writes it; reading what `ServiceConfig.to_dict` gives changes nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from leasehold.configuration.declaration import (
    Choice,
    FilePath,
    Flag,
    Key,
    Number,
    Plain,
    Seconds,
    Table,
    Text,
    Texts,
    Whole,
)
from leasehold.configuration.keys import MOST_SLOTS, Keys
from leasehold.configuration.tables import (
    DOMAIN,
    GATEWAY,
    RESOURCES,
    SHARING,
    DomainSpec,
    GatewaySpec,
    NodesPlanned,
    SharingSpec,
)
from leasehold.configuration.terms import LIVE_POLICY, TERMS, ClusterTerms, terms_to_dict
from leasehold.jobs.offers import MILLION, OfferTerms
from leasehold.jobs.settings import JobSettings, Machines, Matching
from leasehold.leasing.overhead import OverheadModel
from leasehold.leasing.victims.guard import Guard
from leasehold.matching.choice import MachineMaking, Retrying
from leasehold.matching.nodes import Link, Network
from leasehold.matching.queues import JOB_QUEUES
from leasehold.matching.reliability import YEAR_S, FailureRate
from leasehold.matching.resource_sets import BestFit
from leasehold.model.errors import InvalidField
from leasehold.model.resources import NodeResources
from leasehold.service.auth.issuers import ISSUER, TrustedIssuer
from leasehold.service.connections import ConnectionLimits
from leasehold.service.drivers.registry import driver_kinds
from leasehold.service.engine.timers import START_WITHIN_MS
from leasehold.service.store.retention import Cutoffs
from leasehold.service.tls import is_loopback
from leasehold.sharing.enforcement import PREEMPTABLE

ACCESS = ("auto", "open", "token")
LOG_FORMATS = ("auto", "console", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")

_DAY_MS = 86_400_000
_BYTES_PER_MBIT = 125_000
_MBPS, _DELAY_MS = 100.0, 20
_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise InvalidField("url", text, "an address such as https://leasehold.example.org")
    return text.rstrip("/")


class Webhooks(Texts):
    """Addresses below which webhooks may be called: of a named server, and encrypted unless it is this machine."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take them."""
        texts = super().read(keys, name, default)
        for text in texts if isinstance(texts, tuple) else ():
            try:
                parts = urlsplit(text)
                host, _ = parts.hostname or "", parts.port
            except ValueError:
                host, parts = "", urlsplit("")
            is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
            if not host or not is_safe or parts.query or parts.fragment or "@" in parts.netloc:
                expected = "an address such as https://hooks.example.org/leasehold/; http only on this machine"
                raise InvalidField(keys.where(name), text, expected)
        return texts


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """Where the gateway listens, where it keeps what it knows, and how often it looks after it."""

    host: Annotated[
        str,
        Text(
            "address to listen on; other than loopback only with TLS",
            more=": this needs `tls_certificate` and `tls_key`, or `behind_tls_proxy`",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Whole("port to listen on; 0: any free port", least=0, most=65_535)] = 8470
    url: Annotated[
        str,
        Text(
            "public URL, if it differs from the address",
            more=", such as `https://leasehold.example.org`; links of the dashboard begin with its path",
            unset="the address",
            optional=True,
            convert=_address,
        ),
    ] = ""
    data: Annotated[Path | None, FilePath("data folder", unset="see [below](#the-data-folder)")] = None
    store: Annotated[
        str,
        Text(
            "URL of the database; absent: SQLite in the data folder",
            more=": `sqlite:///PATH` or `postgresql+psycopg://USER@HOST/DATABASE`",
            unset="SQLite in the data folder",
            optional=True,
        ),
    ] = ""
    tls_certificate: Annotated[Path | None, FilePath("certificate chain, as a PEM file")] = None
    tls_key: Annotated[Path | None, FilePath("private key of the certificate, as a PEM file without a password")] = None
    behind_tls_proxy: Annotated[bool, Flag("all connections come through a proxy that terminates TLS")] = False
    reference_mips: Annotated[
        int,
        Whole("speed to which requested durations refer", more="; the same at a gateway and all its sites"),
    ] = 1
    check_every_ms: Annotated[
        int,
        Seconds("interval of the checks of all invariants; 0: never", more=", except at the start"),
    ] = 60_000
    reconcile_every_ms: Annotated[
        int, Seconds("interval of full reconciliation", more=", site by site", least_ms=1)
    ] = 30_000
    start_within_ms: Annotated[
        int,
        Seconds(
            "time for the machines of a guest to start before it is tried elsewhere",
            least_ms=1_000,
            most_ms=_DAY_MS,
        ),
    ] = START_WITHIN_MS
    shutdown_ms: Annotated[int, Seconds("time for open requests to finish at shutdown")] = 20_000
    webhooks: Annotated[
        tuple[str, ...],
        Webhooks(
            "addresses below which guests may have a webhook called before they are preempted",
            more=', such as `["https://hooks.example.org/leasehold/"]`',
        ),
    ] = ()
    probes: Annotated[
        str,
        Choice(
            "access to /healthz and /readyz: open, token, or auto (open on loopback)",
            more=". `open`: without a token; `token`: with the permission `metrics.see`; `auto`: open if"
            " only this machine can reach the gateway",
            of=ACCESS,
        ),
    ] = "auto"
    metrics: Annotated[str, Choice("access to /metrics, with the same values", of=ACCESS)] = "auto"
    page: Annotated[
        str,
        Choice(
            "access to the numbers on the page at /, with the same values",
            more=", but with any token that may see sites",
            of=ACCESS,
        ),
    ] = "auto"

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host) and not self.behind_tls_proxy

    def needs_token(self, access: str) -> bool:
        """Whether a token has to be shown where the access is this one of `ACCESS`."""
        return access == "token" or (access == "auto" and not self.is_private)


SERVICE = Table(ServiceSpec, "Address, storage and checks of the gateway.")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one consumer may ask for; what goes beyond is refused before anything is done."""

    body_kib: Annotated[
        int,
        Whole("maximum size of a request body", more=", in KiB", least=32, most=2**20),
    ] = 64
    open_requests_per_consumer: Annotated[int, Whole("open leases of one consumer")] = 10_000
    requests_per_s: Annotated[
        float, Number("requests of one consumer per second, on average; 0: unlimited", least=0)
    ] = 200.0
    burst: Annotated[int, Whole("size of a burst of requests of one consumer")] = 400
    submissions_per_hour: Annotated[
        int,
        Whole(
            "leases, co-allocations and jobs of one consumer per hour; 0: unlimited",
            more=". A restart begins a new hour",
            least=0,
        ),
    ] = 50_000
    output_mib_per_consumer: Annotated[
        int,
        Whole(
            "stored output of the jobs of one consumer; 0: unlimited",
            more=". If it is not 0, it is at least `output_kib` of [`[jobs]`](#jobs). Above the limit the"
            " oldest outputs of the consumer are deleted, and their results say so (`is_kept`)",
            least=0,
            most=2**30,
        ),
    ] = 1_024
    file_mib_per_consumer: Annotated[int, Whole("stored files of one consumer; 0: unlimited", least=0, most=2**30)] = (
        10_240
    )
    file_mib: Annotated[int, Whole("stored files of all consumers together; 0: unlimited", least=0, most=2**30)] = (
        102_400
    )
    streams_per_consumer: Annotated[int, Whole("open streams of changes of one consumer")] = 8
    open_connections: Annotated[
        int,
        Whole(
            "open connections in total",
            more="; fewer if the system allows fewer open files",
        ),
    ] = 4_000
    idle_per_address: Annotated[
        int,
        Whole(
            "open connections of one address without a request",
            more="; an address is a /64 of IPv6. Above the limit the oldest connection is closed",
        ),
    ] = 200
    head_within_ms: Annotated[
        int, Seconds("time to receive the header of a request", more=", including the TLS handshake", least_ms=1_000)
    ] = 10_000
    body_within_ms: Annotated[
        int, Seconds("time to receive the body of a request", more=", after its header", least_ms=1_000)
    ] = 60_000
    answer_within_ms: Annotated[int, Seconds("time that a response waits for its client to read", least_ms=1_000)] = (
        60_000
    )

    def connections(self) -> ConnectionLimits:
        """Give the bounds on connections."""
        return ConnectionLimits(
            most=self.open_connections,
            per_address=self.idle_per_address,
            head_s=self.head_within_ms / 1000,
            body_s=self.body_within_ms / 1000,
            answer_s=self.answer_within_ms / 1000,
        )


LIMITS = Table(Limits, "Limits on the requests of one consumer.")


def _days(doc: str, more: str = "") -> Whole:
    return Whole(doc, more=more, least=0, most=36_500)


def _before(now_ms: int, days: int) -> int:
    return now_ms - days * _DAY_MS if days else 0


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many days the store keeps what is over, and sites the inputs of jobs; 0: for ever."""

    leases_days: Annotated[
        int, _days("closed leases, co-allocations and jobs, with all their data", ", since they ended")
    ] = 400
    journal_days: Annotated[int, _days("lines of the journal about what is closed")] = 100
    outputs_days: Annotated[int, _days("output of closed jobs")] = 100
    usage_days: Annotated[
        int,
        _days(
            "usage of leases; kept for as long as an agreement looks back",
            ". Statements are made of it",
        ),
    ] = 3_660
    answers_days: Annotated[int, _days("answers to idempotency keys, and orders that were carried out")] = 7
    inputs_days: Annotated[
        int, _days("inputs of jobs at a site", ", since a job needed them last; then they are brought again")
    ] = 30

    def cutoffs(self, now_ms: int) -> Cutoffs:
        """Say what of the store is too old now."""
        return Cutoffs(
            **{
                one.name: _before(now_ms, getattr(self, f"{one.name.removesuffix('_ms')}_days"))
                for one in fields(Cutoffs)
            }
        )

    def inputs_before_ms(self, now_ms: int) -> int:
        """Give when inputs must have been needed last to be removed now; 0: none is."""
        return _before(now_ms, self.inputs_days)


RETENTION = Table(Retention, "Days for which closed records are stored; 0: for ever.")


@dataclass(frozen=True, slots=True)
class LogSpec:
    """What is logged while it works."""

    format: Annotated[
        str,
        Choice(
            "console, json, or auto: console on a terminal",
            more=", else one JSON object per line",
            of=LOG_FORMATS,
        ),
    ] = "auto"
    level: Annotated[str, Choice("debug, info, warning or error", of=LOG_LEVELS)] = "info"
    requests: Annotated[
        bool,
        Flag(
            "log each request",
            more="; those of `/healthz`, `/readyz` and `/metrics` only at `debug`",
        ),
    ] = True


LOG = Table(LogSpec, "Log of the service.")


@dataclass(frozen=True, slots=True)
class EstimatesSpec:
    """How it is estimated when leases start, continue and end."""

    every_ms: Annotated[int, Seconds("interval at which estimates are made anew; 0: never")] = 15_000
    replications: Annotated[
        int, Whole("simulated futures for each estimate", more="; fewer where they take too long", least=2, most=1_000)
    ] = 30
    share: Annotated[
        float,
        Number(
            "maximum share of one processor that estimates take",
            more=": they are made less often where they take longer",
            least=0.001,
            most=1,
        ),
    ] = 0.1


ESTIMATES = Table(EstimatesSpec, "Estimates of when leases start, continue and end.")


@dataclass(frozen=True, slots=True)
class WaySpec:
    """The way from one place to another, as a file has it."""

    source: Annotated[str, Text("start of the link", name="from")]
    target: Annotated[str, Text("end of the link", name="to")]
    mbps: Annotated[float, Number("bandwidth, in 10^6 bit/s", least=0.001)] = _MBPS
    delay_ms: Annotated[int, Whole("latency, in milliseconds", least=0)] = _DELAY_MS


WAY = Table(WaySpec, "The link from one place to another.")


class Ways(Key):
    """A list of `WaySpec`, held as ways by the places between which they are."""

    accepts = "list of tables"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the list; an absent one is as the default."""
        if name not in keys:
            return keys.take(name, default)
        ways = [WAY.read(table) for table in keys.tables(name)]
        return {(one.source, one.target): _way(one.mbps, one.delay_ms) for one in ways}

    def write(self, value: Mapping[tuple[str, str], Link]) -> list[Plain]:
        """Give the list."""
        return [
            WAY.to_dict(WaySpec(*places, way.bytes_per_s / _BYTES_PER_MBIT, way.delay_ms))
            for places, way in value.items()
        ]


def _way(mbps: float, delay_ms: int) -> Link:
    return Link(delay_ms, round(mbps * _BYTES_PER_MBIT))


@dataclass(frozen=True, slots=True)
class JobsSpec:
    """How jobs are served; what each setting does is said in `leasehold.jobs.settings.JobSettings`."""

    look_every_ms: Annotated[
        int, Seconds("interval at which the nodes and images of sites are queried", least_ms=1)
    ] = 30_000
    silent_after_ms: Annotated[
        int,
        Seconds(
            "time without an answer after which the nodes of a site count as unreachable",
            more=": they get no more jobs, and their running jobs start again elsewhere",
            least_ms=1,
        ),
    ] = 120_000
    gone_after_ms: Annotated[
        int,
        Seconds(
            "time after which jobs stop waiting for a node that its site no longer lists",
            more="; a job that only it could run is then refused. A node that is listed as down is never given up",
        ),
    ] = 3_600_000
    fresh_for_ms: Annotated[int, Seconds("time for which an observation of a node is valid; 0: until the next one")] = (
        300_000
    )
    queue: Annotated[str, Choice("order of the queue of jobs (leasehold policy list)", of=JOB_QUEUES)] = (
        "min-wait-deadline-first"
    )
    patience_ms: Annotated[int, Seconds("jobs that have waited longer go first; 0: no such rule")] = 240_000
    retry_every_ms: Annotated[int, Seconds("interval at which a job without room is tried again", least_ms=1)] = 120_000
    retry_for_ms: Annotated[int, Seconds("time after which a job without room is refused")] = 360_000
    eager: Annotated[bool, Flag("try waiting jobs whenever room may be free, not only at intervals")] = True
    matching: Annotated[
        Matching,
        Choice(
            "greedy: each job in turn; optimal: all waiting jobs together",
            more=", at the least cost. With `greedy`, a job chooses among the nodes that those before it left",
            of=Matching,
        ),
    ] = Matching.GREEDY
    best_fit_mib: Annotated[
        int,
        Whole(
            "maximum excess memory of a node at the first try; 0: unlimited",
            more=". It grows by the same amount with each try",
            least=0,
        ),
    ] = 10
    machines: Annotated[
        Machines,
        Choice(
            "jobs for which machines are built: for-want-of-nodes or rather-than-refuse",
            more=". `for-want-of-nodes`: only if too few nodes meet the requirements; `rather-than-refuse`:"
            " also at the last try of a job that waited for such nodes",
            of=Machines,
        ),
    ] = Machines.FOR_WANT_OF_NODES
    margin: Annotated[
        float,
        Number(
            "lease duration of a job, as a multiple of its estimate",
            more=", counted from its start; a job that is not done by then starts again, or fails",
            least=1,
        ),
    ] = 2.0
    boot_ms: Annotated[int, Seconds("time from the start of a machine until a job can begin in it")] = 30_000
    build_ms: Annotated[int, Seconds("estimated time to build an image")] = 300_000
    warm_for_ms: Annotated[
        int,
        Seconds("estimated time that a machine stays warm after a job; 0: not at all", more=", at its host"),
    ] = 0
    hot_copies: Annotated[
        int,
        Whole(
            "copies of a job that requests hot copies",
            more=", but no reliability",
            least=2,
            most=100,
        ),
    ] = 2
    spares: Annotated[
        int,
        Whole("maximum number of copies beyond the first, for the requested reliability", least=0, most=100),
    ] = 3
    takeover_ms: Annotated[int, Seconds("planned time from a fault until a cold copy begins")] = 10_000
    offers_last_ms: Annotated[int, Seconds("time for which an offer of a lightly loaded node is valid")] = 300_000
    waits_last_ms: Annotated[
        int, Seconds("time for which the measured waiting time of a node counts when nodes are chosen")
    ] = 600_000
    failures_a_year: Annotated[
        float,
        Number(
            "estimated failures per year of a node without observations",
            more="; observed failures correct it",
            least=0.001,
        ),
    ] = 1.0
    output_kib: Annotated[int, Whole("stored output of a command: its last part", most=2**20)] = 1024
    output_for_ms: Annotated[
        int,
        Seconds(
            "time for which fetching output is tried",
            more="; after it the job ends with an empty output, marked as incomplete",
        ),
    ] = 600_000
    mbps: Annotated[float, Number("default bandwidth between two places, in 10^6 bit/s", least=0.001)] = _MBPS
    delay_ms: Annotated[int, Whole("default latency between two places", more=", in milliseconds", least=0)] = _DELAY_MS
    ways: Annotated[
        Mapping[tuple[str, str], Link],
        Ways(
            "links between places that differ: from, to, mbps, delay_ms",
            more=', such as `{ from = "store", to = "das3", mbps = 1000, delay_ms = 2 }`',
            unset="none",
            optional=True,
        ),
    ] = field(default_factory=dict)

    def settings(self, sites: frozenset[str] = frozenset(), *, images_awaited: bool = False) -> JobSettings:
        """Give what the scheduler of jobs needs; ``sites`` will tell of their nodes."""
        return JobSettings(
            queue=self.queue,
            patience_ms=self.patience_ms or None,
            retrying=Retrying(self.retry_every_ms, self.retry_for_ms),
            eager=self.eager,
            matching=self.matching,
            best_fit=BestFit(self.best_fit_mib, self.best_fit_mib) if self.best_fit_mib else None,
            machines=self.machines,
            making=MachineMaking(self.boot_ms),
            build_ms=self.build_ms,
            fresh_for_ms=self.fresh_for_ms or None,
            hot_copies=self.hot_copies,
            spares=self.spares,
            takeover_ms=self.takeover_ms,
            belief=FailureRate(1.0, YEAR_S / self.failures_a_year),
            offers_last_ms=self.offers_last_ms,
            waits_last_ms=self.waits_last_ms,
            warm_for_ms=self.warm_for_ms,
            sites=sites,
            images_awaited=images_awaited,
        )

    def network(self) -> Network:
        """Give the ways between places; the places of nodes are their sites."""
        return Network(_way(self.mbps, self.delay_ms), self.ways)


JOBS = Table(JobsSpec, "How jobs with requirements are placed, retried and replicated.")


def default_routing() -> GatewaySpec:
    """Give how guests are sent where the administrator says nothing else: to where room is free now.

    Scenarios have another default policy, that of the papers, which looks at no site's state.
    """
    return GatewaySpec(policy="most-free", try_elsewhere=True, use_free_room=True)


def default_sharing() -> SharingSpec:
    """Return the default admission policy.

    Without an agreement, members with a token of the administrator may submit preemptable guests.
    """
    return SharingSpec(without_agreement=PREEMPTABLE)


def default_terms(speed_mips: int = 1) -> ClusterTerms:
    """Return the default terms of a site.

    The first hundred waiting leases of each kind have reservations; those further behind may be backfilled only
    if that delays none of them: a queue of thousands is then planned as quickly as one of a hundred. A guest that
    was resumed runs at least as long as the resumption took, if other victims can be found.
    Non-preemptable guests, the only ones that an owner's users may have to wait for, are allowed none.
    """
    return ClusterTerms(
        speed_mips=speed_mips,
        local_policy=LIVE_POLICY,
        guest_policy=LIVE_POLICY,
        non_preemptable_share=0.0,
        guard=Guard(least_run_resumes=1),
    )


def _site_name(text: str) -> str:
    """Check the name of a site, which is a part of addresses and of the names of files."""
    if not _SITE_NAME.fullmatch(text):
        raise InvalidField("name", text, "letters, digits, '.', '_' and '-', beginning with no sign")
    return text


@dataclass(frozen=True, slots=True)
class SiteSpec:
    """One site: its size, its owner's terms, and what carries orders out on its machines.

    ``options`` are of the table ``[cluster.KIND]``, which that kind of driver checks itself. Beside them and
    the keys here a site may have each key of its terms.
    """

    name: Annotated[str, Text("name", more=": letters, digits, `.`, `_` and `-`, at most 64", convert=_site_name)]
    slots: Annotated[
        int, Whole("number of VMs", most=MOST_SLOTS, unset="required, unless there are `nodes`: their cores")
    ] = 0
    terms: ClusterTerms = field(default_factory=default_terms)
    driver: Annotated[
        str,
        Choice(
            "kind of its machines",
            more=": [emulated](#clusteremulated), [QEMU](../howto/virtual-machines.md),"
            " [Slurm](../howto/slurm.md), [EC2](../howto/clouds.md), [libvirt](../howto/libvirt.md),"
            " [OpenNebula](../howto/opennebula.md),"
            " or that of an installed package ([how to write one](../howto/write-a-driver.md))",
            of=driver_kinds,
        ),
    ] = "emulated"
    options: Mapping[str, Any] = field(default_factory=dict)
    resources: Annotated[Mapping[str, int], RESOURCES] = field(default_factory=dict)
    nodes: Annotated[
        tuple[NodeResources, ...],
        NodesPlanned(
            "nodes by whose cores, memory and GPUs it is planned",
            more=". They are [tables of their own](#clusternodes)",
            unset="none: it is planned by `slots`",
            optional=True,
        ),
    ] = ()
    offer_every_ms: Annotated[
        int,
        Seconds("interval at which the site looks for lightly loaded nodes, which offer themselves to jobs; 0: none"),
    ] = 10_000
    offer_below: Annotated[
        float,
        Number("load at which a node offers itself", more=": used part of its cores or memory", least=0, most=1),
    ] = 0.25
    offer_again_above: Annotated[
        float, Number("load that a node must have had before it offers itself again", least=0, most=1)
    ] = 0.5

    def offers(self, lasts_ms: int) -> OfferTerms:
        """Say when its nodes offer themselves, for so long; raises InvalidField."""
        return OfferTerms(round(self.offer_below * MILLION), round(self.offer_again_above * MILLION), lasts_ms)

    def to_dict(self, defaults: ClusterTerms) -> Plain:
        """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
        plain = CLUSTER.to_dict(self) | terms_to_dict(self.terms, defaults)
        return plain | ({self.driver: dict(self.options)} if self.options else {})


CLUSTER = Table(SiteSpec, "A cluster: its name, its size, and the keys of [defaults] that differ.")


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """A gateway with its sites, and the rules: for each table of the file, its values.

    ``defaults`` are the terms of sites that say nothing else.
    """

    clusters: tuple[SiteSpec, ...]
    service: ServiceSpec = field(default_factory=ServiceSpec)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    gateway: GatewaySpec = field(default_factory=default_routing)
    defaults: ClusterTerms = field(default_factory=default_terms)
    domains: tuple[DomainSpec, ...] = ()
    sharing: SharingSpec = field(default_factory=default_sharing)
    issuers: tuple[TrustedIssuer, ...] = ()
    log: LogSpec = field(default_factory=LogSpec)
    jobs: JobsSpec = field(default_factory=JobsSpec)
    estimates: EstimatesSpec = field(default_factory=EstimatesSpec)

    def to_dict(self) -> Plain:
        """Give the configuration as its file would say it, complete and with the default values filled in."""
        plain: Plain = {name: table.to_dict(getattr(self, name)) for name, table in TABLES.items()}
        plain["cluster"] = [site.to_dict(self.defaults) for site in self.clusters]
        plain |= {"domain": [DOMAIN.to_dict(one) for one in self.domains]} if self.domains else {}
        return plain | ({"issuer": [ISSUER.to_dict(one) for one in self.issuers]} if self.issuers else {})


TABLES: dict[str, Table[Any]] = {
    "service": SERVICE,
    "limits": LIMITS,
    "retention": RETENTION,
    "gateway": GATEWAY,
    "sharing": SHARING,
    "jobs": JOBS,
    "log": LOG,
    "estimates": ESTIMATES,
    "defaults": TERMS,
}
"""The tables of which a file has one each."""

LISTS: dict[str, Table[Any]] = {"cluster": CLUSTER, "domain": DOMAIN, "issuer": ISSUER}
"""The tables of which it may have several."""


_DEMO_REFERENCE_MIPS = 600
_DEMO_SITES = (("C64", 64, 2000), ("C128", 128, 3000), ("C256", 256, 2100))
_DEMO_SOFTWARE = {
    "C64": ("python3 3.11.2", "python3-numpy 1.24.2"),
    "C128": ("python3 3.11.2", "gcc 12.2.0"),
    "C256": ("python3 3.13.5", "python3-numpy 2.2.4", "gcc 14.2.0"),
}
"""What Debian 12 and 13 have, so that jobs with needs find something to be selective about."""
_QUICK = OverheadModel(suspend_ms_per_gib=4_000, resume_ms_per_gib=3_000, network_mbps=10_000)


def one_site() -> ServiceConfig:
    """Give what a gateway without any configuration serves: one emulated site of 16 VMs."""
    return ServiceConfig(clusters=(SiteSpec("local", 16, default_terms()),))


def demo() -> ServiceConfig:
    """Return the three clusters of JPDC 2012, section 5.2, emulated with the disks and networks of today.

    With the disks of 2012 a suspension takes minutes, too long for a demonstration.
    """
    terms = replace(default_terms(_DEMO_REFERENCE_MIPS), overhead=_QUICK)
    sites = [
        SiteSpec(name, slots, replace(terms, speed_mips=mips), options=_alike(name, slots))
        for name, slots, mips in _DEMO_SITES
    ]
    service = ServiceSpec(reference_mips=_DEMO_REFERENCE_MIPS)
    quiet = LogSpec(requests=False)  # so that one still sees what was logged at the start
    return ServiceConfig(clusters=tuple(sites), service=service, defaults=terms, log=quiet)


def _alike(site: str, count: int) -> dict[str, object]:
    """Give a site of the demonstration a node for each VM, with its software."""
    return {"nodes": [{"count": count, "software": list(_DEMO_SOFTWARE[site])}]}
