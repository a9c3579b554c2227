"""What a gateway knows of its streams and sites: the source of every routing policy's view."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leasehold.gateway.site import Site
from leasehold.gateway.sites import SiteRegistry
from leasehold.leasing.kernel import Profile
from leasehold.model.lease import Lease
from leasehold.model.request import Request
from leasehold.model.resources import MachineShape
from leasehold.routing.demand import NO_AGE, DemandOutlook, LocalDemand
from leasehold.routing.estimators import NOTHING_SEEN, LoadEstimator, RunTimes
from leasehold.routing.moments import StreamMoments, together
from leasehold.routing.view import EarliestStart, SiteFacts, SiteHistory, SiteLive

Streams = Callable[[int], Sequence[StreamMoments]]
"""Gives streams as they are known at a time (ms)."""


class Knowledge:
    """Implements `leasehold.routing.view.Sources` over the gateway's own sites.

    Streams that an operator states are taken as stated; the others are learnt from the requests that come. What comes
    from ``peers`` is learnt for each of them; the external stream is all of theirs and the own users'.
    """

    def __init__(
        self, registry: SiteRegistry, reference_mips: int, told_external: StreamMoments | None, peers: Streams
    ) -> None:
        """Start with the configured moments only."""
        self._registry = registry
        self._reference_mips = reference_mips
        self._told_external = told_external
        self._peers = peers
        self._learnt: LoadEstimator | None = None
        self._run_times = RunTimes()
        self._histories: dict[str, SiteHistory] = {}
        self._unwatched: dict[int, LocalDemand] = {}
        self.update_sites()

    def update_sites(self) -> None:
        """Take note of sites and peers that joined, or have changed."""
        sites = self._registry.federation.sites
        self._untold = frozenset(site.name for site in sites if site.told_local is None)
        for name in (*(site.name for site in sites), *self._registry.remotes):
            self._histories.setdefault(name, SiteHistory())

    # What came by

    def observe(self, request: Request, now_ms: int) -> None:
        """Learn from one request, of whichever stream it is; learning begins with the first of all.

        What comes from a peer is learnt elsewhere, by `leasehold.gateway.peering`.
        """
        if request.from_peer:
            return
        if self._learnt is None:
            self._learnt = LoadEstimator(now_ms)
        if request.site is None:
            if self._told_external is None:
                self._learnt.observe_external(request, now_ms)
        elif request.site in self._untold:
            self._learnt.observe_local(request.site, request, now_ms)

    def _seen(self, site_name: str | None, now_ms: int) -> StreamMoments:
        return NOTHING_SEEN if self._learnt is None else self._learnt.stream(site_name, now_ms)

    def sent(self, lease: Lease) -> None:
        """A lease was dispatched or moved to the site that it names."""
        history = self._histories[lease.site]
        history.sent[lease.request.lease_type] += 1
        history.in_flight_leases += 1
        history.in_flight_vms += lease.vms

    def gone(self, lease: Lease, site_name: str) -> None:
        """A lease ended at this site, or was moved away from it."""
        history = self._histories[site_name]
        history.in_flight_leases -= 1
        history.in_flight_vms -= lease.vms

    def ended(self, lease: Lease, speed_mips: int, now_ms: int) -> None:
        """A guest at a site of this speed ends by itself, or has no time left."""
        requested_units = lease.request.duration_ms * self._reference_mips
        done = requested_units - lease.work_left + lease.ran_ms(now_ms) * speed_mips
        self._run_times.ended(lease.request.path, min(1.0, done / requested_units))

    def preempted(self, site_name: str) -> None:
        """A lease was preempted at this site."""
        self._histories[site_name].preempted_leases += 1

    def look_at_each(self, sites: Iterable[SiteFacts], times: range) -> None:
        """Learn of local demand as if `outlook` had been asked for at each of these times; at none since the last."""
        for site in sites:
            own = self._registry.own.get(site.name)
            if own is not None and own.allocations.demand is not None:
                own.allocations.demand.look_at_each(times)

    # What outlives a restart

    def snapshot(self) -> dict[str, Any]:
        """Give what cannot be seen in the open leases, as plain data for `restore`."""
        return {
            "sent": {name: history.sent for name, history in self._histories.items()},
            "preempted": {name: history.preempted_leases for name, history in self._histories.items()},
            "learnt": None if self._learnt is None else self._learnt.memory(),
            "run_times": self._run_times.memory(),
            "demand": {
                name: site.allocations.demand.memory()
                for name, site in self._registry.own.items()
                if site.allocations.demand is not None
            },
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Remember what `snapshot` gave; sites that are no longer there are forgotten."""
        for name, history in self._histories.items():
            history.sent = list(snapshot["sent"].get(name, history.sent))
            history.preempted_leases = snapshot["preempted"].get(name, 0)
        if snapshot["learnt"] is not None:
            self._learnt = LoadEstimator.recalled(snapshot["learnt"])
        if "run_times" in snapshot:
            self._run_times = RunTimes.recalled(snapshot["run_times"])
        for name, demand in snapshot.get("demand", {}).items():
            if name in self._registry.own:
                allocations = self._registry.own[name].allocations
                allocations.demand = LocalDemand.recalled(demand, allocations.settings.slots)

    def take_up(self, leases: Iterable[Lease]) -> None:
        """Count the leases that are on their way."""
        for lease in leases:
            if lease.dispatched_ms >= 0:
                history = self._histories[lease.site]
                history.in_flight_leases += 1
                history.in_flight_vms += lease.vms

    # What a policy may ask

    def external(self, now_ms: int) -> StreamMoments:
        """Return the stream of external requests, configured or learnt: from own users and from all peers."""
        if self._told_external is not None:
            return self._told_external
        own, peers = self._seen(None, now_ms), self._peers(now_ms)
        return together([own, *peers]) if peers else own

    def local(self, site_name: str, now_ms: int) -> StreamMoments:
        """Give a site's local stream as learnt."""
        return self._seen(site_name, now_ms)

    def history(self, site_name: str) -> SiteHistory:
        """Give what this gateway did with the site."""
        return self._histories[site_name]

    def needed_part(self, request: Request) -> float:
        """Return the part of the time asked for that guests of this user are likely to need."""
        return self._run_times.needed_part(request.path)

    def live(self, site_name: str, now_ms: int) -> SiteLive:
        """Give how the site is now; or was when it was last heard of, with what it was offered since."""
        if site_name in self._registry.remotes:
            return self._last_heard(site_name)
        site = self._registry.own[site_name]
        allocations = site.allocations
        return SiteLive(
            free_vms=site.free_vms,
            local_waiting_vms=site.locals.waiting_vms(),
            guest_waiting_vms=0 if site.guests is None else site.guests.queued_vms(),
            running_guest_vms=allocations.guest_vms,
            earliest_start_ms=_ask(site, self._reference_mips, now_ms),
        )

    def planned_wait_ms(
        self, site_name: str, vms: int, ahead_vms: int, wall_ms: int, shape: MachineShape, now_ms: int
    ) -> int | None:
        """How long so many VMs for so long (ms, by the clock) would wait at a site, by its plan; changes nothing.

        At a site that counts VMs, ``ahead_vms`` are those that come first and that its plan does not have yet. None
        where it is only known that they would wait: as at a site that decides for itself and has too few VMs free.
        Of peers, and of sites that are not there, no wait is known: 0.
        """
        site = self._registry.own.get(site_name)
        if site is not None:
            return _planned_wait_ms(site, vms, ahead_vms, wall_ms, shape, now_ms)
        remote = self._registry.remotes.get(site_name)
        if remote is None or remote.is_peer:
            return 0
        live = self._last_heard(site_name)
        return 0 if live.unclaimed_vms - live.local_waiting_vms >= vms + ahead_vms else None

    def _last_heard(self, site_name: str) -> SiteLive:
        live, offered_vms = self._registry.remotes[site_name].live, self._registry.offers.vms_at(site_name)
        if not offered_vms:
            return live
        placed_vms = min(offered_vms, live.free_vms)
        return replace(
            live,
            free_vms=live.free_vms - placed_vms,
            guest_waiting_vms=live.guest_waiting_vms + offered_vms - placed_vms,
        )

    def outlook(self, site_name: str, now_ms: int) -> DemandOutlook:
        """Give what a site's own users are likely to take soon; it is learnt from the first question on.

        A site that decides for itself does not report it: the least is assumed.
        """
        if site_name in self._registry.remotes:
            slots = self._registry.remotes[site_name].slots
            return DemandOutlook(self._unwatched.setdefault(slots, LocalDemand(slots)), NO_AGE)
        allocations = self._registry.own[site_name].allocations
        if allocations.demand is None:
            allocations.demand = LocalDemand(allocations.settings.slots, now_ms)
        return allocations.demand.outlook(now_ms)


