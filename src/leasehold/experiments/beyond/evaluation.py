"""Routing of our own beside the published policies: its campaign, what came of it, its report and its pictures."""

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
from leasehold.experiments.evaluation import Campaign, Evaluation, EvaluationReport, Size
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.kept import DECIDES, Results, marks
from leasehold.experiments.report import (
    FEW_AND_SHORT,
    NOTHING,
    Block,
    MarkdownTable,
    Title,
    amount,
    bounded,
    bullets,
    markdown,
    plain,
    where,
)
from leasehold.experiments.statistics import Interval, bootstrap_ratio, interval
from leasehold.model.errors import InvalidField


class Reach(StrEnum):
    """Whether what is wanted was reached."""

    REACHED = "reached"
    UNDECIDED = "undecided"
    NOT_REACHED = "not reached"


REACH_IS = {
    Reach.REACHED: "the 95 % interval of the ratio ends before the bound",
    Reach.UNDECIDED: "the bound lies in the interval: these replications do not decide",
    Reach.NOT_REACHED: "the interval lies beyond the bound; of VMs preempted, it does not end before it",
}
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

    def is_at_goal(self) -> bool:
        """Whether VMs preempted are surely no more than the goal; False where there is none."""
        wanted = next(one.wanted for one in self.judged if one.wanted.metric == VMS)
        return wanted.goal is not None and self.ratios[VMS].high <= wanted.goal


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
    "main": "Where it is wanted",
    "control": "Under another reading",
    "variant": "With local queues, stale state, wrong run times",
    "past": "With tables learnt at another rate",
    "log": "On public logs",
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
    )


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
    """Give the results of the contenders in every setting, and what was reached."""
    for setting in outcome.settings:
        yield Title(f"{setting.name}: {setting.what}")
        lines = [
            [
                one.contender.title,
                str(one.count),
                bounded(one.ratios[FEW[0]]),
                *(bounded(one.ratios[metric]).partition(" ")[0] for metric in FEW[1:]),
                one.reach,
            ]
            for one in _compared(outcome, setting)
        ]
        columns = ["contender", "runs", *(METRIC_TITLES[metric] for metric in FEW), "what is wanted"]
        yield MarkdownTable(columns, lines, range(1, len(columns) - 1))
    yield Title("What was reached")
    yield from summary(outcome)
    yield Title(_size(outcome))


def page(outcome: BeyondOutcome) -> Iterator[str | MarkdownTable]:
    """Give the whole report."""
    reference = "[How it is run, and what the words mean](../reference/reproduce.md#beyond)"
    yield "# Routing of our own beside the published policies"
    yield f"**{_size(outcome)}**"
    yield f"Made by `{_command(outcome)}`, never edited by hand, on {where()}. {reference}."
    yield bullets(summary(outcome))
    yield bullets(f"*{word}*: {meaning}." for word, meaning in REACH_IS.items())
    yield "## Who competes"
    lines = [
        [one.title, f"`{one.gateway['policy']}`", outcome.plan.information(one), _besides(one)]
        for one in outcome.plan.contenders
    ]
    yield MarkdownTable(("contender", "policy", "knows", "besides"), lines)
    yield from _wanted(outcome)
    yield from (f"![{CAPTIONS[name]}]({name}.svg)" for name in _pictures(outcome))
    for setting in outcome.settings:
        yield from _setting(outcome, setting)
    yield "## How it is read"
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
    """Give the size, and what it means for the words of the report."""
    counts = sorted(set(outcome.counts.values()), reverse=True)
    made = f"{listed([str(count) for count in counts])} replications of {outcome.plan.hours} hours"
    if outcome.is_whole:
        return f"{made}."
    return f"Not the whole size: {made}. {FEW_AND_SHORT}"


def _reference(outcome: BeyondOutcome) -> str:
    return outcome.plan.title_of(outcome.plan.reference)


def summary(outcome: BeyondOutcome) -> list[str]:
    """Name in a line for each setting the contender nearest to what is wanted."""
    return [_nearest(outcome, setting) for setting in outcome.settings]


