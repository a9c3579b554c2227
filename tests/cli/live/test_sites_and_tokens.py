"""``leasehold site`` and ``leasehold token``, as they look."""

import json
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, problem, site

DRAINED = {"status": "drained", "drained_by": "operator", "note": "new switch"}
TOKEN: dict[str, Any] = {
    "id": "3f9a6c1b2d04",
    "consumer": "physics",
    "roles": ["member"],
    "groups": ["astro"],
    "sites": [],
    "note": "",
    "created_at": MOMENT,
    "expires_at": "2026-12-21T10:43:36.120Z",
    "revoked_at": None,
}


class TestSites:
    def test_a_list_looks_like_sinfo(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site(), site("lyon", **DRAINED)]}))
        said = cli("site", "list")
        assert said.out == (
            "NAME  STATE    SLOTS  FREE  LOCAL  GUESTS  WAITING_LOCAL  WAITING_GUESTS  DRIVER    NOTE\n"
            "das3  up          64    28     16      20              0               3  emulated\n"
            "lyon  drained     64    28     16      20              0               3  emulated  new switch\n"
        )
        assert json.loads(cli("site", "list", "--json").out)["sites"][0] == site()

    def test_one_is_told_in_full(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/sites/das3", Reply(body=site(**DRAINED, problem="disk full")))
        assert cli("site", "show", "das3").out == (
            "site das3 is drained by operator: new switch\n"
            "  machines    64 of 1 MIPS each, made by emulated\n"
            "  in use      16 by its own users, 20 by guests, 28 free\n"
            "  waiting     0 of its own, 3 guests\n"
            "  can         suspend, migrate, commands\n"
            "  last seen   2026-11-21 10:43:36 (12:33 ago)\n"
            "  problem     disk full\n"
        )

    def test_how_long_it_takes_is_said_with_how_that_is_known(self, cli: Cli, gateway: Gateway) -> None:
        times = [
            {"operation": "start", "configured_s": None, "learnt_s": 2.41, "count": 12},
            {"operation": "suspend", "configured_s": 160, "learnt_s": 16.5, "count": 9},
            {"operation": "resume", "configured_s": 126, "learnt_s": 126, "count": 1},
            {"operation": "migrate", "configured_s": 372.5, "learnt_s": 372.5, "count": 0},
        ]
        gateway.answer("GET", "/v1/sites/das3", Reply(body=site(overheads=times)))
        assert cli("site", "show", "das3").out.splitlines()[-4:] == [
            "  start       2.41 s, measured 12 times",
            "  suspend     16.5 s, measured 9 times; configured 160 s",
            "  resume      126 s, measured once; configured 126 s",
            "  migrate     372.5 s, as configured",
        ]
        assert json.loads(cli("site", "show", "das3", "--json").out)["site"]["overheads"] == times

    def test_how_long_a_start_takes_is_not_said_before_it_is_known(self, cli: Cli, gateway: Gateway) -> None:
        start = {"operation": "start", "configured_s": None, "learnt_s": None, "count": 0}
        gateway.answer("GET", "/v1/sites/das3", Reply(body=site(overheads=[start])))
        assert "start" not in cli("site", "show", "das3").out

    def test_it_is_drained_and_resumed(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/sites/das3/drain", Reply(body=site(**DRAINED)))
        gateway.answer("POST", "/v1/sites/das3/resume", Reply(body=site()))
        assert cli("site", "drain", "das3", "--note", "new switch").out.startswith(
            "site das3 is drained by operator: new switch\n"
        )
        assert gateway.asked[0].body == {"note": "new switch"}
        assert cli("site", "resume", "das3").out.startswith("site das3 is up\n")
        assert json.loads(cli("site", "resume", "das3", "--json").out)["site"] == site()

    def test_what_they_can(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site()]}))
        gateway.answer("GET", "/v1/sites/das3", Reply(body=site()))
        table = (
            "NAME  SUSPEND  MIGRATE  CHECKPOINT  COMMANDS  LOGIN\ndas3  yes      yes      no          yes       no\n"
        )
        assert cli("site", "capabilities").out == table
        assert cli("site", "capabilities", "das3").out == table
        answer = json.loads(cli("site", "capabilities", "--json").out)
        assert answer["sites"] == {"das3": site()["capabilities"]}

    def test_another_is_one_line(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/sites/dsa3", problem(404, "no-such-site", "site: got 'dsa3', expected a site"))
        said = cli("site", "show", "dsa3")
        assert (said.code, said.out, said.err) == (2, "", "leasehold: site: got 'dsa3', expected a site\n")


class TestTokens:
    def test_a_new_one_is_the_answer(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/tokens", Reply(201, TOKEN | {"token": "lh_3f9a6c1b2d04_x"}))
        said = cli("token", "create", "physics", "--group", "astro", "--expires", "30d", "--note", "laptop")
        assert (said.code, said.out) == (0, "lh_3f9a6c1b2d04_x\n")
        assert said.err == (
            "leasehold: token 3f9a6c1b2d04 is for physics as member, groups astro; "
            "until 2026-12-21 10:43:36; keep it safe, it is shown only now\n"
        )
        assert gateway.asked[0].body == {
            "consumer": "physics",
            "roles": ["member"],
            "groups": ["astro"],
            "expires_in_s": 2_592_000,
            "note": "laptop",
        }

    def test_roles_and_sites_may_be_several(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/tokens", Reply(201, TOKEN | {"token": "lh_3f9a6c1b2d04_x"}))
        options = [
            "--role",
            "member",
            "--role",
            "site-operator",
            "--site",
            "das3",
            "--site",
            "lyon",
            "--json",
        ]
        answer = json.loads(cli("token", "create", "operator", *options).out)
        assert answer["token"]["token"] == "lh_3f9a6c1b2d04_x"  # noqa: S105 - nobody's
        assert gateway.asked[0].body["roles"] == ["member", "site-operator"]
        assert gateway.asked[0].body["sites"] == ["das3", "lyon"]

    def test_a_list_never_shows_them(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/tokens", Reply(body={"tokens": [TOKEN]}))
        head, row = cli("token", "list").out.splitlines()
        assert head.split() == [
            *("ID", "CONSUMER", "ROLES", "GROUPS", "SITES", "CREATED", "EXPIRES", "REVOKED", "NOTE")
        ]
        assert row == ("3f9a6c1b2d04  physics   member  astro          2026-11-21 10:43:36  2026-12-21 10:43:36")
        assert json.loads(cli("token", "list", "--json").out)["tokens"] == [TOKEN]

    def test_they_are_revoked(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("DELETE", "/v1/tokens/3f9a6c1b2d04", Reply(204, ""))
        assert cli("token", "revoke", "3f9a6c1b2d04").out == "token 3f9a6c1b2d04 is revoked\n"
        assert json.loads(cli("token", "revoke", "3f9a6c1b2d04", "--json").out)["revoked"] == ["3f9a6c1b2d04"]
        assert cli("token", "revoke", "other").code == 2

    @pytest.mark.parametrize("token_id", ["3f9a6c1b2d04", None])
    def test_ones_own_says_what_one_may(self, cli: Cli, gateway: Gateway, token_id: str | None) -> None:
        told = {
            "consumer": "physics",
            "roles": ["member"],
            "groups": [],
            "sites": ["das3"],
            "token_id": token_id,
            "permissions": {"lease.see": ["own"], "site.see": ["all"]},
        }
        gateway.answer("GET", "/v1/tokens/self", Reply(body=told))
        assert cli("token", "inspect").out == (
            "physics as member, sites das3\n"
            f"  gateway     {gateway.url}\n"
            f"  token       {token_id or 'of another issuer'}, from LEASEHOLD_TOKEN\n"
            "  may         lease.see (own)\n"
            "  may         site.see (all)\n"
        )
        answer = json.loads(cli("token", "inspect", "--json").out)
        assert (answer["caller"], answer["gateway"]) == (told, gateway.url)
