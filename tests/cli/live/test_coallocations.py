"""``leasehold coallocation`` and ``leasehold lease plan``, as they look."""

import json
import re
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, lease

from leasehold.cli.live.names import complete_claim, complete_place

COMPONENT = {
    "lease": 42, "vms": 4, "duration_s": 3600, "memory_mib": 1024, "image": "", "wanted_site": "delft",
    "site": "delft", "files": [], "losses": 0,
}  # fmt: skip
OTHER = COMPONENT | {
    "lease": 43, "vms": 8, "image": "gpu", "wanted_site": "", "site": "lyon", "files": [{"site": "lyon", "mib": 2048}]
}  # fmt: skip
WAITS = "waits until all components of its co-allocation have room"
COALLOCATION = {
    "id": 7, "name": "wave", "consumer": "physics", "group": "", "state": "placed",
    "reason": "waiting-for-components", "explanation": WAITS, "claim": "incremental", "place": "worst-fit",
    "submitted_at": MOMENT, "ready_at": MOMENT, "deadline_at": None, "ended_at": None, "tried": 1,
    "starts_at": "2026-11-21T11:00:00.000Z", "idle_vm_s": 480, "components": [COMPONENT, OTHER],
}  # fmt: skip
BLOCKED = {
    "site": "lyon", "reason": "share-exhausted", "agreement": "a",
    "explanation": "atlas used 31.2% of its 30% over 20 min at lyon",
}  # fmt: skip
DOMAIN = {
    "domain": "das3", "sites": ["delft"], "free_vms": 9, "used_share": 0.125, "penalty": 0, "score": 9
}  # fmt: skip
OUTCOME: dict[str, Any] = {
    "verdict": "with-consequences", "consequences": ["preempts"], "state": "running", "site": "delft",
    "starts_at": "2026-11-21T11:00:00.000Z", "ends_at": "2026-11-21T11:01:00.000Z", "walltime_s": 60,
    "reason": "room-made", "explanation": "started at once in room that guests gave up", "preempted_leases": 2,
    "preempted_vms": 6, "delayed_leases": 1,
}  # fmt: skip
AS_ASKED: dict[str, Any] = OUTCOME | {
    "verdict": "as-asked", "consequences": [], "preempted_leases": 0, "preempted_vms": 0, "delayed_leases": 0,
}  # fmt: skip
SAME: dict[str, Any] = {"type": None, "vms": None, "duration_s": None, "ready": None, "domain": ""}
PLANNED: dict[str, Any] = OUTCOME | {
    "victims": [
        {"lease": 5, "type": "suspendable", "vms": 1, "site": "delft", "then": "suspending",
         "resumes_at": "2026-11-21T11:01:00.000Z"},
    ],
    "delays": [{"lease": 8, "vms": 2, "site": "delft", "from_at": MOMENT, "to_at": None}],
    "penalised": ["atlas-at-delft"], "elsewhere": None, "foreseen": [],
    "risk": [{"site": "delft", "type": "suspendable", "ended": 80, "preempted": 12}],
    "sites": ["delft"], "blocked": [BLOCKED], "domains": [DOMAIN],
    "readings": [
        {"site": "delft", "agreement": "atlas-at-delft", "provider": "delft", "consumer": "atlas",
         "resource": "cpus", "window_s": 1200, "used_share": 0.125, "limit_share": 0.3, "left_share": 0.175},
    ],
    "alternatives": [
        SAME | {"change": "vms", "vms": 1, "outcome": AS_ASKED},
        SAME | {"change": "type", "type": "migratable", "outcome": AS_ASKED | {"state": "waiting"}},
    ],
    "untried": 3,
}  # fmt: skip
NOT_STARTED = {"starts_at": None, "ends_at": None, "preempted_leases": 0, "preempted_vms": 0, "delayed_leases": 0}
TOGETHER = {
    "state": "reserved", "sites": ["delft", "lyon"], "starts_at": "2026-11-21T11:00:00.000Z",
    "reason": "coallocated", "explanation": "", "domains": [], "readings": [],
    "components": [{"virtual": ["delft", "lyon"], "extended": ["delft"], "blocked": [BLOCKED]}] * 2,
}  # fmt: skip


def asked(gateway: Gateway) -> Any:
    return gateway.asked[0].body


