"""From what a configuration says to a gateway and the drivers of its sites."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import structlog

from leasehold.configuration.policies import find_routing_policy
from leasehold.configuration.tables import domain_by_site, strangers
from leasehold.configuration.terms import site_settings
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.model.agreement import CPUS
from leasehold.model.errors import InputError, InvalidField
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.drivers.protocol import Capabilities, Driver, HasNativeQueue
from leasehold.service.drivers.registry import driver
from leasehold.service.drivers.setup import DriverSetup
from leasehold.service.engine.recording import remembered_abouts
from leasehold.service.engine_thread import Clock
from leasehold.service.native_queue_watcher import Do, NativeQueueWatcher
from leasehold.service.store.store import Store
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.places import Place

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
    )


def native_queues(config: ServiceConfig, drivers: Mapping[str, Driver], do: Do) -> list[NativeQueueWatcher]:
    """Make what watches the queues of sites whose users ask another scheduler."""
    slots = {site.name: site.slots for site in config.clusters}
    return [
        NativeQueueWatcher(name, slots[name], driver, do)
        for name, driver in drivers.items()
        if driver.capabilities.native_queue and isinstance(driver, HasNativeQueue)
    ]


def make_gateway(config: ServiceConfig, capabilities: Mapping[str, Capabilities], rng: Random) -> Gateway:
    """Make an empty gateway whose sites plan with what their machines can do."""
    spec = config.gateway
    policy = find_routing_policy(spec.policy)(rng)
    routing = Routing(policy, try_elsewhere=spec.try_elsewhere, use_free_room=spec.use_free_room, tick_ms=spec.tick_ms)
    sites = [_site(site, capabilities[site.name]) for site in config.clusters]
    return Gateway(sites, routing, config.service.reference_mips, make_sharing(config))


def make_sharing(config: ServiceConfig) -> Sharing:
    """Say who provides what; what is used is accounted for, whether anybody has agreed on anything or not."""
    domains = domain_by_site(config.domains)
    places = [
        Place(site.name, {CPUS: site.slots, **site.resources}, domains.get(site.name, "")) for site in config.clusters
    ]
    return Sharing(places, config.sharing.settings(), domains=domains)


def _site(site: SiteSpec, can: Capabilities) -> SiteSettings:
    if can.native_queue and site.terms.local_queue != "queue":
        expected = f"'queue', since users of {site.name} ask another scheduler, which lets them wait"
        raise InvalidField("local_queue", site.terms.local_queue, expected)
    settings = site_settings(site.name, site.slots, site.terms)
    able = replace(settings, can_suspend=can.suspend, can_migrate=can.migrate)
    return replace(able, confirms_starts=True)


def check_sites(config: ServiceConfig, store: Store) -> None:
    """Refuse to leave anybody behind: a site with open leases must be configured, or decide for itself.

    A site of a domain that is neither may be misspelt or join later, and is warned of. Raises InputError,
    also where a site is both.
    """
    own = {site.name for site in config.clusters}
    remotes = remembered_abouts(store).keys() | {peer.name for peer in store.peers()}
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
