"""Jobs, through both clients."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from tests.client.gateway import MOMENT, Gateway, Reply, attempt, job, problem
from tests.client.talking import Talk

from leasehold.client import BadResponse, NotFound
from leasehold.client.watching import LATEST_S, SOONEST_S, Looks
from leasehold.model.errors import InvalidField
from leasehold.protocol.jobs import Job, JobFilter, JobSpec
from leasehold.protocol.nodes import NodeFilter

NODE = {
    "name": "das3/n1", "site": "das3", "cores": 8, "free_cores": 6, "memory_mib": 16_384,
    "free_memory_mib": 12_288, "disk_mib": 9, "free_disk_mib": 8, "cpu_mhz": 2400, "bytes_per_s": 0,
    "gpus": 0, "gpu_shares": 1, "free_gpus": [], "gpu_model": "",
    "software": ["gcc 12.2"], "packages": 1, "is_host": True, "runs": True, "takes_files": True,
    "problem": "", "fault": "",
    "failures": 1, "failed_at": MOMENT, "first_seen_at": MOMENT, "seen_at": MOMENT,
}  # fmt: skip


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again without a pause."""
    monkeypatch.setattr("leasehold.client.watching.SOONEST_S", 0.0)


def test_a_job_is_asked_for_with_what_is_said_alone(talk: Talk, gateway: Gateway) -> None:
    gateway.answer("POST", "/v1/jobs", Reply(201, job()))
    deadline = datetime(2026, 11, 21, 18, tzinfo=UTC)
    spec = JobSpec(command=["a", ""], execution_s=60, software=["gcc"], group=None, deadline=deadline)
    found = talk("jobs.submit", spec)
    asked = gateway.asked[0]
    assert asked.body == {
        "command": ["a", ""], "execution_s": 60, "software": ["gcc"], "deadline": "2026-11-21T18:00:00.000Z"
    }  # fmt: skip
    assert asked.headers["idempotency-key"]
    assert (found.id, found.needs.software, found.attempts[0].nodes) == (
        7,
        ("python3-numpy >= 1.24",),
        ("das3/n1",),
    )
    assert found.to_json() == job()


def test_a_deadline_without_its_zone_is_refused() -> None:
    with pytest.raises(InvalidField, match=r"deadline: got .*, expected a time with its zone"):
        JobSpec(command=["a"], execution_s=1, deadline=datetime(2026, 11, 21))  # noqa: DTZ001