def starts_now(live: SiteLive, request: Request, now_ms: int) -> bool:
    """Whether a site that is like this would start a guest at once, as far as is known."""
    if live.earliest_start_ms is None:
        return live.unclaimed_vms - live.local_waiting_vms >= request.slots
    start_ms = live.earliest_start_ms(request.vms, request.duration_ms, request)
    return start_ms is not None and start_ms <= now_ms


def _planned_wait_ms(
    site: Site, vms: int, ahead_vms: int, wall_ms: int, shape: MachineShape, now_ms: int
) -> int | None:
    guests, span_ms = site.guests, site.allocations.start_ms() + wall_ms
    if guests is not None and guests.queue.depth == 0 and len(guests.queue):
        return None  # it waits behind them, and none of them has a reservation
    plan = site.home if guests is None else guests.full
    if isinstance(plan, Profile):
        together = vms + ahead_vms
        return plan.earliest(now_ms, span_ms, together) - now_ms if together <= plan.slots else None
    return plan.earliest(shape, vms, now_ms, span_ms) - now_ms if plan.machines(shape) >= vms else None


def _ask(site: Site, reference_mips: int, now_ms: int) -> EarliestStart:
    """When so many VMs could start for so long (ms at the reference speed), by the site's plan."""

    def earliest_start_ms(vms: int, duration_ms: int, like: Request | None = None) -> int | None:
        if vms > site.settings.slots:
            return None
        guests = site.open_to_guests(now_ms)
        span_ms = site.allocations.start_ms() + site.allocations.wall_ms(duration_ms * reference_mips)
        if isinstance(guests.full, Profile):
            return guests.full.earliest(now_ms, span_ms, vms)
        shape = MachineShape(1, 1) if like is None else MachineShape.of(like)
        if guests.full.machines(shape) < vms:
            return None
        return guests.full.earliest(shape, vms, now_ms, span_ms)

    return earliest_start_ms
