"""What a process takes from outside besides its store and the time: chance, names, and the way to others.

A real process uses `REAL`; a run that is to be repeated to the last bit gets seeded ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from uuid import uuid4

import httpx2


def new_id() -> str:
    """Make a unique name."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What differs from run to run.

    ``random``     makes the random numbers of a routing policy
    ``new_id``     makes a unique name
    ``forecasts``  whether estimates are made, by a process of its own and in its own time
    ``transport``  makes what carries calls to other gateways; None: sockets
    """

    random: Callable[[], Random] = Random
    new_id: Callable[[], str] = new_id
    transport: Callable[[], httpx2.AsyncBaseTransport | None] = lambda: None
    forecasts: bool = True


REAL = Surroundings()
"""Those of a real process."""
