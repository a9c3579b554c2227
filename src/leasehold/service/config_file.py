"""``leasehold.toml`` read, with the line of whatever is wrong, and written, with comments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from leasehold.configuration.declaration import Below, Key, Plain, Table
from leasehold.configuration.keys import MOST_SLOTS, Keys
from leasehold.configuration.tables import (
    GATEWAY,
    SHARING,
    GatewaySpec,
    SharingSpec,
    check_names,
    read_domains,
)
from leasehold.configuration.terms import TERMS, ClusterTerms, read_terms
from leasehold.configuration.toml import pairs, read_toml
from leasehold.model.errors import InvalidField
from leasehold.service.auth.issuers import TrustedIssuer, by_url, read_issuer
from leasehold.service.config import (
    CLUSTER,
    ESTIMATES,
    JOBS,
    LIMITS,
    LISTS,
    LOG,
    RETENTION,
    SERVICE,
    TABLES,
    ServiceConfig,
    SiteSpec,
    default_routing,
    default_sharing,
    default_terms,
)
from leasehold.service.drivers.ec2 import options as ec2
from leasehold.service.drivers.emulated import options as emulated
from leasehold.service.drivers.libvirt import options as libvirt
from leasehold.service.drivers.opennebula import options as opennebula
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.qemu import options as qemu
from leasehold.service.drivers.registry import check_options
from leasehold.service.drivers.slurm import options as slurm
from leasehold.service.tls import check_listening


class _Options(Protocol):
    @property
    def able(self) -> Capabilities:
        """What machines with these options can do."""


_READERS: dict[str, Callable[[Mapping[str, Any]], _Options]] = {
    "emulated": emulated.read_options,
    "qemu": qemu.read_options,
    "slurm": slurm.read_options,
    "ec2": ec2.read_options,
    "libvirt": libvirt.read_options,
    "opennebula": opennebula.read_options,
}
"""How Leasehold's own kinds of driver check their options; `check_options` asks other people's."""

OPTIONS: dict[str, Table[Any]] = {
    "emulated": emulated.OPTIONS,
    "qemu": qemu.OPTIONS,
    "slurm": slurm.OPTIONS,
    "ec2": ec2.OPTIONS,
    "libvirt": libvirt.OPTIONS,
    "opennebula": opennebula.OPTIONS,
}
"""The tables of these kinds, below that of a site."""

_MARGIN = 40


def load_config(path: Path) -> ServiceConfig:
    """Read a configuration file; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        return config_from_dict(file.values, path.parent)


def config_from_dict(values: Mapping[str, Any], folder: Path = Path()) -> ServiceConfig:
    """Check the keys of a configuration; paths in it count from ``folder``.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    keys = Keys(values, folder=folder)
    service = SERVICE.read(keys.table("service"))
    defaults = read_terms(keys.table("defaults"), default_terms(service.reference_mips))
    config = ServiceConfig(
        clusters=tuple(_read_site(table, defaults) for table in keys.tables("cluster")),
        service=service,
        limits=LIMITS.read(keys.table("limits")),
        retention=RETENTION.read(keys.table("retention")),
        gateway=_read_gateway(keys.table("gateway")),
        defaults=defaults,
        domains=read_domains(keys),
        sharing=_read_sharing(keys.table("sharing")),
        issuers=_read_issuers(keys),
        log=LOG.read(keys.table("log")),
        estimates=ESTIMATES.read(keys.table("estimates")),
        jobs=JOBS.read(keys.table("jobs")),
    )
    keys.done()
    return fitting(config)


def fitting(config: ServiceConfig) -> ServiceConfig:
    """Check what concerns more than one key; raises InvalidField."""
    if not config.clusters:
        raise InvalidField("cluster", None, "at least one [[cluster]]")
    names = [site.name for site in config.clusters]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidField(f"cluster[{index}].name", name, "a name that no other cluster has")
    check_names(config.domains, names)  # sites with a manager of their own join later
    quota_mib, output_kib = config.limits.output_mib_per_consumer, config.jobs.output_kib
    if 0 < quota_mib << 10 < output_kib:
        expected = f"0, or at least the {output_kib} KiB that jobs.output_kib allows one output"
        raise InvalidField("limits.output_mib_per_consumer", quota_mib, expected)
    service = config.service
    certificate, key = str(service.tls_certificate or ""), str(service.tls_key or "")
    check_listening(service.host, certificate, key, behind_tls_proxy=service.behind_tls_proxy)
    return config


def _read_gateway(keys: Keys) -> GatewaySpec:
    gateway = GATEWAY.read(keys, default_routing())
    if gateway.moments != "learnt":
        expected = "learnt: a live gateway cannot know future requests"
        raise InvalidField(keys.where("moments"), gateway.moments, expected)
    return gateway


def _read_sharing(keys: Keys) -> SharingSpec:
    if "starts_at" in keys:
        raise InvalidField(keys.where("starts_at"), keys.take("starts_at"), "no such key: clocks show the time")
    return SHARING.read(keys, default_sharing())


def _read_site(keys: Keys, defaults: ClusterTerms) -> SiteSpec:
    values = CLUSTER.values(keys)
    return _site(keys, values, _read_options(keys, values["driver"]), defaults)


def read_bare_site(keys: Keys, defaults: ClusterTerms) -> SiteSpec:
    """Read a site whatever its machines are: options of theirs are not looked at.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    values = CLUSTER.values(keys)
    keys.take(values["driver"], None)
    return _site(keys, values, {}, defaults)


