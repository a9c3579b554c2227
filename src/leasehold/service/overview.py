"""The holders of machines at a glance, as the page at ``/`` shows them.

Only leases that hold machines are read, at most as many as there are machines; waiting ones are only counted. So
an overview costs the same whether ten leases wait or a hundred thousand.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.gateway.gateway import Gateway
from leasehold.model.lease import Lease
from leasehold.service.store.filters import Visible

LOCAL = "own users"
FREE = "free"
OUT = "out of reach"
"""Machines of a site that does not answer, as far as no lease is known to hold them."""

GUESTS = "guests"
"""Guests of a remote site: their types are not reported."""

Holder = tuple[str, str]
"""A consumer and its group; ("", "") stands for all whose leases the reader may not see."""

OTHERS: Holder = ("", "")


@dataclass(frozen=True, slots=True)
class Glance:
    """One site: its VMs by kind (`LOCAL`, a lease type, `FREE`), and by holder with their leases."""

    name: str
    slots: int
    status: str
    kinds: Mapping[str, int]
    holders: Mapping[Holder, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Overview:
    """All sites, and how many open leases hold no machines now."""

    sites: list[Glance]
    waiting: int


@dataclass(frozen=True, slots=True)
class Held:
    """What is held at one site."""

    kinds: Counter[str]
    vms: Counter[Holder]
    leases: Counter[Holder]


def held_now(gateway: Gateway, visible: Visible) -> tuple[dict[str, Held], int]:
    """Return what is held at each site of this gateway, naming visible holders, and the number of waiting leases."""
    found: dict[str, Held] = {}
    holding = 0
    for name, site in gateway.sites.items():
        held = found[name] = Held(Counter(), Counter(), Counter())
        for lease in site.allocations.held.values():
            holder = _holder(lease) if is_visible(lease, visible) else OTHERS
            held.kinds[_kind(lease)] += lease.vms
            held.vms[holder] += lease.vms
            held.leases[holder] += 1
        holding += len(site.allocations.held)
    return found, len(gateway.leases) - holding


def glance(name: str, slots: int, status: str, held: Held) -> Glance:
    """Put together what is known of a site of this gateway."""
    kinds = dict(held.kinds) | {idle_kind(status): max(0, slots - held.kinds.total())}
    holders = {holder: (vms, held.leases[holder]) for holder, vms in held.vms.most_common()}
    return Glance(name, slots, status, kinds, holders)


def idle_kind(status: str) -> str:
    """Say what machines are that no lease holds."""
    return OUT if status == "unreachable" else FREE


def is_visible(lease: Lease, visible: Visible) -> bool:
    """Whether a lease is one of these, as the store would say."""
    request = lease.request
    return (
        visible.everything
        or (bool(visible.consumer) and request.consumer == visible.consumer)
        or (bool(request.group) and request.group in visible.groups)
        or (bool(lease.site) and lease.site in visible.sites)
        or (request.site is not None and request.site in visible.sites)
    )


def _holder(lease: Lease) -> Holder:
    return lease.request.consumer, lease.request.group


def _kind(lease: Lease) -> str:
    return LOCAL if lease.request.is_local else lease.request.lease_type.label
