"""What is a domain doing, and the command in it?

A command is started by the guest agent, once, and the agent finds what it ended with. What is known of the command lies
in the machine's own memory, under ``/run``: it is saved, moved and lost with the machine, and a command that is to be
started twice is started once.
"""

import base64
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import libvirt
import libvirt_qemu

from leasehold.service.drivers.bounds import exit_status_in, one_line
from leasehold.service.drivers.guest_agent import GuestAgent, Refused
from leasehold.service.drivers.guest_files import WORK, bring_inputs
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.provider import (
    MachineFailed,
    MachineInstance,
    MachineState,
    Seen,
    Unfinished,
)
from leasehold.service.drivers.staging import TransferRate

# --- the guest agent --------------------------------------------------------------------------------------------------

ANSWERS_WITHIN_S = 3
WORKS_WITHIN_S = 20
"""What writes a file into a guest that is busy may take longer than what is asked at each look."""
_MOST_BYTES = 64
"""Of the file with an exit status; it has four."""
WROTE, WROTE_TO_ERROR = f"{WORK}/.leasehold.out", f"{WORK}/.leasehold.err"
"""What a command writes to its output, and to its standard error: on the disk, if its machine has one."""
_ONCE = f"""\
mkdir "$0" 2>/dev/null || exit 0
{{ mkdir -p {WORK} && cd {WORK} && "$@" > {WROTE} 2> {WROTE_TO_ERROR}; }} < /dev/null
echo $? > "$0/part" && mv "$0/part" "$0/status"
"""
"""A folder is made by one only, however many try; the status appears whole or not at all."""


_LONGEST_ERROR = 300
_SAYS_NO = "unable to execute QEMU agent command"


@contextmanager
def refusals() -> Iterator[None]:
    """Raise Refused for an error that is an answer of the guest agent; where it did not answer, it may later."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_INTERNAL_ERROR and _SAYS_NO in str(error):
            why = one_line(str(error).partition(_SAYS_NO)[2], _LONGEST_ERROR)
            raise Refused(f"its guest agent refused {why}") from error
        raise


class Nonsense(MachineFailed):
    """A guest agent answered what no agent answers; root of that guest may have replaced it."""


def _answers(domain: Any) -> bool:  # noqa: ANN401 - libvirt-python carries no types
    """Whether the agent is there."""
    try:
        _ask(domain, "guest-ping")
    except (libvirt.libvirtError, MachineFailed):
        return False
    return True


def start_command(domain: Any, lease_id: int, command: Sequence[str]) -> None:  # noqa: ANN401 - as above
    """Start the command of a lease, if that was not done before."""
    _ask(domain, "guest-exec", path="/bin/sh", arg=["-c", _ONCE, _folder(lease_id), *command])


def _exit_status(domain: Any, lease_id: int) -> int | None:  # noqa: ANN401 - as above
    """What the command has ended with; None where it has not, or the agent does not answer.

    Raises Nonsense where it has ended as no command can.
    """
    with suppress(libvirt.libvirtError, Refused):
        handle = _ask(domain, "guest-file-open", path=f"{_folder(lease_id)}/status", mode="r")
        read = _ask(domain, "guest-file-read", handle=handle, count=_MOST_BYTES)
        _ask(domain, "guest-file-close", handle=handle)
        status = exit_status_in(_text_of(read))
        if status is None:
            raise Nonsense("its guest agent reported an exit status that no command can have")
        return status
    return None


def _text_of(read: object) -> str:
    try:
        encoded = read["buf-b64"]  # type: ignore[index]  # whatever it is
        return base64.b64decode(encoded[: 2 * _MOST_BYTES]).decode("ascii")
    except (KeyError, TypeError, ValueError) as error:
        raise Nonsense("its guest agent returned a file that cannot be decoded") from error


def _folder(lease_id: int) -> str:
    return f"/run/leasehold-{lease_id}"


def _ask(domain: Any, command: str, *, within_s: int = ANSWERS_WITHIN_S, **arguments: object) -> Any:  # noqa: ANN401 - whatever the agent says
    message = json.dumps({"execute": command, "arguments": arguments})
    with refusals():
        answer = libvirt_qemu.qemuAgentCommand(domain, message, within_s, 0)
    try:
        return json.loads(answer)["return"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Nonsense(f"its guest agent answered {command} with something else than an answer") from error


# --- files ------------------------------------------------------------------------------------------------------------


class TimeSlice:
    """How long a step may carry files, from the first piece on: orders wait for it."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._until_s: float | None = None

    def go_on(self) -> None:
        """Raise Unfinished when it is over."""
        now_s = time.monotonic()
        if self._until_s is None:
            self._until_s = now_s + self._length_s
        elif now_s > self._until_s:
            raise Unfinished


_CARRIES = frozenset({"guest-file-read", "guest-file-write"})


class LibvirtAgent(GuestAgent):
    """One conversation with the agent of a domain; each command blocks until libvirt has its answer."""

    written_at_once = 32 * 1024
    """With 256 KiB in one command the agent of an interpreted guest did not answer within its deadline."""
    read_at_once = 64 * 1024

    def __init__(
        self,
        domain: Any,  # noqa: ANN401 - libvirt-python carries no types
        time_slice: TimeSlice,
        within_s: int = WORKS_WITHIN_S,
    ) -> None:
        self._domain = domain
        self._time_slice = time_slice
        self._within_s = within_s

    async def answer(self, command: str, **arguments: object) -> object:
        """Have the agent execute a command; raises what libvirt says where it does not answer."""
        if command in _CARRIES:
            self._time_slice.go_on()
        return _ask(self._domain, command, within_s=self._within_s, **arguments)