def capabilities_of(site: SiteSpec) -> Capabilities:
    """Say what the machines of a site can do as far as its options tell; of other people's kinds: the usual."""
    read = _READERS.get(site.driver)
    return read(site.options).able if read is not None else Capabilities()


def _site(keys: Keys, values: dict[str, Any], options: Mapping[str, Any], defaults: ClusterTerms) -> SiteSpec:
    terms = read_terms(keys, defaults)
    if terms.non_preemptable_share and terms.non_preemptable_max_ms is None:
        expected = "the longest time in seconds, since non_preemptable_share lets Non-preemptable guests in"
        raise InvalidField(keys.where("non_preemptable_max_s"), None, expected)
    values["slots"] = _size(keys, values, options)
    if values["driver"] == "slurm":
        values["nodes"] = tuple(replace(node, gpu_shares=0) if node.gpus else node for node in values["nodes"])
    site = SiteSpec(**values, terms=terms, options=options)
    with keys.at("offer_again_above"):
        site.offers(1)
    return site


_WITHOUT_GPUS = ("qemu", "libvirt", "ec2", "opennebula")
"""Kinds of machines that this program gives no GPUs."""


def _size(keys: Keys, values: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    """Say how many VMs a site has: as it states, or as its nodes have cores where it is planned by these."""
    stated, nodes, driver = values["slots"], values["nodes"], values["driver"]
    if not nodes:
        if not stated:
            return keys.whole("slots", most=MOST_SLOTS)  # raises: it is missing
        return int(stated)
    cores: int = sum(node.cores for node in nodes)
    if stated not in (0, cores):
        raise InvalidField(keys.where("slots"), stated, f"nothing beside [[cluster.nodes]], which have {cores} cores")
    if driver in _WITHOUT_GPUS and any(node.gpus for node in nodes):
        raise InvalidField(keys.where("nodes"), "gpus", f"none: machines of {driver} are given no GPUs")
    if driver == "slurm" and any(node.gpus and node.gpu_shares > 1 for node in nodes):
        raise InvalidField(keys.where("nodes"), "shares", "none: Slurm is asked for whole GPUs")
    if driver == "emulated" and options.get("nodes"):
        raise InvalidField(keys.where("nodes"), "nodes", "nothing beside [[cluster.emulated.nodes]], or these alone")
    return cores


def _read_options(keys: Keys, driver: str) -> Mapping[str, Any]:
    options: Mapping[str, Any] = keys.take(driver, {})
    table = Keys(options, keys.where(driver))
    with table.inside():
        if driver in _READERS:
            _READERS[driver](options)
        else:
            check_options(driver, options)
    return dict(options)


def _read_issuers(keys: Keys) -> tuple[TrustedIssuer, ...]:
    issuers = tuple(read_issuer(table) for table in keys.tables("issuer"))
    by_url(issuers)
    return issuers


def commented_toml(config: ServiceConfig) -> str:
    """Write a configuration as a file that `load_config` reads as the same one, with comments."""
    plain = _without_secrets(config.to_dict())
    lines = ["# The configuration of `leasehold serve`, complete. Times are seconds unless a key says otherwise."]
    for name, table in TABLES.items():
        lines += _section(f"[{name}]", table.about, table.by_name(), plain[name])
    of_site = {kind: Below("", table) for kind, table in OPTIONS.items()}
    for name, table in LISTS.items():
        known = {**TERMS.by_name(), **table.by_name(), **of_site} if table is CLUSTER else table.by_name()
        for one in plain.get(name, []):
            lines += _section(f"[[{name}]]", table.about, known, one)
    return "\n".join(lines) + "\n"


def _section(header: str, about: str, known: Mapping[str, Key], plain: Plain) -> list[str]:
    """Write one table, each key with what it means beside it, and the tables below it."""
    below = {name: key.table for name, key in known.items() if isinstance(key, Below) and name in plain}
    own = {name: value for name, value in plain.items() if name not in below}
    lines = ["", f"# {about}", header]
    for name, line in zip(own, pairs(own), strict=True):
        lines.append(f"{line:<{_MARGIN}} # {_comment(known[name])}" if name in known else line)
    for name, table in below.items():
        lines += _section(f"[{header.strip('[]')}.{name}]", table.about, table.by_name(), plain[name])
    return lines


def _comment(key: Key) -> str:
    """Give what a key means as plain text."""
    return key.doc.replace("`", "")


def _without_secrets(plain: Plain) -> Plain:
    """Leave the password out of the store's URL: what is printed gets around."""
    if "store" in plain["service"]:
        plain["service"]["store"] = without_password(plain["service"]["store"])
    return plain


def without_password(url: str) -> str:
    """Give the URL of a store without its password; libpq finds that in ``PGPASSFILE`` too."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@", 1)))
