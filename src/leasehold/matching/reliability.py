"""How likely is a job to succeed, and what is the cheapest way to reach the required probability?

A node's failure rate is learnt from history (`FailureRate`). Parallel copies (hot) are judged by how many nodes
have to survive; standby copies (cold) restart the job when a node fails, on like nodes
(`Tries`) or on nodes that differ (`in_turn`). `cheapest_plan` chooses among them, or refuses.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, groupby, islice, pairwise

from leasehold.matching.verdict import FITS, Verdict, Why, never
from leasehold.model.errors import InvalidField


def require_positive(field: str, value: float) -> None:
    """Raise InvalidField for a value that is not a number above 0."""
    if not (value > 0 and math.isfinite(value)):
        raise InvalidField(field, value, "a number above 0")


def require_k_of_m(needed: int, nodes: int) -> None:
    """Raise InvalidField unless at least one and at most all nodes are needed."""
    if not 1 <= needed <= nodes:
        raise InvalidField("needed", needed, f"from 1 to the number of nodes, {nodes}")


def at_least(needed: int, survivals: Sequence[float]) -> float:
    """How likely do at least ``needed`` of these nodes survive?

    Rule: the distribution of the number that survive, node by node; for one that is needed ``1 - prod(1 -
    p_i)``, for like nodes ``sum over i from k to m of B(m, i) p^i (1 - p)^(m - i)``, as printed. Nodes may
    differ.
    Source: Thamarai Selvi et al., section 5, both models.

    Raises InvalidField for more nodes than there are, or none.
    """
    require_k_of_m(needed, len(survivals))
    return sum(count_of_survivors(survivals)[needed:])


def count_of_survivors(survivals: Iterable[float]) -> list[float]:
    """Give the probability that just 0, 1, 2, ... of these nodes survive."""
    counts = [1.0]
    for p in survivals:
        stay = [*(count * (1 - p) for count in counts), 0.0]
        counts = [less + more for less, more in zip(stay, [0.0, *(count * p for count in counts)], strict=True)]
    return counts


YEAR_S = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class FailureRate:
    """What is known of a node's failures: how many in how long, what was thought beforehand included.

    Rule: failures are a Poisson process whose rate has a Gamma distribution. Beforehand it is that of
    ``failures`` in ``watched_s``; each failure and each second that is seen is added. The usual belief is
    one failure a year, which weighs as much as one year of watching: an assumption, to be set from a site's
    records.
    Source: the conjugate prior of the Poisson process (Gelman et al., Bayesian Data Analysis, section 2.6).

    Raises InvalidField for a belief without failures or without time.
    """

    failures: float = 1.0
    watched_s: float = YEAR_S

    def __post_init__(self) -> None:
        """Refuse what would be a rate of nothing."""
        require_positive("failures", self.failures)
        require_positive("watched_s", self.watched_s)

    def after(self, failures: float, watched_s: float) -> "FailureRate":
        """Give what is known after so many more failures in so much more time. Raises InvalidField."""
        if failures < 0 or watched_s < 0:
            raise InvalidField("failures, watched_s", (failures, watched_s), "both at least 0")
        return FailureRate(self.failures + failures, self.watched_s + watched_s)

    @property
    def mean_per_s(self) -> float:
        """The mean of the rate."""
        return self.failures / self.watched_s

    @property
    def deviation_per_s(self) -> float:
        """The standard deviation of the rate: how much is still unknown."""
        return math.sqrt(self.failures) / self.watched_s

    def survival(self, time_s: float) -> float:
        """How likely does it last, with what is unknown taken in: ``(1 + t / watched)^-failures``.

        At least as much as ``exp(-mean t)``: a node that may fail often may also never fail.
        """
        return math.exp(-self.failures * math.log1p(time_s / self.watched_s))


@dataclass(frozen=True, slots=True)
class Tries:
    """A job that is begun again, from its beginning, on the next of ``nodes`` like nodes when one fails.

    ``needs_s``     from the beginning of a try to its end: transfer and execution
    ``time_s``      from now to the deadline
    ``rate_per_s``  of a node's failures, exponential
    ``takeover_s``  from a failure until the next try begins

    Raises InvalidField.
    """

    needs_s: float
    time_s: float
    rate_per_s: float
    nodes: int
    takeover_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no job can be."""
        require_positive("needs_s", self.needs_s)
        require_positive("rate_per_s", self.rate_per_s)
        if self.nodes < 1 or self.takeover_s < 0:
            raise InvalidField("tries", self, "at least one node, and a takeover of at least 0 s")

    def reliability(self) -> float:
        """How likely is it done by the deadline?

        Rule: ``exp(-lambda x) * sum over i from 0 to m - 1 of G_i``; see `begins`.
        Source: the tries are independent; each has to last for the whole of x.
        """
        lasts = math.exp(-self.rate_per_s * self.needs_s)
        return lasts * math.fsum(self.begins(failures) for failures in range(self.nodes))

    def expected_node_s(self) -> float:
        """For how long are nodes at work on average, tries that fail and the last one together?

        A try takes ``E min(T, x) = (1 - exp(-lambda x)) / lambda``, and none is begun that would end too
        late.
        """
        one = -math.expm1(-self.rate_per_s * self.needs_s) / self.rate_per_s
        return one * math.fsum(self.begins(failures) for failures in range(self.nodes))

    def begins(self, failures: int) -> float:
        """How likely does a try begin, in time to end by the deadline, after so many that failed?

        Rule: each of i failures came within x, all together within ``s = D - x - i * takeover``: ``G_i =
        sum over j from 0 to i of (-1)^j C(i, j) exp(-lambda x j) Erlang_i(s - j x)``, with Erlang's
        distribution of i stages at rate lambda, and ``G_0 = 1`` for s of at least 0.
        Source: the transform of an exponential density cut off at x is that of the density less its own,
        delayed by x and times exp(-lambda x); the power of i, expanded.
        """
        spare_s = self.time_s - self.needs_s - failures * self.takeover_s
        if spare_s < 0:
            return 0.0
        return max(0.0, math.fsum(self._term(failures, delays, spare_s) for delays in range(failures + 1)))

    def _term(self, failures: int, delays: int, spare_s: float) -> float:
        weight = math.comb(failures, delays) * (-1 if delays % 2 else 1)
        cut = math.exp(-self.rate_per_s * self.needs_s * delays)
        return weight * cut * _erlang(failures, self.rate_per_s * (spare_s - delays * self.needs_s))


