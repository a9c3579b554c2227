"""From a configuration to a gateway and the drivers of its sites; and what can be reloaded."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import structlog

from leasehold.configuration.policies import find_routing_policy
from leasehold.configuration.tables import domain_by_site, strangers
from leasehold.configuration.terms import TERMS, site_settings
from leasehold.forecasting.snapshot import GatewayMemory, Snapshot, SnapshotSite
from leasehold.gateway.coallocation.placement.registry import resolve_placement_policies
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.model.agreement import CPUS
from leasehold.model.errors import InputError, InvalidField
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.drivers.protocol import Capabilities, Driver, DriverSetup, HasNativeQueue
from leasehold.service.drivers.registry import driver
from leasehold.service.engine.remote_sites import stored_remotes
from leasehold.service.engine_thread import Clock
from leasehold.service.native_queue_watcher import Do, NativeQueueWatcher
from leasehold.service.store.store import Store
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import gpus_had

_log = structlog.get_logger("leasehold.opening")


def open_drivers(config: ServiceConfig, folder: Path, clock: Clock) -> dict[str, Driver]:
    """Find the machines of every site again, or make them; raises as `driver` does."""
    return {site.name: driver(site.driver, _setup(site, config, folder, clock)) for site in config.clusters}


def _setup(site: SiteSpec, config: ServiceConfig, folder: Path, clock: Clock) -> DriverSetup:
    return DriverSetup(
        site=site.name,
        slots=site.slots,
        speed_mips=site.terms.speed_mips,
        reference_mips=config.service.reference_mips,
        overhead=site.terms.overhead,
        folder=folder / "machines" / site.name,
        clock=clock,
        options=site.options,
        private=(folder,),
        nodes=site.nodes,
    )


def native_queues(config: ServiceConfig, drivers: Mapping[str, Driver], do: Do) -> list[NativeQueueWatcher]:
    """Make what watches the queues of sites whose users ask another scheduler."""
    slots = {site.name: site.slots for site in config.clusters}
    return [
        NativeQueueWatcher(name, slots[name], driver, do)
        for name, driver in drivers.items()
        if driver.capabilities.native_queue and isinstance(driver, HasNativeQueue)
    ]


def make_gateway(
    config: ServiceConfig, capabilities: Mapping[str, Capabilities], rng: Random, gateway_id: str
) -> Gateway:
    """Make an empty gateway whose sites plan with what their machines can do."""
    resolve_placement_policies()
    spec = config.gateway
    policy = find_routing_policy(spec.policy)(rng)
    routing = Routing(
        policy,
        try_elsewhere=spec.try_elsewhere,
        use_free_room=spec.use_free_room,
        tick_ms=spec.tick_ms,
        max_restarts=spec.max_restarts,
    )
    sites = [_site(site, capabilities[site.name]) for site in config.clusters]
    return Gateway(sites, routing, config.service.reference_mips, make_sharing(config), gateway_id=gateway_id)


def snapshot_terms(config: ServiceConfig, capabilities: Mapping[str, Capabilities], gateway_id: str) -> Snapshot:
    """Give the terms of a configuration as a snapshot of a gateway with nothing in it."""
    return Snapshot(
        0,
        config.service.reference_mips,
        config.gateway,
        tuple(snapshot_site(site, capabilities[site.name]) for site in config.clusters),
        (),
        GatewayMemory({}, {}, {}),
        gateway_id=gateway_id,
        sharing=config.sharing,
        domains=config.domains,
        agreements=(),
    )


def snapshot_site(site: SiteSpec, can: Capabilities) -> SnapshotSite:
    """Give a site as a snapshot has it, with nothing on it."""
    return SnapshotSite(
        site.name,
        site.slots,
        site.terms,
        dict(site.resources),
        can.suspend,
        can.migrate,
        can.hands_over,
        can.notice,
        nodes=site.nodes,
        images=can.images,
        login=can.login,
    )


def make_sharing(config: ServiceConfig) -> Sharing:
    """Set up providers, agreements and accounting; usage is accounted for with or without agreements."""
    domains = domain_by_site(config.domains)
    places = [
        Provider(site.name, {CPUS: site.slots, **gpus_had(site.nodes), **site.resources}, domains.get(site.name, ""))
        for site in config.clusters
    ]
    return Sharing(places, config.sharing.settings(), domains=domains)


def _site(site: SiteSpec, can: Capabilities) -> SiteSettings:
    if can.native_queue and site.terms.local_queue != "queue":
        expected = f"'queue', since users of {site.name} ask another scheduler, which lets them wait"
        raise InvalidField("local_queue", site.terms.local_queue, expected)
    settings = replace(site_settings(site.name, site.slots, site.terms), nodes=site.nodes)
    able = replace(settings, can_suspend=can.suspend, can_migrate=can.migrate, can_notify=can.notice)
    able = replace(able, hands_over=can.hands_over, images=can.images, login=can.login)
    return replace(able, confirms_starts=True)


def check_sites(config: ServiceConfig, store: Store) -> None:
    """Check that every site with open leases is configured, or is a remote site.

    A site of a domain that is neither may be misspelt or join later, and is warned of. Raises InputError,
    also where a site is both.
    """
    own = {site.name for site in config.clusters}
    remotes = stored_remotes(store).keys() | {peer.name for peer in store.peers()}
    for site in sorted(own & remotes):
        problem = f"has {site!r} as a site that decides for itself or as a peer, expected a new name"
        raise InputError(store, None, problem)
    known = own | remotes | {""}
    left_behind = {site: count for (site, _), count in store.count_by_state().items() if site not in known}
    for site in sorted(left_behind):
        problem = f"has open leases at site {site!r}, expected that site in the configuration"
        raise InputError(store, None, problem)
    for domain, site in strangers(config.domains, known):
        _log.warning("a domain has a site that is not configured and has never joined", domain=domain, site=site)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The new configuration, the keys that it changes, and the changes that need a restart.

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
            _reloaded_site(site, sites[site.name], machines[site.name]) if site.name in sites else site
            for site in now.clusters
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


def _reloaded_site(now: SiteSpec, new: SiteSpec, opened_slots: int) -> SiteSpec:
    terms = replace(new.terms, speed_mips=now.terms.speed_mips, overhead=now.terms.overhead)
    slots = now.slots if now.nodes else min(new.slots, opened_slots)
    return replace(now, slots=slots, terms=terms, resources=new.resources)


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
