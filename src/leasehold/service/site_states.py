"""How each site is now: as the engine, its reconciler and its manager know it, put together for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.configuration.tables import domain_by_site
from leasehold.configuration.terms import site_settings
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.engine.sites import Occupancy, Overhead
from leasehold.service.messages.routing import MessageRouter
from leasehold.service.messages.wire import About
from leasehold.service.site_reconciler import SiteReconciler
from leasehold.service.store.rows import SiteRow
from leasehold.sharing.enforcement import ALLOW, MEMBERS, PREEMPTABLE, REFUSE
from leasehold.sharing.wording import span


@dataclass(frozen=True, slots=True)
class SiteState:
    """One site as it is now; counts of VMs and of waiting leases.

    ``domain`` is the virtual domain that it is in, "" for none; ``resources`` are units besides its slots.
    ``allows`` says which guests its owner takes, "" where only its own manager knows.
    """

    name: str
    slots: int
    speed_mips: int
    driver: str
    capabilities: Capabilities
    status: str
    drained_by: str
    note: str
    local_vms: int
    guest_vms: int
    free_vms: int
    waiting_local: int
    waiting_guest: int
    last_seen_ms: int | None
    problem: str
    overheads: tuple[Overhead, ...] = ()
    domain: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    allows: str = ""


class SiteStates:
    """Looks at sites; ``drained`` are those that lend nothing now, by name."""

    def __init__(
        self,
        config: ServiceConfig,
        reconcilers: Mapping[str, SiteReconciler],
        drained: Mapping[str, SiteRow],
        post: MessageRouter,
    ) -> None:
        self._specs = {site.name: site for site in config.clusters}
        self._domains = domain_by_site(config.domains)
        self._without_agreement = allowed_without_agreement(config)
        self._reconcilers = reconcilers
        self._drained = drained
        self._post = post

    def own(self, name: str, now: Occupancy) -> SiteState:
        """Give the state of a site of this gateway."""
        spec = self._specs[name]
        reconciler, drained = self._reconcilers[name], self._drained.get(name)
        return SiteState(
            name=name,
            slots=spec.slots,
            speed_mips=spec.terms.speed_mips,
            driver=spec.driver,
            capabilities=reconciler.driver.capabilities,
            status=self.status(name),
            drained_by="" if drained is None else drained.drained_by,
            note="" if drained is None else drained.note,
            local_vms=now.local_vms,
            guest_vms=now.guest_vms,
            free_vms=now.free_vms,
            waiting_local=now.waiting_local,
            waiting_guest=now.waiting_guests,
            last_seen_ms=reconciler.last_seen_ms,
            problem=reconciler.problem or reconciler.order_problem,
            overheads=now.overheads,
            domain=self._domains.get(name, ""),
            resources=spec.resources,
            allows=f"{allowed_at(spec)}. Without an agreement: {self._without_agreement}",
        )

    def remote(self, name: str, about: About) -> SiteState:
        """Give the state of a site that decides for itself, as it last said it was."""
        drained = self._drained.get(name)
        is_drained = drained is not None or not about.lends
        heard_ms = self._post.last_heard_ms(name)
        is_away = heard_ms is None or self._post.is_silent(name)
        return SiteState(
            name=name,
            slots=about.slots,
            speed_mips=about.speed_mips,
            driver=about.driver,
            capabilities=Capabilities(suspend=about.can_suspend, migrate=about.can_migrate),
            status="unreachable" if is_away else "drained" if is_drained else "up",
            drained_by="" if drained is None else drained.drained_by,
            note="" if drained is None else drained.note,
            local_vms=about.local_vms,
            guest_vms=about.guest_vms,
            free_vms=about.free_vms,
            waiting_local=about.waiting_local,
            waiting_guest=about.waiting_guests,
            last_seen_ms=heard_ms,
            problem="its manager does not call" if is_away else "",
            domain=self._domains.get(name, ""),
        )

    def status(self, name: str) -> str:
        """Say of a site of this gateway whether it is ``up``, ``drained`` or ``unreachable``."""
        if self._reconcilers[name].is_silent:
            return "unreachable"
        return "drained" if name in self._drained else "up"

    def is_up(self, name: str) -> bool:
        """Whether the machines of a site of this gateway can be reached."""
        return self.status(name) != "unreachable"


_WITHOUT_AGREEMENT = {
    ALLOW: "everybody, also users of other issuers, and peers",
    MEMBERS: "members; other issuers' users and peers only under one",
    PREEMPTABLE: "members' guests that can be preempted; other issuers' users and peers only under one",
    REFUSE: "nobody",
}


def most_non_preemptable_vms(site: SiteSpec) -> int:
    """Give how many VMs of a site Non-preemptable guests may have at a time."""
    share_vms = site_settings(site.name, site.slots, site.terms).non_preemptable_share_vms
    return site.slots if share_vms is None else share_vms


def allowed_at(site: SiteSpec) -> str:
    """Say which guests the owner of a site takes."""
    vms, longest_ms = most_non_preemptable_vms(site), site.terms.non_preemptable_max_ms
    if not vms:
        return "guests that can be preempted; no Non-preemptable ones"
    how_long = "for any time" if longest_ms is None else f"for up to {span(longest_ms)} each"
    return f"guests that can be preempted; Non-preemptable ones on up to {vms} of {site.slots} VMs, {how_long}"


def allowed_without_agreement(config: ServiceConfig) -> str:
    """Say who is let in to whom no agreement applies."""
    return _WITHOUT_AGREEMENT[config.sharing.without_agreement]


def summary(config: ServiceConfig) -> list[str]:
    """Give a line for each site, and one for who needs no agreement."""
    width = max(len(site.name) for site in config.clusters)
    sites = [f"{site.name:<{width}}  {allowed_at(site)}" for site in config.clusters]
    return [*sites, f"without an agreement: {allowed_without_agreement(config)}"]
