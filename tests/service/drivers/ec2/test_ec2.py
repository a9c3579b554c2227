"""What only machines in a cloud have to keep: money, names, other people's hands, and secrets."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.service.drivers.ec2.cloud import REGION, Cloud, Ec2Rig
from tests.service.drivers.ec2.killed import LEASES, VMS, main
from tests.waiting import PATIENCE_S

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.drivers.ec2.options import read_options
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.reconciler.driver import ReconciledDriver
from leasehold.service.drivers.registry import driver
from leasehold.testing.driver_rig import order, site
from leasehold.testing.killable import Killable

pytestmark = pytest.mark.machines

ALIVE = ("pending", "running", "stopping", "stopped")
LEAST = {"region": REGION, "image": "ami-1", "instance_type": "t3.small"}


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def play(*case: Any, **fixtures: Any) -> None:
        asyncio.run(test(*case, **fixtures))

    return play


def calls(opened: Any, name: str, hook: Callable[..., Any]) -> None:
    """Let something happen whenever this driver calls EC2."""
    assert isinstance(opened, ReconciledDriver)
    provider: Any = opened._reconciler._provider
    provider._client.meta.events.register_first(name, hook)


class TestAsking:
    @played
    async def test_machines_carry_their_site_lease_and_incarnation(self, rig: Ec2Rig, cloud: Cloud) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, 7, 3, vms=2))
            await here.until(Phase.RUNNING, 7)
            described = cloud.client.describe_instances()["Reservations"][0]["Instances"]
            tags = [{tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in described]
            expected = {"leasehold:site": "a", "leasehold:lease": "7", "leasehold:incarnation": "3"}
            assert tags == [{"Name": "leasehold-7", **expected}] * 2
            assert all(one["HibernationOptions"]["Configured"] for one in described)

    @played
    async def test_who_asks_again_asks_with_the_same_token(self, rig: Ec2Rig) -> None:
        async with site(rig) as here:
            tokens: list[str] = []

            def lose_the_answer(params: dict[str, Any], **_: Any) -> None:
                tokens.append(params["body"]["ClientToken"])
                if len(tokens) == 1:
                    raise ConnectionError("the answer was lost")

            calls(here.driver, "before-call.ec2.RunInstances", lose_the_answer)
            await here.do(order(Verb.START))
            while len(tokens) < 2:
                await rig.pass_time()
            assert len(set(tokens)) == 1
            assert len(tokens[0]) <= 64, "EC2 takes no more"

    @played
    async def test_everything_is_seen_however_many_pages_it_takes(self, rig: Ec2Rig) -> None:
        rig.slots = 12
        async with site(rig) as here:
            pages: list[int] = []

            def few(params: dict[str, Any], **_: Any) -> None:
                params["MaxResults"] = 5

            calls(here.driver, "provide-client-params.ec2.DescribeInstances", few)
            calls(here.driver, "before-call.ec2.DescribeInstances", lambda **_: pages.append(1))
            await here.do(*(order(Verb.START, lease_id) for lease_id in range(1, 13)))
            for lease_id in range(1, 13):
                await here.until(Phase.RUNNING, lease_id)
            pages.clear()
            assert len(await here.driver.observe()) == 12
            assert len(pages) >= 3

    @played
    async def test_what_cannot_be_done_is_refused(self, rig: Ec2Rig) -> None:
        rig.options = {"hibernate": False, "commands": False}
        async with site(rig) as here:
            await here.refuses(order(Verb.START, command=("sleep", 1)))
            await here.do(order(Verb.START))
            await here.refuses(order(Verb.SUSPEND))
            await here.refuses(order(Verb.SEND, other_site="b"))

    @played
    async def test_a_command_that_is_too_long_for_a_cloud_fails_its_lease(self, rig: Ec2Rig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, command=("echo", "x" * 20_000)))
            assert "too long" in (await here.until(Phase.FAILED)).detail

    @played
    async def test_asking_for_what_is_not_there_fails_the_lease(self, rig: Ec2Rig) -> None:
        async with site(rig) as here:

            def no_such_image(**_: Any) -> None:
                answer = {"Error": {"Code": "InvalidAMIID.NotFound", "Message": "there is none"}}
                raise ClientError(answer, "RunInstances")

            calls(here.driver, "before-call.ec2.RunInstances", no_such_image)
            await here.do(order(Verb.START))
            failed = await here.until(Phase.FAILED)
            assert failed.detail == "EC2 says: InvalidAMIID.NotFound: there is none"


class TestEndings:
    @played
    async def test_a_command_that_fails_has_ended_and_says_how(self, rig: Ec2Rig, cloud: Cloud) -> None:
        cloud.exit_status = 3
        async with site(rig) as here:
            await here.do(order(Verb.START, command=("sleep", 1)))
            assert (await here.until(Phase.ENDED)).detail == "exit status 3"

    @pytest.mark.parametrize("reason", ["Client.UserInitiatedShutdown", "Server.SpotInstanceShutdown"])
    def test_machines_that_others_stop_have_failed(self, reason: str, rig: Ec2Rig, cloud: Cloud) -> None:
        async def stop_it() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                await here.until(Phase.RUNNING)
                cloud.shut_down(cloud.instances()[0], reason)
                failed = await here.until(Phase.FAILED)
                assert reason in failed.detail
                await here.do(order(Verb.STOP))
                await here.until_gone()
            assert cloud.instances(*ALIVE) == []

        asyncio.run(stop_it())

    @played
    async def test_a_machine_that_is_terminated_takes_its_lease_with_it(self, rig: Ec2Rig, cloud: Cloud) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=2))
            await here.until(Phase.RUNNING)
            cloud.client.terminate_instances(InstanceIds=[cloud.instances()[0].id])
            await here.until(Phase.FAILED)
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert cloud.instances(*ALIVE) == []


class TestStrays:
    """Machines cost money whether or not anybody knows of them."""

    @played
    async def test_who_lost_its_ledger_finds_its_machines_and_may_end_them(self, rig: Ec2Rig, cloud: Cloud) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, 7, 2, vms=2))
            await here.until(Phase.RUNNING, 7)
            await rig.kill(here.driver)
            (rig.folder / "a" / "instances.sqlite3").unlink()
            here.driver = rig.open()
            assert (await here.until(Phase.RUNNING, 7)).incarnation == 2
            await here.do(order(Verb.STOP, 7, 2))
            await here.until_gone(7)
            assert cloud.instances(*ALIVE) == []

    @played
    async def test_what_was_stopped_and_comes_to_light_later_is_ended(self, rig: Ec2Rig, cloud: Cloud) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.STOP, 7, 2))
            tags = {"leasehold:site": "a", "leasehold:lease": "7", "leasehold:incarnation": "2"}
            self._launch(cloud, tags)
            self._launch(cloud, tags | {"leasehold:site": "b"})
            self._launch(cloud, {"leasehold:site": "a", "leasehold:lease": "seven"})
            await here.until_gone(7)
            assert len(cloud.instances(*ALIVE)) == 2, "what is not ours is let alone"

    @staticmethod
    def _launch(cloud: Cloud, tags: dict[str, str]) -> None:
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        cloud.client.run_instances(
            ImageId="ami-1",
            MinCount=1,
            MaxCount=1,
            ClientToken=repr(tags),
            TagSpecifications=[{"ResourceType": "instance", "Tags": pairs}],
        )


class TestTrouble:
    @played
    async def test_who_asks_too_often_is_told_and_waits(self, rig: Ec2Rig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await here.until(Phase.RUNNING)
            is_busy = [True]

            def throttle(**_: Any) -> None:
                if is_busy:
                    raise ClientError({"Error": {"Code": "RequestLimitExceeded"}}, "any")

            calls(here.driver, "before-call.ec2", throttle)
            with pytest.raises(ConnectionError, match="limits the request rate"):
                await here.driver.observe()
            await here.has_no_room_for(order(Verb.START, 2))
            assert await here.tell(order(Verb.STOP)) == {}, "what makes room is taken on all the same"
            is_busy.clear()
            await here.until_gone()

    @played
    async def test_credentials_are_in_no_word_of_ours(self, rig: Ec2Rig, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        rig.options = {"endpoint_url": "http://127.0.0.1:1"}
        opened = rig.open()
        await opened.carry_out([order(Verb.START)])
        with pytest.raises(ConnectionError) as said:
            await opened.observe()
        await opened.close()
        written = "".join(path.read_bytes().decode("latin-1") for path in rig.folder.glob("a/*"))
        assert "pretended-secret" not in f"{said.value}{caplog.text}{written}"

    @pytest.mark.machines
    def test_killed_at_any_moment_it_has_what_it_asked_for_and_once(self, rig: Ec2Rig, cloud: Cloud) -> None:
        rig.slots = VMS * len(LEASES)
        for moment in (*LEASES, "all"):
            with Killable(main, str(rig.folder), cloud.url) as process:
                heard: list[Any] = []
                while moment not in heard:
                    heard += process.hear(PATIENCE_S)
                process.kill()
        asyncio.run(self._find(rig))
        assert len(cloud.instances("running")) == VMS * (len(LEASES) - 1)
        assert len(cloud.instances("stopped")) == VMS
        assert len(cloud.instances()) == VMS * len(LEASES), "none was ever made twice"

    @staticmethod
    async def _find(rig: Ec2Rig) -> None:
        async with site(rig) as here:
            await here.until(Phase.SAVED, LEASES[0])
            for lease_id in LEASES[1:]:
                await here.until(Phase.RUNNING, lease_id)


class TestOptions:
    @pytest.mark.parametrize(
        ("more", "field"),
        [
            ({"region": ""}, "region"),
            ({"imag": "ami-2"}, "imag"),
            ({"root_gib": 20}, "root_gib"),
            ({"security_groups": [1]}, "security_groups"),
            ({"poll_s": 0.01}, "poll_s"),
            ({"secret_access_key": "x"}, "secret_access_key"),
        ],
    )
    def test_what_makes_no_sense_is_said_in_one_line(self, more: dict[str, object], field: str) -> None:
        with pytest.raises(InvalidField, match=f"^{field}: "):
            read_options(LEAST | more)

    def test_a_password_in_an_address_is_not_repeated(self) -> None:
        with pytest.raises(InvalidField) as said:
            read_options(LEAST | {"endpoint_url": "https://me:hush@cloud.example.org"})
        assert "hush" not in str(said.value)

    def test_nothing_but_where_and_what_has_to_be_said(self) -> None:
        read = read_options(LEAST)
        assert (read.hibernate, read.commands, read.endpoint_url) == (False, True, None)

    def test_a_root_device_is_encrypted_for_hibernation(self, rig: Ec2Rig, cloud: Cloud) -> None:
        rig.options = {"root_device": "/dev/xvda", "root_gib": 20}

        async def start() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                await here.until(Phase.RUNNING)

        asyncio.run(start())
        volumes = cloud.client.describe_volumes()["Volumes"]
        assert [volume["Size"] for volume in volumes if volume["Encrypted"]] == [20]

    def test_a_profile_that_is_not_there_is_named(self, rig: Ec2Rig) -> None:
        rig.options = {"profile": "nobodys"}
        with pytest.raises(InvalidField, match="profile: got 'nobodys'"):
            rig.open()
        rig.options = {}
        asyncio.run(rig.open().close())

    def test_without_its_extra_it_says_which(self, rig: Ec2Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "leasehold.service.drivers.ec2.driver")
        monkeypatch.setitem(sys.modules, "boto3", None)
        with pytest.raises(InvalidField, match=r"pip install 'leasehold\[cloud\]'"):
            driver("ec2", rig.setup("a"))

    def test_a_typo_is_answered_with_the_nearest_key(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'hibernate'"):
            read_options(LEAST | {"hibernat": True})
