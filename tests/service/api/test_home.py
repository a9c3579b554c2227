"""The page at / as a browser gets it: without a script, by rights, and readable where something is wrong."""

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import SETTINGS, House, house_in

from leasehold.service.api.routers.home import OPEN_PAGES
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.principal import Role
from leasehold.service.engine.engine import Engine
from leasehold.service.sites import Held, held_now
from leasehold.service.store.filters import EVERYTHING

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Page(HTMLParser):
    """What is in a page: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said.append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(filter(None, self.said))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def get(house: House, path: str = "/", token: str = "") -> Any:
    return house.ask("GET", path, token, headers=HTML)


def show(house: House, token: str) -> Any:
    return house.ask("POST", "/", headers=HTML | FORM, content=f"token={token}")


def test_it_says_what_this_is_and_how_the_sites_are(house: House) -> None:
    answer = get(house)
    assert answer.status_code == 200
    page = Page(answer.text)
    assert "1.2.3" in page.text
    for said in ("das3", "lyon", "64 VMs", "32 VMs", "up", "own users 0", "free 64"):
        assert said in page.text
    links = {one["href"] for one in page.named("a")}
    assert {"/form/jobs", "/docs", "/v1/openapi.json"} <= links
    assert [get(house, str(link)).status_code for link in links] == [200] * len(links)


def test_it_needs_no_script_and_loads_nothing(house: House) -> None:
    for path in ("/", "/docs", "/nowhere"):
        answer = get(house, path)
        page = Page(answer.text)
        assert not page.named("script")
        assert not any(name.startswith("on") or name == "style" for _, one in page.tags for name in one)
        assert not [one for tag, one in page.tags if tag in {"img", "iframe", "object"} or "src" in one]
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert "script-src" not in policy
        [style] = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
        assert policy["style-src"] == f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'"


def test_whoever_shows_a_token_sees_who_holds_what_by_rights(house: House) -> None:
    mine, theirs = house.token(consumer="physics"), house.token(consumer="climate", groups=("astro",))
    for token, vms in ((mine, 5), (theirs, 7)):
        house.submit(token, type="suspendable", vms=vms, duration_s=3600)
    anonymous = Page(get(house).text).text
    assert "suspendable 12" in anonymous or "suspendable 5" in anonymous
    assert "physics" not in anonymous
    assert "climate" not in anonymous
    own = Page(show(house, mine).text).text
    assert "physics" in own
    assert "climate" not in own
    assert "others" in own
    everything = Page(show(house, house.token(Role.FEDERATION_ADMIN, consumer="chief")).text).text
    assert "physics" in everything
    assert "climate astro 7 1" in everything
    manager = house.token(Role.MEMBER, Role.GROUP_MANAGER, consumer="boss", groups=("astro",))
    assert "climate astro 7 1" in Page(show(house, manager).text).text


def test_the_bars_add_up_to_the_site(house: House) -> None:
    token = house.token()
    for kind in ("suspendable", "cancelable"):
        house.submit(token, type=kind, vms=3, duration_s=3600)
    text = show(house, token).text
    for slots, bar in re.findall(r'<svg class="bar" viewBox="0 0 (\d+) 1".*?>(.*?)</svg>', text):
        widths = [int(width) for width in re.findall(r'width="(\d+)"', bar)]
        begins = [int(begin) for begin in re.findall(r' x="(\d+)"', bar)]
        assert sum(widths) == int(slots)
        assert begins == [sum(widths[:place]) for place in range(len(widths))]


@pytest.mark.parametrize("token", ["", "lh_x", "nonsense", "a\r\nX: y", "\N{SNOWMAN}", "x" * 20_000])
def test_a_token_that_is_not_good_is_said_so_and_never_shown(house: House, token: str) -> None:
    answer = show(house, token)
    assert answer.status_code in (400, 401)
    page = Page(answer.text)
    assert len(page.named("form")) == 1
    assert 'role="alert"' in answer.text
    assert len(token) < 4 or token not in answer.text


def test_what_others_wrote_is_text_and_not_markup(house: House) -> None:
    token = house.token(consumer="<script>alert(1)")
    house.submit(token, type="suspendable", vms=1, duration_s=3600)
    answer = show(house, token)
    assert "<script" not in answer.text
    assert "&lt;script&gt;" in answer.text


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[House]:
    """A house whose page tells numbers only to who shows a token."""
    settings = ApiSettings(version="1.2.3", rate=SETTINGS.rate, page_needs_token=True)
    with house_in(tmp_path, settings=settings) as house:
        yield house


def test_where_it_is_closed_it_tells_nothing_of_the_sites_without_a_token(closed: House) -> None:
    page = Page(get(closed).text).text
    assert "das3" not in page
    assert "Show a token" in page
    assert "das3" in Page(show(closed, closed.token()).text).text


# What a browser gets elsewhere


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/v1", 404), ("/v1/leases", 401)])
def test_problems_are_pages_for_browsers_and_json_for_programs(house: House, path: str, status: int) -> None:
    answer = get(house, path)
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "WWW-Authenticate" in answer.headers or status != 401
    program = house.ask("GET", path, headers={"Accept": "application/json"})
    assert program.status_code == status
    assert program.headers["Content-Type"] == "application/problem+json"
    assert program.json()["title"] in Page(answer.text).text


def test_an_icon_and_the_form_are_found_by_guessing(house: House) -> None:
    assert get(house, "/favicon.ico").status_code == 204
    answer = get(house, "/form")
    assert (answer.status_code, answer.headers["Location"]) == (307, "/form/jobs")


def test_every_route_of_the_interface_is_on_its_page(house: House) -> None:
    text = Page(get(house, "/docs").text).text
    for path in house.ask("GET", "/v1/openapi.json").json()["paths"]:
        assert path in text
    assert set(OPEN_PAGES) == {"/", "/docs", "/favicon.ico", "/form"}


def test_whoever_waits_is_counted_and_not_looked_at(house: House) -> None:
    class Counted(dict[int, Any]):
        def __len__(self) -> int:
            return 91_000

        def _none(self, *_: object) -> Any:
            raise AssertionError("a look at the page goes through every lease")

        __iter__ = values = items = keys = _none

    house.submit(house.token(), type="suspendable", vms=5, duration_s=3600)

    def look(engine: Engine) -> tuple[dict[str, Held], int]:
        real, engine.gateway.leases = engine.gateway.leases, Counted()
        try:
            return held_now(engine.gateway, EVERYTHING)
        finally:
            engine.gateway.leases = real

    held, waiting = house.portal.call(house.federation.ask, look)
    assert sum(site.kinds.total() for site in held.values()) == 5
    assert waiting == 90_999
