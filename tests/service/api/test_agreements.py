"""Agreements, penalties and usage over HTTP: drawn up, signed by both sides, kept to, and accounted for."""

import asyncio
from datetime import datetime
from typing import Any

import pytest
from tests.service.api.house import House

from leasehold.model.errors import InvalidField
from leasehold.service.auth.principal import Role
from leasehold.service.engine.usage import GoingOn, going_on
from leasehold.service.store.filters import EVERYTHING, UsageFilter

TERMS: dict[str, Any] = {
    "name": "atlas-at-das3",
    "provider": "das3",
    "consumer": "atlas",
    "kind": "commitment",
    "epoch_share": 0.5,
    "epoch_s": 1200,
    "burst_share": 0.75,
    "burst_s": 300,
}
"""das3 has 64 machines, lyon 32."""

PATH = "/v1/agreements/atlas-at-das3"
_ALL = UsageFilter(EVERYTHING, 0, 1 << 62)


@pytest.fixture
def operator(house: House) -> str:
    return house.token(Role.SITE_OPERATOR, consumer="das3-operators", sites=("das3",))


@pytest.fixture
def manager(house: House) -> str:
    return house.token(Role.GROUP_MANAGER, consumer="atlas-managers", groups=("atlas",))


@pytest.fixture
def member(house: House) -> str:
    return house.token(consumer="simulation-team", groups=("atlas/production",))


def proposed(house: House, token: str, **said: Any) -> dict[str, Any]:
    answer = house.ask("POST", "/v1/agreements", token, json=TERMS | said)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def sign(house: House, token: str, side: str, revision: int = 1) -> dict[str, Any]:
    answer = house.ask("POST", f"{PATH}/sign", token, json={"side": side, "revision": revision})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


class TestLife:
    def test_one_side_draws_it_up_and_both_sign_it(self, house: House, operator: str, manager: str) -> None:
        shown = proposed(house, manager)
        assert (shown["standing"], shown["in_force"], shown["published"]) == ("proposed", False, False)
        assert (shown["current"]["revision"], shown["current"]["terms"]) == (1, TERMS)
        assert shown["current"]["drawn_up"]["by"] == "atlas-managers"
        assert sign(house, manager, "consumer")["in_force"] is False
        shown = sign(house, operator, "provider")
        assert (shown["standing"], shown["in_force"]) == ("signed", True)
        assert shown["current"]["provider"]["by"] == "das3-operators"
        assert shown["current"]["consumer"]["by"] == "atlas-managers"

    def test_who_draws_one_up_is_told_where_it_is(self, house: House, manager: str) -> None:
        answer = house.ask("POST", "/v1/agreements", manager, json=TERMS)
        assert answer.headers["Location"] == PATH
        assert house.ask("GET", PATH, manager).json() == answer.json()

    def test_an_amendment_waits_beside_what_holds(self, house: House, operator: str, manager: str) -> None:
        proposed(house, manager)
        for token, side in ((manager, "consumer"), (operator, "provider")):
            sign(house, token, side)
        answer = house.ask("PUT", PATH, operator, json=TERMS | {"epoch_share": 0.25})
        shown = answer.json()
        assert (shown["current"]["revision"], shown["amendment"]["revision"]) == (1, 2)
        assert shown["amendment"]["terms"]["epoch_share"] == 0.25
        sign(house, operator, "provider", 2)
        shown = sign(house, manager, "consumer", 2)
        assert (shown["current"]["revision"], shown["amendment"]) == (2, None)

    def test_suspended_resumed_and_revoked_with_a_note(self, house: House, operator: str, manager: str) -> None:
        proposed(house, manager)
        for token, side in ((manager, "consumer"), (operator, "provider")):
            sign(house, token, side)
        shown = house.ask("POST", f"{PATH}/suspend", operator, json={"note": "new switches"}).json()
        assert (shown["standing"], shown["in_force"], shown["note"]) == ("suspended", False, "new switches")
        assert house.ask("POST", f"{PATH}/resume", operator).json()["in_force"]
        shown = house.ask("POST", f"{PATH}/revoke", manager).json()
        assert (shown["standing"], shown["since_by"]) == ("revoked", "atlas-managers")

    def test_a_consumer_passes_a_part_on_and_signs_for_the_provider(
        self, house: House, operator: str, manager: str
    ) -> None:
        proposed(house, manager)
        part = {"name": "part", "consumer": "atlas/production", "parent": TERMS["name"], "relative": True}
        proposed(house, manager, **part)
        path = "/v1/agreements/part/sign"
        theirs = house.token(Role.GROUP_MANAGER, consumer="production", groups=("atlas/production",))
        as_provider = {"side": "provider", "revision": 1}
        assert house.ask("POST", path, operator, json=as_provider).status_code == 403
        assert house.ask("POST", path, theirs, json=as_provider).status_code == 403
        assert house.ask("POST", path, manager, json=as_provider).status_code == 200
        as_consumer = {"side": "consumer", "revision": 1}
        assert house.ask("POST", path, theirs, json=as_consumer).json()["standing"] == "signed"


