"""What only machines in an OpenNebula have to keep: one of each, reasons, other people's hands, and hostile answers."""

import asyncio
import logging
import shutil
import socket
import subprocess
import time
import xmlrpc.client
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from tests.service.drivers.opennebula.cloud import (
    BOOT,
    BOOT_FAILURE,
    DONE,
    HOLD,
    POWEROFF_ACTION,
    PROLOG,
    PROLOG_FAILURE,
    RUNNING,
    SESSION,
    STOPPED,
    SUSPENDED,
    UNKNOWN,
    LostAnswerError,
    Nebula,
    NebulaRig,
    State,
    Vm,
    http,
)
from tests.service.drivers.opennebula.killed import LEASES, VMS, main
from tests.waiting import PATIENCE_S

from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.service.drivers.opennebula import api, states
from leasehold.service.drivers.opennebula.driver import MARK, start_script
from leasehold.service.drivers.opennebula.options import read_options
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.reconciler.provider import MachineInstance, MachineState, TransientError
from leasehold.testing.driver_rig import order, site
from leasehold.testing.killable import Killable

pytestmark = pytest.mark.machines

LEAST = {"endpoint": "https://one.example.org:2633/RPC2", "template": 7}


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def play(*case: Any, **fixtures: Any) -> None:
        asyncio.run(test(*case, **fixtures))

    return play


def names(nebula: Nebula) -> list[str]:
    """What was called, without looking."""
    quiet = {"one.vmpool.infoextended", "one.template.info"}
    return [str(name if name != "one.vm.action" else what[0]) for name, *what in nebula.calls if name not in quiet]


def described(mark: str, identity: int, state: State = HOLD) -> Vm:
    """A machine that came from elsewhere, with a mark."""
    extra = ET.fromstring(f"<TEMPLATE><CONTEXT><{MARK}>{mark}</{MARK}></CONTEXT></TEMPLATE>")  # noqa: S314
    return Vm(identity, "leasehold", extra, state)


