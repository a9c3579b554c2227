"""``leasehold lease``, as it looks."""

import json
import sys
from threading import Event
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Cut, Gateway, Held, Reply, Stream, change, event, lease, problem

from leasehold.cli.live.table import rows

WAITING: dict[str, Any] = {
    "state": "waiting",
    "reason": "room-in-use",
    "explanation": "waits until enough VMs are free",
    "started_at": None,
    "ends_at": None,
    "planned_start_at": "2026-11-21T11:00:00.000Z",
}
REFUSED: dict[str, Any] = {
    "state": "refused",
    "site": "",
    "reason": "wider-than-any-site",
    "explanation": "requests more VMs than any site has",
    "started_at": None,
    "ends_at": None,
    "ended_at": MOMENT,
}
COMPLETED: dict[str, Any] = {
    "state": "completed",
    "reason": "completed",
    "explanation": "ran to its end",
    "ends_at": None,
    "ended_at": "2026-11-21T10:53:36.120Z",
}
SUBMIT = ["lease", "submit", "--type", "suspendable", "--vms", "2", "--duration", "1h"]


class TestSubmit:
    def test_the_number_is_the_answer_and_the_rest_is_said_beside(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease(43, **WAITING)))
        said = cli(*SUBMIT)
        assert (said.code, said.out) == (0, "43\n")
        assert said.err == (
            "leasehold: lease 43 is waiting at das3: it waits until enough VMs are free (room-in-use); "
            "it starts by 2026-11-21 11:00:00, or sooner if resources become free\n"
        )

    @pytest.mark.parametrize(("size", "mib"), [("2GiB", 2048), ("512MiB", 512), ("512", 512), ("4G", 4096)])
    def test_memory_is_an_amount_as_for_a_job(self, size: str, mib: int, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease()))
        cli(*SUBMIT, "--memory", size)
        assert gateway.asked[0].body["memory_mib"] == mib

    def test_memory_that_is_no_amount_is_refused_before_anything_is_sent(self, cli: Cli, gateway: Gateway) -> None:
        said = cli(*SUBMIT, "--memory", "4Q")
        assert (said.code, gateway.asked) == (2, [])
        assert said.err.startswith("leasehold: --memory: got '4Q', expected a number of MiB, or one with")

    def test_everything_that_can_be_said_is_sent(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease()))
        options = [
            "--memory",
            "4GiB",
            "--deadline",
            "now+2h",
            "--ready",
            "2026-11-21T11:00",
            "--name",
            "survey",
        ]
        cli(*SUBMIT, *options, "--group", "astro", "--idempotency-key", "mine", "--", "sh", "-c", "echo hello")
        (asked,) = gateway.asked
        assert asked.headers["idempotency-key"] == "mine"
        assert asked.body == {
            "type": "suspendable",
            "vms": 2,
            "duration_s": 3600,
            "memory_mib": 4096,
            "deadline": "2026-11-21T12:56:10.000Z",
            "ready": "2026-11-21T11:00:00.000Z",
            "local": False,
            "name": "survey",
            "group": "astro",
            "command": ["sh", "-c", "echo hello"],
        }

    def test_a_local_request_needs_no_type(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease(type="non-preemptable", local=True, home="das3")))
        assert cli("lease", "submit", "--duration", "60", "--local", "--site", "das3").code == 0
        assert gateway.asked[0].body == {
            "vms": 1,
            "duration_s": 60,
            "local": True,
            "site": "das3",
        }

    def test_a_refusal_says_why_and_what_would_help(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease(44, **REFUSED)))
        said = cli(*SUBMIT)
        assert (said.code, said.out) == (1, "44\n")
        assert said.err == (
            "leasehold: lease 44 is refused: it requests more VMs than any site has (wider-than-any-site)\n"
            "leasehold: Ask for fewer VMs: `leasehold site list` shows how many there are.\n"
        )

    def test_json_has_all_of_it(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease()), Reply(201, lease(**REFUSED)))
        said = cli(*SUBMIT, "--json")
        assert json.loads(said.out) == {"schema_version": 1, "lease": lease()}
        assert (said.code, said.err) == (0, "")
        refused = cli(*SUBMIT, "--json")
        assert json.loads(refused.out)["lease"]["state"] == "refused"
        assert refused.code == 1

    def test_who_stops_waiting_is_told_that_it_goes_on(
        self, cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object) -> Any:
            raise KeyboardInterrupt

        gateway.answer("POST", "/v1/leases", Reply(201, lease(**WAITING)))
        monkeypatch.setattr("leasehold.cli.live.leases.until_over", interrupted)
        said = cli(*SUBMIT, "--wait")
        assert said.code == 130
        assert said.err.splitlines()[-1] == (
            "leasehold: lease 42 continues; `leasehold lease watch 42` follows it, `leasehold lease cancel 42` ends it"
        )

    @pytest.mark.parametrize(
        ("ended", "code"),
        [
            (COMPLETED, 0),
            (COMPLETED | {"state": "killed", "command": []}, 0),
            (COMPLETED | {"state": "killed"}, 1),
            (COMPLETED | {"state": "cancelled"}, 1),
        ],
    )
    def test_it_can_be_waited_for(self, cli: Cli, gateway: Gateway, ended: dict[str, Any], code: int) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease(**WAITING)))
        gateway.answer(
            "GET",
            "/v1/leases/42/journal",
            Reply(body={"entries": [change(7, state="waiting")], "next": None}),
        )
        over = change(12, state=ended["state"], reason="completed", explanation="ran to its end")
        gateway.answer("GET", "/v1/changes", Stream(event(change(9)), cut=True), Stream(event(over)))
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(**ended)))
        said = cli(*SUBMIT, "--wait")
        assert (said.code, said.out) == (code, "42\n")
        assert [line.split()[3] for line in said.err.splitlines()[1:]] == [
            "waiting",
            "running",
            ended["state"],
        ]
        assert [asked.headers["last-event-id"] for asked in gateway.asked if asked.path == "/v1/changes"] == [
            "7",
            "9",
        ]


