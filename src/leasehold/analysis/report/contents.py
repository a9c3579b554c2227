"""What a report says in words and tables: of one run, and of what differs between two. Nothing is drawn here."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from leasehold.analysis.facts import GUESTS, PARTIES
from leasehold.analysis.measures import COALLOCATION_CATALOGUE, coallocation_totals, gpu_totals
from leasehold.analysis.metrics import (
    CATALOGUE,
    Number,
    by_agreement,
    by_cluster,
    by_cluster_and_party,
    by_origin,
    by_party,
    by_reason,
    compare,
    held_by_agreements,
    totals,
)
from leasehold.analysis.recorded import RecordedWaits, recorded_waits
from leasehold.analysis.run import Run, streamed
from leasehold.analysis.wording import NOTHING, count, duration, listed, number, percent, share, value
from leasehold.model.reason import Reason, sentence

Totals = dict[str, Number]
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A question that the owner of a cluster asks, and the answer."""

    question: str
    answer: str


def _n(totals: Totals, key: str) -> float:
    return totals[key] or 0


def _whole(totals: Totals, key: str) -> int:
    return int(totals[key] or 0)


def headline(run: Run, totals: Totals) -> str:
    """Answer the central question in one line: did the locals notice?"""
    if not run.height("baseline"):
        return "There were no guests."
    delayed = _whole(totals, "locals_delayed")
    if not delayed:
        return "No local job was delayed."
    started = sum(row["started"] for row in by_origin(run).to_dicts() if row["origin"] == "local")
    return f"{number(delayed)} of {count(started, 'local job')} started later because of guests."


def what_happened(run: Run, totals: Totals) -> list[Paragraph]:
    """Tell the run: the locals, the guests, the lent time, the preemptions, the refusals."""
    origins = {row["origin"]: row for row in by_origin(run).to_dicts()}
    paragraphs = []
    if run.height("log"):  # of accounting: what whoever brings it asks first
        if "external" in origins:
            answer = _would_lend(run, totals, origins)
            paragraphs.append(Paragraph("What would the cluster lend, and would anybody notice?", answer))
        if waits := recorded_waits(run):
            paragraphs.append(Paragraph("How close is the simulation to the accounting?", _recorded(waits)))
    paragraphs.append(Paragraph("Did the clusters' own users notice?", _locals(run, totals, origins.get("local"))))
    if "external" in origins:
        paragraphs += [
            Paragraph("What did the guests get?", _guests(origins["external"])),
            Paragraph("How much idle time was lent?", _lent(totals)),
            *([Paragraph("How many GPU-hours were lent?", _gpus(gpus))] if (gpus := gpu_totals(run)) else []),
            Paragraph("Which guests were preempted, and why?", _gave_way(run, totals)),
        ]
    if coallocations := coallocation_totals(run):
        paragraphs.append(Paragraph("Did co-allocations get their resources?", _together(coallocations)))
    if happened := _events(run, totals, origins):
        paragraphs.append(Paragraph("What failed, and what was cancelled?", happened))
    if held_by_agreements(run):
        paragraphs.append(Paragraph("Which guests did agreements limit?", _held_by_agreements(run)))
    if _n(totals, "refused"):
        paragraphs.append(Paragraph("Which requests were refused?", _refused(run, totals)))
    return paragraphs


def _would_lend(run: Run, totals: Totals, origins: Mapping[str, Totals]) -> str:
    """Say what is lent a day, in core-hours, and how many own jobs start later for it."""
    days = run.span_ms / DAY_MS
    lent, idle = _n(totals, "guest_vm_h"), _n(totals, "capacity_vm_h") - _n(totals, "local_vm_h")
    cores = count(int(run.sites["slots"].sum()), "core")
    wanted = streamed(
        run.scan("leases")
        .filter(pl.col("origin") == "external")
        .select((pl.col("vms") * pl.min_horizontal("requested_ms", "actual_ms")).sum() / HOUR_MS)
    ).item()
    delayed, jobs = _whole(totals, "locals_delayed"), _whole(origins.get("local", {}), "started")
    noticed = (
        f"{number(delayed)} of {count(jobs, 'own job')} would start later, by {duration(totals['local_delay_max_s'])} "
        f"at most and {duration(totals['local_delay_mean_s'])} on average over all."
        if delayed
        else f"Nobody: none of {count(jobs, 'own job')} would start later."
    )
    guests = count(_whole(origins["external"], "leases"), "guest")

    def daily(core_hours: float) -> str:
        return number(core_hours / days if days else None)

    return (
        f"{daily(lent)} core-hours a day of {cores}: {share(lent, idle)} of what its own users leave idle "
        f"({daily(idle)} a day). {guests} asked for {daily(wanted)} a day. {noticed}"
    )


