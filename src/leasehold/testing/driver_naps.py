"""Naps: commands that sleep, by which a suite sees whether work goes on where it was left.

Part of `leasehold.testing.drivers`. On a computer that stands still for a while, a nap is over before
anything could be done in the midst of it. Such a try shows nothing, and is made again with a longer nap. A
driver that loses work does so in each of them, and is found out; one that does so only now and then may pass, so that
a driver of real machines should also have tests in which a guest counts.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from leasehold.service.drivers.protocol import Verb
from leasehold.testing.driver_rig import Rig, Site, order

TIMES_AS_LONG: Final = (1, 2, 3)
"""How long the naps of one try after the other are, in naps of the rig."""

_CLEARLY_LESS: Final = 0.8
"""Of the time that a whole nap takes, when half of it was over."""

_WHOLE, _CUT, _MEANWHILE, _AFTERWARDS = 1, 2, 3, 4
_LEASES_OF_A_TRY: Final = 4


@dataclass(frozen=True)
class Nap:
    """A nap that is cut in two halves.

    ``whole_s``          how long it is
    ``reference_mips``   the speed that work units are counted by
    ``leases_before``    how many leases the tries before this one had
    """

    whole_s: int
    reference_mips: int
    leases_before: int

    @property
    def command(self) -> tuple[str, int]:
        """What the machines run that are disturbed."""
        return "sleep", self.whole_s

    @property
    def lease_id(self) -> int:
        """Whose machines are disturbed."""
        return self.leases_before + _CUT

    @property
    def half_the_work(self) -> int:
        """Give half the work of the nap, in work units."""
        return self.whole_s * 1000 * self.reference_mips // 2

    async def taken_whole(self, here: Site) -> int:
        """Let another lease sleep for as long, undisturbed; say for how many ms it ran, 0 if unseen."""
        return await self._slept(here, _WHOLE, self.whole_s)

    async def half_slept(self, here: Site) -> None:
        """Start the machines that will be disturbed, and others that sleep half as long; wait for those."""
        await here.do(order(Verb.START, self.lease_id, command=self.command))
        await self._slept(here, _MEANWHILE, self.whole_s / 2)

    async def outlasted(self, here: Site) -> None:
        """Let a whole nap's time go by."""
        await self._slept(here, _AFTERWARDS, self.whole_s)

    async def _slept(self, here: Site, which: int, seconds: float) -> int:
        lease_id = self.leases_before + which
        await here.do(order(Verb.START, lease_id, command=("sleep", seconds)))
        took_ms = await here.runs_for_ms(lease_id)
        await here.do(order(Verb.STOP, lease_id))
        return took_ms


def is_a_rest(rest_ms: int, whole_ms: int) -> bool:
    """Say whether a nap was clearly shorter than a whole one; both are 0 where its beginning was not seen."""
    return 0 < rest_ms < _CLEARLY_LESS * whole_ms


async def goes_on_in_some_nap(rig: Rig, goes_on_in: Callable[[Nap], Awaitable[bool]]) -> None:
    """See that work goes on where it was left in one nap at least; each is longer than the last."""
    for number, times in enumerate(TIMES_AS_LONG):
        if await goes_on_in(Nap(rig.nap_s * times, rig.reference_mips, number * _LEASES_OF_A_TRY)):
            return
    raise AssertionError(f"work began anew, or ended too soon, in each of {len(TIMES_AS_LONG)} naps")
