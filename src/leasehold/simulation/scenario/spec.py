"""What a scenario says: plain data, checked when it was read, with nothing opened or made yet.

Times are whole milliseconds here and seconds in files. `Scenario.to_dict` gives the keys of the file again,
and `leasehold.simulation.scenario.parse` reads them: that round trip changes nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from leasehold.configuration.agreements import agreement_to_dict
from leasehold.configuration.declaration import Choice, Flag, Key, Number, Plain, Seconds, Table, Text, Whole, Within
from leasehold.configuration.keys import MOST_ENTRIES, MOST_SEED, MOST_SLOTS, Keys
from leasehold.configuration.tables import (
    ASKED_CORES,
    ASKED_GPUS,
    ASKED_IMAGE,
    CLAIMS,
    DOMAIN,
    GATEWAY,
    RESOURCES,
    SHARING_OF_RUN,
    DomainSpec,
    GatewaySpec,
    ImageNames,
    SharingSpec,
)
from leasehold.configuration.terms import TERMS, ClusterTerms, terms_to_dict
from leasehold.configuration.times import RunTime
from leasehold.model.agreement import Agreement
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LEASE_TYPES, LeaseType
from leasehold.simulation.scenario.events import (
    NATIVE_ORDERS,
    NodeFailureRates,
    StartTimes,
    StreamUsers,
    TimelineEntry,
    machines_to_dict,
    users_to_dict,
)
from leasehold.simulation.scenario.jobs import JOB, JobEntry, NodeKind, nodes_to_dict
from leasehold.simulation.workload.interpretation import READING, LogInterpretation, PlacingRule
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix
from leasehold.simulation.workload.log_record import ID_FIELDS
from leasehold.simulation.workload.together import TOGETHER, StreamCoAllocations

SIZE_RULES = ("max-procs", "peak")
"""How a log may say how large a cluster is: as its header says, or as its jobs need."""

FORMATS = ("swf", "gwf", "parquet")
PEAK = "peak"
TOO_WIDE = ("error", "refuse")


_LOAD = Number("factor on the rate of requests", least=1e-6, most=1e6)
_BOUND_TO = Text(
    "[virtual domain](agreements.md#domain) or cluster to which its guests are bound",
    unset="any",
    optional=True,
)


class ClusterName(Choice):
    """The name of a cluster of the scenario."""

    accepts = "name of a cluster"


_SITE = ClusterName("cluster to which all requests are local", of=())
"""The names of clusters are those of the scenario: see `among`."""


def among(table: Table[Any], clusters: Iterable[str]) -> Table[Any]:
    """Give the table of a stream in a scenario with these clusters."""
    return replace(table, keys={**table.declared, "site": replace(_SITE, of=tuple(clusters))})


def _check_consumer(text: str) -> str:
    if "{" in text or "}" in text:
        PlacingRule(consumer=text)
    elif text not in ID_FIELDS:
        raise UnknownName("consumer_by", text, ID_FIELDS)
    return text


class Slots(Key):
    """A number of slots, or the rule by which a log tells it."""

    accepts = ", ".join([f"whole number from 1 to {MOST_SLOTS:,}", *(f'`"{rule}"`' for rule in SIZE_RULES)])

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the number or the rule."""
        return keys.whole_or_name(name, SIZE_RULES, default, most=MOST_SLOTS)


class LogFile(Key):
    """The path of a log."""

    accepts = "path"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the path; a relative one counts from the folder of the file."""
        return str((keys.folder / str(keys.text(name, default))).resolve())


class External(Key):
    """True, or for fields of the log the values that come from outside."""

    accepts = "`true`, or table of lists"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take true or the table."""
        value = keys.take(name, default)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping) or not value:
            raise InvalidField(keys.where(name), value, "true, or a table such as {group = [2, 5]}")
        table = Keys(value, keys.where(name))
        table.expect(ID_FIELDS)
        chosen = {one: _values(table, one) for one in ID_FIELDS if one in table}
        for one in table.left():
            raise UnknownName(table.where(one), one, ID_FIELDS)
        return chosen

    def write(self, value: object) -> object:
        """Give true or the table."""
        return {one: list(few) for one, few in value.items()} if isinstance(value, Mapping) else value


def _values(table: Keys, name: str) -> tuple[str, ...]:
    values = table.take(name)
    is_plain = isinstance(values, list) and all(type(value) in (int, str) for value in values)
    if not is_plain or not 1 <= len(values) <= MOST_ENTRIES:
        raise InvalidField(table.where(name), values, "a list of values of this field, such as [2, 5]")
    return tuple(str(value) for value in values)


