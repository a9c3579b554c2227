"""Jobs that make no sense, in JSON and in XML, each said with its field; and XML that does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import House
from tests.service.api.job_house import asked, furnished


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


@pytest.mark.parametrize(
    ("said", "field", "expected"),
    [
        ({"cores": 0}, "cores", "at least 1"),
        ({"cores": "2"}, "cores", "a whole number"),
        ({"memory_mib": 0}, "memory_mib", "at least 1"),
        ({"command": []}, "command", "at least 1 item"),
        ({"execution_s": 0}, "execution_s", "more than 0"),
        ({"execution_s": None}, "execution_s", "a number of seconds"),
        ({"software": ["gcc", "numpy => 1"]}, "software[1]", "one of !=, <, <=, ==, >, >=, ~="),
        ({"software": ["numpy >= new"]}, "software[0]", "a version such as 1.2.3"),
        ({"software": ["!"]}, "software[0]", "a name, and constraints"),
        ({"software": ["numpy ~= 3"]}, "software[0]", "at least two numbers after ~="),
        ({"inputs": [{"name": "a"}]}, "inputs[0].size_bytes", "a value"),
        ({"inputs": [{"name": "a", "size_bytes": -1}]}, "inputs[0].size_bytes", "at least 0"),
        ({"reliability": 1}, "reliability", "less than 1"),
        ({"reliability": 0.9}, "deadline", "a time: reliability is the probability of ending by then"),
        ({"deadline": "2020-01-01T00:00:00Z"}, "deadline", "a time after its submission"),
        ({"deadline": "18:00"}, "deadline", "a time with its zone"),
        ({"backup": "warm"}, "backup", "'none', 'cold' or 'hot'"),
        ({"restarts": -1}, "restarts", "at least 0"),
        ({"memory": 1}, "memory", "did you mean 'memory_mib'"),
        ({"type": "best-effort"}, "type", "'cancelable'"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_field(
    still_house: House, said: dict[str, Any], field: str, expected: str
) -> None:
    for path in ("/v1/jobs", "/v1/jobs/plan"):
        answer = still_house.ask("POST", path, still_house.token(), json=asked(**said))
        told = answer.json()
        assert (answer.status_code, told["field"]) == (422, field), told
        assert expected in told["expected"]
        assert "\n" not in told["detail"]
        assert not re.search(r"\d{10}", told["detail"]), "a time is in ISO, not in milliseconds"


def test_a_group_of_others_cannot_be_asked_for(still_house: House) -> None:
    answer = still_house.ask("POST", "/v1/jobs", still_house.token(), json=asked(group="lattice"))
    assert answer.status_code == 403
    assert "lease.submit-in-group" in answer.json()["detail"]


# The same in XML

XML = {"Content-Type": "application/xml; charset=utf-8"}
JSDL = """<JobDefinition xmlns="http://schemas.ggf.org/jsdl/2005/11/jsdl">
<JobDescription><JobIdentification><JobName>survey</JobName></JobIdentification>
<Application><POSIXApplication xmlns="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix">
<Executable>true</Executable></POSIXApplication></Application>
<Resources><IndividualCPUCount><LowerBoundedRange>2</LowerBoundedRange></IndividualCPUCount></Resources>
<ExecutionTime>1m</ExecutionTime><Deadline>2126-11-21T18:00:00Z</Deadline></JobDescription></JobDefinition>"""


def test_a_job_may_come_as_xml_and_is_the_same(house: House) -> None:
    token, key = house.token(), {"Idempotency-Key": "k"}
    first = house.ask("POST", "/v1/jobs", token, content=JSDL, headers=XML | key)
    assert first.status_code == 201, first.text
    assert (first.json()["name"], first.json()["needs"]["cores"]) == ("survey", 2)
    said = asked(name="survey", cores=2, deadline="2126-11-21T18:00:00Z")
    again = house.ask("POST", "/v1/jobs", token, json=said, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert house.ask("POST", "/v1/jobs/plan", token, content=JSDL, headers=XML).status_code == 200


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        (JSDL.replace(">2<", ">0<"), "IndividualCPUCount.LowerBoundedRange", "a whole number from 1"),
        (JSDL.replace("2126-", "x"), "Deadline", "a time with its zone"),
        (
            JSDL.replace("<Resources>", "<DataStaging><FileName>a</FileName></DataStaging><Resources>"),
            "DataStaging[0].FileName",
            "a Size as well: the gateway does not see the files of its callers",
        ),
        ("<JobDefinition>", "body", "a description of a job in XML: line 1 is not valid XML: no element found"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "body", "has a document type declaration"),
        ("{}", "body", "is not valid XML"),
        (b"\xff\xfe<", "body", "XML in UTF-8"),
        (JSDL.replace("<ExecutionTime>1m", "<ExecutionTime>99999d"), "ExecutionTime", "at most"),
    ],
)
def test_xml_that_describes_no_job_is_refused(still_house: House, text: str | bytes, field: str, expected: str) -> None:
    answer = still_house.ask("POST", "/v1/jobs", still_house.token(), content=text, headers=XML)
    told = answer.json()
    assert (answer.status_code, told["field"]) == (422, field), told
    assert expected in told["expected"]


def test_xml_is_for_jobs_alone(still_house: House) -> None:
    for path, content in (("/v1/leases", "<a/>"), ("/v1/jobs", "a: 1")):
        kind = {"Content-Type": "application/xml" if path == "/v1/leases" else "text/yaml"}
        answer = still_house.ask("POST", path, still_house.token(), content=content, headers=kind)
        assert answer.status_code == 415
