"""The sites and peers of one engine: which lend, the terms with them, and the leases that hold their machines."""

from collections import Counter
from dataclasses import dataclass

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.peering import AskWhen, PeerAgreed, Terms
from leasehold.gateway.site import Site
from leasehold.leasing.overhead import ONE, PLANNED, MeasuredOverheads
from leasehold.model.errors import InvalidField
from leasehold.model.event import CancelRequested, Event, LendingChanged, Operation, SiteForgotten, Tick
from leasehold.model.request import DEFAULT_MEMORY_MIB, GPU_MILLI
from leasehold.model.resources import gpus_of
from leasehold.service.commands import Drain, ForgetSite, KeepPeer, RemovePeer, Undrain
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.remote_sites import RemoteSiteProtocol
from leasehold.service.errors import CannotForget, CannotRemovePeer, NoSuchPeer, NoSuchSite
from leasehold.service.messages.endpoints import GATEWAY, asking
from leasehold.service.store.rows import PEERS, SITES, PeerRow, SiteRow


class SiteRepository:
    """Drains sites, lets them lend again, and forgets those that decide for themselves."""

    def __init__(self, context: EngineContext, remote_sites: RemoteSiteProtocol) -> None:
        self._unit = context.unit
        self._core = context.core
        self._journal = context.journal
        self._remote_sites = remote_sites

    def drain(self, command: Drain, now_ms: int) -> list[Event]:
        """Let a site take no new guests; raises NoSuchSite."""
        self._check(command.site)
        self._unit.put(SITES, SiteRow(command.site, now_ms, command.by, command.note))
        self._journal.site(command.site, "drained", now_ms, by=command.by, note=command.note)
        return [LendingChanged(command.site, lends=False)]

    def undrain(self, command: Undrain, now_ms: int) -> list[Event]:
        """Let a site take guests again; raises NoSuchSite."""
        self._check(command.site)
        self._unit.put(SITES, SiteRow(command.site, None, "", ""))
        self._journal.site(command.site, "resumed", now_ms, by=command.by)
        return [LendingChanged(command.site, lends=True)]

    def forget(self, command: ForgetSite, now_ms: int) -> list[Event]:
        """Forget a site that decides for itself; raises NoSuchSite, CannotForget."""
        self._check(command.site)
        remote = self._core.gateway.registry.remotes.get(command.site)
        if remote is None:
            raise CannotForget(command.site, "it is the gateway's own; take it out of the configuration")
        if not remote.silent:
            raise CannotForget(command.site, "it is in touch; stop its manager, and wait a minute")
        self._remote_sites.forget(command.site)
        self._unit.put(SITES, SiteRow(command.site, None, "", ""))
        self._journal.site(command.site, "forgotten", now_ms, by=command.by)
        return [SiteForgotten(command.site)]

    def _check(self, site: str) -> None:
        gateway = self._core.gateway
        remote = gateway.registry.remotes.get(site)
        if site not in gateway.sites and (remote is None or remote.is_peer):
            remotes = (name for name, remote in gateway.registry.remotes.items() if not remote.is_peer)
            raise NoSuchSite(site, [*gateway.sites, *remotes])


