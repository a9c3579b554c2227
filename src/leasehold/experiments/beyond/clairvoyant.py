"""Who knows every local request of the whole period: no policy to use, but a bound that foresight attains."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import ClassVar

from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.profile import Profile
from leasehold.model.request import LeaseType, Request
from leasehold.routing.facts import SiteFacts
from leasehold.routing.policy import Dispatch, Hold, Information, Refuse, RoutingPolicy, RoutingView, Verdict
from leasehold.simulation.workload.job import Job

Room = Mapping[str, Profile]
"""By site, what its own users will leave free, and less and less of it as guests are booked."""


class Clairvoyant(RoutingPolicy):
    """Where and when does a guest end soonest without being in anybody's way, given all that is to come?

    Rule: each guest is booked at its arrival in the room that local requests will leave, at the earliest end;
    it goes out when that begins. Non-preemptable requests that find none are refused, and so are Migratable
    ones that would miss their deadline.
    Source: none; nobody knows the future.
    """

    name: ClassVar[str] = "clairvoyant"
    information: ClassVar[Information] = Information.STATIC

    def __init__(self, random: Random, room: Room, needs_ms: Mapping[int, int]) -> None:
        super().__init__(random)
        self._room = room
        self._needs_ms = needs_ms
        self._booked: dict[int, tuple[str, int]] = {}

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Book at first sight, and send when it is time."""
        booked = self._booked.pop(request.id, None) or self._book(request, view.sites, now_ms)
        if booked is None:
            return Refuse()
        site, start_ms = booked
        if start_ms <= now_ms:
            return Dispatch(site)
        self._booked[request.id] = booked
        return Hold(start_ms)

    def _book(self, request: Request, sites: Iterable[SiteFacts], now_ms: int) -> tuple[str, int] | None:
        """Take the room in which it ends soonest; None where it may not start, or end, as late as that."""
        is_late, end_ms, start_ms, site = min(self._offers(request, sites, now_ms))
        if is_late:
            return None
        self._room[site].take(start_ms, end_ms, request.vms)
        return site, start_ms

    def _offers(
        self, request: Request, sites: Iterable[SiteFacts], now_ms: int
    ) -> Iterable[tuple[bool, int, int, str]]:
        """Give for each site whether that is too late, when it would end, when start, and the name."""
        latest_ms = now_ms if request.lease_type is LeaseType.NON_PREEMPTABLE else None
        for site in sites:
            span_ms = -(-self._needs_ms[request.id] * site.reference_mips // site.speed_mips)
            room = self._room[site.name]
            room.trim(now_ms)
            start_ms = room.earliest(max(now_ms, request.ready_ms), span_ms, request.vms)
            end_ms = start_ms + span_ms
            is_late = (latest_ms is not None and start_ms > latest_ms) or (
                request.deadline_ms is not None and end_ms > request.deadline_ms
            )
            yield is_late, end_ms, start_ms, site.name


def room_beside(settings: Sequence[SiteSettings], jobs: Iterable[Job], reference_mips: int) -> Room:
    """Say what local requests leave free of sites without guests: each starts in turn, or is refused."""
    room = {one.name: Profile(one.slots) for one in settings}
    speed_mips = {one.name: one.speed_mips for one in settings}
    waits = {one.name: one.queues_locals for one in settings}
    for job in jobs:
        assert job.site is not None
        wall_ms = -(-min(job.actual_ms, job.requested_ms) * reference_mips // speed_mips[job.site])
        _take(room[job.site], job, wall_ms, waits=waits[job.site])
    return room


def _take(room: Profile, job: Job, wall_ms: int, *, waits: bool) -> None:
    """Let a local job have its room, now or as soon as there is any where it may wait."""
    if job.vms > room.slots:
        return
    start_ms = room.earliest(job.submit_ms, wall_ms, job.vms)
    if waits or start_ms == job.submit_ms:
        room.take(start_ms, start_ms + wall_ms, job.vms)