class TestAsking:
    @played
    async def test_machines_carry_site_lease_incarnation_and_number(self, rig: NebulaRig) -> None:
        rig.options = {"network": 3, "least_memory_mib": 256}
        async with site(rig) as here:
            await here.do(order(Verb.START, 7, 3, vms=2, command=("echo", "a b", "<&>")))
            await here.until(Phase.RUNNING, 7)
            vms = rig.nebula.alive()
            assert [vm.extra.findtext(f"CONTEXT/{MARK}") for vm in vms] == ["a 7 3 0", "a 7 3 1"]
            assert {vm.name for vm in vms} == {"leasehold-7"}
            assert [vm.extra.findtext("MEMORY") for vm in vms] == ["256", "256"]
            assert [vm.extra.findtext("NIC/NETWORK_ID") for vm in vms] == ["3", "3"]
            assert "( echo 'a b' '<&>' )" in vms[0].script
            assert "LEASEHOLD_LEASE=7 LEASEHOLD_MACHINE=1 LEASEHOLD_MACHINES=2" in vms[1].script

    @played
    async def test_the_context_of_the_template_is_kept(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await here.until(Phase.RUNNING)
            [vm] = rig.nebula.alive()
            context = {one.tag: one.text for one in vm.extra.findall("CONTEXT/*")}
            kept = {"NETWORK": "YES", "SSH_PUBLIC_KEY": "$USER[SSH_PUBLIC_KEY]"}
            assert context == {**kept, MARK: "a 1 1 0", "TOKEN": "YES"}

    @played
    async def test_none_runs_before_all_are_there(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=3))
            await here.until(Phase.RUNNING)
            assert names(rig.nebula) == ["one.template.instantiate"] * 3 + ["release"] * 3

    @pytest.mark.parametrize("which", [1, 2, 3])
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_where_an_answer_is_lost_none_is_made_twice(self, which: int, moment: str, rig: NebulaRig) -> None:
        rig.patience, rig.pause_s = 500, 0.02
        asked: list[str] = []

        def lose(name: str, *_arguments: Any) -> None:
            asked.extend([name] if name == "one.template.instantiate" else [])
            if len(asked) == which and name == "one.template.instantiate":
                raise LostAnswerError

        setattr(rig.nebula, moment, lose)

        async def start() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START, vms=3))
                await until(rig, lambda: len(rig.nebula.alive(RUNNING)) == 3)
                assert (await here.until(Phase.RUNNING)).detail == ""
                assert len(rig.nebula.vms) == 3

        asyncio.run(start())

    @played
    async def test_one_that_is_made_late_is_removed_and_never_runs(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=2))
            await here.until(Phase.RUNNING)
            rig.nebula.vms.append(described("a 1 1 1", 2))
            await until(rig, lambda: rig.nebula.vms[2].state == DONE)
            assert (await here.until(Phase.RUNNING)).detail == ""
            assert len(rig.nebula.alive(RUNNING)) == 2
            assert names(rig.nebula).count("release") == 2

    @played
    async def test_what_cannot_be_done_is_refused(self, rig: NebulaRig) -> None:
        rig.options = {"save": "none", "commands": False}
        async with site(rig) as here:
            await here.refuses(order(Verb.START, command=("sleep", 1)))
            await here.do(order(Verb.START))
            await here.refuses(order(Verb.SUSPEND))
            await here.refuses(order(Verb.SEND, other_site="b"))

    @played
    async def test_a_command_that_is_too_long_fails_its_lease(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, command=("echo", "x" * 40_000)))
            assert "too long" in (await here.until(Phase.FAILED)).detail

    @played
    async def test_a_template_that_is_not_there_fails_the_lease(self, rig: NebulaRig) -> None:
        rig.options = {"template": 8}
        async with site(rig) as here:
            await here.do(order(Verb.START))
            failed = await here.until(Phase.FAILED)
            assert failed.detail == "OpenNebula says: [one.template.info] Error getting template [8]."

    @played
    async def test_a_quota_is_waited_for_and_then_it_is_the_reason(self, rig: NebulaRig) -> None:
        rig.options = {"boot_within_s": 30}
        is_full = [True]

        def refuse(name: str, *_arguments: Any) -> Any:
            if name == "one.template.instantiate" and is_full:
                return [False, "[one.template.instantiate] user [2] limit of 4 reached for VMS quota", 0x0200, -1]
            return None

        rig.nebula.before = refuse
        async with site(rig) as here:
            await here.do(order(Verb.START, 1))
            assert "VMS quota" in (await here.until(Phase.FAILED, 1)).detail
            await here.do(order(Verb.STOP, 1), order(Verb.START, 2))
            is_full.clear()
            await here.until(Phase.RUNNING, 2)

    @played
    async def test_machines_that_are_not_found_again_are_not_made_for_ever(self, rig: NebulaRig) -> None:
        rig.nebula.mangle = lambda document: document.replace(MARK, "OTHER")
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=2))
            assert "not found again" in (await here.until(Phase.FAILED)).detail
            assert len(rig.nebula.vms) == 2
            assert rig.nebula.alive() == []


async def until(rig: NebulaRig, has_come: Callable[[], bool]) -> None:
    """Let time pass until something has come about."""
    for _ in range(rig.patience):
        if has_come():
            return
        await rig.pass_time()
    raise AssertionError(f"it never came about: {[(vm.id, vm.state) for vm in rig.nebula.vms]}")