class TestSubmitting:
    def test_the_number_is_the_answer(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/coallocations", Reply(201, COALLOCATION))
        said = cli("coallocation", "submit", "-c", "4@delft", "--component", "8:2048@lyon,7@delft", "--duration", "1h")
        assert (said.code, said.out) == (0, "7\n")
        assert said.err == ("leasehold: co-allocation 7 is placed at delft,lyon; its start is 2026-11-21 11:00:00\n")
        assert asked(gateway) == {
            "components": [
                {"vms": 4, "site": "delft"},
                {"vms": 8, "files": [{"site": "lyon", "mib": 2048}, {"site": "delft", "mib": 7}]},
            ],
            "duration_s": 3600,
            "claim": "incremental",
            "place": "worst-fit",
            "margin_s": 0,
            "tries": 3,
            "retries": 0,
        }

    def test_everything_that_can_be_said(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/coallocations", Reply(201, COALLOCATION))
        options = [
            "--claim",
            "reservation",
            "--place",
            "close-to-files",
            "--memory",
            "2GiB",
            "--image",
            "debian",
            "--name",
            "wave",
        ]
        options += ["--ready", "now+1h", "--deadline", "now+5h", "--margin", "90", "--group", "astro"]
        options += ["--tries", "2", "--retries", "1", "--idempotency-key", "k"]
        cli("coallocation", "submit", "-c", "1", "--duration", "60", *options, "--", "sh", "run.sh")
        assert asked(gateway) | {"components": None} == {
            "components": None,
            "duration_s": 60,
            "claim": "reservation",
            "place": "close-to-files",
            "ready": "2026-11-21T11:56:10.000Z",
            "deadline": "2026-11-21T15:56:10.000Z",
            "margin_s": 90,
            "tries": 2,
            "retries": 1,
            "name": "wave",
            "group": "astro",
            "command": ["sh", "run.sh"],
        }
        assert asked(gateway)["components"] == [{"vms": 1, "memory_mib": 2048, "image": "debian"}]
        assert gateway.asked[0].headers["idempotency-key"] == "k"

    def test_a_refusal_is_a_no(self, cli: Cli, gateway: Gateway) -> None:
        refused = {"state": "refused", "reason": "no-common-room", "ended_at": MOMENT, "starts_at": None}
        explanation = "is part of a co-allocation whose components can never have room at the same time"
        gateway.answer("POST", "/v1/coallocations", Reply(201, COALLOCATION | refused | {"explanation": explanation}))
        said = cli("coallocation", "submit", "-c", "1", "--duration", "60")
        assert said.code == 1
        assert f"is refused at delft,lyon: each component {explanation} (no-common-room)" in said.err

    @pytest.mark.parametrize("text", ["", "x", "0", "4@", "4@a@b", "4:lyon", "4:7@", "-1"])
    def test_a_component_that_is_none(self, cli: Cli, gateway: Gateway, text: str) -> None:
        said = cli("coallocation", "submit", f"--component={text}", "--duration", "60")
        expected = "VMs, and where, as in 4, 4@delft or 8:2048@lyon"
        assert (said.code, gateway.asked) == (2, [])
        assert said.err == f"leasehold: --component: got {text!r}, expected {expected}\n"

    def test_what_would_become_of_it(self, cli: Cli, gateway: Gateway) -> None:
        waits = {"state": "held", "sites": ["", ""], "reason": "waiting-for-components", "explanation": WAITS}
        told = [TOGETHER, TOGETHER | waits, TOGETHER | waits | {"state": "refused"}]
        gateway.answer("POST", "/v1/coallocations/plan", *(Reply(body=one) for one in told))
        arguments = ("coallocation", "submit", "-c", "1", "-c", "1", "--duration", "60", "--dry-run")
        said = cli(*arguments)
        assert said.code == 0
        assert asked(gateway)["components"] == [{"vms": 1}, {"vms": 1}]
        assert said.out.splitlines() == [
            "would run at delft, lyon, from 2026-11-21 11:00:00",
            "  component 1 could run at: delft",
            "    not lyon: atlas used 31.2% of its 30% over 20 min at lyon (share-exhausted)",
            "  component 2 could run at: delft",
            "    not lyon: atlas used 31.2% of its 30% over 20 min at lyon (share-exhausted)",
        ]
        said = cli(*arguments)
        assert (said.code, said.out.splitlines()[0]) == (
            0, f"would wait at the gateway: each component {WAITS} (waiting-for-components)"
        )  # fmt: skip
        gateway.answer("POST", "/v1/coallocations/plan", Reply(body=TOGETHER | waits | {"state": "refused"}))
        assert cli(*arguments).code == 1


class TestLookingAtThem:
    def test_in_a_line_each(self, cli: Cli, gateway: Gateway) -> None:
        over = COALLOCATION | {"id": 6, "state": "completed", "ended_at": MOMENT}
        gateway.answer("GET", "/v1/coallocations", Reply(body={"coallocations": [COALLOCATION, over], "next": None}))
        head, row = cli("coallocation", "list").out.splitlines()
        assert head.split() == ["ID", "STATE", "CLAIM", "CONSUMER", "VMS", "SITES", "IDLE", "START", "REASON"]
        assert row.split()[:7] == ["7", "placed", "incremental", "physics", "4+8", "delft,lyon", "8:00"]
        assert len(cli("coallocation", "list", "--all").out.splitlines()) == 3
        assert json.loads(cli("coallocation", "list", "--json").out)["coallocations"] == [COALLOCATION]

    def test_in_full(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/coallocations/7", Reply(body=COALLOCATION))
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(42, state="running", site="delft")))
        gateway.answer(
            "GET", "/v1/leases/43", Reply(body=lease(43, state="held", site="", reason="waiting-for-components"))
        )
        told = cli("coallocation", "show", "7").out.splitlines()
        assert told[0] == "co-allocation 7 is placed at delft,lyon; its start is 2026-11-21 11:00:00"
        assert "  held idle   480 VM-seconds" in told
        assert told[-2:] == [
            "  component   4 VMs at delft for 1:00:00: lease 42 is running at delft",
            "  component   8 VMs for 1:00:00, image gpu, 2048 MiB from lyon: lease 43 is held (waiting-for-components)",
        ]
        assert json.loads(cli("coallocation", "show", "7", "--json").out)["coallocation"] == COALLOCATION

    def test_taking_one_back(self, cli: Cli, gateway: Gateway) -> None:
        over = COALLOCATION | {"state": "cancelled", "ended_at": MOMENT, "explanation": "was cancelled by its user"}
        gateway.answer("DELETE", "/v1/coallocations/7", Reply(body=over | {"reason": "cancelled-by-user"}))
        said = cli("coallocation", "cancel", "7").out
        expected = "is cancelled at delft,lyon: each component was cancelled by its user (cancelled-by-user)"
        assert said == f"co-allocation 7 {expected}\n"


class TestPlanning:
    ARGUMENTS = ("lease", "plan", "--type", "suspendable", "--vms", "2", "--duration", "60")

    def first(self, cli: Cli, gateway: Gateway, **told: Any) -> tuple[int, list[str]]:
        gateway.answer("POST", "/v1/leases/plan", Reply(body=PLANNED | told))
        said = cli(*self.ARGUMENTS)
        return said.code, said.out.splitlines()

    def test_where_and_when_it_would_start_and_who_would_give_way(self, cli: Cli, gateway: Gateway) -> None:
        code, lines = self.first(cli, gateway)
        assert code == 1
        assert lines[0] == "would start now at delft (room-made)"
        assert lines[1].startswith("  it would end 2026-11-21 11:01:00 (")
        assert lines[2] == "  2 leases with 6 VMs would be preempted for it"
        assert lines[3].startswith(
            "    lease 5 (suspendable, 1 VM at delft): suspending, continues 2026-11-21 11:01:00 ("
        )
        assert lines[4] == "  1 waiting lease would start later"
        assert lines[5].startswith("    lease 8 at delft: at an unknown time instead of 2026-11-21 ")
        assert lines[6:12] == [
            "  its consumer would be punished for breaking the agreement atlas-at-delft",
            "  preempted at delft lately: 12 of 80 suspendable leases (15 %)",
            "  open to it: delft",
            "    not lyon: atlas used 31.2% of its 30% over 20 min at lyon (share-exhausted)",
            "  das3: score 9, 9 VMs free, 12.5% used, penalty 0",
            "  agreement atlas-at-delft at delft: 12.5% of 30.0% of cpus used in 20:00, 17.5% left",
        ]
        assert lines[12:14] == ["  better, each tried:", "    with --vms 1: would start now at delft"]
        assert lines[14].startswith("    with --type migratable: would wait at delft until 2026-11-21 11:00:00 (")
        assert lines[15] == "  3 other alternatives not tried, since too many leases are open"
        assert asked(gateway) == {"type": "suspendable", "vms": 2, "duration_s": 60, "local": False}
        assert json.loads(cli(*self.ARGUMENTS, "--json").out)["plan"] == PLANNED

    def test_as_asked_is_a_yes(self, cli: Cli, gateway: Gateway) -> None:
        told = AS_ASKED | {"victims": [], "delays": [], "penalised": [], "alternatives": [], "untried": 0}
        code, lines = self.first(cli, gateway, **told)
        assert (code, lines[0]) == (0, "would start now at delft (room-made)")

    @pytest.mark.parametrize(("futures", "risk"), [(8, "; preempted in 75%"), (5, "; preempted in 75%"), (4, "")])
    def test_what_becomes_of_it_in_futures_and_how_likely_it_is_preempted_where_there_are_enough(
        self, cli: Cli, gateway: Gateway, futures: int, risk: str
    ) -> None:
        one = {"earliest_at": None, "expected_at": None, "latest_at": None, "refused_share": 0, "preempted_share": 0.75}
        told = [one | {"type": kind, "futures": futures} for kind in ("suspendable", "cancelable")]
        told.append(told[0] | {"type": "migratable", "refused_share": 1})
        _, lines = self.first(cli, gateway, foreseen=told)
        assert [line for line in lines if "at an unknown time" in line and "instead" not in line] == [
            f"  in {futures} simulated futures: start at an unknown time{risk}",
            f"  as cancelable: start at an unknown time{risk}",
        ]

    def test_it_takes_what_can_be_asked_for(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases/plan", Reply(body=PLANNED))
        cli(*self.ARGUMENTS, "--memory", "4096", "--ready", "2026-11-21T11:00+00:00", "--deadline",
            "2026-11-21T12:00+00:00", "--local", "--site", "delft", "--group", "g", "--domain", "d",
            "--claim", "licence:x=2", "--name", "n", "--project", "p", "--idempotency-key", "k", "--wait",
            "--", "run", "it")  # fmt: skip
        assert asked(gateway) == {
            "type": "suspendable", "vms": 2, "duration_s": 60, "memory_mib": 4096, "local": True,
            "site": "delft", "group": "g", "domain": "d", "claims": {"licence:x": 2}, "name": "n", "project": "p",
            "ready": "2026-11-21T11:00:00.000Z", "deadline": "2026-11-21T12:00:00.000Z", "command": ["run", "it"],
        }  # fmt: skip

    def test_it_has_the_options_of_submit(self, cli: Cli) -> None:
        def options(verb: str) -> set[str]:
            return set(re.findall(r"--[a-z-]+", cli("lease", verb, "--help").out.partition("Options")[2]))

        assert options("plan") - {"--within"} == options("submit") > {"--duration", "--no-wait"}

    def test_one_that_would_wait_is_no_refusal(self, cli: Cli, gateway: Gateway) -> None:
        words = {"reason": "room-in-use", "explanation": "waits until enough VMs are free"}
        code, lines = self.first(cli, gateway, state="waiting", **words)
        assert code == 1
        assert lines[0].startswith("would wait at delft until 2026-11-21 11:00:00 (")
        assert lines[0].endswith("): it waits until enough VMs are free (room-in-use)")

    def test_one_that_would_wait_at_the_gateway_has_no_time(self, cli: Cli, gateway: Gateway) -> None:
        words = {"reason": "room-in-use", "explanation": "waits until enough VMs are free"}
        _, lines = self.first(cli, gateway, state="held", site="", **words, **NOT_STARTED)
        assert lines[0] == "would wait at the gateway: it waits until enough VMs are free (room-in-use)"

    @pytest.mark.parametrize(("peer", "whom"), [(True, "the peer lyon"), (False, "lyon")])
    def test_who_decides_by_itself_is_named_and_no_time_is_invented(
        self, cli: Cli, gateway: Gateway, *, peer: bool, whom: str
    ) -> None:
        elsewhere = {"name": "lyon", "peer": peer, "free_vms": 12}
        told = {"state": "waiting", "site": "lyon", "elsewhere": elsewhere, **NOT_STARTED}
        code, lines = self.first(cli, gateway, **told)
        last_heard = "12 VMs were free at its last report"
        assert (code, lines[0]) == (
            1, f"would be offered to {whom}, which decides for itself; {last_heard}"
        )  # fmt: skip

    def test_it_is_said_how_old_that_is_and_how_far_away(self, cli: Cli, gateway: Gateway) -> None:
        elsewhere = {"name": "lyon", "peer": True, "free_vms": 12, "hops": 2, "reported_at": MOMENT}
        _, lines = self.first(cli, gateway, state="waiting", site="lyon", elsewhere=elsewhere, **NOT_STARTED)
        assert lines[0].endswith("; 12 VMs were free 2 hops beyond it at its last report, 12:33 ago")

    def test_what_would_be_refused_is_a_no_with_advice(self, cli: Cli, gateway: Gateway) -> None:
        words = {"reason": "no-room-at-ready-time", "explanation": "must start at its ready time"}
        told = {"verdict": "refused", "state": "refused", "site": "", **words, **NOT_STARTED}
        code, lines = self.first(cli, gateway, **told)
        assert code == 3
        assert lines[:2] == [
            "would be refused: it must start at its ready time (no-room-at-ready-time)",
            "  A later --ready may do; a suspendable or cancelable lease may wait.",
        ]


def test_names_complete() -> None:
    assert complete_claim("r") == ["reservation"]
    assert complete_place("") == ["worst-fit", "close-to-files"]