class TestWhoSees:
    def test_only_the_parties_until_it_is_published(
        self, house: House, operator: str, manager: str, member: str
    ) -> None:
        stranger = house.token(consumer="cms-team", groups=("cms",))
        proposed(house, manager)

        def seen(token: str) -> list[str]:
            listed = house.ask("GET", "/v1/agreements", token).json()["agreements"]
            return [one["name"] for one in listed]

        assert [seen(token) for token in (manager, operator, member)] == [[TERMS["name"]]] * 3
        assert seen(stranger) == []
        assert house.ask("GET", PATH, stranger).json()["type"] == "urn:leasehold:problem:no-such-agreement"
        house.ask("POST", f"{PATH}/publish", operator)
        assert seen(stranger) == [TERMS["name"]]
        house.ask("POST", f"{PATH}/publish", operator, json={"published": False})
        assert seen(stranger) == []

    def test_a_group_named_as_everybody_is_nobody(self, house: House, manager: str) -> None:
        proposed(house, manager)
        with pytest.raises(InvalidField, match=r"^groups: got '\*'"):
            house.token(Role.MEMBER, Role.GROUP_MANAGER, consumer="x", groups=("*",))
        stranger = house.token(Role.MEMBER, Role.GROUP_MANAGER, consumer="x", groups=("y",))
        assert house.ask("GET", "/v1/agreements", stranger).json() == {"agreements": []}
        house.submit(house.token(groups=("atlas",)))
        assert house.ask("GET", "/v1/usage", stranger).json()["usage"] == []


class TestRefused:
    @pytest.mark.parametrize(
        ("said", "field", "expected"),
        [
            ({"share": 0.5}, "share", "one of "),
            ({"epoch_share": 1.5}, "epoch_share", "a number from 0 to 1"),
            ({"kind": "udeca"}, "kind", "one of "),
            ({"provider": "das4"}, "provider", "one of *, das3, lyon (did you mean 'das3'?)"),
            ({"begin_s": 3}, "begin_s", "one of "),
            ({"end": "2026-01-01"}, "end", "a date and time with its zone"),
            ({"parent": "nobodys"}, "parent", "one of "),
        ],
    )
    def test_wrong_terms_are_told_by_their_field(
        self, house: House, said: dict[str, Any], field: str, expected: str
    ) -> None:
        admin = house.token(Role.FEDERATION_ADMIN, consumer="admin")
        answer = house.ask("POST", "/v1/agreements", admin, json=TERMS | said)
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, field)
        assert problem["expected"].startswith(expected)

    def test_what_is_missing_has_no_value(self, house: House) -> None:
        admin = house.token(Role.FEDERATION_ADMIN, consumer="admin")
        problem = house.ask("POST", "/v1/agreements", admin, json={}).json()
        assert (problem["field"], problem["value"]) == ("name", None)

    def test_a_move_that_is_not_open_says_what_was_expected(self, house: House, operator: str) -> None:
        proposed(house, operator)
        answer = house.ask("POST", f"{PATH}/resume", operator)
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (409, "urn:leasehold:problem:agreement-move")
        assert (problem["field"], problem["value"]) == ("agreement atlas-at-das3", "proposed")
        assert problem["expected"] == "suspended, so that one can resume it"

    def test_a_revision_that_nobody_drew_up(self, house: House, operator: str) -> None:
        proposed(house, operator)
        answer = house.ask("POST", f"{PATH}/sign", operator, json={"side": "provider", "revision": 2})
        assert answer.status_code == 409
        assert "revision 1" in answer.json()["expected"]

    def test_a_name_is_given_once(self, house: House, operator: str, manager: str) -> None:
        proposed(house, operator)
        assert house.ask("POST", "/v1/agreements", operator, json=TERMS).status_code == 201  # the same again
        assert house.ask("POST", "/v1/agreements", manager, json=TERMS).status_code == 409

    def test_an_amendment_under_another_name(self, house: House, operator: str) -> None:
        proposed(house, operator)
        problem = house.ask("PUT", PATH, operator, json=TERMS | {"name": "another"}).json()
        assert (problem["field"], problem["expected"]) == ("name", "atlas-at-das3, as in the path")


class TestKeptTo:
    def test_who_asks_for_more_than_is_lent_at_a_time_is_told_the_numbers(
        self, house: House, operator: str, manager: str
    ) -> None:
        proposed(house, manager, lending_limit=2)
        for token, side in ((manager, "consumer"), (operator, "provider")):
            sign(house, token, side)
        team = house.token(consumer="team", groups=("atlas",))
        first = house.submit(team, vms=3, domain="das3")
        assert (first["state"], first["reason"]) == ("refused", "exceeds-agreement")
        house.submit(team, vms=2, domain="das3")
        second = house.submit(team, vms=1, domain="das3")
        assert (second["state"], second["reason"]) == ("held", "concurrency-limit-reached")
        assert second["explanation"].endswith(": atlas has 2 VMs of its 2 at a time at das3")
        entries = house.ask("GET", f"/v1/leases/{second['id']}/journal", team).json()["entries"]
        assert entries[-1]["explanation"] == second["explanation"]
        assert entries[-1]["detail"]["breach"]["agreement"] == TERMS["name"]

    def test_a_request_says_its_domain_and_its_claims(self, house: House) -> None:
        lease = house.submit(house.token(groups=("atlas",)), domain="lyon", vms=1)
        assert (lease["domain"], lease["site"], lease["claims"]) == ("lyon", "lyon", {})
        lease = house.submit(house.token(), claims={"licence:matlab": 1})
        assert (lease["state"], lease["reason"]) == ("refused", "resource-unavailable")


