"""On real hosts: guests that count lose no count, whoever is killed while they are saved, loaded or moved."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.libvirt.guest import counted
from tests.service.drivers.libvirt.hosts import LibvirtHost
from tests.service.drivers.libvirt.killed import Told, main
from tests.service.drivers.libvirt.rigs import LibvirtRig
from tests.waiting import PATIENCE_S

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import Site, order, site
from leasehold.testing.killable import Killable

pytestmark = pytest.mark.machines

KILLED_AFTER_S = (0.0, 0.15, 0.4, 0.8)
"""Saving, loading and moving take about half a second, half a second, and a second and a half."""


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def play(*case: Any, **fixtures: Any) -> None:
        asyncio.run(test(*case, **fixtures))

    return play


@asynccontextmanager
async def both(rig: LibvirtRig) -> AsyncIterator[tuple[Site, Site]]:
    async with site(rig, "a") as here, site(rig, "b") as there:
        yield here, there


class Counting:
    """A guest that counts, on a console that it takes along."""

    def __init__(self, rig: LibvirtRig, lease_id: int = 1) -> None:
        self._rig = rig
        self._console = Path(str(rig.options["consoles"])) / f"leasehold-a-{lease_id}-1-0.console"

    @property
    def count(self) -> int:
        """Where it is; everything before it has to be there, once and in order."""
        counts = counted(self._console)
        assert counts == list(range(1, len(counts) + 1)), "a guest has lost its place"
        return len(counts)

    async def goes_on(self) -> int:
        """Wait until it has counted three times more."""
        aim = self.count + 3
        for _ in range(self._rig.patience):
            if self.count >= aim:
                return self.count
            await self._rig.pass_time()
        raise AssertionError(f"it stands at {self.count}")


@played
async def test_a_guest_counts_on_after_it_was_saved(real: LibvirtRig) -> None:
    guest = Counting(real)
    async with site(real) as here:
        await here.do(order(Verb.START))
        await guest.goes_on()
        await here.do(order(Verb.SUSPEND))
        await here.until(Phase.SAVED)
        saved_at = guest.count
        for _ in range(10):
            await real.pass_time()
        assert guest.count == saved_at
        await here.do(order(Verb.RESUME, incarnation=2))
        await guest.goes_on()
        assert f"COUNT {saved_at}" in await here.driver.console(1)


@played
async def test_two_machines_of_a_lease_are_saved_moved_and_ended_together(
    real: LibvirtRig, hosts: list[LibvirtHost]
) -> None:
    async with both(real) as (here, there):
        await here.do(order(Verb.START, vms=2))
        await here.until(Phase.RUNNING)
        await here.do(order(Verb.SUSPEND, vms=2))
        await here.until(Phase.SAVED)
        await here.do(order(Verb.RESUME, incarnation=2, vms=2))
        await here.until(Phase.RUNNING)
        await here.do(order(Verb.SEND, incarnation=2, other_site="b"))
        await there.do(order(Verb.RECEIVE, incarnation=3, vms=2, other_site="a"))
        await there.until(Phase.RUNNING)
        await there_are(real, hosts, [], ["leasehold-b-1-3-0", "leasehold-b-1-3-1"])
        await there.do(order(Verb.STOP, incarnation=3))
        await there.until_gone()
    assert names_on(hosts) == [[], []]
    assert leftovers(hosts) == []


@played
async def test_one_that_is_to_be_saved_before_it_has_come_is_saved_when_it_has(real: LibvirtRig) -> None:
    guest = Counting(real)
    async with both(real) as (here, there):
        await here.do(order(Verb.START))
        await guest.goes_on()
        await there.do(order(Verb.RECEIVE, incarnation=2, other_site="a"))
        await there.do(order(Verb.SUSPEND, incarnation=2))
        await there.stays(await there.until(Phase.SAVING))
        await here.do(order(Verb.SEND, other_site="b"))
        await there.until(Phase.SAVED)
        await there.do(order(Verb.RESUME, incarnation=3))
        await guest.goes_on()


@played
async def test_one_that_is_sent_on_before_it_has_come_goes_all_the_way(
    real: LibvirtRig, hosts: list[LibvirtHost]
) -> None:
    guest = Counting(real)
    async with both(real) as (here, there):
        await here.do(order(Verb.START))
        await guest.goes_on()
        await there.do(order(Verb.RECEIVE, incarnation=2, other_site="a"))
        await there.do(order(Verb.SEND, incarnation=2, other_site="a"))
        await here.do(order(Verb.SEND, other_site="b"), order(Verb.RECEIVE, incarnation=3, other_site="b"))
        await here.until(Phase.RUNNING)
        await guest.goes_on()
        await there_are(real, hosts, ["leasehold-a-1-3-0"], [])


@played
async def test_who_is_not_wanted_any_more_where_it_was_to_go_ends_where_it_is(
    real: LibvirtRig, hosts: list[LibvirtHost]
) -> None:
    async with both(real) as (here, there):
        await here.do(order(Verb.START))
        await here.until(Phase.RUNNING)
        await here.do(order(Verb.SEND, other_site="b"))
        for _ in range(5):
            assert names_on(hosts)[0], "it runs on until it is expected"
            await real.pass_time()
        await there.do(order(Verb.STOP, incarnation=2))
        await there_are(real, hosts, [], [])


@played
async def test_a_machine_that_stands_still_does_not_stand_still_where_it_goes(
    real: LibvirtRig, hosts: list[LibvirtHost]
) -> None:
    """As one whose saving was cut short: libvirt moves it as it stands, and it would be received for ever."""
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    async with both(real) as (here, there):
        await here.do(order(Verb.START))
        await here.until(Phase.RUNNING)
        connection = libvirt.open(hosts[0].uri)
        connection.lookupByName("leasehold-a-1-1-0").suspend()
        connection.close()
        await here.do(order(Verb.SEND, other_site="b"))
        await there.do(order(Verb.RECEIVE, incarnation=2, other_site="a"))
        await there.until(Phase.RUNNING)
        await there.do(order(Verb.STOP, incarnation=2))
        await there.until_gone()


@played
async def test_what_was_never_sent_is_not_waited_for(real: LibvirtRig) -> None:
    async with both(real) as (here, there):
        await here.do(order(Verb.SEND, other_site="b"))
        await there.do(order(Verb.RECEIVE, incarnation=2, other_site="a"))
        assert "had no machines" in (await there.until(Phase.FAILED)).detail


@played
async def test_a_command_that_fails_has_ended_and_says_how(real: LibvirtRig) -> None:
    async with site(real) as here:
        await here.do(order(Verb.START, command=("sh", "-c", "echo on the console; exit 3")))
        assert (await here.until(Phase.ENDED)).detail == "exit status 3"
        assert "on the console" in await here.driver.console(1)


@played
async def test_each_machine_has_a_layer_of_its_own_that_goes_with_it(real: LibvirtRig, pool: Path) -> None:
    real.options = {**real.options, "volume": "base.qcow2"}
    async with site(real) as here:
        await here.do(order(Verb.START, vms=2))
        await here.until(Phase.RUNNING)
        layers = ["leasehold-a-1-1-0.qcow2", "leasehold-a-1-1-1.qcow2"]
        assert files_in(pool) == ["base.qcow2", *layers]
        assert b"base.qcow2" in (pool / layers[0]).read_bytes()[:1024], "it lies over the volume"
        await here.do(order(Verb.SUSPEND, vms=2))
        await here.until(Phase.SAVED)
        await here.do(order(Verb.STOP))
        await here.until_gone()
        assert files_in(pool) == ["base.qcow2"]


def test_whoever_is_killed_at_it_no_guest_is_lost_or_doubled(
    real: LibvirtRig, hosts: list[LibvirtHost], library: Path
) -> None:
    guest = Counting(real)
    incarnation, home, away = 1, "a", "b"
    asyncio.run(reached(real, [("a", order(Verb.START))], "a", Phase.RUNNING))
    asyncio.run(guest.goes_on())
    for after_s in KILLED_AFTER_S:
        saved = [(home, order(Verb.SUSPEND, 1, incarnation))]
        told_and_killed(real, library, saved, after_s)
        asyncio.run(reached(real, saved, home, Phase.SAVED))
        loaded = [(home, order(Verb.RESUME, 1, incarnation + 1))]
        told_and_killed(real, library, loaded, after_s)
        asyncio.run(reached(real, loaded, home, Phase.RUNNING))
        asyncio.run(guest.goes_on())
        moved = [
            (home, order(Verb.SEND, 1, incarnation + 1, other_site=away)),
            (away, order(Verb.RECEIVE, 1, incarnation + 2, other_site=home)),
        ]
        told_and_killed(real, library, moved, 2 * after_s)
        asyncio.run(reached(real, moved, away, Phase.RUNNING))
        asyncio.run(guest.goes_on())
        incarnation, home, away = incarnation + 2, away, home
        one = f"leasehold-{home}-1-{incarnation}-0"
        asyncio.run(there_are(real, hosts, *([one] if name == home else [] for name in ("a", "b"))))
    asyncio.run(gone(real, home, incarnation))
    assert names_on(hosts) == [[], []]
    assert leftovers(hosts) == []


def told_and_killed(rig: LibvirtRig, library: Path, told: Told, after_s: float) -> None:
    """Let a process take orders on, and kill it a moment later."""
    with Killable(main, str(library), str(rig.folder), rig.options, rig.more, told) as process:
        assert process.hear(PATIENCE_S) == ["taken on"]
        time.sleep(after_s)  # not to wait for anything: at this moment it dies
        process.kill()


async def reached(rig: LibvirtRig, told: Told, name: str, phase: Phase) -> None:
    """Tell the same again, and wait until what it asks for is so."""
    async with both(rig) as (here, there):
        sites = {"a": here, "b": there}
        for where, one in told:
            await sites[where].do(one)
        await sites[name].until(phase)
        other = {"a": there, "b": here}[name]
        await other.until_gone()


async def gone(rig: LibvirtRig, name: str, incarnation: int) -> None:
    async with site(rig, name) as here:
        await here.do(order(Verb.STOP, 1, incarnation))
        await here.until_gone()


async def there_are(rig: LibvirtRig, hosts: Sequence[LibvirtHost], *expected: list[str]) -> None:
    """Wait until these domains are on each host, and no others."""
    for _ in range(rig.patience):
        if names_on(hosts) == list(expected):
            return
        await rig.pass_time()
    raise AssertionError(f"there are {names_on(hosts)}, and not {expected}")


def names_on(hosts: Sequence[LibvirtHost]) -> list[list[str]]:
    """What domains there are on each host, by libvirt's own word."""
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    found: list[list[str]] = []
    for host in hosts:
        connection = libvirt.open(host.uri)
        found.append(sorted(domain.name() for domain in connection.listAllDomains()))
        connection.close()
    return found


def leftovers(hosts: Sequence[LibvirtHost]) -> list[str]:
    """What files of machines are left: saved memory, layers, consoles."""
    places = [host.folder / place for host in hosts for place in ("var/lib/libvirt/qemu/save", "consoles")]
    return [name for place in places if place.exists() for name in files_in(place)]


def files_in(folder: Path) -> list[str]:
    """Name the files in a folder."""
    return sorted(file.name for file in folder.iterdir())
