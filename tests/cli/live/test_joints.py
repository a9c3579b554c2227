"""``leasehold joint`` and ``leasehold lease explain``, as they look."""

import json
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, lease

from leasehold.cli.live.completion import complete_claim, complete_place

COMPONENT = {
    "lease": 42, "vms": 4, "duration_s": 3600, "memory_mib": 1024, "wanted_site": "delft", "site": "delft",
    "files": [], "losses": 0,
}  # fmt: skip
OTHER = COMPONENT | {
    "lease": 43, "vms": 8, "wanted_site": "", "site": "lyon", "files": [{"site": "lyon", "mib": 2048}]
}  # fmt: skip
WAITS = "waits until there is room for all components of its joint request"
JOINT = {
    "id": 7, "name": "wave", "consumer": "physics", "group": "", "state": "placed",
    "reason": "awaits-its-parts", "explanation": WAITS, "claim": "incremental", "place": "worst-fit",
    "submitted_at": MOMENT, "ready_at": MOMENT, "deadline_at": None, "ended_at": None, "tried": 1,
    "starts_at": "2026-11-21T11:00:00.000Z", "idle_vm_s": 480, "components": [COMPONENT, OTHER],
}  # fmt: skip
ENVIRONMENTS = {
    "components": [
        {
            "virtual": ["delft", "lyon"],
            "extended": ["delft"],
            "barred": [
                {
                    "site": "lyon", "reason": "share-used", "agreement": "a",
                    "explanation": "atlas used 31.2% of its 30% over 20 min at lyon",
                }
            ],
        }
    ],
    "execution": {"sites": ["delft"], "starts_at": "2026-11-21T11:00:00.000Z"},
    "reason": "routed",
    "explanation": "was sent to this site by the routing policy",
    "domains": [
        {"domain": "das3", "sites": ["delft"], "free_vms": 9, "used_share": 0.125, "penalty": 0, "score": 9}
    ],
    "readings": [],
}  # fmt: skip


def asked(gateway: Gateway) -> Any:
    return gateway.asked[0].body


