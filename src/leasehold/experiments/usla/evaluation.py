"""The published evaluation of usage agreements: its campaign and its report."""

from collections.abc import Iterator, Sequence
from functools import partial

from leasehold.experiments.claims import Status, Verdict, counted, in_words
from leasehold.experiments.evaluation import Campaign, Evaluation, Report, Size
from leasehold.experiments.kept import Results, marks
from leasehold.experiments.report import (
    NOTHING,
    Block,
    Table,
    Title,
    bullets,
    probability,
    reasons,
)
from leasehold.experiments.usla import world
from leasehold.experiments.usla.outcome import (
    CLAIM_IS,
    NUMBER_IS,
    SOURCE,
    AgreementsOutcome,
    ControlResult,
    PrintedNumber,
    TableClaim,
    as_data,
    outcome_of,
)
from leasehold.experiments.usla.plan import METRIC_TITLES, METRICS, TABLES, UNITS, Plan, plan

SEEDS, QUICK_SEEDS = 100, 10

_MAKES_RESULTS = (
    "model",
    "sharing",
    "leasing",
    "routing",
    "gateway",
    "simulation/kernel.py",
    "experiments/usla/world.py",
)


def campaign(_: Sequence[str], size: Size) -> Campaign:
    """Run every table."""
    count = size.count(SEEDS, QUICK_SEEDS)
    configurations = plan().configurations
    return Campaign(
        runs=dict.fromkeys(configurations, range(1, count + 1)),
        marks=marks(_MAKES_RESULTS, {name: one.as_data() for name, one in configurations.items()}),
        measure=world.measure,
        report=partial(report, count),
    )


EVALUATIONS = {"usla": Evaluation(campaign)}


def report(seeds: int, results: Results) -> Report:
    """Report on these results."""
    outcome = outcome_of(plan(), results, seeds)
    return Report("usla", as_data(outcome), partial(page, outcome), partial(screen, outcome))


def screen(outcome: AgreementsOutcome) -> Iterator[Block]:
    """Give every table, the claims and the controls."""
    for table in outcome.plan.tables:
        yield Title(f"Table {table.number}: {table.title}")
        yield number_table(outcome.of_table(table.number))
    yield Title("Claims")
    yield claim_table(outcome)
    yield Title("Readings that were not taken")
    for one in outcome.controls:
        yield f"{one.name}: {one.question} {_nearer(one)}"
    yield Title(summary(outcome))
    yield metric_table(outcome)
    yield Title("Why they differ")
    yield from (f"{entry['about']} {entry['text']}" for entry in outcome.plan.stated["why"])
    yield Title(f"{outcome.seeds} seeds; calibrated, not published: {_calibrated(outcome.plan)}.")


def page(outcome: AgreementsOutcome) -> Iterator[str | Table]:
    """Give the whole report."""
    yield "# Usage agreements: the published evaluation, run again"
    made_by = f"leasehold reproduce usla --seeds {outcome.seeds}"
    reference = "[How it is run, and what the words mean](../reference/reproduce.md)"
    yield f"Made by `{made_by}`, never edited by hand. {reference}."
    yield f"Source: {SOURCE}, section 4. {outcome.seeds} seeds, the same for all configurations."
    yield f"**{summary(outcome)}**"
    calibrated = _calibrated(outcome.plan)
    yield f"Calibrated, and the same in all tables: {calibrated}; and the lengths of windows."
    yield bullets(f"A number is *{status}* when {meaning}." for status, meaning in NUMBER_IS.items())
    yield bullets(f"A claim is *{status}* when {meaning}." for status, meaning in CLAIM_IS.items())
    yield metric_table(outcome)
    yield "## Why they differ"
    yield from reasons(outcome.plan.stated["why"])
    yield "## Claims"
    yield "The difference of each ordering that does not hold surely stands behind it, with its interval."
    yield claim_table(outcome)
    for each in outcome.plan.tables:
        yield f"## Table {each.number}: {each.title}"
        yield number_table(outcome.of_table(each.number))
    yield "## Readings that were not taken"
    for one in outcome.controls:
        yield f"### `{one.name}`"
        yield f"{one.question} {_nearer(one)}"
        yield _control_table(one)
    yield "## How it is read"
    yield "What the publication leaves open, how it is read here, and why."
    yield outcome.plan.readings_table("what", "reading", "why")
    yield "The agreements, with what is published of them and what is calibrated:"
    lines = [
        [name, ", ".join(f"{key} {_plain(value)}" for key, value in terms.items())]
        for name, terms in outcome.plan.stated["agreement"].items()
    ]
    yield Table(("agreement", "terms"), lines)


