"""Emulated sites whose clock is moved by hand: the whole of one, and its heart alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.drivers.emulated.record import Saved
from leasehold.service.drivers.protocol import Driver, DriverSetup, Observation, Order, Phase

START_MS = 1_795_257_816_120  # 2026-11-21T10:43:36.120Z
REFERENCE_MIPS = 1000

# 64 MiB, the memory of the suite's orders: 4 ms to save, 3 ms to load, 4 + 1 + 3 + 2 ms to move.
QUICK = OverheadModel(suspend_ms_per_gib=64, resume_ms_per_gib=48, network_mbps=1_000_000, migrate_fixed_ms=2)
SAVE_MS, LOAD_MS, MOVE_MS = 4, 3, 10


def machines(
    slots: int = 4,
    speed_mips: int = 1000,
    faults: Faults | None = None,
    saved: Saved | None = None,
    **hardware: Any,
) -> EmulatedMachines:
    """Machines whose overheads are a few milliseconds."""
    injector = FaultInjector(faults or Faults())
    return EmulatedMachines(Hardware(slots, speed_mips, REFERENCE_MIPS, QUICK, **hardware), injector, saved)


def told(site: EmulatedMachines, now_ms: int, *orders: Order) -> None:
    """Give orders that have to be taken on."""
    assert site.carry_out(orders, now_ms) == {}


def changes(site: EmulatedMachines, until_ms: int) -> list[tuple[int, int, Phase]]:
    """Let time pass; give what changes by then as (since when, lease, phase)."""
    return [(one.since_ms, one.lease_id, one.phase) for one in site.pass_time(until_ms)]


def seen(site: EmulatedMachines, lease_id: int = 1) -> Observation | None:
    """Look at one lease."""
    return next((one for one in site.observe() if one.lease_id == lease_id), None)


@dataclass
class Clock:
    """A clock that somebody else moves."""

    now_ms: int = START_MS

    def __call__(self) -> int:
        return self.now_ms


def setup(folder: Path, clock: Callable[[], int], site: str = "a", slots: int = 4, **options: object) -> DriverSetup:
    """A site whose machines are twice as fast as the reference, with the published overheads."""
    return DriverSetup(site, slots, 2 * REFERENCE_MIPS, REFERENCE_MIPS, OverheadModel(), folder, clock, options)


@dataclass
class EmulatedRig:
    """How the conformance suite gets at emulated sites: half a second at a time."""

    folder: Path
    options: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    slots: int = 4
    nap_s: int = 20
    reference_mips: int = REFERENCE_MIPS
    patience: int = 200
    step_ms: int = 500

    def __post_init__(self) -> None:
        self._open: list[EmulatedDriver] = []

    def open(self, site: str) -> Driver:
        opened = EmulatedDriver(setup(self.folder / site, self.clock, site, self.slots, **self.options))
        self._open.append(opened)
        return opened

    async def kill(self, driver: Driver) -> None:
        """Closing writes nothing, so that it is as good as a crash; a real one is in its own test."""
        self._open = [one for one in self._open if one is not driver]
        await driver.close()

    async def pass_time(self) -> None:
        self.clock.now_ms += self.step_ms
        for one in self._open:
            one.clock_was_moved()
            await one.observe()
