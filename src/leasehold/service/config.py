"""What a service is told before it starts: plain data, checked when it was read.

Times are whole milliseconds here and seconds in files. `ServiceConfig.to_dict` gives the keys of the file
again, and `leasehold.service.config_file` reads them: that round trip changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.configuration.domains import DomainSpec
from leasehold.configuration.gateway import GatewaySpec
from leasehold.configuration.plain import Plain, differing, seconds
from leasehold.configuration.sharing import SharingSpec
from leasehold.configuration.terms import LIVE_POLICY, ClusterTerms
from leasehold.leasing.victims.guard import Guard
from leasehold.service.auth.issuers import TrustedIssuer
from leasehold.service.auth.listening import is_loopback
from leasehold.service.config_issuer import issuer_to_dict
from leasehold.service.config_jobs import JobsSpec
from leasehold.service.connections import ConnectionLimits
from leasehold.service.engine.agenda import START_WITHIN_MS
from leasehold.service.store.housekeeping import Before
from leasehold.sharing.enforcement import PREEMPTABLE

_DAY_MS = 86_400_000
WHO_MAY_LOOK = ("auto", "open", "token")
LOG_FORMATS = ("auto", "console", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """Where the gateway listens, where it keeps what it knows, and how often it looks after it.

    ``host, port``             where it listens; port 0 is any free one
    ``url``                    the address under which users reach it, "" where that is where it listens
    ``data``                   its folder, None for the usual one of this user
    ``store``                  URL of the database, "" for a SQLite file in the data folder
    ``tls_certificate``        PEM files, both or neither, and ``tls_key``; anywhere but on this machine
                               itself, both
    ``behind_tls_proxy``       or this: whoever reaches it has come through a proxy that speaks TLS
    ``reference_mips``         the speed that requested durations refer to
    ``check_every_ms``         how often all promises are checked, 0 for never
    ``reconcile_every_ms``     how often all machines are looked at as a whole
    ``start_within_ms``        for how long machines of a guest may be on their way before it is tried at
                               another site
    ``shutdown_ms``            how long requests under way may take when the gateway is stopped
    ``probes, metrics, page``  who may ask for health, for metrics, for the numbers on the page at ``/``:
                               everybody (``open``), who has a token
                               (``token``), or everybody while only this machine can reach it (``auto``)
    """

    host: str = "127.0.0.1"
    port: int = 8470
    url: str = ""
    data: Path | None = None
    store: str = ""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    behind_tls_proxy: bool = False
    reference_mips: int = 1
    check_every_ms: int = 60_000
    reconcile_every_ms: int = 30_000
    start_within_ms: int = START_WITHIN_MS
    shutdown_ms: int = 20_000
    probes: str = "auto"
    metrics: str = "auto"
    page: str = "auto"

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host) and not self.behind_tls_proxy

    def needs_token(self, who_may_look: str) -> bool:
        """Whether a token has to be shown for what is set to this."""
        return who_may_look == "token" or (who_may_look == "auto" and not self.is_private)

    def to_dict(self) -> Plain:
        """Give the keys of ``[service]``."""
        told: Plain = {"host": self.host, "port": self.port}
        told |= {"url": self.url} if self.url else {}
        told |= {} if self.data is None else {"data": str(self.data)}
        told |= {"store": self.store} if self.store else {}
        if self.tls_certificate is not None:
            told |= {"tls_certificate": str(self.tls_certificate), "tls_key": str(self.tls_key)}
        told |= {"behind_tls_proxy": self.behind_tls_proxy, "reference_mips": self.reference_mips}
        told |= seconds("check_every_s", self.check_every_ms)
        told |= seconds("reconcile_every_s", self.reconcile_every_ms)
        told |= seconds("start_within_s", self.start_within_ms)
        told |= seconds("shutdown_s", self.shutdown_ms)
        return told | {"probes": self.probes, "metrics": self.metrics, "page": self.page}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one consumer may ask for; what goes beyond is refused before anything is done.

    ``body_kib``                    the largest body of a request
    ``open_requests_per_consumer``  leases of one consumer that are not over
    ``requests_per_s``              requests in the long run, 0 for any number; ``burst``: so many at once
    ``submissions_per_hour``        leases, joint leases and jobs asked for in an hour, 0 for any number
    ``output_mib_per_consumer``     of what commands of jobs wrote, 0 for any amount: beyond it the oldest go
    ``streams_per_consumer``        streams of changes that are open
    ``open_connections``            connections that are open, of everybody together
    ``idle_per_address``            of them, those of one address that have not asked for anything
    ``head_within_ms``              how long the head of a request may take
    ``body_within_ms``              and its body; ``answer_within_ms``: and nobody taking in the answer
    """

    body_kib: int = 64
    open_requests_per_consumer: int = 10_000
    requests_per_s: float = 200.0
    burst: int = 400
    submissions_per_hour: int = 50_000
    output_mib_per_consumer: int = 1_024
    streams_per_consumer: int = 8
    open_connections: int = 4_000
    idle_per_address: int = 200
    head_within_ms: int = 10_000
    body_within_ms: int = 60_000
    answer_within_ms: int = 60_000

    def connections(self) -> ConnectionLimits:
        """Give the bounds on connections."""
        return ConnectionLimits(
            most=self.open_connections,
            per_address=self.idle_per_address,
            head_s=self.head_within_ms / 1000,
            body_s=self.body_within_ms / 1000,
            answer_s=self.answer_within_ms / 1000,
        )

    def to_dict(self) -> Plain:
        """Give the keys of ``[limits]``."""
        told: Plain = {}
        for name in self.__slots__:
            value = getattr(self, name)
            told |= seconds(f"{name.removesuffix('_ms')}_s", value) if name.endswith("_ms") else {name: value}
        return told


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many days the store keeps what is over; 0: for ever.

    ``leases_days``   closed leases, joint leases and jobs, with everything of them, since they ended
    ``journal_days``  lines of the journal about what is closed
    ``outputs_days``  what commands of closed jobs wrote
    ``usage_days``    what leases used, of which statements and agreements are made; as long as any agreement
                      looks back it stays anyway
    ``answers_days``  answers to idempotency keys, and orders that were carried out
    """

    leases_days: int = 400
    journal_days: int = 100
    outputs_days: int = 100
    usage_days: int = 3_660
    answers_days: int = 7

    def before(self, now_ms: int) -> Before:
        """Say what is too old now."""
        moments = {
            f"{name.removesuffix('_days')}_ms": now_ms - days * _DAY_MS
            if (days := getattr(self, name))
            else 0
            for name in self.__slots__
        }
        return Before(**moments)

    def to_dict(self) -> Plain:
        """Give the keys of ``[retention]``."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class LogSpec:
    """What is said while it works.

    ``format``    ``auto`` is for people on a terminal, and JSON lines elsewhere
    ``level``     the least that is said: debug, info, warning or error
    ``requests``  whether each request is a line
    """

    format: str = "auto"
    level: str = "info"
    requests: bool = True

    def to_dict(self) -> Plain:
        """Give the keys of ``[log]``."""
        return {name: getattr(self, name) for name in self.__slots__}


