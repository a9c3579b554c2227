"""The queue in groups, the feed of decisions, and the timeline: as the API tells them, to whom it tells them."""

from typing import Any

from tests.service.api.house import House

from leasehold.protocol.activity import DECIDED
from leasehold.service.auth.principal import Role

PHYSICS, CLIMATE = "physics", "climate"


def busy(house: House) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Let an own user take room from a guest, and guests wait; gives taker, victim, and those who wait."""
    physics, climate = house.token(consumer=PHYSICS), house.token(consumer=CLIMATE, sites=("das3", "lyon"))
    victim = house.running(house.submit(physics, vms=60, duration_s=3600)["id"], physics)
    slots = {"das3": 64, "lyon": 32}
    takers = [
        house.submit(climate, type=None, local=True, site=site, vms=vms, duration_s=600) for site, vms in slots.items()
    ]
    [taker] = [one for one in takers if one["site"] == victim["site"]]
    house.running(taker["id"], climate)
    waiting = [
        house.submit(physics, vms=vms, duration_s=60, type=kind)
        for vms, kind in ((8, "cancelable"), (4, "cancelable"), (2, "suspendable"))
    ]
    return taker, victim, waiting


def get(house: House, path: str, token: str, **query: Any) -> Any:
    answer = house.ask("GET", path, token, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestQueue:
    def test_groups_count_what_their_leases_are(self, house: House) -> None:
        _, victim, waiting = busy(house)
        admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        found = get(house, "/v1/queue", admin)
        leases = get(house, "/v1/queue/leases", admin)["leases"]
        assert {lease["id"] for lease in leases} >= {one["id"] for one in waiting}
        assert [lease["id"] for lease in leases] == sorted(lease["id"] for lease in leases)
        assert (found["leases"], found["vms"]) == (len(leases), sum(lease["vms"] for lease in leases))
        assert sum(group["leases"] for group in found["groups"]) == len(leases)
        [cancelable] = [group for group in found["groups"] if group["type"] == "cancelable"]
        assert (cancelable["consumer"], cancelable["leases"], cancelable["vms"]) == (PHYSICS, 2, 12)
        assert cancelable["oldest_at"] == waiting[0]["submitted_at"]
        assert cancelable["explanation"]
        assert victim["id"] in {lease["id"] for lease in leases if lease["type"] == "suspendable"}

    def test_a_filter_holds_for_groups_and_leases_alike(self, house: House) -> None:
        _, _, waiting = busy(house)
        admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        for query in ({"type": "cancelable"}, {"consumer": PHYSICS}, {"consumer": CLIMATE}, {"reason": "room-in-use"}):
            leases = get(house, "/v1/queue/leases", admin, **query)["leases"]
            assert get(house, "/v1/queue", admin, **query)["leases"] == len(leases)
        assert get(house, "/v1/queue", admin, consumer=CLIMATE)["groups"] == []
        page = get(house, "/v1/queue/leases", admin, type="cancelable", limit=1)
        [after] = get(house, "/v1/queue/leases", admin, type="cancelable", cursor=page["next"])["leases"]
        assert [page["leases"][0]["id"], after["id"]] == [one["id"] for one in waiting[:2]]

    def test_nobody_is_told_of_others_leases(self, house: House) -> None:
        busy(house)
        assert get(house, "/v1/queue", house.token(consumer="stranger"))["leases"] == 0
        assert get(house, "/v1/queue/leases", house.token(consumer="stranger"))["leases"] == []


class TestDecisions:
    def test_the_latest_come_first_and_pages_go_on(self, house: House) -> None:
        taker, victim, _ = busy(house)
        admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        every = get(house, "/v1/decisions", admin)["decisions"]
        assert [one["seq"] for one in every] == sorted((one["seq"] for one in every), reverse=True)
        assert {one["what"] for one in every} <= set(DECIDED)
        [preempted] = get(house, "/v1/decisions", admin, what="preempt")["decisions"]
        assert preempted["lease"] == victim["id"]
        assert preempted["detail"]["preemption"]["for_lease"] == taker["id"]
        first = get(house, "/v1/decisions", admin, limit=2)
        rest = get(house, "/v1/decisions", admin, cursor=first["next"])
        assert first["decisions"] + rest["decisions"] == every

    def test_of_a_lease_or_for_a_reason(self, house: House) -> None:
        _, victim, _ = busy(house)
        admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        of_victim = get(house, "/v1/decisions", admin, lease=victim["id"])["decisions"]
        assert {one["lease"] for one in of_victim} == {victim["id"]}
        reason = of_victim[0]["reason"]
        assert {one["reason"] for one in get(house, "/v1/decisions", admin, reason=reason)["decisions"]} == {reason}

    def test_a_kind_that_is_none_is_refused_by_its_name(self, house: House) -> None:
        answer = house.ask("GET", "/v1/decisions", house.token(), params={"what": "guess"})
        assert answer.status_code == 422
        assert "what: got 'guess', expected one of refuse, " in answer.json()["detail"]

    def test_whose_they_are_is_told_by_rights(self, house: House) -> None:
        taker, victim, _ = busy(house)
        [mine] = get(house, "/v1/decisions", house.token(consumer=PHYSICS), what="preempt")["decisions"]
        assert mine["lease"] == victim["id"]
        assert mine["detail"]["preemption"].get("for_lease") != taker["id"]
        assert get(house, "/v1/decisions", house.token(consumer="stranger"))["decisions"] == []


class TestTimeline:
    def test_what_was_held_and_who_took_room_from_whom(self, house: House) -> None:
        taker, victim, _ = busy(house)
        admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        found = get(house, "/v1/timeline", admin)
        [of_victim] = [one for one in found["held"] if one["lease"] == victim["id"]]
        [of_taker] = [one for one in found["held"] if one["lease"] == taker["id"]]
        assert (of_victim["type"], of_victim["local"], of_victim["vms"]) == ("suspendable", False, 60)
        assert (of_taker["local"], of_taker["end"]) == (True, None)
        assert of_victim["site"] == of_taker["site"]
        [taken] = found["preemptions"]
        assert (taken["for_lease"], taken["leases"]) == (taker["id"], [victim["id"]])
        assert {site["name"]: site["slots"] for site in found["sites"]} == {"das3": 64, "lyon": 32}
        assert found["more"] is False

    def test_of_one_site_and_no_more_than_asked_for(self, house: House) -> None:
        busy(house)
        admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
        at_lyon = get(house, "/v1/timeline", admin, site="lyon")
        assert {one["site"] for one in at_lyon["held"]} == {"lyon"}
        one = get(house, "/v1/timeline", admin, limit=1)
        assert (len(one["held"]), one["more"]) == (1, True)
        assert one["held"][0]["begin"] == max(held["begin"] for held in get(house, "/v1/timeline", admin)["held"])

    def test_a_time_that_is_none_and_a_site_that_is_none(self, house: House) -> None:
        wrong = {"since": "2026-11-22T00:00:00Z", "until": "2026-11-21T00:00:00Z"}
        answer = house.ask("GET", "/v1/timeline", house.token(), params=wrong)
        assert (answer.status_code, "since" in answer.json()["detail"]) == (422, True)
        assert house.ask("GET", "/v1/timeline", house.token(), params={"site": "nowhere"}).status_code == 422

    def test_a_stranger_sees_an_empty_one(self, house: House) -> None:
        busy(house)
        found = get(house, "/v1/timeline", house.token(consumer="stranger"))
        assert (found["held"], found["preemptions"]) == ([], [])


def test_who_owes_whom(house: House) -> None:
    busy(house)
    admin = house.token(Role.FEDERATION_ADMIN, consumer="chief")
    found = get(house, "/v1/usage/balance", admin)
    assert {one["debtor"] for one in found["balances"]} == {PHYSICS}
    used = get(house, "/v1/usage", admin, since=found["since"], until=found["until"])["usage"]
    lent = {one["domain"]: one["slot_s"] for one in used if not one["local"]}
    assert {one["creditor"]: one["owed_slot_s"] for one in found["balances"]} == lent
