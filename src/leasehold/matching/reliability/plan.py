"""What is the cheapest way to be as sure as is asked? Nodes that run along, or stand by, or a refusal."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, groupby, islice

from leasehold.matching.reliability.hot import at_least
from leasehold.matching.reliability.lifetimes import require_positive
from leasehold.matching.reliability.restart import Tries
from leasehold.matching.reliability.unlike_restart import Try, in_turn
from leasehold.matching.verdict import FITS, Verdict, Why, never
from leasehold.model.errors import InvalidField


class Mode(StrEnum):
    """How copies are used."""

    SINGLE = "single"
    """Just the nodes that are needed."""
    HOT = "hot"
    """All begin at once."""
    COLD = "cold"
    """One after the other, each from the beginning, when the one before fails."""


@dataclass(frozen=True, slots=True)
class Candidate:
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
class Asked:
    """How sure, by when, and with how many nodes beyond those needed.

    ``reliability``  that the job is done by then, above 0 and below 1
    ``time_s``       from now to the deadline
    ``nodes``        that have to last until the end, all at once
    ``spares``       that may be used beyond these
    ``takeover_s``   from a failure until a cold copy begins
    ``restarts``     how often the job may begin anew, so how many cold copies it may have
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
        """How many copies may stand by."""
        return self.spares if self.restarts is None else min(self.spares, self.restarts)


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes, how they are used, how sure that is, and what it costs on average."""

    mode: Mode
    nodes: tuple[str, ...]
    reliability: float
    cost: float


@dataclass(frozen=True, slots=True)
class Planned:
    """The cheapest plan that reaches what was asked, or none, and then the surest that there is.

    ``exact`` says whether all sets of hot copies that could matter were looked at; of cold copies on unlike
    nodes only two orders are.
    """

    plan: Plan | None
    surest: Plan | None
    exact: bool

    @property
    def verdict(self) -> Verdict:
        """Yes, or a *never here*: waiting does not make it likelier that a deadline is met."""
        return FITS if self.plan else never(Why.RELIABILITY_OUT_OF_REACH)


def cheapest_plan(candidates: Iterable[Candidate], asked: Asked) -> Planned:
    """Which plan is as sure as is asked, and cheapest?

    Rule: of nodes that would be done in time, hot plans take any k to k + spares of them, and a job of one
    node may have cold copies: on nodes of the same rate, price and time (`Tries`), or on the cheapest or
    the surest of all, one after the other (`in_turn`). The cheapest that reaches what is asked; of the same
    cost the one of fewer nodes, then the surer, then by mode and names. The surest is told where none
    reaches it.
    Source: Thamarai Selvi et al., section 5, for the reliability of k of m; the search is Leasehold's own.
    A node for which there are as many that are no dearer and no less sure as a plan can have is in no plan
    that is better than all others: one of these could take its place. So only the few that are left are put
    together.

    Prices count while a node works, so a plan with fewer, surer nodes is not always dearer.
    """
    in_time = [one for one in candidates if one.needs_s <= asked.time_s]
    useful = _undominated(in_time, asked.nodes + asked.spares)
    sets = _sets(useful, asked)
    plans = [_hot(chosen, asked) for chosen in islice(sets, asked.looked_at)]
    exact = next(sets, None) is None
    if not exact:
        plans += [_hot(chosen, asked) for chosen in _surest_sets(useful, asked)]
    plans += _cold(in_time, useful, asked)
    reaching = [plan for plan in plans if plan.reliability >= asked.reliability]
    surest = max(plans, key=lambda plan: (plan.reliability, -plan.cost), default=None)
    return Planned(min(reaching, key=_order, default=None), surest, exact)


def _order(plan: Plan) -> tuple[float, int, float, str, tuple[str, ...]]:
    """Order plans; costs that differ by rounding alone are the same."""
    return float(f"{plan.cost:.9g}"), len(plan.nodes), -plan.reliability, plan.mode.value, plan.nodes


def _undominated(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    """Leave out each node for which as many as a plan can have are no dearer and no less sure."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (one.cost, -one.survival, one.node)):
        if sum(other.survival >= one.survival for other in kept) < most:
            kept.append(one)
    return kept


def _sets(useful: Sequence[Candidate], asked: Asked) -> Iterator[tuple[Candidate, ...]]:
    for size in range(asked.nodes, asked.nodes + asked.spares + 1):
        yield from combinations(useful, size)


def _surest_sets(useful: Sequence[Candidate], asked: Asked) -> Iterator[tuple[Candidate, ...]]:
    """Give for each size the cheapest among so many of the surest, from few to all."""
    surest = sorted(useful, key=lambda one: (-one.survival, one.cost, one.node))
    for size in range(asked.nodes, asked.nodes + asked.spares + 1):
        for among in range(size, len(surest) + 1):
            yield tuple(sorted(surest[:among], key=lambda one: (one.cost, one.node))[:size])


def _hot(chosen: Sequence[Candidate], asked: Asked) -> Plan:
    mode = Mode.SINGLE if len(chosen) == asked.nodes else Mode.HOT
    reliability = at_least(asked.nodes, [one.survival for one in chosen])
    return Plan(mode, tuple(one.node for one in chosen), reliability, math.fsum(one.cost for one in chosen))


def _cold(candidates: Sequence[Candidate], useful: Sequence[Candidate], asked: Asked) -> Iterator[Plan]:
    """Give the plans with copies that stand by, for jobs of one node: on like nodes or the best."""
    if asked.nodes > 1:
        return
    for _, group in groupby(sorted(candidates, key=lambda one: (one.kind, one.node)), key=lambda one: one.kind):
        like = list(islice(group, asked.cold_copies + 1))
        for size in range(2, len(like) + 1):
            yield _of_like(like[:size], asked)
    surest = sorted(useful, key=lambda one: (-one.survival, one.cost, one.node))
    for ordered in (useful, surest):
        for size in range(2, min(len(ordered), asked.cold_copies + 1) + 1):
            if len({one.kind for one in ordered[:size]}) > 1:
                yield _of_unlike(ordered[:size], asked)


def _of_like(like: Sequence[Candidate], asked: Asked) -> Plan:
    tries = Tries(like[0].needs_s, asked.time_s, like[0].rate_per_s, len(like), asked.takeover_s)
    cost = like[0].price_per_s * tries.expected_node_s()
    return Plan(Mode.COLD, tuple(one.node for one in like), tries.reliability(), cost)


def _of_unlike(nodes: Sequence[Candidate], asked: Asked) -> Plan:
    tries = [Try(one.needs_s, one.rate_per_s, one.price_per_s) for one in nodes]
    outlook = in_turn(tries, asked.time_s, asked.takeover_s)
    return Plan(Mode.COLD, tuple(one.node for one in nodes), outlook.reliability, outlook.cost)
