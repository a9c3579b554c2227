"""What Slurm answers is understood, whichever version answers.

The replies of 22.05 were recorded (without the fields that nobody reads); those of 23.11 and 24.11 are the
same jobs, written as the schemas of their data parsers (v0.0.40 and v0.0.42) have it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.service.drivers.slurm.cluster import (
    BadReply,
    Job,
    JobState,
    Node,
    memory_is_consumable,
    read_jobs,
    read_nodes,
    read_time_limits,
)

REPLIES = Path(__file__).with_name("replies")
VERSIONS = ["22.05", "23.11", "24.11"]


def reply(name: str) -> str:
    return (REPLIES / name).read_text(encoding="utf-8")


def jobs(version: str) -> dict[int, Job]:
    return {job.id: job for job in read_jobs(reply(f"squeue-{version}.json"))}


def changed(**fields: Any) -> str:
    """A reply with one job, of which some fields are others."""
    said = json.loads(reply("squeue-22.05.json"))
    said["jobs"] = [said["jobs"][0] | fields]
    return json.dumps(said)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_every_version_tells_the_same(version: str) -> None:
    assert jobs(version) == jobs(VERSIONS[0])


@pytest.mark.parametrize("version", VERSIONS)
class TestAJob:
    def test_that_ended_by_itself_has_its_exit_status(self, version: str) -> None:
        failed, killed, completed = (jobs(version)[number] for number in (1, 2, 3))
        assert (failed.state, failed.ended_by_itself, failed.exit_status) == (JobState.FINISHED, True, 3)
        assert (killed.state, killed.ended_by_itself, killed.exit_status) == (JobState.FINISHED, False, None)
        assert (completed.state, completed.ended_by_itself, completed.exit_status) == (
            JobState.FINISHED,
            True,
            0,
        )

    def test_that_was_cancelled_did_not_end_by_itself(self, version: str) -> None:
        cancelled = jobs(version)[5]
        assert (cancelled.state, cancelled.ended_by_itself) == (JobState.FINISHED, False)

    def test_has_cpus_node_by_node(self, version: str) -> None:
        assert jobs(version)[7].cpus_by_node == {"alpha1": 4, "alpha2": 2}
        assert jobs(version)[4].cpus_by_node == {"alpha1": 1, "alpha2": 3}

    def test_that_is_suspended_has_them_still_in_its_record(self, version: str) -> None:
        assert jobs(version)[4].state is JobState.SUSPENDED

    def test_of_an_array_is_one_task_or_all_that_wait(self, version: str) -> None:
        running, waiting = jobs(version)[12], jobs(version)[8]
        assert (running.array_id, running.array_task, running.array_tasks) == (8, 1, "")
        assert (waiting.array_id, waiting.array_task, waiting.array_tasks) == (8, None, "3-9%2")
        assert waiting.array_limit == 2

    def test_that_waits_says_what_for(self, version: str) -> None:
        reasons = {number: jobs(version)[number].reason for number in (6, 8, 9, 10, 11)}
        assert reasons == {
            6: "JobHeldUser",
            8: "JobArrayTaskLimit",
            9: "Resources",
            10: "BeginTime",
            11: "JobHeldUser",
        }

    def test_is_held_or_not(self, version: str) -> None:
        assert [job.id for job in jobs(version).values() if job.is_held] == [6, 11]
        assert jobs(version)[6].restarts == 1

    def test_shares_its_nodes_unless_it_said_that_it_does_not(self, version: str) -> None:
        assert [job.id for job in jobs(version).values() if job.exclusive] == [9]

    def test_has_a_limit_or_none(self, version: str) -> None:
        assert jobs(version)[4].time_limit_min == 90
        assert jobs(version)[9].time_limit_min is None

    def test_carries_its_comment_and_its_name(self, version: str) -> None:
        first = jobs(version)[1]
        assert (first.comment, first.name) == (
            "leasehold 0123456789ab lease 7.1",
            "leasehold-7.1-0123456789ab",
        )


def test_a_controller_that_is_down_is_not_an_empty_cluster() -> None:
    with pytest.raises(BadReply, match="slurm_load_jobs: Failed while looking for jobs"):
        read_jobs(reply("squeue-22.05-controller-down.json"))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"errors": []}', '{"errors": [], "jobs": [{}]}'])
def test_what_is_no_reply_is_not_an_empty_cluster(text: str) -> None:
    with pytest.raises(BadReply):
        read_jobs(text)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING", "CONFIGURING"], JobState.CONFIGURING),
        (["COMPLETED", "COMPLETING"], JobState.COMPLETING),
        (["PENDING", "REQUEUED", "COMPLETING"], JobState.COMPLETING),
        (["SUSPENDED"], JobState.SUSPENDED),
        (["RUNNING", "STOPPED"], JobState.RUNNING),
        (["PENDING", "SPECIAL_EXIT"], JobState.PENDING),
        (["OUT_OF_MEMORY"], JobState.FINISHED),
        (["NODE_FAIL"], JobState.FINISHED),
        (["TIMEOUT"], JobState.FINISHED),
    ],
)
def test_of_several_words_the_one_counts_that_says_most(words: list[str], state: JobState) -> None:
    assert Job(1, tuple(words)).state is state
    (job,) = read_jobs(changed(job_state=words))
    assert job.state is state


def test_a_comment_may_be_one_of_three() -> None:
    comment = {"administrator": "", "job": "leasehold 0123456789ab lease 7.1", "system": ""}
    (job,) = read_jobs(changed(comment=comment))
    assert job.comment == "leasehold 0123456789ab lease 7.1"


def test_where_nodes_are_not_told_one_by_one_each_has_as_much() -> None:
    (job,) = read_jobs(changed(nodes="n[1-3]", cpus=7, job_resources={"allocated_nodes": None}))
    assert job.cpus_by_node == {"n1": 3, "n2": 3, "n3": 3}


def test_cores_with_two_threads_are_two_cpus() -> None:
    sockets = {"0": {"cores": {"0": "allocated", "1": "allocated"}}}
    resources = {"allocated_nodes": [{"nodename": "n1", "sockets": sockets}]}
    (job,) = read_jobs(changed(nodes="n1", cpus=4, job_resources=resources))
    assert job.cpus_by_node == {"n1": 4}


def test_nodes_and_time_limits() -> None:
    nodes = read_nodes(reply("nodes-22.05.txt"))
    assert list(nodes) == ["alpha1", "alpha2", "alpha3"]
    assert nodes["alpha2"] == Node(
        "alpha2",
        4,
        2000,
        frozenset({"main"}),
        flags=("ALLOCATED",),
        booted_ms=1_795_246_897_000,
        address="127.0.0.1",
        port=6818,
    )
    assert nodes["alpha3"].free_cpus == 1
    assert read_time_limits(reply("partitions-22.05.txt"))["main"] is None


@pytest.mark.parametrize(
    ("said", "minutes"),
    [("1-00:00:00", 1440), ("02:30:00", 150), ("00:00:30", 1), ("UNLIMITED", None), ("INFINITE", None)],
)
def test_the_longest_time_of_a_partition(said: str, minutes: int | None) -> None:
    line = f"PartitionName=short Default=NO MaxTime={said} MinNodes=0\n"
    assert read_time_limits(line)["short"] == minutes


@pytest.mark.parametrize(
    ("state", "takes_jobs"),
    [
        ("IDLE", True),
        ("MIXED", True),
        ("MIXED+COMPLETING", True),
        ("IDLE+DRAIN", False),
        ("MIXED+DRAIN", False),
        ("DOWN*", False),
        ("IDLE*", False),
        ("IDLE+NOT_RESPONDING", False),
    ],
)
def test_nodes_that_are_drained_or_down_take_no_jobs(state: str, *, takes_jobs: bool) -> None:
    line = f"NodeName=n1 CPUTot=4 RealMemory=2000 State={state} ThreadsPerCore=1\n"
    assert read_nodes(line)["n1"].takes_jobs is takes_jobs


def test_what_says_nothing_of_nodes_is_no_list_of_nodes() -> None:
    with pytest.raises(BadReply, match="without NodeName"):
        read_nodes("PartitionName=main\n")


@pytest.mark.parametrize(
    ("said", "gives"),
    [("CR_CORE", False), ("CR_CORE_MEMORY", True), ("CR_CPU_MEMORY,CR_LLN", True), ("NONE", False)],
)
def test_whether_memory_is_given_out(said: str, *, gives: bool) -> None:
    config = f"SelectType              = select/cons_tres\nSelectTypeParameters    = {said}\nDefMemPerNode=1\n"
    assert memory_is_consumable(config) is gives