class Types(Key):
    """Shares of the lease types, by their labels."""

    accepts = "table of numbers"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the table."""
        if name not in keys:
            return keys.take(name, default)
        table = keys.table(name)
        stated = {kind: table.number(label, 0.0, 0, 1) for label, kind in LEASE_TYPES.items()}
        table.done()
        shares = {kind: share for kind, share in stated.items() if share > 0}
        with keys.at(name):
            LeaseMix(shares)
        return shares

    def write(self, value: Mapping[LeaseType, float]) -> Plain:
        """Give the table."""
        return {kind.label: share for kind, share in value.items()}


class Slack(Key):
    """Two numbers, the second not below the first."""

    accepts = "list of two numbers"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the list."""
        if name not in keys:
            return keys.take(name, default)
        value = keys.take(name)
        if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - two bounds
            raise InvalidField(keys.where(name), value, "two numbers, such as [1, 3]")
        with keys.at(name):
            return LeaseMix(slack=(value[0], value[1])).slack

    def write(self, value: tuple[float, float]) -> list[float]:
        """Give the list."""
        return list(value)


MIX = Table(
    LeaseMix,
    "Lease types of requests from outside.",
    {
        "shares": Types(
            "shares of the lease types among requests from outside",
            more="; their sum is 1",
            unset="a quarter each",
            name="types",
        ),
        "slack": Slack(
            "slack of the deadline of a Migratable request beyond its earliest end",
            more=", in durations, drawn between two bounds",
        ),
    },
)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster: ``slots`` VMs at a time, or the rule by which a log says how many (`SIZE_RULES`).

    Beside the keys here a cluster may have each key of its terms.
    """

    name: Annotated[str, Text("name")]
    slots: Annotated[
        int | str,
        Slots(
            "number of VMs",
            more="; `max-procs`: from the header of its log; `peak`: as many as its own jobs would use if"
            " each started when it was submitted",
            unset='the cores of its nodes, with `plan = "nodes"`',
        ),
    ] = ""
    terms: ClusterTerms = field(default_factory=ClusterTerms)
    resources: Annotated[Mapping[str, int], RESOURCES] = field(default_factory=dict)
    native_order: Annotated[
        str,
        Choice(
            "order in which the cluster's own scheduler starts its users' jobs, the gateway following it",
            more=": by submission (`fifo`), or the `shortest`, `narrowest` or `widest` first, whatever fits",
            unset="none: the gateway starts them as planned",
            of=NATIVE_ORDERS,
            optional=True,
        ),
    ] = ""
    manager_delay_ms: Annotated[
        int | None,
        Seconds(
            "the cluster decides for itself which guests it takes, and messages to its manager and back take so long",
            unset="none: the gateway decides",
            least_ms=1,
        ),
    ] = None
    peer_ask: Annotated[
        str,
        Choice(
            "the cluster is behind another gateway, a peer, which is asked for what no cluster here can take"
            " (`none-can`), or can start now (`none-can-now`)",
            unset="none: it belongs to this federation",
            of=("none-can", "none-can-now"),
            optional=True,
        ),
    ] = ""
    plan: Annotated[
        str,
        Choice(
            "what the cluster is planned by: `slots` that are alike, or the cores, memory and GPUs of its `nodes`",
            of=("slots", "nodes"),
        ),
    ] = "slots"
    images: Annotated[tuple[str, ...], ImageNames("images that guests may name here", unset="none", optional=True)] = ()
    failures: NodeFailureRates | None = None
    starts: StartTimes | None = None
    nodes: tuple[NodeKind, ...] = ()

    def to_dict(self, defaults: ClusterTerms) -> Plain:
        """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
        plain = CLUSTER.to_dict(self) | terms_to_dict(self.terms, defaults)
        return plain | machines_to_dict(self.failures, self.starts) | nodes_to_dict(self.nodes)


