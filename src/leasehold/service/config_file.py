"""From ``leasehold.toml`` to a `ServiceConfig`: every key checked, and what is wrong named with its line."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leasehold.configuration.domains import check_names, read_domains
from leasehold.configuration.gateway import GatewaySpec, read_gateway
from leasehold.configuration.keys import MOST_SLOTS, Keys
from leasehold.configuration.resources import read_resources
from leasehold.configuration.sharing import SharingSpec, read_sharing
from leasehold.configuration.terms import ClusterTerms, read_terms
from leasehold.configuration.toml import read_toml
from leasehold.model.errors import InvalidField
from leasehold.service.auth.issuers import TrustedIssuer, by_url
from leasehold.service.auth.listening import check_listening
from leasehold.service.config import (
    LOG_FORMATS,
    LOG_LEVELS,
    WHO_MAY_LOOK,
    Limits,
    LogSpec,
    Retention,
    ServiceConfig,
    ServiceSpec,
    SiteSpec,
    usual_routing,
    usual_sharing,
    usual_terms,
)
from leasehold.service.config_issuer import read_issuer
from leasehold.service.config_jobs import read_jobs
from leasehold.service.enactors.ec2.options import read_options as read_ec2
from leasehold.service.enactors.emulated.options import read_options
from leasehold.service.enactors.libvirt.options import read_options as read_libvirt
from leasehold.service.enactors.qemu.options import read_options as read_qemu
from leasehold.service.enactors.registry import check_options, enactor_kinds
from leasehold.service.enactors.slurm.options import read_options as read_slurm

_OPTIONS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "emulated": read_options,
    "qemu": read_qemu,
    "slurm": read_slurm,
    "ec2": read_ec2,
    "libvirt": read_libvirt,
}
"""How Leasehold's own kinds of enactor check what they are told; `check_options` asks other people's."""

_HIGHEST_PORT = 65_535
_LONGEST_START_MS = 86_400_000
_LEAST_BODY_KIB = 32
"""A hundred reports of a site have to fit, as they come in one call of its manager."""
_MOST_BODY_KIB = 2**20
_MOST_OUTPUTS_MIB = 2**30
_MOST_DAYS = 36_500
_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def load_config(path: Path) -> ServiceConfig:
    """Read a configuration file; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        return config_from_dict(file.values, path.parent)