class TestUsage:
    def test_what_goes_on_counts_until_now(self, house: House, operator: str, manager: str) -> None:
        team = house.token(consumer="team", groups=("atlas",))
        owner = house.token(consumer="owner", sites=("das3",))
        house.running(house.submit(team, vms=3, domain="das3")["id"], team)
        house.running(house.submit(owner, type=None, local=True, vms=2)["id"], owner)
        shown = house.ask("GET", "/v1/usage?by=day", operator).json()["usage"]
        assert [(use["consumer"], use["local"], use["peak_vms"], use["leases"]) for use in shown] == [
            ("atlas", False, 3, 1),
            ("owner", True, 2, 1),
        ]
        (of_group,) = house.ask("GET", "/v1/usage?depth=2", manager).json()["usage"]
        assert of_group["consumer"] == "atlas/team"

    def test_a_cancelled_lease_has_used_to_the_millisecond_what_it_held(self, house: House) -> None:
        team = house.token(consumer="team", groups=("atlas",))
        lease = house.submit(team, vms=3)
        house.running(lease["id"], team)
        cancelled = house.ask("DELETE", f"/v1/leases/{lease['id']}", team).json()
        (use,) = house.ask("GET", "/v1/usage?consumer=atlas/team", team).json()["usage"]
        (row,) = house.federation.store.usage(_ALL)
        assert row.lease_id == cancelled["id"]
        assert use["slot_s"] * 1000 == pytest.approx(3 * (row.end_ms - row.begin_ms), abs=1e-6)

    @pytest.mark.parametrize("path", ["", "/statement?month=2026-11&consumer=atlas"])
    def test_who_waits_for_accounts_holds_no_copy_of_what_goes_on(
        self, house: House, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        """All copies together were looked through for garbage, which held up the engine."""
        copies, most = 0, 0

        def copied(*told: Any) -> GoingOn:
            nonlocal copies, most
            copies += 1
            most = max(most, copies)
            return going_on(*told)

        def used(rows: GoingOn, which: UsageFilter) -> Any:
            nonlocal copies
            found = rows_of(rows, which)
            copies -= 1
            return found

        rows_of = GoingOn.rows
        monkeypatch.setattr("leasehold.service.agreements.going_on", copied)
        monkeypatch.setattr(GoingOn, "rows", used)
        token = house.token(groups=("atlas",))

        async def ask() -> list[int]:
            heads = {"Authorization": f"Bearer {token}"}
            asked = (house.client.get(f"/v1/usage{path}", headers=heads) for _ in range(8))
            return [answer.status_code for answer in await asyncio.gather(*asked)]

        assert house.portal.call(ask) == [200] * 8
        assert (copies, most) == (0, 1)

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("since=2026-11-02T00:00:00Z&until=2026-11-01T00:00:00Z", "until"),
            ("by=year", "by"),
            ("depth=0", "depth"),
            ("since=2020-01-01T00:00:00Z&by=hour", "by"),
        ],
    )
    def test_what_cannot_be_asked(self, house: House, query: str, field: str) -> None:
        answer = house.ask("GET", f"/v1/usage?{query}", house.token())
        assert (answer.status_code, answer.json()["field"]) == (422, field)

    def test_a_statement_has_what_was_agreed_beside_what_was_used(
        self, house: House, operator: str, manager: str
    ) -> None:
        proposed(house, manager)
        for token, side in ((manager, "consumer"), (operator, "provider")):
            sign(house, token, side)
        team = house.token(consumer="team", groups=("atlas",))
        house.running(house.submit(team, vms=3, domain="das3")["id"], team)
        month = house.ask("GET", PATH, manager).json()["since"][:7]
        shown = house.ask("GET", f"/v1/usage/statement?month={month}&consumer=atlas", manager).json()
        das3, total = shown["lines"]
        assert (das3["domain"], total["domain"]) == ("das3", "*")
        (share,) = das3["shares"]
        assert (share["agreement"], share["share"], share["burst_share"]) == (TERMS["name"], 0.5, 0.75)
        signed_at = house.ask("GET", PATH, manager).json()["current"]["provider"]["at"]
        begin, since, end = map(datetime.fromisoformat, (shown["begin"], signed_at, shown["end"]))
        in_force = (end - since) / (end - begin)  # the part of the month
        assert share["slot_s"] == pytest.approx(das3["capacity_slot_s"] * 0.5 * in_force)
        assert (das3["peak_vms"], das3["leases"], das3["penalties"]) == (3, 1, [])
