"""Tell systemd how things are, where it wants to know: a datagram to the socket that it names."""

import os
import socket
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Tell a state such as `READY`, see sd_notify(3); where nobody wants to know, nothing happens."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # a name that is in no folder, see unix(7)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaking:
        try:
            speaking.connect(address)
            speaking.sendall(state.encode())
        except OSError:
            return
