"""Policies that know which share of the requests each site should get, and keep to it.

Here are the shares that the papers compare PAP with (JPDC 2012, section 5.2.1: RR, LRF and BCF), and the orders in
which requests go to the clusters once shares are known: a dispatcher is made for one list of shares and answers
with positions in that list.
"""

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import accumulate
from random import Random
from typing import Protocol, Self

from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType, Request
from leasehold.routing.moments import require_non_negative, require_positive
from leasehold.routing.policy import Dispatch, RoutingPolicy
from leasehold.routing.queueing import normalised
from leasehold.routing.view import RoutingView, SiteFacts, SiteSet


def round_robin_proportions(clusters: int) -> tuple[float, ...]:
    """RR: the same share for each cluster (eq 25). Raises InvalidField without clusters."""
    require_positive("clusters", clusters)
    return (1 / clusters,) * clusters


def least_rate_first_proportions(local_rates_per_s: Sequence[float]) -> tuple[float, ...]:
    """LRF: the smaller a cluster's local arrival rate, the larger its share (eq 26).

    The printed shares sum to N - 1, so they are divided by that. Equal shares for one cluster and
    where no cluster has local requests. Raises InvalidField for a negative rate or without clusters.
    """
    for rate in local_rates_per_s:
        require_non_negative("local rate", rate)
    clusters, total = len(local_rates_per_s), sum(local_rates_per_s)
    if clusters == 1 or total == 0:
        return round_robin_proportions(clusters)
    return tuple((1 - rate / total) / (clusters - 1) for rate in local_rates_per_s)


def biggest_cluster_first_proportions(cluster_mips: Sequence[float]) -> tuple[float, ...]:
    """BCF: shares in proportion to computing power, elements times speed (eq 27).

    Raises InvalidField for a cluster without power or without clusters.
    """
    if not cluster_mips:
        raise InvalidField("clusters", 0, "at least one")
    for mips in cluster_mips:
        require_positive("cluster_mips", mips)
    return normalised(cluster_mips)


class ShareDispatcher(Protocol):
    """Chooses the cluster of the next request, given its type."""

    def next(self, lease_type: LeaseType) -> int:
        """Give the position of the chosen cluster."""
        ...


class Bernoulli:
    """Drawn at random with the shares as probabilities, without memory: the RND of JPDC 2012, section 5.2.1.

    Shares need not sum to one. Raises InvalidField when none is above zero.
    """

    def __init__(self, proportions: Sequence[float], random: Random) -> None:
        self._positions = _with_a_share(proportions)
        self._upto = list(accumulate(proportions[i] for i in self._positions))
        self._random = random

    def next(self, lease_type: LeaseType) -> int:  # noqa: ARG002 - a draw does not look at the type
        """Draw the next cluster."""
        # random() stays far enough below 1 that the product stays below the total, rounded too
        return self._positions[bisect_right(self._upto, self._random.random() * self._upto[-1])]


class Billiard:
    """A deterministic sequence that keeps to the shares as closely as whole requests can.

    Rule: the next request goes to the argmin of (X_j + Y_j) / P_j, ties to the lowest position;
    Y_j counts what cluster j got, X_j is 1 for the fastest cluster and 0 for the others
    (Hordijk and van der Laan's billiard sequence; JPDC 2012, eq 20, printed as min for argmin).
    X only shifts the start. A heap of the quotients makes each step logarithmic in the clusters.
    """

    def __init__(self, proportions: Sequence[float], fastest: int) -> None:
        self._proportions = proportions
        self._turns = {i: int(i == fastest) for i in _with_a_share(proportions)}
        self._queue = [(turns / proportions[i], i) for i, turns in self._turns.items()]
        heapify(self._queue)

    def next(self) -> int:
        """Give the next cluster and count it."""
        chosen = self._queue[0][1]
        self._turns[chosen] += 1
        heapreplace(self._queue, (self._turns[chosen] / self._proportions[chosen], chosen))
        return chosen


class Rtdp:
    """One billiard sequence for each lease type, so that every cluster gets a mixture of types.

    JPDC 2012, Algorithm 2. Its step 5 multiplies all shares of a type by the proportion of that type,
    which changes no argmin and is left out.
    """

    def __init__(self, proportions: Sequence[float], fastest: int) -> None:
        self._sequences = {kind: Billiard(proportions, fastest) for kind in LeaseType}

    def next(self, lease_type: LeaseType) -> int:
        """Give the next cluster for a request of this type."""
        return self._sequences[lease_type].next()


def _with_a_share(proportions: Sequence[float]) -> list[int]:
    positions = [i for i, share in enumerate(proportions) if share > 0]
    if not positions:
        raise InvalidField("proportions", list(proportions), "at least one share above 0")
    return positions


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
    federation: SiteSet
    made_ms: int
    routed: int = 0
    dispatchers: dict[tuple[SiteFacts, ...], ShareDispatcher] = field(default_factory=dict)

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

    def dispatcher(self, proportions: Sequence[float], sites: Sequence[SiteFacts]) -> ShareDispatcher:  # noqa: ARG002
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
