"""A gateway that was away for a while takes notice of what its machines did meanwhile, before it decides."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tests.service.crash.federation import REFERENCE_MIPS, config

from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import open_store
from leasehold.testing.rows import submit

BEGIN_MS = 1_800_000_000_000
WORK_MS = 1_000


@dataclass
class Clock:
    now_ms: int = BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms


def state_after(folder: Path, duration_ms: int, away_ms: int) -> str:
    """The state of a lease that works for a second, when its gateway has been away after starting it."""
    clock, request = Clock(), submit("physics", LeaseType.SUSPENDABLE, 2, duration_ms, command=("sleep", "1"))

    async def submit_and_go() -> None:
        async with Federation.open(config("rr"), store, folder, clock, Metrics()) as federation:
            await federation.submit(request)
            while federation.store.open_orders():  # noqa: ASYNC110 - nobody tells that one is confirmed
                await asyncio.sleep(0)
            row = federation.store.lease(1)
            assert row is not None
            assert row.lease.state == LeaseState.RUNNING.value

    async def come_back() -> str:
        async with Federation.open(config("rr"), store, folder, clock, Metrics()) as federation:
            row = federation.store.lease(1)
            assert row is not None
            return row.lease.state

    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        asyncio.run(submit_and_go())
        clock.now_ms += away_ms
        return asyncio.run(come_back())


def test_what_ended_in_time_while_nobody_was_there_is_completed(tmp_path: Path) -> None:
    assert state_after(tmp_path, duration_ms=2 * WORK_MS, away_ms=3_600_000) == LeaseState.COMPLETED.value


def test_what_would_go_on_for_longer_than_its_time_is_killed(tmp_path: Path) -> None:
    assert REFERENCE_MIPS > 1
    assert state_after(tmp_path, duration_ms=WORK_MS // 2, away_ms=WORK_MS // 2 + 1) == LeaseState.KILLED.value