def _recorded(waits: RecordedWaits) -> str:
    """Say how far the waits of the simulation are from those recorded."""
    error = "" if waits.error_pct is None else f" ({waits.error_pct:+.1f} %)"
    simulated, recorded = waits.simulated, waits.recorded
    return (
        f"Without guests, {count(waits.jobs, 'job')} wait {duration(simulated.mean_s)} on average{error} and "
        f"{duration(simulated.median_s)} in the median; in the accounting they waited {duration(recorded.mean_s)} and "
        f"{duration(recorded.median_s)}. For half of them the two differ by {duration(waits.median_off_s)} at most, "
        f"for 95 % by {duration(waits.p95_off_s)}. Priorities, limits and maintenance of the real cluster are not "
        "simulated."
    )


def _locals(run: Run, totals: Totals, row: Totals | None) -> str:
    if row is None:
        return "There were no local jobs in this run."
    started = count(_whole(row, "started"), "local job")
    waited = f"They waited {duration(row['wait_mean_s'])} on average, {duration(row['wait_max_s'])} at most."
    if not row["wait_max_s"]:
        waited = "None of them had to wait."
    if not run.height("baseline"):
        return f"No guests ran. {started} started. {waited}"
    return f"{_noticed(started, totals)} {waited}{_refused_locals(totals)}"


def _noticed(started: str, totals: Totals) -> str:
    delayed, earlier = _whole(totals, "locals_delayed"), _whole(totals, "locals_earlier")
    if not delayed and not earlier:
        return f"No. {started}, every one, started {_AS_WITHOUT}"
    largest, mean = duration(totals["local_delay_max_s"]), duration(totals["local_delay_mean_s"])
    return (
        f"{count(delayed, 'local job')} of {started} started later than without guests, by {largest} at most "
        f"and {mean} on average over all; {number(earlier)} started earlier. Non-preemptable guests cannot "
        "be preempted, so they may delay locals."
    )


_AS_WITHOUT = "at the very instant at which they would have started without any guest."


def _refused_locals(totals: Totals) -> str:
    refused = _whole(totals, "locals_refused")
    return f" {count(refused, 'local job')} were refused by their own cluster." if refused else ""


def _guests(row: Totals) -> str:
    total = _n(row, "leases")
    served = _n(row, "completed") + _n(row, "killed")
    ends = [
        (_whole(row, "refused"), "were refused"),
        (_whole(row, "terminated"), "were terminated for a local job"),
        (_whole(row, "failed"), "lost their deadline after a preemption"),
        (_whole(row, "machines_lost"), "lost their machines"),
        (_whole(row, "cancelled"), "were cancelled"),
        (_whole(row, "unfinished"), "were unfinished at the end"),
    ]
    others = listed([f"{number(how_many)} {how}" for how_many, how in ends if how_many])
    rest = f" {others[0].upper()}{others[1:]}." if others else ""
    got = f"{number(served)} of {number(total)} guest leases ({share(served, total)}) got all their time."
    return f"{got}{rest} Of those that started, {_waits(row)}."


def _waits(row: Totals) -> str:
    if not row["wait_p95_s"]:
        return "95 % did so at once"
    half = f"waited no longer than {duration(row['wait_median_s'])}" if row["wait_median_s"] else "did so at once"
    return f"half {half}, 95 % waited no longer than {duration(row['wait_p95_s'])}"


