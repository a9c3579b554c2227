"""``leasehold serve --demo``: institutions that ask, and guests that give way before one's eyes."""

import asyncio
import os
import signal
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from leasehold.cli.serving import GUESTS, HEAD_START_S, OWNERS, PACE, DemoLoad, demo_requests
from leasehold.client import AsyncClient
from leasehold.service.config import demo
from leasehold.service.serving import DataFolder, Listening, serve


class TestRequests:
    def test_come_in_order_and_for_days(self) -> None:
        times = [at_s for at_s, _, _ in islice(demo_requests(), 100_000)]
        assert times == sorted(times)
        assert times[-1] > 2 * 86_400 / PACE

    def test_begin_with_what_the_first_minutes_have_brought(self) -> None:
        first = [job.submit_ms for at_s, _, job in islice(demo_requests(), 1_000) if at_s == 0]
        assert max(first) <= HEAD_START_S * 1000
        assert len(first) > 30

    def test_local_ones_are_the_owners_and_others_the_guests(self) -> None:
        for _, consumer, job in islice(demo_requests(), 1_000):
            assert consumer in (GUESTS if job.site is None else {OWNERS[job.site]})

    def test_nobody_lends_without_the_right_to_take_back(self) -> None:
        guests = {job.lease_type.label for _, _, job in islice(demo_requests(), 1_000) if job.site is None}
        assert guests == {"cancelable", "suspendable", "migratable"}


@pytest.mark.soak
def test_guests_run_and_give_way_and_are_suspended(tmp_path: Path) -> None:
    seen: list[str] = []

    async def watch(listening: Listening) -> None:
        assert listening.token_file is not None
        token = listening.token_file.read_text(encoding="utf-8").strip()
        working = asyncio.create_task(DemoLoad(listening.url, token).run())
        async with AsyncClient(listening.url, token) as client:
            async for change in client.leases.watch(after=0):
                if change.consumer in GUESTS:
                    seen.append(change.state)
                if "suspended" in seen:
                    break
        working.cancel()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.gather(working, return_exceptions=True)

    config = replace(demo(), service=replace(demo().service, port=0))
    asyncio.run(serve(config, DataFolder(tmp_path, tmp_path / "demo"), watch))
    assert {"running", "suspending", "suspended"} <= set(seen)
