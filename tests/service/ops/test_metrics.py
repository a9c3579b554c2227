"""What monitoring sees of a gateway, and that it cannot grow without bound."""

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leasehold.jobs.job import JobReason
from leasehold.model.event import Operation
from leasehold.model.reason import Outcome, Reason
from leasehold.service.drivers.protocol import Verb
from leasehold.service.metrics import Difference, EstimateGauges, GaugeSnapshot, Metrics

Labels = dict[str, str]

SNAPSHOT = GaugeSnapshot(
    leases={("das3", "running"): 3, ("das3", "suspended"): 1, ("", "held"): 2},
    vms={("das3", "local"): 40, ("das3", "guest"): 20, ("das3", "free"): 4},
    orders={("das3", "pending"): 2},
    up={"das3": True, "das4": False},
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Read one value as Prometheus would; None where there is no such series."""
    text = metrics.render()[0].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = [sample.value for sample in samples if sample.name == name and sample.labels == labels]
    return found[0] if found else None


class TestEstimates:
    def test_how_they_did_is_counted_by_outcome_and_nothing_is_said_before_there_are_any(
        self, metrics: Metrics
    ) -> None:
        metrics.show(GaugeSnapshot)
        assert value(metrics, "leasehold_predictions_total", what="start", outcome="covered") == 0
        assert value(metrics, "leasehold_estimates_age_seconds") is None
        assert value(metrics, "leasehold_prediction_width_factor", what="start") is None
        scored = {("start", "covered"): 9, ("start", "late"): 1}
        metrics.show(lambda: GaugeSnapshot(estimates=EstimateGauges(4, 2.5, scored, {"start": 3.0})))
        assert value(metrics, "leasehold_predictions_total", what="start", outcome="covered") == 9
        assert value(metrics, "leasehold_predictions_total", what="start", outcome="late") == 1
        assert value(metrics, "leasehold_estimated_leases") == 4
        assert value(metrics, "leasehold_estimates_age_seconds") == 2.5
        assert value(metrics, "leasehold_prediction_width_factor", what="start") == 3.0


class TestCounting:
    @pytest.mark.parametrize(
        ("count", "outcome"),
        [(Metrics.accepted, "accepted"), (Metrics.repeated, "repeated"), (Metrics.rejected, "rejected")],
    )
    def test_requests(self, metrics: Metrics, count: Callable[[Metrics], None], outcome: str) -> None:
        count(metrics)
        assert value(metrics, "leasehold_requests_total", outcome=outcome) == 1

    def test_a_decision_is_counted_by_what_and_why(self, metrics: Metrics) -> None:
        metrics.decided(Outcome.REFUSE, Reason.WIDER_THAN_SITE, "das3")
        labels = {"outcome": "refuse", "reason": "wider-than-site"}
        assert value(metrics, "leasehold_decisions_total", **labels) == 1
        assert value(metrics, "leasehold_preemptions_total", site="das3", reason="wider-than-site") is None

    def test_a_decision_about_a_job_is_counted_by_why_and_where(self, metrics: Metrics) -> None:
        metrics.decided_about_job(JobReason.NODE_DIED, "das3")
        metrics.decided_about_job(JobReason.NEVER_HERE, "")
        assert value(metrics, "leasehold_job_decisions_total", site="das3", reason="node-died") == 1
        assert value(metrics, "leasehold_job_decisions_total", site="gateway", reason="never-here") == 1

    def test_what_an_agreement_decides_is_counted_by_what_and_why(self, metrics: Metrics) -> None:
        metrics.held_to_agreement(Outcome.HOLD, Reason.SHARE_EXHAUSTED)
        labels = {"outcome": "hold", "reason": "share-exhausted"}
        assert value(metrics, "leasehold_agreement_decisions_total", **labels) == 1

    def test_a_preemption_is_counted_at_its_site_too(self, metrics: Metrics) -> None:
        metrics.decided(Outcome.PREEMPT, Reason.LOCAL_NEEDS_ROOM, "das3")
        assert value(metrics, "leasehold_preemptions_total", site="das3", reason="local-needs-room") == 1

    def test_a_batch_is_measured(self, metrics: Metrics) -> None:
        metrics.batch(7, 0.002, 0.03)
        assert value(metrics, "leasehold_batch_commands_sum") == 7
        assert value(metrics, "leasehold_decision_duration_seconds_sum") == pytest.approx(0.002)
        assert value(metrics, "leasehold_commit_duration_seconds_sum") == pytest.approx(0.03)

    @pytest.mark.parametrize(("ok", "result"), [(True, "kept"), (False, "broken")])
    def test_a_check_of_the_promises(self, metrics: Metrics, result: str, *, ok: bool) -> None:
        metrics.invariants(ok)
        assert value(metrics, "leasehold_invariant_checks_total", result=result) == 1

    def test_what_machines_did_otherwise(self, metrics: Metrics) -> None:
        metrics.order_failed("das3", Verb.START)
        metrics.difference("das3", Difference.LOST)
        assert value(metrics, "leasehold_order_failures_total", site="das3", verb="start") == 1
        assert value(metrics, "leasehold_reconcile_differences_total", site="das3", kind="lost") == 1

    def test_how_long_machines_took(self, metrics: Metrics) -> None:
        metrics.took("das3", Operation.RESUME, 12.5)
        labels = {"site": "das3", "operation": "resume"}
        assert value(metrics, "leasehold_operation_duration_seconds_sum", **labels) == pytest.approx(12.5)

    def test_streams_count_while_they_are_open(self, metrics: Metrics) -> None:
        with metrics.streaming(), metrics.streaming():
            assert value(metrics, "leasehold_open_streams") == 2
        assert value(metrics, "leasehold_open_streams") == 0


class TestBounds:
    def test_addresses_that_nobody_serves_are_one_route(self, metrics: Metrics) -> None:
        for _ in range(2):
            metrics.answered("", "BREW", 404, 0.1)
        labels = {"route": "other", "method": "other", "status": "404"}
        assert value(metrics, "leasehold_http_request_duration_seconds_count", **labels) == 2

    def test_two_gateways_in_one_process_do_not_meet(self, metrics: Metrics) -> None:
        Metrics().accepted()
        assert value(metrics, "leasehold_requests_total", outcome="accepted") == 0


class TestStanding:
    def test_is_asked_for_at_each_look(self, metrics: Metrics) -> None:
        metrics.show(lambda: SNAPSHOT)
        assert value(metrics, "leasehold_leases", site="das3", state="running") == 3
        metrics.show(GaugeSnapshot)
        assert value(metrics, "leasehold_leases", site="das3", state="running") is None

    def test_what_is_at_no_site_is_at_the_gateway(self, metrics: Metrics) -> None:
        metrics.show(lambda: SNAPSHOT)
        assert value(metrics, "leasehold_leases", site="gateway", state="held") == 2

    def test_nought_is_told_too(self, metrics: Metrics) -> None:
        metrics.show(lambda: SNAPSHOT)
        assert value(metrics, "leasehold_leases", site="das4", state="running") == 0
        assert value(metrics, "leasehold_vms", site="das4", use="guest") == 0
        assert value(metrics, "leasehold_orders", site="das3", status="taken") == 0

    def test_a_site_is_up_or_not(self, metrics: Metrics) -> None:
        metrics.show(lambda: SNAPSHOT)
        assert value(metrics, "leasehold_site_up", site="das3") == 1
        assert value(metrics, "leasehold_site_up", site="das4") == 0

    def test_open_jobs_by_state(self, metrics: Metrics) -> None:
        metrics.show(lambda: GaugeSnapshot(jobs={"waiting": 3}))
        assert value(metrics, "leasehold_jobs", state="waiting") == 3
        assert value(metrics, "leasehold_jobs", state="building") == 0
        assert value(metrics, "leasehold_jobs", state="completed") is None

    def test_agreements_and_penalties(self, metrics: Metrics) -> None:
        metrics.show(lambda: GaugeSnapshot(agreements=3, penalties=1))
        assert value(metrics, "leasehold_agreements_in_force") == 3
        assert value(metrics, "leasehold_penalties_active") == 1

    def test_what_is_planned_beside_what_is_configured(self, metrics: Metrics) -> None:
        metrics.show(lambda: GaugeSnapshot(factors={("das3", "suspend"): 0.25}))
        assert value(metrics, "leasehold_overhead_factor", site="das3", operation="suspend") == 0.25


def test_nothing_tells_when_it_was_made(metrics: Metrics) -> None:
    metrics.accepted()
    metrics.answered("/v1/leases", "POST", 201, 0.1)
    assert b"_created" not in metrics.render()[0]


def test_the_process_is_measured(metrics: Metrics) -> None:
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 0