class TestList:
    LEASES = (
        lease(44, **WAITING | {"site": ""}),
        lease(43, name="sky-survey"),
        lease(7, vms=128, **COMPLETED),
    )

    @pytest.fixture(autouse=True)
    def _leases(self, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases", Reply(body={"leases": self.LEASES, "next": None}))

    def test_looks_like_squeue(self, cli: Cli) -> None:
        assert cli("lease", "list").out == (
            "ID  NAME        TYPE         CONSUMER  ST   TIME  VMS  SITE(REASON)\n"
            "44              suspendable  physics   PD   0:00    2  (room-in-use)\n"
            "43  sky-survey  suspendable  physics   R   12:33    2  das3\n"
            "7               suspendable  physics   CD  10:00  128  das3\n"
        )

    def test_columns_can_be_chosen(self, cli: Cli) -> None:
        assert cli("lease", "list", "--format", "id,state,left,start", "--no-header").out == (
            "44  waiting           2026-11-21 11:00:00\n"
            "43  running    47:26  2026-11-21 10:43:36\n"
            "7   completed         2026-11-21 10:43:36\n"
        )

    @pytest.mark.parametrize(
        ("options", "query"),
        [
            ([], [("open", "true")]),
            (["--all"], []),
            (
                ["--state", "R,PD", "-t", "held"],
                [("state", "running"), ("state", "waiting"), ("state", "held")],
            ),
            (["--site", "das3"], [("site", "das3"), ("open", "true")]),
            (["--since", "now-1h"], [("since", "2026-11-21T09:56:10.000Z"), ("open", "true")]),
            (["--consumer", "climate"], [("consumer", "climate"), ("open", "true")]),
        ],
    )
    def test_a_choice_can_be_made(
        self, cli: Cli, gateway: Gateway, options: list[str], query: list[tuple[str, str]]
    ) -> None:
        cli("lease", "list", *options)
        assert gateway.asked[0].query == [*query, ("limit", "1000")]

    def test_ones_own_are_those_of_the_token(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/tokens/self", Reply(body={"consumer": "physics"}))
        cli("lease", "list", "--mine")
        assert ("consumer", "physics") in gateway.asked[1].query

    def test_json_has_all_of_it(self, cli: Cli) -> None:
        assert json.loads(cli("lease", "list", "--json").out) == {
            "schema_version": 1,
            "leases": list(self.LEASES),
            "more": False,
        }

    def test_without_a_terminal_a_watched_list_goes_on_in_lines(self, cli: Cli, gateway: Gateway) -> None:
        others = [change(8, site="lyon"), change(9, consumer="climate")]
        told = "".join(map(event, [change(7), *others]))
        gateway.answer("GET", "/v1/changes", Stream(told), Stream(""), problem(401, "x", "Expired."))
        said = cli("lease", "list", "--watch", "--site", "das3", "--consumer", "physics")
        assert gateway.asked[0].path == "/v1/changes"
        assert said.out.splitlines()[3:] == [
            "7               suspendable  physics   CD  10:00  128  das3",
            "2026-11-21 10:43:36      42  running     das3          got free room at once (room-free)",
        ]
        assert (said.code, said.err) == (2, "leasehold: Expired. (the token is from LEASEHOLD_TOKEN)\n")

    def test_on_a_terminal_it_is_drawn_anew_whenever_something_changes(
        self, cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr("leasehold.cli.live.leases.REDRAW_S", 0)
        drawn = Event()

        def draw(*shown: Any) -> list[list[str]]:
            drawn.set()
            return rows(*shown)

        monkeypatch.setattr("leasehold.cli.live.leases.rows", draw)
        no_longer = Held(problem(403, "x", "No longer."), drawn)
        gateway.answer("GET", "/v1/changes", Stream(event(change(7))), Cut(), no_longer)
        said = cli("lease", "list", "--watch")
        assert "sky-survey" in said.out
        assert (said.code, said.err.splitlines()[-1]) == (1, "leasehold: No longer.")

    def test_it_stops_at_the_limit_and_says_that_there_are_more(self, cli: Cli) -> None:
        said = cli("lease", "list", "--limit", "2", "--no-header", "--format", "id")
        assert said.out.split() == ["44", "43"]
        assert said.err == "leasehold: there are more than these 2; --limit 0 lists all of them\n"
        told = json.loads(cli("lease", "list", "--limit", "2", "--json").out)
        assert [one["id"] for one in told["leases"]] == [44, 43]
        assert told["more"] is True

    @pytest.mark.parametrize("limit", ["0", "3", "200"])
    def test_where_there_are_no_more_nothing_is_said(self, cli: Cli, limit: str) -> None:
        said = cli("lease", "list", "--limit", limit, "--no-header", "--format", "id")
        assert (said.out.split(), said.err) == (["44", "43", "7"], "")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--watch", "--json"], "--watch: got '--json', expected only one of them"),
            (["--state", "runing"], "did you mean 'running'?"),
            (["--format", "ids"], "did you mean 'id'?"),
        ],
    )
    def test_bad_options_are_one_line(self, cli: Cli, options: list[str], message: str) -> None:
        said = cli("lease", "list", *options)
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1)
        assert message in said.err