CLUSTER = Table(ClusterSpec, "A cluster, with the keys of [defaults] that differ.")


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Which part of a log is used, by its own time."""

    begin_ms: Annotated[int, Seconds("earliest submission that is used", optional=True)] = 0
    end_ms: Annotated[int | None, Seconds("first submission that is no longer used", unset="the end of the log")] = None
    shift_ms: Annotated[int, Seconds("time in the run at which this part begins", optional=True)] = 0
    from_zero: Annotated[
        bool, Flag("time of the log begins with its first job", more="; `true` by default for GWF and Parquet")
    ] = False


WINDOW = Table(LogWindow, "Part of a log that is used.")


@dataclass(frozen=True, slots=True)
class ModelStream:
    """Requests from the DAS-2 model, with its parameters under the names of JPDC 2012, Table 2.

    They are local to ``site``, or external with the lease types of ``mix`` where it is None. ``together``
    says which are co-allocations.
    """

    name: Annotated[str, Text("name of the stream, which also seeds its random numbers")]
    parameters: Mapping[str, float]
    site: Annotated[str | None, _SITE] = None
    mix: LeaseMix = EVEN_MIX
    load: Annotated[float, _LOAD] = 1.0
    consumer: Annotated[str, Text("consumer of its requests", unset="name of the stream", optional=True)] = ""
    domain: Annotated[str, _BOUND_TO] = ""
    claims: Annotated[Mapping[str, int], CLAIMS] = field(default_factory=dict)
    cores: Annotated[int, ASKED_CORES] = 1
    gpus: Annotated[tuple[str, int], ASKED_GPUS] = ("", 0)
    image: Annotated[str, ASKED_IMAGE] = ""
    together: StreamCoAllocations | None = None
    users: StreamUsers | None = None

    @property
    def has_externals(self) -> bool:
        """Whether its jobs come from outside."""
        return self.site is None

    @property
    def has_locals(self) -> bool:
        """Whether its jobs are those of a cluster's own users."""
        return self.site is not None

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        plain: Plain = {"name": self.name, "model": "das2"} | MODEL_STREAM.to_dict(self)
        plain |= MIX.to_dict(self.mix) if self.has_externals else {}
        return plain | _together_to_dict(self.together) | users_to_dict(self.users) | dict(self.parameters)


MODEL_STREAM = Table(ModelStream, "Requests from a model.")


@dataclass(frozen=True, slots=True)
class LogStream:
    """Requests from a workload log.

    Exactly one of ``site``, ``cluster_by`` and ``external`` = True says whose they are; with one of the first
    two, ``external`` may pick those that come from outside all the same, by values of fields of the log.

    ``slots``     size of a cluster that ``cluster_by`` makes: a number or a rule of `SIZE_RULES`
    ``mix``       lease types of what comes from outside
    ``together``  which of those from outside are co-allocations
    """

    name: Annotated[str, Text("name of the stream, which also seeds its random numbers")]
    path: Annotated[
        str,
        LogFile(
            "log ([SWF, GWF or a table in Parquet](workloads.md))",
            more=", the first two optionally compressed",
            name="log",
        ),
    ]
    format: Annotated[str, Choice("format of the log", unset="by the file name", of=FORMATS)] = ""
    site: Annotated[str | None, _SITE] = None
    cluster_by: Annotated[
        str | None,
        Choice(
            "each request is local to the cluster named by this field of the log",
            more=", such as `partition-3`; `slots` is the size of these clusters",
            of=ID_FIELDS,
        ),
    ] = None
    external: Annotated[
        bool | Mapping[str, tuple[str, ...]],
        External(
            "all requests are from outside",
            more="; or those with these values of fields of the log, such as `{ group = [3, 4] }`",
            optional=True,
        ),
    ] = False
    slots: int | str = PEAK
    reading: Annotated[LogInterpretation, Within("", READING)] = field(default_factory=LogInterpretation)
    consumer_by: Annotated[
        str,
        Text(
            "field of the log that names the consumer, or a path with fields",
            more=", such as `{group}/{user}`",
            convert=_check_consumer,
        ),
    ] = "user"
    replay_cancelled: Annotated[
        bool,
        Flag(
            "jobs that were cancelled before they began (in SWF status 5, without run time) are submitted, and"
            " cancelled after the time that they waited in the log",
            more="; otherwise, and where the log does not say how long they waited or what they requested, they are"
            " left out",
            optional=True,
        ),
    ] = False
    load: Annotated[float, _LOAD] = 1.0
    mix: LeaseMix = EVEN_MIX
    window: LogWindow = field(default_factory=LogWindow)
    domain: Annotated[str, _BOUND_TO] = ""
    claims: Annotated[Mapping[str, int], CLAIMS] = field(default_factory=dict)
    cores: Annotated[int, ASKED_CORES] = 1
    gpus: Annotated[tuple[str, int], ASKED_GPUS] = ("", 0)
    image: Annotated[str, ASKED_IMAGE] = ""
    together: StreamCoAllocations | None = None
    users: StreamUsers | None = None

    @property
    def external_where(self) -> Mapping[str, tuple[str, ...]]:
        """For fields of the log, the values that come from outside all the same."""
        return {} if isinstance(self.external, bool) else self.external

    @property
    def has_externals(self) -> bool:
        """Whether any of its jobs may come from outside."""
        return bool(self.external)

    @property
    def has_locals(self) -> bool:
        """Whether any of its jobs may be those of a cluster's own users."""
        return self.external is not True

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        plain = LOG_STREAM.to_dict(self)
        plain |= MADE_CLUSTERS.to_dict(self) if self.cluster_by is not None else {}
        plain |= MIX.to_dict(self.mix) if self.has_externals else {}
        return plain | _together_to_dict(self.together) | users_to_dict(self.users) | WINDOW.to_dict(self.window)


