"""An OpenNebula that only pretends: its XML-RPC over HTTP on this machine, by its documentation and its source.

Machines pass through the documented states, one with each step of time; hosts have room for some; guests follow their
start script by a clock of our own. An action in a wrong state is refused as `src/dm/DispatchManagerActions.cc` does it.
"""

import asyncio
import base64
import re
import sys
import xmlrpc.client
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import RLock, Thread
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from tests.service.drivers.sites import REFERENCE_MIPS, Clock

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.protocol import Driver, DriverSetup
from leasehold.service.drivers.registry import driver

SESSION = "gateway:pretended-secret"
TEMPLATE = 7
TEMPLATE_CONTEXT = "<CONTEXT><NETWORK>YES</NETWORK><SSH_PUBLIC_KEY>$USER[SSH_PUBLIC_KEY]</SSH_PUBLIC_KEY></CONTEXT>"

State = tuple[int, int]
PENDING, HOLD, STOPPED, SUSPENDED, DONE, POWEROFF = (1, 0), (2, 0), (4, 0), (5, 0), (6, 0), (8, 0)
PROLOG, BOOT, RUNNING, SAVE_STOP, SAVE_SUSPEND, PROLOG_RESUME = (3, 1), (3, 2), (3, 3), (3, 5), (3, 6), (3, 9)
EPILOG_STOP, EPILOG, SHUTDOWN, UNKNOWN, BOOT_SUSPENDED, BOOT_STOPPED = (
    (3, 10),
    (3, 11),
    (3, 12),
    (3, 16),
    (3, 21),
    (3, 22),
)
CLEANUP_DELETE, BOOT_FAILURE, PROLOG_FAILURE = (3, 23), (3, 36), (3, 39)
FAILURES = {BOOT_FAILURE, PROLOG_FAILURE, (3, 40), (3, 48)}
WITHOUT_ROOM = {(1, 0), HOLD, STOPPED, DONE, (9, 0)}
"""The states in which a machine has no room on a host; SUSPENDED and POWEROFF keep it."""
POWEROFF_ACTION, MONITOR_ACTION = 19, 44
AUTHENTICATION, NO_EXISTS, WRONG_STATE = 0x0100, 0x0400, 0x0800
_NAP = re.compile(r"^  \( sleep ([\d.]+) \)", re.MULTILINE)


@dataclass
class Vm:
    """One machine: its state, and those that follow by themselves."""

    id: int
    name: str
    extra: ET.Element
    state: State
    to_come: deque[State] = field(default_factory=deque)
    user: dict[str, str] = field(default_factory=dict)
    worked_ms: int = 0
    action: int = 0
    has_memory: bool = False

    @property
    def script(self) -> str:
        encoded = self.extra.findtext("CONTEXT/START_SCRIPT_BASE64")
        return base64.b64decode(encoded).decode() if encoded else ""

    def follow(self, *states: State) -> None:
        """Enter the first of these states, and the others in the steps after."""
        self.state, self.to_come = states[0], deque(states[1:])