class TestSubmitting:
    def test_the_number_is_the_answer(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/joint-leases", Reply(201, JOINT))
        said = cli(
            "joint", "submit", "-c", "4@delft", "--component", "8:2048@lyon,7@delft", "--duration", "1h"
        )
        assert (said.code, said.out) == (0, "7\n")
        assert said.err == (
            "leasehold: joint lease 7 is placed at delft,lyon; its start is 2026-11-21 11:00:00\n"
        )
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
        gateway.answer("POST", "/v1/joint-leases", Reply(201, JOINT))
        options = [
            "--claim",
            "reservation",
            "--place",
            "close-to-files",
            "--memory",
            "2048",
            "--name",
            "wave",
        ]
        options += ["--ready", "now+1h", "--deadline", "now+5h", "--margin", "90", "--group", "astro"]
        options += ["--tries", "2", "--retries", "1", "--idempotency-key", "k"]
        cli("joint", "submit", "-c", "1", "--duration", "60", *options, "--", "sh", "run.sh")
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
        assert asked(gateway)["components"] == [{"vms": 1, "memory_mib": 2048}]
        assert gateway.asked[0].headers["idempotency-key"] == "k"

    def test_a_refusal_is_a_no(self, cli: Cli, gateway: Gateway) -> None:
        refused = {"state": "refused", "reason": "no-common-room", "ended_at": MOMENT, "starts_at": None}
        explanation = "is part of a joint request whose components cannot have room at the same time"
        gateway.answer("POST", "/v1/joint-leases", Reply(201, JOINT | refused | {"explanation": explanation}))
        said = cli("joint", "submit", "-c", "1", "--duration", "60")
        assert said.code == 1
        assert f"is refused at delft,lyon: each component {explanation} (no-common-room)" in said.err

    @pytest.mark.parametrize("text", ["", "x", "0", "4@", "4@a@b", "4:lyon", "4:7@", "-1"])
    def test_a_component_that_is_none(self, cli: Cli, gateway: Gateway, text: str) -> None:
        said = cli("joint", "submit", f"--component={text}", "--duration", "60")
        expected = "VMs, and where, as in 4, 4@delft or 8:2048@lyon"
        assert (said.code, gateway.asked) == (2, [])
        assert said.err == f"leasehold: --component: got {text!r}, expected {expected}\n"

    def test_what_would_become_of_it(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/environments", Reply(body=ENVIRONMENTS))
        said = cli("joint", "submit", "-c", "1", "--duration", "60", "--dry-run")
        assert said.code == 0
        assert asked(gateway)["joint"]["components"] == [{"vms": 1}]
        assert said.out.splitlines()[0] == "virtual environment: delft, lyon"


class TestLookingAtThem:
    def test_in_a_line_each(self, cli: Cli, gateway: Gateway) -> None:
        over = JOINT | {"id": 6, "state": "completed", "ended_at": MOMENT}
        gateway.answer("GET", "/v1/joint-leases", Reply(body={"joints": [JOINT, over], "next": None}))
        head, row = cli("joint", "list").out.splitlines()
        assert head.split() == ["ID", "STATE", "CLAIM", "CONSUMER", "VMS", "SITES", "IDLE", "START", "REASON"]
        assert row.split()[:7] == ["7", "placed", "incremental", "physics", "4+8", "delft,lyon", "8:00"]
        assert len(cli("joint", "list", "--all").out.splitlines()) == 3
        assert json.loads(cli("joint", "list", "--json").out)["joints"] == [JOINT]

    def test_in_full(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/joint-leases/7", Reply(body=JOINT))
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(42, state="running", site="delft")))
        gateway.answer(
            "GET", "/v1/leases/43", Reply(body=lease(43, state="held", site="", reason="awaits-its-parts"))
        )
        told = cli("joint", "show", "7").out.splitlines()
        assert told[0] == "joint lease 7 is placed at delft,lyon; its start is 2026-11-21 11:00:00"
        assert "  held idle   480 VM-seconds" in told
        assert told[-2:] == [
            "  component   4 VMs at delft for 1:00:00: lease 42 is running at delft",
            "  component   8 VMs for 1:00:00, 2048 MiB from lyon: lease 43 is held (awaits-its-parts)",
        ]
        assert json.loads(cli("joint", "show", "7", "--json").out)["joint"] == JOINT

    def test_taking_one_back(self, cli: Cli, gateway: Gateway) -> None:
        over = JOINT | {"state": "cancelled", "ended_at": MOMENT, "explanation": "was cancelled by its user"}
        gateway.answer("DELETE", "/v1/joint-leases/7", Reply(body=over | {"reason": "cancelled-by-user"}))
        said = cli("joint", "cancel", "7").out
        expected = "is cancelled at delft,lyon: each component was cancelled by its user (cancelled-by-user)"
        assert said == f"joint lease 7 {expected}\n"


class TestExplaining:
    ARGUMENTS = ("lease", "explain", "--type", "suspendable", "--vms", "2", "--duration", "60")

    def test_stage_by_stage(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/environments", Reply(body=ENVIRONMENTS))
        said = cli(*self.ARGUMENTS)
        assert said.out.splitlines() == [
            "virtual environment: delft, lyon",
            "extended virtual environment: delft",
            "  not lyon: atlas used 31.2% of its 30% over 20 min at lyon (share-used)",
            "execution environment: delft, from 2026-11-21 11:00:00",
            "  das3: score 9, 9 VMs free, 12.5% used, penalty 0",
        ]
        assert asked(gateway) == {"lease": {"type": "suspendable", "vms": 2, "duration_s": 60}}

    def test_a_request_that_would_run_nowhere_now_is_a_no(self, cli: Cli, gateway: Gateway) -> None:
        nowhere = {"execution": {"sites": [""], "starts_at": None}, "reason": "share-used"}
        words = {"explanation": "waits because its consumer has used the agreed share"}
        gateway.answer("POST", "/v1/environments", Reply(body=ENVIRONMENTS | nowhere | words))
        said = cli(*self.ARGUMENTS)
        assert said.code == 1
        assert f"execution environment: none now: it {words['explanation']} (share-used)" in said.out
        assert json.loads(cli(*self.ARGUMENTS, "--json").out)["environments"]["reason"] == "share-used"


def test_names_complete() -> None:
    assert complete_claim("r") == ["reservation"]
    assert complete_place("") == ["worst-fit", "close-to-files"]
