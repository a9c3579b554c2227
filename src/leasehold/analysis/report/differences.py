"""Two runs in words: what changed for locals, for guests, for preemption and for cost."""

from dataclasses import dataclass

from leasehold.analysis.compare import compare
from leasehold.analysis.metrics import CATALOGUE, Number, by_origin, totals
from leasehold.analysis.report.sentences import Paragraph, Totals
from leasehold.analysis.run import Run
from leasehold.analysis.wording import NOTHING, number, value

_QUESTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "For the clusters' own users",
        "local",
        ("locals_delayed", "local_delay_max_s", "wait_mean_s", "refused"),
    ),
    ("For the guests", "external", ("completed", "refused", "wait_mean_s", "wait_p95_s", "awrt_s")),
    ("Preemption", "", ("vms_preempted", "preemptions", "overhead_vm_h", "utilisation_pct")),
    ("Use of the machines", "", ("idle_lent_pct", "occupancy_pct", "useful_occupancy_pct")),
)
"""What is asked, whose leases answer it (all without an origin), and the measures that do."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of two runs as words, and whether the second is better."""

    title: str
    meaning: str
    first: str
    second: str
    difference: str
    ratio: str
    verdict: str


def headline(first: Run, second: Run) -> str:
    """Say in one line what the second run changed about preemption."""
    before, after = totals(first)["vms_preempted"] or 0, totals(second)["vms_preempted"] or 0
    if before == after:
        return f"Both runs preempted {number(before)} VMs."
    change = "fewer" if after < before else "more"
    amount = number(abs(after - before))
    part = f" ({100 * abs(after - before) / before:.0f} %)" if before else ""
    return f"{second.name} preempted {amount} VMs {change}{part} than {first.name}."


def what_differs(first: Run, second: Run) -> list[Paragraph]:
    """Put the metrics that matter to each side into one paragraph for each."""
    return [
        Paragraph(question, " ".join(_changes(keys, _of(first, origin), _of(second, origin))))
        for question, origin, keys in _QUESTIONS
    ]


def _of(run: Run, origin: str) -> Totals:
    """Return the measures of one origin's leases, or of all; none where there are no such leases."""
    if not origin:
        return totals(run)
    return next((row for row in by_origin(run).to_dicts() if row["origin"] == origin), {})


def _changes(keys: tuple[str, ...], ours: Totals, theirs: Totals) -> list[str]:
    if not ours or not theirs:
        return ["Only one of the runs has any." if ours or theirs else "There were none."]
    return [_change(key, ours, theirs) for key in keys]


def _change(key: str, ours: Totals, theirs: Totals) -> str:
    title, unit = CATALOGUE[key].title, CATALOGUE[key].unit
    before, after = value(ours[key], unit), value(theirs[key], unit)
    name = title[0].upper() + title[1:]
    if before == after:
        return f"{name}: {before} in both."
    return f"{name}: {before} against {after}{_by_how_much(unit, ours[key], theirs[key])}."


def _by_how_much(unit: str, before: Number, after: Number) -> str:
    """Say the change: of a percentage in points, of anything else in percent."""
    if before is None or after is None:
        return ""
    if unit == "%":
        return f" ({after - before:+.1f} points)"
    return f" ({100 * (after / before - 1):+.0f} %)" if before else ""


def metric_rows(first: Run, second: Run) -> list[MetricRow]:
    """Return every metric of both runs as words."""
    return [_row(row) for row in compare(first, second).to_dicts()]


def _row(row: dict[str, object]) -> MetricRow:
    measure = CATALOGUE[str(row["metric"])]
    amounts = {name: _number(row[name]) for name in ("first", "second", "difference", "ratio")}
    sign = "+" if (amounts["difference"] or 0) > 0 else ""
    return MetricRow(
        title=measure.title,
        meaning=measure.meaning,
        first=value(amounts["first"], measure.unit),
        second=value(amounts["second"], measure.unit),
        difference=sign + value(amounts["difference"], measure.unit),
        ratio=NOTHING if amounts["ratio"] is None else f"{amounts['ratio']:.2f}",
        verdict=str(row["verdict"]),
    )


def _number(cell: object) -> float | None:
    return cell if isinstance(cell, float) else None
