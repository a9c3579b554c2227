"""A gateway and the managers of two sites are killed while people talk to them, with the real client.

The client asks again with the same Idempotency-Key until it knows. Each storm is drawn from its number; the
same one again: ``pytest 'tests/service/crash/test_killed_over_http.py::test_...[3]'``.
"""

import asyncio
from pathlib import Path

import pytest
from tests.service.crash.house import House

KILLS = 20


async def storm(house: House) -> None:
    async with house.open():
        await house.rage(KILLS)


@pytest.mark.storm
@pytest.mark.parametrize("number", range(2))
def test_gateway_and_site_managers_that_are_killed_lose_nothing_and_do_nothing_twice(
    tmp_path: Path, number: int
) -> None:
    house = House(tmp_path, number)
    asyncio.run(storm(house))
    house.judge()
    assert house.kills == KILLS
