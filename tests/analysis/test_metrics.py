"""The metrics of the run worked out by hand, worked out by hand; and of random runs, recounted plainly."""

import statistics
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from tests.analysis.builders import Tables

from leasehold.analysis.metrics import (
    CATALOGUE,
    by_cluster,
    by_cluster_and_party,
    by_origin,
    by_party,
    by_reason,
    reconcile,
    totals,
)
from leasehold.analysis.run import Run

HOUR_MS = 3_600_000
CAPACITY_VM_MS = 8 * 315_000

BY_HAND: dict[str, float | None] = {
    "leases": 9,
    "started": 8,
    "completed": 6,
    "killed": 1,
    "terminated": 1,
    "failed": 0,
    "machines_lost": 0,
    "cancelled": 0,
    "refused": 1,
    "locals_refused": 0,
    "unfinished": 0,
    "migration_rate_pct": 100,
    "migratable_unserved_pct": 0,
    "non_preemptable_rejection_pct": 100,
    # only local job 9 waits, 20 s of the 8 leases that start
    "wait_mean_s": 2.5,
    "wait_median_s": 0,
    "wait_max_s": 20,
    # leases 1, 3, 4, 5, 6, 8, 9 got all their time
    "response_mean_s": (145 + 50 + 30 + 315 + 30 + 10 + 25) / 7,
    # of 100, 50, 30, 200, 30, 10 and 5 s alone, the last counted as 10 s
    "slowdown_mean": (1.45 + 1 + 1 + 1.575 + 1 + 1 + 2.5) / 7,
    # equation 23 over lease 1 alone: Cancelable 2 was terminated
    "awrt_s": 145,
    "awrt_by_size_s": 145,
    "local_delay_mean_s": 0,
    "local_delay_max_s": 0,
    "locals_delayed": 0,
    "locals_earlier": 0,
    "vms_preempted": 4 + 2 + 2,
    "preemptions": 3,
    "leases_preempted": 3,
    "held_vm_h": 1_290_000 / HOUR_MS,
    "local_vm_h": (100_000 + 60_000 + 30_000 + 20_000 + 20_000) / HOUR_MS,
    "guest_vm_h": (220_000 + 80_000 + 760_000) / HOUR_MS,
    # less lease 1's resume, lease 5's move and all of the terminated lease 2
    "useful_vm_h": (1_290_000 - 20_000 - 40_000 - 80_000) / HOUR_MS,
    "overhead_vm_h": 120_000 / HOUR_MS,
    "computation_vm_h": 1_430_000 / HOUR_MS,
    "guest_computation_vm_h": (200_000 + 200_000 + 800_000) / HOUR_MS,
    "utilisation_pct": 100 * (1 - 120 / 1_430),
    "guest_utilisation_pct": 90,
    "capacity_vm_h": CAPACITY_VM_MS / HOUR_MS,
    "occupancy_pct": 100 * 1_290_000 / CAPACITY_VM_MS,
    "useful_occupancy_pct": 100 * 1_150_000 / CAPACITY_VM_MS,
    "idle_lent_pct": 100 * 1_060_000 / (CAPACITY_VM_MS - 230_000),
}


@pytest.mark.parametrize("key", BY_HAND)
def test_a_total_is_what_it_is_by_hand(small: Run, key: str) -> None:
    assert totals(small)[key] == pytest.approx(BY_HAND[key])


def test_every_measure_but_one_quantile_is_worked_out_by_hand() -> None:
    assert set(CATALOGUE) - set(BY_HAND) == {"wait_p95_s"}


def test_a_preemption_counts_where_it_happened_and_a_lease_where_it_was_last(small: Run) -> None:
    rows = {row["site"]: row for row in by_cluster(small).to_dicts()}
    assert (rows["a"]["vms_preempted"], rows["b"]["vms_preempted"]) == (4, 4)
    assert (rows["a"]["leases"], rows["b"]["leases"]) == (6, 2)
    # lease 5 was charged for its preemption at b, though it ended at a
    assert rows["b"]["overhead_vm_h"] == pytest.approx(80_000 / HOUR_MS)


def test_parties_stand_in_order_of_value_with_locals_first(small: Run) -> None:
    assert by_party(small)["party"].to_list() == [
        "local",
        "cancelable",
        "suspendable",
        "migratable",
        "non-preemptable",
    ]


