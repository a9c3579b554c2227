"""The report: the same content as Markdown and, table by table, for the terminal."""

from collections.abc import Iterator, Sequence

from leasehold.experiments.hybrid.claims import MEANINGS, gap, was_planned
from leasehold.experiments.hybrid.curves import Curve, figure_6, figure_7
from leasehold.experiments.hybrid.outcome import Outcome
from leasehold.experiments.hybrid.settings import Configuration, said
from leasehold.experiments.markdown import table
from leasehold.experiments.statistics import interval
from leasehold.experiments.status import counted, in_words
from leasehold.experiments.writing import amount, signed

CLAIM_COLUMNS = ("claim", "status", "what decided")
ABLATION_COLUMNS = ("load", "way", "refused (%)", "machines", "images built", "wait (s)", "done in time (%)")
QUEUE_COLUMNS = (
    "tried for (s)",
    "load",
    "queue",
    "wait (s)",
    "longest (s)",
    "refused (%)",
    "done in time (%)",
)
SURE_COLUMNS = ("a node fails with", "asked", "by formula", "done in time", "difference", "copies")
TITLES = {
    6: "Figure 6: how sure three units are, by how likely one fails",
    7: "Figure 7: how sure a group is, by how many nodes it has",
    8: "Figure 8: formula and implementation",
}


def claim_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each claim."""
    return [[one.text, str(one.status), one.why] for one in outcome.verdicts]


def curve_columns(curves: Sequence[Curve], axis: str) -> tuple[str, ...]:
    """Name the columns of a figure."""
    return axis, *(curve.name for curve in curves)


def curve_lines(curves: Sequence[Curve]) -> list[list[str]]:
    """Give one line for each point of the axis; a curve that has no such point has none in its line."""
    at = sorted({x for curve in curves for x, _ in curve.points})
    values = [dict(curve.points) for curve in curves]
    return [[f"{x:g}", *(f"{one[x]:.3f}" if x in one else "-" for one in values)] for x in at]


def ablation_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each way and load."""
    shown = ("refused_pct", "machines", "builds", "wait_s", "in_time_pct")
    return [[f"{one.load:g}", one.way, *_amounts(outcome, one, shown)] for one in outcome.plan.of("ablation")]


def queue_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each queue, load and patience."""
    shown = ("wait_s", "longest_wait_s", "refused_pct", "in_time_pct")
    return [
        [f"{one.retry_for_s:,}", f"{one.load:g}", one.queue, *_amounts(outcome, one, shown)]
        for one in outcome.plan.of("queues")
    ]


def sure_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each point of Figure 8."""
    return [
        [
            f"{one.q:g}",
            f"{one.asked:g}",
            *_amounts(outcome, one, ("sure_by_plan", "done_in_time")),
            signed(gap(one, outcome.results)) if was_planned(one, outcome.results) else "out of reach",
            f"{interval(outcome.results[one.name]['attempts']).mean / one.count:.2f}",
        ]
        for one in outcome.plan.of("reliability")
    ]


def _amounts(outcome: Outcome, one: Configuration, metrics: Sequence[str]) -> list[str]:
    return [amount(interval(outcome.results[one.name][metric])) for metric in metrics]


def command(outcome: Outcome) -> str:
    """Give the command that makes this report."""
    quick = " --quick" if outcome.plan.is_quick else ""
    return f"leasehold reproduce hybrid{quick} --seeds {outcome.seeds}"


def summary(outcome: Outcome) -> str:
    """Say in one sentence how the claims came out."""
    found = in_words(counted(verdict.status for verdict in outcome.verdicts))
    return f"Of {len(outcome.verdicts)} claims: {found}."


def needless(outcome: Outcome) -> str:
    """Say whether machines were made that nobody needed."""
    hybrid = [one for one in outcome.plan.of("ablation") if one.way == "hybrid"]
    number = sum(sum(outcome.results[one.name]["needless_machines"]) for one in hybrid)
    made = sum(sum(outcome.results[one.name]["machines"]) for one in hybrid)
    return (
        f"Of {made:,.0f} machines that the hybrid way made, {number:,.0f} were for jobs for which there were "
        "nodes enough with all that is needed."
    )


def reasons() -> list[tuple[str, str]]:
    """Give why things come out as they do: about what, and the paragraph."""
    return [(entry["about"], entry["text"]) for entry in said()["why"]]


def markdown(outcome: Outcome) -> str:
    """Write the whole report."""
    return "\n".join(_lines(outcome)).rstrip() + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    yield from ("# Physical or virtual: the published evaluation, run again", "")
    yield f"Made by `{command(outcome)}`, never edited by hand."
    yield "[How it is run, and what the words mean](../reference/reproduce.md)."
    yield ""
    yield f"Source: {said()['published']['source']}, section 5. {outcome.seeds} seeds, the same for all ways."
    yield from ("", f"**{summary(outcome)}**", "")
    yield from (f"- A claim is *{status}* when {meaning}." for status, meaning in MEANINGS.items())
    yield ""
    yield from table(CLAIM_COLUMNS, claim_lines(outcome))
    yield from _figures(outcome)
    yield from ("## Physical only, virtual only, hybrid", "", needless(outcome), "")
    yield from table(ABLATION_COLUMNS, ablation_lines(outcome), figures=range(2, 7))
    yield from ("## Queues", "")
    yield from table(QUEUE_COLUMNS, queue_lines(outcome), figures=(0, 1, 3, 4, 5, 6))
    yield from _how_it_is_read(outcome)


def _figures(outcome: Outcome) -> Iterator[str]:
    for number, curves, axis in ((6, figure_6(), "q of a node"), (7, figure_7(), "nodes")):
        columns = curve_columns(curves, axis)
        yield from (f"## {TITLES[number]}", "", f"![{TITLES[number]}](hybrid-fig{number}.svg)", "")
        yield from table(columns, curve_lines(curves), figures=range(len(columns)))
    yield from (f"## {TITLES[8]}", "", f"![{TITLES[8]}](hybrid-fig8.svg)", "")
    yield from table(SURE_COLUMNS, sure_lines(outcome), figures=range(6))


def _how_it_is_read(outcome: Outcome) -> Iterator[str]:
    yield from ("## Why it comes out so", "")
    for about, text in reasons():
        yield from (f"**{about}** {text}", "")
    yield from ("## How the paper is read", "")
    for one in outcome.plan.interpretations:
        yield f"- **{one.key}**: {one.reading}. Why: {one.why}."
    yield from (
        "",
        "Everything that is drawn, and how, stands in `src/leasehold/experiments/hybrid/hybrid.toml`.",
    )