class PeerRepository:
    """Adds, changes and removes peers; ``rows`` are those that there are."""

    def __init__(self, context: EngineContext, rows: dict[str, PeerRow], remote_sites: RemoteSiteProtocol) -> None:
        """Begin with these."""
        self.rows = rows
        self._unit = context.unit
        self._core = context.core
        self._journal = context.journal
        self._remote_sites = remote_sites

    def keep(self, command: KeepPeer, now_ms: int) -> list[Event]:
        """Add a peer, or change its terms; raises InvalidField for a name that is taken.

        Leases that wait may be served by it now.
        """
        name, before = command.name, self.rows.get(command.name)
        if before is None:
            self._check_name(name)
        row = PeerRow(
            name=name,
            url=command.url,
            ask=AskWhen(command.ask).value,
            max_vms=command.max_vms,
            max_hops=command.max_hops,
            line=command.line if before is None else before.line,
            added_ms=now_ms if before is None else before.added_ms,
            added_by=command.by if before is None else before.added_by,
        )
        self.rows[name] = row
        self._unit.put(PEERS, row)
        gateway = self._core.gateway
        self._core.hear(PeerAgreed(name, terms_with(row), now_ms))
        if before is not None and before.max_hops != row.max_hops and name in gateway.registry.remotes:
            self._remote_sites.jobs.ask_anew(
                name, now_ms, images=True
            )  # some of its sites may be used now that could not be
        what = "peer-added" if before is None else "peer-changed"
        terms = {"url": row.url, "ask": row.ask, "max_vms": row.max_vms, "max_hops": row.max_hops}
        self._journal.site(name, what, now_ms, by=command.by, **terms)
        return [Tick()] if gateway.has_pending_work else []

    def remove(self, command: RemovePeer, now_ms: int) -> list[Event]:
        """Remove a peer: what is there has failed, and what it has here is ended.

        Raises NoSuchPeer, and CannotRemovePeer while there is anything of that and the peer is in touch.
        """
        name = command.name
        if name not in self.rows:
            raise NoSuchPeer(name, self.rows)
        guests = list(self._core.gateway.peering.here.get(name, ()))
        self._check_quiet(command, guests)
        for lease_id in guests:
            self._remote_sites.report_no_more(lease_id)
        for endpoint in (name, asking(name)):
            self._remote_sites.forget(endpoint)
        del self.rows[name]
        self._unit.remove(PEERS, name=name)
        self._journal.site(name, "peer-removed", now_ms, by=command.by)
        return [*map(CancelRequested, guests), SiteForgotten(name)]

    def _check_name(self, name: str) -> None:
        gateway = self._core.gateway
        if name == GATEWAY or name in gateway.sites or name in gateway.registry.remotes:
            raise InvalidField("name", name, "a name that neither this gateway nor one of its sites has")

    def _check_quiet(self, command: RemovePeer, guests: list[int]) -> None:
        name = command.name
        remote = self._core.gateway.registry.remotes.get(name)
        there = 0 if remote is None else len(remote.leases)
        advice = "wait for their end, or until it has been silent for a minute"
        if there and name not in command.silent:
            raise CannotRemovePeer(name, f"leases of ours are there ({there}); {advice}")
        if guests and asking(name) not in command.silent:
            raise CannotRemovePeer(name, f"leases of its own are here ({len(guests)}); {advice}")


def terms_with(row: PeerRow) -> Terms:
    """Give the terms on which requests are exchanged with a peer."""
    return Terms(AskWhen(row.ask), row.max_vms, row.max_hops)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The occupancy of a site: VMs held by local leases and by guests, those free and up, and the leases that wait."""

    local_vms: int
    guest_vms: int
    free_vms: int
    waiting_local: int
    waiting_guests: int
    waiting_local_vms: int
    waiting_guest_vms: int
    overheads: "tuple[Overhead, ...]" = ()


def occupancy(site: Site) -> Occupancy:
    """Look at one site."""
    allocations = site.allocations
    guests = [] if site.guests is None else site.guests.waiting()
    return Occupancy(
        allocations.local_vms,
        allocations.guest_vms,
        site.free_vms,
        len(site.locals),
        len(guests),
        sum(lease.vms for lease in site.locals.waiting()),
        sum(lease.vms for lease in guests),
        overheads(site),
    )


@dataclass(frozen=True, slots=True)
class Overhead:
    """How long an operation takes a site for a lease of one VM of `DEFAULT_MEMORY_MIB`.

    ``configured_ms``  by the owner's terms; None for a start, of which they say nothing
    ``learnt_ms``      as it is planned to take by now; of a start, as it usually does; None: not known
    ``count``          how many measurements that is based on
    """

    operation: Operation
    configured_ms: int | None
    learnt_ms: int | None
    count: int


def overheads(site: Site) -> tuple[Overhead, ...]:
    """Say how long operations are configured to take at a site, and what was learnt of it."""
    return tuple(_overhead(site.allocations.experience, operation) for operation in Operation)


def _overhead(experience: MeasuredOverheads, operation: Operation) -> Overhead:
    count, planned = experience.count(operation), PLANNED.get(operation)
    if planned is None:
        return Overhead(operation, None, experience.usual_ms(operation), count)
    configured_ms, learnt_ms = (
        planned(model, DEFAULT_MEMORY_MIB, 1) for model in (experience.configured, experience.overheads())
    )
    return Overhead(operation, configured_ms, learnt_ms, count)


def overhead_factors(gateway: Gateway) -> dict[tuple[str, str], float]:
    """Give the factors between configured and planned times, by site and operation."""
    return {
        (name, operation.value): site.allocations.experience.factor(operation) / ONE
        for name, site in gateway.sites.items()
        for operation in PLANNED
    }


def gpus_in_use(site: Site) -> dict[str, int]:
    """Count the GPUs of a site in thousandths, by use: local, guest, free; empty where it states none."""
    total = GPU_MILLI * sum(gpus_of(site.settings.nodes).values())
    if not total:
        return {}
    held = Counter[str]()
    for lease in site.allocations.held.values():
        held["local" if lease.request.is_local else "guest"] += lease.vms * lease.request.gpu_milli
    return {"local": held["local"], "guest": held["guest"], "free": max(0, total - held.total())}


def occupancies(gateway: Gateway) -> dict[str, Occupancy]:
    """Look at all sites."""
    return {name: occupancy(site) for name, site in gateway.sites.items()}
