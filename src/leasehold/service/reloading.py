"""What of a changed configuration can be applied to a gateway at work, and what only a restart applies."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from leasehold.configuration.terms import TERMS
from leasehold.service.config import ServiceConfig, SiteSpec


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The configuration to go on with, which keys it changes, and which changes wait for a restart.

    Keys are named as in the file, tables of a list by their name: ``cluster.alpha.slots``.
    """

    config: ServiceConfig
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def reloaded(now: ServiceConfig, new: ServiceConfig, machines: Mapping[str, int]) -> Reloaded:
    """Apply what can be applied; ``machines`` says with how many slots the machines of each site were opened.

    Terms, slots up to that number, routing, rules of agreements, domains, open requests, retention and the
    log are applied. What machines were opened with, and where the gateway listens and keeps its things, is
    not.
    """
    sites = {site.name: site for site in new.clusters}
    going_on = replace(
        now,
        clusters=tuple(
            _site(site, sites[site.name], machines[site.name]) if site.name in sites else site for site in now.clusters
        ),
        gateway=new.gateway,
        sharing=new.sharing,
        domains=new.domains,
        limits=replace(now.limits, open_requests_per_consumer=new.limits.open_requests_per_consumer),
        retention=new.retention,
        log=replace(now.log, level=new.log.level, requests=new.log.requests),
    )
    before, after, wanted = (dict(_keys(one)) for one in (now, going_on, new))
    return Reloaded(going_on, _differing(before, after), _differing(after, wanted))


def _site(now: SiteSpec, new: SiteSpec, opened_slots: int) -> SiteSpec:
    terms = replace(new.terms, speed_mips=now.terms.speed_mips, overhead=now.terms.overhead)
    return replace(now, slots=min(new.slots, opened_slots), terms=terms, resources=new.resources)


def _keys(config: ServiceConfig) -> Iterator[tuple[str, Any]]:
    """Give every key with its value; those of sites in full, wherever the file says them."""
    plain = config.to_dict()
    del plain["defaults"]
    plain["cluster"] = [{**site.to_dict(site.terms), **TERMS.to_dict(site.terms)} for site in config.clusters]
    yield from _flat("", plain)


def _flat(above: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                yield from _flat(f"{name}.{one.get('name', one.get('url', ''))}.", one)
        else:
            yield name, value


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    absent = object()
    keys = one.keys() | other.keys()
    return tuple(sorted(key for key in keys if one.get(key, absent) != other.get(key, absent)))
