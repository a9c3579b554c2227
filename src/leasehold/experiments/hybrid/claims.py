"""What section 5 claims, as what can be tested: curves that can be worked out, and orderings of runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan

from leasehold.experiments.hybrid.curves import figure_6, figure_7
from leasehold.experiments.hybrid.settings import (
    AT_LAST,
    HYBRID,
    PAPERS_QUEUE,
    PHYSICAL_ONLY,
    VIRTUAL_ONLY,
    Configuration,
    Plan,
)
from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, holm, paired
from leasehold.experiments.status import Status

ALPHA = 0.05
NEAR = 0.02
"""How far success and formula may be apart, where chance does not explain it, to be called close."""

MEANINGS = {
    Status.REPRODUCED: "it follows from the formulas at every point; or each of its orderings holds "
    f"significantly ({100 * ALPHA:.0f} %, paired by seed, Holm over all claims); or success and formula "
    f"differ nowhere by more than chance explains, or by more than {NEAR:g}",
    Status.IN_DIRECTION: "its orderings hold in the mean, and not all significantly",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "both sides are the same in every run",
}


@dataclass(frozen=True, slots=True)
class Ordering:
    """One has less of a metric than another: both are names of configurations."""

    less: str
    more: str
    metric: str
    where: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence, with the orderings that it comes to."""

    text: str
    orderings: tuple[Ordering, ...]


@dataclass(frozen=True, slots=True)
class Tested:
    """One ordering, and by how much it holds: ``found`` is more less less, above zero where it does."""

    ordering: Ordering
    found: Interval
    p: float

    @property
    def is_sure(self) -> bool:
        """Whether it holds, and chance does not explain it."""
        return self.found.mean > 0 and self.p < ALPHA


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence and what came of it; ``why`` says what decided."""

    text: str
    status: Status
    why: str
    tested: tuple[Tested, ...] = ()


def verdicts(plan: Plan, results: Results) -> list[Verdict]:
    """Judge everything that is claimed."""
    claims = [*_of_ablation(plan), *_of_queues(plan), *_of_ours(plan)]
    return [*_of_curves(), _of_figure_8(plan, results), *_tested(claims, results)]


# Figures 6 to 8


def _of_curves() -> Iterator[Verdict]:
    alone, *groups = figure_6()
    above = [_is_above(group.points, alone.points) for group in groups]
    text = "Figure 6: a group of three is surer than one node, however likely a node fails"
    counts = "; ".join(
        f"{group.name}: at {sum(held)} of {len(held)} points"
        for group, held in zip(groups, above, strict=True)
    )
    yield Verdict(text, Status.REPRODUCED if all(above[0]) else Status.NOT_REPRODUCED, counts)
    rising = [later[1] > earlier[1] for curve in figure_7() for earlier, later in pairwise(curve.points)]
    status = Status.REPRODUCED if all(rising) else Status.NOT_REPRODUCED
    why = f"{sum(rising)} of {len(rising)} steps go up"
    yield Verdict("Figure 7: the more nodes there are, the surer is the group", status, why)


def _is_above(points: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> list[bool]:
    return [ours[1] > theirs[1] for ours, theirs in zip(points, others, strict=True)]


def _of_figure_8(plan: Plan, results: Results) -> Verdict:
    found = [gap(one, results) for one in plan.of("reliability") if was_planned(one, results)]
    close = [abs(each.mean) <= NEAR or each.low <= 0 <= each.high for each in found]
    status = Status.REPRODUCED if all(close) else Status.NOT_REPRODUCED
    widest = max(abs(each.mean) for each in found)
    never = len(plan.of("reliability")) - len(found)
    why = (
        f"{sum(close)} of {len(close)} points agree; the widest gap is {widest:.3f}; {never} are out of reach"
    )
    return Verdict("Figure 8: formula and implementation agree closely", status, why)


def was_planned(configuration: Configuration, results: Results) -> bool:
    """Whether anything was planned: what is out of reach is refused, and has no reliability."""
    return not any(isnan(value) for value in results[configuration.name]["sure_by_plan"])


def gap(configuration: Configuration, results: Results) -> Interval:
    """Say by how much more jobs were done in time than the formula has it."""
    found = results[configuration.name]
    return paired(found["done_in_time"], found["sure_by_plan"]).difference


# Orderings


def _of_ablation(plan: Plan) -> Iterator[Claim]:
    for text, other, metric in (
        ("Hybrid refuses fewer jobs than physical-only", PHYSICAL_ONLY, "refused_pct"),
        ("Hybrid refuses fewer jobs than virtual-only", VIRTUAL_ONLY, "refused_pct"),
        ("Hybrid makes fewer machines than virtual-only", VIRTUAL_ONLY, "machines"),
        ("Hybrid waits less than virtual-only", VIRTUAL_ONLY, "wait_s"),
    ):
        yield Claim(text, tuple(_between(plan.of("ablation"), "way", (HYBRID, other), metric)))


def _of_queues(plan: Plan) -> Iterator[Claim]:
    others = sorted({one.queue for one in plan.of("queues")} - {PAPERS_QUEUE})
    for text, metric in (
        ("{} waits less than {}", "wait_s"),
        ("{} has more jobs done in time than {}", "in_time_pct"),
    ):
        for other in others:
            pair = (PAPERS_QUEUE, other) if metric == "wait_s" else (other, PAPERS_QUEUE)
            orderings = _between(plan.of("queues"), "queue", pair, metric)
            yield Claim(text.format(PAPERS_QUEUE, other), tuple(orderings))


def _of_ours(plan: Plan) -> Iterator[Claim]:
    """Claim what is not the paper's: machines at last are better than its rule, and than only machines."""
    for text, other, metric in (
        ("Ours: hybrid-at-last refuses fewer jobs than hybrid", HYBRID, "refused_pct"),
        ("Ours: hybrid-at-last waits less than virtual-only", VIRTUAL_ONLY, "wait_s"),
        ("Ours: hybrid-at-last makes fewer machines than virtual-only", VIRTUAL_ONLY, "machines"),
    ):
        yield Claim(text, tuple(_between(plan.of("ablation"), "way", (AT_LAST, other), metric)))