def _lent(totals: Totals) -> str:
    idle = _n(totals, "capacity_vm_h") - _n(totals, "local_vm_h")
    kept = share(idle, _n(totals, "capacity_vm_h"))
    return (
        f"Local jobs left {kept} of the VM-time idle: {number(idle)} VM-hours. Guests held "
        f"{number(totals['guest_vm_h'])} VM-hours of it ({percent(totals['idle_lent_pct'])}), which raised "
        f"occupancy to {percent(totals['occupancy_pct'])}."
    )


def _gpus(gpus: dict[str, dict[str, float]]) -> str:
    """Say of each model what was used of it, and by whom."""
    return " ".join(
        f"{model}: {number(one['gpus'])} of them; local jobs held {number(one['local_gpu_h'])} of "
        f"{number(one['capacity_gpu_h'])} GPU-hours, guests {number(one['guest_gpu_h'])} of the rest."
        for model, one in gpus.items()
    )


def _gave_way(run: Run, totals: Totals) -> str:
    times = _whole(totals, "preemptions")
    if not times:
        return "None: no lease was preempted."
    parties = by_party(run).filter(pl.col("party").is_in(list(GUESTS)) & (pl.col("preemptions") > 0))
    kinds = listed([f"{number(row['preemptions'])} {row['party'].capitalize()}" for row in parties.to_dicts()])
    rules = listed([f"“{name}”" for name in run.sites["victims"].unique(maintain_order=True)])
    lost = percent(100 - _n(totals, "guest_utilisation_pct"))
    vms, leases = _whole(totals, "vms_preempted"), _whole(totals, "leases_preempted")
    return (
        f"{count(times, 'time')} a guest lease gave its VMs to a local job ({kinds}), {count(vms, 'VM')} in "
        f"all; leases preempted at least once: {number(leases)}. Victims were chosen by the policy {rules}. "
        f"Saving, restoring and moving cost {number(totals['overhead_vm_h'])} VM-hours, {lost} of the "
        "guests' computation time."
    )


def _together(coallocations: Totals) -> str:
    total, started = _whole(coallocations, "coallocation_requests"), _whole(coallocations, "coallocations_started")
    refused, idle_vm_h = _whole(coallocations, "coallocations_refused"), coallocations["claimed_idle_vm_h"]
    waits = f", after {duration(coallocations['coallocation_wait_mean_s'])} on average" if started else ""
    late = f", 95 % within {duration(coallocations['coallocation_wait_p95_s'])}" if started > 1 else ""
    idle = f" Held idle for other components: {number(idle_vm_h, 1)} VM-hours" if idle_vm_h else ""
    part = f" ({percent(coallocations['claimed_idle_pct'])} of what co-allocations held)." if idle_vm_h else ""
    open_ = f"; {number(left)} had neither started nor been refused" if (left := total - started - refused) else ""
    counted = f"{number(started)} of {number(total)} started{waits}{late}"
    return f"{counted}; {number(refused)} {'was' if refused == 1 else 'were'} refused{open_}.{idle}{part}"


_EVENTS = {
    "node-failure": ("node failure",),
    "cancel": ("cancellation",),
    "extend": ("request for more time", "requests for more time"),
    "offer": ("offer of a lightly loaded node", "offers of lightly loaded nodes"),
    "checkpoint": ("checkpoint of a guest", "checkpoints of guests"),
    "agree": ("signed or changed agreement",),
    "revoke": ("revoked agreement",),
    "lift-penalty": ("lifted penalty", "lifted penalties"),
    "late-start": ("late start",),
    "failed-start": ("failed start",),
    "native-order": (
        "job that a cluster's own scheduler started first",
        "jobs that clusters' own schedulers started first",
    ),
    "forget": ("cluster given up for lost", "clusters given up for lost"),
    "job-completed": ("completed job with needs", "completed jobs with needs"),
    "job-failed": ("failed job with needs", "failed jobs with needs"),
    "job-refused": ("refused job with needs", "refused jobs with needs"),
    "drain": ("drain of a cluster", "drains of clusters"),
    "unreachable": ("loss of contact with a cluster", "losses of contact with clusters"),
}
"""Events that a scenario brings besides its jobs: how one is called, and several, where that takes more than an s."""