class TestStates:
    def test_each_documented_state_is_known_once(self) -> None:
        never_used = {13, 14, 55, 58}  # 14 was used before 4.14
        assert set(states.LCM_STATES) - {14} == set(range(72)) - never_used
        assert set(states.STATES) == set(range(12)) - {3}
        failures = {number for number, (_, name) in states.LCM_STATES.items() if name.endswith("FAILURE")}
        assert all(states.LCM_STATES[number][0] is MachineState.FAILED for number in failures)
        assert len(failures) == 15

    def test_a_state_of_a_later_version_is_waited_for(self) -> None:
        assert states.meaning_of(3, 99) == (MachineState.PENDING, "state 3, LCM state 99")

    @pytest.mark.parametrize("state", [BOOT_FAILURE, PROLOG_FAILURE, (11, 0), (3, 48), (7, 0)])
    def test_a_failure_is_reported_with_its_reason_and_removed(self, state: State, rig: NebulaRig) -> None:
        async def fail() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                await until(rig, lambda: bool(rig.nebula.alive(PROLOG)))
                [vm] = rig.nebula.vms
                with rig.nebula.lock:
                    vm.user["ERROR"] = "DEPLOY: Could not create domain from deployment.0"
                    vm.follow(state)
                failed = await here.until(Phase.FAILED)
                name = states.meaning_of(*state)[1]
                assert failed.detail == f"OpenNebula says of machine 0: {name}, {vm.user['ERROR']}"
                if state in {BOOT_FAILURE, PROLOG_FAILURE}:
                    await here.do(order(Verb.STOP))
                    await here.until_gone()

        asyncio.run(fail())

    @played
    async def test_it_is_said_why_a_machine_has_no_host_yet(self, rig: NebulaRig) -> None:
        rig.nebula.room_vms = 1
        async with site(rig) as here:
            await here.do(order(Verb.START, 1), order(Verb.START, 2))
            await until(rig, lambda: any("SCHED_MESSAGE" in vm.user for vm in rig.nebula.vms))
            await until(rig, lambda: bool(rig.nebula.alive(RUNNING)))
            holder = int(rig.nebula.alive(RUNNING)[0].name.removeprefix("leasehold-"))
            waiting = await here.until(Phase.STARTING, 3 - holder)
            assert "no host with enough capacity" in waiting.detail
            await here.do(order(Verb.SUSPEND, holder))
            await here.until(Phase.RUNNING, 3 - holder)
            assert len(rig.nebula.alive(STOPPED)) == 1

    @played
    async def test_a_command_that_fails_has_ended_and_says_how(self, rig: NebulaRig) -> None:
        rig.nebula.exit_status = "3"
        async with site(rig) as here:
            await here.do(order(Verb.START, command=("sleep", 1)))
            assert (await here.until(Phase.ENDED)).detail == "exit status 3"

    @played
    async def test_without_onegate_an_exit_status_is_not_known(self, rig: NebulaRig) -> None:
        rig.options = {"onegate": False}
        async with site(rig) as here:
            await here.do(order(Verb.START, command=("sleep", 1)))
            ended = await here.until(Phase.ENDED)
            assert (ended.exit_status, "not known" in ended.detail) == (None, True)

    @played
    async def test_a_machine_that_others_power_off_has_failed(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await here.until(Phase.RUNNING)
            rig.nebula.shut_down(rig.nebula.vms[0], POWEROFF_ACTION)
            assert "other means than an order" in (await here.until(Phase.FAILED)).detail
            await here.do(order(Verb.STOP))
            await here.until_gone()

    @pytest.mark.parametrize("state", [PROLOG, BOOT, (3, 15), (3, 20)])
    def test_one_that_is_started_from_the_beginning_has_lost_its_work(self, state: State, rig: NebulaRig) -> None:
        async def recreate() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                await here.until(Phase.RUNNING)
                rig.nebula.vms[0].follow(state, state, state, RUNNING)
                await here.until(Phase.FAILED)

        asyncio.run(recreate())

    @played
    async def test_one_of_which_nothing_is_known_fails_after_a_while(self, rig: NebulaRig) -> None:
        rig.options = {"unknown_within_s": 1}
        async with site(rig) as here:
            await here.do(order(Verb.START))
            running = await here.until(Phase.RUNNING)
            rig.nebula.vms[0].follow(UNKNOWN)
            await here.stays(running)
            rig.nebula.vms[0].follow(RUNNING)
            await rig.pass_time()
            rig.nebula.vms[0].follow(UNKNOWN)
            await here.stays(running)
            rig.patience, rig.pause_s = 500, 0.02
            assert "UNKNOWN for" in (await here.until(Phase.FAILED)).detail

    @pytest.mark.parametrize("state", [STOPPED, SUSPENDED])
    def test_one_that_others_suspend_is_resumed(self, state: State, rig: NebulaRig) -> None:
        async def suspend() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                await here.until(Phase.RUNNING)
                rig.nebula.vms[0].follow(state)
                await here.until(Phase.RESUMING)
                await here.until(Phase.RUNNING)

        asyncio.run(suspend())

    @played
    async def test_one_that_is_stopped_while_it_boots_goes_when_it_can(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await until(rig, lambda: bool(rig.nebula.alive(PROLOG)))
            rig.nebula.vms[0].to_come.extendleft([BOOT] * 5)
            await here.do(order(Verb.STOP))
            await here.until_gone()
            assert names(rig.nebula).count("terminate-hard") >= 1

    @played
    async def test_what_is_suspended_on_hold_never_boots_before_it_is_resumed(self, rig: NebulaRig) -> None:
        may_release: list[bool] = []

        def refuse(_name: str, *arguments: Any) -> Any:
            return [False, "wrong state", 0x0800, 0] if "release" in arguments and not may_release else None

        rig.nebula.before = refuse
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await until(rig, lambda: bool(rig.nebula.alive(HOLD)))
            await here.do(order(Verb.SUSPEND))
            await here.until(Phase.SAVED)
            may_release.append(True)
            assert len(rig.nebula.alive(HOLD)) == 1
            await here.do(order(Verb.RESUME, incarnation=2))
            await here.until(Phase.RUNNING)

    @played
    async def test_it_is_said_where_machines_are(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=2))
            assert (await here.until(Phase.RUNNING)).nodes == ("node1", "node1")


class TestStrays:
    @played
    async def test_where_the_record_is_lost_machines_are_found_and_may_be_ended(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, 7, 2, vms=2))
            await here.until(Phase.RUNNING, 7)
            await rig.kill(here.driver)
            (rig.folder / "a" / "instances.sqlite3").unlink()
            here.driver = rig.open()
            assert (await here.until(Phase.RUNNING, 7)).incarnation == 2
            await here.do(order(Verb.STOP, 7, 2))
            await here.until_gone(7)
            assert rig.nebula.alive() == []

    @played
    async def test_what_was_stopped_and_comes_to_light_later_is_ended(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.STOP, 7, 2))
            marks = ("a 7 2 0", "b 7 2 0", "a seven 2 0", "a 7 2", "")
            rig.nebula.vms += [described(mark, number, RUNNING) for number, mark in enumerate(marks)]
            await until(rig, lambda: rig.nebula.vms[0].state == DONE)
            await here.until_gone(7)
            assert [vm.id for vm in rig.nebula.alive(RUNNING)] == [1, 2, 3, 4], "what is not ours is left alone"

    @pytest.mark.machines
    def test_killed_at_any_moment_it_has_what_it_asked_for_and_once(self, rig: NebulaRig) -> None:
        rig.slots = VMS * len(LEASES)
        with passing(rig.nebula):
            for moment in (*LEASES, "all"):
                with Killable(main, str(rig.folder), rig.url) as process:
                    heard: list[Any] = []
                    while moment not in heard:
                        heard += process.hear(PATIENCE_S)
                    process.kill()
        asyncio.run(self._find(rig))
        assert len(rig.nebula.alive(RUNNING)) == VMS * (len(LEASES) - 1)
        assert len(rig.nebula.alive(STOPPED)) == VMS
        assert len(rig.nebula.vms) - len(self._never_ran(rig)) == VMS * len(LEASES), "none ran twice"

    @pytest.mark.parametrize("of_body", [None, 0, 1, 40])
    def test_the_server_of_these_tests_is_content_with_half_a_request(
        self, rig: NebulaRig, of_body: int | None
    ) -> None:
        body = xmlrpc.client.dumps((SESSION, -2), "one.vmpool.infoextended").encode()
        head = f"POST /RPC2 HTTP/1.1\r\nHost: nebula\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        half = head[:-30] if of_body is None else head + body[:of_body]
        address = urlsplit(rig.url)
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as client:
            client.sendall(half)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1000) == b""
        assert rig.nebula.defects == []

    @staticmethod
    async def _find(rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.until(Phase.SAVED, LEASES[0])
            for lease_id in LEASES[1:]:
                await here.until(Phase.RUNNING, lease_id)

    @staticmethod
    def _never_ran(rig: NebulaRig) -> list[Vm]:
        return [vm for vm in rig.nebula.vms if vm.state == DONE and vm.worked_ms == 0]


@contextmanager
def passing(nebula: Nebula) -> Iterator[None]:
    """Let time pass by itself."""
    is_over = Event()

    def pass_time() -> None:
        while not is_over.wait(0.02):
            nebula.pass_time(500)

    thread = Thread(target=pass_time)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


LAUGHS = '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def answered(*values: Any) -> bytes:
    """Write the response to a call."""
    return http(xmlrpc.client.dumps((list(values),), methodresponse=True).encode())


def document(text: object) -> bytes:
    """Write the response to a call that has succeeded."""
    return answered(*(True, text, 0))


HOSTILE: dict[str, bytes] = {
    "entities": http(f"{LAUGHS}<methodResponse><params/></methodResponse>".encode()),
    "entities after a comment": http(f"<!-- -->{LAUGHS}<methodResponse/>".encode()),
    "entities in UTF-16": http(f"{LAUGHS}<methodResponse/>".encode("utf-16")),
    "entities in the document": document(f"{LAUGHS}<VM_POOL>&b;</VM_POOL>"),
    "an external entity": document('<!DOCTYPE a SYSTEM "file:///etc/passwd"><VM_POOL/>'),
    "no XML": http(b"\x00\xff" * 100),
    "no document": document("VM_POOL"),
    "an open document": document("<VM_POOL><VM>"),
    "a number for a document": document(5),
    "no API": answered("yes", "<VM_POOL/>", 0),
    "too few values": answered("VM_POOL"),
    "no values": http(b"<methodResponse><params></params></methodResponse>"),
    "a long number": http(b"<methodResponse><params><param><value><int>" + b"9" * 9999 + b"</int></value></param>"),
    "deep lists": http(b"<methodResponse><params><param>" + b"<value><array><data>" * 50_000),
    "many tags": document(f"<VM_POOL>{'<a/>' * 1_000_001}</VM_POOL>"),
    "more bytes than are read": http(b"<a>" + b" " * (api.MOST_BYTES + 1)),
    "less bytes than announced": http(b"<methodResponse>")[:-4],
    "gzip": http(b"\x1f\x8b\x08\x00" * 5, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip"),
    "another status": http(b"", "HTTP/1.1 503 Service Unavailable"),
    "another address": http(b"", "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/"),
    "no HTTP": b"220 mail.example.org ESMTP\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000,
    "nothing": b"",
}


class TestTrouble:
    @pytest.mark.parametrize("what", HOSTILE)
    def test_answers_that_make_no_sense_are_refused(self, what: str, rig: NebulaRig) -> None:
        rig.nebula.raw = HOSTILE[what]
        with pytest.raises(TransientError, match=r"^OpenNebula"):
            api.OpenNebula(rig.url, rig.auth_file, PATIENCE_S).document("one.vmpool.infoextended")

    @pytest.mark.parametrize("what", ["entities in the document", "another status"])
    def test_answers_that_make_no_sense_hold_up_their_site_alone_and_for_a_while(
        self, what: str, rig: NebulaRig
    ) -> None:
        rig.patience, rig.pause_s = 500, 0.02

        async def play() -> None:
            async with site(rig) as here:
                await here.do(order(Verb.START))
                running = await here.until(Phase.RUNNING)
                rig.nebula.raw = HOSTILE[what]
                with pytest.raises(ConnectionError, match=r"^OpenNebula"):
                    await here.driver.observe()
                await here.has_no_room_for(order(Verb.START, 2))
                rig.nebula.raw = None
                await here.stays(running)
                assert await here.tell(order(Verb.STOP)) == {}, "what makes room is taken on all the same"
                await here.until_gone()

        asyncio.run(play())

    @played
    async def test_an_answer_that_does_not_come_is_not_waited_for(self, rig: NebulaRig) -> None:
        rig.options = {"answer_within_s": 0.2}
        async with site(rig) as here:
            begun_s = time.monotonic()
            with rig.nebula.lock, pytest.raises(ConnectionError, match="does not answer: timed out"):
                await here.driver.observe()
            assert time.monotonic() - begun_s < PATIENCE_S

    @played
    async def test_characters_that_xml_does_not_have_blind_nobody(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=1))
            running = await here.until(Phase.RUNNING)
            rig.nebula.vms[0].user["ERROR"] = "\x01\x1b[2J]]><STATE>8</STATE>"
            rig.nebula.vms[0].user["HELLO"] = "<!DOCTYPE html>"
            await here.stays(running)

    @played
    async def test_credentials_that_are_not_accepted_are_in_no_word_of_ours(
        self, rig: NebulaRig, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        async with site(rig) as here:
            rig.auth_file.write_text("gateway:wrong-secret")
            await here.tell(order(Verb.START))
            with pytest.raises(ConnectionError, match="does not accept the credentials in") as said:
                await here.driver.observe()
        written = "".join(path.read_bytes().decode("latin-1") for path in rig.folder.glob("a/*"))
        assert "-secret" not in f"{said.value}{caplog.text}{written}"

    @played
    async def test_credentials_may_be_replaced_while_it_runs(self, rig: NebulaRig) -> None:
        async with site(rig) as here:
            session = rig.auth_file.read_text()
            rig.auth_file.unlink()
            with pytest.raises(ConnectionError, match="one_auth: cannot be read"):
                await here.driver.observe()
            rig.auth_file.touch(0o600)
            rig.auth_file.write_text(session)
            assert await here.driver.observe() == []

    @pytest.mark.parametrize(
        ("session", "mode", "why"),
        [
            ("gateway:secret", 0o640, "can be read by others"),
            ("gateway", 0o600, "does not hold user:password"),
            ("gateway:a\nb", 0o600, "does not hold user:password"),
            ("", 0o600, "does not hold user:password"),
        ],
    )
    def test_credentials_that_cannot_be_used_are_refused_at_the_start(
        self, session: str, mode: int, why: str, rig: NebulaRig
    ) -> None:
        rig.auth_file.write_text(session)
        rig.auth_file.chmod(mode)
        with pytest.raises(InputError, match=why):
            rig.open()
        rig.auth_file.chmod(0o600)
        rig.auth_file.write_text("gateway:secret")
        asyncio.run(rig.open().close())


class TestStartScript:
    """The script, on this machine: with its folders elsewhere, and only noting that it would power off."""

    @pytest.fixture
    def boot(self, tmp_path: Path) -> Callable[[str, bool], list[str]]:
        for name in ("run", "var", "bin"):
            (tmp_path / name).mkdir()
        for name in ("onegate", "poweroff"):
            tool = tmp_path / "bin" / name
            tool.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/noted\n')
            tool.chmod(0o700)

        def run(script: str, is_new: bool = True) -> list[str]:  # noqa: FBT001, FBT002 - a boot, or the same again
            if is_new:
                shutil.rmtree(tmp_path / "run")
                (tmp_path / "run").mkdir()
            (tmp_path / "noted").write_text("")
            elsewhere = script.replace("/run/", f"{tmp_path}/run/").replace("/var/lib/", f"{tmp_path}/var/")
            there = elsewhere.replace("/dev/console", str(tmp_path / "console"))
            path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
            subprocess.run(["sh", "-c", there], env=path, check=True, capture_output=True)
            return (tmp_path / "noted").read_text().splitlines()

        return run

    REPORTED = "onegate vm update --data LEASEHOLD_EXIT_STATUS={}"

    @staticmethod
    def _script(*command: str) -> str:
        starting = order(Verb.START, 7, 3, vms=2, command=command)
        return start_script(MachineInstance.ordered(starting, Phase.STARTING, 0), 1, onegate=True)

    def test_a_command_runs_once_however_often_its_machine_boots(self, boot: Any, tmp_path: Path) -> None:
        script = self._script("sh", "-c", 'echo "$LEASEHOLD_LEASE $LEASEHOLD_MACHINE"; exit 3')
        for _ in range(2):
            assert boot(script) == [self.REPORTED.format(3), "poweroff"]
            assert (tmp_path / "console").read_text() == "7 1\n"
            (tmp_path / "console").write_text("7 1\n")

    def test_contextualization_that_comes_again_disturbs_nothing(self, boot: Any) -> None:
        script = self._script("true")
        assert boot(script) == [self.REPORTED.format(0), "poweroff"]
        assert boot(script, is_new=False) == []

    def test_a_command_that_a_reboot_has_cut_off_was_killed(self, boot: Any, tmp_path: Path) -> None:
        (tmp_path / "var" / "leasehold-7-3").mkdir()
        assert boot(self._script("touch", str(tmp_path / "ran"))) == [self.REPORTED.format(137), "poweroff"]
        assert not (tmp_path / "ran").exists()


class TestOptions:
    @pytest.mark.parametrize(
        ("more", "field"),
        [
            ({"endpoint": "one.example.org:2633"}, "endpoint"),
            ({"endpoint": "ftp://one.example.org"}, "endpoint"),
            ({"endpoint": "http://one.example.org:port/RPC2"}, "endpoint"),
            ({"endpoint": "http://[::1/RPC2"}, "endpoint"),
            ({"template": -1}, "template"),
            ({"template": "ubuntu"}, "template"),
            ({"name": "two words"}, "name"),
            ({"name": "$USER"}, "name"),
            ({"save": "poweroff"}, "save"),
            ({"poll_s": 0.01}, "poll_s"),
            ({"password": "x"}, "password"),
        ],
    )
    def test_what_makes_no_sense_is_said_in_one_line(self, more: dict[str, object], field: str) -> None:
        with pytest.raises(InvalidField, match=f"^{field}: "):
            read_options(LEAST | more)

    def test_a_password_in_an_address_is_not_repeated(self) -> None:
        with pytest.raises(InvalidField) as said:
            read_options(LEAST | {"endpoint": "https://me:hush@one.example.org"})
        assert "hush" not in str(said.value)

    def test_nothing_but_where_and_what_has_to_be_said(self) -> None:
        read = read_options(LEAST)
        assert (read.save, read.commands, read.onegate, read.auth_file) == ("stop", True, False, None)

    def test_a_typo_is_answered_with_the_nearest_key(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'template'"):
            read_options(LEAST | {"tempalte": 1})
