"""From a body to a command: what was left out is filled in, and the core's own check is made."""

from hashlib import sha256

from leasehold.model.errors import InvalidField
from leasehold.model.request import LEASE_TYPES, LeaseType, Request, check_request
from leasehold.service.api.models.leases import LeaseRequest
from leasehold.service.auth.permissions import require_submission
from leasehold.service.auth.principal import Principal
from leasehold.service.commands import Submit
from leasehold.service.store.rows import LeaseMetadata


def submission(body: LeaseRequest, principal: Principal, key: str) -> Submit:
    """Make the command for a request that this caller may make.

    Raises InvalidField, and Forbidden for what is not theirs: another's group, a site that is not their home.
    What depends on the time is left to the federation, which alone knows whether the request was made before
    (``key``), and so cannot be too late.
    """
    home, group = _home(body, principal), _group(body, principal)
    request = Request(
        id=0,
        lease_type=_lease_type(body),
        vms=body.vms,
        duration_ms=body.duration_ms,
        submit_ms=0,  # the engine says when
        ready_ms=0 if body.ready_ms is None else body.ready_ms,
        deadline_ms=body.deadline_ms,
        site=home,
        consumer=principal.consumer,
        memory_mib=body.memory_mib,
        group=group,
        domain=_domain(body),
        claims=tuple(sorted(body.claims.items())),
        wait=body.wait,
        is_foreign=principal.is_foreign,
    )
    check_request(request)
    _check_wait(request)
    require_submission(principal, home=home, group=group)
    metadata = LeaseMetadata(body.name, tuple(body.command))
    return Submit(request, metadata, key=key, request_hash=_hash(body) if key else "")


def _lease_type(body: LeaseRequest) -> LeaseType:
    if body.type is not None:
        return LEASE_TYPES[body.type]
    if body.local:
        return LeaseType.NON_PREEMPTABLE
    raise InvalidField("type", None, f"one of {', '.join(LEASE_TYPES)}")


def _home(body: LeaseRequest, principal: Principal) -> str | None:
    """The home site of a local request, None for any other."""
    if not body.local:
        if body.site is not None:
            raise InvalidField("site", body.site, "none: only a local request says its site")
        return None
    if body.site is not None:
        return body.site
    if len(principal.sites) != 1:
        raise InvalidField("site", None, "the home site of a local request")
    return next(iter(principal.sites))


def _check_wait(request: Request) -> None:
    """Raise InvalidField for ``wait: false`` where a lease waits for room in any case."""
    always = request.is_local or request.lease_type.is_best_effort
    if always and not request.wait:
        kind = "local" if request.is_local else request.lease_type.label
        raise InvalidField("wait", "false", f"true: a {kind} lease waits for room in any case")


def _group(body: LeaseRequest, principal: Principal) -> str:
    """The group that was named, or the caller's first; "" where there is none."""
    return next(iter(principal.groups), "") if body.group is None else body.group


def _domain(body: LeaseRequest) -> str:
    """What a guest is bound to; a local request has its home."""
    if body.local and body.domain:
        raise InvalidField("domain", body.domain, "none: a local request is bound to its home site")
    return body.domain


def _hash(body: LeaseRequest) -> str:
    """The same for requests that mean the same: spaces, order and spelled-out defaults do not count."""
    return sha256(body.model_dump_json(exclude_defaults=True).encode()).hexdigest()
