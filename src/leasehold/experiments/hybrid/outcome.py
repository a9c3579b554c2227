"""What came of it: the curves of Figures 6 and 7, which can be worked out, and the claims of section 5."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np

from leasehold.experiments.claims import ALPHA, Status, Verdict, status_of, tally, tested
from leasehold.experiments.hybrid.plan import JobRun, Plan, stated
from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, Values, interval, paired
from leasehold.matching.reliability import at_least

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
    units, at = stated()["published"]["units"], stated()["curves"]["failure_probabilities"]
    alone = ReliabilityCurve("one node alone", tuple((q, 1 - q) for q in at), "one node alone")
    groups = [
        ReliabilityCurve(name, tuple((q, at_least(needed, [1 - q] * units)) for q in at), name)
        for needed in stated()["curves"]["needed"]
        for name in [f"{needed} of {units}"]
    ]
    return [alone, *groups]


def figure_7() -> list[ReliabilityCurve]:
    """Reliability by the number of nodes, for jobs that need 1, 2 and 3 of them."""
    curves = stated()["curves"]
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
    listed = claims(plan)
    found = tested([[_difference(one, results) for one in claim.orderings] for claim in listed])
    judged = [
        Verdict(
            claim,
            Status.NOT_COMPARABLE if all(one.is_zero for one in of_claim) else status_of(of_claim),
            tally(of_claim),
            of_claim,
        )
        for claim, of_claim in zip(listed, found, strict=True)
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
    why = f"{sum(close)} of {len(close)} points agree; the widest gap is {widest:.3f}; {never} are out of reach"
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


def claims(plan: Plan) -> list[OrderingClaim]:
    """List what is claimed of ways and queues, as orderings of configurations that else are the same."""
    return [OrderingClaim(one["text"], _orderings(plan, one)) for one in stated()["section_5"]["claims"]]


def _orderings(plan: Plan, entry: Mapping[str, str]) -> tuple[Ordering, ...]:
    among, field = plan.of(entry["part"]), "queue" if entry["part"] == "queues" else "way"
    less, more = ([one for one in among if getattr(one, field) == entry[side]] for side in ("less", "more"))
    return tuple(
        Ordering(one.name, other.name, entry["metric"], f"load {one.load:g}, tried for {one.retry_for_s:,} s")
        for one, other in zip(less, more, strict=True)
    )


def _difference(ordering: Ordering, results: Results) -> Values:
    return np.subtract(results[ordering.more][ordering.metric], results[ordering.less][ordering.metric])


# All of it


@dataclass(frozen=True, slots=True)
class HybridOutcome:
    """What was run, and how the claims came out."""

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
        "source": stated()["published"]["source"],
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
