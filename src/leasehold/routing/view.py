"""What a routing policy may look at for one request: facts of the sites, and no more than it declared."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.model.request import LeaseType, Request
from leasehold.routing.demand import DemandOutlook, LocalDemand
from leasehold.routing.estimators import NOTHING_SEEN
from leasehold.routing.moments import StreamMoments, require_positive


@dataclass(frozen=True, slots=True, eq=False)
class SiteFacts:
    """What stays the same. Two of them are equal only if they are the same object.

    ``slots``           VMs that it can run at once
    ``speed_mips``      speed of one slot
    ``reference_mips``  speed that requested durations refer to
    ``told_local``      its local stream as its operator states it, None where it must be learnt

    Raises InvalidField for a size or speed that is not above zero.
    """

    name: str
    slots: int
    speed_mips: int
    reference_mips: int
    told_local: StreamMoments | None = None

    def __post_init__(self) -> None:
        """Refuse what no site can be."""
        for name in ("slots", "speed_mips", "reference_mips"):
            require_positive(f"{name} of {self.name}", getattr(self, name))

    @property
    def total_mips(self) -> int:
        """Computing power of the whole site."""
        return self.slots * self.speed_mips


@dataclass(slots=True)
class SiteHistory:
    """What this gateway itself did with a site and what came of it; the gateway keeps it up to date.

    ``sent``              leases dispatched there, by lease type
    ``in_flight_leases``  dispatched there and not yet ended or moved elsewhere, and their VMs
    ``preempted_leases``  how often one of them was preempted there
    """

    sent: list[int] = field(default_factory=lambda: [0] * len(LeaseType))
    in_flight_leases: int = 0
    in_flight_vms: int = 0
    preempted_leases: int = 0


class EarliestStart(Protocol):
    """When so many VMs could start for so long (ms at the reference speed); None for never.

    ``like`` is a request whose machines they are as; without it they need nothing but a slot.
    """

    def __call__(self, vms: int, duration_ms: int, like: Request | None = None, /) -> int | None:
        """Ask the site's plan."""
        ...


@dataclass(slots=True)
class SiteLive:
    """How a site is right now.

    ``free_vms``            slots that no lease holds
    ``local_waiting_vms``   VMs that queued local requests ask for
    ``guest_waiting_vms``   VMs that queued guests ask for
    ``running_guest_vms``   VMs that guests hold
    ``earliest_start_ms``   asks the site's plan, None where a site does not answer that
    """

    free_vms: int
    local_waiting_vms: int = 0
    guest_waiting_vms: int = 0
    running_guest_vms: int = 0
    earliest_start_ms: EarliestStart | None = None

    @property
    def unclaimed_vms(self) -> int:
        """Give the free slots that no queued guest asks for; below 0 where they ask for more than that."""
        return self.free_vms - self.guest_waiting_vms


class SiteSet:
    """All sites behind one gateway in a fixed order, made once.

    Raises InvalidField when two sites share a name.
    """

    def __init__(self, sites: Iterable[SiteFacts]) -> None:
        self.sites = tuple(sites)
        self._position = {site.name: i for i, site in enumerate(self.sites)}
        if len(self._position) < len(self.sites):
            raise InvalidField("sites", [site.name for site in self.sites], "a name of its own for each site")
        self._sizes = sorted({site.slots for site in self.sites})
        self._at_least = [tuple(s for s in self.sites if s.slots >= size) for size in self._sizes]
        self._at_least[:1] = [self.sites] if self._sizes else []
        self._at_least.append(())

    def __getitem__(self, name: str) -> SiteFacts:
        """Give the facts of the site with this name."""
        return self.sites[self._position[name]]

    def position(self, name: str) -> int:
        """Give the place of a site in the fixed order."""
        return self._position[name]

    def wide_enough(self, vms: int) -> tuple[SiteFacts, ...]:
        """Give the sites with at least so many slots, in the fixed order: always the same tuple for them."""
        return self._at_least[bisect_left(self._sizes, vms)]


class Information(IntEnum):
    """What a policy needs to know; each level includes those before it.

    STATIC   facts of the sites and moments of the streams, configured or learnt
    HISTORY  what this gateway sent where, with the outcomes
    LIVE     how the sites are right now
    """

    STATIC = 0
    HISTORY = 1
    LIVE = 2

    @property
    def label(self) -> str:
        """The name as users write it."""
        return self.name.lower()


class UndeclaredInformation(LeaseholdError):
    """A routing policy asked for more than it declares to use."""

    def __init__(self, asked: str, declared: Information, needed: Information) -> None:
        super().__init__(
            f"{asked}: the routing policy declares information {declared.label!r}, "
            f"expected at least {needed.label!r} (set information = Information.{needed.name})"
        )


