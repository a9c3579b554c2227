"""Leases as they change: ``lease watch``, ``cancel``, ``extend`` and ``logs``, as they look."""

import json
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import Cut, Gateway, Reply, Stream, change, event, lease, problem, site

from leasehold.cli.live.leases import account
from leasehold.client import Lease

AT = "2026-11-21 10:43:36"
COMPLETED: dict[str, Any] = {"state": "completed", "reason": "completed", "ends_at": None}


class TestWatch:
    HISTORY = (change(7, state="waiting", reason="room-in-use", explanation="waits until enough VMs are free"),)
    OVER = change(9, state="completed", reason="completed", explanation="ran to its end")

    def test_tells_from_the_beginning_to_the_end(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": self.HISTORY, "next": None}))
        gateway.answer("GET", "/v1/changes", Stream(event(change(8)) + event(self.OVER)))
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(**COMPLETED)))
        said = cli("lease", "watch", "42")
        assert (said.code, said.err) == (0, "")
        assert said.out == (
            f"{AT}      42  waiting     das3          waits until enough VMs are free (room-in-use)\n"
            f"{AT}      42  running     das3          got free room at once (room-free)\n"
            f"{AT}      42  completed   das3          ran to its end (completed)\n"
        )

    def test_several_end_with_the_last_of_them(self, cli: Cli, gateway: Gateway) -> None:
        for number, seq in ((1, 20), (2, 30)):
            gateway.answer("GET", f"/v1/leases/{number}/journal", Reply(body={"entries": [change(seq)], "next": None}))
            gateway.answer("GET", f"/v1/leases/{number}", Reply(body=lease(number, **COMPLETED)))
        ends = [change(seq, lease=number, state="completed") for seq, number in ((31, 2), (32, 3), (33, 1))]
        told = [change(30, lease=2), *ends]  # line 30 was in the journal, and lease 3 is none of ours
        gateway.answer("GET", "/v1/changes", Stream("".join(map(event, told))))
        said = cli("lease", "watch", "1", "2", "--json")
        lines = [json.loads(line) for line in said.out.splitlines()]
        assert {line["schema_version"] for line in lines} == {1}
        assert [(line["change"]["lease"], line["change"]["seq"]) for line in lines] == [
            (1, 20),
            (2, 30),
            (2, 31),
            (1, 33),
        ]
        assert [asked.headers["last-event-id"] for asked in gateway.asked if asked.path == "/v1/changes"] == ["20"]

    def test_one_that_is_over_is_told_and_not_waited_for(self, cli: Cli, gateway: Gateway) -> None:
        cancelled = change(8, state="cancelled", reason="cancelled-by-user")
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [cancelled], "next": None}))
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(**COMPLETED | {"state": "cancelled"})))
        assert cli("lease", "watch", "42").code == 1
        assert "/v1/changes" not in [asked.path for asked in gateway.asked]

    def test_all_are_told_from_now_on(self, cli: Cli, gateway: Gateway) -> None:
        drained = change(8, lease=None, state="", reason="", explanation="", what="drained")
        gateway.answer("GET", "/v1/changes", Stream(event(drained)), problem(403, "x", "No longer."))
        said = cli("lease", "watch")
        assert said.out == "2026-11-21 10:43:36       -  -           das3          drained\n"
        assert said.code == 1
        assert gateway.asked[0].query == []

    @pytest.mark.parametrize("command", [["watch", "42"], ["submit", "--duration", "60", "--wait"]])
    def test_where_the_gateway_goes_away_the_leases_go_on(self, command: list[str], cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease()))
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": self.HISTORY, "next": None}))
        gateway.answer("GET", "/v1/changes", Stream(event(change(8))), *[Cut()] * 8)
        said = cli("lease", *command)
        assert said.code == 4
        assert "got free room at once" in said.out + said.err
        assert "the leases go on; `leasehold lease watch 42` follows them again)" in said.err


