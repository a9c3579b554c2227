"""How the conformance suite gets at sites under libvirt: pretended machines by our clock, real by theirs."""

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.drivers.sites import REFERENCE_MIPS, Clock

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.protocol import Clock as ClockLike
from leasehold.service.drivers.protocol import Driver, DriverSetup
from leasehold.service.drivers.registry import driver


def wall_clock() -> int:
    """Tell the real time."""
    return time.time_ns() // 1_000_000


@dataclass
class LibvirtRig:
    """Sites with these options; ``more`` has those of single sites."""

    folder: Path
    options: Mapping[str, object]
    more: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    clock: ClockLike = wall_clock
    slots: int = 4
    nap_s: int = 8
    reference_mips: int = REFERENCE_MIPS
    patience: int = 3000
    step_s: float = 0.1

    def __post_init__(self) -> None:
        self._open: list[Driver] = []

    def setup(self, site: str) -> DriverSetup:
        """What a site is made from."""
        options = {"poll_s": 0.2, **self.options, **self.more.get(site, {})}
        speed = REFERENCE_MIPS
        folder = self.folder / site
        return DriverSetup(site, self.slots, speed, speed, OverheadModel(), folder, self.clock, options)

    def open(self, site: str = "a") -> Driver:
        """Open a site."""
        opened = driver("libvirt", self.setup(site))
        self._open.append(opened)
        return opened

    async def kill(self, driver: Driver) -> None:
        """Closing tells libvirt nothing, as a crash would not; a real one is in its own test."""
        self._open = [one for one in self._open if one is not driver]
        await driver.close()

    async def pass_time(self) -> None:
        """Wait: machines take the time that they take."""
        await asyncio.sleep(self.step_s)


@dataclass
class Agents:
    """Guest agents for machines that are only pretended, each of which says of its command what it likes."""

    said: dict[str, str] = field(default_factory=dict)

    def answer(self, domain: Any, asked: str, _within_s: int, _flags: int) -> str:
        """Answer as qemu-ga would; the first file that is opened is the one with the exit status."""
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        told = self.said.get(domain.name().split("-")[2])
        match json.loads(asked)["execute"]:
            case "guest-exec":
                return '{"return": {"pid": 1}}'
            case "guest-file-open" if told is None:
                raise libvirt.libvirtError("no such file")
            case "guest-file-read":
                encoded = base64.b64encode(str(told).encode()).decode()
                return json.dumps({"return": {"count": len(encoded), "buf-b64": encoded, "eof": True}})
        return '{"return": 1000}'


class PretendedRig(LibvirtRig):
    """Sites whose machines libvirt only pretends, and whose clock is ours."""

    async def pass_time(self) -> None:
        """Half a second by our clock."""
        assert isinstance(self.clock, Clock)
        self.clock.now_ms += 500
        for one in self._open:
            await one.observe()


class LyingRig(PretendedRig):
    """Those whose guests have an agent; ``agents`` are all of them."""

    agents: Agents

    def lie(self, lease_id: int, report: str) -> None:
        """Let the machine of a lease say this of how its command has ended."""
        self.agents.said[str(lease_id)] = report
