"""Leasehold's routing policies compared with the published ones: campaign, outcome, report and pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import ceil, inf, isnan, nan
from pathlib import Path
from typing import Any

import polars as pl

from leasehold.analysis.wording import listed
from leasehold.experiments import pictures
from leasehold.experiments.beyond import world
from leasehold.experiments.beyond.plan import (
    NAME,
    VMS,
    BeyondPlan,
    Contender,
    ContenderRun,
    Setting,
    TargetBounds,
    part_name,
    plan,
    settings_named,
)
from leasehold.experiments.campaign import Measure
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.kept import DECIDES, Results, marks
from leasehold.experiments.report import (
    NOTHING,
    Block,
    MarkdownTable,
    Title,
    amount,
    bounded,
    bullets,
    markdown,
    opening,
    plain,
    where,
)
from leasehold.experiments.statistics import Interval, bootstrap_ratio, interval
from leasehold.model.errors import InvalidField


class Reach(StrEnum):
    """Whether a ratio lies within its bound: surely, perhaps, or not."""

    REACHED = "reached"
    UNDECIDED = "undecided"
    NOT_REACHED = "not reached"


WORST_FIRST = (Reach.NOT_REACHED, Reach.UNDECIDED, Reach.REACHED)


@dataclass(frozen=True, slots=True)
class Judged:
    """One thing that is wanted, and what came of it."""

    wanted: TargetBounds
    reach: Reach


@dataclass(frozen=True, slots=True)
class ContenderResult:
    """A contender in a setting: its means, and their ratios to the reference, of ``count`` runs."""

    setting: Setting
    contender: Contender
    count: int
    means: Mapping[str, Interval]
    ratios: Mapping[str, Interval]
    judged: tuple[Judged, ...]

    @property
    def reach(self) -> Reach:
        """Whether everything that is wanted was reached: the worst of all."""
        return next(word for word in WORST_FIRST if any(one.reach is word for one in self.judged))

    def others(self, word: Reach) -> list[str]:
        """Name the metrics but VMs preempted whose ratio stands so to its bound."""
        named = [one.wanted.metric for one in self.judged if one.reach is word]
        return [METRIC_TITLES[metric] for metric in named if metric != VMS]


@dataclass(frozen=True, slots=True)
class BeyondOutcome:
    """Everything that the report shows."""

    plan: BeyondPlan
    settings: tuple[Setting, ...]
    counts: Mapping[str, int]
    standings: tuple[ContenderResult, ...]

    def of(self, setting: Setting) -> list[ContenderResult]:
        """Give the results in a setting, in order of the contenders, the reference included."""
        return [one for one in self.standings if one.setting == setting]

    def one(self, setting: Setting, contender: Contender) -> ContenderResult | None:
        """Give the result of a contender in a setting, None where it does not compete."""
        return next((one for one in self.of(setting) if one.contender == contender), None)

    @property
    def is_whole(self) -> bool:
        """Whether it is as large as the file has it."""
        stated = self.plan.stated
        is_long = self.plan.hours == stated["hours"]
        return is_long and all(self.counts[one.name] >= one.replications for one in self.settings)


def outcome_of(
    read: BeyondPlan, settings: Sequence[Setting], counts: Mapping[str, int], found: Results
) -> BeyondOutcome:
    """Compare all contenders with the reference."""
    standings = [
        _standing(read, setting, contender, found) for setting in settings for contender in read.contenders_in(setting)
    ]
    return BeyondOutcome(read, tuple(settings), counts, tuple(standings))


def _standing(read: BeyondPlan, setting: Setting, contender: Contender, found: Results) -> ContenderResult:
    own = found[read.name_of(setting, contender.name)]
    reference = found[read.name_of(setting, read.reference)]
    count = len(own[VMS])
    means = {metric: _mean(own[metric]) for metric in METRICS}
    ratios = {metric: bootstrap_ratio(own[metric], reference[metric][:count]) for metric in METRICS}
    judged = tuple(Judged(one, reach_of(one, ratios[one.metric])) for one in read.wanted_in(setting))
    return ContenderResult(setting, contender, count, means, ratios, judged)


def _mean(values: Sequence[float]) -> Interval:
    known = [value for value in values if not isnan(value)]
    return interval(known or list(values[:1]))


def reach_of(wanted: TargetBounds, ratio: Interval) -> Reach:
    """Judge one thing; undecided without an interval."""
    if isnan(ratio.low):
        return Reach.UNDECIDED
    if wanted.at_least is not None:
        return _reach(-ratio.high, -ratio.low, -wanted.at_least)
    assert wanted.at_most is not None
    found = _reach(ratio.low, ratio.high, wanted.at_most + wanted.spare)
    is_strict = wanted.at_most < 1 and found is Reach.UNDECIDED
    return Reach.NOT_REACHED if is_strict else found


def _reach(low: float, high: float, bound: float) -> Reach:
    if high <= bound:
        return Reach.REACHED
    return Reach.NOT_REACHED if low > bound else Reach.UNDECIDED


# All of it as plain data


def as_data(outcome: BeyondOutcome) -> dict[str, Any]:
    """Give everything as plain data."""
    return {
        "evaluation": NAME,
        "hours": outcome.plan.hours,
        "replications": dict(outcome.counts),
        "is_whole": outcome.is_whole,
        "where": where(),
        "level": 0.95,
        "reference": outcome.plan.reference,
        "wanted": plain(outcome.plan.wanted),
        "settings": plain(outcome.settings),
        "contenders": [plain(one) | {"information": outcome.plan.information(one)} for one in outcome.plan.contenders],
        "standings": [
            {
                "setting": one.setting.name,
                "contender": one.contender.name,
                "replications": one.count,
                "reach": one.reach,
                "judged": [plain(judged.wanted) | {"reach": judged.reach} for judged in one.judged],
                "means": plain(one.means),
                "ratios": plain(one.ratios),
            }
            for one in outcome.standings
        ],
    }


QUICK_SEEDS, QUICK_HOURS = 3, 6
FEWEST_REPLICATIONS = 5
"""Replications that an interval takes, of a contender of less interest."""
WHICH = "which-policy.txt"
"""A table for a page of its own, and no page itself."""

_MAKES_RESULTS = (
    *DECIDES,
    "experiments/intergrid/metrics.py",
    "experiments/intergrid/world.py",
    "experiments/beyond/world.py",
)

METRIC_TITLES: Mapping[str, str] = {
    "vms_preempted": "VMs preempted",
    "leases_preempted": "leases preempted",
    "overhead_vm_h": "overhead (VM-h)",
    "lost_vm_h": "work lost (VM-h)",
    "np_rejection_pct": "Non-preemptable rejected (%)",
    "migratable_rejection_pct": "Migratable rejected (%)",
    "migratable_unserved_pct": "Migratable unserved (%)",
    "deadline_missed_pct": "deadlines missed (%)",
    "local_rejection_pct": "locals rejected (%)",
    "local_wait_s": "wait of locals (s)",
    "migrations": "migrations",
    "awrt_pooled_s": "AWRT, eq 23 (s)",
    "awrt_s": "AWRT, eq 24 (s)",
    "best_effort_wait_s": "wait of best effort (s)",
    "guest_work_vm_h": "work of guests done (VM-h)",
}
FEW = ("vms_preempted", "leases_preempted", "np_rejection_pct", "awrt_pooled_s", "awrt_s")
"""Those that a terminal has room for."""
ROLES = {
    "main": "Published base point",
    "control": "Control reading of the base point",
    "variant": "Local queues, stale state, wrong run times",
    "past": "Demand learnt at another rate",
    "log": "Public logs",
}
"""The settings that stand in one table, by their role."""


# The campaign


def campaign(parts: Sequence[str], size: Size) -> Campaign:
    """Run all settings, or some; those with a log where there is one."""
    read = plan(QUICK_HOURS if size.quick else None)
    seeds = size.seeds or (QUICK_SEEDS if size.quick else None)
    asked = settings_named(read, parts)
    if size.quick and not parts:  # in the others a week passes before guests come
        asked = [one for one in asked if not one.trained_rate]
    settings = possible(asked, size.logs, asked=bool(parts))
    return Campaign(
        runs={
            read.name_of(setting, one.name): numbers(read, setting, one, seeds)
            for setting in settings
            for one in read.contenders_in(setting)
        },
        marks=marks(_MAKES_RESULTS, {name: _decides(one) for name, one in read.configurations.items()}),
        measure=partial(world.measure, folder=size.logs),
        report=partial(report, read, settings, seeds),
        hand_over=None if size.logs is None else partial(_hand_over, settings, size.logs),
    )


def _hand_over(settings: Sequence[Setting], logs: Path, folder: Path) -> Measure:
    for setting in settings:
        if setting.log is not None:
            world.hand_over(setting.log, logs, folder)
    return partial(world.measure, folder=folder, handed_over=True)


EVALUATIONS = {NAME: Evaluation(campaign, lambda: [part_name(one) for one in plan().settings])}


def possible(settings: Sequence[Setting], folder: Path | None, *, asked: bool) -> list[Setting]:
    """Give the settings whose log is there; raises InvalidField for one that was asked for by name."""
    found = [one for one in settings if one.log is None or world.log_is_there(one.log, folder)]
    if asked and len(found) < len(settings):
        missing = next(one for one in settings if one not in found)
        assert missing.log is not None
        raise InvalidField("--logs", str(folder or ""), f"a folder with {missing.log.file}")
    return found


def replications(read: BeyondPlan, setting: Setting, seeds: int | None) -> range:
    """Number the replications of a setting: as the file says, or in proportion to other ``seeds``."""
    count = setting.replications if seeds is None else -(-seeds * setting.replications // read.replications)
    return range(1, 1 + max(2, count))


def numbers(read: BeyondPlan, setting: Setting, contender: Contender, seeds: int | None) -> range:
    """Number the replications of a contender in a setting: all of them, or the first."""
    most = len(replications(read, setting, seeds))
    return range(1, 1 + min(most, max(FEWEST_REPLICATIONS, ceil(contender.part * most))))


def _decides(one: ContenderRun) -> dict[str, Any]:
    """Give what decides the results of a configuration, as plain data."""
    setting = one.setting
    log = None if setting.log is None else [repr(setting.log), plan().stated["logs"]]
    return world.as_keys(one, 0) | {
        "setting": [setting.stale_s, setting.overestimate, setting.trained_rate, log],
        "policy": one.contender.gateway["policy"],
    }


def report(read: BeyondPlan, settings: Sequence[Setting], seeds: int | None, results: Results) -> EvaluationReport:
    """Report on these results."""
    counts = {one.name: len(replications(read, one, seeds)) for one in settings}
    outcome = outcome_of(read, settings, counts, results)
    return EvaluationReport(
        NAME,
        as_data(outcome),
        page=partial(page, outcome),
        screen=partial(screen, outcome),
        draw=partial(draw, outcome),
        every_result=partial(_every_result, outcome),
        beside={WHICH: which_policy(outcome)} if _main(outcome) else {},
    )


def _main(outcome: BeyondOutcome) -> list[Setting]:
    return [one for one in outcome.settings if one.role == "main"]


def _every_result(outcome: BeyondOutcome, results: pl.DataFrame) -> pl.DataFrame:
    """Give one row for each setting, contender and replication, with all metrics."""
    named = [
        {
            "configuration": outcome.plan.name_of(one.setting, one.contender.name),
            "setting": one.setting.name,
            "contender": one.contender.name,
        }
        for one in outcome.standings
    ]
    return pl.DataFrame(named).join(results, on="configuration").drop("configuration")


# The report


def screen(outcome: BeyondOutcome) -> Iterator[Block]:
    """Give the results of the contenders in every setting, and those of the leading policy."""
    for setting in outcome.settings:
        yield Title(f"{setting.name}: {setting.what}")
        lines = [
            [
                one.contender.title,
                str(one.count),
                bounded(one.ratios[FEW[0]]),
                *(bounded(one.ratios[metric]).partition(" ")[0] for metric in FEW[1:]),
                _tally(one),
            ]
            for one in _compared(outcome, setting)
        ]
        columns = ["contender", "runs", *(METRIC_TITLES[metric] for metric in FEW), "other metrics"]
        yield MarkdownTable(columns, lines, range(1, len(columns) - 1))
    yield Title(f"{_lead(outcome)} in every setting")
    yield from summary(outcome)
    yield Title(f"{_size(outcome)}.")


def page(outcome: BeyondOutcome) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    images = [f"![{CAPTIONS[name]}]({name}.svg)" for name in _pictures(outcome)]
    yield from opening("Leasehold's routing policies compared with the published ones", _lesson(outcome), images[0])
    yield f"Generated by `{_command(outcome)}` on {where()}: {_size(outcome)}."
    yield "[How it is run](../reference/reproduce.md#beyond). [Which policy to use](../explanation/which-policy.md)."
    yield "## Settings"
    yield (
        "The [publication](003.md#readings-of-the-workload) leaves units open. R2, R0 and R1 are three readings of "
        "them: the same base point with other units. A suffix names what else differs."
    )
    lines = [[one.name, one.what, str(outcome.counts[one.name])] for one in outcome.settings]
    yield MarkdownTable(("setting", "what it is", "replications"), lines, {2})
    yield f"## {_lead(outcome)} in every setting"
    yield _what_is_compared(outcome)
    yield bullets(summary(outcome))
    yield "## Policies compared"
    lines = [
        [one.title, f"`{one.gateway['policy']}`", outcome.plan.information(one), _besides(one)]
        for one in outcome.plan.contenders
    ]
    yield MarkdownTable(("contender", "policy", "knows", "besides"), lines)
    yield from _at_a_glance(outcome)
    yield from images[1:]
    for setting in outcome.settings:
        yield from _setting(outcome, setting)
    yield "## Interpretations"
    yield outcome.plan.readings_table("what", "reading", "why")


def _command(outcome: BeyondOutcome) -> str:
    """Give the command that makes this report."""
    names = [NAME]
    if len(outcome.settings) < len(outcome.plan.settings):
        names = [part_name(one) for one in outcome.settings]
    quick = "" if outcome.plan.hours == outcome.plan.stated["hours"] else " --quick"
    logs = " --logs FOLDER" if any(one.log for one in outcome.settings) else ""
    return f"leasehold reproduce {' '.join(names)}{quick} --seeds {max(outcome.counts.values())}{logs}"


def _size(outcome: BeyondOutcome) -> str:
    """Give the size, and the full one where it is less."""
    counts = sorted(set(outcome.counts.values()), reverse=True)
    made = f"{listed([str(count) for count in counts])} replications of {outcome.plan.hours} hours"
    full = f"{outcome.plan.replications} of {outcome.plan.stated['hours']} hours"
    return made if outcome.is_whole else f"{made} (full size: {full})"


def _reference(outcome: BeyondOutcome) -> str:
    return outcome.plan.title_of(outcome.plan.reference)


def _lead(outcome: BeyondOutcome) -> str:
    return outcome.plan.title_of(outcome.plan.lead)


def _lesson(outcome: BeyondOutcome) -> str:
    """Compare the leading policy and the best published one with the reference in the main settings."""
    settings = _main(outcome) or list(outcome.settings[:1])
    ours = [_of_lead(outcome, setting) for setting in settings]
    best = [_best_published(outcome, setting) for setting in settings]
    ratios = listed([f"{bounded(one.ratios[VMS])} in {one.setting.name}" for one in ours])
    published = listed([f"{one.contender.title} {bounded(one.ratios[VMS])} in {one.setting.name}" for one in best])
    names = listed([one.name for one in settings])
    others = "; ".join(f"{one.setting.name}: {_missed(one)}" for one in ours if any(map(one.others, NOT_SURE)))
    lead, reference = _lead(outcome), _reference(outcome)
    rest = (
        f"Other metrics of {lead} in {names}: {others}."
        if others
        else f"In {names}, no [other metric](#{lead}-in-every-setting) of {lead} is worse than that of {reference}."
    )
    return (
        f"VMs preempted as ratio to {reference} (round robin): Leasehold's policy {lead} {ratios}; the best published "
        f"policy, {published}. {rest} {' '.join(f'{one.name}: {one.what}.' for one in settings)}"
    )


def _of_lead(outcome: BeyondOutcome, setting: Setting) -> ContenderResult:
    return next(one for one in outcome.of(setting) if one.contender.name == outcome.plan.lead)


def _best_published(outcome: BeyondOutcome, setting: Setting) -> ContenderResult:
    """Give the published policy with the fewest VMs preempted; the reference is one of them."""

    def vms(one: ContenderResult) -> float:
        mean = one.ratios[VMS].mean
        return inf if isnan(mean) else mean

    return min((one for one in outcome.of(setting) if one.contender.name in outcome.plan.published), key=vms)


def summary(outcome: BeyondOutcome) -> list[str]:
    """Compare the leading policy with the reference in a line for each setting."""
    return [
        f"{setting.name}: {bounded(one.ratios[VMS])} of the VMs that {_reference(outcome)} preempts; {_missed(one)}."
        for setting in outcome.settings
        for one in [_of_lead(outcome, setting)]
    ]


NOT_SURE = {Reach.NOT_REACHED: "worse", Reach.UNDECIDED: "undecided"}
"""What is said of a metric but VMs preempted, whose bound is the reference itself."""


def _missed(one: ContenderResult) -> str:
    """Name the other metrics that are worse than those of the reference, and those that may be."""
    named = {word: one.others(reach) for reach, word in NOT_SURE.items()}
    every = len(one.judged) - 1
    found = [
        f"{word}: {'all others' if len(metrics) == every else ', '.join(metrics)}"
        for word, metrics in named.items()
        if metrics
    ]
    return "; ".join(found) or NONE_WORSE


def _tally(one: ContenderResult) -> str:
    """Count them."""
    counts = {word: len(one.others(reach)) for reach, word in NOT_SURE.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or NONE_WORSE


NONE_WORSE = "none worse"


def _compared(outcome: BeyondOutcome, setting: Setting) -> list[ContenderResult]:
    """Give all but the reference."""
    return [one for one in outcome.of(setting) if one.contender.name != outcome.plan.reference]


def _besides(contender: Contender) -> str:
    """Write down what a contender sets besides its routing policy."""
    rest = {key: value for key, value in contender.gateway.items() if key != "policy"}
    return ", ".join(f"`{key} = {value}`" for key, value in {**rest, **contender.defaults}.items())


def _what_is_compared(outcome: BeyondOutcome) -> str:
    """Say which other metrics are compared, and what the words mean."""
    named = ", ".join(METRIC_TITLES[one.metric] for one in outcome.plan.wanted if one.metric != VMS)
    reference, spare = _reference(outcome), 1 + max(one.spare for one in outcome.plan.wanted)
    return (
        f"Other metrics compared with {reference}: {named}; where local requests queue, their wait instead of their "
        "rejections. A metric is *worse* when the 95 % interval of its ratio lies beyond 1, and *undecided* when it "
        f"includes 1; of local requests, a ratio of up to {spare:g} counts as equal."
    )


def _at_a_glance(outcome: BeyondOutcome) -> Iterator[str | MarkdownTable]:
    yield "## VMs preempted, by policy and setting"
    yield f"VMs preempted as ratio to {_reference(outcome)}, and how many of the other metrics are worse or undecided."
    for role, heading in ROLES.items():
        settings = [one for one in outcome.settings if one.role == role]
        if settings:
            yield f"### {heading}"
            columns = ["contender", "knows", *(setting.name for setting in settings)]
            yield MarkdownTable(columns, _glance(outcome, settings), range(2, len(columns)))


def _glance(outcome: BeyondOutcome, settings: Sequence[Setting]) -> list[list[str]]:
    """Give one line for each contender but the reference that competes there."""

    def compared(one: ContenderResult | None) -> str:
        return NOTHING if one is None else f"{bounded(one.ratios[VMS])}, {_tally(one)}"

    return [
        [
            contender.title,
            outcome.plan.information(contender),
            *(compared(outcome.one(each, contender)) for each in settings),
        ]
        for contender in outcome.plan.contenders
        if contender.name != outcome.plan.reference and any(contender.is_in(each) for each in settings)
    ]


def _setting(outcome: BeyondOutcome, setting: Setting) -> Iterator[str | MarkdownTable]:
    count, what, compared = outcome.counts[setting.name], setting.what, _compared(outcome, setting)
    yield f"## {setting.name}"
    yield f"{what[0].upper()}{what[1:]}; {count} replications. Ratios to {_reference(outcome)}:"
    lines = [
        [
            one.contender.title if one.count == count else f"{one.contender.title} ({one.count} replications)",
            outcome.plan.information(one.contender),
            *(bounded(one.ratios[metric]) for metric in METRIC_TITLES),
        ]
        for one in compared
    ]
    columns = ["contender", "knows", *METRIC_TITLES.values()]
    yield MarkdownTable(columns, lines, range(2, len(columns)))
    yield "Other metrics that are worse, or undecided:"
    yield MarkdownTable(("contender", "other metrics"), [[one.contender.title, _missed(one)] for one in compared])
    yield "Means:"
    lines = [
        [one.contender.title, *(amount(one.means[metric]) for metric in METRIC_TITLES)] for one in outcome.of(setting)
    ]
    yield MarkdownTable(["contender", *METRIC_TITLES.values()], lines, range(1, len(METRIC_TITLES) + 1))


def which_policy(outcome: BeyondOutcome) -> str:
    """Write the table of the page that says which policy to use: what each level of knowledge buys."""
    main = _main(outcome)
    metrics = ("vms_preempted", "np_rejection_pct", "awrt_pooled_s", "best_effort_wait_s", "guest_work_vm_h")
    columns = ["policy", "knows", "runs", *(f"{METRIC_TITLES[m]}, {s.name}" for m in metrics for s in main)]

    def line(contender: Contender) -> list[str]:
        results = [outcome.one(setting, contender) for setting in main]
        counts = sorted({one.count for one in results if one is not None})
        means = (nan if one is None else one.ratios[metric].mean for metric in metrics for one in results)
        return [
            contender.title,
            outcome.plan.information(contender),
            listed([str(count) for count in counts]) or NOTHING,
            *(NOTHING if isnan(mean) else f"{mean:.2f}" for mean in means),
        ]

    hours = f"Ratios to {_reference(outcome)}, over so many runs of {outcome.plan.hours} hours in each setting."
    caution = "" if outcome.is_whole else f" {_size(outcome)}."
    lines = [line(one) for one in outcome.plan.contenders if any(map(one.is_in, main))]
    table = MarkdownTable(columns, lines, range(2, len(columns)))
    return markdown([f"{hours}{caution} Made by `{_command(outcome)}`.", table])


# Pictures: what fewer preemptions cost, and where they hold

CAPTIONS = {
    f"{NAME}-ratios": "VMs preempted in every setting, as ratio to RR (dashed line), with intervals",
    f"{NAME}-pareto": "VMs preempted against average weighted response time, as ratios to RR, with intervals",
}
AWRT = "awrt_s"


def _pictures(outcome: BeyondOutcome) -> list[str]:
    """Name them; costs are drawn of the main settings alone."""
    return list(CAPTIONS) if _main(outcome) else list(CAPTIONS)[:1]


def draw(outcome: BeyondOutcome, folder: Path) -> list[Path]:
    """Draw them; returns the paths."""
    charts = [_ratios(outcome)]
    if main := _main(outcome):
        charts.append(pictures.beside([_costs(outcome, setting) for setting in main]))
    named = zip(charts, CAPTIONS, strict=False)
    return [path for chart, name in named for path in pictures.write(chart, folder / name)]


def _costs(outcome: BeyondOutcome, setting: Setting) -> pictures.AnyChart:
    dots = [
        pictures.Dot(one.contender.title, one.contender.family, one.ratios[VMS], one.ratios[AWRT])
        for one in outcome.of(setting)
    ]
    axes = ("VMs preempted, ratio to RR", "AWRT (eq 24), ratio to RR")
    return pictures.trade_off(f"{setting.name}: what fewer preemptions cost", axes, dots)


def _ratios(outcome: BeyondOutcome) -> pictures.AnyChart:
    return pictures.intervals(
        [
            pictures.Ranking(
                setting.name,
                "VMs preempted, ratio to RR",
                {one.contender.title: one.ratios[VMS] for one in outcome.of(setting)},
                reference=1.0,
            )
            for setting in outcome.settings
        ]
    )
