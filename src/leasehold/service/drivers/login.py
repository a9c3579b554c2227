"""How the user of a lease gets to a machine of QEMU: by a port of its host, through a network with that one use."""

from ipaddress import IPv4Address

from leasehold.configuration.declaration import Text
from leasehold.model.errors import InvalidField

LOCAL = "127.0.0.1"


def login_address_of(host: str) -> Text:
    """Declare the address of a host, described so, at which users log in."""
    return Text(
        f"IPv4 address of {host} at which users log in to their machines by a key",
        more=f", each at a free port; at `{LOCAL}` only users of that computer can",
        convert=_address,
    )


def _address(text: str) -> str:
    """Check what QEMU takes, which is no name: a machine would not come up, or nobody would get in."""
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise InvalidField("login_address", text, "an IPv4 address, such as 127.0.0.1") from None


def closed_network(name: str) -> str:
    """Describe a network to QEMU that leads to a guest where ports are forwarded to it, and out of it nowhere."""
    return f"user,id={name},restrict=on"
