"""A site that decides for itself, or a peer, as far as a gateway knows it, as a snapshot of a gateway of its own.

It has one site that confirms starts, as large as was last reported, with the gateway's leases there as far as reports
tell of them, and the rules of a live site that says nothing else. What others hold there is held for ever: neither its
own users nor guests of others are known.
"""

from dataclasses import dataclass, replace

from leasehold.configuration.tables import GatewaySpec
from leasehold.configuration.terms import LIVE_POLICY, ClusterTerms
from leasehold.forecasting.snapshot import GatewayMemory, Snapshot, SnapshotSite, holds_since_ms
from leasehold.gateway.sites import Reach, RemoteTold
from leasehold.model.event import Outage
from leasehold.model.lease import ON_THE_WAY, UNPLANNED, Lease, LeaseState
from leasehold.model.request import Request

_FOR_EVER_MS = 100 * 365 * 86_400_000
_SAVED = frozenset({LeaseState.SUSPENDING, LeaseState.SUSPENDED})
_ANSWERED = _SAVED | ON_THE_WAY | {LeaseState.RUNNING}
"""States of leases that are there; others are still to be taken in."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What is known of a site that decides for itself, or a peer.

    ``snapshot``  of its gateway, with the leases there that were answered
    ``leases``    their numbers
    """

    snapshot: Snapshot
    leases: tuple[int, ...]

    def outside(self, request: Request, now_ms: int, *, wait: bool) -> Request:
        """Give a request as it is made there: in slots, bound to nothing."""
        there = _there(request, self.snapshot.sites[0].slots)
        return replace(there, submit_ms=now_ms, ready_ms=max(request.ready_ms, now_ms), wait=wait)


def elsewhere(snapshot: Snapshot, told: RemoteTold) -> Elsewhere:
    """Give what a snapshot knows of a site that decides for itself, or of a peer and what can be had through it."""
    places: tuple[RemoteTold | Reach, ...] = (told, *told.beyond)
    slots = max(one.slots for one in places)
    leases = [
        _seen(lease, snapshot, told, slots, place)
        for place, lease in enumerate(snapshot.leases)
        if lease.site == told.name and lease.state in _ANSWERED
    ]
    ours = sum(lease.vms for lease in leases if lease.held_since_ms >= 0)
    free = max(0, *(one.free_vms for one in places))
    slots = max(slots, ours + free if told.is_peer else ours)  # a peer tells of its widest site
    others = max(0, slots - free - ours)
    outage = Outage(others, snapshot.taken_ms + _FOR_EVER_MS)
    site = SnapshotSite(
        told.name,
        slots,
        _terms(snapshot, told),
        can_suspend=any(one.can_suspend for one in places),
        can_migrate=any(one.can_migrate for one in places),
        hands_over=told.hands_over,
        images=tuple(sorted({image for one in places for image in one.images})),
        login=any(one.login for one in places),
        outages=(outage,) if others else (),
    )
    of_its_own = Snapshot(
        snapshot.taken_ms,
        snapshot.reference_mips,
        GatewaySpec(policy="most-free"),
        (site,),
        tuple(leases),
        GatewayMemory({}, {}, {}),
        learns=False,
    )
    return Elsewhere(of_its_own, tuple(lease.id for lease in leases))


def _terms(snapshot: Snapshot, told: RemoteTold) -> ClusterTerms:
    """Give the terms that it is taken to have: saving and loading take what they take at the first site of our own."""
    overhead = snapshot.sites[0].terms.overhead
    return ClusterTerms(told.speed_mips, LIVE_POLICY, LIVE_POLICY, overhead=overhead)


def _there(request: Request, slots: int) -> Request:
    """Give a request as it is at a site elsewhere, which is planned by slots here."""
    return replace(
        request,
        vms=min(request.slots, slots) if request.cores > 1 else request.vms,
        cores=1,
        gpu_model="",
        gpu_milli=0,
        on_nodes=(),
        domain="",
        claims=(),
        from_peer="",
        global_id="",
        via=(),
        hop_limit=0,
        max_restarts=0,
        goes_back=True,
    )


def _seen(lease: Lease, snapshot: Snapshot, told: RemoteTold, slots: int, place: int) -> Lease:
    """Give a lease as it is at its site, as far as that has reported it."""
    now_ms = snapshot.taken_ms
    request = _there(lease.request, slots)
    seen = replace(lease, request=request, vms=request.vms, overhead_ms=0, place=place, placed=())
    seen.incarnation, seen.memory_at, seen.dispatched_ms = max(1, lease.incarnation), "", now_ms
    if lease.state in _SAVED:
        seen.state, seen.held_since_ms, seen.reserved_ms = LeaseState.SUSPENDED, UNPLANNED, UNPLANNED
        seen.earliest_ms, seen.overhead_ms = (
            now_ms,
            _terms(snapshot, told).overhead.resume_ms(request.memory_mib, seen.vms),
        )
        seen.span_ms = seen.overhead_ms + -(-lease.work_left // told.speed_mips)
        return seen
    if lease.state is not LeaseState.STARTING:
        seen.state = LeaseState.RUNNING  # to resume or to move there takes no time that is known
    since_ms = holds_since_ms(lease) if seen.state is LeaseState.RUNNING else lease.reserved_ms
    since_ms = now_ms if not 0 <= since_ms <= now_ms else since_ms
    seen.held_since_ms = seen.reserved_ms = since_ms
    seen.span_ms = max(1, -(-lease.work_left // told.speed_mips), now_ms + 1 - since_ms)
    return seen
