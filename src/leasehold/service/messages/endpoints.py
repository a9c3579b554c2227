"""The names of the two ends of an exchange.

A site calls its gateway ``gateway``. A peer gateway is two endpoints, one for each direction: under its plain name
it is asked, as a site would be, and as ``peer/NAME`` it asks.
"""

GATEWAY = "gateway"
"""How a site calls its gateway."""

OF_PEERS = "peer"
"""The first part of the path of every peer that asks us, and of its consumers and groups, and of no other."""

_ASKING = f"{OF_PEERS}/"


def asking(name: str) -> str:
    """Name a peer as the one that asks us."""
    return f"{_ASKING}{name}"


def gateways_passed(consumer: str) -> tuple[str, ...]:
    """Name the gateways that passed on requests of a consumer, the first one first; each adds itself in front."""
    found: list[str] = []
    parts = consumer.split("/")
    while len(parts) > 2 and parts[0] == OF_PEERS:  # noqa: PLR2004 - peer, its name, and whom it calls so
        found.insert(0, parts[1])
        parts = parts[2:]
    return tuple(found)


def asking_peer(endpoint: str) -> str:
    """Give the plain name of a peer that asks us, "" for any other endpoint."""
    return endpoint.removeprefix(_ASKING) if endpoint.startswith(_ASKING) else ""