def _between(
    among: Sequence[Configuration], field: str, pair: tuple[str, str], metric: str
) -> Iterator[Ordering]:
    """Pair the configurations that are the same but for this field."""
    less, more = ([one for one in among if getattr(one, field) == value] for value in pair)
    for first, second in zip(less, more, strict=True):
        where = f"load {first.load:g}, tried for {first.retry_for_s:,} s"
        yield Ordering(first.name, second.name, metric, where)


def _tested(claims: Sequence[Claim], results: Results) -> Iterator[Verdict]:
    """Test all orderings as one family of hypotheses."""
    found = [[_difference(one, results) for one in claim.orderings] for claim in claims]
    adjusted = iter(holm([p for of_claim in found for _, p in of_claim]))
    for claim, of_claim in zip(claims, found, strict=True):
        tested = tuple(
            Tested(ordering, difference, next(adjusted))
            for ordering, (difference, _) in zip(claim.orderings, of_claim, strict=True)
        )
        yield _verdict(claim, tested)


def _difference(ordering: Ordering, results: Results) -> tuple[Interval, float]:
    found = paired(results[ordering.more][ordering.metric], results[ordering.less][ordering.metric])
    return found.difference, found.p


def _verdict(claim: Claim, tested: tuple[Tested, ...]) -> Verdict:
    sure = sum(one.is_sure for one in tested)
    holding = sum(one.found.mean > 0 for one in tested)
    against = sum(one.found.mean < 0 and one.p < ALPHA for one in tested)
    why = f"{holding} of {len(tested)} hold, {sure} surely; {against} surely the other way"
    if all(one.found.low == one.found.high == 0 for one in tested):
        return Verdict(claim.text, Status.NOT_COMPARABLE, why, tested)
    if sure == len(tested):
        return Verdict(claim.text, Status.REPRODUCED, why, tested)
    status = Status.IN_DIRECTION if holding == len(tested) else Status.NOT_REPRODUCED
    return Verdict(claim.text, status, why, tested)
