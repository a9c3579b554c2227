"""What came of it: the curves of Figures 6 and 7, which can be worked out, and the claims of section 5."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np

from leasehold.experiments.claims import ALPHA, Status, Verdict, status_of, tally, tested
from leasehold.experiments.hybrid.plan import (
    AT_LAST,
    HYBRID,
    PAPERS_QUEUE,
    PHYSICAL_ONLY,
    VIRTUAL_ONLY,
    JobRun,
    Plan,
    said,
)
from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, Values, interval, paired
from leasehold.matching.reliability.hot import at_least

NEAR = 0.02
"""How far success and formula may be apart, where chance does not explain it, to be called close."""

CLAIM_IS = {
    Status.REPRODUCED: "it follows from the formulas at every point; or each of its orderings holds "
    f"significantly ({100 * ALPHA:.0f} %, paired by seed, Holm over all claims); or success and formula "
    f"differ nowhere by more than chance explains, or by more than {NEAR:g}",
    Status.IN_DIRECTION: "its orderings hold in the mean, and not all significantly",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "both sides are the same in every run",
}


# Figures 6 to 8


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """One curve and its points; ``kind`` is shown by its colour, ``dash`` by dashes."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str
    dash: str = ""


def figure_6() -> list[ReliabilityCurve]:
    """Reliability by failure probability, for k of the units of Figure 6, and for one node alone."""
    units, at = said()["published"]["units"], said()["curves"]["failure_probabilities"]
    alone = ReliabilityCurve("one node alone", tuple((q, 1 - q) for q in at), "one node alone")
    groups = [
        ReliabilityCurve(name, tuple((q, at_least(needed, [1 - q] * units)) for q in at), name)
        for needed in said()["curves"]["needed"]
        for name in [f"{needed} of {units}"]
    ]
    return [alone, *groups]


def figure_7() -> list[ReliabilityCurve]:
    """Reliability by the number of nodes, for jobs that need 1, 2 and 3 of them."""
    curves = said()["curves"]
    return [
        ReliabilityCurve(
            f"{needed} needed, each fails with {q:g}",
            tuple((size, at_least(needed, [1 - q] * size)) for size in curves["nodes"] if size >= needed),
            f"q = {q:g}",
            f"{needed} needed",
        )
        for q in curves["of_figure_7"]
        for needed in curves["needed"]
    ]


@dataclass(frozen=True, slots=True)
class Ordering:
    """One configuration has less of a metric than another."""

    less: str
    more: str
    metric: str
    where: str


@dataclass(frozen=True, slots=True)
class OrderingClaim:
    """One sentence, with the orderings that it takes; none where a figure decides."""

    text: str
    orderings: tuple[Ordering, ...] = ()


def verdicts(plan: Plan, results: Results) -> list[Verdict[OrderingClaim]]:
    """Judge everything that is claimed; all orderings are one family of hypotheses."""
    claims = [*_of_ablation(plan), *_of_queues(plan), *_of_ours(plan)]
    found = tested([[_difference(one, results) for one in claim.orderings] for claim in claims])
    judged = [
        Verdict(
            claim,
            Status.NOT_COMPARABLE if all(one.is_zero for one in of_claim) else status_of(of_claim),
            tally(of_claim),
            of_claim,
        )
        for claim, of_claim in zip(claims, found, strict=True)
    ]
    return [*_of_curves(), _of_figure_8(plan, results), *judged]


def _of_curves() -> Iterator[Verdict[OrderingClaim]]:
    alone, *groups = figure_6()
    above = {
        group.name: [ours[1] > theirs[1] for ours, theirs in zip(group.points, alone.points, strict=True)]
        for group in groups
    }
    text = "Figure 6: a group of three is surer than one node, however likely a node fails"
    counts = "; ".join(f"{name}: at {sum(held)} of {len(held)} points" for name, held in above.items())
    yield _figure(text, counts, holds=all(above[groups[0].name]))
    rising = [later[1] > earlier[1] for curve in figure_7() for earlier, later in pairwise(curve.points)]
    why = f"{sum(rising)} of {len(rising)} steps go up"
    yield _figure("Figure 7: the more nodes there are, the surer is the group", why, holds=all(rising))


def _of_figure_8(plan: Plan, results: Results) -> Verdict[OrderingClaim]:
    found = [gap(one, results) for one in plan.of("reliability") if was_planned(one, results)]
    close = [abs(each.mean) <= NEAR or each.low <= 0 <= each.high for each in found]
    widest = max(abs(each.mean) for each in found)
    never = len(plan.of("reliability")) - len(found)
    why = (
        f"{sum(close)} of {len(close)} points agree; the widest gap is {widest:.3f}; {never} are out of reach"
    )
    return _figure("Figure 8: formula and implementation agree closely", why, holds=all(close))


