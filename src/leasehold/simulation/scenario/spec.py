"""What a scenario says: plain data, checked when it was read, with nothing opened or made yet.

Times are whole milliseconds here and seconds in files. `Scenario.to_dict` gives the keys of the file again,
and `leasehold.simulation.scenario.parse` reads them: that round trip changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from leasehold.leasing.overhead import OverheadModel
from leasehold.simulation.workload.interpretation import Interpretation
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix

DEFAULT_SEED = 1
LOCAL_QUEUES = ("queue", "refuse")
TOO_WIDE = ("error", "refuse")
MOMENTS = ("learnt", "told")

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """How guests are sent to clusters.

    ``policy``         a routing policy
    ``moments``        whether the rates and sizes of streams are ``learnt`` from what came, or ``told``: the
                       true ones of the model (those of a log are always learnt)
    ``try_elsewhere``  whether a guest that its cluster refuses is offered to the others
    ``tick_ms``        how often requests that the policy holds are asked about again at the latest
    """

    policy: str = "pap-rtdp"
    moments: str = "learnt"
    try_elsewhere: bool = False
    tick_ms: int = 10_000

    def to_dict(self) -> Plain:
        """Give the keys of ``[gateway]``."""
        told = {"policy": self.policy, "moments": self.moments, "try_elsewhere": self.try_elsewhere}
        return told | _seconds("tick_s", self.tick_ms)


@dataclass(frozen=True, slots=True)
class ClusterTerms:
    """What the owner of a cluster decides about it, apart from its name and size.

    ``speed_mips``              speed of one slot
    ``local_policy``            backfilling discipline for the owner's users, ``guest_policy`` for guests
    ``victims``                 who gives way; ``value_order``: only after all less valuable lease types
    ``local_queue``             ``queue`` or ``refuse`` a local request that cannot start at once
    ``non_preemptable_share``   part of the slots that Non-preemptable guests may have, None for all
    ``non_preemptable_max_ms``  longest such guest on this cluster, None for any
    ``repair``                  which guests are planned anew after the owner's users took room
    ``overhead``                what it costs to preempt a guest
    """

    speed_mips: int = 1
    local_policy: str = "conservative"
    guest_policy: str = "conservative"
    victims: str = "moml"
    value_order: bool = True
    local_queue: str = "queue"
    non_preemptable_share: float | None = None
    non_preemptable_max_ms: int | None = None
    repair: str = "conflicts"
    overhead: OverheadModel = field(default_factory=OverheadModel)

    def to_dict(self) -> Plain:
        """Give the keys of ``[defaults]`` or ``[[cluster]]``, those that are None left out."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "non_preemptable_max_ms"}
        told["overhead"] = {f.name: getattr(self.overhead, f.name) for f in fields(self.overhead)}
        told["overhead"]["storage"] = str(self.overhead.storage)
        told |= _seconds("non_preemptable_max_s", self.non_preemptable_max_ms)
        return {key: value for key, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster: ``slots`` VMs at a time, or the rule by which a log says how many (`SIZE_RULES`)."""

    name: str
    slots: int | str
    terms: ClusterTerms = field(default_factory=ClusterTerms)

    def to_dict(self, defaults: ClusterTerms) -> Plain:
        """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
        usual, told = defaults.to_dict(), self.terms.to_dict()
        overhead = _differing(told.pop("overhead"), usual.pop("overhead"))
        own = {"name": self.name, "slots": self.slots} | _differing(told, usual)
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
        told = _seconds("begin_s", self.begin_ms or None) | _seconds("end_s", self.end_ms)
        told |= _seconds("shift_s", self.shift_ms or None)
        return told | {"from_zero": self.from_zero}


@dataclass(frozen=True, slots=True)
class ModelStream:
    """Requests from the DAS-2 model, with its parameters under the names of JPDC 2012, Table 2.

    They are local to ``site``, or external with the lease types of ``mix`` where it is None. ``load`` is how
    many times as many come in the same time.
    """

    name: str
    parameters: Mapping[str, float]
    site: str | None = None
    mix: LeaseMix = EVEN_MIX
    load: float = 1.0

    @property
    def has_externals(self) -> bool:
        """Whether its jobs come from outside."""
        return self.site is None

    def to_dict(self) -> Plain:
        """Give the keys of ``[[stream]]``."""
        whose = _mix_to_dict(self.mix) if self.site is None else {"site": self.site}
        return {"name": self.name, "model": "das2", **whose, "load": self.load, **self.parameters}


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
    ``consumer_by``  the field that names the consumer
    ``load``         how many times as many come in the same time: gaps are divided by it
    ``mix``          lease types of what comes from outside
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

    @property
    def has_externals(self) -> bool:
        """Whether guests can come at all."""
        return any(stream.has_externals for stream in self.streams)

    def to_dict(self) -> Plain:
        """Give the scenario as its file would say it, complete and with the usual values filled in."""
        told: Plain = {"name": self.name} | ({"title": self.title} if self.title else {})
        told |= {"seed": self.seed} | _seconds("horizon_s", self.horizon_ms)
        told |= {"drain": self.drain, "too_wide": self.too_wide, "reference_mips": self.reference_mips}
        told |= {"gateway": self.gateway.to_dict(), "defaults": self.defaults.to_dict()}
        told["cluster"] = [cluster.to_dict(self.defaults) for cluster in self.clusters]
        told["stream"] = [stream.to_dict() for stream in self.streams]
        return told


def _seconds(key: str, value_ms: int | None) -> Plain:
    if value_ms is None:
        return {}
    return {key: value_ms // 1000 if value_ms % 1000 == 0 else value_ms / 1000}


def _mix_to_dict(mix: LeaseMix) -> Plain:
    return {"types": {kind.label: share for kind, share in mix.shares.items()}, "slack": list(mix.slack)}


def _differing(values: Plain, usual: Plain) -> Plain:
    return {key: value for key, value in values.items() if usual.get(key) != value}
