"""What libvirt may do to a site: be away, have machines of others, lose ours, or keep what we have lost."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.libvirt.rigs import PretendedRig

from leasehold.model.errors import InputError
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import order, site


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def play(*case: Any, **fixtures: Any) -> None:
        asyncio.run(test(*case, **fixtures))

    return play


@pytest.fixture
def connection(pretended: PretendedRig) -> Iterator[Any]:
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    connection = libvirt.open(str(pretended.options["uri"]))
    yield connection
    connection.close()


NAME = "leasehold-a-1-1-0"


@played
async def test_domains_of_others_are_let_alone(pretended: PretendedRig, connection: Any) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.START), order(Verb.STOP))
        await here.until_gone()
        assert [domain.name() for domain in connection.listAllDomains()] == ["test"]


@played
async def test_a_domain_that_somebody_ends_takes_its_lease_with_it(pretended: PretendedRig, connection: Any) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.START))
        await here.until(Phase.RUNNING)
        connection.lookupByName(NAME).destroy()
        assert "shut off by other means than an order" in (await here.until(Phase.FAILED)).detail
        await here.do(order(Verb.STOP))
        await here.until_gone()


@played
async def test_a_domain_that_is_removed_is_lost(pretended: PretendedRig, connection: Any) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.START, vms=2))
        await here.until(Phase.RUNNING)
        domain = connection.lookupByName(NAME)
        domain.destroy()
        domain.undefine()
        assert (await here.until(Phase.FAILED)).detail == "1 of 2 machines are lost"


@played
async def test_a_machine_that_shuts_itself_down_has_ended(pretended: PretendedRig, connection: Any) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.START))
        await here.until(Phase.RUNNING)
        connection.lookupByName(NAME).shutdown()
        await here.until(Phase.ENDED)


@played
async def test_it_is_told_on_which_host_each_machine_is(pretended: PretendedRig, connection: Any) -> None:
    host = connection.getHostname()
    async with site(pretended) as here:
        await here.do(order(Verb.START, vms=2))
        assert (await here.until(Phase.RUNNING)).nodes == (host, host)
        await pretended.kill(here.driver)
        here.driver = pretended.open()
        await here.do(order(Verb.SUSPEND))
        assert (await here.until(Phase.SAVED)).nodes == (host, host)


@played
async def test_what_somebody_else_has_saved_is_resumed(pretended: PretendedRig, connection: Any) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.START))
        await here.until(Phase.RUNNING)
        connection.lookupByName(NAME).managedSave(0)
        for _ in range(pretended.patience):
            if connection.lookupByName(NAME).isActive():
                break
            await pretended.pass_time()
        assert (await here.until(Phase.RUNNING)).incarnation == 1


@played
async def test_after_its_ledger_is_lost_a_site_finds_its_machines(pretended: PretendedRig) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.START, 7, 2), order(Verb.START, 8))
        await here.until(Phase.RUNNING, 7)
        await here.until(Phase.RUNNING, 8)
        await here.do(order(Verb.SUSPEND, 8))
        await here.until(Phase.SAVED, 8)
        await pretended.kill(here.driver)
        (pretended.folder / "a" / "instances.sqlite3").unlink()
        here.driver = pretended.open()
        assert (await here.until(Phase.RUNNING, 7)).incarnation == 2
        await here.until(Phase.SAVED, 8)
        await here.do(order(Verb.STOP, 7, 2), order(Verb.STOP, 8))
        await here.until_gone(7)
        await here.until_gone(8)


@played
async def test_what_was_to_be_gone_and_comes_to_light_later_is_ended(pretended: PretendedRig, connection: Any) -> None:
    async with site(pretended) as here:
        await here.do(order(Verb.STOP, 1, 3))
        connection.defineXML(
            f"<domain type='test'><name>{NAME}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
        ).create()
        await here.until_gone()
        assert [domain.name() for domain in connection.listAllDomains()] == ["test"]


@played
async def test_a_description_that_will_never_do_fails_the_lease(pretended: PretendedRig) -> None:
    pretended.options = {**pretended.options, "volume": "nothing.qcow2", "pool": "nowhere"}
    async with site(pretended) as here:
        await here.do(order(Verb.START))
        assert "libvirt says: " in (await here.until(Phase.FAILED)).detail


@played
async def test_machines_that_do_not_come_up_in_time_have_failed(pretended: PretendedRig, connection: Any) -> None:
    pretended.options = {**pretended.options, "boot_within_s": 5}
    connection.defineXML(
        f"<domain type='test'><name>{NAME}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
    ).create()
    connection.lookupByName(NAME).suspend()
    async with site(pretended) as here:
        await here.until(Phase.FAILED)
        assert (await here.seen()) is not None


@played
async def test_while_libvirt_is_away_orders_wait_on_file(pretended: PretendedRig, tmp_path: Path) -> None:
    able = pretended.options
    pretended.options = {"uri": f"qemu+unix:///system?socket={tmp_path}/nothing"}
    opened = pretended.open()
    assert await opened.carry_out([order(Verb.START)]) == {}
    with pytest.raises(ConnectionError, match="libvirt at qemu"):
        await opened.observe()
    await pretended.kill(opened)
    pretended.options = able
    async with site(pretended) as here:
        await here.until(Phase.RUNNING)


@played
async def test_one_process_has_a_site_at_a_time(pretended: PretendedRig) -> None:
    async with site(pretended):
        with pytest.raises(InputError, match="locked by another process"):
            pretended.open()
