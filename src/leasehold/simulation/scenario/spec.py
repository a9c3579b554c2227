"""What a scenario says: plain data, checked when it was read, with nothing opened or made yet.

Times are whole milliseconds here and seconds in files. `Scenario.to_dict` gives the keys of the file again,
and `leasehold.simulation.scenario.parse` reads them: that round trip changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from leasehold.configuration.agreements import agreement_to_dict
from leasehold.configuration.domains import DomainSpec
from leasehold.configuration.gateway import GatewaySpec
from leasehold.configuration.moments import RunTime
from leasehold.configuration.plain import Plain, differing, seconds
from leasehold.configuration.sharing import SharingSpec
from leasehold.configuration.terms import ClusterTerms
from leasehold.model.agreement import Agreement
from leasehold.simulation.workload.interpretation import Interpretation
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix
from leasehold.simulation.workload.together import Together

DEFAULT_SEED = 1
TOO_WIDE = ("error", "refuse")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster: ``slots`` VMs at a time, or the rule by which a log says how many (`SIZE_RULES`).

    ``resources`` are units of whatever else it has, memory or licences; memory that is not said is enough.
    """

    name: str
    slots: int | str
    terms: ClusterTerms = field(default_factory=ClusterTerms)
    resources: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self, defaults: ClusterTerms) -> Plain:
        """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
        usual, told = defaults.to_dict(), self.terms.to_dict()
        overhead = differing(told.pop("overhead"), usual.pop("overhead"))
        own: Plain = {"name": self.name, "slots": self.slots} | differing(told, usual)
        own |= {"resources": dict(self.resources)} if self.resources else {}
        return own | ({"overhead": overhead} if overhead else {})


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a log is used: what was submitted from ``begin_ms`` to before ``end_ms`` of its own time.

    The window begins at ``shift_ms`` of the run. ``from_zero``: the log's own time begins with its first job.
    """

    begin_ms: int = 0
    end_ms: int | None = None
    shift_ms: int = 0
    from_zero: bool = False

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        told = seconds("begin_s", self.begin_ms or None) | seconds("end_s", self.end_ms)
        told |= seconds("shift_s", self.shift_ms or None)
        return told | {"from_zero": self.from_zero}


@dataclass(frozen=True, slots=True)
class ModelStream:
    """Requests from the DAS-2 model, with its parameters under the names of JPDC 2012, Table 2.

    They are local to ``site``, or external with the lease types of ``mix`` where it is None. ``load`` is how
    many times as many come in the same time. They come on the account of ``consumer``, or of the stream where
    it is empty. ``domain`` and ``claims`` are as those of a `Job`; ``together`` says which
    are joint requests.
    """

    name: str
    parameters: Mapping[str, float]
    site: str | None = None
    mix: LeaseMix = EVEN_MIX
    load: float = 1.0
    consumer: str = ""
    domain: str = ""
    claims: Mapping[str, int] = field(default_factory=dict)
    together: Together | None = None

    @property
    def has_externals(self) -> bool:
        """Whether its jobs come from outside."""
        return self.site is None

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        whose = _mix_to_dict(self.mix) if self.site is None else {"site": self.site}
        told: Plain = {"name": self.name, "model": "das2", **whose, "load": self.load}
        told |= {"consumer": self.consumer} if self.consumer else {}
        told |= _bound_to_dict(self.domain, self.claims) | _together_to_dict(self.together)
        return told | dict(self.parameters)