def _erlang(stages: int, expected: float) -> float:
    """How likely are so many stages over, when so many were to be expected by now?"""
    if expected < 0:
        return 0.0
    return 1.0 - math.exp(-expected) * math.fsum(expected**i / math.factorial(i) for i in range(stages))


# Abscissae and weights of Gauss and Legendre, 5 points, on (0, 1) (Abramowitz and Stegun, table 25.4).
_POINTS = tuple(
    ((1 + x) / 2, weight / 2)
    for x, weight in (
        (0.0, 0.5688888888888889),
        (-0.5384693101056831, 0.4786286704993665),
        (0.5384693101056831, 0.4786286704993665),
        (-0.9061798459386640, 0.2369268850561891),
        (0.9061798459386640, 0.2369268850561891),
    )
)


@dataclass(frozen=True, slots=True)
class RestartAttempt:
    """One node: how long the job takes there, how often it fails, and what a second at work costs.

    Raises InvalidField for what is not above 0.
    """

    needs_s: float
    rate_per_s: float
    price_per_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no node can be."""
        require_positive("needs_s", self.needs_s)
        require_positive("rate_per_s", self.rate_per_s)


@dataclass(frozen=True, slots=True)
class RestartOutlook:
    """How likely a job is done by its deadline, and what its tries cost on average."""

    reliability: float
    cost: float


def in_turn(tries: Sequence[RestartAttempt], time_s: float, takeover_s: float = 0.0) -> RestartOutlook:
    """How sure are tries on unlike nodes, one after the other in this order?

    Rule: with x the time that the first needs, ``R(t) = exp(-lambda x) + integral from 0 to x of lambda
    exp(-lambda u) R_rest(t - u - takeover) du``; a node on which it would be too late is passed over.
    Source: the renewal equation. The integral is cut wherever one more try becomes too late, and each part is
    taken at five points: of like nodes it agrees with `leasehold.matching.reliability` to 1e-6.
    Meant for up to four tries: the work is some ten times as much with each.
    """
    possible = [place for place, one in enumerate(tries) if one.needs_s <= time_s]
    if not possible:
        return RestartOutlook(0.0, 0.0)
    first, rest = tries[possible[0]], tries[possible[0] + 1 :]
    lasts = math.exp(-first.rate_per_s * first.needs_s)
    own = first.price_per_s * -math.expm1(-first.rate_per_s * first.needs_s) / first.rate_per_s
    later = [RestartOutlook(0.0, 0.0)] if not rest else _after(first, rest, time_s, takeover_s)
    return RestartOutlook(
        lasts + math.fsum(one.reliability for one in later), own + math.fsum(one.cost for one in later)
    )


def _after(
    first: RestartAttempt, rest: Sequence[RestartAttempt], time_s: float, takeover_s: float
) -> list[RestartOutlook]:
    """Give the parts of the integral over the moment at which the first try fails."""
    parts = []
    for begin, end in pairwise(_cuts(first, rest, time_s, takeover_s)):
        for x, weight in _POINTS:
            failed_s = begin + (end - begin) * x
            density = first.rate_per_s * math.exp(-first.rate_per_s * failed_s) * weight * (end - begin)
            outlook = in_turn(rest, time_s - failed_s - takeover_s, takeover_s)
            parts.append(RestartOutlook(density * outlook.reliability, density * outlook.cost))
    return parts


def _cuts(first: RestartAttempt, rest: Sequence[RestartAttempt], time_s: float, takeover_s: float) -> list[float]:
    """List the moments at which what can still follow a failure of the first try changes, with both ends.

    After so many more failures, each at once or at the end of its try, there is just time for one more.
    """
    cuts = {0.0, first.needs_s}
    for failures in range(1, len(rest) + 1):
        for size in range(1, failures + 1):
            for ended in combinations(rest, size):
                cut = time_s - failures * takeover_s - math.fsum(one.needs_s for one in ended)
                if 0 < cut < first.needs_s:
                    cuts.add(cut)
    return sorted(cuts)


class CopyMode(StrEnum):
    """How copies are used."""

    SINGLE = "single"
    """Just the nodes that are needed."""
    HOT = "hot"
    """All begin at once."""
    COLD = "cold"
    """One after the other, each from the beginning, when the one before fails."""


@dataclass(frozen=True, slots=True)
class CandidateNode:
    """A node that could run the job.

    ``rate_per_s``   of its failures, exponential (`FailureRate.mean_per_s`)
    ``needs_s``      from now to the end of the job there: waiting, transfer, execution
    ``price_per_s``  of a second that it works, in any unit

    Raises InvalidField.
    """

    node: str
    rate_per_s: float
    needs_s: float
    price_per_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no node can be."""
        require_positive(f"rate_per_s of {self.node}", self.rate_per_s)
        require_positive(f"needs_s of {self.node}", self.needs_s)
        require_positive(f"price_per_s of {self.node}", self.price_per_s)

    @property
    def survival(self) -> float:
        """How likely does it last until the job is done?"""
        return math.exp(-self.rate_per_s * self.needs_s)

    @property
    def cost(self) -> float:
        """What it costs on average, until it fails or the job is done."""
        return self.price_per_s * -math.expm1(-self.rate_per_s * self.needs_s) / self.rate_per_s

    @property
    def kind(self) -> tuple[float, float, float]:
        """What makes it like another."""
        return self.price_per_s, self.rate_per_s, self.needs_s


