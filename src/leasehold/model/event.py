"""What the world tells the gateway. Whoever owns the clock carries these in: simulator or service.

News of a lease carries the ``incarnation`` that it speaks of: news of an earlier start of the same
lease is out of date and is ignored.
"""

from dataclasses import dataclass

from leasehold.model.request import Request


@dataclass(slots=True)
class Submitted:
    """A request came: at the gateway, or at its home cluster when it is local."""

    request: Request


@dataclass(slots=True)
class LeaseEnded:
    """The lease's work is done, or (``killed``) its requested time is over."""

    lease_id: int
    incarnation: int
    killed: bool = False


@dataclass(slots=True)
class LeaseSaved:
    """The memory of a suspended lease is on disk."""

    lease_id: int
    incarnation: int


@dataclass(slots=True)
class LeaseContinues:
    """A resumed or migrated lease works again."""

    lease_id: int
    incarnation: int


@dataclass(slots=True)
class CancelRequested:
    """The user takes a lease back."""

    lease_id: int


@dataclass(slots=True)
class Tick:
    """Time has come: a reservation is due somewhere, or the gateway wanted to be woken."""

    site: str = ""


Event = Submitted | LeaseEnded | LeaseSaved | LeaseContinues | CancelRequested | Tick
