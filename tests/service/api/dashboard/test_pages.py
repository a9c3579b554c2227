"""The pages of the dashboard as a browser without scripts gets them: by rights, escaped, nothing from elsewhere."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import CONFIG, SETTINGS, House, house_in
from tests.waiting import until

from leasehold.forecasting.calibration import ENOUGH, Interval, Kind, Raw
from leasehold.protocol.fields import read_moment, unix_ms
from leasehold.service.api.dashboard.pages import STATIC_FILES, ms_of
from leasehold.service.api.routers.dashboard import NAVIGATION, OPEN_PAGES, in_order
from leasehold.service.auth.principal import Role
from leasehold.service.auth.sessions import COOKIE
from leasehold.service.engine.engine import Engine
from leasehold.service.sites import Holders, held_by, holding_now
from leasehold.service.store.filters import EVERYTHING

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
PAGES = [item.path for item in NAVIGATION] + ["/submit", "/form/jobs", "/docs", "/sign-in"]
EMPTY = frozenset({"meta", "link", "input", "br", "rect", "line", "path", "img", "hr"})


class Page(HTMLParser):
    """What is in a page: its tags with their attributes, and its text; fails where a tag is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.said: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.said.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        return " ".join(filter(None, self.said))

    def named(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name in tags]


def get(house: House, path: str = "/", token: str = "", **headers: str) -> Any:
    """Get a page, in a session where a token is given."""
    if token:
        headers |= session_of(house, token)
    return house.ask("GET", path, headers=HTML | headers)


def session_of(house: House, token: str) -> dict[str, str]:
    """Begin a session, and give the header that a browser sends from then on."""

    async def begin() -> tuple[str, int]:
        begun: tuple[str, int] = await house.app.state.sessions.begin(token)
        return begun

    return {"Cookie": f"{COOKIE}={house.portal.call(begin)[0]}"}


def signed_in(house: House, token: str) -> dict[str, str]:
    """Sign in as a browser does, and give the header that it sends from then on."""
    answer = house.ask(
        "POST", "/sign-in", data={"token": token, "next": "/queue"}, headers=HTML | {"Sec-Fetch-Site": "same-origin"}
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, "/queue")
    house.client.cookies.clear()
    cookie = answer.headers["Set-Cookie"].split(";")[0]
    return {"Cookie": cookie}


@pytest.fixture
def admin(house: House) -> str:
    return house.token(Role.FEDERATION_ADMIN, consumer="chief")


def preempted(house: House) -> tuple[int, int]:
    """Let a guest be preempted by a local request; gives both."""
    guest = house.submit(house.token(consumer="physics"), vms=60, duration_s=3600, name="sky-survey")
    running = house.running(guest["id"], house.token(consumer="physics"))
    site = running["site"]
    local = house.token(consumer="climate", sites=(site,))
    slots = {"das3": 64, "lyon": 32}[site]
    taker = house.submit(local, type=None, local=True, site=site, vms=slots, duration_s=600)
    house.running(taker["id"], local)
    return guest["id"], taker["id"]


# Every page


def test_a_page_is_whole_and_loads_nothing_from_elsewhere(house: House, admin: str) -> None:
    preempted(house)
    for path in PAGES:
        _is_whole(get(house, path, admin))


def _is_whole(answer: Any) -> None:
    assert answer.status_code == 200
    page = Page(answer.text)
    loaded = [one.get("src") or one.get("href", "") for one in page.named("script", "link", "img", "iframe")]
    assert all(one == "data:," or one.startswith("/static/") for one in loaded), loaded
    assert not [script for script in page.named("script") if "src" not in script]
    assert not any(name.startswith("on") or name == "style" for _, one in page.tags for name in one)
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
    assert answer.headers["Cache-Control"] == "no-store"
    ids = Counter(one["id"] for _, one in page.tags if "id" in one)
    assert not [name for name, count in ids.items() if count > 1]
    for _, one in page.tags:
        for name in ("for", "aria-describedby", "aria-labelledby"):
            assert set(one.get(name, "").split()) <= set(ids), one
    assert len(page.named("h1")) == 1
    assert len(page.named("title")) >= 1


def test_every_link_of_a_page_leads_somewhere(house: House, admin: str) -> None:
    preempted(house)
    links = {one["href"] for path in PAGES for one in Page(get(house, path, admin).text).named("a")}
    found = {link: get(house, link, admin).status_code for link in sorted(links) if not link.startswith("#")}
    assert set(found.values()) == {200}, {link: status for link, status in found.items() if status != 200}


def test_every_field_has_a_label(house: House, admin: str) -> None:
    for path in PAGES:
        page = Page(get(house, path, admin).text)
        labelled = {one["for"] for one in page.named("label") if "for" in one}
        radios = [one for one in page.named("input") if one.get("type") in ("radio", "hidden")]
        for one in page.named("input", "select", "textarea"):
            assert one.get("id") in labelled or "aria-label" in one or one in radios, (path, one)