@dataclass(frozen=True, slots=True)
class ReliabilityGoal:
    """How sure, by when, and with how many nodes beyond those needed.

    ``reliability``  that the job is done by then, above 0 and below 1
    ``time_s``       from now to the deadline
    ``nodes``        that have to last until the end, all at once
    ``spares``       that may be used beyond these
    ``takeover_s``   from a failure until a cold copy begins
    ``restarts``     how often the job may restart, so how many cold copies it may have
    ``looked_at``    so many sets of hot copies at most

    Raises InvalidField.
    """

    reliability: float
    time_s: float
    nodes: int = 1
    spares: int = 3
    takeover_s: float = 0.0
    looked_at: int = 200_000
    restarts: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be had or means nothing."""
        if not 0 < self.reliability < 1:
            raise InvalidField("reliability", self.reliability, "above 0 and below 1")
        if self.nodes < 1 or self.spares < 0 or self.takeover_s < 0:
            raise InvalidField("asked", self, "nodes of at least 1, spares and takeover_s of at least 0")

    @property
    def cold_copies(self) -> int:
        """The maximum number of standby copies."""
        return self.spares if self.restarts is None else min(self.spares, self.restarts)


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Nodes, how they are used, how sure that is, and what it costs on average."""

    mode: CopyMode
    nodes: tuple[str, ...]
    reliability: float
    cost: float


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """The cheapest plan that reaches what was asked, or none, and then the surest that there is.

    ``exact`` says whether all sets of hot copies that could matter were looked at; of cold copies on unlike
    nodes only two orders are.
    """

    plan: CopyPlan | None
    surest: CopyPlan | None
    exact: bool

    @property
    def verdict(self) -> Verdict:
        """Yes, or a *never here*: waiting does not make it likelier that a deadline is met."""
        return FITS if self.plan else never(Why.RELIABILITY_OUT_OF_REACH)


