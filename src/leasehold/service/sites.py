"""The sites of a gateway as they are now, as engine, reconcilers and messages know them, and what owners allow."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from leasehold.configuration.tables import domain_by_site
from leasehold.configuration.terms import site_settings
from leasehold.gateway.gateway import Gateway
from leasehold.model.errors import UnknownName
from leasehold.model.event import SiteFellSilent
from leasehold.model.lease import Lease
from leasehold.service.commands import Drain, ForgetSite, Happened, JobSiteSilent, Undrain
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.engine.engine import Engine
from leasehold.service.engine.sites import Occupancy, Overhead, occupancies
from leasehold.service.engine_thread import Clock, EngineThread
from leasehold.service.errors import CannotForget, NoSuchSite
from leasehold.service.messages.routing import MessageRouter
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.peers.summary import status_of
from leasehold.service.site_reconciler import SiteReconciler
from leasehold.service.store.filters import Visible
from leasehold.service.store.rows import SiteRow
from leasehold.sharing.enforcement import ALLOW, MEMBERS, PREEMPTABLE, REFUSE
from leasehold.sharing.wording import span

LOCAL = "own users"
FREE = "free"
OUT = "out of reach"
"""Machines that no lease is known to hold, of nodes that are down or of a site that does not answer."""

GUESTS = "guests"
"""Guests of a remote site: their types are not reported."""

Holder = tuple[str, str]
"""A consumer and its group; ("", "") stands for all whose leases the reader may not see."""

OTHERS: Holder = ("", "")


@dataclass(frozen=True, slots=True)
class Glance:
    """One site: its VMs by kind (`LOCAL`, a lease type, `FREE`), and by holder with their leases."""

    name: str
    slots: int
    status: str
    kinds: Mapping[str, int]
    holders: Mapping[Holder, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Overview:
    """All sites, and how many open leases hold no machines now, as the page at ``/`` shows them.

    Only leases that hold machines are read, at most as many as there are machines; waiting ones are only counted. So
    an overview costs the same whether ten leases wait or a hundred thousand.
    """

    sites: list[Glance]
    waiting: int


@dataclass(frozen=True, slots=True)
class Holders:
    """The leases that hold machines at one site, and how many VMs are lost with nodes that are down."""

    down_vms: int
    leases: Sequence[Lease]


@dataclass(frozen=True, slots=True)
class Held:
    """What is held at one site, and how many VMs are lost with nodes that are down."""

    down_vms: int
    kinds: Counter[str]
    vms: Counter[Holder]
    leases: Counter[Holder]


def holding_now(gateway: Gateway) -> tuple[dict[str, Holders], int]:
    """Return the leases that hold machines at each site of this gateway, and the number of waiting leases.

    They are copied as wholes, which takes the engine a millisecond for a hundred thousand leases; `held_by` sums up
    beside it.
    """
    found = {
        name: Holders(site.allocations.down_vms, list(site.allocations.held.values()))
        for name, site in gateway.sites.items()
    }
    return found, len(gateway.leases) - sum(len(site.leases) for site in found.values())


def held_by(holders: Holders, visible: Visible) -> Held:
    """Sum up what these leases hold, naming visible holders."""
    held = Held(holders.down_vms, Counter(), Counter(), Counter())
    seen, unseen = Counter(map(_kind_of, holders.leases)), Counter[Any]()
    if not visible.everything:
        visible_ones = [lease for lease in holders.leases if is_visible(lease, visible)]
        seen, unseen = Counter(map(_kind_of, visible_ones)), seen
        unseen.subtract(seen)
    for counted, is_named in ((seen, True), (unseen, False)):
        for (consumer, group, kind, home, vms), leases in counted.items():
            if leases:
                holder = (consumer, group) if is_named else OTHERS
                held.kinds[kind.label if home is None else LOCAL] += vms * leases
                held.vms[holder] += vms * leases
                held.leases[holder] += leases
    return held


_kind_of = attrgetter("request.consumer", "request.group", "request.lease_type", "request.site", "vms")
"""In what leases differ for an overview; counted in one pass that runs no line of Python for each."""


def glance(name: str, slots: int, status: str, held: Held) -> Glance:
    """Put together what is known of a site of this gateway."""
    kinds = Counter(held.kinds)
    free_vms = max(0, slots - kinds.total() - held.down_vms)
    kinds[idle_kind(status)] += free_vms
    if held.down_vms:
        kinds[OUT] += held.down_vms
    holders = {holder: (vms, held.leases[holder]) for holder, vms in held.vms.most_common()}
    return Glance(name, slots, status, kinds, holders)


def idle_kind(status: str) -> str:
    """Say what machines are that no lease holds."""
    return OUT if status == "unreachable" else FREE


def is_visible(lease: Lease, visible: Visible) -> bool:
    """Whether a lease is one of these, as the store would say."""
    request = lease.request
    return (
        visible.everything
        or (bool(visible.consumer) and request.consumer == visible.consumer)
        or (bool(request.group) and request.group in visible.groups)
        or (bool(lease.site) and lease.site in visible.sites)
        or (request.site is not None and request.site in visible.sites)
    )


UP, DRAINED, UNREACHABLE = "up", "drained", "unreachable"


@dataclass(frozen=True, slots=True)
class SiteState:
    """One site as it is now; ``drained`` says by whom it is, None where it is not.

    ``domain`` is the virtual domain that it is in, "" for none; ``resources`` are units besides its slots.
    ``allows`` says which guests its owner takes, "" where only its own manager knows.
    """

    name: str
    slots: int
    speed_mips: int
    driver: str
    capabilities: Capabilities
    status: str
    occupancy: Occupancy | SiteStatus
    drained: SiteRow | None
    last_seen_ms: int | None
    problem: str
    overheads: tuple[Overhead, ...] = ()
    domain: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    allows: str = ""


class Sites:
    """The sites of one gateway: its own, and those that decide for themselves; peers are none.

    ``drained`` are those that lend nothing now, by name.
    """

    def __init__(
        self,
        config: ServiceConfig,
        engine: EngineThread,
        reconcilers: Mapping[str, SiteReconciler],
        drained: dict[str, SiteRow],
        messages: MessageRouter,
        *,
        identity: str,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._reconcilers = reconcilers
        self._drained = drained
        self._messages = messages
        self._identity = identity
        self._clock = clock
        self._lost: set[str] = set()
        self.configure(config)

    def configure(self, config: ServiceConfig) -> None:
        """Show sites as they are configured now."""
        self._config = config
        self._specs = {site.name: site for site in config.clusters}
        self._domains = domain_by_site(config.domains)

    # Looking

    async def list(self) -> list[SiteState]:
        """Look at all sites, in the order of the configuration."""
        now, statuses = await self._engine.ask(lambda engine: (occupancies(engine.gateway), _remotes(engine)))
        own = [self._own(name, now[name]) for name in self._reconcilers]
        return own + [self._remote(name, status) for name, status in statuses.items()]

    async def get(self, name: str) -> SiteState:
        """Look at one site; raises NoSuchSite."""
        states = {state.name: state for state in await self.list()}
        if name not in states:
            raise NoSuchSite(name, states)
        return states[name]

    async def check_name(self, name: str) -> None:
        """Refuse the name of what is neither a site nor a peer; raises UnknownName."""
        remotes = await self._engine.ask(lambda engine: dict(engine.gateway.registry.remotes))
        if name not in remotes and name not in self._reconcilers:
            sites = [other for other, remote in remotes.items() if not remote.is_peer]
            raise UnknownName("site", name, [*self._reconcilers, *sites])

    async def overview(self, visible: Visible) -> Overview:
        """Return an overview of all sites, with details of the visible leases only."""
        (holders, waiting), statuses = await self._engine.ask(
            lambda engine: (holding_now(engine.gateway), _remotes(engine))
        )
        held = await asyncio.to_thread(lambda: {name: held_by(holders[name], visible) for name in self._reconcilers})
        sites = [glance(name, self._specs[name].slots, self.status(name), held[name]) for name in self._reconcilers]
        for name, status in statuses.items():
            state = self._remote(name, status)
            kinds = {LOCAL: status.local_vms, GUESTS: status.guest_vms}
            kinds[idle_kind(state.status)] = status.free_vms
            sites.append(Glance(name, state.slots, state.status, kinds))
        return Overview(sites, waiting)

    async def own_status(self) -> SiteStatus:
        """Say of the one site here what its gateway is to know."""
        (spec,) = self._config.clusters
        lends = spec.name not in self._drained and not self._reconcilers[spec.name].is_silent
        mips = self._config.service.reference_mips
        return await self._engine.ask(
            lambda engine: status_of(engine.gateway.sites[spec.name], self._identity, mips, spec.driver, lends=lends)
        )

    def status(self, name: str) -> str:
        """Say of a site of this gateway whether it is `UP`, `DRAINED` or `UNREACHABLE`."""
        if self._reconcilers[name].is_silent:
            return UNREACHABLE
        return DRAINED if name in self._drained else UP

    # Changing

    async def drain(self, site: str, by: str, note: str = "") -> None:
        """Lend nothing more at a site; raises NoSuchSite."""
        await self._engine.do(Drain(site, by, note))
        self._drained[site] = SiteRow(name=site, drained_ms=self._clock(), drained_by=by, note=note)

    async def undrain(self, site: str, by: str) -> None:
        """Lend again; raises NoSuchSite."""
        await self._engine.do(Undrain(site, by))
        self._drained.pop(site, None)

    async def forget(self, site: str, by: str) -> None:
        """Forget a site that decides for itself and will not come back; what is there has failed.

        Raises NoSuchSite, and CannotForget for one that may still be there.
        """
        state = await self.get(site)
        if site not in self._reconcilers and not self._messages.is_silent(site):
            raise CannotForget(site, f"it is {state.status}; wait until it has been silent for a minute")
        await self._engine.do(ForgetSite(site, by))
        self._drained.pop(site, None)

    async def mark_silent(self) -> None:
        """Send nothing more to sites that have not been heard of for too long; after longer, their nodes are lost.

        Jobs there begin again elsewhere then, as where machines of the gateway's own sites do not answer.
        """
        for remote in await self._engine.ask(lambda engine: list(engine.gateway.registry.remotes.values())):
            silent_ms = self._messages.silent_ms(remote.name)
            if not remote.silent and self._messages.is_silent(remote.name):
                await self._engine.do(Happened(SiteFellSilent(remote.name)))
            if silent_ms < self._config.jobs.silent_after_ms:
                self._lost.discard(remote.name)
            elif remote.name not in self._lost:
                caller = "its gateway" if remote.is_peer else "its manager"
                why = f"{caller} has not called for {silent_ms / 1000:.0f} s"
                await self._engine.do(JobSiteSilent(remote.name, why))
                self._lost.add(remote.name)

    async def is_managed(self, name: str) -> bool:
        """Whether a site has a manager of its own."""
        return name in await self._engine.ask(_remotes)

    def _own(self, name: str, now: Occupancy) -> SiteState:
        spec = self._specs[name]
        reconciler = self._reconcilers[name]
        return SiteState(
            name=name,
            slots=spec.slots,
            speed_mips=spec.terms.speed_mips,
            driver=spec.driver,
            capabilities=reconciler.driver.capabilities,
            status=self.status(name),
            occupancy=now,
            drained=self._drained.get(name),
            last_seen_ms=reconciler.last_seen_ms,
            problem=reconciler.problem or reconciler.order_problem,
            overheads=now.overheads,
            domain=self._domains.get(name, ""),
            resources=spec.resources,
            allows=f"{allowed_at(spec)}. Without an agreement: {allowed_without_agreement(self._config)}",
        )

    def _remote(self, name: str, status: SiteStatus) -> SiteState:
        """Return the last reported state of a remote site."""
        drained = self._drained.get(name)
        is_drained = drained is not None or not status.lends
        is_away = self._messages.is_away(name)
        return SiteState(
            name=name,
            slots=status.slots,
            speed_mips=status.speed_mips,
            driver=status.driver,
            capabilities=Capabilities(
                suspend=status.can_suspend, migrate=status.can_migrate, images=status.images, login=status.login
            ),
            status=UNREACHABLE if is_away else DRAINED if is_drained else UP,
            occupancy=status,
            drained=drained,
            last_seen_ms=self._messages.last_heard_ms(name),
            problem="its manager does not call" if is_away else "",
            domain=self._domains.get(name, ""),
        )


def _remotes(engine: Engine) -> dict[str, SiteStatus]:
    """Return the last reports of the remote sites, without peers."""
    statuses = engine.remote_sites.remotes
    return {name: status for name, status in statuses.items() if not status.is_gateway}


# What owners allow, in words


_WITHOUT_AGREEMENT = {
    ALLOW: "everyone, including users of other issuers and peers",
    MEMBERS: "members; other issuers' users and peers only under one",
    PREEMPTABLE: "members' guests that can be preempted; other issuers' users and peers only under one",
    REFUSE: "no one",
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
    """Describe which requests are admitted without an agreement."""
    return _WITHOUT_AGREEMENT[config.sharing.without_agreement]


def summary(config: ServiceConfig) -> list[str]:
    """Return a line for each site, and one for requests without an agreement."""
    width = max(len(site.name) for site in config.clusters)
    sites = [f"{site.name:<{width}}  {allowed_at(site)}" for site in config.clusters]
    return [*sites, f"without an agreement: {allowed_without_agreement(config)}"]
