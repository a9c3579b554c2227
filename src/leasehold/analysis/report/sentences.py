"""What happened, in sentences a stranger understands; every number in them is a metric of the run."""

from dataclasses import dataclass

import polars as pl

from leasehold.analysis.facts import GUESTS
from leasehold.analysis.metrics import (
    Number,
    by_agreement,
    by_origin,
    by_party,
    by_reason,
    coallocation_totals,
    held_by_agreements,
)
from leasehold.analysis.run import Run
from leasehold.analysis.wording import count, duration, listed, number, percent, share
from leasehold.model.reason import Reason, sentence

Totals = dict[str, Number]


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
    """Answer in one line the question that everything stands on: did the locals notice?"""
    if run.baseline.is_empty():
        return "No guests were here."
    delayed = _whole(totals, "locals_delayed")
    if not delayed:
        return "No local job was delayed."
    started = run.leases.filter((pl.col("origin") == "local") & pl.col("first_start_ms").is_not_null()).height
    return f"{number(delayed)} of {count(started, 'local job')} started later because of guests."


def what_happened(run: Run, totals: Totals) -> list[Paragraph]:
    """Tell the run: the locals, the guests, the lent time, the preemptions, the refusals."""
    origins = {row["origin"]: row for row in by_origin(run).to_dicts()}
    paragraphs = [Paragraph("Did the clusters' own users notice?", _locals(run, totals, origins.get("local")))]
    if "external" in origins:
        paragraphs += [
            Paragraph("What did the guests get?", _guests(origins["external"])),
            Paragraph("How much idle time was lent?", _lent(totals)),
            Paragraph("Who had to give way, and why?", _gave_way(run, totals)),
        ]
    if coallocations := coallocation_totals(run):
        paragraphs.append(Paragraph("Did co-allocations get their room?", _together(coallocations)))
    if held_by_agreements(run):
        paragraphs.append(Paragraph("Whom did agreements hold back?", _held_by_agreements(run)))
    if _n(totals, "refused"):
        paragraphs.append(Paragraph("Who was refused?", _refused(run, totals)))
    return paragraphs


def _locals(run: Run, totals: Totals, row: Totals | None) -> str:
    if row is None:
        return "There were no local jobs in this run."
    started = count(_whole(row, "started"), "local job")
    waited = f"They waited {duration(row['wait_mean_s'])} on average, {duration(row['wait_max_s'])} at most."
    if not row["wait_max_s"]:
        waited = "None of them had to wait."
    if run.baseline.is_empty():
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
        "be made to give way, so they may delay locals."
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


def _gave_way(run: Run, totals: Totals) -> str:
    times = _whole(totals, "preemptions")
    if not times:
        return "Nobody: no lease was preempted."
    parties = by_party(run).filter(pl.col("party").is_in(list(GUESTS)) & (pl.col("preemptions") > 0))
    kinds = listed([f"{number(row['preemptions'])} {row['party'].capitalize()}" for row in parties.to_dicts()])
    rules = listed([f"“{name}”" for name in run.sites["victims"].unique(maintain_order=True)])
    lost = percent(100 - _n(totals, "guest_utilisation_pct"))
    vms, leases = _whole(totals, "vms_preempted"), _whole(totals, "leases_preempted")
    return (
        f"{count(times, 'time')} a guest lease gave its VMs to a local job ({kinds}), {count(vms, 'VM')} in "
        f"all; {count(leases, 'lease')} met it at least once. Victims were chosen by the policy {rules}. "
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
    """Render a reason as it stands in a table; one that this Leasehold does not know stands as it is."""
    return sentence(Reason(reason)) if reason in set(Reason) else reason