class Nebula:
    """The calls that the driver makes, and what is behind them."""

    def __init__(self) -> None:
        self.vms: list[Vm] = []
        self.room_vms = 1000
        self.exit_status = "0"
        self.calls: list[tuple[Any, ...]] = []
        self.before: Callable[..., Any] = lambda _name, *_arguments: None
        self.after: Callable[..., Any] = lambda _name, *_arguments: None
        self.raw: bytes | None = None
        self.mangle: Callable[[str], str] = lambda document: document
        self.defects: list[BaseException | None] = []
        self.lock = RLock()

    def alive(self, *states: State) -> list[Vm]:
        """List the machines that are not done, in these states; in all where none is named."""
        with self.lock:
            return [vm for vm in self.vms if vm.state != DONE and (not states or vm.state in states)]

    # calls

    def dispatch(self, name: str, parameters: tuple[Any, ...]) -> Any:
        """Answer a call; `before` may answer in its place, and `after` see to it that the answer is lost."""
        session, *arguments = parameters
        with self.lock:
            self.calls.append((name, *arguments))
            said = self.before(name, *arguments)
            if said is None:
                said = self._answer(session, name, arguments)
            self.after(name, *arguments)
            return said

    def _answer(self, session: str, name: str, arguments: list[Any]) -> list[Any]:
        if session != SESSION:
            return [False, f"[{name}] User couldn't be authenticated, aborting call.", AUTHENTICATION, -1]
        answers: dict[str, Callable[..., list[Any]]] = {
            "one.template.info": self._template,
            "one.template.instantiate": self._instantiate,
            "one.vm.action": self._action,
            "one.vmpool.infoextended": self._pool,
        }
        return answers[name](*arguments)

    def _template(self, template: int) -> list[Any]:
        if template != TEMPLATE:
            return [False, f"[one.template.info] Error getting template [{template}].", NO_EXISTS, template]
        body = f"<VMTEMPLATE><ID>{template}</ID><TEMPLATE><CPU>1</CPU>{TEMPLATE_CONTEXT}</TEMPLATE></VMTEMPLATE>"
        return [True, body, 0, -1]

    def _instantiate(self, template: int, name: str, *more: Any) -> list[Any]:
        on_hold, extra, is_persistent = more
        assert (template, on_hold, is_persistent) == (TEMPLATE, True, False)
        self.vms.append(Vm(len(self.vms), name, ET.fromstring(extra), HOLD))  # noqa: S314 - the driver's own
        return [True, self.vms[-1].id, 0, -1]

    def _action(self, action: str, identity: int) -> list[Any]:
        if identity >= len(self.vms):
            return [False, f"[one.vm.action] Error getting virtual machine [{identity}].", NO_EXISTS, identity]
        vm = self.vms[identity]
        follows = self._following(action, vm)
        if follows is None:
            why = f'[one.vm.action] Error performing action "{action}": This action is not available for state'
            return [False, f"{why} {vm.state}", WRONG_STATE, identity]
        vm.follow(*follows)
        return [True, identity, 0, -1]

    def _following(self, action: str, vm: Vm) -> tuple[State, ...] | None:
        """Say which states an action leads through; None where it is not available."""
        if action == "terminate-hard":
            if vm.state in {PENDING, HOLD, DONE}:
                return (DONE,)
            if vm.state in {RUNNING, UNKNOWN, SHUTDOWN}:
                return SHUTDOWN, EPILOG, DONE
            if vm.state in FAILURES:
                return CLEANUP_DELETE, DONE
            return (EPILOG, DONE) if vm.state in {STOPPED, SUSPENDED, POWEROFF} else None
        ways: dict[tuple[str, State], tuple[State, ...]] = {
            ("release", HOLD): (PENDING,),
            ("suspend", RUNNING): (SAVE_SUSPEND, SUSPENDED),
            ("stop", RUNNING): (SAVE_STOP, EPILOG_STOP, STOPPED),
            ("stop", SUSPENDED): (EPILOG_STOP, STOPPED),
            ("resume", STOPPED): (PENDING,),
            ("resume", SUSPENDED): (BOOT_SUSPENDED, RUNNING),
        }
        vm.has_memory |= (action, vm.state) == ("resume", STOPPED)
        return ways.get((action, vm.state))

    def _pool(self, whose: int, first: int, last: int, state: int) -> list[Any]:
        assert (whose, first, last, state) == (-3, -1, -1, -1)
        body = "".join(map(_described, self.alive()))
        return [True, self.mangle(f"<VM_POOL>{body}</VM_POOL>"), 0, -1]

    # what happens by itself

    def pass_time(self, ms: int) -> None:
        """Let each machine take one step: to its next state, onto a host, or on with its work."""
        with self.lock:
            for vm in self.vms:
                if vm.to_come:
                    vm.state = vm.to_come.popleft()
                elif vm.state == PENDING:
                    self._place(vm)
                elif vm.state == RUNNING:
                    self._work(vm, ms)

    def _place(self, vm: Vm) -> None:
        if sum(one.state not in WITHOUT_ROOM for one in self.vms) >= self.room_vms:
            vm.user["SCHED_MESSAGE"] = "Cannot dispatch VM: no host with enough capacity"
        elif vm.has_memory:
            vm.follow(PROLOG_RESUME, BOOT_STOPPED, RUNNING)
        else:
            vm.follow(PROLOG, BOOT, RUNNING)

    def _work(self, vm: Vm, ms: int) -> None:
        vm.worked_ms += ms
        nap = _NAP.search(vm.script)
        if nap and vm.worked_ms >= float(nap[1]) * 1000:
            self.shut_down(vm)

    def shut_down(self, vm: Vm, action: int = MONITOR_ACTION) -> None:
        """Let a guest report through OneGate how its command ended, and power itself off."""
        if action == MONITOR_ACTION and "onegate" in vm.script:
            vm.user["LEASEHOLD_EXIT_STATUS"] = self.exit_status
        vm.follow(POWEROFF)
        vm.action = action