def _events(run: Run, totals: Totals, origins: Mapping[str, Totals]) -> str:
    """Tell what happened besides jobs, and which leases ended by it; empty for a run without any of it."""
    counts: Mapping[str, int] = run.manifest.get("events", {})
    events = listed([count(counts[kind], *names) for kind, names in _EVENTS.items() if counts.get(kind)])
    lost = _ended(totals, origins, "machines_lost", ("lost its machines", "lost their machines"))
    cancelled = _ended(totals, origins, "cancelled", ("was cancelled", "were cancelled"))
    return " ".join(filter(None, [f"{events}." if events else "", lost, cancelled]))


def _ended(totals: Totals, origins: Mapping[str, Totals], key: str, how: tuple[str, str]) -> str:
    if not _whole(totals, key):
        return ""
    parts = [
        count(_whole(origins[origin], key), noun)
        for origin, noun in (("local", "local job"), ("external", "guest"))
        if origin in origins and _whole(origins[origin], key)
    ]
    return f"{listed(parts)} {how[_whole(totals, key) > 1]}."


def _held_by_agreements(run: Run) -> str:
    rows = by_agreement(run).rows(named=True)
    reasons = [f"{number(row['leases'])} {_under(row)}: “{because(row['reason'])}”" for row in rows]
    more = f"; and {count(len(rows) - _REASONS_TOLD, 'reason')} more" if len(rows) > _REASONS_TOLD else ""
    return f"{count(held_by_agreements(run), 'guest')}. {'; '.join(reasons[:_REASONS_TOLD])}{more}."


_REASONS_TOLD = 6


def _under(row: dict[str, str | None]) -> str:
    if row["agreement"] is not None:
        return f"under “{row['agreement']}” ({row['account']} at {row['provider']})"
    return f"at {row['provider']}"


def _refused(run: Run, totals: Totals) -> str:
    refused = by_reason(run).filter(state="refused").group_by("reason", maintain_order=True)
    rows = refused.agg(pl.col("leases").sum()).sort("leases", descending=True).rows()
    total = count(_whole(totals, "refused"), "request")
    if len(rows) == 1:
        return f"{total}, always for the same reason: “{because(rows[0][0])}”."
    reasons = listed([f"{number(leases)} because “{because(reason)}”" for reason, leases in rows[:4]])
    return f"{total}: {reasons}."


def because(reason: str) -> str:
    """Render a reason for a table; one that this version does not know is kept unchanged."""
    return sentence(Reason(reason)) if reason in set(Reason) else reason


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


def headline_of_two(first: Run, second: Run) -> str:
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
    return [_metric_row(row) for row in compare(first, second).to_dicts()]


def _metric_row(row: dict[str, object]) -> MetricRow:
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


MOST_ROWS = 24
"""How many clusters a table lists; of more, those with most requests."""

_PARTY_COLUMNS = (
    "leases",
    "completed",
    "killed",
    "refused",
    "terminated",
    "failed",
    "wait_median_s",
    "wait_p95_s",
    "slowdown_mean",
    "preemptions",
    "vms_preempted",
)
_CLUSTER_COLUMNS = (
    "leases",
    "occupancy_pct",
    "idle_lent_pct",
    "utilisation_pct",
    "vms_preempted",
    "preemptions",
    "overhead_vm_h",
    "awrt_s",
    "locals_delayed",
    "locals_refused",
)


