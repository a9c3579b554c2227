"""``leasehold lease queue``, ``decisions`` and ``timeline``, and ``leasehold usage balance``, as they look."""

import json
import re

from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, change, lease

LATER = "2026-11-21T11:00:00.000Z"
GROUP = {
    "consumer": "physics", "type": "suspendable", "local": False, "state": "waiting", "reason": "room-in-use",
    "explanation": "waits until enough VMs are free", "sites": ["das3", "lyon"], "leases": 12, "vms": 48,
    "oldest_at": MOMENT, "next_start_at": LATER,
}  # fmt: skip
QUEUE = {
    "leases": 13, "vms": 50,
    "groups": [GROUP, GROUP | {"local": True, "reason": "", "sites": [], "leases": 1, "next_start_at": None}],
}  # fmt: skip
HELD = {
    "lease": 42, "consumer": "physics", "type": "suspendable", "local": False, "vms": 4, "site": "das3",
    "begin": MOMENT, "end": LATER,
}  # fmt: skip
TIMELINE = {
    "since": MOMENT, "until": LATER, "sites": [{"name": "das3", "slots": 64}],
    "held": [HELD, HELD | {"lease": 43, "local": True, "end": None}],
    "preemptions": [{"at": MOMENT, "site": "das3", "for_lease": 43, "leases": [41, 42]}], "more": True,
}  # fmt: skip
BALANCE = {
    "since": MOMENT, "until": LATER,
    "balances": [
        {"creditor": "das3", "debtor": "lyon", "lent_slot_s": 90, "returned_slot_s": 20.5, "owed_slot_s": 69.5}
    ],
}  # fmt: skip


def table(text: str) -> list[list[str]]:
    return [re.split(r"  +", row.strip()) for row in text.splitlines()]


class TestQueue:
    def test_it_is_shown_in_groups(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/queue", Reply(body=QUEUE))
        said = cli("lease", "queue", "--consumer", "physics", "--type", "suspendable", "--site", "das3")
        head, first, second = table(said.out)
        assert head == ["CONSUMER", "TYPE", "LEASES", "VMS", "WAITS", "NEXT_START", "REASON", "SITES"]
        assert first[:4] + first[5:] == [
            "physics", "suspendable", "12", "48", "2026-11-21 11:00:00", "room-in-use", "das3,lyon"
        ]  # fmt: skip
        assert second[:3] + second[-2:] == ["physics", "own users", "1", "waiting", "gateway"]
        assert dict(gateway.asked[0].query) == {"consumer": "physics", "type": "suspendable", "site": "das3"}

    def test_its_leases_are_listed_on_demand_as_others_are(self, cli: Cli, gateway: Gateway) -> None:
        page = {"leases": [lease(1), lease(2), lease(3)], "next": None}
        gateway.answer("GET", "/v1/queue/leases", Reply(body=page), Reply(body=page))
        said = cli("lease", "queue", "--leases", "--limit", "2", "--reason", "room-in-use")
        assert [row[0] for row in table(said.out)] == ["ID", "1", "2"]
        assert said.err == "leasehold: there are more than these 2; --limit 0 lists all of them\n"
        assert ("reason", "room-in-use") in gateway.asked[0].query
        whole = json.loads(cli("lease", "queue", "--leases", "--limit", "0", "--json").out)
        assert ([one["id"] for one in whole["leases"]], whole["more"]) == ([1, 2, 3], False)

    def test_as_json(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/queue", Reply(body=QUEUE))
        assert json.loads(cli("lease", "queue", "--json").out)["queue"] == QUEUE

    def test_a_type_that_is_none(self, cli: Cli, gateway: Gateway) -> None:
        said = cli("lease", "queue", "--type", "spot")
        assert (said.code, gateway.asked) == (2, [])
        assert said.err.startswith("leasehold: type: got 'spot', expected ")


class TestDecisions:
    def test_each_has_its_reason_and_what_is_asked_for_is_sent(self, cli: Cli, gateway: Gateway) -> None:
        page = {"decisions": [change(9, lease=7), change(8, reason="", explanation="")], "next": None}
        gateway.answer("GET", "/v1/decisions", Reply(body=page))
        said = cli("lease", "decisions", "--what", "start", "--lease", "7")
        assert table(said.out) == [
            ["TIME", "WHAT", "ID", "CONSUMER", "SITE", "STATE", "WHY"],
            ["2026-11-21 10:43:36", "start", "7", "physics", "das3", "running", "got free room at once (room-free)"],
            ["2026-11-21 10:43:36", "start", "42", "physics", "das3", "running"],
        ]
        assert dict(gateway.asked[0].query) == {"what": "start", "lease": "7", "limit": "1000"}

    def test_as_json_no_more_than_asked_for(self, cli: Cli, gateway: Gateway) -> None:
        page = {"decisions": [change(9), change(8)], "next": None}
        gateway.answer("GET", "/v1/decisions", Reply(body=page))
        told = json.loads(cli("lease", "decisions", "--limit", "1", "--json").out)
        assert ([one["seq"] for one in told["decisions"]], told["more"]) == ([9], True)


class TestTimeline:
    def test_what_was_held_and_then_who_took_room(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/timeline", Reply(body=TIMELINE))
        said = cli("lease", "timeline", "--since", "2026-11-21 10:00", "--site", "das3")
        assert table(said.out) == [
            ["SITE", "ID", "CONSUMER", "TYPE", "VMS", "BEGIN", "END"],
            ["das3", "42", "physics", "suspendable", "4", "2026-11-21 10:43:36", "2026-11-21 11:00:00"],
            ["das3", "43", "physics", "own users", "4", "2026-11-21 10:43:36", "now"],
            ["2026-11-21 10:43:36", "das3: 43 took room from 41, 42"],
        ]
        assert said.err == "leasehold: more was held than these 2; a shorter time, or --site, shows all\n"
        assert dict(gateway.asked[0].query) == {"since": "2026-11-21T10:00:00.000Z", "site": "das3"}

    def test_as_json(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/timeline", Reply(body=TIMELINE))
        assert json.loads(cli("lease", "timeline", "--json").out)["timeline"] == TIMELINE


def test_who_owes_whom(cli: Cli, gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/usage/balance", Reply(body=BALANCE), Reply(body=BALANCE))
    assert table(cli("usage", "balance", "--until", "2026-11-21").out) == [
        ["DEBTOR", "CREDITOR", "LENT", "IN_RETURN", "OWED"],
        ["lyon", "das3", "90", "20.500", "69.500"],
    ]
    assert dict(gateway.asked[0].query) == {"until": "2026-11-21T00:00:00.000Z"}
    assert json.loads(cli("usage", "balance", "--json").out)["balance"] == BALANCE
