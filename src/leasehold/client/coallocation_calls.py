"""What can be asked of a gateway about co-allocations, as `leasehold.client.calls` for single ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Required, TypedDict
from uuid import uuid4

from leasehold.client.calls import insist_on_zones
from leasehold.client.coallocation_records import CoAllocation, CoAllocationExplanation
from leasehold.client.question import Call, Page, one, paged
from leasehold.client.reading import wire

_LEFT_OUT: tuple[object, ...] = (None, "", {}, [], ())


class ComponentWish(TypedDict, total=False):
    """One component: ``site`` where it has to be, ``files`` what it reads, as {"site": ..., "mib": ...}."""

    vms: Required[int]
    duration_s: float | None
    memory_mib: int | None
    site: str
    files: Sequence[Mapping[str, Any]]


class CoAllocationSpec(TypedDict, total=False):
    """A request for a co-allocation.

    ``duration_s``       for the components that do not say it themselves
    ``claim``            incremental or reservation
    ``place``            worst-fit or close-to-files
    ``margin_s``         from how long before the start on machines may be claimed
    ``tries, retries``   how often all of it is tried for, and a lost component is placed again
    ``idempotency_key``  as in `leasehold.client.calls.Wish`
    """

    components: Required[Sequence[ComponentWish]]
    duration_s: float | None
    claim: str
    place: str
    ready: datetime | None
    deadline: datetime | None
    margin_s: float
    tries: int
    retries: int
    name: str
    group: str
    command: Sequence[str]
    idempotency_key: str


def submit_coallocation(wish: CoAllocationSpec) -> Call[CoAllocation]:
    """Ask for a co-allocation; raises InvalidField for a time without its zone."""
    body = _coallocation_body(wish)
    key = body.pop("idempotency_key", None) or str(uuid4())
    return Call("POST", "/v1/coallocations", one(CoAllocation), body=body, key=key)


def coallocation(coallocation_id: int) -> Call[CoAllocation]:
    """Ask for one co-allocation."""
    return Call("GET", f"/v1/coallocations/{coallocation_id}", one(CoAllocation))


def coallocations() -> Call[Page[CoAllocation]]:
    """Ask for co-allocations, the newest first."""
    return paged("/v1/coallocations", (), "coallocations", CoAllocation)


def cancel_coallocation(coallocation_id: int) -> Call[CoAllocation]:
    """Take a co-allocation back; one that is over stays as it is."""
    return Call("DELETE", f"/v1/coallocations/{coallocation_id}", one(CoAllocation))


def explain_coallocation(wish: CoAllocationSpec) -> Call[CoAllocationExplanation]:
    """Ask what would become of a co-allocation; raises InvalidField for a time without its zone."""
    return Call("POST", "/v1/coallocations/explain", one(CoAllocationExplanation), body=_coallocation_body(wish))


def _coallocation_body(wish: CoAllocationSpec) -> dict[str, Any]:
    insist_on_zones(deadline=wish.get("deadline"), ready=wish.get("ready"))
    said: dict[str, Any] = {key: wire(value) for key, value in wish.items() if value not in _LEFT_OUT}
    said["components"] = [
        {key: value for key, value in component.items() if value not in _LEFT_OUT} for component in wish["components"]
    ]
    return said
