"""Jobs over HTTP: asked for, explained, looked at, taken back, and what came of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import House
from tests.service.api.job_house import asked, furnished, over, submit

from leasehold.service.auth.principal import Role


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own."""
    with furnished(tmp_path) as house:
        yield house


@pytest.fixture(scope="module")
def still_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all tests in which nothing comes to be."""
    with furnished(tmp_path_factory.mktemp("house")) as house:
        yield house


# Asking for one


def test_a_job_runs_on_a_node_that_has_what_it_needs(house: House) -> None:
    token = house.token()
    answer = house.ask("POST", "/v1/jobs", token, json=asked(software=["gcc >= 12"], name="survey"))
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
    (attempt,) = job["attempts"]
    assert (attempt["site"], attempt["virtual"], attempt["number"]) == ("das3", False, 1)
    assert attempt["nodes"][0] in {"das3/n1", "das3/n2"}
    told = {"name": "survey", "consumer": "physics", "type": "suspendable", "backup": "none", "restarts": 3}
    assert {name: job[name] for name in told} == told
    assert job["needs"] == {
        "cores": 1, "memory_mib": 256, "disk_mib": 0, "cpu_mhz": 0, "gpus": "", "nodes": 1, "need": 0,
        "software": ["gcc >= 12"],
        "inputs": [], "execution_s": 60,
    }  # fmt: skip
    lease = house.ask("GET", f"/v1/leases/{attempt['lease']}", token).json()
    assert (lease["job"], lease["site"]) == (job["id"], "das3")


def test_its_result_is_told_once_it_is_over(house: House) -> None:
    token = house.token()
    job = submit(house, token, command=["echo", "forty-two"], software=["gcc"])
    done = over(house, token, job["id"])
    assert (done["state"], done["reason"], done["exit_status"]) == ("completed", "completed", 0)
    result = house.ask("GET", f"/v1/jobs/{job['id']}/result", token).json()
    assert result == {
        "job": job["id"], "attempt": 1, "exit_status": 0, "output": "forty-two\n", "error": "", "files": [],
        "is_whole": True, "is_kept": True
    }  # fmt: skip


def test_a_job_whose_own_code_fails_has_a_result_too_and_is_not_tried_again(house: House) -> None:
    token = house.token()
    job = submit(house, token, command=["sh", "-c", "echo no; echo why >&2; exit 3"], software=["gcc"])
    done = over(house, token, job["id"])
    assert (done["state"], done["reason"], done["exit_status"]) == ("failed", "job-error", 3)
    assert [attempt["fault"] for attempt in done["attempts"]] == ["job-error"]
    result = house.ask("GET", f"/v1/jobs/{job['id']}/result", token).json()
    assert (result["exit_status"], result["output"], result["error"]) == (3, "no\n", "why\n")
    log = house.ask("GET", f"/v1/jobs/{job['id']}/output", token).json()
    assert log == {
        "job": job["id"], "attempt": 1, "output": "no\n", "error": "why\n", "is_whole": True, "is_over": True
    }  # fmt: skip


def test_what_a_job_has_written_is_read_before_it_is_over(house: House) -> None:
    token = house.token()
    job = submit(house, token, command=["sleep", "3600"])
    log = house.ask("GET", f"/v1/jobs/{job['id']}/output", token).json()
    assert (log["output"], log["is_over"]) == ("", False)
    assert house.ask("GET", f"/v1/jobs/{job['id']}/output", house.token(consumer="chemistry")).status_code == 404


def test_its_variables_are_found_by_the_command(house: House) -> None:
    token = house.token()
    command = ["sh", "-c", "printenv GREETING; printenv EMPTY; printenv MISSING"]
    job = submit(house, token, command=command, environment={"GREETING": "good day", "EMPTY": ""})
    assert (job["command"], job["environment"]) == (command, {"GREETING": "good day", "EMPTY": ""})
    assert over(house, token, job["id"])["exit_status"] == 1
    assert house.ask("GET", f"/v1/jobs/{job['id']}/result", token).json()["output"] == "good day\n\n"


def test_an_array_is_one_job_for_each_index(house: House) -> None:
    token, key = house.token(), {"Idempotency-Key": "all-of-them"}
    said = asked(command=["sh", "-c", "printenv LEASEHOLD_ARRAY_ID; printenv LEASEHOLD_ARRAY_INDEX"], array=[9, 2, 4])
    first, again = (house.ask("POST", "/v1/jobs", token, json=said, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    number = first.json()["id"]
    other = submit(house, token)
    assert other["array"] is None
    jobs = house.ask("GET", f"/v1/jobs?array={number}", token).json()["jobs"]
    assert [(job["id"], job["array"], job["array_index"]) for job in jobs] == [
        (number + 2, number, 9), (number + 1, number, 4), (number, number, 2)
    ]  # fmt: skip
    for job in jobs:
        assert over(house, token, job["id"])["state"] == "completed"
        result = house.ask("GET", f"/v1/jobs/{job['id']}/result", token).json()
        assert result["output"].split() == [str(number), str(job["array_index"])]


def test_there_is_no_result_before_there_is_one(house: House) -> None:
    token = house.token()
    job = submit(house, token, command=["sleep", "3600"])
    answer = house.ask("GET", f"/v1/jobs/{job['id']}/result", token)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:leasehold:problem:no-result")
    assert answer.json()["detail"].endswith("and has no result")


def test_a_job_that_can_run_nowhere_is_refused_with_what_is_lacking_and_no_error(house: House) -> None:
    job = submit(house, house.token(), software=["matlab >= 9"])
    assert (job["state"], job["reason"]) == ("refused", "never-here")
    assert job["explanation"].startswith("cannot run anywhere here: ")
    assert job["attempts"] == []


def test_everything_that_can_be_said_of_one(house: House) -> None:
    said: dict[str, Any] = {
        "cores": 2, "memory_mib": 20_000, "disk_mib": 5, "cpu_mhz": 2000, "gpus": "", "nodes": 1, "need": 1,
        "inputs": [{"name": "sky.fits", "size_bytes": 7, "place": "lyon", "sha256": None}], "execution_s": 1.5,
        "software": [],
        "deadline": "2126-11-21T18:00:00Z", "reliability": 0.5, "backup": "cold", "type": "cancelable",
        "restarts": 0, "name": "sky", "group": "astro",
    }  # fmt: skip
    job = submit(house, house.token(groups=("theory", "astro")), **said)
    for name in ("backup", "type", "restarts", "name", "group", "reliability"):
        assert job[name] == said[name]
    needs = {
        "cores", "memory_mib", "disk_mib", "cpu_mhz", "gpus", "nodes", "need", "software", "inputs", "execution_s"
    }  # fmt: skip
    assert job["needs"] == {name: said[name] for name in needs}
    assert job["deadline"] == "2126-11-21T18:00:00.000Z"
    assert job["attempts"][0]["nodes"] == ["lyon/n1"]


def test_the_same_key_gets_the_same_job(house: House) -> None:
    token, key = house.token(), {"Idempotency-Key": "once"}
    first, again = (house.ask("POST", "/v1/jobs", token, json=asked(), headers=key) for _ in range(2))
    spelled = house.ask("POST", "/v1/jobs", token, json=asked(cores=1, nodes=1), headers=key)
    assert (first.status_code, again.status_code, spelled.status_code) == (201, 200, 200)
    assert first.json()["id"] == again.json()["id"] == spelled.json()["id"]
    assert house.ask("POST", "/v1/jobs", token, json=asked(cores=2), headers=key).status_code == 409


# What would become of one


def test_what_would_become_of_a_job_and_what_each_node_says(still_house: House) -> None:
    token = still_house.token()
    told = still_house.ask("POST", "/v1/jobs/plan", token, json=asked(software=["gcc >= 12"])).json()
    assert (told["state"], told["reason"]) == ("running", "runs-on-nodes")
    (place,) = told["places"]
    assert (place["site"], place["virtual"], place["image"], place["builds"]) == ("das3", False, "", [])
    says = {one["nodes"][0]: one for one in told["groups"]}
    assert says["das3/n1"]["as_node"]["answer"] == "fit"
    assert says["das3/n1"]["as_host"] is None
    assert (says["das3/n1"]["site"], says["das3/n1"]["problem"]) == ("das3", "")
    assert says["lyon/n1"]["as_node"] == {
        "answer": "never", "reason": "software-not-there", "what": "gcc >= 12",
        "explanation": "lacks the required software",
    }  # fmt: skip
    assert still_house.ask("GET", "/v1/jobs", token).json()["jobs"] == []


def test_what_a_machine_would_take(still_house: House) -> None:
    said = asked(software=["python3-numpy >= 1.24"])
    told = still_house.ask("POST", "/v1/jobs/plan", still_house.token(), json=said).json()
    assert (told["state"], told["reason"]) == ("building", "image-is-built")
    (place,) = told["places"]
    assert (place["nodes"], place["virtual"]) == (["lyon/n1"], True)
    assert place["builds"] == ["python3-numpy 1:1.26.4-3"]


def test_what_would_be_refused(still_house: House) -> None:
    told = still_house.ask("POST", "/v1/jobs/plan", still_house.token(), json=asked(memory_mib=10**6)).json()
    assert (told["state"], told["places"]) == ("refused", [])
    assert sum(one["count"] for one in told["groups"]) == 3


def test_machines_that_are_larger_than_any_node_are_refused_and_the_largest_is_named(
    still_house: House,
) -> None:
    """They could never be there, and would be planned for as if they could."""
    token = still_house.token()

    def answer(memory_mib: int) -> tuple[int, str]:
        said = {"type": "suspendable", "vms": 1, "duration_s": 60, "memory_mib": memory_mib}
        told = still_house.ask("POST", "/v1/leases", token, json=said)
        return told.status_code, told.json().get("detail", "")

    assert answer(65_536)[0] == 201
    status, detail = answer(65_537)
    assert status == 422
    assert "memory_mib: got 65537, expected at most 65536: no node is larger than lyon/n1" in detail


# Looking at them, and taking one back


def test_everybody_sees_their_own_the_newest_first_page_by_page(house: House) -> None:
    mine, others = house.token(), house.token(consumer="climate")
    first, second = submit(house, mine)["id"], submit(house, mine, command=["sleep", "3600"])["id"]
    submit(house, others)
    listed = house.ask("GET", "/v1/jobs?limit=1", mine)
    assert [one["id"] for one in listed.json()["jobs"]] == [second]
    assert 'rel="next"' in listed.headers["Link"]
    following = house.ask("GET", f"/v1/jobs?cursor={listed.json()['next']}", mine).json()
    assert ([one["id"] for one in following["jobs"]], following["next"]) == ([first], None)


def test_jobs_are_chosen_by_state_site_consumer_time_and_whether_they_are_open(house: House) -> None:
    admin = house.token(Role.FEDERATION_ADMIN, consumer="operator")
    refused = submit(house, admin, software=["matlab"])["id"]
    runs = submit(house, admin, command=["sleep", "3600"], software=["gcc"])["id"]
    for query, found in (
        ("state=refused", [refused]),
        ("site=das3", [runs]),
        ("site=lyon", []),
        ("open=true", [runs]),
        ("open=false", [refused]),
        ("consumer=climate", []),
        ("since=2126-01-01T00:00:00Z", []),
        ("", [runs, refused]),
    ):
        listed = house.ask("GET", f"/v1/jobs?{query}", admin).json()["jobs"]
        assert [one["id"] for one in listed] == found, query


def test_who_takes_a_job_back_takes_its_attempts_back(house: House) -> None:
    token = house.token()
    job = submit(house, token, command=["sleep", "3600"], software=["gcc"])
    answer = house.ask("DELETE", f"/v1/jobs/{job['id']}", token)
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert answer.json()["reason"] == "cancelled-by-user"
    again = house.ask("DELETE", f"/v1/jobs/{job['id']}", token).json()
    assert (again["state"], again["ended_at"]) == ("cancelled", answer.json()["ended_at"])


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("GET", "/result")])
def test_what_is_not_there_and_what_is_anothers_look_alike(house: House, method: str, path: str) -> None:
    others = submit(house, house.token(consumer="climate"))["id"]
    for number in (77, others):
        answer = house.ask(method, f"/v1/jobs/{number}{path}", house.token())
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:leasehold:problem:no-such-job")


def test_an_operator_sees_and_ends_what_was_tried_at_the_site(house: House) -> None:
    here = submit(house, house.token(), command=["sleep", "3600"], software=["gcc"])["id"]
    there = submit(house, house.token(), command=["sleep", "3600"], memory_mib=20_000)["id"]
    operator = house.token(Role.SITE_OPERATOR, consumer="operator", sites=("das3",))
    listed = house.ask("GET", "/v1/jobs", operator).json()["jobs"]
    assert [one["id"] for one in listed] == [here]
    assert house.ask("GET", f"/v1/jobs/{there}", operator).status_code == 404
    assert house.ask("DELETE", f"/v1/jobs/{here}", operator).json()["state"] == "cancelled"


def test_the_journal_of_an_attempt_and_the_changes_tell_of_the_job(house: House) -> None:
    token = house.token()
    with house.stream("/v1/changes?after=0", token) as stream:
        job = submit(house, token, command=["true"], software=["gcc"])
        over(house, token, job["id"])
        told = stream.changes(3)
    assert {one["job"] for one in told} == {job["id"]}
    assert all(one["explanation"] for one in told if one["reason"])


def test_what_is_shown_of_needs_can_be_asked_for_again(house: House) -> None:
    job = submit(house, house.token(), software=["gcc"])
    again = {name: job["needs"][name] for name in job["needs"]} | {"command": job["command"]}
    assert house.ask("POST", "/v1/jobs", house.token(), json=again).status_code == 201