async def bring_before_command(
    agent: GuestAgent, instance: MachineInstance, folder: Path, rate: TransferRate, brought: set[str]
) -> None:
    """Write the inputs of a command that has not begun; one that has, as before a move, may have changed them."""
    has_begun = (await agent.run("test", ["-d", _folder(instance.lease_id)])).get("exitcode") == 0
    if not has_begun:
        await bring_inputs(agent, instance.files.inputs, folder, rate, brought)


# --- the state of a domain --------------------------------------------------------------------------------------------

_SHUT_OFF = {
    libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN: "for a reason that is not known",
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: "by other means than an order",
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: "by a crash",
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: "because it could not start",
    libvirt.VIR_DOMAIN_SHUTOFF_SAVED: "and its saved memory is gone",
    libvirt.VIR_DOMAIN_SHUTOFF_DAEMON: "with libvirt",
}
_MAY_BE_MEANT = frozenset({libvirt.VIR_DOMAIN_PAUSED_USER, libvirt.VIR_DOMAIN_PAUSED_MIGRATION})


def look_at(  # noqa: PLR0911 - a list of cases
    domain: Any,  # noqa: ANN401 - libvirt-python carries no types
    instance: MachineInstance | None,
    *,
    has_agent: bool,
    is_asked: bool = True,
) -> Seen | None:
    """Say what a domain is doing; None where it has still to be started.

    ``is_asked``: whether its agent is asked now; else it is taken to be as it was.
    """
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_RUNNING:
        if not has_agent or instance is None or not _has_to_be_set_up(instance):
            return Seen(MachineState.UP)
        if not is_asked:
            return Seen(MachineState.UP if instance.command_started else MachineState.PENDING)
        return _running(domain, instance)
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        return _shut_off(domain, reason, instance)
    if state == libvirt.VIR_DOMAIN_CRASHED:
        return Seen(MachineState.FAILED, "it has crashed")
    if state == libvirt.VIR_DOMAIN_PAUSED and _was_left(domain, reason, instance):
        return Seen(MachineState.SAVED)
    if state == libvirt.VIR_DOMAIN_PAUSED and _is_arriving(domain, instance):
        return Seen(MachineState.ARRIVING)
    return Seen(MachineState.PENDING)


def _has_to_be_set_up(instance: MachineInstance) -> bool:
    """Whether the agent has something to do in its machines before they are up."""
    return bool(instance.command or instance.ssh_key)


def _is_arriving(domain: Any, instance: MachineInstance | None) -> bool:  # noqa: ANN401 - as above
    """Whether it is received now. If that breaks off, it is gone here and sent again."""
    return instance is not None and bool(instance.from_site) and not instance.came_up and is_on_its_way(domain)


def _running(domain: Any, instance: MachineInstance) -> Seen:  # noqa: ANN401 - as above
    if not instance.command_started:
        return Seen(MachineState.READY if _answers(domain) else MachineState.PENDING)
    if not instance.command:
        return Seen(MachineState.UP)
    try:
        status = _exit_status(domain, instance.lease_id)
    except Nonsense as nonsense:
        return Seen(MachineState.FAILED, str(nonsense))
    if status is None:
        return Seen(MachineState.UP)
    return Seen(MachineState.ENDED, exit_status=status)


def _shut_off(domain: Any, reason: int, instance: MachineInstance | None) -> Seen | None:  # noqa: ANN401 - as above
    if domain.hasManagedSaveImage():
        return Seen(MachineState.SAVED)
    if instance is not None and _is_to_start(instance, reason):
        return None
    if reason == libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN:
        return _shut_itself_down(instance)
    return Seen(MachineState.FAILED, f"it was shut off {_SHUT_OFF.get(reason, 'elsewhere')}")


def _is_to_start(instance: MachineInstance, reason: int) -> bool:
    """Whether it is described, and may be started without running anything twice.

    A machine that has arrived is described here for that reason. It may arrive again only if it could not resume.
    """
    if instance.desired is Desired.GONE or instance.came_up or instance.command_started:
        return False
    if instance.from_site:
        return bool(reason == libvirt.VIR_DOMAIN_SHUTOFF_FAILED)
    return instance.desired is not Desired.AWAY


def _shut_itself_down(instance: MachineInstance | None) -> Seen:
    """It has ended where it is just a machine; where it has a command, that should have been seen to end first."""
    if instance is not None and instance.command:
        return Seen(MachineState.FAILED, "it has shut itself down while its command ran")
    return Seen(MachineState.ENDED, "it has shut itself down")


def is_on_its_way(domain: Any) -> bool:  # noqa: ANN401 - as above
    """Whether it is being saved, sent or received now.

    libvirt's test host has no such jobs; a host that receives a machine says of its job only that the
    host that sends it knows more.
    """
    try:
        return bool(domain.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError as error:
        code = error.get_error_code()
        if code not in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_UNSUPPORTED}:
            raise
        return bool(code == libvirt.VIR_ERR_OPERATION_UNSUPPORTED)


def _was_left(domain: Any, reason: int, instance: MachineInstance | None) -> bool:  # noqa: ANN401 - as above
    """Whether it was paused to be saved or sent by a process that was killed before that, and is to be up."""
    if instance is None or instance.desired is not Desired.UP or is_on_its_way(domain):
        return False
    # While a machine comes it is stopped for the move; it has come stopped where it was sent so.
    has_come = reason == libvirt.VIR_DOMAIN_PAUSED_USER
    return bool(has_come if instance.phase is Phase.RECEIVING else reason not in _MAY_BE_MEANT)
