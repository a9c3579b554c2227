"""Which orders are followed: the rules alone, compared with those of emulated machines for any orders."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.overhead import OverheadModel
from leasehold.model.errors import InputError, InvalidField, LeaseholdError
from leasehold.service.drivers.emulated.faults import Faults
from leasehold.service.drivers.emulated.hardware import Hardware as EmulatedHardware
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.mishaps import Mishaps
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Phase, Problem, Verb
from leasehold.service.drivers.qemu.host import could_have_kvm
from leasehold.service.drivers.qemu.images import toolchain
from leasehold.service.drivers.qemu.images.image import open_image
from leasehold.service.drivers.qemu.judging import Leave, Standing, judge
from leasehold.service.drivers.qemu.ledger import Ledger, Neighbour
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.qemu.options import read_options
from leasehold.service.drivers.qemu.output import bound_consoles, console_text, keep_latest
from leasehold.service.drivers.qemu.record import Changes, Handover, Record, new_record
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


class Rules:
    """A site on which whatever is taken on is done at once."""

    def __init__(self) -> None:
        self.here: dict[int, Record] = {}
        self.gone: dict[int, int] = {}

    def tell(self, told: Order) -> Problem | None:
        here = self.here.get(told.lease_id)
        used = sum(one.room_vms for one in self.here.values()) - (here.room_vms if here else 0)
        source = replace(new_record(told, Phase.RUNNING, 0, HARDWARE), to_site="b", handover=Handover.LIVE)
        gone = self.gone.get(told.lease_id, -1)
        standing = Standing(0, SLOTS, used, Capabilities(), here, gone, HARDWARE, source)
        verdict = judge(told, standing)
        if isinstance(verdict, Problem):
            return verdict
        if isinstance(verdict, Leave) or (isinstance(verdict, Record) and (verdict.is_doomed or verdict.to_site)):
            self.here.pop(told.lease_id, None)
            self.gone[told.lease_id] = told.incarnation
        elif isinstance(verdict, Record):
            self.here[told.lease_id] = replace(verdict, phase=SETTLED.get(verdict.phase, verdict.phase))
        return None

    def observe(self) -> list[Observation]:
        return [self.here[lease_id].observed() for lease_id in sorted(self.here)]


@st.composite
def orders(draw: st.DrawFn) -> Order:
    verb = draw(st.sampled_from([*Verb, Verb.START, Verb.SUSPEND, Verb.RESUME]))
    other_site = "b" if verb in {Verb.SEND, Verb.RECEIVE} else ""
    lease_id, incarnation, vms = (draw(st.integers(1, most)) for most in (3, 4, 2))
    return order(verb, lease_id, incarnation, vms=vms, other_site=other_site)


@given(st.lists(orders(), max_size=25))
def test_orders_are_followed_as_by_emulated_machines(program: list[Order]) -> None:
    rules = Rules()
    emulated = EmulatedMachines(EmulatedHardware(SLOTS, 1000, 1000, AT_ONCE), Mishaps(Faults()))
    for now_ms, told in enumerate(program):
        problem = emulated.carry_out([told], now_ms * 1000).get(told.id)
        emulated.pass_time(now_ms * 1000 + 999)
        assert rules.tell(told) == problem
        expected = [(one.lease_id, one.incarnation, one.phase) for one in emulated.observe()]
        assert [(one.lease_id, one.incarnation, one.phase) for one in rules.observe()] == expected


def test_what_is_written_down_is_read_again(tmp_path: Path) -> None:
    record = new_record(order(Verb.START, 7, 2, vms=2, command=("sleep", 1)), Phase.SAVED, 5, HARDWARE)
    record = replace(record.with_progress(1, is_up=True, job=9, exit_status=3), to_site="b")
    ledger = Ledger(tmp_path)
    ledger.write(Changes({7: record}, {(8, 1): replace(record, lease_id=8, incarnation=1)}, {8: 1}))
    seen = Neighbour(tmp_path)
    assert (seen.here(7), seen.leaving(7, 2), seen.leaving(7, 1)) == (record, record, None)
    assert seen.leaving(8, 1) is not None
    assert seen.last_gone(8) == 1
    with pytest.raises(InputError, match="in the hands of another process"):
        Ledger(tmp_path)
    ledger.close()
    again = Ledger(tmp_path)
    assert (again.records(), again.gone()) == ({7: record}, {8: 1})
    again.write(Changes({7: None}, {(8, 1): None}))
    assert (again.records(), again.notes()) == ({}, [])
    again.close()


def test_a_neighbour_that_is_not_there_yet_has_nothing(tmp_path: Path) -> None:
    seen = Neighbour(tmp_path)
    assert (seen.here(1), seen.leaving(1, 1), seen.last_gone(1)) == (None, None, -1)


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
