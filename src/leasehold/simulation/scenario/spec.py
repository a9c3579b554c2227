"""What a scenario says: plain data, checked when it was read, with nothing opened or made yet.

Times are whole milliseconds here and seconds in files. `Scenario.to_dict` gives the keys of the file again,
and `leasehold.simulation.scenario.parse` reads them: that round trip changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from leasehold.configuration.agreements import agreement_to_dict
from leasehold.configuration.declaration import Key, Plain, Table, Within
from leasehold.configuration.keys import MOST_SEED, MOST_SLOTS, Keys
from leasehold.configuration.kinds import Choice, Flag, Number, Seconds, Text, Whole
from leasehold.configuration.tables import (
    CLAIMS,
    DOMAIN,
    GATEWAY,
    RESOURCES,
    SHARING_OF_RUN,
    DomainSpec,
    GatewaySpec,
    SharingSpec,
)
from leasehold.configuration.terms import TERMS, ClusterTerms, terms_to_dict
from leasehold.configuration.times import RunTime
from leasehold.model.agreement import Agreement
from leasehold.model.errors import UnknownName
from leasehold.simulation.workload.interpretation import READING, Interpretation
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix
from leasehold.simulation.workload.log_record import ID_FIELDS
from leasehold.simulation.workload.sizing import SIZE_RULES
from leasehold.simulation.workload.split import Rule
from leasehold.simulation.workload.together import TOGETHER, Together

TOO_WIDE = ("error", "refuse")


_LOAD = Number("how many times as many requests come in the same time", least=1e-6, most=1e6)
_BOUND_TO = Text(
    "the [virtual domain](agreements.md#domain) or cluster that its guests are bound to",
    unset="any",
    optional=True,
)


def _check_consumer(text: str) -> str:
    if "{" in text or "}" in text:
        Rule(consumer=text)
    elif text not in ID_FIELDS:
        raise UnknownName("consumer_by", text, ID_FIELDS)
    return text


class Slots(Key):
    """A number of slots, or the rule by which a log tells it."""

    accepts = ", ".join([f"whole number from 1 to {MOST_SLOTS:,}", *(f'`"{rule}"`' for rule in SIZE_RULES)])

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the number or the rule."""
        return keys.whole_or_name(name, SIZE_RULES, default, most=MOST_SLOTS)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster: ``slots`` VMs at a time, or the rule by which a log says how many (`SIZE_RULES`).

    Beside the keys here a cluster may have each key of its terms.
    """

    name: Annotated[str, Text("its name")]
    slots: Annotated[
        int | str,
        Slots(
            "how many VMs run at a time",
            more="; or `max-procs`: as the header of its log says; or `peak`: as many as its own jobs would"
            " take had each started when it was submitted",
        ),
    ]
    terms: ClusterTerms = field(default_factory=ClusterTerms)
    resources: Annotated[Mapping[str, int], RESOURCES] = field(default_factory=dict)

    def to_dict(self, defaults: ClusterTerms) -> Plain:
        """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
        return CLUSTER.to_dict(self) | terms_to_dict(self.terms, defaults)


