"""Slurm sites for tests: how the conformance suite gets at them, and a command that really works."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.protocol import Driver, DriverSetup
from leasehold.service.drivers.slurm.driver import SlurmDriver
from leasehold.testing.slurm import SlurmCluster

REFERENCE_MIPS = 1000
LOOK_EVERY_S = 0.1

# `sleep` waits for a time of day, which comes also for processes that are stopped; this one works for it.
TICKING = """\
#!/bin/sh
ticks=$(awk "BEGIN { print int($1 * 10) }")
while [ "$ticks" -gt 0 ]; do /bin/sleep 0.1; ticks=$((ticks - 1)); done
"""


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def working_sleep(folder: Path) -> str:
    """Make a ``sleep`` that counts the time only in which it runs; returns the PATH that finds it first."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    programs.chmod(0o755)
    (programs / "sleep").write_text(TICKING)
    (programs / "sleep").chmod(0o755)
    return f"{programs}:/usr/bin:/bin"


def guest_options(cluster: SlurmCluster) -> dict[str, Any]:
    """Have jobs run as nobody, in a folder that nobody can reach; that of a test, nobody can."""
    folder = Path(tempfile.mkdtemp(prefix="guests-", dir=cluster.folder))
    folder.chmod(0o711)
    return {
        "conf": str(cluster.conf),
        "user": "nobody",
        "job_folder": str(folder / "jobs"),
        "environment": {"PATH": working_sleep(folder)},
    }


def setup(
    folder: Path,
    site: str = "a",
    slots: int = 12,
    clock: Callable[[], int] = now_ms,
    **options: object,
) -> DriverSetup:
    """A site as its driver gets to know it."""
    folder = folder / site
    return DriverSetup(site, slots, REFERENCE_MIPS, REFERENCE_MIPS, OverheadModel(), folder, clock, options)


@dataclass
class SlurmRig:
    """How the conformance suite gets at sites of a real cluster: time passes as it does."""

    cluster: SlurmCluster
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    slots: int = 12
    nap_s: int = 4
    reference_mips: int = REFERENCE_MIPS
    patience: int = 6000
    step_s: float = 0.05

    def __post_init__(self) -> None:
        usual = guest_options(self.cluster) | {"look_every_s": LOOK_EVERY_S, "probe_every_s": 0}
        self.options = usual | self.options

    def open(self, site: str) -> Driver:
        return SlurmDriver(setup(self.folder, site, self.slots, **self.options))

    async def kill(self, driver: Driver) -> None:
        """Closing writes nothing, so that it is as good as a crash; a real one is in its own test."""
        await driver.close()

    async def pass_time(self) -> None:
        await asyncio.sleep(self.step_s)