def test_charts_have_the_same_numbers_as_a_table(house: House, admin: str) -> None:
    preempted(house)
    text = get(house, "/", admin).text
    for slots, bar in re.findall(r'<svg class="fill" viewBox="0 0 (\d+) 1".*?>(.*?)</svg>', text):
        widths = [int(width) for width in re.findall(r'width="(\d+)"', bar)]
        begins = [int(begin) for begin in re.findall(r' x="(\d+)"', bar)]
        assert sum(widths) == int(slots)
        assert begins == [sum(widths[:place]) for place in range(len(widths))]
    for path in ("/loans", "/history"):
        page = Page(get(house, path, admin).text)
        [chart] = [json.loads(one["data-chart"]) for one in page.named("figure")]
        assert all(len(values) == len(chart["x"]) for _, values in chart["series"])
        assert page.text.count("As a table") >= 1
    timeline = Page(get(house, "/timeline", admin).text)
    drawn = {one["href"] for one in timeline.named("a") if one.get("tabindex") == "-1"}
    listed = {one["href"] for one in timeline.named("a") if "tabindex" not in one}
    assert drawn
    assert drawn <= listed


def test_what_others_wrote_is_text_and_not_markup(house: House, admin: str) -> None:
    token = house.token(consumer="<script>alert(1)")
    lease = house.submit(token, name='"><img src=x onerror=alert(1)>', command=["<b>", "&amp;"])
    for path in ("/", "/queue", "/leases", f"/leases/{lease['id']}", "/timeline", "/decisions", "/loans", "/history"):
        text = get(house, path, admin).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "<b>" not in text.replace("<b>1", "").replace("<b>2", "") or path in ("/", "/loans")
    assert "&lt;script&gt;alert(1)" in get(house, "/leases", admin).text
    found = get(house, "/leases?consumer=%22%3E%3Cimg%3E", admin)
    assert "<img" not in found.text


# Who sees what


def test_without_a_session_sums_are_public_and_the_rest_leads_to_the_sign_in(house: House) -> None:
    house.submit(house.token(consumer="physics"), vms=5)
    page = Page(get(house).text)
    for said in ("das3", "lyon", "64 VMs", "32 VMs", "Own users delayed today"):
        assert said in page.text
    assert "suspendable 5" in page.text
    assert "physics" not in page.text
    for item in NAVIGATION[1:]:
        answer = get(house, f"{item.path}?x=1")
        assert (answer.status_code, answer.headers["Location"]) == (
            303,
            f"/sign-in?next={item.path.replace('/', '%2F')}%3Fx%3D1",
        )


