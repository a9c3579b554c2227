"""Which orders are followed: the rules alone, compared with those of emulated machines for any orders."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.overhead import OverheadModel
from leasehold.model.errors import InputError, InvalidField, LeaseholdError
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware as EmulatedHardware
from leasehold.service.drivers.output import bound_consoles, console_text, keep_latest
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Phase, Problem, Verb
from leasehold.service.drivers.qemu.host import could_have_kvm
from leasehold.service.drivers.qemu.images import toolchain
from leasehold.service.drivers.qemu.images.image import open_image
from leasehold.service.drivers.qemu.instances import (
    GuestProgress,
    Handover,
    MemoryPlace,
    OtherSite,
    Prechecks,
    QemuInstance,
    QemuInstances,
    open_store,
)
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.qemu.options import read_options
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.instances import Changes
from leasehold.testing.driver_rig import order

SLOTS = 3
HARDWARE = VmHardware("/images/one", 128, 1, "tcg", "pc-i440fx-7.2")
SETTLED = {
    Phase.STARTING: Phase.RUNNING,
    Phase.RESUMING: Phase.RUNNING,
    Phase.RECEIVING: Phase.RUNNING,
    Phase.SAVING: Phase.SAVED,
}
AT_ONCE = OverheadModel(
    suspend_ms_per_gib=0, resume_ms_per_gib=0, network_mbps=10**9, migrate_fixed_ms=0, terminate_ms=0
)


def follow(instances: QemuInstances, told: Order, prechecks: Prechecks) -> Problem | None:
    refuse = instances.refuses(told, prechecks)
    return instances.follow(told, 0, refuse, **prechecks.fields(told))


class Rules:
    """A site on which whatever is taken on is done at once."""

    def __init__(self) -> None:
        self.instances = QemuInstances(QemuInstance, SLOTS, Capabilities())

    def tell(self, told: Order) -> Problem | None:
        source = QemuInstance.ordered(told, Phase.RUNNING, 0, hardware=HARDWARE) if told.other_site else None
        problem = follow(self.instances, told, Prechecks(hardware=HARDWARE, source=source))
        for one in self.instances.all():
            if one.is_leaving:
                self.instances.drop(one)
            elif one.phase in SETTLED:
                self.instances.become(one, SETTLED[one.phase], 0)
        return problem

    def observe(self) -> list[Observation]:
        return self.instances.observe()


@st.composite
def orders(draw: st.DrawFn) -> Order:
    verb = draw(st.sampled_from([*Verb, Verb.START, Verb.SUSPEND, Verb.RESUME]))
    other_site = "b" if verb in {Verb.SEND, Verb.RECEIVE} else ""
    lease_id, incarnation, vms = (draw(st.integers(1, most)) for most in (3, 4, 2))
    return order(verb, lease_id, incarnation, vms=vms, other_site=other_site)


@given(st.lists(orders(), max_size=25))
def test_orders_are_followed_as_by_emulated_machines(program: list[Order]) -> None:
    rules = Rules()
    emulated = EmulatedMachines(EmulatedHardware(SLOTS, 1000, 1000, AT_ONCE), FaultInjector(Faults()))
    for now_ms, told in enumerate(program):
        problem = emulated.carry_out([told], now_ms * 1000).get(told.id)
        emulated.pass_time(now_ms * 1000 + 999)
        assert rules.tell(told) == problem
        expected = [(one.lease_id, one.incarnation, one.phase) for one in emulated.observe()]
        assert [(one.lease_id, one.incarnation, one.phase) for one in rules.observe()] == expected


def an_instance(lease_id: int, incarnation: int, **more: Any) -> QemuInstance:
    told = order(Verb.START, lease_id, incarnation, vms=2, command=("sleep", 1))
    progress = (GuestProgress(), GuestProgress(is_up=True, job=9, exit_status=3))
    return QemuInstance.ordered(told, Phase.SAVED, 5, hardware=HARDWARE, progress=progress, **more)


def test_another_site_reads_what_is_sent_and_received(tmp_path: Path) -> None:
    sent = an_instance(7, 2, desired=Desired.AWAY, handover=Handover.READY)
    received = an_instance(8, 2, memory=MemoryPlace.ELSEWHERE, from_site="b")
    store = open_store(tmp_path)
    store.write(Changes({sent.key: sent, received.key: received}, {9: 1}))
    seen = OtherSite(tmp_path)
    assert seen.instances() == [sent, received]
    assert (seen.sending(7, 2), seen.sending(7, 1), seen.sending(8, 2)) == (sent, None, None)
    assert (seen.receiving(8, 2), seen.receiving(8, 3), seen.receiving(9, 2)) == ((received, -1), (None, -1), (None, 1))
    with pytest.raises(InputError, match="locked by another process"):
        open_store(tmp_path)
    store.close()


def test_a_site_that_is_not_there_yet_has_nothing(tmp_path: Path) -> None:
    seen = OtherSite(tmp_path)
    assert (seen.instances(), seen.sending(1, 1), seen.receiving(1, 1)) == ([], None, (None, -1))


def test_a_stop_ends_what_is_on_its_way_until_it_is_handed_over() -> None:
    instances = QemuInstances(QemuInstance, SLOTS, Capabilities())
    for lease_id in (1, 2):
        assert follow(instances, order(Verb.START, lease_id), Prechecks(hardware=HARDWARE)) is None
        assert follow(instances, order(Verb.SEND, lease_id, other_site="b"), Prechecks()) is None
    on_its_way, handed_over = instances.all()
    assert (on_its_way.handover, instances.used_vms, instances.observe()) == (Handover.LIVE, 0, [])
    handed_over.handover = Handover.READY
    for lease_id in (1, 2):
        assert follow(instances, order(Verb.STOP, lease_id), Prechecks()) is None
    assert [one.desired for one in instances.all()] == [Desired.GONE, Desired.AWAY]
    assert [one.lease_id for one in instances.observe()] == [1], "it is reported until it is removed"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"image": "here"}, "image"),
        ({"accelerator": "kwm"}, "accelerator"),
        ({"cpus": 0}, "cpus"),
        ({"boot_s": 0}, "boot_s"),
        ({"warm": True}, "warm"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(said: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as problem:
        read_options(said)
    assert problem.value.field == field


def test_who_has_no_image_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leasehold image build"):
        open_image(tmp_path)


def test_whatever_is_missing_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_SBIN", str(tmp_path))
    with pytest.raises(LeaseholdError, match=r"apt-get install -y .*cpio .*mmdebstrap .*qemu-utils"):
        toolchain.require_all_tools()


def test_kvm_is_not_even_tried_where_processors_do_not_virtualise(tmp_path: Path) -> None:
    device, processors = tmp_path / "kvm", tmp_path / "cpuinfo"
    device.touch()
    processors.write_text("processor : 0\nflags : fpu sse2 hypervisor\n")
    assert not could_have_kvm(device, processors)
    processors.write_text("processor : 0\nflags : fpu vmx sse2\n")
    assert could_have_kvm(device, processors)
    device.unlink()
    assert not could_have_kvm(device, processors)


class TestConsoles:
    def write(self, folder: Path, name: str, text: str) -> Path:
        path = folder / "consoles" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def test_one_is_told_from_its_first_incarnation_on(self, tmp_path: Path) -> None:
        self.write(tmp_path, "1.0.10.log", "later\r\n")
        self.write(tmp_path, "1.0.9.log", "soon")
        self.write(tmp_path, "11.0.1.log", "other")
        assert console_text(tmp_path, 1) == "soonlater\n"
        self.write(tmp_path, "1.1.9.log", "beside")
        assert console_text(tmp_path, 1) == "--- machine 0 ---\nsoonlater\n--- machine 1 ---\nbeside"

    def test_a_guest_that_talks_without_end_fills_no_disk(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "1.0.1.log", "".join(f"{number}\n" for number in range(10_000)))
        bound_consoles(tmp_path, 1000)
        assert path.stat().st_size <= 1000
        assert path.read_text().endswith("\n9998\n9999\n")

    def test_the_latest_are_kept(self, tmp_path: Path) -> None:
        for lease in range(1, 5):
            self.write(tmp_path, f"{lease}.0.1.log", "")
        keep_latest(tmp_path, 0, living={2, 3})
        assert {path.name for path in (tmp_path / "consoles").iterdir()} == {"2.0.1.log", "3.0.1.log"}
