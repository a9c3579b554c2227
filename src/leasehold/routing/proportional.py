"""Policies that know which share of the requests each site should get, and keep to it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from leasehold.model.request import Request
from leasehold.routing.baselines import biggest_cluster_first_proportions
from leasehold.routing.dispatch import Bernoulli, Dispatcher
from leasehold.routing.facts import Federation, SiteFacts
from leasehold.routing.policy import Dispatch, RoutingPolicy
from leasehold.routing.view import RoutingView

HOUR_MS = 3_600_000
LEARNT_GOOD_FOR = 500
"""Requests for which shares made from learnt moments are kept: few enough to follow a daily cycle."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which share of all external requests each site of the federation should get.

    ``rule``           which rule gave them, "" for the policy's usual one
    ``good_for``       requests after which to work them out again, None for never
    """

    by_site: Mapping[str, float]
    rule: str = ""
    good_for: int | None = None

    @classmethod
    def of(
        cls,
        sites: Sequence[SiteFacts],
        proportions: Sequence[float],
        *,
        rule: str = "",
        good_for: int | None = None,
    ) -> Self:
        """Make shares from proportions in the order of the sites."""
        names = [site.name for site in sites]
        return cls(dict(zip(names, proportions, strict=True)), rule, good_for)


def shares_by_computing_power(sites: Sequence[SiteFacts], *, rule: str = "", good_for: int | None = None) -> Shares:
    """Give each site its part of all computing power, as BCF does (JPDC 2012, eq 27)."""
    proportions = biggest_cluster_first_proportions([site.total_mips for site in sites])
    return Shares.of(sites, proportions, rule=rule, good_for=good_for)


@dataclass(slots=True)
class _Plan:
    shares: Shares
    federation: Federation
    made_ms: int
    routed: int = 0
    dispatchers: dict[tuple[SiteFacts, ...], Dispatcher] = field(default_factory=dict)

    def is_due(self, now_ms: int) -> bool:
        good_for = self.shares.good_for
        return good_for is not None and (self.routed >= good_for or now_ms - self.made_ms >= HOUR_MS)


class ProportionalPolicy(RoutingPolicy):
    """Base of policies that split the stream in fixed shares.

    Shares are worked out for the whole federation and kept until they are due again (``Shares.good_for``
    requests or an hour), or until the federation changes. A request that fits only some sites is split
    among these in the same ratio; where none of them has a share, by computing power.
    """

    _plan: _Plan | None = None

    @abstractmethod
    def shares(self, view: RoutingView) -> Shares:
        """Work out the share of each site of ``view.federation``."""

    def dispatcher(self, proportions: Sequence[float], sites: Sequence[SiteFacts]) -> Dispatcher:  # noqa: ARG002
        """Make the sequence that keeps to the shares among these sites; at random unless overridden."""
        return Bernoulli(proportions, self.random)

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Dispatch:
        """Send the request to the next site in the sequence of the sites that can take it."""
        plan = self._current_plan(view, now_ms)
        sites = tuple(view.sites)
        dispatcher = plan.dispatchers.get(sites)
        if dispatcher is None:
            dispatcher = self.dispatcher(_among(sites, plan.shares.by_site), sites)
            plan.dispatchers[sites] = dispatcher
        plan.routed += 1
        return Dispatch(sites[dispatcher.next(request.lease_type)].name, plan.shares.rule)

    def _current_plan(self, view: RoutingView, now_ms: int) -> _Plan:
        plan = self._plan
        if plan is None or plan.federation is not view.federation or plan.is_due(now_ms):
            plan = self._plan = _Plan(self.shares(view), view.federation, now_ms)
        return plan


def _among(sites: Sequence[SiteFacts], by_site: Mapping[str, float]) -> Sequence[float]:
    """Give the shares of these sites, by computing power where all are zero; the ratio is what counts."""
    shares = [by_site[site.name] for site in sites]
    return shares if any(shares) else biggest_cluster_first_proportions([s.total_mips for s in sites])
