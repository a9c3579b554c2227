"""Best effort waits until more than enough is free."""

import math
from collections.abc import Sequence
from typing import ClassVar

from leasehold.model.request import NEVER_MS, Request
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    RoutingPolicy,
    RoutingView,
    Selection,
    Verdict,
    Waiting,
)

RESERVE = 0.4
"""Part of a site that best-effort work leaves free for the site's own users."""
GONE_AFTER_MS = 7_200_000
"""Wait after which a request leaves nothing free any more, and starts wherever it fits."""


class LateBinding(RoutingPolicy):
    """Where would a part of the site be left free for its own users, and if nowhere, when?

    Rule: each request goes to the site with the greatest part free; best-effort ones wait at the gateway
        until 40 % of the site stays free beside them, less with their wait, and nothing after two hours.
    Source: our own study; the simplest policy that binds late. Needs the live state of the sites, and learns
        nothing.
    """

    name: ClassVar[str] = "late-binding"
    information: ClassVar[Information] = Information.LIVE

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        """Compare the sites as they are now."""
        left = {site.name: _left(site.name, site.slots, request.vms, view) for site in view.sites}
        chosen = max(left, key=lambda name: left[name])
        if not request.lease_type.is_best_effort or left[chosen] >= _reserve(request.ready_ms, now_ms):
            return Dispatch(chosen)
        return Hold(request.ready_ms if request.ready_ms > now_ms else None)

    def select(self, waiting: Sequence[Waiting], view: RoutingView, now_ms: int) -> Selection:
        """Return those that leave enough free at some site, or else when the first of them will."""
        sites = [(_left(site.name, site.slots, 0, view), site.slots) for site in view.sites]
        ripe, again_ms = list[Waiting](), NEVER_MS
        for one in waiting:
            most = max((left - one.request.vms / slots for left, slots in sites), default=-1.0)
            if most >= _reserve(one.since_ms, now_ms):
                ripe.append(one)
            else:
                again_ms = min(again_ms, _reserves_from_ms(one.since_ms, most))
        return Selection(ripe, now_ms if ripe else again_ms)


def _left(name: str, slots: int, vms: int, view: RoutingView) -> float:
    """What part of a site would be free beside so many VMs more."""
    live = view.live(name)
    return (live.unclaimed_vms - vms) / slots


def _reserve(since_ms: int, now_ms: int) -> float:
    """The fraction that a request waiting since ``since_ms`` leaves free; 1 before that time."""
    if now_ms < since_ms:
        return 1.0
    return RESERVE * max(0.0, 1 - (now_ms - since_ms) / GONE_AFTER_MS)


def _reserves_from_ms(since_ms: int, most: float) -> int:
    """Say from when on, or just before that, `_reserve` is at most this; it never is below 0."""
    if most < 0:
        return NEVER_MS
    return since_ms + max(0, math.floor((1 - most / RESERVE) * GONE_AFTER_MS) - 1)
