"""Jobs in the engine: each attempt a lease on its nodes, its output kept before it counts, nothing twice."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.service.engine.examples import local
from tests.service.engine.job_worlds import NUMPY, SETTINGS, S, Shop, facts, job, nodes, open_shop

from leasehold.jobs.job import Backup
from leasehold.matching.choice import Physical
from leasehold.matching.needs import InputFile
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType
from leasehold.service.commands import (
    Cancel,
    CancelJob,
    Drain,
    JobNodesSeen,
    JobOutput,
    JobSiteSilent,
    OrdersSent,
    Undrain,
)
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Phase, PlacementConstraints, Problem
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.tasks import Fetch
from leasehold.service.errors import IdempotencyConflict, NoSuchJob, TooManyOpen
from leasehold.service.job_plans import plan_job
from leasehold.service.store.retention import Cutoffs
from leasehold.service.store.store import Store
from leasehold.testing.live import BEGIN_MS
from leasehold.testing.rows import submit

BOTH_WAYS = pytest.mark.parametrize("restarts", [False, True], ids=["at one go", "with restarts"])


@pytest.fixture
def shop(sqlite_store: Store) -> Shop:
    """Sites a and b, with a node each."""
    return open_shop(sqlite_store)


class TestOneJob:
    @BOTH_WAYS
    def test_runs_on_a_node_that_has_what_it_needs_and_its_result_is_kept(
        self,
        shop: Shop,
        restarts: bool,  # noqa: FBT001 - a parameter of the test
    ) -> None:
        steps: list[Callable[[], object]] = [
            lambda: shop.do(job("python3-numpy >= 1.24")),
            shop.runs,
            shop.ends,
            shop.fetched,
        ]
        stands = []
        for step in steps:
            step()
            stands.append(shop.job().record.state)
            if restarts:
                shop.restart()
        assert stands == ["starting", "running", "running", "completed"]
        assert shop.state() == ("completed", "completed")
        assert (shop.job().record.delivered, shop.job().exit_status) == (1, 0)
        output = shop.store.output(1, 1)
        assert output is not None
        assert (output.text, output.is_whole) == ("42\n", 1)
        assert shop.story() == ["runs-on-nodes", "completed"]

    def test_is_counted_for_monitoring(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs()
        shop.ends()
        shop.fetched()
        read = shop.metrics.registry.get_sample_value
        for reason in ("runs-on-nodes", "completed"):
            assert read("leasehold_job_decisions_total", {"site": "a", "reason": reason}) == 1

    def test_has_a_lease_bound_to_the_site_that_asks_for_the_node(self, shop: Shop) -> None:
        shop.do(job(cores=2, name="wave"))
        lease = shop.lease(1)
        assert (lease.lease.site, lease.lease.request.domain, lease.metadata.job_id, lease.metadata.name) == (
            "a",
            "a",
            1,
            "wave",
        )
        assert (lease.lease.vms, lease.lease.request.memory_mib, lease.lease.request.duration_ms) == (
            1,
            1024,
            120 * S,
        )
        [order] = shop.orders["a"]
        assert order.constraints == PlacementConstraints(("n1",), "", 2)
        assert order.command == ("simulate", "--all")

    def test_of_several_nodes_is_one_lease_over_all(self, shop: Shop) -> None:
        shop.do(nodes(facts("n1"), facts("n2"), facts("n3")))
        shop.do(job(count=3))
        assert shop.lease(1).lease.vms == 3
        assert shop.orders["a"][0].constraints.nodes == ("n1", "n2", "n3")
        assert shop.attempts()[0].attempt.nodes == ("a/n1", "a/n2", "a/n3")

    def test_is_over_only_when_its_output_is_here(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs()
        shop.ends()
        assert shop.errands.fetches == [Fetch(1, "a")]
        assert (shop.lease(1).lease.state, shop.job().record.state) == ("completed", "running")
        shop.restart()
        shop.pass_time(0)
        assert shop.errands.fetches == [Fetch(1, "a")]
        shop.fetched()
        shop.restart()
        shop.pass_time(0)
        assert (shop.errands.fetches, shop.job().record.state) == ([], "completed")

    def test_whose_output_cannot_be_fetched_is_over_without_and_says_so(self, shop: Shop) -> None:
        shop.do(job())
        shop.ends()
        shop.fetched(text="", problem="the site does not answer")
        assert shop.state() == ("completed", "completed")
        output = shop.store.output(1, 1)
        assert output is not None
        assert (output.text, output.is_whole) == ("", 0)
        assert shop.attempts()[0].attempt.detail == "its output could not be fetched: the site does not answer"

    def test_a_second_output_changes_nothing(self, shop: Shop) -> None:
        shop.do(job())
        shop.ends()
        shop.do(JobOutput(1, Output("first")), JobOutput(1, Output("second")))
        shop.fetched(text="third")
        output = shop.store.output(1, 1)
        assert output is not None
        assert output.text == "first"

    def test_keeps_the_end_of_what_is_too_long(self, sqlite_store: Store) -> None:
        shop = open_shop(sqlite_store, setup=JobSetup(SETTINGS, output_kib=1))
        shop.do(job())
        shop.ends()
        shop.fetched(text="x" * 2000 + "\0the end")
        output = shop.store.output(1, 1)
        assert output is not None
        assert len(output.text.encode()) == 1024
        assert output.text.endswith("\N{REPLACEMENT CHARACTER}the end")
        assert output.is_whole == 0

    @pytest.mark.parametrize("restarts", [False, True])
    def test_beyond_the_quota_of_its_consumer_the_oldest_outputs_go(
        self, sqlite_store: Store, *, restarts: bool
    ) -> None:
        shop = open_shop(sqlite_store, setup=JobSetup(SETTINGS, outputs_mib=1))

        def wrote(job_id: int, text: str, **said: Any) -> None:
            shop.do(job(**said))
            (lease_id,) = (row.lease_id for row in shop.attempts(job_id))
            assert lease_id is not None
            shop.ends(lease_id)
            shop.fetched(lease_id, text)
            if restarts:
                shop.restart()

        wrote(1, "x" * 400_000)
        wrote(2, "x" * (1 << 20), consumer="cms")
        wrote(3, "x" * 400_000)
        assert [job_id for job_id in (1, 2, 3) if shop.store.output(job_id, 1)] == [1, 2, 3]
        wrote(4, "x" * 400_000)
        assert [job_id for job_id in (1, 2, 3, 4) if shop.store.output(job_id, 1)] == [2, 3, 4]
        if not restarts:
            read = shop.metrics.registry.get_sample_value
            assert read("leasehold_pruned_rows_total", {"table": "outputs"}) == 1
        shop.engine.prune(Cutoffs(outputs_ms=shop.now_ms + 1))
        assert shop.store.output_bytes() == {}
        wrote(5, "x" * 400_000)
        wrote(6, "x" * 400_000)
        assert [job_id for job_id in range(1, 7) if shop.store.output(job_id, 1)] == [5, 6]

    def test_that_ends_with_an_error_is_told_and_not_tried_again(self, shop: Shop) -> None:
        shop.do(job())
        shop.ends(exit_status=3, detail="exit status 3")
        shop.fetched(text="Traceback")
        assert shop.state() == ("failed", "job-error")
        assert (shop.job().record.delivered, shop.job().exit_status) == (1, 3)
        assert shop.tried() == [("a/n1", "failed", "job-error")]

    def test_waits_for_what_nobody_has_seen_yet(self, sqlite_store: Store) -> None:
        shop = Shop(sqlite_store)
        shop.do(job())
        assert shop.state() == ("waiting", "tried-again-later")
        shop.do(nodes(facts()))
        assert shop.state() == ("starting", "runs-on-nodes")

    def test_that_can_run_nowhere_is_refused_with_what_is_lacking(self, shop: Shop) -> None:
        shop.do(job("gromacs"))
        assert shop.job().record.state == "refused"
        assert "gromacs" in shop.job().record.what
        assert shop.job().record.ended_ms == shop.now_ms

    def test_is_tried_again_at_set_times_and_then_refused(self, shop: Shop) -> None:
        shop.do(nodes(facts(free_cores=0)), nodes(facts("m1", free_cores=0), site="b"))
        shop.do(job())
        assert shop.job().record.next_ms == BEGIN_MS + 120 * S
        shop.restart()
        shop.pass_time(360 * S)
        assert shop.state() == ("refused", "waited-too-long")


class TestFaults:
    @BOTH_WAYS
    def test_a_node_that_dies_loses_its_job_to_another(
        self,
        shop: Shop,
        restarts: bool,  # noqa: FBT001 - a parameter of the test
    ) -> None:
        shop.do(job())
        shop.runs()
        if restarts:
            shop.restart()
        shop.do(nodes(facts(problem="is down", fault="node-died")))
        assert shop.tried() == [("a/n1", "fenced", "node-died"), ("b/m1", "ordered", "")]
        assert shop.lease(1).lease.state == "cancelled"
        shop.ends(2)
        shop.fetched(2)
        assert (shop.state(), shop.job().record.delivered) == (("completed", "completed"), 2)
        [row] = [node for node in shop.store.nodes() if node.name == "a/n1"]
        assert (row.failures, row.fault, row.failed_ms) == (1, "node-died", shop.now_ms)

    def test_a_node_that_is_not_there_any_more_has_died(self, shop: Shop) -> None:
        shop.do(job())
        shop.do(nodes())
        assert shop.tried() == [("a/n1", "fenced", "node-died"), ("b/m1", "ordered", "")]

    def test_a_fault_counts_once_however_often_it_is_seen(self, shop: Shop) -> None:
        for _ in range(3):
            shop.now_ms += 30 * S
            shop.do(nodes(facts(problem="is down", fault="node-died")))
        assert [row.failures for row in shop.store.nodes()] == [1, 0]
        shop.now_ms += 30 * S
        shop.do(nodes(facts()))
        shop.do(nodes(facts(problem="is down", fault="node-died")))
        assert [row.failures for row in shop.store.nodes()] == [2, 0]

    def test_a_silent_site_is_out_of_reach_and_what_it_says_later_does_not_count(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs()
        shop.do(JobSiteSilent("a", "no answer for 120 s"))
        assert shop.tried() == [("a/n1", "fenced", "network-failed"), ("b/m1", "ordered", "")]
        shop.restart()
        shop.ends(1)  # back from the dead
        assert (shop.job().record.delivered, shop.errands.fetches) == (0, [])
        assert shop.story()[-1] == "result-fenced"
        shop.ends(2)
        shop.fetched(2, "of the second")
        shop.ends(1)
        assert (shop.job().record.delivered, shop.store.output(1, 1)) == (2, None)
        assert shop.story().count("result-fenced") == 1

    def test_a_late_result_of_a_job_that_is_over_does_not_count_either(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs()
        shop.do(JobSiteSilent("a", "no answer for 120 s"))
        shop.ends(2)
        shop.fetched(2)
        shop.restart()
        shop.ends(1)
        assert (shop.job().record.delivered, shop.state()) == (2, ("completed", "completed"))
        assert shop.story().count("result-fenced") == 1

    @pytest.mark.parametrize(
        ("said", "fault"),
        [("", "node-died"), ("service-stopped", "service-stopped"), ("network-failed", "network-failed")],
    )
    def test_lost_machines_are_the_fault_that_they_name(self, shop: Shop, said: str, fault: str) -> None:
        shop.do(job())
        shop.runs()
        shop.fails(1, "went away", said)
        assert shop.tried()[0] == ("a/n1", "fenced", fault)
        assert shop.attempts()[0].attempt.detail == "went away"
        assert shop.tried()[1][0] == "b/m1"

    def test_machines_that_cannot_be_started_for_good_are_a_service_that_stopped(self, shop: Shop) -> None:
        shop.do(job())
        order = shop.orders["a"][0].id
        shop.do(OrdersSent("a", (order,), {order: Problem("slurmctld refuses", again=False)}))
        assert shop.tried()[0] == ("a/n1", "fenced", "service-stopped")
        assert shop.attempts()[0].attempt.detail == "its machines could not be started: slurmctld refuses"

    def test_software_that_is_gone_is_looked_for_elsewhere(self, shop: Shop) -> None:
        shop.do(job("python3-numpy"))
        shop.ends(1, 127, "python3: not found", "software-gone")
        assert shop.tried() == [("a/n1", "failed", "software-gone"), ("b/m1", "ordered", "")]
        assert shop.errands.looks == {"a"}

    def test_a_command_that_is_not_there_of_a_job_without_software_is_its_own_error(self, shop: Shop) -> None:
        shop.do(job())
        shop.ends(1, 127, "simulate: not found", "software-gone")
        shop.fetched()
        assert (shop.state(), shop.job().exit_status) == (("failed", "job-error"), 127)

    def test_too_many_faults_end_a_job(self, shop: Shop) -> None:
        shop.do(job(restarts=1))
        shop.runs(1)
        shop.fails(1)
        shop.runs(2)
        shop.fails(2)
        assert shop.state() == ("failed", "too-many-faults")

    def test_a_job_whose_time_is_over_has_failed_and_does_not_begin_anew(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs(detail="is not carried out here")
        shop.pass_time(120 * S)
        assert shop.lease(1).lease.state == "killed"
        said = "its lease 1 was ended at its requested time; is not carried out here"
        assert shop.attempts()[0].attempt.detail == said
        assert shop.tried() == [("a/n1", "failed", "time-over")]
        assert shop.state() == ("failed", "time-over")

    def test_a_job_whose_machines_were_late_has_all_of_its_time(self, shop: Shop) -> None:
        shop.do(job())
        shop.pass_time(61 * S)
        shop.runs()
        shop.pass_time(59 * S)
        assert shop.lease(1).lease.state == "running"
        shop.pass_time(61 * S)
        assert shop.lease(1).lease.state == "killed"
        assert shop.tried()[0] == ("a/n1", "failed", "time-over")

    def test_nor_has_one_whose_machines_began_anew_in_between(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs()
        shop.pass_time(10 * S)
        shop.see(1, Phase.STARTING, "Slurm put it back into the queue, and it begins anew")
        shop.runs()
        shop.pass_time(110 * S)
        assert shop.tried()[0] == ("a/n1", "failed", "taken-away")

    def test_a_lease_that_was_taken_back_before_it_began_is_a_not_now(self, shop: Shop) -> None:
        shop.do(job())
        shop.do(Cancel(1))
        assert shop.tried()[0] == ("a/n1", "fenced", "")
        assert (shop.story()[0], set(shop.story()[1:])) == ("runs-on-nodes", {"site-said-not-now"})
        assert shop.errands.looks == {"a"}
        shop.pass_time(120 * S)
        assert shop.tried()[1][0] == "b/m1"

    def test_a_site_that_refuses_is_a_not_now(self, shop: Shop) -> None:
        shop.do(nodes(*(facts(f"n{n}") for n in range(6))))
        shop.do(job(count=6))
        assert shop.lease(1).lease.state == "refused"
        assert shop.state() == ("waiting", "site-said-not-now")
        assert "wider" in shop.lease(1).metadata.reason


class TestCopies:
    def test_a_cold_backup_begins_where_a_place_was_kept_ready(self, shop: Shop) -> None:
        shop.do(job(backup=Backup.COLD))
        standby = shop.job().record.standby
        assert isinstance(standby, Physical)
        assert standby.nodes[0].node == "b/m1"
        shop.restart()
        shop.runs()
        shop.do(nodes(facts(problem="is down", fault="node-died")))
        assert shop.tried()[1] == ("b/m1", "ordered", "")
        assert shop.attempts()[1].attempt.is_backup == 1
        assert "takes-over" in shop.story()

    def test_hot_copies_run_along_and_the_first_result_counts(self, shop: Shop) -> None:
        shop.do(job(backup=Backup.HOT))
        assert [row[0] for row in shop.tried()] == ["a/n1", "b/m1"]
        shop.runs(1)
        shop.runs(2)
        shop.restart()
        shop.ends(2)
        shop.ends(1)
        shop.fetched(2, "of the copy")
        shop.fetched(1, "of the first")
        assert (shop.state(), shop.job().record.delivered) == (("completed", "completed"), 2)
        assert shop.store.output(1, 1) is None
        assert shop.story()[-1] == "result-fenced"
        assert not shop.engine.gateway.leases


class TestWhatIsAsked:
    def test_a_job_that_is_cancelled_takes_its_leases_along(self, shop: Shop) -> None:
        shop.do(job(backup=Backup.HOT))
        shop.runs(1)
        [(row, _)] = shop.do(CancelJob(1))
        assert (row.record.state, row.record.reason) == ("cancelled", "cancelled-by-user")
        assert [shop.lease(number).lease.state for number in (1, 2)] == ["cancelled", "cancelled"]
        assert shop.told("a") == ["start", "stop"]
        [(again, _)] = shop.do(CancelJob(1))
        assert again == row

    def test_the_answer_has_the_attempts_of_the_decision(self, shop: Shop) -> None:
        [((row, attempts), _)] = shop.do(job(backup=Backup.HOT))
        assert row.record.state == "starting"
        assert [(one.attempt.number, one.lease_id) for one in attempts] == [(1, 1), (2, 2)]
        shop.runs(1)
        shop.ends()
        shop.fetched()
        [(row, attempts)] = shop.do(CancelJob(1))
        assert (row.record.state, len(attempts)) == ("completed", 2)
        assert attempts == shop.store.attempts([1])

    def test_the_same_key_gets_the_same_job(self, shop: Shop) -> None:
        asked = job(key="k", request_hash="h")
        [((first, _), new), ((again, _), old)] = shop.do(asked, asked)
        assert (first.record.id, new, again.record.id, old) == (1, True, 1, False)
        shop.ends()
        shop.fetched()
        shop.restart()
        [((again, _), old)] = shop.do(asked)
        assert (again.record.state, old, shop.store.highest_job_id()) == ("completed", False, 1)
        assert isinstance(shop.ask(replace(asked, request_hash="other")), IdempotencyConflict)

    def test_a_key_of_a_lease_is_another_than_one_of_a_job(self, shop: Shop) -> None:
        lease = submit("physics", job().lease_type, 1, 60 * S, key="k", request_hash="l")
        [(_, new), (_, also_new)] = shop.do(job(key="k", request_hash="h"), lease)
        assert (new, also_new) == (True, True)

    def test_what_makes_no_sense_is_answered_with_its_field(self, shop: Shop) -> None:
        assert isinstance(shop.ask(job(command=())), InvalidField)
        assert isinstance(shop.ask(job(deadline_ms=BEGIN_MS - 1)), InvalidField)
        assert isinstance(shop.ask(job(reliability=0.99)), InvalidField)
        assert isinstance(shop.ask(CancelJob(7)), NoSuchJob)
        nowhere = job()
        nowhere = replace(nowhere, needs=replace(nowhere.needs, inputs=(InputFile("sky", 7, "aa"),)))
        refused = str(shop.ask(nowhere))
        assert refused == "inputs[0].place: got 'aa', expected one of a, b (did you mean 'a'?)"
        assert shop.store.highest_job_id() == 0

    def test_a_job_counts_once_among_the_open_requests(self, sqlite_store: Store) -> None:
        shop = open_shop(sqlite_store, most_open=2)
        shop.do(job(backup=Backup.HOT))
        shop.do(submit("physics", job().lease_type, 1, 60 * S))
        assert isinstance(shop.ask(job()), TooManyOpen)
        shop.restart()
        assert isinstance(shop.ask(job()), TooManyOpen)
        shop.do(CancelJob(1))
        shop.do(job())

    def test_numbers_count_up_over_restarts(self, shop: Shop) -> None:
        shop.do(job())
        shop.ends()
        shop.fetched()
        shop.restart()
        [((row, _), _)] = shop.do(job())
        assert row.record.id == 2

    def test_each_line_of_its_journal_has_its_number(self, shop: Shop) -> None:
        shop.do(job(consumer="climate", group="atlas"))
        lines = shop.lines()
        assert {line.consumer for line in lines} == {"climate"}
        assert [line.what for line in lines] == ["submitted", "job", "dispatch", "start"]
        assert [line.lease_id for line in lines] == [1, None, 1, 1]
        assert json.loads(lines[1].detail) == {"attempt": 1}


class TestDrainedSites:
    def test_get_no_jobs(self, shop: Shop) -> None:
        shop.do(Drain("a", "operator"))
        shop.do(job())
        assert shop.tried() == [("b/m1", "ordered", "")]

    def test_that_are_drained_meanwhile_are_a_not_now(self, shop: Shop) -> None:
        large: dict[str, Any] = {
            "cores": 16,
            "free_cores": 16,
            "memory_mib": 65_536,
            "free_memory_mib": 65_536,
        }
        shop.do(nodes(facts(**large)), nodes(facts("m1", free_cores=0), site="b"))
        shop.do(submit("climate", LeaseType.NON_PREEMPTABLE, 4, 600 * S))
        shop.do(job())
        assert shop.lease(2).lease.state == "waiting"
        assert (shop.state(), shop.tried()) == (("waiting", "waits-at-site"), [("a/n1", "queued", "")])
        assert shop.job().record.what == shop.lease(2).metadata.reason
        shop.do(nodes(facts("m1"), site="b"))
        shop.do(Drain("a", "operator"))
        assert (shop.lease(2).lease.state, shop.tried()) == ("cancelled", [("a/n1", "fenced", "")])
        shop.pass_time(120 * S)
        assert shop.tried()[1:] == [("b/m1", "ordered", "")]

    def test_get_jobs_again(self, shop: Shop) -> None:
        shop.do(Drain("a", "operator"))
        shop.restart()
        shop.do(Undrain("a", "operator"))
        shop.do(job())
        assert shop.tried()[0][0] == "a/n1"


class TestNodes:
    def test_are_kept_with_the_time_at_which_they_were_seen(self, shop: Shop) -> None:
        shop.now_ms += 30 * S
        shop.do(nodes(facts(free_cores=1)))
        [row, _] = shop.store.nodes()
        assert (row.name, row.free_cores, row.seen_ms) == ("a/n1", 1, BEGIN_MS + 30 * S)
        assert row.first_ms == BEGIN_MS
        assert row.software == frozenset(NUMPY)

    def test_are_known_after_a_restart_without_looking(self, shop: Shop) -> None:
        shop.restart()
        shop.do(job())
        assert shop.tried() == [("a/n1", "ordered", "")]

    def test_a_job_that_waits_goes_to_one_that_becomes_idle(self, shop: Shop) -> None:
        shop.do(nodes(facts(free_cores=0)), nodes(facts("m1", free_cores=0), site="b"))
        shop.do(job())
        shop.now_ms += 10 * S
        shop.do(nodes(facts("m1"), site="b"))
        assert shop.tried() == [("b/m1", "ordered", "")]


def test_a_gateway_without_jobs_writes_nothing_about_them(sqlite_store: Store) -> None:
    shop = Shop(sqlite_store)
    shop.pass_time(10 * S)
    assert "jobs" not in sqlite_store.snapshots()
    assert sqlite_store.journal(0, 10) == []


def test_a_machine_is_not_told_twice_to_start(shop: Shop) -> None:
    shop.do(job())
    for _ in range(3):
        shop.restart()
        shop.pass_time(0)
    assert {order.id for order in shop.orders["a"]} == {"1.1.start"}
    assert len(shop.attempts()) == 1
    shop.see(1, Phase.RUNNING)
    assert shop.attempts()[0].attempt.state == "running"


class TestNodesThatAreDown:
    def test_are_waited_for_and_a_job_that_lost_its_node_goes_on_when_it_is_up_again(self, shop: Shop) -> None:
        shop.do(job())
        shop.runs()
        shop.do(nodes(facts(problem="is down", fault="node-died")), nodes(site="b"))
        assert shop.state() == ("waiting", "nodes-down")
        assert shop.job().record.what == "a/n1, b/m1"
        shop.do(job())
        assert shop.state(2) == ("waiting", "nodes-down")
        shop.restart()
        shop.pass_time(1_800 * S)
        assert (shop.state(1)[0], shop.state(2)[0]) == ("waiting", "waiting")
        shop.do(nodes(facts()))
        assert shop.tried(1)[1:] == [("a/n1", "ordered", "")]
        assert shop.tried(2) == [("a/n1", "ordered", "")]

    def test_are_gone_when_their_site_has_not_listed_them_for_an_hour(self, shop: Shop) -> None:
        shop.do(nodes(), nodes(site="b"))
        shop.do(job())
        shop.pass_time(3_599 * S)
        shop.do(nodes(), nodes(site="b"))
        assert shop.state() == ("waiting", "nodes-down")
        shop.pass_time(1 * S)
        shop.do(nodes(), nodes(site="b"))
        shop.pass_time(120 * S)
        assert shop.state() == ("refused", "never-here")

    def test_are_waited_for_without_limit_while_they_are_listed(self, shop: Shop) -> None:
        down = facts(problem="is down", fault="node-died")
        shop.do(nodes(down), nodes(site="b"))
        shop.do(job())
        shop.pass_time(86_400 * S)
        shop.do(nodes(down), nodes(site="b"))
        shop.pass_time(120 * S)
        assert shop.state() == ("waiting", "nodes-down")

    def test_of_a_site_that_is_drained_are_waited_for_too(self, shop: Shop) -> None:
        shop.do(Drain("a", "operator"), Drain("b", "operator"))
        shop.do(job())
        assert shop.state() == ("waiting", "nodes-down")
        shop.do(Undrain("a", "operator"))
        assert shop.tried() == [("a/n1", "ordered", "")]

    def test_of_a_silent_site_are_waited_for_too(self, shop: Shop) -> None:
        shop.do(JobSiteSilent("a", "no answer for 120 s"), JobSiteSilent("b", "no answer for 120 s"))
        shop.do(job())
        assert (shop.state(), shop.job().record.what) == (("waiting", "nodes-down"), "a/n1, b/m1")


@pytest.mark.parametrize(
    ("asked", "lacking"),
    [
        ({"count": 1000}, "too-few-nodes: asks for 1000, and no site has more than 1 that would do"),
        (
            {"memory_mib": 204_800},
            "too-little-memory: asks for 204800 MiB on each node, and none has more than 4096 MiB",
        ),
        ({"cores": 9}, "too-few-cores: asks for 9 cores on each node, and none has more than 4 cores"),
    ],
)
def test_a_job_that_is_too_large_is_told_of_what_it_asks_too_much(
    shop: Shop, asked: dict[str, int], lacking: str
) -> None:
    """And nothing of software, for which it did not ask."""
    shop.do(job(**asked))
    assert (shop.state(), shop.job().record.what) == (("refused", "never-here"), lacking)


class TestBesideOtherLeases:
    """Whose machines are on nodes that nobody has named: any of their site, until a look that shows them."""

    def test_a_job_goes_to_another_site_until_a_look_has_shown_where_there_is_room(self, shop: Shop) -> None:
        shop.do(nodes(facts(), facts("n2")), nodes(site="b"))
        shop.do(submit("climate", LeaseType.SUSPENDABLE, 3, 600 * S))
        shop.do(job(cores=2))
        assert (shop.state(), shop.job().record.what) == (("waiting", "tried-again-later"), "cores-in-use")
        shop.now_ms += S
        shop.see(1, Phase.STARTING)
        assert "a" in shop.errands.looks
        shop.now_ms += S
        shop.do(nodes(facts(free_cores=1), facts("n2")))
        assert shop.tried() == [("a/n2", "ordered", "")]

    def test_a_look_that_began_before_they_were_seen_shows_nothing_of_them(self, shop: Shop) -> None:
        shop.do(nodes(facts()), nodes(site="b"))
        shop.do(submit("climate", LeaseType.SUSPENDABLE, 3, 600 * S))
        shop.do(job(cores=2))
        shop.now_ms += 2 * S
        shop.see(1, Phase.RUNNING)
        shop.do(JobNodesSeen("a", (facts(),), shop.now_ms - S))
        assert shop.state() == ("waiting", "tried-again-later")

    def test_machines_that_say_where_they_are_take_room_there_alone(self, shop: Shop) -> None:
        shop.do(nodes(facts(), facts("n2")), nodes(site="b"))
        shop.do(submit("climate", LeaseType.SUSPENDABLE, 3, 600 * S))
        shop.see(1, Phase.STARTING, nodes=("n1", "n1", "n1"))
        shop.do(job(cores=2))
        assert shop.tried() == [("a/n2", "ordered", "")]

    def test_a_full_node_sends_a_job_back_into_the_queue_and_is_looked_at(self, shop: Shop) -> None:
        shop.do(job(restarts=0))
        order = shop.orders["a"][0].id
        full = Problem("node n1 has 0 cores free now", full=True, nodes=("n1",))
        shop.do(OrdersSent("a", (order,), {order: full}))
        assert shop.tried() == [("a/n1", "fenced", ""), ("b/m1", "ordered", "")]
        assert (shop.story()[:3], shop.job().record.restarts) == (
            ["runs-on-nodes", "node-full", "runs-on-nodes"],
            0,
        )
        assert (shop.lease(1).lease.state, shop.errands.looks) == ("cancelled", {"a"})
        assert [row.failures for row in shop.store.nodes()] == [0, 0]

    def test_a_site_that_stays_full_is_no_fault_of_its_nodes(self, shop: Shop) -> None:
        shop.do(job(restarts=0))
        order = shop.orders["a"][0].id
        shop.do(OrdersSent("a", (order,), {order: Problem("no room for 1 VM", again=False, full=True)}))
        assert shop.tried() == [("a/n1", "fenced", ""), ("b/m1", "ordered", "")]
        assert shop.job().record.restarts == 0


class TestWaitingTimes:
    """A node whose site lets attempts wait is no place for a job that is in a hurry, and a second choice for others."""

    def test_a_deadline_is_not_met_behind_a_queue(self, sqlite_store: Store) -> None:
        shop = Shop(sqlite_store)
        shop.do(nodes(facts()))
        shop.do(job())
        shop.pass_time(40 * S)
        shop.do(job(deadline_ms=shop.now_ms + 90 * S))
        assert (shop.state(2), shop.job(2).record.what) == (("waiting", "tried-again-later"), "deadline-behind-queue")
        shop.do(job(deadline_ms=shop.now_ms + 101 * S))
        assert [where for where, *_ in shop.tried(3)] == ["a/n1"]

    @BOTH_WAYS
    def test_what_was_measured_decides_between_equal_nodes(
        self,
        shop: Shop,
        restarts: bool,  # noqa: FBT001 - a parameter of the test
    ) -> None:
        shop.do(job())
        first = shop.attempts()[0].attempt.site
        shop.pass_time(40 * S)
        shop.runs()
        shop.ends()
        shop.fetched()
        if restarts:
            shop.restart()
        shop.do(nodes(facts()), nodes(facts("m1"), site="b"))
        shop.do(job())
        assert shop.attempts(2)[0].attempt.site != first


class TestSitesThatLendLessThanTheirNodesHave:
    """Sites a and b lend 4 VMs each, and each has a node with 16 cores."""

    @pytest.fixture
    def shop(self, sqlite_store: Store) -> Shop:
        shop = Shop(sqlite_store)
        large = facts(cores=16, free_cores=16, memory_mib=65_536, free_memory_mib=65_536)
        shop.do(nodes(large), nodes(replace(large, name="m1"), site="b"))
        return shop

    def test_a_job_runs_where_its_lease_starts_at_once(self, shop: Shop) -> None:
        shop.do(local(4, 240))
        shop.do(job())
        assert shop.tried() == [("b/m1", "ordered", "")]

    def test_one_that_waits_anywhere_waits_where_it_waits_least(self, shop: Shop) -> None:
        shop.do(local(4, 240), local(4, 120, site="b"))
        shop.do(job())
        assert shop.tried() == [("b/m1", "queued", "")]

    def test_those_that_come_together_wait_only_once_all_sites_are_full(self, shop: Shop) -> None:
        shop.do(job(array=tuple(range(10))))
        assert sorted((nodes, state) for job_id in range(1, 11) for nodes, state, _ in shop.tried(job_id)) == [
            *[("a/n1", "ordered")] * 4,
            *[("a/n1", "queued")] * 2,
            *[("b/m1", "ordered")] * 4,
        ]

    def test_a_plan_says_so_too_and_changes_nothing(self, shop: Shop) -> None:
        shop.do(local(4, 240))
        outcome = plan_job(shop.engine, job()).outcome
        assert [one.site for one in outcome.chosen] == ["b"]
        assert (outcome.start_ms, outcome.consequences) == (shop.now_ms, ())
