"""``leasehold lease explain`` and ``leasehold job explain``, as they look."""

import json
from typing import Any

import pytest
from tests.cli.live.test_coallocations import AS_ASKED, BLOCKED, SAME
from tests.cli.live.test_looking_at_jobs import TOLD as TOLD_OF_JOB
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, job, lease

STEP: dict[str, Any] = {
    "at": MOMENT, "what": "preempt", "state": "suspending", "site": "das3", "lease": 42, "reason": "local-needs-room",
    "explanation": "was preempted by a local request", "rule": "by-value:moml", "planned_at": None, "times": 1,
    "sites": [],
}  # fmt: skip
HELD = STEP | {
    "what": "hold", "state": "held", "site": "", "reason": "share-exhausted", "times": 3, "planned_at": MOMENT,
    "explanation": "waits because its consumer has used its agreed share", "sites": [BLOCKED],
}  # fmt: skip
PREEMPTION: dict[str, Any] = {
    "at": MOMENT, "lease": 42, "site": "das3", "reason": "local-needs-room",
    "explanation": "was preempted by a local request", "rule": "by-value:moml", "for_whom": "a local user of das3",
    "for_lease": None, "needed_vms": None, "victims": [40, 42], "victims_hidden": 2, "cost_vm_s": 90, "candidates": 9,
    "considered": 37, "exact": True, "runner_up": "without-this-lease", "runner_up_cost": 1.25,
    "spared_as": [{"by": "type", "type": "migratable", "vms": 4}, {"by": "vms", "type": "suspendable", "vms": 2}],
    "tried": True,
}  # fmt: skip
TOLD: dict[str, Any] = {
    "lease": lease(42, state="suspended"), "steps": [HELD, STEP], "preemptions": [PREEMPTION], "now": None,
    "alternatives": [SAME | {"change": "vms", "vms": 1, "outcome": AS_ASKED}], "untried": 0,
}  # fmt: skip


CHOSEN = "chosen from 37 sets of 9 leases that could give way"


def said(cli: Cli, gateway: Gateway, **told: Any) -> list[str]:
    gateway.answer("GET", "/v1/leases/42/explanation", Reply(body=TOLD | told))
    answer = cli("lease", "explain", "42")
    assert answer.code == 0
    return answer.out.splitlines()


def test_every_reason_with_what_each_site_said_and_who_took_its_machines(cli: Cli, gateway: Gateway) -> None:
    lines = said(cli, gateway)
    assert lines[0] == "lease 42 is suspended at das3: it got free room at once (room-free)"
    assert lines[1] == "  what happened:"
    assert (
        "  gateway       waits because its consumer has used its agreed share (share-exhausted), 3 times; p" in lines[2]
    )
    assert lines[3] == "      not lyon: atlas used 31.2% of its 30% over 20 min at lyon (share-exhausted)"
    assert lines[4].endswith("  das3          was preempted by a local request (local-needs-room)")
    assert lines[5].startswith("  preempted 2026-11-21 ")
    assert lines[5].endswith(" at das3, for a local user of das3")
    assert lines[6:] == [
        "    rule by-value:moml, together with lease 40 and 2 leases of others; this lease costs 1:30 of VM time",
        f"    {CHOSEN}; the second best by the rule was without this lease, at 1.25 times the cost",
        "    it would have been spared as a migratable lease or with 2 VMs (tried)",
        "  better, each tried:",
        "    with --vms 1: would start now at delft",
    ]
    assert json.loads(cli("lease", "explain", "42", "--json").out)["explanation"] == TOLD


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            {"victims": [40, 41, 42], "victims_hidden": 0, "cost_vm_s": None},
            "    rule by-value:moml, together with leases 40, 41",
        ),
        ({"spared_as": []}, "    it would not have been spared as another type, or with fewer VMs (tried)"),
        (
            {"spared_as": [{"by": "alone", "type": "suspendable", "vms": 4}]},
            "    no type or width would have saved it: the others could not have freed enough (tried)",
        ),
        (
            {"runner_up": "none", "runner_up_cost": None, "candidates": None, "considered": 1, "exact": False},
            "    chosen from 1 set, not all of them looked at; there was no second best",
        ),
        (
            {"runner_up": "with-this-lease", "runner_up_cost": None},
            f"    {CHOSEN}; the second best by the rule was with this lease too",
        ),
    ],
)
def test_what_is_said_of_a_choice(cli: Cli, gateway: Gateway, told: dict[str, Any], line: str) -> None:
    assert line in said(cli, gateway, preemptions=[PREEMPTION | told])


def test_what_was_not_tried_is_not_claimed(cli: Cli, gateway: Gateway) -> None:
    lines = said(cli, gateway, preemptions=[PREEMPTION | {"tried": False, "spared_as": []}], alternatives=[])
    assert not any("tried" in line for line in lines)


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (
            {"verdict": "refused", "state": "refused", "reason": "wider-than-any-site"},
            "  submitted now: would be refused again (wider-than-any-site)",
        ),
        ({}, "  submitted now: would start now at delft (room-made)"),
    ],
)
def test_a_refused_one_is_told_what_would_become_of_it_now(
    cli: Cli, gateway: Gateway, now: dict[str, Any], line: str
) -> None:
    assert line in said(cli, gateway, now=AS_ASKED | now)


def test_a_job_is_told_what_its_attempts_met_and_what_nodes_say_now(cli: Cli, gateway: Gateway) -> None:
    told = {"job": job(), "steps": [STEP], "preemptions": [PREEMPTION], "groups": TOLD_OF_JOB["groups"]}
    gateway.answer("GET", "/v1/jobs/7/explanation", Reply(body=told))
    answer = cli("job", "explain", "7")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("job 7 ")
    assert any(line.endswith(" at das3, for a local user of das3") for line in lines)
    assert any(line.startswith("NODES ") for line in lines)
    assert json.loads(cli("job", "explain", "7", "--json").out)["explanation"] == told
