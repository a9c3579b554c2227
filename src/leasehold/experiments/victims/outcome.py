"""What came of it: means with intervals, and how far each rule is from the optimum."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, interval, paired, ratio
from leasehold.experiments.victims.plan import INSTANTS, Plan, Variant
from leasehold.experiments.victims.world import MEANS, OPTIMUM, SHARES

AS_RATIO = ("leases", "vms", "overhead_vm_s")
AS_DIFFERENCE = ("excess", "lost_vm_s")
"""How the distance from the optimum is given: where that may be zero, as a difference."""

OF_A_RUN = (
    "vms_preempted",
    "preemptions",
    "leases_preempted",
    "leases_twice",
    "leases_over_three_times",
    "most_preemptions",
    "overhead_vm_h",
    "guest_work_vm_h",
    "best_effort_wait_s",
    "deadline_missed_pct",
    "local_rejection_pct",
)


@dataclass(frozen=True, slots=True)
class OfRule:
    """One rule on all instants; ``distances`` are those from the optimum by each objective alone."""

    name: str
    means: Mapping[str, Interval]
    distances: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class OfVariant:
    """One variant in whole runs; ``ratios`` are those to the variant that it is compared with."""

    variant: Variant
    means: Mapping[str, Interval]
    ratios: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class VictimsOutcome:
    """Everything that the report shows; counts of instants are those of all replications."""

    plan: Plan
    parts: Sequence[str]
    replications: int
    instants: int
    inexact: int
    forced: int
    rules: Sequence[OfRule]
    variants: Sequence[OfVariant]


def outcome_of(plan: Plan, results: Results, parts: Sequence[str], replications: int) -> VictimsOutcome:
    """Put together what was measured of these parts."""
    asked = results.get(plan.name_of(INSTANTS), {})
    return VictimsOutcome(
        plan=plan,
        parts=parts,
        replications=replications,
        instants=round(sum(asked.get("instants", ()))),
        inexact=round(sum(asked.get("inexact", ()))),
        forced=round(sum(asked.get("forced", ()))),
        rules=[_of_rule(name, asked) for name in (OPTIMUM, *plan.rules)] if asked else [],
        variants=[
            _of_variant(plan, variant, results)
            for variant in plan.variants.values()
            if plan.name_of(variant.name) in results
        ],
    )


def _of_rule(name: str, asked: Mapping[str, Sequence[float]]) -> OfRule:
    keys = MEANS if name == OPTIMUM else MEANS + SHARES
    values = {key: asked[f"{name}:{key}"] for key in keys}
    best = {key: asked[f"{OPTIMUM}:{key}"] for key in MEANS}
    ratios = {key: ratio(values[key], best[key]) for key in AS_RATIO}
    differences = {key: paired(values[key], best[key]).difference for key in AS_DIFFERENCE}
    return OfRule(name, {key: interval(value) for key, value in values.items()}, ratios | differences)


def _of_variant(plan: Plan, variant: Variant, results: Results) -> OfVariant:
    measured = results[plan.name_of(variant.name)]
    against = results[plan.name_of(variant.against)] if variant.against else None
    ratios = {key: ratio(measured[key], against[key]) for key in OF_A_RUN} if against else {}
    return OfVariant(variant, {key: interval(measured[key]) for key in OF_A_RUN}, ratios)


def as_data(outcome: VictimsOutcome) -> dict[str, Any]:
    """Give it as plain data."""
    return {
        "hours": outcome.plan.hours,
        "replications": outcome.replications,
        "instants": outcome.instants,
        "instants_with_bounded_front": outcome.inexact,
        "instants_without_choice": outcome.forced,
        "rules": [asdict(rule) for rule in outcome.rules],
        "variants": [
            {
                "name": found.variant.name,
                "what": found.variant.what,
                "against": found.variant.against,
                "means": {key: asdict(value) for key, value in found.means.items()},
                "ratios": {key: asdict(value) for key, value in found.ratios.items()},
            }
            for found in outcome.variants
        ],
        "sources": [
            {"name": other.name, "documented": other.documented, "where": other.where, "url": other.url}
            for other in outcome.plan.others.values()
        ],
    }