def test_reasons_count_every_lease(small: Run) -> None:
    counted = {(row["party"], row["reason"]): row["leases"] for row in by_reason(small).to_dicts()}
    assert counted["local", "completed"] == 4
    assert counted["non-preemptable", "no-room-at-ready-time"] == 1
    assert sum(counted.values()) == 9


@pytest.mark.parametrize("split", [by_cluster, by_party, by_origin, by_cluster_and_party])
def test_the_parts_add_up_to_the_whole(toy: Run, split: Callable[[Run], pl.DataFrame]) -> None:
    parts, whole = split(toy), totals(toy)
    for key in ("leases", "refused", "vms_preempted", "held_vm_h", "overhead_vm_h", "computation_vm_h"):
        assert parts[key].sum() == pytest.approx(whole[key]), key


def test_waits_are_those_of_the_leases_that_started(toy: Run) -> None:
    rows = toy.leases.to_dicts()
    waits = [(row["first_start_ms"] - row["ready_ms"]) / 1_000 for row in rows if row["first_start_ms"]]
    numbers = totals(toy)
    assert numbers["wait_mean_s"] == pytest.approx(statistics.fmean(waits))
    assert numbers["wait_max_s"] == max(waits)


def test_awrt_weighted_by_size_is_equation_24_over_the_clusters(toy: Run) -> None:
    served = [row for row in toy.leases.to_dicts() if row["state"] in {"completed", "killed"}]
    best_effort = [row for row in served if row["lease_type"] in {"cancelable", "suspendable"}]
    slots = dict(toy.sites.select("site", "slots").iter_rows())
    by_site = {site: _awrt_s([row for row in best_effort if row["site"] == site]) for site in slots}
    expected = sum(slots[site] * by_site[site] for site in slots) / sum(slots.values())
    assert totals(toy)["awrt_by_size_s"] == pytest.approx(expected)
    assert totals(toy)["awrt_s"] == pytest.approx(_awrt_s(best_effort))


def _awrt_s(leases: list[dict[str, Any]]) -> float:
    work = [lease["vms"] * min(lease["actual_ms"], lease["requested_ms"]) for lease in leases]
    response = [(lease["end_ms"] - lease["ready_ms"]) / 1_000 for lease in leases]
    return float(sum(w * r for w, r in zip(work, response, strict=True)) / sum(work))


def test_a_delay_is_told_by_mean_maximum_and_number(corrupted: Callable[..., Run]) -> None:
    def delay_two(tables: Tables) -> None:
        tables.of("baseline", 9)["start_ms"] = 75_000
        tables.of("baseline", 8)["start_ms"] = 61_000

    numbers = totals(corrupted(delay_two))
    assert numbers["local_delay_mean_s"] == pytest.approx((15 - 1) / 5)
    assert (numbers["local_delay_max_s"], numbers["locals_delayed"], numbers["locals_earlier"]) == (15, 1, 1)


def test_a_run_without_requests_has_no_numbers(tmp_path: Any) -> None:
    tables = Tables()
    tables.site("a")
    numbers = totals(tables.run(tmp_path))
    assert set(numbers) == set(CATALOGUE)
    assert not any(numbers.values())


def test_tables_that_agree_have_no_disagreement(small: Run, toy: Run) -> None:
    assert reconcile(small) == []
    assert reconcile(toy) == []


def test_a_forgotten_decision_is_a_disagreement(corrupted: Callable[..., Run]) -> None:
    run = corrupted(lambda tables: tables.decisions.remove(tables.of("decisions", 5, 1)))
    assert reconcile(run) == [
        "lease preemptions: 3 by segments that ended so, 2 by decisions",
        "VMs preempted: 8 by segments that ended so, 4 by decisions",
    ]


def test_a_lost_job_is_a_disagreement(corrupted: Callable[..., Run]) -> None:
    def lose_one(tables: Tables) -> None:
        tables.manifest["jobs"] = tables.counted()
        tables.leases.remove(tables.of("leases", 7))

    assert reconcile(corrupted(lose_one)) == [
        "external requests: 4 by the manifest, 3 by leases",
        "leases refused: 1 by the manifest, 0 by leases",
    ]
