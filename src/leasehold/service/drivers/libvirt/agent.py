"""How does a machine run a command? Its guest agent starts it, once, and finds what it ended with.

What is known of the command lies in the machine's own memory, under ``/run``: it is saved, moved and lost
with the machine, and whoever is told twice to start a command finds that it was.
"""

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import libvirt
import libvirt_qemu

from leasehold.service.drivers.bounds import exit_status_in

_WITHIN_S = 3
_MOST_BYTES = 64
"""Of the file with an exit status; it has four."""
_ONCE = """\
mkdir "$0" 2>/dev/null || exit 0
"$@" > /dev/console 2>&1 < /dev/null
echo $? > "$0/part" && mv "$0/part" "$0/status"
"""
"""A folder is made by one only, however many try; the status appears whole or not at all."""


class Nonsense(Exception):
    """A guest agent answered what no agent answers; whoever is root in that guest may have replaced it."""


def answers(domain: Any) -> bool:  # noqa: ANN401 - libvirt-python carries no types
    """Whether the agent is there."""
    try:
        _ask(domain, "guest-ping")
    except (libvirt.libvirtError, Nonsense):
        return False
    return True


def start(domain: Any, lease_id: int, command: Sequence[str]) -> None:  # noqa: ANN401 - as above
    """Start the command of a lease, if that was not done before."""
    _ask(domain, "guest-exec", path="/bin/sh", arg=["-c", _ONCE, _folder(lease_id), *command])


def exit_status(domain: Any, lease_id: int) -> int | None:  # noqa: ANN401 - as above
    """What the command has ended with; None where it has not, or nobody answers.

    Raises Nonsense where it has ended as no command can.
    """
    with suppress(libvirt.libvirtError):
        handle = _ask(domain, "guest-file-open", path=f"{_folder(lease_id)}/status", mode="r")
        read = _ask(domain, "guest-file-read", handle=handle, count=_MOST_BYTES)
        _ask(domain, "guest-file-close", handle=handle)
        status = exit_status_in(_text_of(read))
        if status is None:
            raise Nonsense("its guest agent told an exit status that no command can have")
        return status
    return None


def _text_of(read: object) -> str:
    try:
        encoded = read["buf-b64"]  # type: ignore[index]  # whatever it is
        return base64.b64decode(encoded[: 2 * _MOST_BYTES]).decode("ascii")
    except (KeyError, TypeError, ValueError) as error:
        raise Nonsense("its guest agent told of a file what cannot be read") from error


def _folder(lease_id: int) -> str:
    return f"/run/leasehold-{lease_id}"


def _ask(domain: Any, command: str, **arguments: object) -> Any:  # noqa: ANN401 - whatever the agent says
    asked = json.dumps({"execute": command, "arguments": arguments})
    answer = libvirt_qemu.qemuAgentCommand(domain, asked, _WITHIN_S, 0)
    try:
        return json.loads(answer)["return"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Nonsense(f"its guest agent answered {command} with something else than an answer") from error
