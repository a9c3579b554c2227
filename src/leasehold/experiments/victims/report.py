"""The report: the same content as Markdown and, piece by piece, for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan

from leasehold.experiments.markdown import table
from leasehold.experiments.statistics import Interval
from leasehold.experiments.victims.evaluation import HOURS
from leasehold.experiments.victims.instants import MEANS, SHARES
from leasehold.experiments.victims.outcome import AS_DIFFERENCE, AS_RATIO, OF_A_RUN, OfRule, Outcome
from leasehold.experiments.writing import NOTHING, amount, bounded, signed

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
RULE_COLUMNS = ("rule", *(COLUMNS[key] for key in MEANS + SHARES))
DISTANCE_COLUMNS = ("rule", *(COLUMNS[key] for key in AS_RATIO + AS_DIFFERENCE))
VARIANT_COLUMNS = ("variant", *(RUN_COLUMNS[key] for key in OF_A_RUN))
RATIO_COLUMNS = ("variant", "against", *(RUN_COLUMNS[key] for key in OF_A_RUN))
FEW = OF_A_RUN[:6]
"""Those that a terminal has room for."""


def command(outcome: Outcome) -> str:
    """Give the command that makes this report."""
    names = " ".join(outcome.parts) or "victims"
    how_long = "" if outcome.plan.hours == HOURS else " --quick"
    return f"leasehold reproduce {names}{how_long} --seeds {outcome.replications}"


def size(outcome: Outcome) -> str:
    """Say how large it is."""
    hours = f"{outcome.replications} replications of {outcome.plan.hours} hours"
    if not outcome.instants:
        return f"{hours}."
    without = 100 * outcome.forced / outcome.instants
    missed = (
        f"; at {outcome.inexact:,} not every set that no other beats was found" if outcome.inexact else ""
    )
    return (
        f"{hours}; {outcome.instants:,} instants at which somebody had to give way, at {without:.0f} % of "
        f"them with one set of guests to choose from{missed}."
    )


def rule_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each rule: its means over instants."""
    return [[one.name, *(_mean(one, key) for key in MEANS + SHARES)] for one in outcome.rules]


def distance_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each rule: its distance from the optimum."""
    return [
        [
            one.name,
            *(bounded(one.distances[key]) for key in AS_RATIO),
            *(signed(one.distances[key]) for key in AS_DIFFERENCE),
        ]
        for one in outcome.rules[1:]
    ]


def variant_lines(outcome: Outcome, keys: Sequence[str] = OF_A_RUN) -> list[list[str]]:
    """Give one line for each variant: its means over replications."""
    return [[one.variant.name, *(amount(one.means[key]) for key in keys)] for one in outcome.variants]


def ratio_lines(outcome: Outcome, keys: Sequence[str] = OF_A_RUN) -> list[list[str]]:
    """Give one line for each variant that is compared with another: the ratios to that one."""
    return [
        [one.variant.name, one.variant.against, *(_ratio(one.ratios[key]) for key in keys)]
        for one in outcome.variants
        if one.variant.against
    ]


def findings(outcome: Outcome) -> Iterator[str]:
    """Say what the tables come to, in sentences made of their numbers."""
    if outcome.rules:
        yield from _of_instants({rule.name: rule for rule in outcome.rules}, outcome)
    for one in outcome.variants:
        if one.ratios:
            told = ", ".join(f"{RUN_COLUMNS[key]} {bounded(one.ratios[key])}" for key in FEW[:1] + FEW[3:5])
            yield f"{one.variant.name} against {one.variant.against}, as ratios: {told}."


def _of_instants(rules: Mapping[str, OfRule], outcome: Outcome) -> Iterator[str]:
    for name in outcome.plan.others:
        far = rules[name].distances
        yield (
            f"{name} preempts {bounded(far['leases'])} times as many guests and {bounded(far['vms'])} times "
            f"as many VMs as the optimum by each alone; at {_mean(rules[name], 'beaten_pct')} % of the "
            "instants some other set is no worse by anything, and better by something."
        )


def _mean(rule: OfRule, key: str) -> str:
    return amount(rule.means[key]) if key in rule.means else NOTHING


def _ratio(found: Interval) -> str:
    """Write a ratio; to nothing there is none."""
    return NOTHING if isnan(found.mean) else bounded(found)


def markdown(outcome: Outcome) -> str:
    """Write the whole report."""
    return "\n".join(_lines(outcome)).rstrip() + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    yield "# Who gives way: other systems' rules, and guarantees"
    yield ""
    yield (
        f"Made by `{command(outcome)}`, never edited by hand. "
        "[How victims are chosen](../explanation/victims.md)."
    )
    yield ""
    yield f"{size(outcome)} The base is that of the published evaluation of routing, reading R2, round robin."
    yield ""
    for sentence in findings(outcome):
        yield f"- {sentence}"
    yield ""
    if outcome.rules:
        yield from _instants(outcome)
    if outcome.variants:
        yield from _guarantees(outcome)
    yield from _sources(outcome)


def _instants(outcome: Outcome) -> Iterator[str]:
    yield "## The same instants"
    yield ""
    yield (
        "Each time a local request is short of room, every rule is asked whom it would preempt. Means for "
        "each instant, with 95 % intervals over replications. *optimum* is the least by each column alone, "
        "which no one set attains for all of them. *beaten*: instants at which another set is no worse by "
        "guests, VMs, overhead and work lost, and better by one. *dearer type*: instants at which a more "
        "valuable lease type is touched than the less valuable ones leave necessary."
    )
    yield ""
    yield from table(RULE_COLUMNS, rule_lines(outcome), figures=range(1, len(RULE_COLUMNS)))
    yield "### How far from the optimum"
    yield ""
    yield "Guests, VMs and overhead as ratios to the optimum; VMs too many and work lost as differences."
    yield ""
    yield from table(DISTANCE_COLUMNS, distance_lines(outcome), figures=range(1, len(DISTANCE_COLUMNS)))


def _guarantees(outcome: Outcome) -> Iterator[str]:
    yield "## Guarantees in whole runs"
    yield ""
    yield from table(
        ("variant", "what it is"), [[one.variant.name, one.variant.what] for one in outcome.variants]
    )
    yield "Means for each run, with 95 % intervals."
    yield ""
    yield from table(VARIANT_COLUMNS, variant_lines(outcome), figures=range(1, len(VARIANT_COLUMNS)))
    yield "Ratios to the variant that each is compared with, the same requests in both."
    yield ""
    yield from table(RATIO_COLUMNS, ratio_lines(outcome), figures=range(2, len(RATIO_COLUMNS)))


def _sources(outcome: Outcome) -> Iterator[str]:
    yield "## Whose rules, and how they are read"
    yield ""
    yield (
        "Small functions of this project, written from the documentation; not a measurement of the products."
    )
    yield ""
    lines = [
        [other.name, other.documented, f"[{other.where}]({other.url})"]
        for other in outcome.plan.others.values()
    ]
    yield from table(("rule", "as documented", "where"), lines)
    yield from table(
        ("what is left open", "how it is read", "why"),
        [[one.key, one.reading, one.why] for one in outcome.plan.interpretations],
    )
