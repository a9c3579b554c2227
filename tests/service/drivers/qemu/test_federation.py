"""The whole promise on real machines: local users never notice, and guests lose nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.service.drivers.qemu.machines import counts_in, files, now_ms, processes, until

from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.config import ServiceConfig
from leasehold.service.config_file import config_from_dict
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import Store, open_store
from leasehold.testing.rows import submit

pytestmark = pytest.mark.machines

COUNT = ("sh", "-c", "n=0; while :; do n=$((n + 1)); echo COUNT $n; sleep 0.2; done")
SLOTS = 4


def two_sites(image: Path) -> ServiceConfig:
    qemu = {"image": str(image), "accelerator": "tcg", "warm_start": True}
    overhead = {"suspend_ms_per_gib": 4_000, "resume_ms_per_gib": 4_000, "network_mbps": 10_000}
    return config_from_dict(
        {
            "service": {"reconcile_every_s": 2},
            "gateway": {"policy": "rr"},
            "sharing": {"without_agreement": "allow"},
            "defaults": {
                "overhead": overhead,
                "non_preemptable_share": 0.25,
                "non_preemptable_max_s": 3_600,
            },
            "cluster": [
                {"name": "a", "slots": SLOTS, "driver": "qemu", "qemu": qemu},
                {"name": "b", "slots": 1, "driver": "qemu", "qemu": qemu},
            ],
        },
        image,
    )


@dataclass
class Live:
    """A federation at work, and what its users see of it."""

    federation: Federation
    store: Store

    async def submit(self, lease_type: LeaseType, site: str | None = None, **more: object) -> int:
        asked = {"vms": 1, "duration_ms": 3_600_000, "memory_mib": 128, "command": COUNT} | more
        row, _ = await self.federation.submit(submit("physics", lease_type, site=site, **asked))  # type: ignore[arg-type]
        return row.lease.id

    def state(self, lease_id: int) -> tuple[LeaseState, str]:
        row = self.store.lease(lease_id)
        assert row is not None
        return LeaseState(row.lease.state), row.lease.site

    async def until_is(self, lease_id: int, state: LeaseState, site: str) -> None:
        def is_so() -> bool:
            now = self.state(lease_id)
            assert state.is_final or not now[0].is_final, self.store.lease(lease_id)
            return now == (state, site)

        await until(is_so)

    async def counts(self, lease_id: int) -> list[int]:
        return counts_in(await self.federation.console(lease_id))

    async def counts_on(self, lease_id: int, after: int) -> int:
        """Wait until a guest has said a higher number; none was left out or said twice. Gives the last."""
        counts = await self.counts(lease_id)
        while counts[-1:] <= [after]:
            await asyncio.sleep(0.1)
            counts = await self.counts(lease_id)
        assert counts == list(range(1, len(counts) + 1))
        return counts[-1]


@asynccontextmanager
async def live(config: ServiceConfig, place: Path) -> AsyncIterator[Live]:
    with open_store(f"sqlite:///{place / 'store.db'}") as store:
        async with Federation.open(config, store, place, now_ms, Metrics()) as federation:
            yield Live(federation, store)


def test_local_users_take_their_room_and_no_guest_loses_anything(place: Path, image: Path) -> None:
    place.mkdir()

    async def play() -> None:
        async with live(two_sites(image), place) as world:
            await world.federation.sites.drain("b", "operator")
            types = [*LeaseType]
            guests = {one: await world.submit(one) for one in types}
            for lease in guests.values():
                await world.until_is(lease, LeaseState.RUNNING, "a")
            said = {one: await world.counts_on(lease, 2) for one, lease in guests.items()}
            await world.federation.sites.undrain("b", "operator")

            local = await world.submit(
                LeaseType.NON_PREEMPTABLE, "a", vms=3, command=("sh", "-c", "echo COUNT 1; sleep 3")
            )
            begun = {(LeaseState.STARTING, "a"), (LeaseState.RUNNING, "a")}
            assert world.state(local) in begun, "a local user has to wait"
            saved, moved = guests[LeaseType.SUSPENDABLE], guests[LeaseType.MIGRATABLE]
            await world.until_is(saved, LeaseState.SUSPENDED, "a")
            await world.until_is(moved, LeaseState.RUNNING, "b")
            assert world.state(guests[LeaseType.CANCELABLE])[0] is LeaseState.TERMINATED
            assert world.state(guests[LeaseType.NON_PREEMPTABLE]) == (LeaseState.RUNNING, "a")
            frozen = await world.counts(saved)
            said[LeaseType.MIGRATABLE] = await world.counts_on(moved, said[LeaseType.MIGRATABLE])

            await world.until_is(local, LeaseState.COMPLETED, "a")
            assert await world.counts(local) == [1] * 3
            await world.until_is(saved, LeaseState.RUNNING, "a")
            await world.counts_on(saved, frozen[-1])
            for one in (LeaseType.MIGRATABLE, LeaseType.NON_PREEMPTABLE):
                await world.counts_on(guests[one], said[one])

            for lease in guests.values():
                await world.federation.cancel(lease)
            await until(lambda: not processes(place) and not files(place))

    asyncio.run(play())
