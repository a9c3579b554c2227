"""What a live federation may answer instead of doing as it is asked; each one clear line."""

from collections.abc import Iterable, Mapping

from leasehold.model.errors import LeaseholdError, UnknownName
from leasehold.model.reason import Reason, sentence
from leasehold.protocol.problems import Kind

RETRY_LATER = {"Retry-After": "30"}
"""For what goes away when leases or streams of the caller end."""


class ServiceError(LeaseholdError):
    """The root: each knows which kind of problem it is over HTTP, with which headers and further members."""

    kind: Kind
    headers: Mapping[str, str] = {}

    @property
    def members(self) -> dict[str, object]:
        """What the problem says beside its one line."""
        return {}


class NoSuchLease(ServiceError):
    """There is no lease with this number, or none that this caller may know of."""

    kind = Kind.NO_SUCH_LEASE

    def __init__(self, lease_id: int) -> None:
        self.lease_id = lease_id
        super().__init__(f"no lease with ID {lease_id}")


class NoSuchSite(ServiceError):
    """There is no site with this name."""

    kind = Kind.NO_SUCH_SITE

    def __init__(self, site: str, known: Iterable[str]) -> None:
        self.site = site
        super().__init__(f"no site named {site!r}, {_offer(site, known)}")


class ConsoleElsewhere(ServiceError):
    """What the machines of a lease have written is at another gateway or site manager, and stays there."""

    kind = Kind.CONSOLE_ELSEWHERE

    def __init__(self, lease_id: int, site: str) -> None:
        self.lease_id = lease_id
        self.site = site
        super().__init__(
            f"lease {lease_id} is at {site}, which decides for itself:"
            f" its output is stored there; ask the operators of {site}"
        )


class IdempotencyConflict(ServiceError):
    """The same Idempotency-Key came with another request."""

    kind = Kind.IDEMPOTENCY_CONFLICT

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"Idempotency-Key: got {key!r} with another request than before, expected a new key")


class TooManyOpen(ServiceError):
    """The consumer has as many open requests as it may have."""

    kind = Kind.TOO_MANY_OPEN
    headers = RETRY_LATER

    def __init__(self, consumer: str, most: int) -> None:
        self.consumer = consumer
        self.most = most
        super().__init__(f"{consumer} has {most} open requests, which is as many as it may have at a time")


class Closed(ServiceError):
    """The lease has ended."""

    kind = Kind.LEASE_CLOSED

    def __init__(self, lease_id: int, state: str) -> None:
        self.lease_id = lease_id
        super().__init__(f"lease {lease_id} is {state} and cannot be changed")


class CannotExtend(ServiceError):
    """The lease cannot last longer now."""

    kind = Kind.CANNOT_EXTEND

    def __init__(self, lease_id: int, reason: Reason) -> None:
        self.lease_id = lease_id
        self.reason = reason
        super().__init__(f"lease {lease_id} cannot be extended: {reason} (the lease {sentence(reason)})")

    @property
    def members(self) -> dict[str, object]:
        """Why not."""
        return {"reason": self.reason}


class CannotCheckpoint(ServiceError):
    """The lease has no work now that its guest could have saved."""

    kind = Kind.CANNOT_CHECKPOINT

    def __init__(self, lease_id: int, state: str) -> None:
        self.lease_id = lease_id
        super().__init__(f"lease {lease_id} is {state}: a checkpoint is reported while it runs")


class NoSuchAgreement(ServiceError):
    """There is no agreement with this name, or none that this caller may know of."""

    kind = Kind.NO_SUCH_AGREEMENT

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no agreement named {name!r}")


class NoSuchCoAllocation(ServiceError):
    """There is no co-allocation with this number, or none that this caller may see."""

    kind = Kind.NO_SUCH_COALLOCATION

    def __init__(self, coallocation_id: int) -> None:
        self.coallocation_id = coallocation_id
        super().__init__(f"no co-allocation with ID {coallocation_id}")


class NoSuchJob(ServiceError):
    """There is no job with this number, or none that this caller may see."""

    kind = Kind.NO_SUCH_JOB

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"no job with ID {job_id}")


class NoSuchPenalty(ServiceError):
    """There is no penalty with this number, or none that this caller may know of."""

    kind = Kind.NO_SUCH_PENALTY

    def __init__(self, penalty_id: int) -> None:
        self.penalty_id = penalty_id
        super().__init__(f"no penalty with ID {penalty_id}")


class CannotForget(ServiceError):
    """The site is one that must not be forgotten now."""

    kind = Kind.CANNOT_FORGET

    def __init__(self, site: str, why: str) -> None:
        self.site = site
        super().__init__(f"{site} cannot be forgotten: {why}")


class NoSuchPeer(ServiceError):
    """There is no peer with this name."""

    kind = Kind.NO_SUCH_PEER

    def __init__(self, peer: str, known: Iterable[str]) -> None:
        self.peer = peer
        super().__init__(f"no peer named {peer!r}, {_offer(peer, known)}")


class CannotRemovePeer(ServiceError):
    """Leases are still under way between the two."""

    kind = Kind.CANNOT_REMOVE_PEER

    def __init__(self, peer: str, why: str) -> None:
        self.peer = peer
        super().__init__(f"{peer} cannot be removed: {why}")


class NoSuchToken(ServiceError):
    """There is no such token, or it was revoked before."""

    kind = Kind.NO_SUCH_TOKEN

    def __init__(self, token_id: str) -> None:
        super().__init__(f"token: got {token_id!r}, expected the id of a token that is not revoked")


class NoResult(ServiceError):
    """There is such a job, and nothing has come of it, or nothing ever will."""

    kind = Kind.NO_RESULT

    def __init__(self, job_id: int, state: str) -> None:
        super().__init__(f"job {job_id} is {state}, and has no result")


class TooManyStreams(ServiceError):
    """The consumer follows as many streams as it may."""

    kind = Kind.TOO_MANY_STREAMS
    headers = RETRY_LATER

    def __init__(self, consumer: str, most: int) -> None:
        super().__init__(f"{consumer} has {most} streams open, which is as many as it may have")


class Unavailable(LeaseholdError):
    """Nothing can be promised now: the store does not answer, or the service is stopping."""


def _offer(name: str, known: Iterable[str]) -> str:
    """List the known names, the nearest first."""
    expected = UnknownName("", name, known).expected
    return f"expected {expected}" if expected != "one of " else "there is none"