LOG_STREAM = Table(LogStream, "Requests from a workload log.")
MADE_CLUSTERS = Table(
    LogStream,
    "Clusters that a field of the log defines.",
    {"slots": Slots("size of a cluster defined by `cluster_by`")},
)

StreamSpec = LogStream | ModelStream


@dataclass(frozen=True, slots=True)
class Scenario:
    """Clusters, the streams of requests that meet them, and the rules.

    ``defaults`` are the terms of clusters that say nothing else. The ``agreements`` under which guests run
    are in force from the start unless they say otherwise.
    """

    name: Annotated[str, Text("name of the run")]
    streams: tuple[StreamSpec, ...]
    clusters: tuple[ClusterSpec, ...] = ()
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    defaults: ClusterTerms = field(default_factory=ClusterTerms)
    title: Annotated[str, Text("title, in one sentence", unset="none", optional=True)] = ""
    seed: Annotated[int, Whole("seed of all random streams", least=0, most=MOST_SEED)] = 1
    horizon_ms: Annotated[
        int | None,
        Seconds(
            "end of arrivals, exclusive",
            more="; required with a model, which is unbounded",
            unset="the length of the logs",
            least_ms=1,
        ),
    ] = None
    drain: Annotated[bool, Flag("run until all requests have ended after the last arrival")] = True
    too_wide: Annotated[
        str,
        Choice(
            "treatment of a request wider than all its clusters",
            more=". `error` stops the run before anything is stored; `refuse` lets the clusters refuse it,"
            " with the reason",
            of=TOO_WIDE,
        ),
    ] = "error"
    reference_mips: Annotated[int, Whole("speed to which durations of requests refer")] = 1
    domains: tuple[DomainSpec, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    sharing: SharingSpec = field(default_factory=SharingSpec)
    timeline: tuple[TimelineEntry, ...] = ()
    jobs: tuple[JobEntry, ...] = ()

    @property
    def clock(self) -> RunTime:
        """The clock of the run, as its agreements tell the time."""
        return RunTime(self.sharing.starts_at_ms)

    @property
    def has_externals(self) -> bool:
        """Whether guests can come at all."""
        return bool(self.jobs) or any(stream.has_externals for stream in self.streams)

    @property
    def has_events(self) -> bool:
        """Whether anything happens besides jobs."""
        machines = any(
            cluster.failures or cluster.starts or cluster.native_order or cluster.manager_delay_ms
            for cluster in self.clusters
        )
        return bool(self.timeline or machines or any(map(_has_unruly_users, self.streams)))

    def to_dict(self) -> Plain:
        """Give the scenario as its file would say it, complete and with the default values filled in."""
        plain = SCENARIO.to_dict(self)
        plain |= {"gateway": GATEWAY.to_dict(self.gateway), "defaults": TERMS.to_dict(self.defaults)}
        plain["cluster"] = [cluster.to_dict(self.defaults) for cluster in self.clusters]
        plain["stream"] = [stream.to_dict() for stream in self.streams]
        if self.timeline:
            plain["timeline"] = [entry.to_dict(self.clock) for entry in self.timeline]
        if self.jobs:
            plain["job"] = [JOB.to_dict(entry) for entry in self.jobs]
        return plain | self._agreed_to_dict()

    def _agreed_to_dict(self) -> Plain:
        is_default = self.sharing == SharingSpec()
        plain: Plain = {} if is_default else {"sharing": SHARING_OF_RUN.to_dict(self.sharing)}
        if self.domains:
            plain["domain"] = [DOMAIN.to_dict(domain) for domain in self.domains]
        if self.agreements:
            plain["agreement"] = [agreement_to_dict(one, self.clock) for one in self.agreements]
        return plain


def _has_unruly_users(stream: StreamSpec) -> bool:
    """Whether the users of a stream do anything but wait."""
    return stream.users is not None or (isinstance(stream, LogStream) and stream.replay_cancelled)


SCENARIO = Table(Scenario, "A scenario: clusters, their streams of requests, and the rules.")


def _together_to_dict(together: StreamCoAllocations | None) -> Plain:
    return {} if together is None else {"together": TOGETHER.to_dict(together)}
