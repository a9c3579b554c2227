"""How the conformance suite gets at sites under libvirt: pretended machines by our clock, real by theirs."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.service.enactors.sites import REFERENCE_MIPS, Clock

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.enactors.protocol import Enactor
from leasehold.service.enactors.registry import enactor
from leasehold.service.enactors.setup import Clock as ClockLike
from leasehold.service.enactors.setup import EnactorSetup


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
        self._open: list[Enactor] = []

    def setup(self, site: str) -> EnactorSetup:
        """What a site is made from."""
        options = {"poll_s": 0.2, **self.options, **self.more.get(site, {})}
        speed = REFERENCE_MIPS
        folder = self.folder / site
        return EnactorSetup(site, self.slots, speed, speed, OverheadModel(), folder, self.clock, options)

    def open(self, site: str = "a") -> Enactor:
        """Open a site."""
        opened = enactor("libvirt", self.setup(site))
        self._open.append(opened)
        return opened

    async def kill(self, enactor: Enactor) -> None:
        """Closing tells libvirt nothing, as a crash would not; a real one is in its own test."""
        self._open = [one for one in self._open if one is not enactor]
        await enactor.close()

    async def pass_time(self) -> None:
        """Wait: machines take the time that they take."""
        await asyncio.sleep(self.step_s)


class PretendedRig(LibvirtRig):
    """Sites whose machines libvirt only pretends, and whose clock is ours."""

    async def pass_time(self) -> None:
        """Half a second by our clock."""
        assert isinstance(self.clock, Clock)
        self.clock.now_ms += 500
        for one in self._open:
            await one.observe()