def _described(vm: Vm) -> str:
    state, lcm_state = vm.state
    user = "".join(f"<{name}>{cdata(text)}</{name}>" for name, text in vm.user.items())
    own = "".join(ET.tostring(part, "unicode") for part in vm.extra)
    history = f"<HISTORY><SEQ>0</SEQ><HOSTNAME>node1</HOSTNAME><HID>2</HID><ACTION>{vm.action}</ACTION></HISTORY>"
    return (
        f"<VM><ID>{vm.id}</ID><UID>2</UID><NAME>{escape(vm.name)}</NAME><STATE>{state}</STATE>"
        f"<LCM_STATE>{lcm_state}</LCM_STATE><TEMPLATE><CPU>1</CPU>{own}</TEMPLATE>"
        f"<USER_TEMPLATE>{user}</USER_TEMPLATE><HISTORY_RECORDS>{history}</HISTORY_RECORDS></VM>"
    )


def cdata(text: str) -> str:
    """Write a text as oned does: without what follows a NUL, and with whatever control characters are in it."""
    return f"<![CDATA[{text.partition(chr(0))[0].replace(']]>', ']]]]><![CDATA[>')}]]>"


class LostAnswerError(Exception):
    """Raised by `Nebula.after`: the call was carried out, and its connection ends without an answer."""


class _Handler(SimpleXMLRPCRequestHandler):
    """Answers calls, or ends a connection where an answer is to be lost."""

    server: "_Server"

    def do_POST(self) -> None:  # noqa: N802 - the name that is called
        length = int(self.headers.get("Content-Length", -1))
        body = self.rfile.read(max(0, length))
        if len(body) != length:
            return  # whoever asked was killed while it did
        nebula = self.server.nebula
        if nebula.raw is not None:
            self.wfile.write(nebula.raw)
            return
        parameters, name = xmlrpc.client.loads(body)
        try:
            said = nebula.dispatch(str(name), parameters)
        except LostAnswerError:
            return
        answer = xmlrpc.client.dumps((said,), methodresponse=True).encode()
        self.wfile.write(http(answer))


def http(body: bytes, head: str = "HTTP/1.1 200 OK") -> bytes:
    """Write a response of HTTP."""
    return f"{head}\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Server(ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True

    def __init__(self, nebula: Nebula) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, logRequests=False)
        self.nebula = nebula

    def handle_error(self, *_request: Any) -> None:
        """Keep what is wrong here, but for a client that has gone."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.nebula.defects.append(error)


@contextmanager
def nebula_server() -> Iterator[tuple[Nebula, str]]:
    """Serve an OpenNebula without machines; give it, and its address."""
    nebula = Nebula()
    server = _Server(nebula)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield nebula, f"http://127.0.0.1:{server.server_address[1]}/RPC2"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        assert nebula.defects == []


@dataclass
class NebulaRig:
    """How the conformance suite gets at sites in an OpenNebula: half a second at a time.

    ``pause_s`` is waited with each: what failed is left alone for half a second and more, by the clock of the world.
    """

    folder: Path
    nebula: Nebula
    url: str
    options: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    slots: int = 4
    nap_s: int = 20
    reference_mips: int = REFERENCE_MIPS
    patience: int = 400
    step_ms: int = 500
    pause_s: float = 0.003

    def __post_init__(self) -> None:
        self._open: list[Driver] = []
        self.auth_file.write_text(f"{SESSION}\n", "utf-8")
        self.auth_file.chmod(0o600)

    @property
    def auth_file(self) -> Path:
        """The file with the credentials."""
        return self.folder / "one_auth"

    def setup(self, site: str) -> DriverSetup:
        """What a site is made from."""
        options: dict[str, object] = {
            "endpoint": self.url,
            "template": TEMPLATE,
            "auth_file": str(self.auth_file),
            "onegate": True,
            "poll_s": 0.1,
            "answer_within_s": 5,
        }
        return DriverSetup(
            site,
            self.slots,
            REFERENCE_MIPS,
            REFERENCE_MIPS,
            OverheadModel(),
            self.folder / site,
            self.clock,
            {**options, **self.options},
        )

    def open(self, site: str = "a") -> Driver:
        """Open a site."""
        opened = driver("opennebula", self.setup(site))
        self._open.append(opened)
        return opened

    async def kill(self, driver: Driver) -> None:
        """Closing tells OpenNebula nothing, as a crash would not; a real one is in its own test."""
        self._open = [one for one in self._open if one is not driver]
        await driver.close()

    def lie(self, lease_id: int, report: str) -> None:
        """Let the guests of a lease report this through OneGate, and power themselves off."""
        with self.nebula.lock:
            self.nebula.exit_status = report
            for vm in self.nebula.alive(RUNNING):
                if f" {lease_id} " in (vm.extra.findtext("CONTEXT/LEASEHOLD_VM") or ""):
                    self.nebula.shut_down(vm)

    async def pass_time(self) -> None:
        self.clock.now_ms += self.step_ms
        self.nebula.pass_time(self.step_ms)
        await asyncio.sleep(self.pause_s)
        for one in self._open:
            await one.observe()