class Sources(Protocol):
    """Where a gateway's knowledge comes from; the gateway implements it once, not per request."""

    def external(self, now_ms: int) -> StreamMoments:
        """Return the stream of external requests at this gateway, configured or learnt."""
        ...

    def local(self, site_name: str, now_ms: int) -> StreamMoments:
        """Return a site's local stream as learnt; called only if it is not configured."""
        ...

    def history(self, site_name: str) -> SiteHistory:
        """Give what this gateway did with the site."""
        ...

    def needed_part(self, request: Request) -> float:
        """Give the part of the time asked for that guests of this user are likely to need."""
        ...

    def live(self, site_name: str, now_ms: int) -> SiteLive:
        """Give how the site is now."""
        ...

    def outlook(self, site_name: str, now_ms: int) -> DemandOutlook:
        """Give what its own users are likely to take soon."""
        ...


def _is_unknown(request: Request) -> bool:  # noqa: ARG001 - whatever it is
    """It is not known of any request whether it may go to all sites."""
    return False


class RoutingView:
    """A view of the federation, made in constant time and valid for this moment.

    Requests for which the same sites may be chosen are shown the same view, until something was sent to a site or time
    has passed. All views until then share ``memo``: there a policy may keep what it needs again for the next request.
    What it keeps under the facts of a site stays until something was sent to that site.

    ``sites``       the sites that may be chosen, in the federation's order
    ``federation``  all sites, also those that cannot take this request
    ``goes_to_all`` whether a waiting request would be shown just these sites, and nothing but the policy decides
                    whether it goes to one of them: what is true of them here stays so for it

    The methods raise UndeclaredInformation when a policy asks for more than it declared.
    """

    __slots__ = ("_information", "_now_ms", "_sources", "federation", "goes_to_all", "memo", "sites")

    def __init__(
        self,
        federation: SiteSet,
        sites: Sequence[SiteFacts],
        sources: Sources,
        information: Information,
        now_ms: int,
        memo: dict[object, Any] | None = None,
        *,
        goes_to_all: Callable[[Request], bool] = _is_unknown,
    ) -> None:
        self.federation = federation
        self.sites = sites
        self.goes_to_all = goes_to_all
        self.memo = {} if memo is None else memo
        self._sources = sources
        self._information = information
        self._now_ms = now_ms

    @property
    def external(self) -> StreamMoments:
        """The stream of external requests at this gateway, configured or learnt."""
        return self._sources.external(self._now_ms)

    def local(self, site_name: str) -> StreamMoments:
        """Return a site's local stream, as configured, else as learnt."""
        moments = self.federation[site_name].told_local
        return self._sources.local(site_name, self._now_ms) if moments is None else moments

    def history(self, site_name: str) -> SiteHistory:
        """Give what this gateway did with the site. Needs Information.HISTORY."""
        self._require(Information.HISTORY, "history")
        return self._sources.history(site_name)

    def needed_part(self, request: Request) -> float:
        """Give the part of the time asked for that it is likely to need, by what its user needed before.

        Above 0 and at most 1. Needs Information.HISTORY.
        """
        self._require(Information.HISTORY, "needed_part")
        return self._sources.needed_part(request)

    def live(self, site_name: str) -> SiteLive:
        """Give how the site is now. Needs Information.LIVE."""
        self._require(Information.LIVE, "live")
        return self._sources.live(site_name, self._now_ms)

    def outlook(self, site_name: str) -> DemandOutlook:
        """Give what its own users are likely to take soon. Needs Information.LIVE."""
        self._require(Information.LIVE, "outlook")
        return self._sources.outlook(site_name, self._now_ms)

    def _require(self, needed: Information, asked: str) -> None:
        if self._information < needed:
            raise UndeclaredInformation(asked, self._information, needed)


@dataclass(slots=True)
class FixedSources:
    """Sources that are simply stated: for tests and for trying a policy by hand."""

    external_stream: StreamMoments = NOTHING_SEEN
    local_streams: Mapping[str, StreamMoments] = field(default_factory=dict)
    histories: Mapping[str, SiteHistory] = field(default_factory=dict)
    live_sites: Mapping[str, SiteLive] = field(default_factory=dict)
    demands: Mapping[str, LocalDemand] = field(default_factory=dict)
    needed_parts: Mapping[str, float] = field(default_factory=dict)

    def external(self, now_ms: int) -> StreamMoments:  # noqa: ARG002 - the same at all times
        """Give the stated stream."""
        return self.external_stream

    def local(self, site_name: str, now_ms: int) -> StreamMoments:  # noqa: ARG002 - the same at all times
        """Give the stated stream, or one of which nothing was seen."""
        return self.local_streams.get(site_name, NOTHING_SEEN)

    def history(self, site_name: str) -> SiteHistory:
        """Give the stated history."""
        return self.histories[site_name]

    def needed_part(self, request: Request) -> float:
        """Give what is stated of the user, or all of it."""
        return self.needed_parts.get(request.path, 1.0)

    def live(self, site_name: str, now_ms: int) -> SiteLive:  # noqa: ARG002 - the same at all times
        """Give the stated state."""
        return self.live_sites[site_name]

    def outlook(self, site_name: str, now_ms: int) -> DemandOutlook:
        """Give what the stated table says now."""
        return self.demands[site_name].outlook(now_ms)
