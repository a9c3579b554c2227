"""Storms of the shipped service: nothing is promised that is not kept, and a storm that was seen can be seen
again.

Each seed is run by the command itself, which gives every storm a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.storm.mutants import MUTANTS

REPOSITORY = Path(__file__).resolve().parents[2]
CHUNK = 5
"""So many seeds are run by one command, which has to start only once."""


def storms(*words: str, hash_seed: str = "0") -> tuple[int, list[dict[str, Any]], str]:
    """Run the command; give its exit code, what it says of each seed, and all of it."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.storm", "--json", *words],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    return ended.returncode, lines, ended.stdout


@pytest.mark.parametrize(("storm_s", "least"), [(15, 5), pytest.param(60, 20, marks=pytest.mark.storm)])
def test_a_storm_breaks_no_promise(storm_s: int, least: int) -> None:
    code, (outcome,), said = storms("--seeds", "7", "--storm-s", str(storm_s))
    assert code == 0, said
    assert outcome["accepted"] > least
    assert outcome["reach"]


@pytest.mark.storm
@pytest.mark.parametrize("first", range(0, 30, CHUNK))
def test_thirty_storms_break_no_promise(first: int) -> None:
    code, outcomes, said = storms("--seeds", f"{first}-{first + CHUNK - 1}")
    assert len(outcomes) == CHUNK, said
    assert code == 0, said
    for what in ("a lease over two gateways", "a co-allocation over managers"):
        assert any(what in outcome["reach"] for outcome in outcomes), f"no storm came to {what}"


@pytest.mark.storm
def test_a_seed_is_the_same_storm_again_whatever_the_hashes_of_this_process() -> None:
    digests = [
        [outcome["digest"] for outcome in storms("--seeds", "3-4", hash_seed=hash_seed)[1]]
        for hash_seed in ("0", "4711")
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 2


@pytest.mark.storm
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_product_that_is_broken_on_purpose_is_found_out(mutant: str) -> None:
    code, outcomes, said = storms("--seeds", "0-29", "--first", "--mutant", mutant)
    assert code == 1, said
    assert any(outcome["violations"] for outcome in outcomes)


@pytest.mark.storm
def test_what_failed_is_told_with_its_last_events_and_how_to_see_it_again() -> None:
    _, _, said = storms("--seeds", "0-29", "--first", "--mutant", "no-idempotency", "--storm-s", "60")
    assert "again: python -m tests.storm --seeds" in said
    assert "--storm-s 60 --mutant no-idempotency --trace" in said
    assert "VIOLATION" in said
