"""What the state of a job means for its lease, and what is done about it: by hand, and what always holds."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.store import from_text, to_text
from leasehold.service.drivers.slurm.cluster import Job, Node
from leasehold.service.drivers.slurm.commands import Step
from leasehold.service.drivers.slurm.instance import (
    BEGINS_AGAIN,
    JobInstance,
    RunRecord,
    Tag,
    next_step,
    observed,
    tag_of,
)
from leasehold.service.drivers.slurm.options import OnSuspend
from leasehold.service.drivers.slurm.queue import CpuMap
from leasehold.testing.driver_rig import order

ORDERED_MS, NOW_MS = 1_000_000, 1_060_000
START_S = 1_010


def instance(phase: Phase = Phase.STARTING, desired: Desired = Desired.UP, job_id: int | None = 5) -> JobInstance:
    user = {"user": "nobody", "uid": 65534, "gid": 65534, "owner": "0123456789ab", "secret": "5ec4e7"}
    return JobInstance.ordered(order(Verb.START), phase, ORDERED_MS, desired=desired, job_id=job_id, **user)


def observe(one: JobInstance, of_it: Job | None, left: RunRecord | None = None, now_ms: int = NOW_MS) -> None:
    """Let it be what is observed."""
    now = observed(one, of_it, lambda: left or RunRecord(), now_ms)
    for one_field in fields(one):
        setattr(one, one_field.name, getattr(now, one_field.name))


def job(*words: str, **fields: object) -> Job:
    return Job(5, words, **fields)  # type: ignore[arg-type]


def seen(one: JobInstance, of_it: Job | None, left: RunRecord | None = None) -> tuple[Phase, int, str]:
    observe(one, of_it, left)
    return one.phase, one.since_ms, one.detail


class TestStarting:
    def test_waits_in_the_queue(self) -> None:
        phase, since_ms, detail = seen(instance(), job("PENDING", reason="Resources"))
        assert (phase, since_ms) == (Phase.STARTING, ORDERED_MS)
        assert detail == "waits in Slurm's queue: Resources"

    def test_runs_since_its_own_note_says_so(self) -> None:
        left = RunRecord(begun_ms=START_S * 1000 + 321)
        assert seen(instance(), job("RUNNING", start_s=START_S), left) == (Phase.RUNNING, 1_010_321, "")

    def test_runs_since_slurm_says_so_where_the_note_is_of_a_run_before(self) -> None:
        left = RunRecord(begun_ms=ORDERED_MS)
        assert seen(instance(), job("RUNNING", start_s=START_S), left) == (Phase.RUNNING, 1_010_000, "")

    def test_cannot_have_run_before_it_was_ordered(self) -> None:
        assert seen(instance(), job("RUNNING", start_s=999))[1] == ORDERED_MS

    def test_nor_later_than_now(self) -> None:
        left = RunRecord(begun_ms=NOW_MS + 5_000)
        assert seen(instance(), job("RUNNING", start_s=START_S), left)[1] == NOW_MS


class TestEnding:
    def test_has_ended_with_its_exit_status(self) -> None:
        over = job("FAILED", exit_status=3, end_s=1_050)
        assert seen(instance(Phase.RUNNING), over) == (Phase.ENDED, 1_050_000, "exit status 3")

    def test_has_ended_when_its_own_note_says_so(self) -> None:
        over, left = job("COMPLETED", exit_status=0, end_s=1_050), RunRecord(ended_ms=1_050_789, exit_status=0)
        assert seen(instance(Phase.RUNNING), over, left) == (Phase.ENDED, 1_050_789, "")

    @pytest.mark.parametrize(
        ("words", "reason", "detail", "fault"),
        [
            (("NODE_FAIL",), "NodeDown", "Slurm: NODE_FAIL NodeDown", "node-died"),
            (("NODE_FAIL", "COMPLETING"), "None", "Slurm: NODE_FAIL COMPLETING", "node-died"),
            (("OUT_OF_MEMORY",), "OutOfMemory", "Slurm: OUT_OF_MEMORY OutOfMemory", "job-error"),
            (("TIMEOUT",), "TimeLimit", "Slurm: TIMEOUT TimeLimit", "time-over"),
            (("PREEMPTED",), "None", "Slurm: PREEMPTED", "taken-away"),
            (("CANCELLED",), "None", "Slurm: CANCELLED", "taken-away"),
            (("FAILED",), "JobLaunchFailure", "Slurm: FAILED JobLaunchFailure", "service-stopped"),
        ],
    )
    def test_what_did_not_end_by_itself_has_failed_by_some_fault(
        self, words: tuple[str, ...], reason: str, detail: str, fault: str
    ) -> None:
        over, one = job(*words, reason=reason, end_s=1_050), instance(Phase.RUNNING)
        assert seen(one, over) == (Phase.FAILED, 1_050_000, detail)
        assert (one.observed().fault, one.observed().exit_status) == (fault, None)

    @pytest.mark.parametrize(("status", "fault"), [(0, ""), (1, ""), (127, "software-gone")])
    def test_an_exit_status_is_told_and_127_is_a_fault_of_the_place(self, status: int, fault: str) -> None:
        one = instance(Phase.RUNNING)
        seen(one, job("FAILED" if status else "COMPLETED", exit_status=status))
        assert (one.observed().exit_status, one.observed().fault) == (status, fault)

    def test_what_ended_before_its_node_was_lost_has_ended(self) -> None:
        left = RunRecord(begun_ms=1_010_000, ended_ms=1_020_000, exit_status=0)
        over = job("NODE_FAIL", reason="NodeDown", end_s=1_050)
        assert seen(instance(Phase.RUNNING), over, left) == (Phase.ENDED, 1_020_000, "")

    def test_long_forgotten_by_slurm_its_own_note_tells(self) -> None:
        left = RunRecord(begun_ms=1_010_000, ended_ms=1_020_000, exit_status=2)
        assert seen(instance(Phase.RUNNING), None, left) == (Phase.ENDED, 1_020_000, "exit status 2")

    def test_forgotten_without_a_note_it_is_lost(self) -> None:
        one = instance(Phase.RUNNING)
        phase, _, detail = seen(one, None)
        assert (phase, detail) == (Phase.FAILED, "Slurm does not know job 5 any more")
        assert one.observed().fault == "service-stopped"

    def test_what_slurm_may_never_have_had_is_not_lost(self) -> None:
        assert seen(instance(job_id=None), None)[0] is Phase.STARTING

    def test_while_its_nodes_are_cleaned_up_it_still_runs(self) -> None:
        assert seen(instance(Phase.RUNNING), job("COMPLETED", "COMPLETING"))[0] is Phase.RUNNING


class TestSuspending:
    def test_is_saved_when_slurm_says_so(self) -> None:
        one = instance(Phase.SAVING, Desired.SAVED)
        assert next_step(one, job("RUNNING"), OnSuspend.PAUSE, NOW_MS) is Step.SUSPEND
        assert seen(one, job("RUNNING"))[0] is Phase.SAVING
        assert seen(one, job("SUSPENDED"))[0] is Phase.SAVED
        assert next_step(one, job("SUSPENDED"), OnSuspend.PAUSE, NOW_MS) is None

    def test_what_has_not_begun_yet_is_held(self) -> None:
        one = instance(Phase.SAVING, Desired.SAVED)
        assert next_step(one, job("PENDING"), OnSuspend.PAUSE, NOW_MS) is Step.HOLD
        assert seen(one, job("PENDING", priority=0))[0] is Phase.SAVED

    def test_what_has_ended_meanwhile_has_ended(self) -> None:
        over = job("COMPLETED", exit_status=0)
        assert seen(instance(Phase.SAVING, Desired.SAVED), over)[0] is Phase.ENDED

    def test_or_it_is_requeued_and_held(self) -> None:
        one = instance(Phase.SAVING, Desired.SAVED)
        assert next_step(one, job("RUNNING"), OnSuspend.REQUEUE, NOW_MS) is Step.REQUEUE
        assert seen(one, job("COMPLETING", reason="JobHeldUser"))[0] is Phase.SAVING
        assert seen(one, job("PENDING", priority=0, restarts=1)) == (Phase.SAVED, NOW_MS, BEGINS_AGAIN)


class TestResuming:
    def test_goes_on_when_slurm_says_so(self) -> None:
        one = instance(Phase.RESUMING)
        assert next_step(one, job("SUSPENDED"), OnSuspend.PAUSE, NOW_MS) is Step.RESUME
        assert seen(one, job("SUSPENDED"))[0] is Phase.RESUMING
        assert seen(one, job("RUNNING", start_s=START_S)) == (Phase.RUNNING, NOW_MS, "")

    def test_what_was_held_is_released_and_waits(self) -> None:
        one = instance(Phase.RESUMING)
        assert next_step(one, job("PENDING", priority=0), OnSuspend.REQUEUE, NOW_MS) is Step.RELEASE
        assert seen(one, job("PENDING", reason="BeginTime"))[0] is Phase.RESUMING
        assert next_step(one, job("PENDING", reason="BeginTime"), OnSuspend.REQUEUE, NOW_MS) is None


class TestSwitchingTooOften:
    """A job that is told to stop and go on within seconds may be told so in another sequence."""

    @pytest.mark.parametrize(("ago_s", "step"), [(0, None), (3, None), (4, Step.RESUME), (-60, Step.RESUME)])
    def test_what_was_just_suspended_goes_on_a_little_later(self, ago_s: int, step: Step | None) -> None:
        suspended = job("SUSPENDED", switched_s=NOW_MS // 1000 - ago_s)
        assert next_step(instance(Phase.RESUMING), suspended, OnSuspend.PAUSE, NOW_MS) is step

    def test_what_just_went_on_is_suspended_a_little_later_and_cancelled_at_once(self) -> None:
        resumed = job("RUNNING", switched_s=NOW_MS // 1000 - 1)
        saving, going = instance(Phase.SAVING, Desired.SAVED), instance(Phase.RUNNING, Desired.GONE)
        assert next_step(saving, resumed, OnSuspend.PAUSE, NOW_MS) is None
        assert next_step(going, resumed, OnSuspend.PAUSE, NOW_MS) is Step.CANCEL


class TestOthersHandsOnIt:
    def test_a_job_that_somebody_else_suspended_is_left_alone(self) -> None:
        one = instance(Phase.RUNNING)
        assert seen(one, job("SUSPENDED")) == (Phase.RUNNING, ORDERED_MS, "suspended for a while by Slurm")
        assert next_step(one, job("SUSPENDED"), OnSuspend.PAUSE, NOW_MS) is None

    def test_so_is_one_that_somebody_else_holds(self) -> None:
        assert next_step(instance(), job("PENDING", priority=0), OnSuspend.PAUSE, NOW_MS) is None


class TestANodeThatFails:
    def test_its_job_starts_again_and_runs(self) -> None:
        one = instance(Phase.RUNNING)
        assert seen(one, job("PENDING", reason="BeginTime", restarts=1)) == (
            Phase.STARTING,
            NOW_MS,
            BEGINS_AGAIN,
        )
        assert seen(one, job("RUNNING", start_s=1_055, restarts=1))[0] is Phase.RUNNING

    def test_also_where_nobody_looked_while_it_waited(self) -> None:
        one = instance(Phase.RUNNING)
        assert seen(one, job("RUNNING", start_s=1_055, restarts=1)) == (Phase.RUNNING, NOW_MS, "")

    def test_a_suspended_one_stays_suspended_and_begins_anew(self) -> None:
        one = instance(Phase.SAVED, Desired.SAVED)
        lost = job("PENDING", reason="JobHeldAdmin", priority=0, restarts=1)
        assert seen(one, lost) == (Phase.SAVED, ORDERED_MS, BEGINS_AGAIN)


class TestOnWhichNodesItIs:
    @pytest.mark.parametrize(
        ("cpus_by_node", "vms", "nodes"),
        [
            ({}, 2, ()),
            ({"n1": 8}, 2, ("n1", "n1")),
            ({"n1": 4, "n2": 8}, 3, ("n1", "n2", "n2")),
            ({"n1": 2, "n2": 2}, 3, ()),  # of three, two have a core to share, and who knows where
        ],
    )
    def test_is_told_of_each_vm_where_it_can_be_known(
        self, cpus_by_node: dict[str, int], vms: int, nodes: tuple[str, ...]
    ) -> None:
        one = replace(instance(), vms=vms)
        seen(one, job("RUNNING", cpus_by_node=cpus_by_node))
        assert one.observed().nodes == nodes

    def test_is_remembered_until_its_job_is_elsewhere(self) -> None:
        one = instance()
        seen(one, job("RUNNING", cpus_by_node={"n1": 1}))
        assert from_text(JobInstance, to_text(JobInstance, one)).observed().nodes == ("n1",)
        seen(one, job("SUSPENDED", cpus_by_node={"n1": 1}))
        assert one.observed().nodes == ("n1",)
        seen(one, job("PENDING", restarts=1))
        assert one.observed().nodes == ()
        seen(one, job("RUNNING", restarts=1, cpus_by_node={"n2": 1}))
        assert one.observed().nodes == ("n2",)


def test_what_is_to_go_is_cancelled_whatever_it_is_doing() -> None:
    one = instance(Phase.RUNNING, Desired.GONE)
    for words in ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING"):
        assert next_step(one, job(words), OnSuspend.PAUSE, NOW_MS) is Step.CANCEL
    assert next_step(one, job("CANCELLED"), OnSuspend.PAUSE, NOW_MS) is None


WORDS = ["PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "FAILED", "NODE_FAIL"]
DESIRED = [Desired.UP, Desired.SAVED, Desired.GONE]
JOBS = st.builds(
    Job,
    id=st.just(5),
    flags=st.sampled_from(WORDS).map(lambda word: (word,)),
    priority=st.integers(0, 1),
    exit_status=st.none() | st.integers(0, 3),
    start_s=st.integers(0, 2_000),
    end_s=st.integers(0, 2_000),
    restarts=st.integers(0, 2),
)


@given(st.lists(st.tuples(JOBS | st.none(), st.sampled_from(DESIRED)), max_size=12))
def test_a_lease_goes_forward_in_time_and_what_is_over_stays_so(
    looks: list[tuple[Job | None, Desired]],
) -> None:
    one, now_ms = instance(), ORDERED_MS
    for of_it, desired in looks:
        now_ms += 100
        one.desired = desired
        before = replace(one)
        observe(one, of_it, now_ms=now_ms)
        assert before.since_ms <= one.since_ms <= now_ms
        if before.is_over or desired is Desired.GONE:
            assert one == before
        if one.phase is before.phase and one.restarts == before.restarts:
            assert one.since_ms == before.since_ms


@given(JOBS, st.sampled_from(Phase), st.sampled_from(DESIRED), st.sampled_from(OnSuspend))
def test_nothing_is_done_to_a_job_that_is_over_and_nothing_but_cancelling_to_one_that_is_to_go(
    of_it: Job, phase: Phase, desired: Desired, on_suspend: OnSuspend
) -> None:
    step = next_step(instance(phase, desired), of_it, on_suspend, NOW_MS)
    if not of_it.is_live:
        assert step is None
    elif desired is Desired.GONE:
        assert step is Step.CANCEL
    else:
        assert step is not Step.CANCEL


@given(st.integers(1, 999), st.integers(1, 99))
def test_a_job_is_known_by_its_comment_or_by_its_name(lease_id: int, birth: int) -> None:
    tag = Tag("0123456789ab", lease_id, birth, "5ec4e7")
    assert tag_of(Job(1, ("PENDING",), comment=tag.comment)) == tag
    assert tag_of(Job(1, ("PENDING",), name=tag.name, comment="changed by a plugin")) == tag
    assert tag_of(Job(1, ("PENDING",), name="wrap", comment="ask for leasehold 1 lease 2.3")) is None


def test_a_suspended_job_has_room_where_it_is_or_nowhere() -> None:
    nodes = {name: Node(name, 4, 2_000) for name in ("n1", "n2")}
    suspended = Job(1, ("SUSPENDED",), cpus_by_node={"n1": 2})
    half, whole = (
        Job(2, ("RUNNING",), cpus_by_node={"n1": 2}),
        Job(3, ("COMPLETING",), cpus_by_node={"n1": 4}),
    )
    assert CpuMap(nodes, [suspended, half]).has_room_for(suspended)
    assert not CpuMap(nodes, [suspended, whole]).has_room_for(suspended)
    assert not CpuMap({}, []).has_room_for(suspended)
    assert CpuMap(nodes, [half, whole]).is_oversubscribed(half)
    assert not CpuMap(nodes, [suspended, whole]).is_oversubscribed(whole)


def test_newcomers_leave_the_nodes_of_suspended_jobs_alone_if_there_are_others() -> None:
    nodes = {name: Node(name, 4, 2_000) for name in ("n1", "n2", "n3")}
    suspended, running = (
        Job(1, ("SUSPENDED",), cpus_by_node={"n1": 2}),
        Job(2, ("RUNNING",), cpus_by_node={"n2": 2}),
    )
    plan = CpuMap(nodes, [suspended, running])
    assert plan.nodes_to_avoid([suspended], vms=6, cpus_per_vm=1) == ["n1"]
    assert plan.nodes_to_avoid([suspended], vms=7, cpus_per_vm=1) == []
    assert plan.nodes_to_avoid([suspended], vms=2, cpus_per_vm=3) == []
    drained = nodes | {"n3": replace(nodes["n3"], takes_jobs=False)}
    assert CpuMap(drained, [suspended, running]).nodes_to_avoid([suspended], vms=3, cpus_per_vm=1) == []
