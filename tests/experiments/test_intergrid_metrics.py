"""The metrics of section 5.1: by hand, and against what `leasehold.analysis` reads from a run folder."""

from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from leasehold.analysis.measures import MEASURES, measure
from leasehold.analysis.metrics import totals
from leasehold.analysis.run import load
from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.metrics import METRICS, LeaseObserver
from leasehold.experiments.intergrid.plan import FederationRun, plan
from leasehold.experiments.intergrid.world import scenario
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.effect import (
    Decision,
    Effect,
    LeaseClosed,
    MigrateLease,
    ResumeLease,
    StartLease,
    StopLease,
    SuspendLease,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.simulation.run import run_scenario
from leasehold.simulation.workload.job import job_of

S = 1_000
HOUR = 3_600 * S
REFERENCE_MIPS = 600
SUSPENDABLE, CANCELABLE = LeaseType.SUSPENDABLE, LeaseType.CANCELABLE
MIGRATABLE, NON_PREEMPTABLE = LeaseType.MIGRATABLE, LeaseType.NON_PREEMPTABLE


class Tale:
    """Two clusters, 4 slots of 600 MIPS and 12 of 1200, in which a test says what happens."""

    def __init__(self) -> None:
        settings = [
            SiteSettings(name, slots, victim_policy("moml"), speed_mips=mips)
            for name, slots, mips in (("slow", 4, 600), ("fast", 12, 1200))
        ]
        self.watch = LeaseObserver(settings, REFERENCE_MIPS, HOUR)
        self._count = 0

    def request(self, kind: LeaseType, vms: int, duration_ms: int, ready_ms: int = 0, home: str | None = None) -> Lease:
        """A request comes, and has a lease."""
        self._count += 1
        request = Request(self._count, kind, vms, duration_ms, ready_ms, ready_ms, site=home)
        self.watch.submitted(request, job_of(request))
        return Lease(self._count, request, vms, 0, 0, site=home or "")

    def tell(self, effect: Effect, now_ms: int) -> None:
        self.watch.handlers[type(effect)](effect, now_ms)

    def start(self, lease: Lease, site: str, now_ms: int) -> None:
        lease.site, lease.first_start_ms = site, now_ms
        self.tell(StartLease(lease), now_ms)

    def preempt(self, lease: Lease, now_ms: int) -> None:
        lease.preemptions += 1
        why = Reason.LOCAL_NEEDS_ROOM
        self.tell(Decision(lease, lease.site, Outcome.PREEMPT, why, "moml"), now_ms)

    def close(self, lease: Lease, state: LeaseState, now_ms: int) -> None:
        lease.state = state
        self.tell(LeaseClosed(lease, Reason.COMPLETED), now_ms)

    def read(self) -> Mapping[str, float]:
        return self.watch.read()


@pytest.fixture
def tale() -> Tale:
    return Tale()


def test_vms_preempted_are_counted_each_time_by_type(tale: Tale) -> None:
    """A Suspendable lease of 3 VMs twice, a Cancelable one of 2: 8 VMs of 2 leases."""
    twice, once = tale.request(SUSPENDABLE, 3, 100 * S), tale.request(CANCELABLE, 2, 100 * S)
    for lease in (twice, once):
        tale.start(lease, "slow", 0)
    for lease, now_ms in ((twice, 10 * S), (twice, 20 * S), (once, 30 * S)):
        tale.preempt(lease, now_ms)
    tale.close(twice, LeaseState.COMPLETED, 500 * S)
    tale.close(once, LeaseState.TERMINATED, 30 * S)
    found = tale.read()
    assert found["vms_preempted"] == 8
    assert (found["vms_preempted_suspendable"], found["vms_preempted_cancelable"]) == (6, 2)
    assert found["vms_preempted_migratable"] == 0
    assert (found["preemptions"], found["leases_preempted"]) == (3, 2)


def test_utilisation_is_what_overhead_leaves_of_computation(tale: Tale) -> None:
    """Eqs 21, 22: 2 VMs x 400 s at the fast site and 1 x 200 s are 1,000; overhead 286: 71.4 %."""
    guest, local = (
        tale.request(SUSPENDABLE, 2, 800 * S),
        tale.request(NON_PREEMPTABLE, 1, 200 * S, home="slow"),
    )
    guest.overhead_vm_ms = 286 * S
    tale.start(guest, "fast", 0)
    tale.start(local, "slow", 0)
    tale.close(local, LeaseState.COMPLETED, 200 * S)
    tale.close(guest, LeaseState.COMPLETED, 686 * S)
    found = tale.read()
    assert found["utilisation_pct"] == pytest.approx(71.4)
    assert found["guest_utilisation_pct"] == pytest.approx(100 * (1 - 286 / 800))


def test_utilisation_can_be_negative_and_who_never_started_computes_nothing(tale: Tale) -> None:
    guest = tale.request(SUSPENDABLE, 1, 100 * S)
    guest.overhead_vm_ms = 286 * S
    tale.start(guest, "slow", 0)
    tale.close(guest, LeaseState.COMPLETED, 386 * S)
    tale.close(tale.request(NON_PREEMPTABLE, 4, 1_000 * S), LeaseState.REFUSED, 0)
    assert tale.read()["utilisation_pct"] == pytest.approx(100 * (1 - 2.86))


def test_awrt_by_equations_23_and_24(tale: Tale) -> None:
    """Slow: (1 x 100 x 100 + 2 x 300 x 500) / 700 = 442.86 s; fast: 1 x 100 x 60 / 100 = 60 s.

    Eq 24: (4 x 442.86 + 12 x 60) / 16 = 155.71 s; all together (310,000 + 6,000) / 800 = 395 s.
    """
    told = [
        (CANCELABLE, 1, 100, 100, "slow"),
        (SUSPENDABLE, 2, 300, 500, "slow"),
        (CANCELABLE, 1, 100, 60, "fast"),
    ]
    for kind, vms, duration_s, response_s, site in told:
        lease = tale.request(kind, vms, duration_s * S, ready_ms=50 * S)
        tale.start(lease, site, 50 * S)
        tale.close(lease, LeaseState.COMPLETED, (50 + response_s) * S)
    found = tale.read()
    assert found["awrt_s"] == pytest.approx((4 * 310_000 / 700 + 12 * 60) / 16)
    assert found["awrt_pooled_s"] == pytest.approx(395)
    assert found["response_s"] == pytest.approx((100 + 500 + 60) / 3)
    assert found["guest_work_vm_h"] == pytest.approx(800 / 3_600)


def test_awrt_is_that_of_best_effort_leases_which_were_served(tale: Tale) -> None:
    """Those with deadlines, and those that were ended, have no part in it; nor has a cluster without any."""
    for kind, state in (
        (CANCELABLE, LeaseState.COMPLETED),
        (CANCELABLE, LeaseState.TERMINATED),
        (MIGRATABLE, LeaseState.COMPLETED),
    ):
        lease = tale.request(kind, 1, 100 * S)
        tale.start(lease, "slow", 0)
        tale.close(lease, state, 100 * S if kind is CANCELABLE else 900 * S)
    found = tale.read()
    assert found["awrt_s"] == found["awrt_pooled_s"] == 100


def test_rates_are_of_the_leases_of_that_type(tale: Tale) -> None:
    """Of two Migratable one moved, one lost; one of four Non-preemptable, one of two locals rejected."""
    moved, lost = (tale.request(MIGRATABLE, 1, 100 * S) for _ in range(2))
    moved.migrations = 2
    tale.close(moved, LeaseState.COMPLETED, 500 * S)
    tale.close(lost, LeaseState.FAILED, 100 * S)
    for index in range(4):
        state = LeaseState.COMPLETED if index else LeaseState.REFUSED
        tale.close(tale.request(NON_PREEMPTABLE, 1, 100 * S), state, 100 * S)
    for state in (LeaseState.COMPLETED, LeaseState.REFUSED):
        tale.close(tale.request(NON_PREEMPTABLE, 1, 100 * S, home="slow"), state, 100 * S)
    found = tale.read()
    assert (found["migration_pct"], found["migratable_unserved_pct"]) == (50, 50)
    assert (found["np_rejection_pct"], found["local_rejection_pct"]) == (25, 50)


def test_occupancy_is_what_is_held_while_requests_come(tale: Tale) -> None:
    """3 VMs for 600 + 900 s, then elsewhere for the rest of the hour, and beyond: 3 x 2,700 of 16 x 3,600."""
    lease = tale.request(MIGRATABLE, 3, 5_000 * S)
    tale.start(lease, "slow", 0)
    tale.tell(SuspendLease(lease, 160 * S), 600 * S)
    tale.tell(ResumeLease(lease, 126 * S), 1_500 * S)
    lease.site = "fast"
    tale.tell(MigrateLease(lease, "slow", 372 * S), 2_400 * S)
    tale.close(lease, LeaseState.COMPLETED, 9_000 * S)
    assert tale.read()["occupancy_pct"] == pytest.approx(100 * 3 * 2_700 / (16 * 3_600))


def test_what_preemption_loses_is_what_was_held_in_vain(tale: Tale) -> None:
    """2 VMs for 30 s of a Cancelable lease, and what moving the other cost; else nothing."""
    ended, moved = tale.request(CANCELABLE, 2, 100 * S), tale.request(MIGRATABLE, 1, 100 * S)
    tale.start(ended, "slow", 10 * S)
    tale.tell(StopLease(ended), 40 * S)
    tale.close(ended, LeaseState.TERMINATED, 40 * S)
    moved.migrations, moved.overhead_vm_ms = 2, 745 * S
    tale.start(moved, "slow", 0)
    tale.close(moved, LeaseState.COMPLETED, 845 * S)
    found = tale.read()
    assert found["lost_vm_h"] == pytest.approx(2 * 30 / 3_600)
    assert found["overhead_vm_h"] == pytest.approx(745 / 3_600)
    assert found["migrations"] == 2


def test_waits_are_those_of_who_started(tale: Tale) -> None:
    for kind, start_s in ((CANCELABLE, 10), (SUSPENDABLE, 30), (NON_PREEMPTABLE, 500)):
        lease = tale.request(kind, 1, 100 * S)
        tale.start(lease, "fast", start_s * S)
        tale.close(lease, LeaseState.COMPLETED, 900 * S)
    local = tale.request(NON_PREEMPTABLE, 1, 100 * S, home="slow")
    tale.start(local, "slow", 7 * S)
    tale.close(local, LeaseState.COMPLETED, 107 * S)
    tale.close(tale.request(CANCELABLE, 1, 100 * S), LeaseState.REFUSED, 900 * S)
    found = tale.read()
    assert (found["best_effort_wait_s"], found["local_wait_s"]) == (20, 7)
    assert (found["guest_rejection_pct"], found["local_served_pct"]) == (25, 100)


def test_a_deadline_is_missed_by_who_was_taken_in(tale: Tale) -> None:
    """One is refused, one fails, one ends late, one in time: of four a quarter, and two quarters."""
    ends = [(LeaseState.REFUSED, 0), (LeaseState.FAILED, 100), (LeaseState.COMPLETED, 301)]
    for state, end_s in [*ends, (LeaseState.COMPLETED, 300)]:
        lease = tale.request(MIGRATABLE, 1, 100 * S)
        lease.request.deadline_ms = 300 * S
        if end_s:
            tale.start(lease, "slow", 0)
        tale.close(lease, state, end_s * S)
    found = tale.read()
    assert (found["migratable_rejection_pct"], found["deadline_missed_pct"]) == (25, 50)


def test_of_nobody_there_is_no_mean(tale: Tale) -> None:
    found = tale.read()
    assert list(found) == list(METRICS)
    assert all(isnan(found[name]) for name in ("awrt_s", "migration_pct", "utilisation_pct", "response_s"))
    assert found["vms_preempted"] == 0


SAME_MEASURES = {
    "vms_preempted": "vms_preempted",
    "preemptions": "preemptions",
    "leases_preempted": "leases_preempted",
    "utilisation_pct": "utilisation_pct",
    "guest_utilisation_pct": "guest_utilisation_pct",
    "awrt_s": "awrt_by_size_s",
    "awrt_pooled_s": "awrt_s",
    "migration_pct": "migration_rate_pct",
    "np_rejection_pct": "non_preemptable_rejection_pct",
    "migratable_unserved_pct": "migratable_unserved_pct",
}
"""Ours, and how `leasehold.analysis.metrics` calls it."""


def short(reading: str, policy: str) -> FederationRun:
    """The point where the sweeps meet, for two hours."""
    return replace(plan("003").configurations[f"003-{reading}-base-{policy}-48h"], hours=2)


@pytest.mark.evaluation
@pytest.mark.parametrize(("reading", "policy"), [("r2", "rr"), ("r0", "pap-rtdp"), ("r1", "pap-rnd")])
def test_the_run_folder_of_the_same_scenario_has_the_same_numbers(reading: str, policy: str, tmp_path: Path) -> None:
    configuration = short(reading, policy)
    found = world.run(configuration, 1)
    run = load(run_scenario(scenario(configuration, 1), tmp_path / "run", check=True, baseline=False).path)
    expected = totals(run)
    assert found["vms_preempted"] > 0
    for ours, theirs in SAME_MEASURES.items():
        assert found[ours] == pytest.approx(expected[theirs]), ours
    parties = {row["party"]: row for row in measure(run, MEASURES, ["party"]).to_dicts()}
    for kind in ("cancelable", "suspendable", "migratable"):
        assert found[f"vms_preempted_{kind}"] == parties[kind]["vms_preempted"]
    locals_ = parties["local"]
    assert found["local_rejection_pct"] == pytest.approx(100 * locals_["locals_refused"] / locals_["leases"])


def test_a_run_is_the_same_each_time_and_another_replication_another_run() -> None:
    configuration = short("r2", "pap-rtdp")
    assert world.run(configuration, 4) == world.run(configuration, 4)
    assert world.run(configuration, 4) != world.run(configuration, 5)


def test_where_pap_sends_all_to_one_cluster_its_dispatch_policies_are_one() -> None:
    assert world.run(short("r0", "pap-rtdp"), 2) == world.run(short("r0", "pap-rnd"), 2)
