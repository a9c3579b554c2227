"""The submission form: one page with all that it needs in it, for everybody, and for all that can be said."""

import re
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from tests.service.api.house import House

from leasehold.jobs.job import FAULT_SENTENCES, Backup, Fault
from leasehold.matching.software import OPERATORS
from leasehold.model.request import LEASE_TYPES
from leasehold.protocol.jobs import JobSpec
from leasehold.service.api.form.page import headers, page

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
    return page().split("<script>")[1].split("</script>")[0]


def test_it_is_open_to_all_and_runs_nothing_but_its_own(house: House) -> None:
    answer = house.ask("GET", "/form/jobs")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.text == page()
    for name, value in headers().items():
        assert answer.headers[name] == value
    policy = answer.headers["Content-Security-Policy"]
    style = page().split("<style>")[1].split("</style>")[0]
    for source, text in (("script-src", script()), ("style-src", style)):
        told = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{source} 'sha256-{told}'" in policy
    assert "connect-src 'self'" in policy
    assert "default-src 'none'" in policy


def test_nothing_in_it_comes_from_elsewhere(reading: Reading) -> None:
    links = [value for _, one in reading.elements for name, value in one.items() if name in {"src", "href"}]
    assert set(links) == {"data:,", "/v1/openapi.json"}
    assert "url(" not in page()
    assert "@import" not in page()
    assert not [one for _, one in reading.elements if any(name.startswith("on") or name == "style" for name in one)]


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
    assert "prefers-color-scheme: dark" in page()
    assert "prefers-reduced-motion: no-preference" in page()


# What the fields mean

FILLED: dict[str, str | list[str]] = {
    "command": "python3 -c 'print(1)'",
    "name": " survey ",
    "group": "",
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
