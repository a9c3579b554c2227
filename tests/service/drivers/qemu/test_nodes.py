"""The computer that machines are built on: what of it is free, and what does not fit."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.qemu.building import base_in

from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.protocol import Phase, PlacementConstraints, Verb
from leasehold.service.drivers.qemu import host as hosts
from leasehold.service.drivers.qemu.host import OVERHEAD_MIB, does_not_fit, node_facts, observe_host
from leasehold.service.drivers.qemu.images.image import Catalogue
from leasehold.service.drivers.qemu.instances import QemuInstance, open_store
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.reconciler.instances import Changes
from leasehold.testing.driver_rig import order

HARDWARE = VmHardware("/images/one", 1000, 2, "tcg", "pc", has_output=True)
HOST = NodeFacts(
    name="north-1",
    cores=4,
    memory_mib=8000,
    disk_mib=100,
    free_cores=3,
    free_memory_mib=3000,
    free_disk_mib=50,
)
JOB = PlacementConstraints(nodes=("north-1",), cores=2)


@pytest.fixture
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer of 8000 MiB, of which 6000 are available, and the folder of its sites."""
    memory = tmp_path / "meminfo"
    memory.write_text(f"MemTotal: {8000 << 10} kB\nMemAvailable: {6000 << 10} kB\nHugePages_Total: 0\n")
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor : 0\ncpu MHz\t\t: 1999.5\nprocessor : 1\ncpu MHz\t\t: 2400.25\n")
    monkeypatch.setattr(hosts, "_MEMORY", memory)
    monkeypatch.setattr(hosts, "_PROCESSORS", processors)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    (tmp_path / "machines").mkdir()
    return tmp_path / "machines"


def test_what_there_is(computer: Path) -> None:
    host = observe_host(computer)
    assert (host.cores, host.memory_mib, host.cpu_mhz) == (4, 8000, 2400)
    assert (host.free_cores, host.free_memory_mib) == (4, 6000)
    assert 0 < host.free_disk_mib <= host.disk_mib


@pytest.mark.parametrize(("phase", "machines"), [(Phase.RUNNING, 1), (Phase.STARTING, 1), (Phase.SAVED, 0)])
def test_what_machines_were_promised_is_not_free(computer: Path, phase: Phase, machines: int) -> None:
    """At every site, and whether or not they have touched it: these have not begun yet."""
    for site in ("a", "b"):
        (computer / site).mkdir()
        instance = QemuInstance.ordered(order(Verb.START, 7), phase, 5, hardware=HARDWARE)
        store = open_store(computer / site)
        store.write(Changes({instance.key: instance}))
        store.close()
    host = observe_host(computer)
    assert host.free_cores == 4 - 2 * machines * HARDWARE.cpus
    assert host.free_memory_mib == 6000 - 2 * machines * (HARDWARE.memory_mib + OVERHEAD_MIB)


@pytest.mark.parametrize(
    ("vms", "constraints", "changes", "told", "again"),
    [
        (1, JOB, {}, "", False),
        (2, PlacementConstraints(), {}, "", False),
        (2, JOB, {}, "3 of 4 cores are free on north-1, and 4 are needed", True),
        (3, JOB, {}, "north-1 has 4 cores, and 6 are needed", False),
        (1, PlacementConstraints(), {"cpus": 5}, "north-1 has 4 cores, and 5 are needed", False),
        (1, JOB, {"memory_mib": 7000}, "3000 of 8000 MiB of memory are free on north-1", True),
        (1, JOB, {"memory_mib": 8000}, "north-1 has 8000 MiB of memory, and 8160 are needed", False),
        (
            1,
            PlacementConstraints(nodes=("south-1",)),
            {},
            "machines are built on north-1 here, not on south-1",
            False,
        ),
    ],
)
def test_what_does_not_fit_is_said(
    vms: int, constraints: PlacementConstraints, changes: dict[str, int], told: str, *, again: bool
) -> None:
    """Later it may, or never; cores are counted for a job that has asked for them."""
    wanted = replace(order(Verb.START, vms=vms), constraints=constraints)
    problem = does_not_fit(wanted, replace(HARDWARE, **changes), HOST)  # type: ignore[arg-type]
    assert (problem.text.startswith(told), problem.again) == (True, again) if problem else told == ""


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 5000))
def test_no_more_is_ever_promised_than_is_free(vms: int, cores: int, memory_mib: int) -> None:
    wanted = replace(order(Verb.START, vms=vms), constraints=PlacementConstraints(cores=cores))
    machine = replace(HARDWARE, cpus=cores or 1, memory_mib=memory_mib)
    if does_not_fit(wanted, machine, HOST) is None:
        assert vms * cores <= HOST.free_cores
        assert vms * (memory_mib + OVERHEAD_MIB) <= HOST.free_memory_mib


class TestTheNode:
    def test_where_no_slot_is_free_nothing_is(self, computer: Path) -> None:
        images = Catalogue(computer.with_name("images"), base_in(computer.with_name("images") / "debian").folder)
        facts = node_facts(computer, QemuOptions(), images, free_slots=0)
        assert (facts.cores, facts.memory_mib) == (4, 8000)
        assert (facts.free_cores, facts.free_memory_mib, facts.free_disk_mib) == (0, 0, 0)
        assert (facts.is_host, facts.runs) == (True, False)
        assert node_facts(computer, QemuOptions(), images, free_slots=1).free_cores == 4

    def test_without_an_image_it_says_how_to_get_one(self, computer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hosts, "machine_type", lambda: "pc")
        monkeypatch.setattr(hosts, "find_tool", lambda _: "/usr/bin/it")
        folder = computer.with_name("images")
        facts = node_facts(computer, QemuOptions(), Catalogue(folder, folder / "debian"), 1)
        assert ("leasehold image build" in facts.problem, facts.fault) == (True, "service-stopped")

    def test_without_kvm_where_it_is_wanted_none_can_be_made(
        self, computer: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hosts, "could_have_kvm", lambda: False)
        monkeypatch.setattr(hosts, "find_tool", lambda _: "/usr/bin/it")
        folder = computer.with_name("images")
        facts = node_facts(computer, QemuOptions(accelerator="kvm"), Catalogue(folder, folder / "x"), 1)
        assert facts.problem == "machines are to use KVM, and there is none here"

    def test_without_qemu_img_none_can_be_made(self, computer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hosts, "find_tool", lambda _: None)
        facts = node_facts(computer, QemuOptions(), Catalogue(computer, computer / "x"), 1)
        assert "install qemu-utils" in facts.problem