class TestCancel:
    def test_each_is_taken_back_for_itself(self, cli: Cli, gateway: Gateway) -> None:
        back: dict[str, Any] = {
            "state": "cancelled",
            "reason": "cancelled-by-user",
            "explanation": "was cancelled by its user",
        }
        gateway.answer("DELETE", "/v1/leases/42", Reply(body=lease(**back)))
        gateway.answer("DELETE", "/v1/leases/43", Reply(body=lease(43, **back)))
        gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site()]}))
        said = cli("lease", "cancel", "42", "9", "43")
        assert said.out == (
            "lease 42 is cancelled at das3: it was cancelled by its user (cancelled-by-user)\n"
            "lease 43 is cancelled at das3: it was cancelled by its user (cancelled-by-user)\n"
        )
        assert (said.code, said.err) == (2, "leasehold: no answer for DELETE /v1/leases/9\n")

    def test_json_has_both(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("DELETE", "/v1/leases/42", Reply(body=lease()))
        answer = json.loads(cli("lease", "cancel", "42", "9", "--json").out)
        assert answer["leases"] == [lease()]
        assert answer["problems"] == {"9": "no answer for DELETE /v1/leases/9"}


class TestExtend:
    def test_says_when_it_ends_now(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases/42/extension", Reply(body=lease()))
        said = cli("lease", "extend", "42", "--by", "10m")
        assert said.out == "lease 42 is running at das3, and ends 2026-11-21 11:43:36 (in 47:26)\n"
        assert gateway.asked[0].body == {"by_s": 600}

    def test_a_site_that_has_not_answered_yet_was_asked(self, cli: Cli, gateway: Gateway) -> None:
        asked: dict[str, Any] = {"ends_at": None, "asked_duration_s": 4_200}
        gateway.answer("POST", "/v1/leases/42/extension", Reply(202, lease(**asked)))
        said = cli("lease", "extend", "42", "--by", "10m")
        told = "das3 was asked to let it last 1:10:00 in all, and has not answered yet"
        assert (said.code, said.out) == (0, f"lease 42 is running at das3; {told}\n")
        shown = Lease.model_validate(lease(**asked))
        assert f"  extension   {told}" in account(shown, shown.submitted_at)

    def test_a_no_is_said_with_its_reason(self, cli: Cli, gateway: Gateway) -> None:
        why = "lease 42 cannot be extended: room-in-use (the lease waits until enough VMs are free)"
        gateway.answer("POST", "/v1/leases/42/extension", problem(409, "cannot-extend", why))
        said = cli("lease", "extend", "42", "--by", "10m")
        assert (said.code, said.out, said.err) == (1, "", f"leasehold: {why}\n")


class TestLogs:
    def test_tell_what_happened(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [change(7)], "next": None}))
        assert cli("lease", "logs", "42").out == (
            "2026-11-21 10:43:36  running     das3          got free room at once (room-free)\n"
        )
        answer = json.loads(cli("lease", "logs", "42", "--json").out)
        assert [entry["seq"] for entry in answer["entries"]] == [7]

    def test_what_is_the_same_in_the_same_second_is_told_once(self, cli: Cli, gateway: Gateway) -> None:
        begin_ms = 1_795_258_800_000  # 2026-11-21 11:00:00
        anew = [
            change(seq, what="move", state="waiting", reason="local-plan-changed",
                   explanation="was planned anew", detail={"planned_ms": begin_ms + seq * 60_000})
            for seq in (7, 8, 9)
        ]  # fmt: skip
        over = [
            change(seq, what=what, state="refused", reason="policy-refused", explanation="was refused")
            for seq, what in ((10, "refuse"), (11, "refuse"), (12, "closed"))
        ]
        over[1]["site"] = over[2]["site"] = ""  # one site refused it, and so did all
        over[2]["explanation"] = "was"  # the end repeats the reason without its particulars
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [*anew, *over], "next": None}))
        assert cli("lease", "logs", "42").out.splitlines() == [
            (
                f"{AT}  waiting     das3          was planned anew (local-plan-changed), 3 times"
                "; planned for 2026-11-21 11:09:00"
            ),
            f"{AT}  refused     das3          was refused (policy-refused)",
        ]
        assert len(json.loads(cli("lease", "logs", "42", "--json").out)["entries"]) == 6

    def test_nothing_that_a_guest_writes_is_obeyed_by_a_terminal(self, cli: Cli, gateway: Gateway) -> None:
        written = "a\x1b]0;owned\x07\x1b[2J\rb\x9b31m\u202etxt\ttab\r\nnext\n"
        gateway.answer("GET", "/v1/leases/42/console", Reply(body=written, kind="text/plain"))
        shown = cli("lease", "logs", "42", "--console").out
        assert shown == "a\\x1b]0;owned\\x07\\x1b[2J\\rb\\x9b31m\\u202etxt\ttab\nnext\n"
        assert cli("lease", "logs", "42", "--console", "--raw").out == written
        assert json.loads(cli("lease", "logs", "42", "--console", "--json").out)["console"] == written

    def test_the_console_is_shown_as_it_is(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42/console", Reply(body="[bold]hello[/]\n", kind="text/plain"))
        assert cli("lease", "logs", "42", "--console").out == "[bold]hello[/]\n"
        assert json.loads(cli("lease", "logs", "42", "--console", "--json").out)["console"] == "[bold]hello[/]\n"

    def test_an_empty_console_is_said_to_be_empty(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42/console", Reply(body="", kind="text/plain"))
        said = cli("lease", "logs", "42", "--console")
        assert (said.out, said.err) == ("", "leasehold: its machines have no output yet\n")
