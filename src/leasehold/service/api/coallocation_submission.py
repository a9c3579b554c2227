"""From the body of a co-allocation to a command, as `leasehold.service.api.submission` for a single one."""

from hashlib import sha256

from leasehold.model.coallocation import Claim, Component
from leasehold.model.errors import InvalidField
from leasehold.service.api.models.coallocations import CoAllocationSpec, ComponentRequest
from leasehold.service.auth.permissions import require_submission
from leasehold.service.auth.principal import Principal
from leasehold.service.commands import SubmitCoAllocation


def coallocation_submission(body: CoAllocationSpec, principal: Principal, key: str) -> SubmitCoAllocation:
    """Make the command for a co-allocation that this caller may ask for; raises InvalidField and Forbidden.

    What depends on the time and on the sites is left to the federation.
    """
    group = next(iter(principal.groups), "") if body.group is None else body.group
    require_submission(principal, home=None, group=group)
    return SubmitCoAllocation(
        consumer=principal.consumer,
        components=tuple(_component(one, body) for one in body.components),
        claim=Claim(body.claim),
        place=body.place,
        ready_ms=body.ready_ms,
        deadline_ms=body.deadline_ms,
        tries=body.tries,
        retries=body.retries,
        margin_ms=body.margin_ms,
        name=body.name,
        group=group,
        command=tuple(body.command),
        key=key,
        request_hash=_hash(body) if key else "",
        is_foreign=principal.is_foreign,
    )


def _component(one: ComponentRequest, body: CoAllocationSpec) -> Component:
    duration_ms = one.duration_ms or body.duration_ms
    if duration_ms is None:
        raise InvalidField("duration_s", None, "a duration, of the component or of the co-allocation")
    files = tuple((file.site, file.mib) for file in one.files)
    return Component(one.vms, duration_ms, one.site or "", files, one.memory_mib)


def _hash(body: CoAllocationSpec) -> str:
    """The same for requests that mean the same, and never that of a single lease."""
    return sha256(b"coallocation " + body.model_dump_json(exclude_defaults=True).encode()).hexdigest()