def usual_routing() -> GatewaySpec:
    """Give how guests are sent where the administrator says nothing else: to where room is free now.

    Scenarios have another usual policy, that of the papers, which looks at no site's state.
    """
    return GatewaySpec(policy="most-free", try_elsewhere=True, use_free_room=True)


def usual_sharing() -> SharingSpec:
    """Give who is let in where the administrator says nothing else.

    Without an agreement these are members, to whom he gave a token, with guests that can be preempted.
    """
    return SharingSpec(without_agreement=PREEMPTABLE)


def usual_terms(speed_mips: int = 1) -> ClusterTerms:
    """Give the terms of a site whose owner says nothing else.

    Reservations are for the first hundred who wait, of each kind, and who stands further behind may overtake
    only where that delays none of them: a queue of thousands is then planned as quickly as one of a hundred.
    A guest that came back goes on at least as long as that took, while others could give way instead.
    Non-preemptable guests, the only ones that an owner's users may have to wait for, are allowed none.
    """
    return ClusterTerms(
        speed_mips=speed_mips,
        local_policy=LIVE_POLICY,
        guest_policy=LIVE_POLICY,
        non_preemptable_share=0.0,
        guard=Guard(least_run_resumes=1),
    )


@dataclass(frozen=True, slots=True)
class SiteSpec:
    """One site: ``slots`` VMs at a time, its owner's terms, and what carries orders out on its machines.

    ``enactor``    the kind, a name of `leasehold.service.enactors.registry`
    ``options``    what that kind is told: the table ``[cluster.KIND]``, which it checks itself
    ``resources``  units of what it has besides its slots: memory, licences, services
    """

    name: str
    slots: int
    terms: ClusterTerms = field(default_factory=usual_terms)
    enactor: str = "emulated"
    options: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self, defaults: ClusterTerms) -> Plain:
        """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
        usual, told = defaults.to_dict(), self.terms.to_dict()
        overhead = differing(told.pop("overhead"), usual.pop("overhead"))
        own: Plain = {"name": self.name, "slots": self.slots, "enactor": self.enactor}
        own |= {"resources": dict(self.resources)} if self.resources else {}
        own |= differing(told, usual)
        own |= {"overhead": overhead} if overhead else {}
        return own | ({self.enactor: dict(self.options)} if self.options else {})


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """A gateway with its sites, and the rules.

    ``defaults``  the terms of sites that say nothing else
    ``domains``   virtual domains: sites that lend together
    ``sharing``   how agreements are applied
    ``jobs``      how jobs with needs are served
    ``issuers``   whose tokens count beside those that the gateway gives out
    """

    clusters: tuple[SiteSpec, ...]
    service: ServiceSpec = field(default_factory=ServiceSpec)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    gateway: GatewaySpec = field(default_factory=usual_routing)
    defaults: ClusterTerms = field(default_factory=usual_terms)
    domains: tuple[DomainSpec, ...] = ()
    sharing: SharingSpec = field(default_factory=usual_sharing)
    issuers: tuple[TrustedIssuer, ...] = ()
    log: LogSpec = field(default_factory=LogSpec)
    jobs: JobsSpec = field(default_factory=JobsSpec)

    def to_dict(self) -> Plain:
        """Give the configuration as its file would say it, complete and with the usual values filled in."""
        told: Plain = {
            "service": self.service.to_dict(),
            "limits": self.limits.to_dict(),
            "retention": self.retention.to_dict(),
            "gateway": self.gateway.to_dict(),
            "sharing": self.sharing.to_dict(),
            "jobs": self.jobs.to_dict(),
            "log": self.log.to_dict(),
            "defaults": self.defaults.to_dict(),
            "cluster": [site.to_dict(self.defaults) for site in self.clusters],
        }
        told |= {"domain": [domain.to_dict() for domain in self.domains]} if self.domains else {}
        return told | ({"issuer": [issuer_to_dict(one) for one in self.issuers]} if self.issuers else {})
