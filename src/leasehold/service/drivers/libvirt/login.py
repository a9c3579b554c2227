"""How the user of a lease gets into a domain: a key that its guest agent accepts, and a port of the host that leads in.

The port belongs to the process of QEMU: a domain that was restored or has moved has none, and gets another.
"""

import re
from typing import Any

import libvirt
import libvirt_qemu

from leasehold.service.drivers.libvirt.domain import LOGIN_NETWORK
from leasehold.service.drivers.libvirt.guest import refusals

_SSH_PORT = 22
_FORWARDED = re.compile(rf"^\s*TCP\[HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+{_SSH_PORT}\s", re.MULTILINE)


def let_in(domain: Any, user: str, ssh_key: str) -> None:  # noqa: ANN401 - libvirt-python carries no types
    """Have the guest agent accept this public key for a user of the guest, in place of all others; raises Refused."""
    with refusals():
        domain.authorizedSSHKeysSet(user, [ssh_key], 0)


def port_into(domain: Any, address: str) -> int | None:  # noqa: ANN401 - as above
    """Find the port of the host, at this address, that leads to a machine's server of SSH, or have one opened.

    None where the machine is not running, or has no way in.
    """
    if domain.state()[0] != libvirt.VIR_DOMAIN_RUNNING:
        return None
    port = _open_port(domain)
    if port is None:
        _tell_qemu(domain, f"hostfwd_add {LOGIN_NETWORK} tcp:{address}:0-:{_SSH_PORT}")  # 0: a port that is free
        port = _open_port(domain)
    return port


def _open_port(domain: Any) -> int | None:  # noqa: ANN401 - as above
    found = _FORWARDED.search(_tell_qemu(domain, "info usernet"))
    return None if found is None else int(found[1])


def _tell_qemu(domain: Any, command: str) -> str:  # noqa: ANN401 - as above
    return str(libvirt_qemu.qemuMonitorCommand(domain, command, libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP))
