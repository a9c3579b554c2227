"""The report: the same content as Markdown and, piece by piece, for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan

from leasehold.analysis.wording import listed
from leasehold.experiments.beyond.outcome import MEANINGS, WORST_FIRST, Outcome, Reach, Standing
from leasehold.experiments.beyond.settings import NAME, VMS, Contender, Setting, part_name
from leasehold.experiments.machine import where
from leasehold.experiments.markdown import table
from leasehold.experiments.writing import NOTHING, amount, bounded

TITLES: Mapping[str, str] = {
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


def command(outcome: Outcome) -> str:
    """Give the command that makes this report."""
    names = [NAME]
    if len(outcome.settings) < len(outcome.plan.settings):
        names = [part_name(one) for one in outcome.settings]
    main = max(outcome.counts.values())
    quick = "" if outcome.plan.hours == outcome.plan.said["hours"] else " --quick"
    logs = " --logs FOLDER" if any(one.log for one in outcome.settings) else ""
    return f"leasehold reproduce {' '.join(names)}{quick} --seeds {main}{logs}"


def size(outcome: Outcome) -> str:
    """Say how large it is, and what that means for the words in it."""
    counts = sorted(set(outcome.counts.values()), reverse=True)
    made = f"{listed([str(count) for count in counts])} replications of {outcome.plan.hours} hours"
    if outcome.is_whole:
        return f"{made}."
    return (
        f"Not the whole size: {made}. Look at the shape, not at the words: few replications make wide "
        "intervals, in which nothing is sure."
    )


def summary(outcome: Outcome) -> list[str]:
    """Say in a line for each setting who comes nearest to what is wanted."""
    return [_nearest(outcome, setting) for setting in outcome.settings]


def _nearest(outcome: Outcome, setting: Setting) -> str:
    rivals = [one for one in outcome.of(setting) if one.contender.name not in _apart(outcome)]
    best = min(rivals, key=lambda one: (-WORST_FIRST.index(one.reach), _or_last(one.ratios[VMS].mean)))
    usual = outcome.plan.title_of(outcome.plan.reference)
    part = f"{best.contender.title} preempts {bounded(best.ratios[VMS])} of the VMs that {usual} does"
    rest = f" ({short})" if (short := "; ".join(_missed(best))) else ""
    goal = ", and the goal as well" if best.is_at_goal() else ""
    return f"{setting.name}: {part}; what is wanted: {best.reach}{goal}{rest}."


def _apart(outcome: Outcome) -> set[str]:
    return {outcome.plan.reference, outcome.plan.foresight}


def _or_last(value: float) -> float:
    return float("inf") if isnan(value) else value


def _named(metrics: Sequence[str]) -> str:
    return ", ".join(TITLES[metric] for metric in metrics)


def ratio_columns(metrics: Sequence[str]) -> list[str]:
    """Head a table of ratios."""
    return ["contender", "knows", *(TITLES[metric] for metric in metrics), "what is wanted"]


def ratio_lines(outcome: Outcome, setting: Setting, metrics: Sequence[str]) -> list[list[str]]:
    """Give one line for each contender but the reference: how it stands to that."""
    return [
        [
            _titled(outcome, one),
            _knows(outcome, one.contender),
            *(bounded(one.ratios[metric]) for metric in metrics),
            one.reach,
        ]
        for one in _compared(outcome, setting)
    ]


def _compared(outcome: Outcome, setting: Setting) -> list[Standing]:
    """Give those that are compared with the reference: all others."""
    return [one for one in outcome.of(setting) if one.contender.name != outcome.plan.reference]


def _titled(outcome: Outcome, one: Standing) -> str:
    """Name a contender, with its replications where these are fewer than those of others."""
    few = one.count < outcome.counts[one.setting.name]
    return f"{one.contender.title} ({one.count} replications)" if few else one.contender.title


def few_columns() -> list[str]:
    """Head a table of ratios for a terminal."""
    who, _, *rest = ratio_columns(FEW)
    return [who, "runs", *rest]


def few_lines(outcome: Outcome, setting: Setting) -> list[list[str]]:
    """Give the same for a terminal: ratios without their intervals, but for the first."""
    return [
        [
            one.contender.title,
            str(one.count),
            bounded(one.ratios[FEW[0]]),
            *(bounded(one.ratios[metric]).partition(" ")[0] for metric in FEW[1:]),
            one.reach,
        ]
        for one in _compared(outcome, setting)
    ]


def _knows(outcome: Outcome, contender: Contender) -> str:
    return outcome.plan.information(contender)


def _missed(one: Standing) -> Iterator[str]:
    for word in (Reach.NOT_REACHED, Reach.UNDECIDED):
        named = [each.wanted.metric for each in one.judged if each.reach is word]
        if len(named) == len(one.judged):
            yield f"{word}: everything"
        elif named:
            yield f"{word}: {_named(named)}"


def markdown(outcome: Outcome, pictures: Sequence[str]) -> str:
    """Write the whole report; ``pictures`` are the names of files beside it."""
    return "\n".join(_lines(outcome, pictures)).rstrip() + "\n"


def _lines(outcome: Outcome, pictures: Sequence[str]) -> Iterator[str]:
    yield "# Routing of our own beside the published policies"
    yield ""
    yield f"**{size(outcome)}**"
    yield ""
    reference = "[How it is run, and what the words mean](../reference/reproduce.md#beyond)"
    yield f"Made by `{command(outcome)}`, never edited by hand, on {where()}. {reference}."
    yield ""
    yield from (f"- {line}" for line in summary(outcome))
    yield ""
    yield from (f"- *{word}*: {meaning}." for word, meaning in MEANINGS.items())
    yield ""
    yield from _contenders(outcome)
    yield from _wanted(outcome)
    yield from _pictures(pictures)
    for setting in outcome.settings:
        yield from _setting(outcome, setting)
    yield from _interpretations(outcome)


def _contenders(outcome: Outcome) -> Iterator[str]:
    yield "## Who competes"
    yield ""
    lines = [
        [one.title, f"`{one.gateway['policy']}`", _knows(outcome, one), _with(one)]
        for one in outcome.plan.contenders
    ]
    yield from table(("contender", "policy", "knows", "besides"), lines)


def _with(contender: Contender) -> str:
    """Write down what a contender sets besides its routing policy."""
    rest = {key: value for key, value in contender.gateway.items() if key != "policy"}
    told = {**rest, **contender.defaults}
    return ", ".join(f"`{key} = {value}`" for key, value in told.items())


def _wanted(outcome: Outcome) -> Iterator[str]:
    yield "## What is wanted, and what was reached"
    yield ""
    usual = outcome.plan.title_of(outcome.plan.reference)
    bounds = ", ".join(f"{TITLES[one.metric]} {one.as_text}" for one in outcome.plan.wanted)
    at_most = outcome.plan.said["logs"]["wanted_at_most"]
    yield (
        f"As ratio to {usual}: {bounds}. On logs VMs preempted at most {at_most:g}; where local requests "
        "queue, their wait instead of their rejections. VMs preempted, as ratio, and whether all that is "
        "wanted was reached:"
    )
    yield ""
    for role, heading in ROLES.items():
        settings = [one for one in outcome.settings if one.role == role]
        if settings:
            yield f"### {heading}"
            yield ""
            columns = ["contender", "knows", *(setting.name for setting in settings)]
            yield from table(columns, _glance(outcome, settings), figures=range(2, len(columns)))


ROLES = {
    "main": "Where it is wanted",
    "control": "Under another reading",
    "variant": "With local queues, stale state, wrong run times",
    "past": "With tables learnt at another rate",
    "log": "On public logs",
}
"""The settings that stand in one table, by their role."""


def _glance(outcome: Outcome, settings: Sequence[Setting]) -> list[list[str]]:
    """Give one line for each contender but the reference that competes there."""
    return [
        [
            contender.title,
            _knows(outcome, contender),
            *(_reached(outcome, each, contender) for each in settings),
        ]
        for contender in outcome.plan.contenders
        if contender.name != outcome.plan.reference and any(contender.is_in(each) for each in settings)
    ]


def _reached(outcome: Outcome, setting: Setting, contender: Contender) -> str:
    one = _standing(outcome, setting, contender)
    return NOTHING if one is None else f"{bounded(one.ratios[VMS])}, {one.reach}"


def _standing(outcome: Outcome, setting: Setting, contender: Contender) -> Standing | None:
    return next((one for one in outcome.of(setting) if one.contender == contender), None)


def _pictures(pictures: Sequence[str]) -> Iterator[str]:
    for name in pictures:
        yield f"![{CAPTIONS[name.partition('.')[0]]}]({name})"
        yield ""


CAPTIONS = {
    f"{NAME}-pareto": "VMs preempted against average weighted response time, as ratios to RR, with intervals",
    f"{NAME}-ratios": "VMs preempted in every setting, as ratio to RR, with intervals",
}


def _setting(outcome: Outcome, setting: Setting) -> Iterator[str]:
    yield f"## {setting.name}"
    yield ""
    count = outcome.counts[setting.name]
    usual = outcome.plan.title_of(outcome.plan.reference)
    yield f"{setting.what[0].upper()}{setting.what[1:]}; {count} replications. Ratios to {usual}:"
    yield ""
    metrics = list(TITLES)
    columns = ratio_columns(metrics)
    yield from table(columns, ratio_lines(outcome, setting, metrics), figures=range(2, len(columns) - 1))
    yield "What is not surely reached:"
    yield ""
    lines = [[one.contender.title, "; ".join(_missed(one))] for one in _compared(outcome, setting)]
    yield from table(("contender", "what"), lines)
    yield "Means:"
    yield ""
    lines = [
        [one.contender.title, *(amount(one.means[metric]) for metric in metrics)]
        for one in outcome.of(setting)
    ]
    columns = ["contender", *TITLES.values()]
    yield from table(columns, lines, figures=range(1, len(columns)))


def _interpretations(outcome: Outcome) -> Iterator[str]:
    yield "## How it is read"
    yield ""
    lines = [[one.key, one.reading, one.why] for one in outcome.plan.interpretations]
    yield from table(("what", "reading", "why"), lines)


def which_policy(outcome: Outcome) -> str:
    """Write the table of the page that says which policy to use: what each level of knowledge buys."""
    main = [one for one in outcome.settings if one.role == "main"]
    metrics = ("vms_preempted", "np_rejection_pct", "awrt_pooled_s", "best_effort_wait_s", "guest_work_vm_h")
    columns = ["policy", "knows", "runs", *(f"{TITLES[m]}, {s.name}" for m in metrics for s in main)]
    lines = [
        [
            one.title,
            _knows(outcome, one),
            _runs(outcome, main, one),
            *(_short(outcome, s, one, m) for m in metrics for s in main),
        ]
        for one in outcome.plan.contenders
    ]
    usual = outcome.plan.title_of(outcome.plan.reference)
    how_long = f"Ratios to {usual}, over so many runs of {outcome.plan.hours} hours in each setting."
    caution = "" if outcome.is_whole else f" {size(outcome)}"
    head = f"{how_long}{caution} Made by `{command(outcome)}`.\n\n"
    return head + "\n".join(table(columns, lines, figures=range(2, len(columns))))


def _runs(outcome: Outcome, settings: Sequence[Setting], contender: Contender) -> str:
    standings = (_standing(outcome, setting, contender) for setting in settings)
    counts = sorted({one.count for one in standings if one is not None})
    return listed([str(count) for count in counts]) or NOTHING


def _short(outcome: Outcome, setting: Setting, contender: Contender, metric: str) -> str:
    one = _standing(outcome, setting, contender)
    return NOTHING if one is None or isnan(one.ratios[metric].mean) else f"{one.ratios[metric].mean:.2f}"