class TestShow:
    def test_tells_all_that_is_known(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(name="sky-survey", preemptions=2, group="astro")))
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [], "next": None}))
        assert cli("lease", "show", "42").out == (
            "lease 42 is running at das3: it got free room at once (room-free)\n"
            "  name        sky-survey\n"
            "  type        suspendable\n"
            "  consumer    physics, group astro\n"
            "  asked for   2 VMs with 1024 MiB each for 1:00:00\n"
            "  command     sh run.sh\n"
            "  submitted   2026-11-21 10:43:36 (12:33 ago)\n"
            "  started     2026-11-21 10:43:36 (12:33 ago)\n"
            "  ends        2026-11-21 11:43:36 (in 47:26)\n"
            "  disturbed   preempted twice, moved never\n"
        )

    def test_tells_by_which_gateways_it_came_and_to_which_it_went_on(self, cli: Cli, gateway: Gateway) -> None:
        way = lease(consumer="peer/b/peer/a/physics", came_by=["a", "b"], onward=["d", "e"], global_id="6f1c/7")
        gateway.answer("GET", "/v1/leases/42", Reply(body=way))
        gateway.answer("GET", "/v1/leases/42", Reply(body=way))
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [], "next": None}))
        told = cli("lease", "show", "42").out
        assert "  came by     a, b\n  went on to  d, e\n  global ID   6f1c/7\n" in told

    def test_json_is_the_same(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease()))
        assert json.loads(cli("lease", "show", "42", "--json").out)["lease"] == lease()
