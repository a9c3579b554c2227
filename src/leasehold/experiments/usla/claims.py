"""What section 4.4 says in words, tested as orderings: paired differences, Holm-corrected over all."""

from collections.abc import Iterable
from dataclasses import dataclass

from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Paired, holm, paired
from leasehold.experiments.status import Status
from leasehold.experiments.usla.published import METRICS, TABLES, TITLES
from leasehold.experiments.usla.settings import Plan

ALPHA = 0.05
LESS_IS_BETTER = frozenset({"response", "starv", "violation"})


@dataclass(frozen=True, slots=True)
class Order:
    """Of one table and metric, the row ``more`` has more than the row ``less``."""

    table: int
    metric: str
    more: str
    less: str

    @property
    def as_text(self) -> str:
        """Write it down: ``Util: no-limit > udecay``."""
        return f"{TITLES[self.metric]}: {self.more} > {self.less}"

    @property
    def is_printed(self) -> bool:
        """Whether the printed numbers say so."""
        more, less = TABLES[self.table][self.more][self.metric], TABLES[self.table][self.less][self.metric]
        return more is not None and less is not None and more > less


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence about one table, as the orderings that it takes."""

    text: str
    table: int
    orders: tuple[Order, ...]


MEANINGS = {
    Status.REPRODUCED: f"each of its orderings holds, significantly ({100 * ALPHA:.0f} %, Holm over all)",
    Status.IN_DIRECTION: "each holds in the mean, not every one significantly",
    Status.NOT_REPRODUCED: "one of them does not hold in the mean",
}

LIMITED = ("commitment", "decay")
OTHERS = ("no-limit", *LIMITED)


def claims() -> list[Claim]:
    """List what is claimed of Tables 1 to 7 (checklist of section 4.4)."""
    return [
        *(Claim("udecay is second in utilisation", table, _second(table)) for table in range(1, 7)),
        *(Claim("udecay starves least", table, _least(table, "starv", OTHERS)) for table in range(1, 7)),
        *(
            Claim("udecay violates least", table, _least(table, "violation", LIMITED))
            for table in range(1, 7)
        ),
        *(
            Claim("udecay outperforms commitment and decay in every metric", table, _outperforms(table))
            for table in (3, 4)
        ),
        *(
            Claim(
                "udecay answers sooner than commitment and decay", table, _least(table, "response", LIMITED)
            )
            for table in (5, 6)
        ),
        *(Claim(_said_of_speed(metric), 7, _by_speed(metric)) for metric in METRICS),
    ]


def _second(table: int) -> tuple[Order, ...]:
    first = Order(table, "util", "no-limit", "udecay")
    return (first, *(Order(table, "util", "udecay", other) for other in LIMITED))


def _least(table: int, metric: str, others: Iterable[str]) -> tuple[Order, ...]:
    return tuple(Order(table, metric, other, "udecay") for other in others)


def _outperforms(table: int) -> tuple[Order, ...]:
    return tuple(
        Order(table, metric, other, "udecay")
        if metric in LESS_IS_BETTER
        else Order(table, metric, "udecay", other)
        for metric in METRICS
        for other in LIMITED
    )


def _said_of_speed(metric: str) -> str:
    verb = "falls" if metric == "response" else "rises"
    return f"{TITLES[metric]} {verb} from slow to medium to fast decay"


def _by_speed(metric: str) -> tuple[Order, ...]:
    if metric == "response":
        return Order(7, metric, "slow", "medium"), Order(7, metric, "medium", "fast")
    return Order(7, metric, "fast", "medium"), Order(7, metric, "medium", "slow")


@dataclass(frozen=True, slots=True)
class Tested:
    """An ordering and what came of it; ``p`` is adjusted, and that of either side."""

    order: Order
    found: Paired
    p: float

    @property
    def holds(self) -> bool:
        """Whether it holds in the mean."""
        return self.found.difference.mean > 0

    @property
    def is_significant(self) -> bool:
        """Whether chance is no explanation of the side on which it came out."""
        return self.p < ALPHA


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and what came of it."""

    claim: Claim
    tested: tuple[Tested, ...]
    status: Status

    @property
    def unprinted(self) -> list[Order]:
        """Give the orderings that the printed numbers themselves do not have."""
        return [order for order in self.claim.orders if not order.is_printed]


def verdicts(plan: Plan, results: Results) -> list[Verdict]:
    """Test every claim; an ordering that several claims take is one hypothesis of the family."""
    listed = claims()
    orders = list(dict.fromkeys(order for claim in listed for order in claim.orders))
    found = [_compare(plan, results, order) for order in orders]
    adjusted = holm([one.p for one in found])
    tested = {order: Tested(order, one, p) for order, one, p in zip(orders, found, adjusted, strict=True)}
    return [_verdict(claim, tuple(tested[order] for order in claim.orders)) for claim in listed]


def _compare(plan: Plan, results: Results, order: Order) -> Paired:
    more = results[plan.of_row(order.table, order.more)][order.metric]
    less = results[plan.of_row(order.table, order.less)][order.metric]
    return paired(more, less)


def _verdict(claim: Claim, tested: tuple[Tested, ...]) -> Verdict:
    if not all(one.holds for one in tested):
        return Verdict(claim, tested, Status.NOT_REPRODUCED)
    is_sure = all(one.is_significant for one in tested)
    return Verdict(claim, tested, Status.REPRODUCED if is_sure else Status.IN_DIRECTION)