def number_table(numbers: Sequence[PrintedNumber]) -> Table:
    """Give one line for each number of a table."""
    lines = [
        [
            number.row,
            _titled(number.metric),
            _printed(number.published),
            f"{number.ours.mean:.2f}",
            f"{number.ours.low:.2f} to {number.ours.high:.2f}",
            f"{number.status}: {number.why}" if number.why else str(number.status),
        ]
        for number in numbers
    ]
    return Table(("uSLA", "metric", "printed", "ours", "95 % interval", "status"), lines, {2, 3, 4})


def _printed(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _titled(metric: str) -> str:
    return f"{METRIC_TITLES[metric]} ({UNITS[metric]})"


def claim_table(outcome: AgreementsOutcome) -> Table:
    """Give one line for each claim."""
    lines = [[one.claim.text, str(one.claim.table), str(one.status), _remark(one)] for one in outcome.verdicts]
    return Table(("claim", "table", "status", "remark"), lines, {1})


def _remark(verdict: Verdict[TableClaim]) -> str:
    """Name the orderings that do not hold, or not surely, and those that are not printed so."""
    remarks = [
        f"{order.as_text}: {ours.mean:+.2f} ({ours.low:+.2f} to {ours.high:+.2f}, p {probability(one.p)})"
        for order, one in zip(verdict.claim.orders, verdict.tested, strict=True)
        for ours in [one.difference]
        if not one.is_sure
    ]
    remarks += [f"{order.as_text} is not what is printed" for order in verdict.claim.unprinted]
    return "; ".join(remarks)


def metric_table(outcome: AgreementsOutcome) -> Table:
    """Give one line for each metric: how many numbers of it came out how."""
    lines = [
        [METRIC_TITLES[metric], *(str(count) for count in counted(statuses).values())]
        for metric in METRICS
        for statuses in [[number.status for number in outcome.numbers if number.metric == metric]]
    ]
    return Table(("metric", *Status), lines, {1, 2, 3, 4})


def _control_table(result: ControlResult) -> Table:
    """Give one line for each row and metric of a control."""
    lines = [
        [
            f"Table {row.table}, {row.row}",
            _titled(metric),
            _printed(TABLES[row.table][row.row][metric]),
            f"{row.taken[metric].mean:.2f}",
            f"{row.control[metric].mean:.2f}",
        ]
        for row in result.rows
        for metric in METRICS
    ]
    return Table(("row", "metric", "printed", "as taken", "as the control"), lines, {2, 3, 4})


def _nearer(result: ControlResult) -> str:
    nearer = "the control" if result.is_nearer else "the reading that was taken"
    return (
        f"Nearer to print is {nearer}: off by {100 * result.off:.0f} % as taken, "
        f"{100 * result.off_control:.0f} % as the control (root mean square over these numbers)."
    )


def summary(outcome: AgreementsOutcome) -> str:
    """Count in one sentence how the numbers, and how the claims came out."""
    numbers = in_words(number.status for number in outcome.numbers)
    claims = in_words(verdict.status for verdict in outcome.verdicts)
    return f"Of {len(outcome.numbers)} numbers: {numbers}. Of {len(outcome.verdicts)} claims: {claims}."


def _calibrated(plan: Plan) -> str:
    """List what the publication does not state and every run needs."""
    return ", ".join(f"{key} {value}" for key, value in plan.stated["calibrated"].items())


def _plain(value: object) -> str:
    """Write a value as the file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