def config_from_dict(values: Mapping[str, Any], folder: Path = Path()) -> ServiceConfig:
    """Check the keys of a configuration; paths in it count from ``folder``.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    keys = Keys(values)
    service = _service(keys.table("service"), folder)
    usual = usual_terms(service.reference_mips)
    defaults = read_terms(keys.table("defaults"), usual, folder)
    config = ServiceConfig(
        clusters=tuple(_site(table, defaults, folder) for table in keys.tables("cluster")),
        service=service,
        limits=_limits(keys.table("limits")),
        retention=_retention(keys.table("retention")),
        gateway=_gateway(keys.table("gateway"), folder),
        defaults=defaults,
        domains=read_domains(keys),
        sharing=_sharing(keys.table("sharing")),
        issuers=_issuers(keys),
        log=_log(keys.table("log")),
        jobs=read_jobs(keys.table("jobs")),
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


def _service(keys: Keys, folder: Path) -> ServiceSpec:
    usual = ServiceSpec()
    service = ServiceSpec(
        host=keys.text("host", usual.host),
        port=_port(keys, usual.port),
        url=_url(keys, usual.url),
        data=_path(keys, "data", folder),
        store=keys.text("store", usual.store),
        tls_certificate=_path(keys, "tls_certificate", folder),
        tls_key=_path(keys, "tls_key", folder),
        behind_tls_proxy=keys.flag("behind_tls_proxy", default=usual.behind_tls_proxy),
        reference_mips=keys.whole("reference_mips", usual.reference_mips),
        check_every_ms=keys.milliseconds("check_every_s", usual.check_every_ms),
        reconcile_every_ms=keys.milliseconds("reconcile_every_s", usual.reconcile_every_ms, least_ms=1),
        start_within_ms=keys.milliseconds("start_within_s", usual.start_within_ms, 1_000, _LONGEST_START_MS),
        shutdown_ms=keys.milliseconds("shutdown_s", usual.shutdown_ms),
        probes=keys.name_of("probes", WHO_MAY_LOOK, usual.probes),
        metrics=keys.name_of("metrics", WHO_MAY_LOOK, usual.metrics),
        page=keys.name_of("page", WHO_MAY_LOOK, usual.page),
    )
    keys.done()
    return service


def _port(keys: Keys, usual: int) -> int:
    port = keys.whole("port", usual, least=0)
    if port > _HIGHEST_PORT:
        raise InvalidField(keys.where("port"), port, f"a whole number from 0 to {_HIGHEST_PORT}")
    return port


def _url(keys: Keys, usual: str) -> str:
    url = keys.text("url", usual)
    if url != usual and not _ADDRESS.fullmatch(url):
        raise InvalidField(keys.where("url"), url, "an address such as https://leasehold.example.org")
    return url.rstrip("/")


def _path(keys: Keys, key: str, folder: Path) -> Path | None:
    """Read a path, in which ``~`` and variables of the environment such as ``$HOME`` may stand."""
    text = keys.text(key, None)
    if text is None:
        return None
    found = os.path.expandvars(text)
    if "$" in found:
        raise InvalidField(keys.where(key), text, "a path in which every $VARIABLE is set")
    return (folder / Path(found).expanduser()).absolute()


def _limits(keys: Keys) -> Limits:
    usual = Limits()
    limits = Limits(
        body_kib=keys.whole("body_kib", usual.body_kib, least=_LEAST_BODY_KIB, most=_MOST_BODY_KIB),
        open_requests_per_consumer=keys.whole("open_requests_per_consumer", usual.open_requests_per_consumer),
        requests_per_s=float(keys.number("requests_per_s", usual.requests_per_s, 0)),
        burst=keys.whole("burst", usual.burst),
        submissions_per_hour=keys.whole("submissions_per_hour", usual.submissions_per_hour, least=0),
        output_mib_per_consumer=keys.whole(
            "output_mib_per_consumer", usual.output_mib_per_consumer, least=0, most=_MOST_OUTPUTS_MIB
        ),
        streams_per_consumer=keys.whole("streams_per_consumer", usual.streams_per_consumer),
        open_connections=keys.whole("open_connections", usual.open_connections),
        idle_per_address=keys.whole("idle_per_address", usual.idle_per_address),
        head_within_ms=keys.milliseconds("head_within_s", usual.head_within_ms, least_ms=1_000),
        body_within_ms=keys.milliseconds("body_within_s", usual.body_within_ms, least_ms=1_000),
        answer_within_ms=keys.milliseconds("answer_within_s", usual.answer_within_ms, least_ms=1_000),
    )
    keys.done()
    return limits


def _retention(keys: Keys) -> Retention:
    usual = Retention().to_dict()
    retention = Retention(
        **{name: keys.whole(name, days, least=0, most=_MOST_DAYS) for name, days in usual.items()}
    )
    keys.done()
    return retention


def _gateway(keys: Keys, folder: Path) -> GatewaySpec:
    place = keys.where("moments")
    gateway = read_gateway(keys, folder, usual_routing())
    if gateway.moments != "learnt":
        raise InvalidField(place, gateway.moments, "learnt: nobody can tell what will be asked for")
    return gateway


def _sharing(keys: Keys) -> SharingSpec:
    if "starts_at" in keys:
        raise InvalidField(
            keys.where("starts_at"), keys.take("starts_at"), "no such key: clocks show the time"
        )
    return read_sharing(keys, usual_sharing())


def _site(keys: Keys, defaults: ClusterTerms, folder: Path) -> SiteSpec:
    kinds = enactor_kinds()
    name, slots = _site_name(keys), keys.whole("slots", most=MOST_SLOTS)
    enactor = keys.name_of("enactor", kinds, "emulated")
    options, resources = _options(keys, enactor), read_resources(keys)
    terms = read_terms(keys, defaults, folder)
    if terms.non_preemptable_share and terms.non_preemptable_max_ms is None:
        expected = "the longest time in seconds, since non_preemptable_share lets Non-preemptable guests in"
        raise InvalidField(keys.where("non_preemptable_max_s"), None, expected)
    return SiteSpec(name, slots, terms, enactor, options, resources)


def _options(keys: Keys, enactor: str) -> Mapping[str, Any]:
    options: Mapping[str, Any] = keys.take(enactor, {})
    table = Keys(options, keys.where(enactor))
    with table.inside():
        if enactor in _OPTIONS:
            _OPTIONS[enactor](options)
        else:
            check_options(enactor, options)
    return dict(options)


def _site_name(keys: Keys) -> str:
    """Read the name of a site, which is a part of addresses and of the names of files."""
    name = keys.text("name")
    if not _SITE_NAME.fullmatch(name):
        raise InvalidField(
            keys.where("name"), name, "letters, digits, '.', '_' and '-', beginning with no sign"
        )
    return name


def _issuers(keys: Keys) -> tuple[TrustedIssuer, ...]:
    issuers = tuple(read_issuer(table) for table in keys.tables("issuer"))
    by_url(issuers)
    return issuers


def _log(keys: Keys) -> LogSpec:
    usual = LogSpec()
    log = LogSpec(
        format=keys.name_of("format", LOG_FORMATS, usual.format),
        level=keys.name_of("level", LOG_LEVELS, usual.level),
        requests=keys.flag("requests", default=usual.requests),
    )
    keys.done()
    return log
