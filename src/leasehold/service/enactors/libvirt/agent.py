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

_WITHIN_S = 3
_ONCE = """\
mkdir "$0" 2>/dev/null || exit 0
"$@" > /dev/console 2>&1 < /dev/null
echo $? > "$0/part" && mv "$0/part" "$0/status"
"""
"""A folder is made by one only, however many try; the status appears whole or not at all."""


def answers(domain: Any) -> bool:  # noqa: ANN401 - libvirt-python carries no types
    """Whether the agent is there."""
    try:
        _ask(domain, "guest-ping")
    except libvirt.libvirtError:
        return False
    return True


def start(domain: Any, lease_id: int, command: Sequence[str]) -> None:  # noqa: ANN401 - as above
    """Start the command of a lease, if that was not done before."""
    _ask(domain, "guest-exec", path="/bin/sh", arg=["-c", _ONCE, _folder(lease_id), *command])


def exit_status(domain: Any, lease_id: int) -> int | None:  # noqa: ANN401 - as above
    """What the command has ended with; None where it has not, or nobody answers."""
    with suppress(libvirt.libvirtError):
        handle = _ask(domain, "guest-file-open", path=f"{_folder(lease_id)}/status", mode="r")
        read = _ask(domain, "guest-file-read", handle=handle)
        _ask(domain, "guest-file-close", handle=handle)
        return int(base64.b64decode(read["buf-b64"]))
    return None


def _folder(lease_id: int) -> str:
    return f"/run/leasehold-{lease_id}"


def _ask(domain: Any, command: str, **arguments: object) -> Any:  # noqa: ANN401 - whatever the agent says
    asked = json.dumps({"execute": command, "arguments": arguments})
    return json.loads(libvirt_qemu.qemuAgentCommand(domain, asked, _WITHIN_S, 0))["return"]
