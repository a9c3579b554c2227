"""What a routing policy may look at for one request: no more than it declared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from leasehold.model.errors import LeaseholdError
from leasehold.model.request import Request
from leasehold.routing.demand import Demand, Outlook
from leasehold.routing.estimators import NOTHING_SEEN
from leasehold.routing.facts import Federation, SiteFacts, SiteHistory, SiteLive
from leasehold.routing.moments import StreamMoments


class Information(IntEnum):
    """What a policy needs to know; each level includes those before it.

    STATIC   facts of the sites and moments of the streams, told or learnt from what came by
    HISTORY  what this gateway sent where and what came of it
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
        """Give the stream of external requests at this gateway, told or learnt."""
        ...

    def local(self, site_name: str, now_ms: int) -> StreamMoments:
        """Give a site's local stream as learnt; asked only where it was not told."""
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

    def outlook(self, site_name: str, now_ms: int) -> Outlook:
        """Give what its own users are likely to take soon."""
        ...


class RoutingView:
    """One request's view of the federation, made in constant time and valid for this moment.

    ``sites``       the sites that may be chosen, in the federation's order
    ``federation``  all sites, also those that cannot take this request

    The methods raise UndeclaredInformation when a policy asks for more than it declared.
    """

    __slots__ = ("_information", "_now_ms", "_sources", "federation", "sites")

    def __init__(
        self,
        federation: Federation,
        sites: Sequence[SiteFacts],
        sources: Sources,
        information: Information,
        now_ms: int,
    ) -> None:
        self.federation = federation
        self.sites = sites
        self._sources = sources
        self._information = information
        self._now_ms = now_ms

    @property
    def external(self) -> StreamMoments:
        """The stream of external requests at this gateway, told or learnt."""
        return self._sources.external(self._now_ms)

    def local(self, site_name: str) -> StreamMoments:
        """Give a site's local stream, as told, else as learnt."""
        told = self.federation[site_name].told_local
        return self._sources.local(site_name, self._now_ms) if told is None else told

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

    def outlook(self, site_name: str) -> Outlook:
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
    lives: Mapping[str, SiteLive] = field(default_factory=dict)
    demands: Mapping[str, Demand] = field(default_factory=dict)
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
        return self.lives[site_name]

    def outlook(self, site_name: str, now_ms: int) -> Outlook:
        """Give what the stated table says now."""
        return self.demands[site_name].outlook(now_ms)
