"""``leasehold peer``, as it looks."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, problem

from leasehold.cli import peer as cli_peer
from leasehold.cli.live.names import ASKS, complete_ask, complete_peer
from leasehold.gateway import peering
from leasehold.gateway.peering import AskWhen

TOKEN: dict[str, Any] = {
    "id": "3f9a6c1b2d04", "consumer": "peer/north", "roles": ["peer"], "groups": [], "sites": ["north"],
    "note": "", "created_at": MOMENT, "expires_at": None, "revoked_at": None, "token": "lh_3f9a6c1b2d04_x",
}  # fmt: skip


def way(**said: Any) -> dict[str, Any]:
    told = {
        "status": "up", "offered": 12, "taken": 9, "refused": 2, "open": 3, "open_vms": 8,
        "rate_per_hour": 1.5, "last_heard_at": MOMENT, "problem": "",
    }  # fmt: skip
    return told | said


def peer(name: str = "north", **said: Any) -> dict[str, Any]:
    told = {
        "name": name, "url": "https://north.example.org", "ask": "none-can", "max_vms": 16, "max_hops": 3,
        "borrowing": way(), "lending": way(open=1, open_vms=4), "added_at": MOMENT, "added_by": "operator",
        "has": {"slots": 64, "free": 20, "widest": 32, "widest_free": 12, "beyond": [
            {"widest": 48, "widest_free": 40}, {"widest": 8, "widest_free": 0},
        ]},
    }  # fmt: skip
    return told | said


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "north.token"
    path.write_text("lh_of_theirs\n")
    path.chmod(0o600)
    return path


class TestAdding:
    @pytest.fixture(autouse=True)
    def _asked(self, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/peers", Reply(body={"peers": []}))
        gateway.answer("PUT", "/v1/peers/north", Reply(body=peer()))
        gateway.answer("POST", "/v1/tokens", Reply(201, TOKEN))

    def test_the_answer_is_the_token_for_the_other_side(self, cli: Cli, gateway: Gateway, token_file: Path) -> None:
        url = "https://north.example.org"
        said = cli(
            "peer", "add", "north", "--url", url, "--token-file", str(token_file), "--max-vms", "16", "--max-hops", "2"
        )
        assert (said.code, said.out) == (0, "lh_3f9a6c1b2d04_x\n")
        assert said.err == (
            "leasehold: north is a peer\n"
            "leasehold: the token above is for its gateway, and will not be shown again; there, run\n"
            f"leasehold:   leasehold peer add OUR_NAME --url {gateway.url} --token-file FILE\n"
        )
        assert gateway.asked[1].body == {
            "url": url, "token": "lh_of_theirs", "ask": "none-can", "max_vms": 16, "max_hops": 2,
        }  # fmt: skip
        assert (gateway.asked[2].body["roles"], gateway.asked[2].body["sites"]) == (["peer"], ["north"])

    def test_as_json(self, cli: Cli) -> None:
        answer = json.loads(cli("peer", "add", "north", "--json").out)
        assert (answer["peer"], answer["token"]) == (peer(), "lh_3f9a6c1b2d04_x")

    def test_who_lends_nothing_yet_is_told_what_is_left_to_do(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("PUT", "/v1/peers/south", Reply(body=peer("south", url="")))
        said = cli("peer", "add", "south")
        assert "leasehold peer add south --url URL --token-file FILE" in said.err

    @pytest.mark.parametrize(
        ("options", "problem_"),
        [
            (["--ask", "always"], "--ask: got 'always', expected one of none-can, none-can-now, never"),
            (["--token-file", "none"], "none: cannot be read"),
            (["--max-vms", "-2"], "--max-vms"),
            (["--max-hops", "0"], "--max-hops"),
            (["--max-hops", "8"], "--max-hops"),
        ],
    )
    def test_what_is_typed_wrong_is_one_line_and_nothing_is_asked(
        self, cli: Cli, gateway: Gateway, options: list[str], problem_: str
    ) -> None:
        said = cli("peer", "add", "north", *options)
        assert said.code == 2
        assert problem_ in said.err
        assert gateway.asked == []

    @pytest.mark.parametrize(("content", "mode"), [("lh_of_theirs", 0o644), ("", 0o600), ("\xff", 0o600)])
    def test_a_token_that_others_can_read_or_that_is_none_is_refused(
        self, cli: Cli, gateway: Gateway, token_file: Path, content: str, mode: int
    ) -> None:
        token_file.write_bytes(content.encode("latin-1"))
        token_file.chmod(mode)
        assert cli("peer", "add", "north", "--token-file", str(token_file)).code == 2
        assert gateway.asked == []


def test_one_that_is_known_keeps_what_is_not_said(cli: Cli, gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/peers", Reply(body={"peers": [peer(ask="never")]}))
    gateway.answer("PUT", "/v1/peers/north", Reply(body=peer()))
    said = cli("peer", "add", "north", "--max-vms", "-1")
    assert (said.code, said.out) == (0, "")
    assert said.err == "leasehold: north is a peer, on new terms\n"
    assert gateway.asked[1].body == {
        "url": "https://north.example.org", "ask": "never", "max_hops": 3,
    }  # fmt: skip


def test_a_list_says_whether_they_are_in_touch(cli: Cli, gateway: Gateway) -> None:
    silent = peer("south", max_vms=None, max_hops=1, has=None, url="", lending=way(status="off", open=0))
    silent["borrowing"] = way(status="silent", problem="it does not call", open=0)
    gateway.answer("GET", "/v1/peers", Reply(body={"peers": [peer(), silent]}))
    assert cli("peer", "list").out == (
        "NAME   BORROWING  LENDING  SLOTS  FREE  THERE  HERE  MAX_VMS  MAX_HOPS  NOTE\n"
        "north  up         up          64    20      3     1       16         3\n"
        "south  silent     off                       0     0      any         1  it does not call\n"
    )
    assert json.loads(cli("peer", "list", "--json").out)["peers"] == [peer(), silent]


def test_one_is_told_in_full(cli: Cli, gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/peers/north", Reply(body=peer(lending=way(status="silent", problem="401"))))
    assert cli("peer", "show", "north").out == (
        "peer north is asked for requests that none of our sites can serve\n"
        "  address     https://north.example.org\n"
        "  it has      64 VMs, 20 free; for one lease 32, now 12\n"
        "  beyond it   48 VMs for one lease, now 40, 1 hop further\n"
        "  beyond it   8 VMs for one lease, now 0, 2 hops further\n"
        "  may have    16 VMs here at a time\n"
        "  requests    make at most 3 hops in all\n"
        "  borrowing   up\n"
        "              12 offered, 9 taken, 2 refused\n"
        "              3 open (8 VMs), 1.5 offered an hour\n"
        "              heard 2026-11-21 10:43:36 (12:33 ago)\n"
        "  lending     silent: 401\n"
        "              12 offered, 9 taken, 2 refused\n"
        "              3 open (8 VMs), 1.5 offered an hour\n"
        "              heard 2026-11-21 10:43:36 (12:33 ago)\n"
    )
    assert json.loads(cli("peer", "show", "north", "--json").out)["peer"]["name"] == "north"


def test_one_is_removed_or_it_is_said_why_not(cli: Cli, gateway: Gateway) -> None:
    why = "north cannot be removed: leases of ours are there (1)"
    gateway.answer("DELETE", "/v1/peers/north", problem(409, "cannot-remove-peer", why), Reply(204, ""), Reply(204, ""))
    said = cli("peer", "remove", "north")
    assert (said.code, said.err) == (1, f"leasehold: {why}\n")
    assert "is no longer a peer" in cli("peer", "remove", "north").out
    assert json.loads(cli("peer", "remove", "north", "--json").out)["removed"] == "north"
    gateway.answer("DELETE", "/v1/peers/south", problem(404, "no-such-peer", "peer: got 'south'"))
    assert cli("peer", "remove", "south").code == 2


def test_names_complete(gateway: Gateway) -> None:
    assert set(ASKS) == set(AskWhen)
    assert cli_peer.MOST_HOPS == peering.MOST_HOPS
    assert complete_ask("none") == ["none-can", "none-can-now"]
    gateway.answer("GET", "/v1/peers", Reply(body={"peers": [peer(), peer("south")]}))
    assert complete_peer("n") == ["north"]
    gateway.answer("GET", "/v1/peers", problem(403, "forbidden", "no"))
    assert complete_peer("n") == ["north"]
