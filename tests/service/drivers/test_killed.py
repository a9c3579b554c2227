"""Machines whose manager is killed with SIGKILL, at any moment, go on as if it had lived."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.service.drivers.killed import SLOTS, at_ms, batch
from tests.service.drivers.sites import Clock, setup

from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.record import FILE, AuditLine, brought_up_twice, read_audit
from leasehold.service.drivers.protocol import Observation

REPOSITORY = Path(__file__).resolve().parents[3]
LAST = 220


def killed(folder: Path, *argument: str, after: int) -> int:
    """Let a process give orders, kill it while it goes on; give the last batch that it saw taken on."""
    command = [sys.executable, "-m", "tests.service.drivers.killed", str(folder), *argument]
    acknowledged = 0
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged == after:
                process.kill()
    assert process.returncode == -9
    return acknowledged


async def lived(folder: Path, first: int, told_before: int = 0) -> list[Observation]:
    """Tell everything that was told before once more, and all batches from the first to the last."""
    clock = Clock(at_ms(told_before))
    site = EmulatedDriver(setup(folder, clock, slots=SLOTS))
    for number in range(1, told_before + 1):
        problems = await site.carry_out(batch(number))
        assert all(one.text.endswith("was stopped here before") for one in problems.values())
    for number in range(first, LAST + 1):
        clock.now_ms = at_ms(number)
        assert await site.carry_out(batch(number)) == {}
    seen = await site.observe()
    await site.close()
    return seen


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Observation], list[AuditLine]]:
    folder = tmp_path_factory.mktemp("never-killed")
    return asyncio.run(lived(folder, first=1)), read_audit(folder / FILE)


@pytest.mark.storm
@pytest.mark.parametrize(
    ("argument", "after"),
    [((), 1), ((), 20), ((), 60), (("1",), 0), pytest.param(("2",), 0, marks=pytest.mark.example), (("50",), 0)],
)
def test_a_killed_manager_is_missed_by_nobody(
    argument: tuple[str, ...],
    after: int,
    tmp_path: Path,
    never_killed: tuple[list[Observation], list[AuditLine]],
) -> None:
    acknowledged = killed(tmp_path, *argument, after=after)
    on_file = {number for number in range(1, LAST) if was_begun(tmp_path, number)}
    assert on_file >= set(range(1, acknowledged + 1)), "what was taken on must be durable"
    if argument:
        assert on_file == set(range(1, int(argument[0]))), "half a batch was written"
    seen = asyncio.run(lived(tmp_path, first=acknowledged + 1, told_before=acknowledged))
    assert brought_up_twice(read_audit(tmp_path / FILE)) == []
    assert (seen, read_audit(tmp_path / FILE)) == never_killed


def was_begun(folder: Path, number: int) -> bool:
    """Whether the lease that a batch starts is in the audit."""
    return any(line.lease_id == number for line in read_audit(folder / FILE))