def test_a_link_on_another_site_is_followed_once_more_with_the_session(house: House) -> None:
    answer = get(house, "/leases?state=open&consumer=a%22b", **{"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    [refresh] = Page(answer.text.replace("<!DOCTYPE html>", "")).named("meta")
    assert refresh["content"] == "0;url=/leases?state=open&consumer=a%22b"


def test_everybody_sees_what_the_api_shows_them(house: House, admin: str) -> None:
    mine, theirs = house.token(consumer="physics"), house.token(consumer="climate", groups=("astro",))
    own = house.submit(mine, vms=5)["id"]
    other = house.submit(theirs, vms=7)["id"]
    manager = house.token(Role.MEMBER, Role.GROUP_MANAGER, consumer="boss", groups=("astro",))
    peer = house.token(Role.PEER, consumer="jena", sites=("jena",))
    for path in ("/", "/leases", "/decisions", "/timeline", "/queue"):
        text = Page(get(house, path, mine).text).text
        assert "climate" not in text, path
        assert "climate" in Page(get(house, path, admin).text).text or path == "/queue"
        assert "physics" not in Page(get(house, path, manager).text).text, path
    assert "others" in Page(get(house, "/", mine).text).text
    assert get(house, f"/leases/{own}", mine).status_code == 200
    assert get(house, f"/leases/{other}", mine).status_code == 404
    assert get(house, "/queue", peer).status_code == 403


def test_a_closed_page_tells_nothing_without_a_session(tmp_path: Path) -> None:
    with house_in(tmp_path, replace(SETTINGS, page_needs_token=True)) as house:
        assert "das3" not in Page(get(house).text).text
        assert "das3" in Page(get(house, "/", house.token()).text).text


# Sessions


def test_a_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(house: House) -> None:
    token = house.token(consumer="physics")
    answer = house.ask("POST", "/sign-in", data={"token": token}, headers=HTML | {"Sec-Fetch-Site": "same-origin"})
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert token not in cookie
    session = {"Cookie": cookie.split(";")[0]}
    house.client.cookies.clear()
    assert "physics" in Page(get(house, "/queue", **session).text).text
    assert house.ask("GET", "/v1/leases", headers=session).status_code == 200
    lease = house.submit(token)["id"]
    cancel = f"/leases/{lease}/cancel"
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil"}):
        assert house.ask("POST", cancel, headers=session | headers).status_code == 403
        assert house.ask("DELETE", f"/v1/leases/{lease}", headers=session | headers).status_code == 403
    assert house.ask("POST", cancel, headers=session | {"Origin": "http://gateway"}).status_code == 303
    assert house.ask("GET", f"/v1/leases/{lease}", token).json()["state"] == "cancelled"


def test_a_session_ends_with_its_token_and_a_changed_cookie_is_none(house: House, admin: str) -> None:
    token = house.token(consumer="physics")
    session = signed_in(house, token)
    assert get(house, "/queue", **session).status_code == 200
    forged = {"Cookie": session["Cookie"][:-2] + ("AA" if session["Cookie"][-2:] != "AA" else "BB")}
    assert get(house, "/queue", **forged).status_code == 303
    assert get(house, "/queue", Cookie=f"{COOKIE}=x").status_code == 303
    assert house.ask("DELETE", f"/v1/tokens/{token.split('_')[1]}", admin).status_code == 204
    assert get(house, "/queue", **session).status_code == 303


def test_signing_out_takes_the_cookie_away(house: House) -> None:
    session = signed_in(house, house.token())
    answer = house.ask("POST", "/sign-out", headers=HTML | session | {"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303
    assert f'{COOKIE}=""' in answer.headers["Set-Cookie"]


def test_a_token_that_is_not_good_is_said_so_and_never_shown(house: House) -> None:
    for token in ("", "lh_x", "nonsense", "a\r\nX: y", "\N{SNOWMAN}", "x" * 20_000):
        answer = house.ask("POST", "/sign-in", data={"token": token}, headers=HTML | {"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code in (400, 401), token
        assert "Set-Cookie" not in answer.headers
        assert re.search('role="alert">[A-Z]', answer.text)
        assert len(token) < 4 or token not in answer.text


def test_the_sign_in_leads_nowhere_else(house: House) -> None:
    for there in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"):
        fields = {"token": house.token(), "next": there}
        answer = house.ask("POST", "/sign-in", data=fields, headers={"Sec-Fetch-Site": "same-origin"})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/"), there


def test_a_sign_in_link_signs_in_for_as_long_as_the_gateway_runs(house: House) -> None:
    code = house.app.state.sessions.link(house.token(consumer="physics"))
    for _ in range(2):
        answer = get(house, f"/sign-in?code={code}")
        assert (answer.status_code, answer.headers["Location"]) == (303, "/")
        house.client.cookies.clear()
        assert "physics" in get(house, "/queue", Cookie=answer.headers["Set-Cookie"].split(";")[0]).text
    assert "expired" in get(house, "/sign-in?code=another").text


# Behind a proxy


def test_behind_a_prefix_all_links_have_it_whether_the_proxy_leaves_it_on_or_not(tmp_path: Path) -> None:
    settings = replace(SETTINGS, prefix="/leasehold")
    with house_in(tmp_path, settings) as house:
        token = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        house.submit(token)
        for path in PAGES:
            stripped, whole = get(house, path, token), get(house, f"/leasehold{path}", token)
            assert stripped.status_code == whole.status_code == 200
            for text in (stripped.text, whole.text):
                page = Page(text)
                names = ("href", "src", "action", "formaction", "hx-get", "sse-connect")
                addresses = [one.get(name, "") for _, one in page.tags for name in names]
                assert all(one.startswith(("/leasehold/", "#", "data:")) for one in addresses if one), path
        assert get(house, "/queue").headers["Location"] == "/leasehold/sign-in?next=%2Fqueue"
        sent = {"Sec-Fetch-Site": "same-origin"}
        answer = house.ask("POST", "/leasehold/sign-in", data={"token": token, "next": "/queue"}, headers=sent)
        assert answer.headers["Location"] == "/leasehold/queue"
        assert "Path=/leasehold" in answer.headers["Set-Cookie"]
        assert house.ask("GET", "/leasehold/v1/sites", token).status_code == 200


# The story of a lease, and what can be done


def test_a_preemption_is_told_by_both_sides(house: House, admin: str) -> None:
    guest, taker = preempted(house)
    told = Page(get(house, f"/leases/{guest}", admin).text)
    assert "was preempted by a local request" in told.text
    assert f"For lease {taker} , which lacked" in told.text
    assert f"/leases/{taker}" in {one["href"] for one in told.named("a")}
    other = Page(get(house, f"/leases/{taker}", admin).text)
    assert f"Guests gave way for it: {guest}" in other.text
    owner = Page(get(house, f"/leases/{guest}", house.token(consumer="physics")).text)
    assert "For another consumer's lease" in owner.text
    assert str(taker) not in {one["href"].rsplit("/", 1)[-1] for one in owner.named("a") if "/leases/" in one["href"]}
    line = next(one["href"] for one in told.named("a") if one["href"].startswith("/decisions/"))
    assert get(house, line, admin).status_code == 200
    feed = Page(get(house, "/decisions?what=preempt", admin).text)
    assert f"/leases/{guest}" in {one["href"] for one in feed.named("a")}
    arrows = Page(get(house, "/timeline", admin).text)
    assert f"{taker} took room from {guest}" in arrows.text


def test_all_who_gave_way_together_are_named_as_far_as_they_may_be_seen(house: House, admin: str) -> None:
    tokens = {name: house.token(consumer=name) for name in ("physics", "geology")}
    guests = {name: house.submit(token, vms=30, duration_s=3600) for name, token in tokens.items()}
    sites = {house.running(one["id"], tokens[name])["site"] for name, one in guests.items()}
    for site in sites:
        local = house.token(consumer="climate", sites=(site,))
        slots = {"das3": 64, "lyon": 32}[site]
        taker = house.submit(local, type=None, local=True, site=site, vms=slots, duration_s=600)
        house.running(taker["id"], local)
    for name, one in guests.items():
        for token in (admin, tokens[name]):
            told = Page(get(house, f"/leases/{one['id']}", token).text).text
            assert "was preempted by a local request" in told
    if len(sites) == 1:
        told = Page(get(house, f"/leases/{guests['physics']['id']}", tokens["physics"]).text).text
        assert "Gave way: this one and 1 lease of other consumers" in told


def test_who_may_cancel_and_extend_is_offered_it_and_can(house: House) -> None:
    token = house.token(consumer="physics")
    lease = house.submit(token)["id"]
    house.running(lease, token)
    session = signed_in(house, token) | {"Sec-Fetch-Site": "same-origin"}
    actions = {one["action"] for one in Page(get(house, f"/leases/{lease}", **session).text).named("form")}
    assert {f"/leases/{lease}/cancel", f"/leases/{lease}/extend"} <= actions
    wrong = house.ask("POST", f"/leases/{lease}/extend", data={"minutes": "soon"}, headers=HTML | session)
    assert (wrong.status_code, "expected a number" in wrong.text) == (422, True)
    for minutes in ("inf", "nan", "-1"):
        answer = house.ask("POST", f"/leases/{lease}/extend", data={"minutes": minutes}, headers=HTML | session)
        assert answer.status_code == 422, minutes
    right = house.ask("POST", f"/leases/{lease}/extend", data={"minutes": "5"}, headers=HTML | session)
    assert right.status_code == 303
    assert house.ask("GET", f"/v1/leases/{lease}", token).json()["duration_s"] == 3900
    assert house.ask("POST", f"/leases/{lease}/cancel", headers=session).status_code == 303
    after = Page(get(house, f"/leases/{lease}?done=cancelled", **session).text)
    assert "The lease was cancelled." in after.text
    assert f"/leases/{lease}/cancel" not in {one["action"] for one in after.named("form")}


def test_who_may_only_see_a_lease_is_offered_nothing(house: House) -> None:
    lease = house.submit(house.token(consumer="physics"))
    running = house.running(lease["id"], house.token(consumer="physics"))
    operator = house.token(Role.SITE_OPERATOR, consumer="ops", sites=(running["site"],))
    actions = {one["action"] for one in Page(get(house, f"/leases/{lease['id']}", operator).text).named("form")}
    assert f"/leases/{lease['id']}/cancel" in actions
    assert f"/leases/{lease['id']}/extend" not in actions
    assert house.ask("POST", f"/leases/{lease['id']}/extend", operator, data={"minutes": "5"}).status_code == 403
    assert "/submit" not in {
        one["href"] for one in Page(get(house, "/", house.token(Role.PEER, sites=("x",))).text).named("a")
    }


FIELDS = {"type": "suspendable", "vms": "3", "duration_s": "10", "unit": "minutes", "memory_mib": "512", "name": "n"}


def test_a_lease_is_submitted_from_the_form_once_however_often_it_is_sent(house: House) -> None:
    token = house.token(consumer="physics")
    session = signed_in(house, token) | {"Sec-Fetch-Site": "same-origin"}
    [key] = [
        one["value"] for one in Page(get(house, "/submit", **session).text).named("input") if one.get("name") == "key"
    ]
    sent = [house.ask("POST", "/submit", data=FIELDS | {"key": key}, headers=session) for _ in range(2)]
    assert [one.status_code for one in sent] == [303, 303]
    [lease] = house.ask("GET", "/v1/leases", token).json()["leases"]
    assert {one.headers["Location"] for one in sent} == {f"/leases/{lease['id']}?done=submitted"}
    assert (lease["vms"], lease["duration_s"], lease["memory_mib"], lease["name"]) == (3, 600, 512, "n")


WRONG = (
    ("vms", "many"), ("vms", "0"), ("vms", ""), ("duration_s", "long"), ("duration_s", "nan"), ("duration_s", "1e999"),
    ("memory_mib", "-1"), ("type", "best"), ("type", "local"), ("name", "\x00"),
)  # fmt: skip


def test_what_is_wrong_in_the_form_is_said_beside_its_field(house: House) -> None:
    session = signed_in(house, house.token()) | {"Sec-Fetch-Site": "same-origin"}
    for field, value in WRONG:
        answer = house.ask("POST", "/submit", data=FIELDS | {field: value}, headers=HTML | session)
        assert answer.status_code == 422, (field, value)
        page = Page(answer.text)
        assert 'class="wrong"' in answer.text or 'role="alert"' in answer.text, (field, value)
        if field in ("vms", "duration_s", "memory_mib"):
            assert [one["id"] for one in page.named("input") if one.get("aria-invalid")] == [field]
    assert house.ask("GET", "/v1/leases", house.token()).json()["leases"] == []


def test_what_if_answers_at_an_address_of_its_own_and_submits_nothing(house: House) -> None:
    token = house.token()
    answer = get(house, "/what-if?type=suspendable&vms=4&duration_s=10&unit=minutes&memory_mib=", token)
    assert "As asked. It would be starting at" in Page(answer.text).text
    assert house.ask("GET", "/v1/leases", token).json()["leases"] == []
    assert get(house, "/what-if?type=suspendable&vms=x&duration_s=10", token).status_code == 422
    [futures] = [one["href"] for one in Page(answer.text).named("a") if "within_s=2" in one["href"]]
    foreseen = Page(get(house, futures, token).text)
    assert re.search(r"In \d+ futures? starts", foreseen.text)
    assert "Simulate futures" not in foreseen.text
    assert get(house, f"{futures}x", token).status_code == 422


def test_what_if_says_who_would_give_way_and_what_would_be_better(house: House, admin: str) -> None:
    guest = house.submit(house.token(consumer="physics"), vms=60)["id"]
    site = house.running(guest, admin)["site"]
    page = Page(get(house, f"/what-if?type=local&site={site}&vms=30&duration_s=5", admin).text)
    assert "With consequences: it preempts running leases" in page.text
    assert "1 lease with 60 VMs" in page.text
    assert f"/leases/{guest}" in {one["href"] for one in page.named("a")}
    full = Page(get(house, "/what-if?type=suspendable&vms=40&duration_s=5", admin).text)
    links = [one["href"] for one in full.named("a") if one["href"].startswith("/what-if?")]
    assert links
    assert {get(house, link, admin).status_code for link in links} == {200}


# The queue, and lists


def test_the_queue_is_grouped_and_its_groups_lead_to_their_leases(house: House, admin: str) -> None:
    local = house.token(consumer="climate", sites=("das3",))
    ids = [house.submit(local, type=None, local=True, site="das3", vms=64, duration_s=600)["id"] for _ in range(60)]
    house.running(ids[0], local)
    page = Page(get(house, "/queue", admin).text)
    assert "59 leases without machines, 3,776 VMs" in page.text
    assert any("reason=room-in-use" in one["href"] for one in page.named("a"))
    group = next(one["href"] for one in page.named("a") if one["href"].startswith("/queue?"))
    first = Page(get(house, group, admin).text)
    listed = [int(one["href"].rsplit("/", 1)[1]) for one in first.named("a") if one["href"].startswith("/leases/")]
    assert listed == ids[1:51]
    [following] = [one["href"] for one in first.named("a") if one.get("rel") == "next"]
    second = Page(get(house, following, admin).text)
    rest = [int(one["href"].rsplit("/", 1)[1]) for one in second.named("a") if one["href"].startswith("/leases/")]
    assert rest == ids[51:]


WRONG_ADDRESSES = (
    "/queue?type=fast", "/timeline?span=9y", "/timeline?to=soon", "/timeline?site=nowhere", "/leases?state=odd",
    "/leases?cursor=x", "/decisions?what=dance", "/decisions?lease=x", "/decisions/x", "/decisions/99999",
    "/loans?period=1y", "/history?period=x", "/nodes?site=nowhere", "/queue?after=-1", "/leases/x", "/queue?colour=red",
)  # fmt: skip


def test_a_wrong_address_is_explained_on_a_page(house: House, admin: str) -> None:
    for path in WRONG_ADDRESSES:
        answer = get(house, path, admin)
        assert answer.status_code in (404, 422), path
        assert "Overview" in Page(answer.text).text
        assert answer.headers["Content-Type"].startswith("text/html")


def test_a_page_that_is_not_there_leads_to_the_overview(house: House, admin: str) -> None:
    answer = get(house, "/nowhere", admin)
    page = Page(answer.text)
    assert (answer.status_code, "There is no such page" in page.text, "openapi" in page.text) == (404, True, False)
    assert '<a href="/">Overview</a>' in answer.text
    assert "openapi.json" in house.ask("GET", "/nowhere").json()["detail"]


def test_programs_get_problems_and_browsers_pages(house: House) -> None:
    assert house.ask("GET", "/nowhere").headers["Content-Type"] == "application/problem+json"
    assert house.ask("GET", "/v1/leases", headers={"Accept": "*/*"}).status_code == 401
    answer = get(house, "/v1/leases")
    assert (answer.status_code, answer.headers["Content-Type"].startswith("text/html")) == (401, True)


def test_news_is_told_as_a_line_and_moves_nothing(house: House) -> None:
    token = house.token(consumer="physics")
    with house.stream("/news?after=0&address=%2Fqueue%3Ftype%3D%22", token) as stream:
        house.submit(token)
        event = stream.next() or {}
        assert event["event"] == "news"
        assert event["data"].endswith('since this page was made. <a href="/queue?type=&quot;">Show</a>')


def test_static_files_can_be_kept_for_a_year_and_change_their_address(house: House) -> None:
    for name in STATIC_FILES:
        answer = house.ask("GET", f"/static/{name}")
        assert (answer.status_code, "immutable" in answer.headers["Cache-Control"]) == (200, True)
        assert f"/static/{name}" in OPEN_PAGES
    assert re.search(r"/static/dashboard\.css\?v=[0-9a-f]{12}", get(house).text)
    assert house.ask("GET", "/static/base.html", house.token()).status_code == 404


# Sites, agreements, loans


def test_who_may_drain_a_site_does_so_on_its_page_and_takes_it_back(house: House) -> None:
    operator = house.token(Role.SITE_OPERATOR, consumer="ops", sites=("das3",))
    page = Page(get(house, "/nodes?site=das3", operator).text)
    [form] = [one for one in page.named("form") if one.get("action", "").startswith("/sites/")]
    assert (form["action"], form["method"]) == ("/sites/das3/drain", "post")
    headers = HTML | signed_in(house, operator) | {"Sec-Fetch-Site": "same-origin"}
    answer = house.ask("POST", form["action"], headers=headers, data={"note": "new <switches>"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/nodes?site=das3&done=drained")
    drained = Page(get(house, answer.headers["Location"], operator).text)
    assert "The site is drained" in drained.text
    assert "Drained by ops: new <switches>." in drained.text
    assert house.ask("GET", "/v1/sites/das3", operator).json()["status"] == "drained"
    [form] = [one for one in drained.named("form") if one.get("action", "").startswith("/sites/")]
    assert house.ask("POST", form["action"], headers=headers).headers["Location"] == "/nodes?site=das3&done=resumed"
    assert house.ask("GET", "/v1/sites/das3", operator).json()["status"] == "up"


def test_nodes_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["c/n10", "c/n2", "c/n1b", "c/n1", "b", "7"], key=in_order) == [
        "7",
        "b",
        "c/n1",
        "c/n1b",
        "c/n2",
        "c/n10",
    ]


def test_nobody_else_is_offered_to_drain_a_site_and_a_page_elsewhere_cannot(house: House) -> None:
    operator, member = house.token(Role.SITE_OPERATOR, consumer="ops", sites=("das3",)), house.token()
    for token, site in ((operator, "lyon"), (member, "das3")):
        page = Page(get(house, f"/nodes?site={site}", token).text)
        assert not [one for one in page.named("form") if one.get("action", "").startswith("/sites/")]
    headers = HTML | signed_in(house, operator) | {"Sec-Fetch-Site": "cross-site"}
    assert house.ask("POST", "/sites/das3/drain", headers=headers).status_code == 403
    assert house.ask("GET", "/v1/sites/das3", operator).json()["status"] == "up"


def test_an_agreement_says_when_a_window_that_is_used_up_has_room_again(house: House, admin: str) -> None:
    terms = {
        "name": "tight", "provider": "das3", "consumer": "atlas", "kind": "commitment", "epoch_share": 0.00001,
        "epoch_s": 86_400, "burst_share": 1, "burst_s": 3_600,
    }  # fmt: skip
    assert house.ask("POST", "/v1/agreements", admin, json=terms).status_code == 201
    assert "Nothing is counted while it is not in force" in Page(get(house, "/agreements/tight", admin).text).text
    for side in ("provider", "consumer"):
        house.ask("POST", "/v1/agreements/tight/sign", admin, json={"side": side, "revision": 1})
    physics = house.token(consumer="physics", groups=("atlas",))
    guest = house.submit(physics, vms=60, duration_s=36_000, domain="das3", group="atlas")
    house.running(guest["id"], physics)

    def is_used_up() -> bool:
        return "none; again" in Page(get(house, "/agreements/tight", admin).text).text

    until(is_used_up)
    page = Page(get(house, "/agreements/tight", admin).text)
    midnight = f"{ms_of(house.federation.clock()) // 86_400_000 * 86_400_000 + 86_400_000}"
    moments = [unix_ms(read_moment(one["datetime"])) for one in page.named("time")]
    assert int(midnight) in moments


def test_loans_say_who_owes_whom_as_the_api_does(house: House, admin: str) -> None:
    preempted(house)
    page = Page(get(house, "/loans", admin).text)
    [balance] = house.ask("GET", "/v1/usage/balance", admin).json()["balances"]
    assert "Who owes whom" in page.text
    assert f"{balance['debtor']} {balance['creditor']}" in page.text


def test_the_list_of_leases_has_estimates_beside_what_is_planned(house: House) -> None:
    token, _, waiting = _full(house)
    house.portal.call(house.federation.forecasts.refresh)
    planned = house.ask("GET", f"/v1/leases/{waiting}", token).json()["planned_start_at"]
    expected = house.ask("GET", f"/v1/estimates/{waiting}", token).json()["estimates"][0]["expected_at"]
    [row] = [row for row in get(house, "/leases", token).text.split("<tr>") if f'/leases/{waiting}"' in row]
    moments = re.findall(r'datetime="([^"]+)"', row)
    assert {ms_of(read_moment(planned)), ms_of(read_moment(expected))} <= {ms_of(read_moment(one)) for one in moments}
    assert "planned" in row
    assert "(90 %:" in row


# What the overview is made of


def test_the_overview_reads_only_what_holds_machines(house: House) -> None:
    local = house.token(consumer="climate", sites=("das3",))
    for _ in range(3):
        house.submit(local, type=None, local=True, site="das3", vms=64, duration_s=600)

    def look(engine: Engine) -> tuple[dict[str, Holders], int]:
        return holding_now(engine.gateway)

    async def ask() -> tuple[dict[str, Holders], int]:
        return await house.federation.ask(look)

    holders, waiting = house.portal.call(ask)
    assert held_by(holders["das3"], EVERYTHING).vms == {("climate", ""): 64}
    assert waiting == 2


@pytest.fixture
def later(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path, config=CONFIG) as house:
        yield house


def test_today_counts_what_is_new_at_each_look(later: House) -> None:
    token = later.token(Role.FEDERATION_ADMIN, consumer="chief")
    assert "of 0 requests that started" in Page(get(later, "/", token).text).text
    preempted(later)
    text = Page(get(later, "/", token).text).text
    assert "of 1 request that started" in text
    assert "guest, for 1 own request" in text


# What is expected


def _full(house: House) -> tuple[str, list[int], int]:
    """Fill both sites for an hour, and let one lease wait; gives its owner's token, what runs, and what waits."""
    token = house.token(consumer="physics")
    running = [
        house.submit(token, type="non-preemptable", vms=vms, duration_s=3600, name="<b>run")["id"] for vms in (64, 32)
    ]
    for lease in running:
        house.running(lease, token)
    return token, running, house.submit(token, vms=20, duration_s=600)["id"]


def test_the_queue_and_the_story_say_when_a_lease_is_expected_to_start(house: House) -> None:
    token, _, waiting = _full(house)
    before = Page(get(house, "/queue", token).text).text
    assert "90 %:" not in before
    assert "What is expected" not in Page(get(house, f"/leases/{waiting}", token).text).text
    house.portal.call(house.federation.forecasts.refresh)
    shown = house.ask("GET", f"/v1/estimates/{waiting}", token).json()["estimates"][0]
    for path in ("/queue", f"/leases/{waiting}"):
        answer = get(house, path, token)
        _is_whole(answer)
        moments = [one["datetime"] for one in Page(answer.text).named("time")]
        for name in ("earliest_at", "expected_at", "latest_at"):
            assert ms_of(read_moment(shown[name])) in {ms_of(read_moment(one)) for one in moments}, (path, name)
        assert re.search(r"[Ee]stimated .* ago", Page(answer.text).text), path
    other = house.token(consumer="climate")
    assert "90 %:" not in Page(get(house, "/queue", other).text).text
    assert get(house, f"/leases/{waiting}", other).status_code == 404


def test_the_history_says_how_predictions_did_once_there_are_enough(house: House, admin: str) -> None:
    member = house.token(consumer="physics")
    assert "Not enough predictions yet." in Page(get(house, "/history", member).text).text
    scored = house.federation.forecasts.calibration

    def score(count: int, whom: str) -> None:
        kind, raw = Kind("start", whom, "das3"), Raw(5.0, 0.5, 0.5)
        for number in range(count):
            scored.happened(kind, raw, Interval(100_000, 150_000, 200_000), 0, 50_000 if number % 4 == 0 else 150_000)

    score(ENOUGH - 1, "own")
    few = Page(get(house, "/history", member).text).text
    assert f"no kind has {ENOUGH}" in few
    assert "not enough predictions yet" in few
    score(81 - ENOUGH, "<b>suspendable")
    answer = get(house, "/history", admin)
    _is_whole(answer)
    assert "<b>" not in answer.text
    (shown,) = [one for one in house.ask("GET", "/v1/calibration", admin).json()["scores"] if one["whom"] == ""
                and one["site"] == ""]  # fmt: skip
    assert (shown["scored"], shown["covered"]) == (80, 59)
    page = Page(answer.text)
    assert "all any differed 80 90 % 74 % 63 % to 82 % 21 0" in page.text
    assert f"own users das3 differed {ENOUGH - 1} not enough predictions yet" in page.text
    enough, _, few = page.text.partition(f"2 kinds with fewer than {ENOUGH} predictions")
    assert ("80 90 %" in enough, "not enough" in enough, "90 %" in few) == (True, False, False)
    drawn = [one["width"] for one in page.named("rect") if one.get("height") == "10"]
    assert str(round(1000 * shown["covered_share"])) in drawn


def test_a_story_says_what_would_have_saved_a_lease_or_would_help_one_that_waits(house: House, admin: str) -> None:
    guest, _ = preempted(house)
    owner = house.token(consumer="physics")
    link = f"/leases/{guest}?help=1"
    assert link in {one["href"] for one in Page(get(house, f"/leases/{guest}", owner).text).named("a")}
    answer = get(house, link, owner)
    _is_whole(answer)
    explained = house.ask("GET", f"/v1/leases/{guest}/explanation", owner).json()
    assert [one["tried"] for one in explained["preemptions"]] == [True]
    told = Page(answer.text).text
    assert "(tried)." in told
    assert f"for {explained['preemptions'][0]['for_whom']}." in told
    for way in explained["preemptions"][0].get("spared_as", []):
        assert way["by"] == "alone" or f"as a {way.get('type')} lease" in told or f"with {way.get('vms')} VM" in told
    house.submit(owner, type="non-preemptable", vms=32, duration_s=3600)
    waits = house.submit(owner, vms=20, duration_s=3600)["id"]
    better = house.ask("GET", f"/v1/leases/{waits}/explanation", owner).json()["alternatives"]
    page = Page(get(house, f"/leases/{waits}?help=1", owner).text)
    assert ("What would be better off now" in page.text) == bool(better)
    assert get(house, link, house.token(consumer="climate")).status_code == 404
    assert get(house, link, admin).status_code == 200


def test_what_if_shows_two_futures_to_those_who_may_ask_and_changes_nothing(house: House, admin: str) -> None:
    member = house.token(consumer="physics")
    for _ in range(4):
        house.submit(member, vms=30, duration_s=1200)
    assert "Compare" not in Page(get(house, "/what-if", member).text).text
    asked = "/what-if?drain=&policy=&load=&resize=das3&slots=30&horizon=1"
    assert get(house, asked, member).status_code == 403
    answer = get(house, asked, admin)
    _is_whole(answer)
    page = Page(answer.text)
    assert "pairs of simulated futures of 1 h" in page.text
    assert "95 % interval of the difference" in page.text
    for said in ("guests wait", "own users wait", "all sites", "lyon"):
        assert said in page.text
    assert house.ask("GET", "/v1/sites/das3", admin).json()["slots"] == 64
    assert "new" in Page(get(house, "/what-if?add=new&add_slots=16&horizon=1", admin).text).text
    lent = Page(get(house, "/what-if?lend=das3&share=0&horizon=1", admin).text)
    assert "pairs of simulated futures" in lent.text
    wrong = ("lend=das3", "share=20", "lend=das3&share=101", "lend=das3&share=x",
             "slots=x&resize=das3", "slots=4", "load=nan", "load=101", "load=x", "policy=nonsense", "", "drain=%3Cb%3E",
             "resize=das3&slots=0", "add=new", "add_slots=4", "add=lyon&add_slots=4")  # fmt: skip
    for query in wrong:
        answer = get(house, f"/what-if?{query}&horizon=1", admin)
        assert (answer.status_code, 'role="alert"' in answer.text, "<b>" in answer.text) == (422, True, False), query
    for horizon in ("nan", "-1", "soon", "1e300"):
        assert get(house, f"/what-if?drain=lyon&horizon={horizon}", admin).status_code == 422, horizon