def test_one_is_looked_at_taken_back_and_gives_its_result(talk: Talk, gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/jobs/7", Reply(body=job()))
    gateway.answer("DELETE", "/v1/jobs/7", Reply(body=job(state="cancelled", ended_at=MOMENT)))
    told = {
        "job": 7,
        "attempt": 2,
        "exit_status": 3,
        "output": "no\n",
        "error": "",
        "files": [],
        "is_whole": False,
        "is_kept": False,
    }
    gateway.answer("GET", "/v1/jobs/7/result", Reply(body=told))
    assert not talk("jobs.get", 7).is_over
    assert talk("jobs.cancel", 7).is_over
    assert talk("jobs.result", 7).to_json() == told


def test_there_is_no_result_yet(talk: Talk, gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/jobs/7/result", problem(404, "no-result", "job 7 is running, and has no result"))
    with pytest.raises(NotFound, match="job 7 is running, and has no result") as caught:
        talk("jobs.result", 7)
    assert caught.value.problem.slug == "no-result"


def test_jobs_come_page_by_page(talk: Talk, gateway: Gateway) -> None:
    pages = [Reply(body={"jobs": [job(9)], "next": "more"}), Reply(body={"jobs": [job(8)], "next": None})]
    gateway.answer("GET", "/v1/jobs", *pages)
    found = talk("jobs.list", JobFilter.of(state=["running"], site="das3", open=True))
    assert [one.id for one in found] == [9, 8]
    assert gateway.asked[0].query == [
        ("state", "running"), ("site", "das3"), ("open", "true"), ("limit", "1000")
    ]  # fmt: skip
    assert gateway.asked[1].query[-1] == ("cursor", "more")


def test_one_is_followed_until_it_is_over_and_told_when_it_stands_differently(talk: Talk, gateway: Gateway) -> None:
    over = job(state="completed", ended_at=MOMENT, attempts=[attempt(state="succeeded", exit_status=0)])
    steps = [Reply(body=job()), Reply(body=job()), Reply(body=job(name="other")), Reply(body=over)]
    gateway.answer("GET", "/v1/jobs/7", *steps)
    told = talk("jobs.follow", 7)
    assert [(one.state, one.name) for one in told] == [
        ("running", "survey"), ("running", "other"), ("completed", "survey")
    ]  # fmt: skip
    assert talk("jobs.wait", 7).state == "completed"


def test_what_would_become_of_one(talk: Talk, gateway: Gateway) -> None:
    said = {"answer": "never", "reason": "too-few-cores", "explanation": "has fewer cores", "what": ""}
    place = {
        "site": "das3", "nodes": ["das3/n1"], "image": "", "virtual": True, "builds": ["gcc 12"],
        "reason": "no-physical-node", "explanation": "gets a virtual machine",
    }  # fmt: skip
    group = {
        "site": "das3", "nodes": ["das3/n1"], "count": 1, "problem": "", "as_node": said, "as_host": None
    }  # fmt: skip
    outcome = {
        "verdict": "with-consequences", "consequences": ["builds"], "lease": None,
        "state": "building", "reason": "image-is-built", "explanation": "waits", "what": "k", "surest": 0.99,
    }  # fmt: skip
    other: dict[str, Any] = {
        "change": "memory", "nodes": None, "cores": None, "memory_mib": 512, "gpus": None, "execution_s": None,
        "type": None, "software": [], "outcome": outcome,
    }  # fmt: skip
    told = {**outcome, "places": [place], "groups": [group], "alternatives": [other], "untried": 2, "elsewhere": None}
    gateway.answer("POST", "/v1/jobs/plan", Reply(body=told))
    assert talk("jobs.plan", JobSpec(command=["a"], execution_s=1)).to_json() == told


def test_nodes_and_images(talk: Talk, gateway: Gateway) -> None:
    image = {
        "name": "debian", "site": "das3", "state": "there", "software": ["python3 3.13"], "packages": [],
        "size_bytes": 9, "least_memory_mib": 256, "problem": "", "since": MOMENT, "seen_at": MOMENT,
    }  # fmt: skip
    gateway.answer("GET", "/v1/nodes", Reply(body={"nodes": [NODE], "next": None}))
    gateway.answer("GET", "/v1/images", Reply(body={"images": [image]}))
    which = NodeFilter(site="das3", software=["gcc >= 12"], brief=True)
    assert [node.to_json() for node in talk("nodes.list", which)] == [NODE]
    assert gateway.asked[0].query == [
        ("site", "das3"), ("software", "gcc >= 12"), ("brief", "true"), ("limit", "1000")
    ]  # fmt: skip
    assert [one.to_json() for one in talk("images.list")] == [image]


def test_an_answer_that_is_no_job_is_told_as_one(talk: Talk, gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/jobs/7", Reply(body={"id": 7}))
    with pytest.raises(BadResponse, match="is not a valid Job: state: missing"):
        talk("jobs.get", 7)


def test_it_is_looked_at_often_after_news_and_more_rarely_after_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    looks, seen = Looks(7), Job.model_validate(job())
    assert looks.is_news(seen)
    assert looks.pause_s() == SOONEST_S
    pauses = [looks.pause_s() for _ in range(20) if not looks.is_news(seen)]
    assert all(sooner <= later for sooner, later in pairwise(pauses))
    assert pauses[-1] == LATEST_S
    assert looks.is_news(Job.model_validate(job(state="failed")))
    assert looks.pause_s() == SOONEST_S
