"""What a user asks for (JPDC 2012, section 2.1): some VMs, for some time, under one of four types."""

import math
from dataclasses import dataclass, replace
from enum import IntEnum

from leasehold.model.errors import InvalidField

DEFAULT_MEMORY_MIB = 1024
MOST_DURATION_MS = 10 * 365 * 86_400_000
"""A lease lasts at most ten years, its extensions included: no gateway or site understands a longer one."""
MOST_RESTARTS = 100
"""A lease that loses its machines more often will never be done."""
GPU_MILLI = 1_000
"""A whole GPU, in thousandths."""
MOST_GPU_MILLI = 64 * GPU_MILLI
"""The most that one machine can have."""

IMAGE_NAME = "[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}"
"""What the name of an image looks like, as a regular expression."""

NEVER_MS = 1 << 62
"""A time that does not come."""


class LeaseType(IntEnum):
    """The four lease types in their order of value (JPDC 2012, section 4.2), least valuable first.

    Local requests are Non-preemptable.
    """

    CANCELABLE = 0
    SUSPENDABLE = 1
    MIGRATABLE = 2
    NON_PREEMPTABLE = 3

    @property
    def label(self) -> str:
        """The name as users write it: ``non-preemptable``."""
        return _LABELS[self]

    @property
    def is_best_effort(self) -> bool:
        """Cancelable and Suspendable wait for room; the others start at their ready time or are refused."""
        return self <= LeaseType.SUSPENDABLE


_LABELS = tuple(kind.name.lower().replace("_", "-") for kind in LeaseType)
LEASE_TYPES: dict[str, LeaseType] = {kind.label: kind for kind in LeaseType}


@dataclass(slots=True)
class Request:
    """One request: contiguous, served within one cluster. Never changed after it was made.

    Times are milliseconds since the start of the log, run or service.
    ``duration_ms`` is the requested time on a machine of the reference speed.
    ``site`` is the home cluster of a local request, None for an external one.
    ``from_peer`` is the peer gateway that sent it here, "" for a request of one's own users.
    ``global_id`` identifies what another gateway sent here over all gateways: the ID of the first one, and its number
    there. ``via`` are the IDs of the gateways that it has passed, the first one first, as the Via fields of SIP (RFC
    3261), and ``hop_limit`` is how many more gateways it may pass, as that of IPv6. "", () and 0 where it began here.
    ``group`` is the VO, or the group within it (``atlas/production``), on whose account ``consumer`` asks.
    ``domain`` is the virtual domain or site that it is bound to, "" for any.
    ``claims`` are units of further resources that it holds while it runs: ``("licence:matlab", 2)``.
    ``wait`` says that it is queued where it would otherwise be refused although time would cure that; best
    effort waits in any case.
    ``max_restarts`` is how often it begins again, at most, after its machines were lost: None for as often as its
    gateway lets guests, and a local request not at all.
    ``prepared_until_ms`` says until when another gateway may commit what this component of its co-allocation is
    promised here: the promise ends then, and is never later than its start; None once it is committed, and for others.
    ``goes_back`` says that the gateway that sent it here takes it back, to move it, when it cannot continue here.
    ``is_foreign`` says that its consumer has no token of this gateway: another token issuer or a peer
    vouches for it.
    ``login`` says that its user wants to log in to its machines: only sites will do that let users in by a key.
    ``image`` names what its machines boot from, or its command runs in: sites state which ones they have. "" for the
    default of the site.
    ``cores``, ``memory_mib``, ``gpu_milli`` (thousandths of a GPU) and ``gpu_model`` ("" for any) are what each of its
    machines needs on its node (`leasehold.model.resources`); a site that is planned by slots has nothing of that but
    one machine in each.
    ``on_nodes`` are the nodes that its machines are on, one on each, at the site that it is bound to, where that is
    planned by nodes: the job scheduler has chosen them. () leaves it to the plan.
    """

    id: int
    lease_type: LeaseType
    vms: int
    duration_ms: int
    submit_ms: int
    ready_ms: int
    deadline_ms: int | None = None
    site: str | None = None
    consumer: str = ""
    memory_mib: int = DEFAULT_MEMORY_MIB
    from_peer: str = ""
    group: str = ""
    domain: str = ""
    claims: tuple[tuple[str, int], ...] = ()
    wait: bool = False
    is_foreign: bool = False
    max_restarts: int | None = None
    goes_back: bool = False
    cores: int = 1
    gpu_model: str = ""
    gpu_milli: int = 0
    image: str = ""
    login: bool = False
    prepared_until_ms: int | None = None
    global_id: str = ""
    via: tuple[str, ...] = ()
    hop_limit: int = 0
    on_nodes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """On whose account it is, from the VO down to the user: ``atlas/production/simulation-team``."""
        return f"{self.group}/{self.consumer}" if self.group else self.consumer

    @property
    def slots(self) -> int:
        """How many slots it takes: one for each core of its machines."""
        return self.vms * self.cores

    @property
    def is_local(self) -> bool:
        """Whether the request was made at its own cluster, not at the gateway."""
        return self.site is not None


