"""The report: the same content as Markdown and, table by table, for the terminal."""

from collections.abc import Iterator, Sequence

from leasehold.experiments.markdown import table
from leasehold.experiments.status import Status, counted, in_words
from leasehold.experiments.usla import claims, compare
from leasehold.experiments.usla.claims import Tested, Verdict
from leasehold.experiments.usla.compare import Cell
from leasehold.experiments.usla.controls import ControlResult
from leasehold.experiments.usla.outcome import SOURCE, Outcome
from leasehold.experiments.usla.published import METRICS, TABLES, TITLES, UNITS
from leasehold.experiments.usla.settings import Plan
from leasehold.experiments.writing import bounds, mean, printed, probability

CELL_COLUMNS = ("uSLA", "metric", "printed", "ours", "95 % interval", "status")
CLAIM_COLUMNS = ("claim", "table", "status", "remark")
CONTROL_COLUMNS = ("reading", "row", "metric", "printed", "as taken", "as the control")
METRIC_COLUMNS = ("metric", *Status)


def cell_lines(cells: Sequence[Cell]) -> list[list[str]]:
    """Give the lines of one table, one for each number of it."""
    return [
        [
            cell.row,
            f"{TITLES[cell.metric]} ({UNITS[cell.metric]})",
            printed(cell.published),
            mean(cell.ours),
            bounds(cell.ours),
            f"{cell.status}: {cell.why}" if cell.why else str(cell.status),
        ]
        for cell in cells
    ]


def claim_lines(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Give one line for each claim."""
    return [
        [verdict.claim.text, str(verdict.claim.table), str(verdict.status), _remark(verdict)]
        for verdict in verdicts
    ]


def _remark(verdict: Verdict) -> str:
    """Say which orderings do not hold, or not surely, and which are not even printed so."""
    remarks = [f"{_in_words(one)}: {_found(one)}" for one in verdict.tested if not _is_sure(one)]
    remarks += [f"{order.as_text} is not what is printed" for order in verdict.unprinted]
    return "; ".join(remarks)


def _is_sure(one: Tested) -> bool:
    return one.holds and one.is_significant


def _in_words(one: Tested) -> str:
    return one.order.as_text


def _found(one: Tested) -> str:
    """Write by how much the first has more: with its sign, so that one sees on which side it came out."""
    found = one.found.difference
    return f"{found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f}, p {probability(one.p)})"


def control_lines(result: ControlResult) -> list[list[str]]:
    """Give one line for each row and metric of a control."""
    return [
        [
            result.control.name,
            f"Table {row.table}, {row.row}",
            f"{TITLES[metric]} ({UNITS[metric]})",
            printed(TABLES[row.table][row.row][metric]),
            mean(row.taken[metric]),
            mean(row.other[metric]),
        ]
        for row in result.rows
        for metric in METRICS
    ]


def control_verdict(result: ControlResult) -> str:
    """Say which reading is nearer to print."""
    nearer = "the control" if result.other_is_nearer else "the reading that was taken"
    return (
        f"Nearer to print is {nearer}: off by {100 * result.taken_off:.0f} % as taken, "
        f"{100 * result.other_off:.0f} % as the control (root mean square over these numbers)."
    )


def summary(outcome: Outcome) -> str:
    """Say in one sentence how the numbers, and how the claims came out."""
    numbers = in_words(counted(cell.status for cell in outcome.cells))
    said = in_words(counted(verdict.status for verdict in outcome.verdicts))
    return f"Of {len(outcome.cells)} numbers: {numbers}. Of {len(outcome.verdicts)} claims: {said}."


def calibrated(plan: Plan) -> str:
    """List what the publication does not state and every run needs."""
    return ", ".join(f"{key} {value}" for key, value in plan.said["calibrated"].items())


def reasons(plan: Plan) -> list[tuple[str, str]]:
    """Give why ours differ: about what, and the paragraph."""
    return [(entry["about"], entry["text"]) for entry in plan.said["why"]]


def markdown(outcome: Outcome) -> str:
    """Write the whole report."""
    return "\n".join(_lines(outcome)).rstrip() + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    yield "# Usage agreements: the published evaluation, run again"
    yield ""
    made_by = f"leasehold reproduce usla --seeds {outcome.seeds}"
    reference = "[How it is run, and what the words mean](../reference/reproduce.md)"
    yield f"Made by `{made_by}`, never edited by hand. {reference}."
    yield ""
    yield f"Source: {SOURCE}, section 4. {outcome.seeds} seeds, the same for all configurations."
    yield ""
    yield f"**{summary(outcome)}**"
    yield ""
    yield f"Calibrated, and the same in all tables: {calibrated(outcome.plan)}; and the lengths of windows."
    yield ""
    yield from _meanings("A number is", compare.MEANINGS)
    yield from _meanings("A claim is", claims.MEANINGS)
    yield from _by_metric(outcome)
    yield from _why(outcome)
    yield from _claims(outcome)
    for each in outcome.plan.tables:
        yield f"## Table {each.number}: {each.title}"
        yield ""
        yield from table(CELL_COLUMNS, cell_lines(outcome.of_table(each.number)), figures={2, 3, 4})
    yield from _controls(outcome)
    yield from _readings(outcome.plan)


def _meanings(begin: str, meanings: dict[Status, str]) -> Iterator[str]:
    yield from (f"- {begin} *{status}* when {meaning}." for status, meaning in meanings.items())
    yield ""


def metric_lines(outcome: Outcome) -> list[list[str]]:
    """Give one line for each metric: how many numbers of it came out how."""
    return [
        [TITLES[metric], *(str(count) for count in counted(statuses).values())]
        for metric in METRICS
        for statuses in [[cell.status for cell in outcome.cells if cell.metric == metric]]
    ]


def _by_metric(outcome: Outcome) -> Iterator[str]:
    yield from table(METRIC_COLUMNS, metric_lines(outcome), figures={1, 2, 3, 4})


def _why(outcome: Outcome) -> Iterator[str]:
    yield "## Why they differ"
    yield ""
    for about, text in reasons(outcome.plan):
        yield f"**{about}** {text}"
        yield ""


def _claims(outcome: Outcome) -> Iterator[str]:
    yield "## Claims"
    yield ""
    yield "The difference of each ordering that does not hold surely stands behind it, with its interval."
    yield ""
    yield from table(CLAIM_COLUMNS, claim_lines(outcome.verdicts), figures={1})


def _controls(outcome: Outcome) -> Iterator[str]:
    yield "## Readings that were not taken"
    yield ""
    for result in outcome.controls:
        yield f"### `{result.control.name}`"
        yield ""
        yield f"{result.control.question} {control_verdict(result)}"
        yield ""
        yield from table(CONTROL_COLUMNS[1:], [line[1:] for line in control_lines(result)], figures={2, 3, 4})


def _readings(plan: Plan) -> Iterator[str]:
    yield "## How it is read"
    yield ""
    yield "What the publication leaves open, how it is read here, and why."
    yield ""
    lines = [[one.key, one.reading, one.why] for one in plan.interpretations]
    yield from table(("what", "reading", "why"), lines, figures=set())
    yield "The agreements, with what is published of them and what is calibrated:"
    yield ""
    yield from table(("agreement", "terms"), agreement_lines(plan), figures=set())


def agreement_lines(plan: Plan) -> list[list[str]]:
    """Give one line for each agreement of the tables."""
    return [
        [name, ", ".join(f"{key} {_plain(value)}" for key, value in terms.items())]
        for name, terms in plan.said["agreement"].items()
    ]


def _plain(value: object) -> str:
    """Write a value as the file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
