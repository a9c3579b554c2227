"""Pages: whatever comes in while somebody turns them, each lease is seen once, and none is left out."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.api.house import House, house_in

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import MAX_INT64
from leasehold.service.api.paging import cursor_at, place_of
from leasehold.service.config import ServiceConfig, SiteSpec


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all examples, which are told apart by their consumers."""
    folder: Path = tmp_path_factory.mktemp("house")
    with house_in(folder, config=ServiceConfig((SiteSpec("das3", 1000),))) as house:
        yield house


CONSUMERS = (f"consumer-{number}" for number in range(1_000_000))


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.integers(0, 7),
    limit=st.integers(1, 4),
    meanwhile=st.lists(st.integers(0, 3), max_size=8),
)
def test_each_lease_is_seen_once_while_new_ones_come(
    house: House, before: int, limit: int, meanwhile: list[int]
) -> None:
    token = house.token(consumer=next(CONSUMERS))
    there = [house.submit(token)["id"] for _ in range(before)]
    seen: list[int] = []
    url: str | None = f"/v1/leases?limit={limit}"
    coming = iter(meanwhile)
    while url is not None:
        answer = house.ask("GET", url, token)
        page = answer.json()
        ids = [lease["id"] for lease in page["leases"]]
        assert len(ids) <= limit
        assert (page["next"] is None) == ("Link" not in answer.headers)
        seen += ids
        url = None if page["next"] is None else f"/v1/leases?limit={limit}&cursor={page['next']}"
        for _ in range(next(coming, 0)):
            house.submit(token)
    assert seen == sorted(there, reverse=True)


def test_the_link_leads_to_the_same_page_as_the_cursor_and_keeps_what_was_asked(house: House) -> None:
    token = house.token(consumer=next(CONSUMERS))
    oldest, *_ = [house.submit(token)["id"] for _ in range(3)]
    query = "state=starting&state=running&state=waiting&site=das3&limit=2"
    answer = house.ask("GET", f"/v1/leases?{query}", token)
    link, _, relation = answer.headers["Link"].partition("; ")
    assert relation == 'rel="next"'
    url = link.strip("<>")
    assert parse_qs(urlsplit(url).query) == parse_qs(query) | {"cursor": [answer.json()["next"]]}
    last = house.ask("GET", url, token)
    assert [lease["id"] for lease in last.json()["leases"]] == [oldest]
    assert last.json()["next"] is None


def test_a_journal_is_turned_page_by_page_from_its_beginning(house: House) -> None:
    token = house.token(consumer=next(CONSUMERS))
    lease = house.submit(token)["id"]
    house.ask("DELETE", f"/v1/leases/{lease}", token)
    whole = house.ask("GET", f"/v1/leases/{lease}/journal", token).json()
    assert whole["next"] is None
    pieces, url = [], f"/v1/leases/{lease}/journal?limit=1"
    while url:
        page = house.ask("GET", url, token)
        pieces += page.json()["entries"]
        url = page.links["next"]["url"] if "next" in page.links else ""
    assert pieces == whole["entries"]


@given(st.integers(0, MAX_INT64))
def test_a_cursor_remembers_its_place(place: int) -> None:
    assert place_of(cursor_at(place)) == place


@given(st.text())
def test_whatever_else_is_given_for_a_cursor_is_refused(text: str) -> None:
    with suppress(InvalidField):
        place = place_of(text)
        assert place is not None
        assert cursor_at(place) == text