@dataclass(frozen=True, slots=True)
class ReportCell:
    """What a cell says, how strongly it is tinted (0 to 1), and the party whose colour it bears."""

    text: str
    tint: float = 0.0
    party: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A caption, the heads of its columns, and its rows; ``note`` says what was left out."""

    caption: str
    heads: list[str]
    rows: list[list[ReportCell]]
    note: str = ""


def party_table(run: Run) -> ReportTable:
    """Tabulate each party: how its leases ended, waited and were preempted."""
    rows = [
        [ReportCell(row["party"], party=row["party"]), *_cells(row, _PARTY_COLUMNS)] for row in by_party(run).to_dicts()
    ]
    return ReportTable("By lease type", ["", *_titles(_PARTY_COLUMNS)], rows)


def cluster_table(run: Run) -> ReportTable:
    """Tabulate each cluster: what it was used for, what it took back, what that cost."""
    table = by_cluster(run)
    slots = dict(run.sites.select("site", "slots").iter_rows())
    rows = [
        [ReportCell(row["site"]), ReportCell(number(slots[row["site"]])), *_cells(row, _CLUSTER_COLUMNS)]
        for row in _busiest(table).to_dicts()
    ]
    heads = ["cluster", "slots", *_titles(_CLUSTER_COLUMNS)]
    return ReportTable("By cluster", heads, rows, _left_out(table.height))


def coallocation_tables(run: Run) -> list[ReportTable]:
    """Tabulate how co-allocations fared; no table for a run without any."""
    numbers = coallocation_totals(run)
    if not numbers:
        return []
    row = [ReportCell(value(numbers[key], m.unit)) for key, m in COALLOCATION_CATALOGUE.items()]
    return [ReportTable("Co-allocations", [m.title for m in COALLOCATION_CATALOGUE.values()], [row])]


def waiting_matrix(run: Run) -> ReportTable:
    """Tabulate the mean wait of each party at each cluster, tinted by how long it is."""
    table = by_cluster_and_party(run)
    waits = {(row["site"], row["party"]): row["wait_mean_s"] for row in table.to_dicts()}
    longest = max((wait for wait in waits.values() if wait), default=1.0)
    sites = _busiest(by_cluster(run))["site"].to_list()
    rows = [[ReportCell(site), *(_tinted(waits.get((site, party)), longest) for party in PARTIES)] for site in sites]
    return ReportTable("Mean wait by cluster and type", ["cluster", *PARTIES], rows, _left_out(run.sites.height))


def ending_table(run: Run) -> ReportTable:
    """Tabulate how leases ended and why, most frequent first."""
    endings = by_reason(run)
    most = max(endings["leases"].to_list(), default=1)
    rows = [
        [
            ReportCell(row["party"], party=row["party"]),
            ReportCell(row["state"]),
            ReportCell(because(row["reason"])),
            ReportCell(number(row["leases"]), tint=row["leases"] / most),
            ReportCell(number(row["vms"])),
        ]
        for row in endings.to_dicts()
    ]
    return ReportTable("How leases ended, and why", ["", "state", "reason", "leases", "VMs asked"], rows)


def site_table(run: Run) -> ReportTable:
    """Tabulate the clusters as they were set up."""
    rows = [[ReportCell(_setting(cell)) for cell in row] for row in run.sites.head(MOST_ROWS).iter_rows()]
    heads = [name.replace("_", " ") for name in run.sites.columns]
    note = f"The first {MOST_ROWS} of {run.sites.height} clusters." if run.sites.height > MOST_ROWS else ""
    return ReportTable("The clusters", heads, rows, note)


def _setting(cell: object) -> str:
    return NOTHING if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def _titles(keys: tuple[str, ...]) -> list[str]:
    return [CATALOGUE[key].title for key in keys]


def _cells(row: dict[str, Number], keys: tuple[str, ...]) -> list[ReportCell]:
    return [ReportCell(value(row[key], CATALOGUE[key].unit)) for key in keys]


def _tinted(wait_s: float | None, longest_s: float) -> ReportCell:
    return ReportCell(duration(wait_s), tint=(wait_s or 0) / longest_s)


def _busiest(table: pl.DataFrame) -> pl.DataFrame:
    """Keep the clusters with most requests, in the run's own order."""
    ranked = table.with_row_index("place").sort("leases", descending=True, maintain_order=True)
    return ranked.head(MOST_ROWS).sort("place").drop("place")


def _left_out(clusters: int) -> str:
    return f"The {MOST_ROWS} clusters with most requests, of {clusters}." if clusters > MOST_ROWS else ""
