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
from leasehold.configuration.terms import ClusterTerms
from leasehold.service.auth.issuers import TrustedIssuer
from leasehold.service.auth.listening import is_loopback
from leasehold.service.config_issuer import issuer_to_dict
from leasehold.service.config_jobs import JobsSpec

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
    ``shutdown_ms``            how long requests under way may take when the gateway is stopped
    ``probes, metrics``        who may ask for health and metrics: everybody (``open``), who has a token
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
    shutdown_ms: int = 20_000
    probes: str = "auto"
    metrics: str = "auto"

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
        told |= seconds("shutdown_s", self.shutdown_ms)
        return told | {"probes": self.probes, "metrics": self.metrics}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one consumer may ask for; what goes beyond is refused before anything is done.

    ``body_kib``                    the largest body of a request
    ``open_requests_per_consumer``  leases of one consumer that are not over
    ``requests_per_s``              requests in the long run, 0 for any number; ``burst``: so many at once
    ``streams_per_consumer``        streams of changes that are open
    """

    body_kib: int = 64
    open_requests_per_consumer: int = 10_000
    requests_per_s: float = 200.0
    burst: int = 400
    streams_per_consumer: int = 8

    def to_dict(self) -> Plain:
        """Give the keys of ``[limits]``."""
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


@dataclass(frozen=True, slots=True)
class SiteSpec:
    """One site: ``slots`` VMs at a time, its owner's terms, and what carries orders out on its machines.

    ``enactor``    the kind, a name of `leasehold.service.enactors.registry`
    ``options``    what that kind is told: the table ``[cluster.KIND]``, which it checks itself
    ``resources``  units of what it has besides its slots: memory, licences, services
    """

    name: str
    slots: int
    terms: ClusterTerms = field(default_factory=ClusterTerms)
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


def usual_terms(speed_mips: int = 1) -> ClusterTerms:
    """Give the terms of a site whose owner says nothing else.

    Reservations are for the first hundred who wait, of each kind, and who stands further behind may overtake
    only where that delays none of them: a queue of thousands is then planned as quickly as one of a hundred.
    """
    return ClusterTerms(speed_mips=speed_mips, local_policy="hybrid:100", guest_policy="hybrid:100")


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
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    defaults: ClusterTerms = field(default_factory=ClusterTerms)
    domains: tuple[DomainSpec, ...] = ()
    sharing: SharingSpec = field(default_factory=SharingSpec)
    issuers: tuple[TrustedIssuer, ...] = ()
    log: LogSpec = field(default_factory=LogSpec)
    jobs: JobsSpec = field(default_factory=JobsSpec)

    def to_dict(self) -> Plain:
        """Give the configuration as its file would say it, complete and with the usual values filled in."""
        told: Plain = {
            "service": self.service.to_dict(),
            "limits": self.limits.to_dict(),
            "gateway": self.gateway.to_dict(),
            "sharing": self.sharing.to_dict(),
            "jobs": self.jobs.to_dict(),
            "log": self.log.to_dict(),
            "defaults": self.defaults.to_dict(),
            "cluster": [site.to_dict(self.defaults) for site in self.clusters],
        }
        told |= {"domain": [domain.to_dict() for domain in self.domains]} if self.domains else {}
        return told | ({"issuer": [issuer_to_dict(one) for one in self.issuers]} if self.issuers else {})
