"""Sites of real machines under QEMU, and whether anything is left of them."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.protocol import Driver, DriverSetup
from leasehold.service.drivers.qemu.driver import QemuDriver
from leasehold.service.drivers.qemu.limits import CgroupLimits
from leasehold.service.drivers.qemu.process import QemuProcess


def now_ms() -> int:
    """The clock on the wall."""
    return time.time_ns() // 1_000_000


def setup(folder: Path, site: str, image: Path, slots: int = 2, **options: Any) -> DriverSetup:
    """A site whose machines are interpreted, as they are everywhere that tests may run."""
    said = {"image": str(image), "accelerator": "tcg", "warm_start": True, **options}
    return DriverSetup(site, slots, 1000, 1000, OverheadModel(), folder / "machines" / site, now_ms, said)


def counts_in(text: str) -> list[int]:
    """Give the numbers that a guest has counted aloud, of whole lines: it may be in the midst of the last."""
    return [int(number) for number in re.findall(r"^COUNT (\d+)\n", text, re.MULTILINE)]


@dataclass
class QemuRig:
    """How the conformance suite gets at sites of virtual machines, in real time."""

    folder: Path
    image: Path
    options: Mapping[str, object] = field(default_factory=dict)
    slots: int = 2
    nap_s: int = 5
    reference_mips: int = 1000
    patience: int = 3000
    step_s: float = 0.1

    def open(self, site: str) -> Driver:
        return QemuDriver(setup(self.folder, site, self.image, self.slots, **self.options))

    async def kill(self, driver: Driver) -> None:
        """Closing stops nothing and finishes nothing, so that it is as good as a crash; see test_killed."""
        await driver.close()

    async def pass_time(self) -> None:
        await asyncio.sleep(self.step_s)


@contextmanager
def cleared(folder: Path) -> Iterator[Path]:
    """Have a folder for sites, and leave no machine of it, whatever happens."""
    try:
        yield folder
    finally:
        end_machines(folder)
        shutil.rmtree(folder, ignore_errors=True)


def end_machines(folder: Path) -> None:
    """End every machine whose files are anywhere below a folder, and remove its control group."""
    for site in folder.glob("**/machines/*"):
        for lock in site.glob("leases/*/*.lock"):
            QemuProcess(lock).kill()
        CgroupLimits(site).sweep(())


def processes(folder: Path) -> list[int]:
    """Find the processes of all machines below a folder by how they were called: not as drivers do."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"qemu-system-x86_64") and any(os.fsencode(folder) in word for word in words):
            found.append(int(entry.parent.name))
    return found


def files(folder: Path) -> set[str]:
    """List the files of leases below a folder, without their consoles."""
    return {str(path.relative_to(folder)) for path in folder.glob("machines/*/leases/*/*")}


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up_s, f"{is_so} never came about"
        await asyncio.sleep(0.02)