def cheapest_plan(candidates: Iterable[CandidateNode], goal: ReliabilityGoal) -> PlanSearch:
    """Which plan is as sure as is asked, and cheapest?

    Rule: of nodes that would be done in time, hot plans take any k to k + spares of them, and a job of one
    node may have cold copies: on nodes of the same rate, price and time (`Tries`), or on the cheapest or
    the surest of all, one after the other (`in_turn`). The cheapest that reaches what is asked; of the same
    cost the one of fewer nodes, then the surer, then by mode and names. The surest is reported where
    none reaches it.
    Source: Thamarai Selvi et al., section 5, for the reliability of k of m; the search is Leasehold's own.
    A node for which there are as many that are no dearer and no less sure as a plan can have is in no plan
    that is better than all others: one of these could take its place. So only the few that are left are put
    together.

    Prices count while a node works, so a plan with fewer, surer nodes is not always dearer.
    """
    in_time = [one for one in candidates if one.needs_s <= goal.time_s]
    useful = _undominated(in_time, goal.nodes + goal.spares)
    sets = _sets(useful, goal)
    plans = [_hot(chosen, goal) for chosen in islice(sets, goal.looked_at)]
    exact = next(sets, None) is None
    if not exact:
        plans += [_hot(chosen, goal) for chosen in _surest_sets(useful, goal)]
    plans += _cold(in_time, useful, goal)
    reaching = [plan for plan in plans if plan.reliability >= goal.reliability]
    surest = max(plans, key=lambda plan: (plan.reliability, -plan.cost), default=None)
    return PlanSearch(min(reaching, key=_plan_order, default=None), surest, exact)


def _plan_order(plan: CopyPlan) -> tuple[float, int, float, str, tuple[str, ...]]:
    """Order plans; costs that differ by rounding alone are the same."""
    return float(f"{plan.cost:.9g}"), len(plan.nodes), -plan.reliability, plan.mode.value, plan.nodes


def _undominated(candidates: Iterable[CandidateNode], most: int) -> list[CandidateNode]:
    """Leave out each node for which as many as a plan can have are no dearer and no less sure."""
    kept: list[CandidateNode] = []
    for one in sorted(candidates, key=lambda one: (one.cost, -one.survival, one.node)):
        if sum(other.survival >= one.survival for other in kept) < most:
            kept.append(one)
    return kept


def _sets(useful: Sequence[CandidateNode], goal: ReliabilityGoal) -> Iterator[tuple[CandidateNode, ...]]:
    for size in range(goal.nodes, goal.nodes + goal.spares + 1):
        yield from combinations(useful, size)


def _surest_sets(useful: Sequence[CandidateNode], goal: ReliabilityGoal) -> Iterator[tuple[CandidateNode, ...]]:
    """Give for each size the cheapest among so many of the surest, from few to all."""
    surest = sorted(useful, key=lambda one: (-one.survival, one.cost, one.node))
    for size in range(goal.nodes, goal.nodes + goal.spares + 1):
        for among in range(size, len(surest) + 1):
            yield tuple(sorted(surest[:among], key=lambda one: (one.cost, one.node))[:size])


def _hot(chosen: Sequence[CandidateNode], goal: ReliabilityGoal) -> CopyPlan:
    mode = CopyMode.SINGLE if len(chosen) == goal.nodes else CopyMode.HOT
    reliability = at_least(goal.nodes, [one.survival for one in chosen])
    return CopyPlan(mode, tuple(one.node for one in chosen), reliability, math.fsum(one.cost for one in chosen))


def _cold(
    candidates: Sequence[CandidateNode], useful: Sequence[CandidateNode], goal: ReliabilityGoal
) -> Iterator[CopyPlan]:
    """Yield the plans with standby copies, for jobs of one node: on like nodes or the best."""
    if goal.nodes > 1:
        return
    for _, group in groupby(sorted(candidates, key=lambda one: (one.kind, one.node)), key=lambda one: one.kind):
        like = list(islice(group, goal.cold_copies + 1))
        for size in range(2, len(like) + 1):
            yield _of_like(like[:size], goal)
    surest = sorted(useful, key=lambda one: (-one.survival, one.cost, one.node))
    for ordered in (useful, surest):
        for size in range(2, min(len(ordered), goal.cold_copies + 1) + 1):
            if len({one.kind for one in ordered[:size]}) > 1:
                yield _of_unlike(ordered[:size], goal)


def _of_like(like: Sequence[CandidateNode], goal: ReliabilityGoal) -> CopyPlan:
    tries = Tries(like[0].needs_s, goal.time_s, like[0].rate_per_s, len(like), goal.takeover_s)
    cost = like[0].price_per_s * tries.expected_node_s()
    return CopyPlan(CopyMode.COLD, tuple(one.node for one in like), tries.reliability(), cost)


def _of_unlike(nodes: Sequence[CandidateNode], goal: ReliabilityGoal) -> CopyPlan:
    tries = [RestartAttempt(one.needs_s, one.rate_per_s, one.price_per_s) for one in nodes]
    outlook = in_turn(tries, goal.time_s, goal.takeover_s)
    return CopyPlan(CopyMode.COLD, tuple(one.node for one in nodes), outlook.reliability, outlook.cost)