@dataclass(frozen=True, slots=True)
class LogStream:
    """Requests from the workload log at ``path``, in the ``format`` swf or gwf.

    Exactly one of these says whose they are:

    ``site``        all are local to this cluster
    ``cluster_by``  each is local to the cluster named by this field of the log, as in ``partition-3``
    ``external``    all come from outside

    and with one of the first two, ``external_where`` picks those that come from outside all the same: for a
    field of the log, the values that do. Further:

    ``slots``        size of a cluster that ``cluster_by`` makes: a number or a rule of `SIZE_RULES`
    ``reading``      what the numbers of a line mean
    ``consumer_by``  the field that names the consumer, or a path of fields such as ``{group}/{user}``
    ``load``         how many times as many come in the same time: gaps are divided by it
    ``mix``          lease types of what comes from outside
    ``domain``       the virtual domain or site that all are bound to, "" for any; ``claims``: what all hold
    ``together``     which of those from outside are joint requests
    """

    name: str
    path: str
    format: str
    site: str | None = None
    cluster_by: str | None = None
    external: bool = False
    external_where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slots: int | str = "peak"
    reading: Interpretation = field(default_factory=Interpretation)
    consumer_by: str = "user"
    load: float = 1.0
    mix: LeaseMix = EVEN_MIX
    window: Window = field(default_factory=Window)
    domain: str = ""
    claims: Mapping[str, int] = field(default_factory=dict)
    together: Together | None = None

    @property
    def has_externals(self) -> bool:
        """Whether any of its jobs may come from outside."""
        return self.external or bool(self.external_where)

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        told: Plain = {"name": self.name, "log": self.path, "format": self.format}
        told |= self._whose() | {f.name: getattr(self.reading, f.name) for f in fields(self.reading)}
        told |= {"consumer_by": self.consumer_by, "load": self.load}
        told |= _mix_to_dict(self.mix) if self.has_externals else {}
        told |= _bound_to_dict(self.domain, self.claims) | _together_to_dict(self.together)
        return told | self.window.to_dict()

    def _whose(self) -> Plain:
        told: Plain = {} if self.site is None else {"site": self.site}
        if self.cluster_by is not None:
            told |= {"cluster_by": self.cluster_by, "slots": self.slots}
        if self.external:
            told["external"] = True
        elif self.external_where:
            told["external"] = {key: list(values) for key, values in self.external_where.items()}
        return told


StreamSpec = LogStream | ModelStream


@dataclass(frozen=True, slots=True)
class Scenario:
    """Clusters, the streams of requests that meet them, and the rules.

    ``horizon_ms``      no request comes at or after it, None for as long as the streams last
    ``drain``           whether the run goes on after that until everything has ended
    ``too_wide``        whether a request wider than every cluster it may run on is an ``error`` in the
                        input, or is left to the clusters to ``refuse``
    ``reference_mips``  the speed that requested durations refer to
    ``defaults``        the terms of clusters that say nothing else
    ``title``           one sentence for people
    ``domains``         virtual domains of the clusters
    ``agreements``      under which guests run, in force from the start unless they say otherwise
    ``sharing``         how agreements are applied
    """

    name: str
    streams: tuple[StreamSpec, ...]
    clusters: tuple[ClusterSpec, ...] = ()
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    defaults: ClusterTerms = field(default_factory=ClusterTerms)
    seed: int = DEFAULT_SEED
    horizon_ms: int | None = None
    drain: bool = True
    too_wide: str = "error"
    reference_mips: int = 1
    title: str = ""
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
        """Give the scenario as its file would say it, complete and with the usual values filled in."""
        told: Plain = {"name": self.name} | ({"title": self.title} if self.title else {})
        told |= {"seed": self.seed} | seconds("horizon_s", self.horizon_ms)
        told |= {"drain": self.drain, "too_wide": self.too_wide, "reference_mips": self.reference_mips}
        told |= {"gateway": self.gateway.to_dict(), "defaults": self.defaults.to_dict()}
        told["cluster"] = [cluster.to_dict(self.defaults) for cluster in self.clusters]
        told["stream"] = [stream.to_dict() for stream in self.streams]
        return told | self._agreed_to_dict()

    def _agreed_to_dict(self) -> Plain:
        told: Plain = {} if self.sharing == SharingSpec() else {"sharing": self.sharing.to_dict()}
        if self.domains:
            told["domain"] = [domain.to_dict() for domain in self.domains]
        if self.agreements:
            told["agreement"] = [agreement_to_dict(one, self.clock) for one in self.agreements]
        return told


def _mix_to_dict(mix: LeaseMix) -> Plain:
    return {"types": {kind.label: share for kind, share in mix.shares.items()}, "slack": list(mix.slack)}


def _bound_to_dict(domain: str, claims: Mapping[str, int]) -> Plain:
    told: Plain = {"domain": domain} if domain else {}
    return told | ({"claims": dict(claims)} if claims else {})


def _together_to_dict(together: Together | None) -> Plain:
    return {} if together is None else {"together": together.to_dict()}