def with_promise_until(request: Request, until_ms: int | None) -> Request:
    """Make the request of a component whose promise is to be committed by then; None: it is."""
    return replace(request, prepared_until_ms=until_ms)


def check_request(request: Request) -> Request:
    """Return the request if every field of it makes sense.

    Raises InvalidField naming the first field that does not.
    """
    if not _is_plain(request):
        _check_each_field(request)
    return request


def _is_plain(request: Request) -> bool:
    """Recognise at a glance what nearly all requests are like: simulations check millions of them."""
    return (
        type(request.vms) is int
        and type(request.duration_ms) is int
        and type(request.submit_ms) is int
        and type(request.ready_ms) is int
        and request.vms > 0
        and request.duration_ms > 0
        and 0 <= request.submit_ms <= request.ready_ms
        and request.deadline_ms is None
        and request.max_restarts is None
        and (request.site is None or request.lease_type is LeaseType.NON_PREEMPTABLE)
        and request.memory_mib == DEFAULT_MEMORY_MIB
        and request.cores == 1
        and request.gpu_milli == 0
        and not request.gpu_model
        and not request.on_nodes
    )


def _check_each_field(request: Request) -> None:
    _check_whole("vms", request.vms, 1)
    _check_whole("duration_ms", request.duration_ms, 1)
    _check_whole("submit_ms", request.submit_ms, 0)
    _check_whole("ready_ms", request.ready_ms, request.submit_ms, "the submit time or later")
    _check_whole("memory_mib", request.memory_mib, 1)
    _check_whole("cores", request.cores, 1)
    _check_whole("gpu_milli", request.gpu_milli, 0)
    if request.gpu_milli > MOST_GPU_MILLI or (request.gpu_milli > GPU_MILLI and request.gpu_milli % GPU_MILLI):
        expected = f"a fraction of one GPU, or a number of whole ones up to {MOST_GPU_MILLI // GPU_MILLI}"
        raise InvalidField("gpu_milli", request.gpu_milli, expected)
    if request.gpu_model and not request.gpu_milli:
        raise InvalidField("gpu_milli", request.gpu_milli, f"more than 0, of the model {request.gpu_model}")
    check_on_nodes(request)
    if request.is_local and request.lease_type is not LeaseType.NON_PREEMPTABLE:
        raise InvalidField("type", request.lease_type.label, "non-preemptable for a local request")
    if request.max_restarts is not None:
        _check_whole("max_restarts", request.max_restarts, 0)
        if request.max_restarts > MOST_RESTARTS:
            raise InvalidField("max_restarts", request.max_restarts, f"a whole number from 0 to {MOST_RESTARTS}")
    if request.deadline_ms is not None:
        _check_deadline(request, request.deadline_ms)


def check_on_nodes(request: Request) -> None:
    """Refuse nodes on which its machines cannot be; raises InvalidField."""
    named = request.on_nodes
    if named and not (request.domain and len({*named}) == len(named) == request.vms):
        expected = f"{request.vms} different nodes of the site that it is bound to, one for each VM"
        raise InvalidField("on_nodes", ", ".join(named), expected)


def _check_deadline(request: Request, deadline_ms: int) -> None:
    if request.lease_type.is_best_effort:
        raise InvalidField("deadline_ms", deadline_ms, f"none: a {request.lease_type.label} lease promises no deadline")
    soonest = request.ready_ms + 1
    _check_whole("deadline_ms", deadline_ms, soonest, "a time after the ready time")


def _check_whole(field: str, value: object, least: int, expected: str = "") -> None:
    """Accept whole numbers from ``least`` on; NaN, infinity, fractions and booleans are refused."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        raise InvalidField(field, value, f"a whole number, as in {int(value)}")
    if not whole or not isinstance(value, int) or value < least:
        raise InvalidField(field, value, expected or f"a whole number of at least {least}")
