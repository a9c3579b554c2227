"""Victim selection by the rules of other systems, and guarantees to guests: the campaign and its report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from leasehold.experiments import pictures
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.kept import DECIDES, Results, marks
from leasehold.experiments.report import NOTHING, Block, MarkdownTable, Title, amount, bounded, bullets, opening, signed
from leasehold.experiments.statistics import Interval, interval, paired, ratio
from leasehold.experiments.victims import world
from leasehold.experiments.victims.plan import INSTANTS, PARTS, Variant, VictimsPlan, plan
from leasehold.experiments.victims.world import MEANS, OPTIMUM, SHARES

HOURS, REPLICATIONS = 48, 100
QUICK_HOURS, QUICK_REPLICATIONS = 12, 5

_MAKES_RESULTS = (
    *DECIDES,
    "experiments/intergrid/metrics.py",
    "experiments/intergrid/world.py",
    "experiments/victims/rules.py",
    "experiments/victims/world.py",
)

AS_RATIO = ("leases", "vms", "overhead_vm_s")
AS_DIFFERENCE = ("excess", "lost_vm_s")
"""How the distance from the optimum is given: where that may be zero, as a difference."""

COLUMNS: Mapping[str, str] = {
    "leases": "guests",
    "vms": "VMs",
    "excess": "VMs too many",
    "overhead_vm_s": "overhead (VM-s)",
    "lost_vm_s": "work lost (VM-s)",
    "beaten_pct": "beaten (%)",
    "dearer_type_pct": "dearer type (%)",
}
RUN_COLUMNS: Mapping[str, str] = {
    "vms_preempted": "VMs preempted",
    "preemptions": "preemptions",
    "leases_preempted": "guests preempted",
    "leases_twice": "more than once",
    "leases_over_three_times": "more than three times",
    "most_preemptions": "most often",
    "overhead_vm_h": "overhead (VM-h)",
    "guest_work_vm_h": "work of guests done (VM-h)",
    "best_effort_wait_s": "wait of best effort (s)",
    "deadline_missed_pct": "deadlines missed (%)",
    "local_rejection_pct": "locals rejected (%)",
}
OF_A_RUN = tuple(RUN_COLUMNS)
FEW = OF_A_RUN[:6]
"""Those that a terminal has room for."""


OURS, TURNS = ("exact-cover", "pareto", "moml"), "in-turns"
"""The rules and the guarantee that the report puts first."""


def campaign(parts: Sequence[str], size: Size) -> Campaign:
    """Run both tables, or one of them."""
    read = plan(QUICK_HOURS if size.quick else HOURS)
    count = size.count(REPLICATIONS, QUICK_REPLICATIONS)
    decided = {
        name: read.base.as_data() | {"stated": list(read.rules) if one.name == INSTANTS else dict(one.keys)}
        for name, one in read.configurations.items()
    }
    return Campaign(
        runs=dict.fromkeys(read.names_of(parts), range(1, 1 + count)),
        marks=marks(_MAKES_RESULTS, decided),
        measure=world.measure,
        report=partial(report, read, parts, count),
    )


EVALUATIONS = {"victims": Evaluation(campaign, lambda: PARTS)}


def report(read: VictimsPlan, parts: Sequence[str], replications: int, results: Results) -> EvaluationReport:
    """Report on these results."""
    outcome = outcome_of(read, results, parts, replications)
    return EvaluationReport(
        "victims",
        as_data(outcome),
        page=partial(page, outcome),
        screen=partial(screen, outcome),
        draw=partial(draw, outcome),
        every_result=_every_result,
    )


def _every_result(results: pl.DataFrame) -> pl.DataFrame:
    """Give one row for each configuration, replication and metric: each table has its own metrics."""
    index = ["configuration", "seed"]
    every = results.unpivot(index=index, variable_name="metric", value_name="value")
    return every.drop_nulls("value").sort(index, maintain_order=True)


# What came of it: means with intervals, and how far each rule is from the optimum


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

    plan: VictimsPlan
    parts: Sequence[str]
    replications: int
    instants: int
    inexact: int
    forced: int
    rules: Sequence[OfRule]
    variants: Sequence[OfVariant]


def outcome_of(plan: VictimsPlan, results: Results, parts: Sequence[str], replications: int) -> VictimsOutcome:
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


def _of_variant(plan: VictimsPlan, variant: Variant, results: Results) -> OfVariant:
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


# The report


def screen(outcome: VictimsOutcome) -> Iterator[Block]:
    """Give both tables, as far as a terminal has room."""
    if outcome.rules:
        yield Title("What each rule preempts, at the same instants")
        yield _rule_table(outcome)
    if outcome.variants:
        yield Title("Guarantees in whole runs")
        yield _variant_table(outcome, FEW)
    yield Title("Summary")
    yield from _findings(outcome)
    yield Title(_size(outcome))


def page(outcome: VictimsOutcome) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    names = " ".join(outcome.parts) or "victims"
    how_long = "" if outcome.plan.hours == HOURS else " --quick"
    command = f"leasehold reproduce {names}{how_long} --seeds {outcome.replications}"
    reading = outcome.plan.base.reading
    image = f"![{CAPTION}]({PICTURE}.svg)" if outcome.rules else ""
    title = "Victim selection: rules of other systems, and guarantees to guests"
    yield from opening(title, " ".join(_lesson(outcome)), image)
    yield f"Generated by `{command}`: {_size(outcome)}"
    yield (
        "Requests and clusters are those of the base point of the [published evaluation of routing](003.md) under "
        f"reading {reading.name}, routed round robin. {reading.name}: {reading.what}. "
        "[How victims are selected](../explanation/victims.md)."
    )
    yield bullets(_findings(outcome))
    if outcome.rules:
        yield from _instants(outcome)
    if outcome.variants:
        yield from _guarantees(outcome)
    yield "## Rules of other systems, and how they are interpreted"
    yield "Small functions of this project, written from the documentation; not a measurement of the products."
    lines = [[other.name, other.documented, f"[{other.where}]({other.url})"] for other in outcome.plan.others.values()]
    yield MarkdownTable(("rule", "as documented", "where"), lines)
    yield outcome.plan.readings_table("what is left open", "how it is read", "why")


def _size(outcome: VictimsOutcome) -> str:
    """Give the size."""
    hours = f"{outcome.replications} replications of {outcome.plan.hours} hours"
    if not outcome.instants:
        return f"{hours}."
    without = 100 * outcome.forced / outcome.instants
    missed = f"; at {outcome.inexact:,} not every set that no other beats was found" if outcome.inexact else ""
    return (
        f"{hours}; {outcome.instants:,} instants at which guests had to be preempted, at {without:.0f} % of "
        f"them with one set of guests to choose from{missed}."
    )


def _lesson(outcome: VictimsOutcome) -> Iterator[str]:
    """Compare the published rule with those of other systems, and say what turns bring."""
    vms = {one.name: bounded(one.distances["vms"]) for one in outcome.rules}
    if vms:
        others = ", ".join(f"{name} {vms[name]}" for name in outcome.plan.others)
        ours = ", ".join(f"`{name}` {vms[name]}" for name in OURS)
        yield (
            "VMs preempted by each rule at the same instants, as ratio to the least possible: of Leasehold's rules "
            f"{ours}; of those documented by other systems {others}."
        )
    for one in outcome.variants:
        if one.variant.name == TURNS:
            yield (
                f"If guests are preempted more than twice only where nothing else is left (`{TURNS}`), "
                f"{bounded(one.ratios['leases_over_three_times'])} times as many of them are preempted more than "
                f"three times, and {bounded(one.ratios['vms_preempted'])} times as many VMs in all."
            )


def _findings(outcome: VictimsOutcome) -> Iterator[str]:
    """Sum the tables up, in sentences made of their numbers."""
    for one in outcome.rules:
        if one.name in outcome.plan.others:
            yield (
                f"{one.name} preempts {bounded(one.distances['leases'])} times as many guests and "
                f"{bounded(one.distances['vms'])} times as many VMs as the optimum by each alone; at "
                f"{_mean(one, 'beaten_pct')} % of the instants some other set is no worse by anything, and "
                "better by something."
            )
    for variant in outcome.variants:
        if variant.ratios:
            ratios = (f"{RUN_COLUMNS[key]} {bounded(variant.ratios[key])}" for key in FEW[:1] + FEW[3:5])
            name, against = variant.variant.name, variant.variant.against
            yield f"{name} against {against}, as ratios: {', '.join(ratios)}."


def _mean(rule: OfRule, key: str) -> str:
    return amount(rule.means[key]) if key in rule.means else NOTHING


def _instants(outcome: VictimsOutcome) -> Iterator[str | MarkdownTable]:
    yield "## The same instants"
    yield (
        "Each time a local request is short of room, every rule is asked which guests it would preempt. Means for "
        "each instant, with 95 % intervals over replications. *optimum* is the least by each column alone, "
        "which no one set attains for all of them. *beaten*: instants at which another set is no worse by "
        "guests, VMs, overhead and work lost, and better by one. *dearer type*: instants at which a more "
        "valuable lease type is touched than the less valuable ones leave necessary."
    )
    yield _rule_table(outcome)
    yield "### How far from the optimum"
    yield "Guests, VMs and overhead as ratios to the optimum; VMs too many and work lost as differences."
    lines = [
        [
            one.name,
            *(bounded(one.distances[key]) for key in AS_RATIO),
            *(signed(one.distances[key]) for key in AS_DIFFERENCE),
        ]
        for one in outcome.rules[1:]
    ]
    columns = ("rule", *(COLUMNS[key] for key in AS_RATIO + AS_DIFFERENCE))
    yield MarkdownTable(columns, lines, range(1, len(columns)))


def _rule_table(outcome: VictimsOutcome) -> MarkdownTable:
    """Give one line for each rule: its means over instants."""
    lines = [[one.name, *(_mean(one, key) for key in MEANS + SHARES)] for one in outcome.rules]
    columns = ("rule", *(COLUMNS[key] for key in MEANS + SHARES))
    return MarkdownTable(columns, lines, range(1, len(columns)))


def _guarantees(outcome: VictimsOutcome) -> Iterator[str | MarkdownTable]:
    yield "## Guarantees in whole runs"
    lines = [[one.variant.name, one.variant.what] for one in outcome.variants]
    yield MarkdownTable(("variant", "what it is"), lines)
    yield "Means for each run, with 95 % intervals."
    yield _variant_table(outcome, OF_A_RUN)
    yield "Ratios to the variant that each is compared with, the same requests in both."
    lines = [
        [one.variant.name, one.variant.against, *(bounded(one.ratios[key]) for key in OF_A_RUN)]
        for one in outcome.variants
        if one.variant.against
    ]
    columns = ("variant", "against", *(RUN_COLUMNS[key] for key in OF_A_RUN))
    yield MarkdownTable(columns, lines, range(2, len(columns)))


def _variant_table(outcome: VictimsOutcome, keys: Sequence[str]) -> MarkdownTable:
    """Give one line for each variant: its means over replications."""
    lines = [[one.variant.name, *(amount(one.means[key]) for key in keys)] for one in outcome.variants]
    return MarkdownTable(("variant", *(RUN_COLUMNS[key] for key in keys)), lines, range(1, len(keys) + 1))


# The picture: how far each rule is from the optimum

PICTURE = "victims-optimum"
CAPTION = "Guests, VMs and overhead of each rule at the same instants, as ratio to the optimum, with intervals"
PANELS = {"leases": "Guests preempted", "vms": "VMs preempted", "overhead_vm_s": "Overhead"}


def draw(outcome: VictimsOutcome, folder: Path) -> list[Path]:
    """Draw it, of the instants; returns the paths."""
    rules = outcome.rules[1:]
    if not rules:
        return []
    rankings = [
        pictures.Ranking(
            title,
            "ratio to the optimum",
            {one.name: one.distances[key] for one in rules},
            reference=1.0,
        )
        for key, title in PANELS.items()
    ]
    return pictures.write(pictures.intervals(rankings), folder / PICTURE)
