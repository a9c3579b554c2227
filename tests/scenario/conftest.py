"""Scenarios in the making: a small valid one, and logs of a few jobs."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from leasehold.simulation.scenario.parse import load_scenario
from leasehold.simulation.scenario.spec import Scenario

LogLine = tuple[int, ...]
"""submit_s, run_s, processors, user, group, partition; the requested time is twice the run time."""

SMALL = """\
name = "small"
horizon_s = 3_600

[gateway]
policy = "rr"

[[cluster]]
name = "a"
slots = 8

[[stream]]
name = "own"
log = "own.swf"
site = "a"

[[stream]]
name = "guests"
model = "das2"
l = 0.5
m = 1.5
h = 3
q = 0.9
p_one = 0.2
p_pow2 = 0.5
a = 4.6
b = 1.7
alpha = 60.0
beta = 0.5
"""


@pytest.fixture
def small_toml() -> str:
    return SMALL


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Write the text of a scenario to a file."""

    def write(text: str) -> Path:
        path = tmp_path / "scenario.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def loaded(written: Callable[[str], Path]) -> Callable[[str], Scenario]:
    """Write the text of a scenario to a file, and load that."""

    def load(text: str) -> Scenario:
        return load_scenario(written(text))

    return load


@pytest.fixture
def swf(tmp_path: Path) -> Callable[..., Path]:
    """Write a log of these jobs."""

    def write(name: str, jobs: Iterable[LogLine], header: str = "; MaxProcs: 8\n") -> Path:
        lines = [
            f"{number} {submit} -1 {run} {vms} -1 -1 {vms} {2 * run} -1 1 {user} {group} -1 1 {part} -1 -1\n"
            for number, (submit, run, vms, user, group, part) in enumerate(jobs, start=1)
        ]
        path = tmp_path / name
        path.write_text(header + "".join(lines), encoding="utf-8")
        return path

    return write
