"""Changes as server-sent events: everything that one may see, once, in order, also across connections."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.api.house import UNLIMITED, House, house_in

from leasehold.service.api.routers import changes
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.principal import Role
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.rows import JournalRow


def journal(house: House) -> list[int]:
    """All lines that there are."""
    return [row.seq for row in house.federation.store.journal(0, 1000)]


def test_an_event_has_the_line_of_the_journal_with_its_lease(house: House) -> None:
    token = house.token()
    lease = house.submit(token)["id"]
    with house.stream("/v1/changes?after=0", token) as stream:
        assert stream.answered() == 200
        event = stream.next() or {}
    assert (event["event"], event["id"]) == ("change", "1")
    entry = house.ask("GET", f"/v1/leases/{lease}/journal", token).json()["entries"][0]
    with house.stream("/v1/changes?after=0", token) as stream:
        [change] = stream.changes(1)
    assert change == entry | {"lease": lease, "job": None, "consumer": "physics"}


def test_without_a_place_it_begins_now(house: House) -> None:
    token = house.token()
    earlier = house.submit(token)["id"]
    house.ask("DELETE", f"/v1/leases/{earlier}", token)  # so that nothing more comes of it
    with house.stream("/v1/changes", token) as stream:
        stream.answered()
        lease = house.submit(token)["id"]
        [change] = stream.changes(1)
    assert (change["lease"], change["what"]) == (lease, "submitted")


def test_a_listener_that_was_cut_off_goes_on_without_a_gap_or_a_repetition(house: House) -> None:
    token = house.token()
    seen: list[int] = []
    place = "0"
    leases = []
    for _ in range(4):
        leases.append(house.submit(token)["id"])
        with house.stream("/v1/changes?after=0", token, **{"Last-Event-ID": place}) as stream:
            seen += [change["seq"] for change in stream.changes(2)]
            place = str(seen[-1])
    for lease_id in leases:
        house.running(lease_id, token)  # nothing more is told of it then
    wanted = journal(house)
    with house.stream(f"/v1/changes?after={place}", token) as stream:
        seen += [change["seq"] for change in stream.changes(len(wanted) - len(seen))]
    assert seen == wanted


def test_many_lines_come_page_by_page_and_none_is_lost(house: House) -> None:
    token = house.token(sites=("das3",))
    for _ in range(120):
        house.submit(token, type=None, local=True, vms=64)
    wanted = journal(house)
    assert len(wanted) > 200
    with house.stream("/v1/changes?after=0", token) as stream:
        assert [change["seq"] for change in stream.changes(len(wanted))] == wanted


def test_a_reader_that_does_not_read_costs_one_page_and_misses_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PAGE", 2)
    pages: list[int] = []
    read = house.federation.store.journal

    def counting(after_seq: int, limit: int, **which: Any) -> list[JournalRow]:
        pages.append(after_seq)
        return read(after_seq, limit, **which)

    token = house.token()
    monkeypatch.setattr(house.federation.store, "journal", counting)
    with house.stream("/v1/changes?after=0", token) as stream:
        house.portal.call(stream.stop_reading)
        stream.answered()
        for _ in range(10):
            house.submit(token)
        assert len(pages) <= 2
        house.portal.call(stream.go_on_reading)
        wanted = [row.seq for row in read(0, 1000)]
        assert [change["seq"] for change in stream.changes(len(wanted))] == wanted


def test_one_lease_can_be_followed_alone(house: House) -> None:
    token = house.token()
    first, second = (house.submit(token)["id"] for _ in range(2))
    with house.stream(f"/v1/changes?after=0&lease={second}", token) as stream:
        assert {change["lease"] for change in stream.changes(4)} == {second}
        house.ask("DELETE", f"/v1/leases/{first}", token)
        house.ask("DELETE", f"/v1/leases/{second}", token)
        [change] = stream.changes(1)
    assert (change["lease"], change["state"]) == (second, "cancelled")


def test_several_leases_can_be_followed_in_one_stream(house: House) -> None:
    token = house.token()
    first, second, third = (house.submit(token)["id"] for _ in range(3))
    with house.stream(f"/v1/changes?after=0&lease={third}&lease={first}", token) as stream:
        stream.changes(8)
        for lease in (second, first, third):
            house.ask("DELETE", f"/v1/leases/{lease}", token)
        ended = stream.changes(2)
    assert [(change["lease"], change["state"]) for change in ended] == [
        (first, "cancelled"),
        (third, "cancelled"),
    ]


def test_only_so_many_leases_can_be_named(house: House) -> None:
    path = "/v1/changes?" + "&".join(f"lease={number}" for number in range(101))
    answer = house.ask("GET", path, house.token())
    assert (answer.status_code, answer.json()["field"]) == (422, "lease")


def test_only_what_one_may_see_comes(house: House) -> None:
    physics, climate = house.token(), house.token(consumer="climate")
    admin = house.token(Role.FEDERATION_ADMIN, consumer="operator")
    with (
        house.stream("/v1/changes", physics) as mine,
        house.stream("/v1/changes", admin) as everybodys,
    ):
        mine.answered()
        everybodys.answered()
        theirs, own = house.submit(climate)["id"], house.submit(physics)["id"]
        assert {change["lease"] for change in mine.changes(3)} == {own}
        assert {change["lease"] for change in everybodys.changes(6)} == {theirs, own}


@pytest.mark.parametrize("whose", ["nobody's", "another's"])
def test_a_lease_that_one_may_not_see_cannot_be_followed(house: House, whose: str) -> None:
    lease = 4711 if whose == "nobody's" else house.submit(house.token(consumer="climate"))["id"]
    token = house.token()
    own = house.submit(token)["id"]
    answer = house.ask("GET", f"/v1/changes?lease={own}&lease={lease}", token)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:leasehold:problem:no-such-lease")


@pytest.fixture
def small_house(tmp_path: Path) -> Iterator[House]:
    """A house in which a consumer may follow two streams."""
    settings = ApiSettings("0", rate=UNLIMITED, streams_per_consumer=2)
    with house_in(tmp_path, settings) as house:
        yield house


def test_a_consumer_has_only_so_many_streams_and_gets_their_places_back(small_house: House) -> None:
    token = small_house.token()
    with small_house.stream("/v1/changes", token) as first:
        first.answered()
        with small_house.stream("/v1/changes", token) as second:
            second.answered()
            refused = small_house.ask("GET", "/v1/changes", token)
            assert (refused.status_code, refused.json()["type"]) == (
                429,
                "urn:leasehold:problem:too-many-streams",
            )
            assert int(refused.headers["Retry-After"]) > 0
            with small_house.stream("/v1/changes", small_house.token(consumer="climate")) as others:
                assert others.answered() == 200
        with small_house.stream("/v1/changes", token) as third:
            assert third.answered() == 200


def test_streams_end_when_the_service_stops_and_none_begins(house: House) -> None:
    token = house.token()
    with house.stream("/v1/changes", token) as waiting, house.stream("/v1/changes?after=0", token) as reading:
        waiting.answered()
        reading.answered()
        house.portal.call(house.app.close_streams)
        assert waiting.next() is None
        assert reading.next() is None
    assert house.ask("GET", "/v1/changes", token).status_code == 503


def test_a_stream_ends_for_whoever_may_not_listen_any_more(house: House) -> None:
    token = house.token()
    with house.stream("/v1/changes", token) as stream:
        stream.answered()
        house.tokens.revoke(token.split("_")[1])
        house.submit(house.token())
        last = stream.next()
        while last is not None:
            last = stream.next()


def test_a_stream_ends_when_the_store_is_away(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    token = house.token()
    with house.stream("/v1/changes", token) as stream:
        stream.answered()

        def away(*_args: object, **_kwargs: object) -> None:
            raise StoreUnavailable("disk full")

        monkeypatch.setattr(house.federation.store, "journal", away)
        house.submit(token)
        assert stream.next() is None


def test_what_others_do_is_not_even_heard(house: House) -> None:
    physics, climate = house.token(), house.token(consumer="climate")
    with house.stream("/v1/changes", physics) as stream:
        assert stream.next_raw() == ": ping"
        for _ in range(5):
            house.submit(climate)
        own = house.submit(physics)["id"]
        raw = stream.next_raw() or ""
    assert f'"lease":{own}' in raw


def test_a_quiet_stream_is_kept_warm(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.service.api.routers.changes.HEARTBEAT_S", 0.01)
    with house.stream("/v1/changes", house.token()) as stream:
        assert [stream.next_raw() for _ in range(3)] == [": ping"] * 3


# What a line tells of others


def test_of_others_leases_a_journal_tells_neither_numbers_nor_sizes(house: House) -> None:
    guest, owner = house.token(consumer="guest"), house.token(consumer="owner", sites=("das3",))
    lost = house.submit(guest, type="suspendable", vms=64, duration_s=3600)
    won = house.submit(owner, type=None, local=True, vms=20, duration_s=60)

    def told(token: str) -> dict[str, Any]:
        entries = house.ask("GET", f"/v1/leases/{lost['id']}/journal", token).json()["entries"]
        [found] = [entry["detail"]["preemption"] for entry in entries if "preemption" in entry["detail"]]
        assert isinstance(found, dict)
        return found

    everything = told(house.token(Role.FEDERATION_ADMIN, consumer="admin"))
    assert (everything["for_lease"], everything["needed_vms"]) == (won["id"], 20)
    seen = told(guest)
    assert (seen["for_lease"], seen["needed_vms"]) == ("another consumer's lease", None)
    assert seen["victims"] == [lost["id"]]
    assert seen["freed_vms"] == 64
    assert told(house.token(Role.SITE_OPERATOR, consumer="keeper", sites=("das3",))) == everything
    with house.stream("/v1/changes?after=0", guest) as stream:
        lines = stream.changes(len(house.ask("GET", f"/v1/leases/{lost['id']}/journal", guest).json()["entries"]))
    [streamed] = [line["detail"]["preemption"] for line in lines if "preemption" in line["detail"]]
    assert streamed == seen


def test_a_line_names_a_hundred_victims_and_tells_sizes_only_to_those_who_may_see_all(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.service.engine.effects.MOST_NAMED", 1)
    guest, owner = house.token(consumer="guest"), house.token(consumer="owner", sites=("das3",))
    lost = [house.submit(guest, type="suspendable", vms=16, duration_s=3600)["id"] for _ in range(4)][::2]
    house.submit(owner, type=None, local=True, vms=64, duration_s=60)

    def told(token: str) -> dict[str, Any]:
        entries = house.ask("GET", f"/v1/leases/{lost[1]}/journal", token).json()["entries"]
        [found] = [entry["detail"]["preemption"] for entry in entries if "preemption" in entry["detail"]]
        assert isinstance(found, dict)
        return found

    everything, seen = told(house.token(Role.FEDERATION_ADMIN, consumer="admin")), told(guest)
    assert everything["victims"] == seen["victims"] == lost[:1]
    assert everything["victims_not_named"] == seen["victims_not_named"] > 0
    assert everything["freed_vms"] == 16 * (1 + everything["victims_not_named"])
    assert seen["freed_vms"] is None
