"""The submission form: one page with all that it needs in it, for everybody, and for all that can be said."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from tests.service.api.house import House

from leasehold.jobs.job import FAULT_SENTENCES, Backup, Fault
from leasehold.matching.software import OPERATORS
from leasehold.model.request import LEASE_TYPES
from leasehold.protocol.jobs import JobSpec
from leasehold.service.api.dashboard.pages import HEADERS, render, static


def page() -> str:
    """The page, as a member of a group gets it."""
    frame = {"version": "1.2.3", "navigation": (), "here": "/submit", "caller": None, "ready": True}
    return render("job.html", "", **frame, groups=("astro",))


EMPTY = {"link", "meta", "input", "br"}
FIELDS = {"input", "select", "textarea"}


class Reading(HTMLParser):
    """The elements of a page, each with its attributes; and whether all that opens is closed again."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.labelled_inside: list[dict[str, str]] = []
        self.feed(page())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if "label" in self.open:
            self.labelled_inside.append(attributes)
        self.elements.append((tag, attributes))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def all(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def reading() -> Reading:
    return Reading()


def script() -> str:
    found = static("jobs.js")
    assert found is not None
    return bytes(found.body).decode()


def test_it_is_for_who_may_submit_jobs_and_runs_nothing_but_its_own(house: House) -> None:
    assert house.ask("GET", "/form/jobs").headers["Location"] == "/sign-in?next=%2Fform%2Fjobs"
    answer = house.ask("GET", "/form/jobs", house.token(groups=("astro",)))
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "<option>astro</option>" in answer.text
    assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


def test_it_is_sent_in_the_session_of_the_page(house: House) -> None:
    begin = house.app.state.sessions.begin
    cookie = house.portal.call(begin, house.token())[0]
    session = {"Cookie": f"leasehold_session={cookie}"}
    for origin, status in (({"Sec-Fetch-Site": "same-origin"}, 201), ({"Sec-Fetch-Site": "cross-site"}, 403)):
        assert house.ask("POST", "/v1/jobs", data=FILLED, headers=session | origin).status_code == status


def test_the_page_is_well_formed(reading: Reading) -> None:
    assert reading.open == []
    ids = Counter(one["id"] for _, one in reading.elements if "id" in one)
    assert [name for name, count in ids.items() if count > 1] == []
    for _, one in reading.elements:
        for name in ("for", "aria-describedby", "aria-labelledby"):
            assert set(one.get(name, "").split()) <= set(ids), one
    assert set(re.findall(r'\bat\("([\w-]+)"\)', script())) <= set(ids)
    assert reading.all("html")[0]["lang"] == "en"
    assert "width=device-width" in reading.all("meta")[1]["content"]


def test_every_field_has_a_label(reading: Reading) -> None:
    labelled = {one["for"] for one in reading.all("label") if "for" in one}
    for one in reading.all(*FIELDS):
        assert one.get("id") in labelled or "aria-label" in one or one in reading.labelled_inside, one


def test_every_field_of_a_job_is_in_the_form_and_has_a_place_for_its_error(reading: Reading) -> None:
    named = {one["name"] for one in reading.all(*FIELDS) if "name" in one}
    rows = set(re.findall(r'name: "(inputs\.\w+)"', script()))
    assert named | {"inputs"} == set(JobSpec.model_fields)
    assert rows == {"inputs.name", "inputs.size_bytes", "inputs.unit", "inputs.place"}
    ids = {one["id"] for _, one in reading.elements if "id" in one}
    assert {f"{name}-wrong" for name in JobSpec.model_fields} <= ids


def test_its_choices_are_those_that_there_are(reading: Reading) -> None:
    values = {one["value"] for one in reading.all("option") if "value" in one}
    assert set(LEASE_TYPES) <= values
    assert {one["value"] for one in reading.all("input") if one.get("name") == "backup"} == set(Backup)
    text = page().replace("&gt;", ">").replace("&lt;", "<")
    assert set(OPERATORS) == set(re.findall(r"<code>([=!<>~]+)</code>", text))


def test_there_is_a_sentence_for_every_fault() -> None:
    assert set(FAULT_SENTENCES) == set(Fault)


def test_it_has_both_themes_and_moves_nothing_for_who_wants_that() -> None:
    found = static("dashboard.css")
    assert found is not None
    style = bytes(found.body).decode()
    assert "prefers-color-scheme: dark" in style
    assert "prefers-reduced-motion: no-preference" in style


# What the fields mean

FILLED: dict[str, str | list[str]] = {
    "command": "python3 -c 'print(1)'",
    "name": " survey ",
    "group": "",
    "environment": "SEED=7\nMODE=a=b\n",
    "array": "",
    "cores": "2",
    "memory_mib": ["1,5", "GiB"],
    "disk_mib": ["", "GiB"],
    "cpu_mhz": "",
    "nodes": "1",
    "software": "",
    "inputs.name": ["sky.fits", "b"],
    "inputs.size_bytes": ["0.5", "7"],
    "inputs.unit": ["KiB", "B"],
    "inputs.place": ["das3", ""],
    "execution_s": ["1.5", "minutes"],
    "deadline": "2126-11-21T18:00:00.000Z",
    "reliability": "0.9",
    "backup": "none",
    "type": "suspendable",
    "restarts": "0",
}
SAME = {
    "command": ["python3", "-c", "print(1)"],
    "name": "survey",
    "environment": {"SEED": "7", "MODE": "a=b"},
    "cores": 2,
    "memory_mib": 1536,
    "nodes": 1,
    "inputs": [{"name": "sky.fits", "size_bytes": 512, "place": "das3"}, {"name": "b", "size_bytes": 7, "place": ""}],
    "execution_s": 90,
    "deadline": "2126-11-21T18:00:00.000Z",
    "reliability": 0.9,
    "backup": "none",
    "type": "suspendable",
    "restarts": 0,
}


def test_a_form_is_the_same_job_as_its_json(house: House) -> None:
    token, key = house.token(), {"Idempotency-Key": "k"}
    first = house.ask("POST", "/v1/jobs", token, data=FILLED, headers=key)
    assert first.status_code == 201, first.text
    again = house.ask("POST", "/v1/jobs", token, json=SAME, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert house.ask("POST", "/v1/jobs/plan", token, data=FILLED).status_code == 200


@pytest.mark.parametrize(
    ("field", "typed", "expected"),
    [
        ("cores", "two", "a whole number"),
        ("cores", "1.5", "a whole number"),
        ("cores", "-1", "at least 1"),
        ("cores", "1e999999999", "a whole number"),
        ("memory_mib", ["much", "GiB"], "a whole number"),
        ("memory_mib", ["999999999999", "GiB"], "at most"),
        ("memory_mib", ["1", "parsec"], "a whole number"),
        ("execution_s", ["", "hours"], "a value"),
        ("command", "echo 'open", "words as for a shell (No closing quotation)"),
        ("command", "", "at least 1 item"),
        ("deadline", "tomorrow", "a time with its zone"),
        ("reliability", "1", "less than 1"),
        ("array", "many", "such as 1-10"),
        ("color", "red", "did you mean 'cores'"),
    ],
)
def test_what_is_wrong_in_a_form_is_reported_with_its_field(
    house: House, field: str, typed: str | list[str], expected: str
) -> None:
    answer = house.ask("POST", "/v1/jobs/plan", house.token(), data=FILLED | {field: typed})
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, field), problem
    assert expected in problem["expected"], problem


def test_all_wrong_fields_of_a_form_are_reported_at_once(house: House) -> None:
    wrong = FILLED | {"cores": "x", "inputs.size_bytes": ["1", "y"], "restarts": "-1"}
    answer = house.ask("POST", "/v1/jobs", house.token(), data=wrong)
    assert {one["field"] for one in answer.json()["errors"]} == {"cores", "inputs[1].size_bytes", "restarts"}


def test_a_body_that_is_no_form(house: House) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = house.ask("POST", "/v1/jobs", house.token(), content=b"command=%ff", headers=kind)
    assert (answer.status_code, answer.json()["field"]) == (422, "body")


def test_the_words_of_a_command(house: House) -> None:
    answer = house.ask("POST", "/form/jobs/words", house.token(), data={"command": "a 'b c' \\d"})
    assert answer.json() == ["a", "b c", "d"]


def test_its_xml_is_read_as_the_same_job(house: House) -> None:
    token = house.token()
    answer = house.ask("POST", "/form/jobs/xml", token, data=FILLED)
    assert answer.headers["Content-Type"] == "application/xml"
    xml = {"Content-Type": "application/xml"}
    jobs = [
        house.ask("POST", "/v1/jobs", token, content=answer.content, headers=xml).json(),
        house.ask("POST", "/v1/jobs", token, data=FILLED).json(),
    ]
    same = ("name", "command", "needs", "deadline", "reliability", "backup", "type", "restarts")
    assert [jobs[0][key] for key in same] == [jobs[1][key] for key in same]
