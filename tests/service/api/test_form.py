"""The submission form: one page with all that it needs in it, for everybody, and for all that can be said."""

import re
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from tests.service.api.house import House

from leasehold.configuration.job_description.description import Looking
from leasehold.configuration.job_description.documents import read_description
from leasehold.jobs.job import Backup, Fault, JobState
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


def named(name: str) -> set[str]:
    """Give the keys of an object, or the texts of a list, that the script calls so."""
    found = re.search(rf"const {name} = [{{\[](.*?)[}}\]];", script(), re.DOTALL)
    assert found is not None, name
    keys = re.findall(r"[{,\n]\s*\"?([a-z_-]+)\"?: ", "{" + found[1])
    return set(keys or re.findall(r'"([a-z-]+)"', found[1]))


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


def test_whatever_can_be_said_of_a_job_can_be_said_here_and_be_wrong_beside_it(reading: Reading) -> None:
    known = set(JobSpec.model_fields)
    assert named("PLACES") == known
    ids = {one["id"] for _, one in reading.elements if "id" in one}
    places = re.findall(r'\w+: "(\w+)"', script().split("const PLACES = {")[1].split("}")[0])
    assert {f"{place}-wrong" for place in places} <= ids
    said = script().split("const body = {")[1].split("};")[0]
    assert set(re.findall(r"^\s+(\w+):", said, re.MULTILINE)) == known


def test_its_choices_are_those_that_there_are(reading: Reading) -> None:
    values = {one["value"] for one in reading.all("option") if "value" in one}
    assert set(LEASE_TYPES) <= values
    assert {one["value"] for one in reading.all("input") if one.get("name") == "backup"} == set(Backup)
    text = page().replace("&gt;", ">").replace("&lt;", "<")
    assert set(OPERATORS) == set(re.findall(r"<code>([=!<>~]+)</code>", text))


def test_it_has_words_for_every_fault_and_knows_when_a_job_is_over() -> None:
    assert named("FAULTS") == set(Fault)
    assert named("OVER") == {state.value for state in JobState if state.is_final}


def test_it_has_both_themes_and_moves_nothing_for_who_wants_that() -> None:
    assert "prefers-color-scheme: dark" in page()
    assert "prefers-reduced-motion: no-preference" in page()


def test_the_elements_of_its_xml_are_those_that_are_read() -> None:
    """What a browser writes is not run here; that it names what is read, and in which namespaces, is."""
    names = set(re.findall(r'(?:element|group)\("(?:posix:|job:)?(\w+)"', script()))
    assert {"JobIdentification", "Executable", "IndividualCPUCount", "DataStaging", "Deadline"} <= names
    spaces = re.findall(r'xmlns(?::\w+)?="([^"]+)"', script())
    description = read_description(
        f'<JobDefinition xmlns="{spaces[0]}" xmlns:posix="{spaces[1]}" xmlns:job="{spaces[2]}">'
        "<JobDescription>"
        "<posix:Executable>a</posix:Executable><job:ExecutionTime>60</job:ExecutionTime></JobDescription>"
        "</JobDefinition>",
        "form",
        Looking(moment_ms=lambda *_: 0, size_of=lambda *_: 0),
    )
    assert description.command == ("a",)
