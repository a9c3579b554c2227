"""``leasehold policy victims``: made-up guests, everybody's choice, and what is no guest."""

import json

import pytest
from typer.testing import CliRunner, Result

from leasehold.cli.main import app

GUESTS = ["suspendable:8", "cancelable:2:10m", "cancelable:2:1m", "suspendable:2:0:3", "migratable:4"]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["policy", "victims", *arguments])


def test_every_set_that_no_other_beats_and_who_chooses_it() -> None:
    said = asked("--need", "8", *GUESTS)
    assert said.exit_code == 0, said.output
    lines = {line.split()[0]: line for line in said.stdout.splitlines()[1:]}
    assert "mlip" in lines["1"]
    assert "mov" in lines["2+3+5"]
    assert "1,320 VM-s" in lines["2+3+5"]
    assert all("beaten" not in line for line in lines.values() if line.split()[-1] == "-")


def test_only_some_policies_as_json() -> None:
    said = asked("--need", "3", "--policy", "by-value:exact-cover", "--json", "suspendable:4", "cancelable:3")
    (option,) = json.loads(said.stdout)["options"]
    assert option == {
        "guests": [2],
        "excess_vms": 0,
        "overhead_vm_ms": 0,
        "lost_vm_ms": 0,
        "chosen_by": ["by-value:exact-cover"],
        "beaten": False,
    }


def test_a_set_that_is_beaten_says_so() -> None:
    said = asked("--need", "2", "--policy", "youngest-first", "cancelable:2", "suspendable:4")
    assert [line.split()[-1] for line in said.stdout.splitlines()[1:]] == ["-", "beaten"]


@pytest.mark.parametrize(
    ("guest", "problem"),
    [
        ("suspendable", "expected TYPE:VMS"),
        ("suspendable:0", "expected TYPE:VMS"),
        ("suspendible:2", "expected TYPE:VMS"),
        ("suspendable:2:1m:many", "expected TYPE:VMS"),
        ("suspendable:2:1m:1:1", "expected TYPE:VMS"),
        ("suspendable:2:soon", "expected a time"),
        ("non-preemptable:2", "a type that may be preempted"),
        ("suspendable:1", "2 VMs are needed, but all candidates hold only 1"),
    ],
)
def test_what_is_no_guest_is_refused_in_one_line(guest: str, problem: str) -> None:
    said = asked("--need", "2", guest)
    assert said.exit_code != 0
    assert problem in str(said.exception)
