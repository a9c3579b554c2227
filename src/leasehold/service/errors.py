"""What a live federation may answer instead of doing as it is asked; each one clear line."""

from collections.abc import Iterable

from leasehold.model.errors import LeaseholdError, UnknownName
from leasehold.model.reason import Reason, sentence


class NoSuchLease(LeaseholdError):
    """There is no lease with this number, or none that this caller may know of."""

    def __init__(self, lease_id: int) -> None:
        self.lease_id = lease_id
        super().__init__(f"no lease with ID {lease_id}")


class NoSuchSite(LeaseholdError):
    """There is no site with this name."""

    def __init__(self, site: str, known: Iterable[str]) -> None:
        self.site = site
        super().__init__(f"no site named {site!r}, {_offer(site, known)}")


class ConsoleElsewhere(LeaseholdError):
    """What the machines of a lease have written is at another gateway or site manager, and stays there."""

    def __init__(self, lease_id: int, site: str) -> None:
        self.lease_id = lease_id
        self.site = site
        super().__init__(
            f"lease {lease_id} is at {site}, which decides for itself:"
            f" what its machines have written is there; ask the operators of {site}"
        )


class IdempotencyConflict(LeaseholdError):
    """The same Idempotency-Key came with another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"Idempotency-Key: got {key!r} with another request than before, expected a new key")


class TooManyOpen(LeaseholdError):
    """The consumer has as many open requests as it may have."""

    def __init__(self, consumer: str, most: int) -> None:
        self.consumer = consumer
        self.most = most
        super().__init__(f"{consumer} has {most} open requests, which is as many as it may have at a time")


class Closed(LeaseholdError):
    """The lease is over."""

    def __init__(self, lease_id: int, state: str) -> None:
        self.lease_id = lease_id
        super().__init__(f"lease {lease_id} is {state}, and nothing can be changed about it")


class CannotExtend(LeaseholdError):
    """The lease cannot last longer now."""

    def __init__(self, lease_id: int, reason: Reason) -> None:
        self.lease_id = lease_id
        self.reason = reason
        super().__init__(f"lease {lease_id} cannot be extended: {reason} (the lease {sentence(reason)})")


class NoSuchAgreement(LeaseholdError):
    """There is no agreement with this name, or none that this caller may know of."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no agreement named {name!r}")


class NoSuchCoAllocation(LeaseholdError):
    """There is no co-allocation with this number, or none that this caller may see."""

    def __init__(self, coallocation_id: int) -> None:
        self.coallocation_id = coallocation_id
        super().__init__(f"no co-allocation with ID {coallocation_id}")


class NoSuchJob(LeaseholdError):
    """There is no job with this number, or none that this caller may see."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"no job with ID {job_id}")


class NoSuchPenalty(LeaseholdError):
    """There is no penalty with this number, or none that this caller may know of."""

    def __init__(self, penalty_id: int) -> None:
        self.penalty_id = penalty_id
        super().__init__(f"no penalty with ID {penalty_id}")


class CannotForget(LeaseholdError):
    """The site is one that must not be forgotten now."""

    def __init__(self, site: str, why: str) -> None:
        self.site = site
        super().__init__(f"{site} cannot be forgotten: {why}")


class NoSuchPeer(LeaseholdError):
    """There is no peer with this name."""

    def __init__(self, peer: str, known: Iterable[str]) -> None:
        self.peer = peer
        super().__init__(f"no peer named {peer!r}, {_offer(peer, known)}")


class CannotRemovePeer(LeaseholdError):
    """Leases are still under way between the two."""

    def __init__(self, peer: str, why: str) -> None:
        self.peer = peer
        super().__init__(f"{peer} cannot be removed: {why}")


class Unavailable(LeaseholdError):
    """Nothing can be promised now: the store does not answer, or the service is stopping."""


def _offer(name: str, known: Iterable[str]) -> str:
    """Name what there is, and what is nearest."""
    expected = UnknownName("", name, known).expected
    return f"expected {expected}" if expected != "one of " else "there is none"