CLUSTER = Table(ClusterSpec, "A cluster, with any key of [defaults] that is different here.")


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a log is used, by its own time."""

    begin_ms: Annotated[int, Seconds("use what was submitted from then", optional=True)] = 0
    end_ms: Annotated[int | None, Seconds("until just before then", unset="the end of the log")] = None
    shift_ms: Annotated[int, Seconds("when in the run that part begins", optional=True)] = 0
    from_zero: Annotated[
        bool, Flag("the log's own time begins with its first job", more="; `true` by default for GWF")
    ] = False


WINDOW = Table(Window, "Which part of a log is used.")


@dataclass(frozen=True, slots=True)
class ModelStream:
    """Requests from the DAS-2 model, with its parameters under the names of JPDC 2012, Table 2.

    They are local to ``site``, or external with the lease types of ``mix`` where it is None. ``together``
    says which are joint requests.
    """

    name: Annotated[str, Text("names the stream, and its random numbers")]
    parameters: Mapping[str, float]
    site: str | None = None
    mix: LeaseMix = EVEN_MIX
    load: Annotated[float, _LOAD] = 1.0
    consumer: Annotated[
        str, Text("on whose account its requests come", unset="the stream's name", optional=True)
    ] = ""
    domain: Annotated[str, _BOUND_TO] = ""
    claims: Annotated[Mapping[str, int], CLAIMS] = field(default_factory=dict)
    together: Together | None = None

    @property
    def has_externals(self) -> bool:
        """Whether its jobs come from outside."""
        return self.site is None

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        plain: Plain = {"name": self.name, "model": "das2"} | MODEL_STREAM.to_dict(self)
        plain |= _mix_to_dict(self.mix) if self.site is None else {"site": self.site}
        return plain | _together_to_dict(self.together) | dict(self.parameters)


MODEL_STREAM = Table(ModelStream, "Requests from a model.")


@dataclass(frozen=True, slots=True)
class LogStream:
    """Requests from the workload log at ``path``, in the ``format`` swf or gwf.

    Exactly one of these says whose they are:

    ``site``        all are local to this cluster
    ``cluster_by``  each is local to the cluster named by this field of the log, as in ``partition-3``
    ``external``    all come from outside

    and with one of the first two, ``external_where`` picks those that come from outside all the same: for a
    field of the log, the values that do. Further:

    ``slots``     size of a cluster that ``cluster_by`` makes: a number or a rule of `SIZE_RULES`
    ``mix``       lease types of what comes from outside
    ``together``  which of those from outside are joint requests
    """

    name: Annotated[str, Text("names the stream, and its random numbers")]
    path: str
    format: str
    site: str | None = None
    cluster_by: str | None = None
    external: bool = False
    external_where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slots: int | str = "peak"
    reading: Annotated[Interpretation, Within("", READING)] = field(default_factory=Interpretation)
    consumer_by: Annotated[
        str,
        Text(
            "the field that names the consumer, or a path with fields in it",
            more=", as in `{group}/{user}`",
            convert=_check_consumer,
        ),
    ] = "user"
    load: Annotated[float, _LOAD] = 1.0
    mix: LeaseMix = EVEN_MIX
    window: Window = field(default_factory=Window)
    domain: Annotated[str, _BOUND_TO] = ""
    claims: Annotated[Mapping[str, int], CLAIMS] = field(default_factory=dict)
    together: Together | None = None

    @property
    def has_externals(self) -> bool:
        """Whether any of its jobs may come from outside."""
        return self.external or bool(self.external_where)

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        plain: Plain = {"name": self.name, "log": self.path, "format": self.format}
        plain |= self._whose() | LOG_STREAM.to_dict(self)
        plain |= _mix_to_dict(self.mix) if self.has_externals else {}
        return plain | _together_to_dict(self.together) | WINDOW.to_dict(self.window)

    def _whose(self) -> Plain:
        plain: Plain = {} if self.site is None else {"site": self.site}
        if self.cluster_by is not None:
            plain |= {"cluster_by": self.cluster_by, "slots": self.slots}
        if self.external:
            plain["external"] = True
        elif self.external_where:
            plain["external"] = {key: list(values) for key, values in self.external_where.items()}
        return plain


LOG_STREAM = Table(LogStream, "Requests from a workload log.")

StreamSpec = LogStream | ModelStream


@dataclass(frozen=True, slots=True)
class Scenario:
    """Clusters, the streams of requests that meet them, and the rules.

    ``defaults`` are the terms of clusters that say nothing else. The ``agreements`` under which guests run
    are in force from the start unless they say otherwise.
    """

    name: Annotated[str, Text("names the run")]
    streams: tuple[StreamSpec, ...]
    clusters: tuple[ClusterSpec, ...] = ()
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    defaults: ClusterTerms = field(default_factory=ClusterTerms)
    title: Annotated[str, Text("one sentence for people", unset="none", optional=True)] = ""
    seed: Annotated[int, Whole("of all random streams", least=0, most=MOST_SEED)] = 1
    horizon_ms: Annotated[
        int | None,
        Seconds(
            "no request comes at or after it",
            more="; required with a model, which never ends",
            unset="as long as the logs last",
            least_ms=1,
        ),
    ] = None
    drain: Annotated[bool, Flag("whether the run goes on after that until everything has ended")] = True
    too_wide: Annotated[
        str,
        Choice(
            "what becomes of a request wider than every cluster that it may run on",
            more=". `error` stops the run before anything is kept; `refuse` lets the clusters refuse it,"
            " with the reason",
            of=TOO_WIDE,
        ),
    ] = "error"
    reference_mips: Annotated[int, Whole("the speed that durations of requests refer to")] = 1
    domains: tuple[DomainSpec, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    sharing: SharingSpec = field(default_factory=SharingSpec)

    @property
    def clock(self) -> RunTime:
        """The clock of the run, as its agreements tell the time."""
        return RunTime(self.sharing.starts_at_ms)

    @property
    def has_externals(self) -> bool:
        """Whether guests can come at all."""
        return any(stream.has_externals for stream in self.streams)

    def to_dict(self) -> Plain:
        """Give the scenario as its file would say it, complete and with the default values filled in."""
        plain = SCENARIO.to_dict(self)
        plain |= {"gateway": GATEWAY.to_dict(self.gateway), "defaults": TERMS.to_dict(self.defaults)}
        plain["cluster"] = [cluster.to_dict(self.defaults) for cluster in self.clusters]
        plain["stream"] = [stream.to_dict() for stream in self.streams]
        return plain | self._agreed_to_dict()

    def _agreed_to_dict(self) -> Plain:
        is_default = self.sharing == SharingSpec()
        plain: Plain = {} if is_default else {"sharing": SHARING_OF_RUN.to_dict(self.sharing)}
        if self.domains:
            plain["domain"] = [DOMAIN.to_dict(domain) for domain in self.domains]
        if self.agreements:
            plain["agreement"] = [agreement_to_dict(one, self.clock) for one in self.agreements]
        return plain


SCENARIO = Table(Scenario, "A scenario: clusters, streams of requests that meet them, and the rules.")


def _mix_to_dict(mix: LeaseMix) -> Plain:
    return {"types": {kind.label: share for kind, share in mix.shares.items()}, "slack": list(mix.slack)}


def _together_to_dict(together: Together | None) -> Plain:
    return {} if together is None else {"together": TOGETHER.to_dict(together)}