def _nearest(outcome: BeyondOutcome, setting: Setting) -> str:
    apart = {outcome.plan.reference, outcome.plan.foresight}

    def distance(one: ContenderResult) -> tuple[int, float]:
        mean = one.ratios[VMS].mean
        return -WORST_FIRST.index(one.reach), inf if isnan(mean) else mean

    best = min((one for one in outcome.of(setting) if one.contender.name not in apart), key=distance)
    of = f"{bounded(best.ratios[VMS])} of the VMs that {_reference(outcome)} does"
    rest = f" ({short})" if (short := _missed(best)) else ""
    goal = ", and the goal as well" if best.is_at_goal() else ""
    return f"{setting.name}: {best.contender.title} preempts {of}; what is wanted: {best.reach}{goal}{rest}."


def _missed(one: ContenderResult) -> str:
    """Name what is not surely reached."""
    missed = []
    for word in (Reach.NOT_REACHED, Reach.UNDECIDED):
        named = [METRIC_TITLES[each.wanted.metric] for each in one.judged if each.reach is word]
        if named:
            is_all = len(named) == len(one.judged)
            missed.append(f"{word}: {'everything' if is_all else ', '.join(named)}")
    return "; ".join(missed)


def _compared(outcome: BeyondOutcome, setting: Setting) -> list[ContenderResult]:
    """Give all but the reference."""
    return [one for one in outcome.of(setting) if one.contender.name != outcome.plan.reference]


def _besides(contender: Contender) -> str:
    """Write down what a contender sets besides its routing policy."""
    rest = {key: value for key, value in contender.gateway.items() if key != "policy"}
    return ", ".join(f"`{key} = {value}`" for key, value in {**rest, **contender.defaults}.items())


def _wanted(outcome: BeyondOutcome) -> Iterator[str | MarkdownTable]:
    yield "## What is wanted, and what was reached"
    bounds = ", ".join(f"{METRIC_TITLES[one.metric]} {one.as_text}" for one in outcome.plan.wanted)
    at_most = outcome.plan.stated["logs"]["wanted_at_most"]
    yield (
        f"As ratio to {_reference(outcome)}: {bounds}. On logs VMs preempted at most {at_most:g}; where "
        "local requests queue, their wait instead of their rejections. VMs preempted, as ratio, and whether "
        "all that is wanted was reached:"
    )
    for role, heading in ROLES.items():
        settings = [one for one in outcome.settings if one.role == role]
        if settings:
            yield f"### {heading}"
            columns = ["contender", "knows", *(setting.name for setting in settings)]
            yield MarkdownTable(columns, _glance(outcome, settings), range(2, len(columns)))


def _glance(outcome: BeyondOutcome, settings: Sequence[Setting]) -> list[list[str]]:
    """Give one line for each contender but the reference that competes there."""

    def reached(one: ContenderResult | None) -> str:
        return NOTHING if one is None else f"{bounded(one.ratios[VMS])}, {one.reach}"

    return [
        [
            contender.title,
            outcome.plan.information(contender),
            *(reached(outcome.one(each, contender)) for each in settings),
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
            one.reach,
        ]
        for one in compared
    ]
    columns = ["contender", "knows", *METRIC_TITLES.values(), "what is wanted"]
    yield MarkdownTable(columns, lines, range(2, len(columns) - 1))
    yield "What is not surely reached:"
    yield MarkdownTable(("contender", "what"), [[one.contender.title, _missed(one)] for one in compared])
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
    caution = "" if outcome.is_whole else f" {_size(outcome)}"
    lines = [line(one) for one in outcome.plan.contenders]
    table = MarkdownTable(columns, lines, range(2, len(columns)))
    return markdown([f"{hours}{caution} Made by `{_command(outcome)}`.", table])


# Pictures: what fewer preemptions cost, and where they hold

CAPTIONS = {
    f"{NAME}-ratios": "VMs preempted in every setting, as ratio to RR, with intervals",
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
    bounds = {one.metric: one.at_most or 0.0 for one in outcome.plan.wanted}
    title = f"{setting.name}: what fewer preemptions cost"
    return pictures.trade_off(title, axes, dots, (bounds[VMS], bounds[AWRT]))


def _ratios(outcome: BeyondOutcome) -> pictures.AnyChart:
    found = [{one.contender.title: one.ratios[VMS] for one in outcome.of(setting)} for setting in outcome.settings]
    bounds = [
        next(one.at_most or 0.0 for one in outcome.plan.wanted_in(setting) if one.metric == VMS)
        for setting in outcome.settings
    ]
    titles = [setting.name for setting in outcome.settings]
    return pictures.intervals(titles, "VMs preempted, ratio to RR", found, bounds)
