"""What is kept: what commands wrote, how they ended, and machines that have booted."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.qemu.machines import setup

from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.output import bound_outputs, console_text, discard_output, keep_latest, output_of
from leasehold.service.drivers.protocol import Observation, Phase, Verb
from leasehold.service.drivers.qemu.images.toolchain import find_tool
from leasehold.service.drivers.qemu.instances import GuestProgress, QemuInstance
from leasehold.service.drivers.qemu.machine import GuestOver, base_of, make_layer
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.qemu.process import MachineDied
from leasehold.service.drivers.qemu.site import QemuSite
from leasehold.service.drivers.qemu.warm import prune_warm
from leasehold.service.drivers.reconciler.provider import MachineFailed
from leasehold.testing.driver_rig import order

MOST = 1000


class TestOutput:
    def write(self, folder: Path, name: str, text: str) -> Path:
        path = folder / "consoles" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def test_it_is_told_from_the_first_incarnation_on_apart_from_the_console(self, tmp_path: Path) -> None:
        self.write(tmp_path, "1.0.1.log", "leasehold: up\nfirst\n")
        self.write(tmp_path, "1.0.1.out", "first\n")
        self.write(tmp_path, "1.0.10.out", "third\n")
        self.write(tmp_path, "1.0.9.out", "second\n")
        self.write(tmp_path, "2.0.1.out", "other\n")
        assert output_of(tmp_path, 1, MOST) == Output("first\nsecond\nthird\n")
        assert console_text(tmp_path, 1) == "leasehold: up\nfirst\n"
        self.write(tmp_path, "1.1.1.out", "beside\n")
        text = "--- machine 0 ---\nfirst\nsecond\nthird\n--- machine 1 ---\nbeside\n"
        assert output_of(tmp_path, 1, MOST) == Output(text)

    def test_of_a_lease_that_is_not_known_there_is_none(self, tmp_path: Path) -> None:
        assert output_of(tmp_path, 1, MOST) == Output("")

    def test_what_is_too_long_is_given_from_its_end(self, tmp_path: Path) -> None:
        self.write(tmp_path, "1.0.1.out", "x" * MOST + "end")
        output = output_of(tmp_path, 1, MOST)
        assert (len(output.text), output.text[-4:], output.is_whole) == (MOST, "xend", False)

    def test_what_has_lost_its_beginning_says_so_however_short_it_is_by_now(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "1.0.1.out", "x" * 2 * MOST + "end")
        bound_outputs(tmp_path, MOST)
        assert path.stat().st_size == MOST
        output = output_of(tmp_path, 1, MOST)
        assert (output.text[-4:], output.is_whole) == ("xend", False)

    def test_it_is_kept_as_long_as_the_console(self, tmp_path: Path) -> None:
        for name in ("1.0.1.log", "1.0.1.out", "1.0.1.cut", "2.0.1.out"):
            self.write(tmp_path, name, "")
        keep_latest(tmp_path, 0, living={2})
        assert [path.name for path in (tmp_path / "consoles").iterdir()] == ["2.0.1.out"]

    def test_who_begins_anew_has_written_nothing_yet(self, tmp_path: Path) -> None:
        names = ("1.0.1.log", "1.0.1.out", "1.0.1.cut", "1.1.1.out", "1.0.2.out", "2.0.1.out")
        for name in names:
            self.write(tmp_path, name, "")
        discard_output(tmp_path, 1, 0, 2)
        left = {path.name for path in (tmp_path / "consoles").iterdir()}
        assert left == {*names} - {"1.0.1.out", "1.0.1.cut"}

    def test_what_is_no_text_is_no_trouble(self, tmp_path: Path) -> None:
        self.write(tmp_path, "1.0.1.out", "").write_bytes(b"a\xff\n")
        assert output_of(tmp_path, 1, MOST) == Output("a�\n")


def seen_as(folder: Path, phase: Phase, *statuses: int | None) -> Observation:
    """What is seen of an instance, once its commands have ended so on each machine."""
    progress = tuple(GuestProgress(exit_status=status) for status in statuses)
    instance = QemuInstance.ordered(order(Verb.START, vms=len(statuses)), Phase.STARTING, 0, progress=progress)

    async def play() -> Observation:
        site = QemuSite(setup(folder, "a", folder), QemuOptions())
        await site.change(lambda: site.instances.add(instance))
        await site.become(instance, phase)
        [seen] = await site.observe()
        await site.close()
        return seen

    return asyncio.run(play())


@given(st.lists(st.integers(0, 255), min_size=1, max_size=5))
def test_a_job_ended_well_when_all_of_it_did(statuses: list[int]) -> None:
    progress = tuple(GuestProgress(exit_status=status) for status in statuses)
    instance = QemuInstance.ordered(order(Verb.START), Phase.RUNNING, 0, progress=progress)
    assert instance.command_status in statuses
    assert (instance.command_status == 0) is not any(statuses)


@pytest.mark.parametrize(
    ("statuses", "phase", "exit_status", "fault"),
    [
        ([0], Phase.ENDED, 0, ""),
        ([None], Phase.ENDED, None, ""),
        ([3], Phase.RUNNING, None, ""),
        ([0, 127], Phase.ENDED, 127, "software-gone"),
    ],
)
def test_what_is_seen_of_an_end(
    tmp_path: Path, statuses: list[int | None], phase: Phase, exit_status: int | None, fault: str
) -> None:
    seen = seen_as(tmp_path, phase, *statuses)
    assert (seen.exit_status, seen.fault) == (exit_status, fault)


@pytest.mark.parametrize(
    ("command", "error", "phase", "fault"),
    [
        ((), GuestOver("shutdown"), Phase.ENDED, ""),
        (("sleep", "9"), GuestOver("shutdown"), Phase.FAILED, "node-died"),
        ((), GuestOver("guest-panicked"), Phase.FAILED, "node-died"),
        ((), MachineDied("QEMU is dead"), Phase.FAILED, "node-died"),
        ((), MachineFailed("there is no qemu-img"), Phase.FAILED, "service-stopped"),
    ],
)
def test_which_fault_a_lost_machine_is(
    tmp_path: Path, command: tuple[str, ...], error: MachineFailed, phase: Phase, fault: str
) -> None:
    instance = QemuInstance.ordered(order(Verb.START, command=command), Phase.RUNNING, 0)

    async def play() -> Observation:
        site = QemuSite(setup(tmp_path, "a", tmp_path), QemuOptions())
        await site.change(lambda: site.instances.add(instance))
        await site.fail(instance, error)
        await site.close()
        site = QemuSite(setup(tmp_path, "a", tmp_path), QemuOptions())
        [seen] = await site.observe()
        await site.close()
        return seen

    seen = asyncio.run(play())
    assert (seen.phase, seen.detail, seen.fault) == (phase, str(error), fault)


class TestWarm:
    @pytest.fixture
    def warm(self, tmp_path: Path) -> Path:
        """Three copies, used in the sequence of their names, and one that is just being made."""
        folder = tmp_path / "images/warm"
        for used, name in enumerate(("old", "newer", "newest", "one.partial")):
            (folder / name).mkdir(parents=True)
            for file in ("0.qcow2", "0.state"):
                (folder / name / file).touch()
                os.utime(folder / name / file, (used, used))
        return folder

    def test_those_are_kept_that_were_used_last(self, warm: Path) -> None:
        prune_warm(warm, 2)
        assert not (warm / "old/0.state").exists()
        assert (warm / "old/0.qcow2").exists(), "whose machines lie over it is not known"
        assert len(list(warm.glob("*/*.state"))) == 3, "what is just being made is let be"

    def test_disks_go_that_no_machine_has_a_layer_over(self, warm: Path, tmp_path: Path) -> None:
        if find_tool("qemu-img") is None:
            pytest.skip("qemu-img is not installed")
        lease = tmp_path / "machines/a/leases/1.1"
        lease.mkdir(parents=True)
        base = tmp_path / "base.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", base, "1M"], check=True)
        base.replace(warm / "newer/0.qcow2")
        make_layer(warm / "newer/0.qcow2", lease / "0.qcow2")
        assert base_of(lease / "0.qcow2") == warm / "newer/0.qcow2"
        assert base_of(warm / "newer/0.qcow2") is None
        prune_warm(warm, 1)
        disks = {path.parent.name for path in warm.glob("*/*.qcow2")}
        assert disks == {"newer", "newest", "one.partial"}
