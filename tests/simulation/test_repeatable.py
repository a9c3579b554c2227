"""The same scenario with the same seed is the same run, in every process; another seed is another run."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from tests.simulation.worlds import busy, tables

from leasehold.routing.registry import ROUTING_POLICIES
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import to_toml

RUN = """
import sys
from pathlib import Path
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import load_scenario

run_scenario(load_scenario(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def differing(one: Mapping[str, pl.DataFrame], other: Mapping[str, pl.DataFrame]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if not one[name].equals(other[name])]


@pytest.mark.parametrize("policy", ROUTING_POLICIES)
def test_the_same_seed_gives_the_same_tables(policy: str, tmp_path: Path) -> None:
    scenario = busy(gateway={"policy": policy}, horizon_s=7_200)
    first, second = (tables(run_scenario(scenario, tmp_path / name)) for name in ("first", "second"))
    assert differing(first, second) == []


def test_checking_invariants_changes_nothing(tmp_path: Path) -> None:
    plain, checked = (tables(run_scenario(busy(), tmp_path / str(check), check=check)) for check in (False, True))
    assert differing(plain, checked) == []


def test_another_seed_gives_other_jobs(tmp_path: Path) -> None:
    first, second = (tables(run_scenario(busy(seed=n), tmp_path / str(n))) for n in (1, 2))
    assert differing(first, second) == ["leases", "segments", "decisions", "baseline"]


def test_another_policy_does_not_change_which_jobs_come(tmp_path: Path) -> None:
    asked = [
        tables(run_scenario(busy(gateway={"policy": name}), tmp_path / name))["leases"]
        .sort("lease_id")
        .select("lease_id", "source", "source_id", "lease_type", "vms", "requested_ms", "submit_ms")
        for name in ("rr", "most-free")
    ]
    assert asked[0].equals(asked[1])


@pytest.mark.soak
def test_nor_does_the_process_in_which_it_runs(tmp_path: Path) -> None:
    """Python orders sets of strings by chance, once for each process."""
    (tmp_path / "busy.toml").write_text(to_toml(busy()))
    for seed in ("1", "2"):
        command = [sys.executable, "-c", RUN, str(tmp_path / "busy.toml"), str(tmp_path / seed)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert differing(tables(tmp_path / "1"), tables(tmp_path / "2")) == []
