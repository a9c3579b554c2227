"""One machine as it is seen, and what a kind of machines has to be able to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.kept.holding import Holding, Key
from leasehold.service.drivers.protocol import Capabilities


class State(StrEnum):
    """What one machine is doing."""

    COMING = "coming"
    """On its way to being up, or stopped for a moment."""
    BARE = "bare"
    """Up, and waiting for its command to be started."""
    UP = "up"
    LEAVING = "leaving"
    """On its way to being saved, or to being gone."""
    SAVED = "saved"
    ENDED = "ended"
    FAILED = "failed"


class Work(StrEnum):
    """One thing to be done to all machines of a lease; doing it again where it is done does nothing."""

    CREATE = "create"
    RESUME = "resume"
    RUN = "run"
    """Start their command."""
    SAVE = "save"
    AWAIT = "await"
    """See whether they may still come from another site."""
    SEND = "send"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine.

    ``handle``      what its world calls it
    ``takes_room``  whether it takes the place of another on the same hardware
    ``node``        what the site calls the computer that it is on; empty where that is not known
    """

    key: Key
    handle: str
    state: State
    detail: str = ""
    takes_room: bool = True
    node: str = ""


class Hopeless(LeaseholdError):
    """Something cannot be done, however often it is tried; the lease has failed."""


class HeldUp(LeaseholdError):
    """The whole site has to be left alone for a while, because its machines' master says so."""


class World(Protocol):
    """One kind of machines, asked from several threads at once.

    What goes wrong is raised: `Hopeless`, `HeldUp`, or anything else, which is tried again later.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What these machines can do."""
        ...

    def look(self, holdings: Sequence[Holding]) -> list[Machine]:
        """See every machine of this site, known or not; ``holdings`` are those that should be there."""
        ...

    def do(self, work: Work, holding: Holding, machines: Sequence[Machine]) -> None:
        """Do it; ``machines`` are those of the holding that were seen last."""
        ...

    def console(self, holding: Holding) -> str:
        """Give what its machines have written."""
        ...

    def close(self) -> None:
        """Let go of them."""
        ...
