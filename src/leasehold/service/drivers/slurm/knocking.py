"""Is anybody at home on a node that does not answer? A connection that is refused was refused by somebody."""

import socket
import time

from leasehold.service.drivers.slurm.node import Node

_EACH_S = 0.3
_ALL_S = 2.0


class Knocking:
    """Knocks at nodes for one look; when too many of them keep silent, no more time is spent on it."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + _ALL_S

    def refuses(self, node: Node) -> bool:
        """Whether the node is there, and takes no connections for its slurmd."""
        if not node.is_silent or not node.port or time.monotonic() > self._until_s:
            return False
        try:
            socket.create_connection((node.address, node.port), _EACH_S).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False