def _figure(text: str, why: str, *, holds: bool) -> Verdict[OrderingClaim]:
    return Verdict(OrderingClaim(text), Status.REPRODUCED if holds else Status.NOT_REPRODUCED, why)


def was_planned(configuration: JobRun, results: Results) -> bool:
    """Whether anything was planned: what is out of reach is refused, and has no reliability."""
    return not any(isnan(value) for value in results[configuration.name]["sure_by_plan"])


def gap(configuration: JobRun, results: Results) -> Interval:
    """Give the jobs done in time less those by formula, as parts of one."""
    found = results[configuration.name]
    return paired(found["done_in_time"], found["sure_by_plan"]).difference


# Orderings


def _of_ablation(plan: Plan) -> Iterator[OrderingClaim]:
    for text, other, metric in (
        ("Hybrid refuses fewer jobs than physical-only", PHYSICAL_ONLY, "refused_pct"),
        ("Hybrid refuses fewer jobs than virtual-only", VIRTUAL_ONLY, "refused_pct"),
        ("Hybrid makes fewer machines than virtual-only", VIRTUAL_ONLY, "machines"),
        ("Hybrid waits less than virtual-only", VIRTUAL_ONLY, "wait_s"),
    ):
        yield OrderingClaim(text, _between(plan.of("ablation"), "way", (HYBRID, other), metric))


def _of_queues(plan: Plan) -> Iterator[OrderingClaim]:
    others = sorted({one.queue for one in plan.of("queues")} - {PAPERS_QUEUE})
    for text, metric in (
        ("{} waits less than {}", "wait_s"),
        ("{} has more jobs done in time than {}", "in_time_pct"),
    ):
        for other in others:
            pair = (PAPERS_QUEUE, other) if metric == "wait_s" else (other, PAPERS_QUEUE)
            orderings = _between(plan.of("queues"), "queue", pair, metric)
            yield OrderingClaim(text.format(PAPERS_QUEUE, other), orderings)


def _of_ours(plan: Plan) -> Iterator[OrderingClaim]:
    """Claim what is not the paper's: machines at last are better than its rule, and than only machines."""
    for text, other, metric in (
        ("Ours: hybrid-at-last refuses fewer jobs than hybrid", HYBRID, "refused_pct"),
        ("Ours: hybrid-at-last waits less than virtual-only", VIRTUAL_ONLY, "wait_s"),
        ("Ours: hybrid-at-last makes fewer machines than virtual-only", VIRTUAL_ONLY, "machines"),
    ):
        yield OrderingClaim(text, _between(plan.of("ablation"), "way", (AT_LAST, other), metric))


def _between(among: Sequence[JobRun], field: str, pair: tuple[str, str], metric: str) -> tuple[Ordering, ...]:
    """Pair the configurations that differ in this field alone."""
    less, more = ([one for one in among if getattr(one, field) == value] for value in pair)
    return tuple(
        Ordering(first.name, second.name, metric, f"load {first.load:g}, tried for {first.retry_for_s:,} s")
        for first, second in zip(less, more, strict=True)
    )


def _difference(ordering: Ordering, results: Results) -> Values:
    return np.subtract(results[ordering.more][ordering.metric], results[ordering.less][ordering.metric])


# All of it


@dataclass(frozen=True, slots=True)
class HybridOutcome:
    """What was run with so many seeds, and how the claims came out."""

    plan: Plan
    results: Results
    verdicts: Sequence[Verdict[OrderingClaim]]
    seeds: int


def outcome_of(plan: Plan, results: Results, seeds: int) -> HybridOutcome:
    """Judge the results."""
    return HybridOutcome(plan, results, verdicts(plan, results), seeds)


def as_data(outcome: HybridOutcome) -> dict[str, Any]:
    """Give all of it as plain data."""
    return {
        "source": said()["published"]["source"],
        "seeds": outcome.seeds,
        "figure_6": [asdict(curve) for curve in figure_6()],
        "figure_7": [asdict(curve) for curve in figure_7()],
        "claims": [
            {
                "text": verdict.claim.text,
                "status": verdict.status,
                "why": verdict.why,
                "tested": [
                    {"ordering": asdict(ordering), "found": asdict(one.difference), "p": one.p}
                    for ordering, one in zip(verdict.claim.orderings, verdict.tested, strict=True)
                ],
            }
            for verdict in outcome.verdicts
        ],
        "configurations": {
            name: {metric: asdict(interval(values)) for metric, values in metrics.items()}
            for name, metrics in outcome.results.items()
        },
    }
