"""``leasehold usage``, as it looks; and what a request says of sharing."""

import json
import re
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, lease

from leasehold.cli.live.names import WINDOWS, complete_by
from leasehold.protocol.usage import By

OCTOBER, NOVEMBER = "2026-10-01T00:00:00.000Z", "2026-11-01T00:00:00.000Z"


def use(**said: Any) -> dict[str, Any]:
    told = {
        "begin": OCTOBER, "end": NOVEMBER, "consumer": "atlas", "domain": "das3", "local": False,
        "slot_s": 86400.5, "leases": 12, "peak_vms": 16, "gpu_s": None,
    }  # fmt: skip
    return told | said


USAGE = {"since": OCTOBER, "until": NOVEMBER, "usage": [use(), use(consumer="owner", local=True, slot_s=60)]}
PENALTY = {
    "id": 3, "agreement": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "points": 10,
    "stands": False, "since": MOMENT, "until": "2026-11-21T11:00:00.000Z", "lease": 42, "lifted_at": MOMENT,
    "lifted_by": "operators",
}  # fmt: skip
SHARE = {
    "agreement": "atlas-at-das3", "provider": "das3", "share": 0.3, "burst_share": 0.6, "slot_s": 1000
}  # fmt: skip
LINE = {
    "domain": "das3", "shares": [SHARE, SHARE | {"agreement": "night", "share": 0.125, "burst_share": 1}],
    "slot_s": 250.25, "capacity_slot_s": 4000, "used_share": 0.0626, "peak_vms": 4, "leases": 2,
    "penalties": [PENALTY], "gpu_s": None,
}  # fmt: skip
STATEMENT = {
    "month": "2026-10", "consumer": "atlas", "begin": OCTOBER, "end": NOVEMBER,
    "lines": [LINE, LINE | {"domain": "*", "shares": []}],
}  # fmt: skip


class TestUsage:
    def test_in_all(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/usage", Reply(body=USAGE))
        october = "2026-10-01 00:00:00 - 2026-11-01 00:00:00"
        assert [re.split(r"  +", row) for row in cli("usage", "show").out.splitlines()] == [
            ["WINDOW", "CONSUMER", "DOMAIN", "WHO", "SLOT_SECONDS", "LEASES", "PEAK_VMS"],
            [october, "atlas", "das3", "guests", "86400.500", "12", "16"],
            [october, "owner", "das3", "locals", "60", "12", "16"],
        ]
        assert gateway.asked[0].query == [("depth", "1")]

    def test_what_is_asked_for_is_sent(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/usage", Reply(body=USAGE))
        options = ["--consumer", "atlas", "--domain", "das3", "--since", "2026-10-01", "--until", "now-1h"]
        said = cli("usage", "show", *options, "--by", "month", "--depth", "2")
        assert said.out.splitlines()[1].startswith("2026-10  atlas")
        assert dict(gateway.asked[0].query) == {
            "consumer": "atlas",
            "domain": "das3",
            "since": OCTOBER,
            "until": "2026-11-21T09:56:10.000Z",
            "by": "month",
            "depth": "2",
        }

    def test_as_json(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/usage", Reply(body=USAGE))
        assert json.loads(cli("usage", "show", "--json").out)["usage"] == USAGE

    def test_a_window_that_is_none(self, cli: Cli, gateway: Gateway) -> None:
        said = cli("usage", "show", "--by", "week")
        assert (said.code, gateway.asked) == (2, [])
        assert said.err == "leasehold: --by: got 'week', expected one of hour, day, month\n"

    def test_windows_complete_as_they_are(self) -> None:
        assert {*WINDOWS, "total"} == set(By)
        assert complete_by("m") == ["month"]


class TestStatement:
    @pytest.fixture(autouse=True)
    def _told(self, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/usage/statement", Reply(body=STATEMENT))

    def test_by_domain_with_each_agreement_and_the_sum(self, cli: Cli, gateway: Gateway) -> None:
        out = cli("usage", "statement", "--month", "2026-10", "--consumer", "atlas").out.splitlines()
        assert out[0] == "statement of atlas for 2026-10 (2026-10-01 to before 2026-11-01, UTC)"
        assert [line.split() for line in out[1:5]] == [
            ["DOMAIN", "AGREEMENT", "SHARE", "BURST", "AGREED_SLOT_S", "USED_SLOT_S", "USED", "PEAK_VMS",
             "LEASES", "PENALTIES"],
            ["das3", "atlas-at-das3", "30%", "60%", "1000", "250.250", "6.3%", "4", "2", "1"],
            ["night", "12.5%", "100%", "1000"],
            ["all", "250.250", "6.3%", "4", "2", "1"],
        ]  # fmt: skip
        assert out[5] == (
            "penalty 3: atlas-at-das3 was broken by lease 42, 2026-11-21 10:43:36 until 2026-11-21 11:00:00, "
            "lifted by operators"
        )
        assert gateway.asked[0].query == [("month", "2026-10"), ("consumer", "atlas")]

    def test_as_json(self, cli: Cli) -> None:
        said = cli("usage", "statement", "--month", "2026-10", "--consumer", "atlas", "--json")
        assert json.loads(said.out)["statement"] == STATEMENT


class TestRequests:
    def test_a_request_says_its_domain_and_what_it_claims(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease(domain="das3", claims={"licence:matlab": 3})))
        claims = ["--claim", "licence:matlab=2", "--claim", "licence:matlab=1"]
        cli("lease", "submit", "--duration", "60", "--type", "cancelable", "--domain", "das3", *claims)
        assert gateway.asked[0].body["domain"] == "das3"
        assert gateway.asked[0].body["claims"] == {"licence:matlab": 3}

    @pytest.mark.parametrize("claim", ["licence:matlab", "=2", "licence:matlab=0", "licence:matlab=two"])
    def test_what_is_no_claim(self, cli: Cli, gateway: Gateway, claim: str) -> None:
        said = cli("lease", "submit", "--duration", "60", "--type", "cancelable", "--claim", claim)
        assert (said.code, gateway.asked) == (2, [])
        assert said.err.startswith(f"leasehold: --claim: got '{claim}', expected a resource and how many of it")

    def test_a_lease_shows_them(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(domain="das3", claims={"licence:matlab": 3})))
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [], "next": None}))
        out = cli("lease", "show", "42").out
        assert "  bound to    das3\n  claims      licence:matlab=3\n" in out
