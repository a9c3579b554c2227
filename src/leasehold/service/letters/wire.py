"""What the letters say, and what a site says of itself whenever it writes.

A letter is kept by its writer until it was acknowledged, and told again until then. Its reader takes in those
that follow the last one that he has taken in, in the transaction in which he does what they ask for.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from leasehold.gateway.remote import RemoteSite
from leasehold.model.errors import InvalidField
from leasehold.model.event import SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LEASE_TYPES
from leasehold.routing.facts import SiteLive
from leasehold.service.commands import Submit
from leasehold.service.engine.ledger import Particulars

Body = dict[str, Any]
OFFER, RECALL, REPORT = "offer", "recall", "report"
GATEWAY = "gateway"
"""How a site calls its gateway."""


@dataclass(frozen=True, slots=True)
class About:
    """A site as it is now; ``identity`` is that of its store, the same for as long as that lives."""

    identity: str
    slots: int
    speed_mips: int
    reference_mips: int
    enactor: str
    can_suspend: bool
    can_migrate: bool
    lends: bool
    local_vms: int
    guest_vms: int
    waiting_local: int
    waiting_guests: int
    waiting_local_vms: int
    waiting_guest_vms: int

    def to_dict(self) -> Body:
        """Give it as JSON would."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """Read it; raises InvalidField for what is missing or is of another kind than it should be."""
        for field in fields(cls):
            value = told.get(field.name)
            kind = {"int": int, "bool": bool, "str": str}[str(getattr(field.type, "__name__", field.type))]
            if type(value) is not kind:
                raise InvalidField(f"about.{field.name}", value, f"a value of type {kind.__name__}")
        return cls(**{field.name: told[field.name] for field in fields(cls)})

    def as_remote(self, name: str) -> RemoteSite:
        """Give it as the decision core knows it."""
        site = RemoteSite(name, self.slots, self.speed_mips, self.can_suspend, self.can_migrate, self.lends)
        site.live = self.live()
        return site

    @property
    def free_vms(self) -> int:
        """How many VMs nobody has; none where the site has become smaller than what it holds."""
        return max(0, self.slots - self.local_vms - self.guest_vms)

    def live(self) -> SiteLive:
        """Give how the site is now, for routing."""
        return SiteLive(
            free_vms=self.free_vms,
            local_waiting_vms=self.waiting_local_vms,
            guest_waiting_vms=self.waiting_guest_vms,
            running_guest_vms=self.guest_vms,
        )

    def is_like(self, remote: RemoteSite) -> bool:
        """Whether nothing has changed of what routing takes for granted."""
        return (
            self.slots == remote.slots
            and self.speed_mips == remote.speed_mips
            and self.can_suspend == remote.can_suspend
            and self.can_migrate == remote.can_migrate
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """A request that a site is asked to take in; ``lease_id`` is its number at the gateway."""

    lease_id: int
    submit: Submit


@dataclass(frozen=True, slots=True)
class Recall:
    """A lease that the gateway's user wants back."""

    lease_id: int


Letter = Offer | Recall | SiteReported


def read(body: Body, correspondent: str) -> Letter:
    """Understand a letter; raises InvalidField for what does not make sense."""
    try:
        kind = body["kind"]
        if kind == OFFER:
            return Offer(_lease_id(body), _submit_of(body, correspondent))
        if kind == RECALL:
            return Recall(_lease_id(body))
        if kind == REPORT:
            return _news_of(body, correspondent)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InvalidField("letter", body, f"one that can be read ({problem})") from None
    raise InvalidField("letter.kind", kind, "offer, recall or report: is one of the two of another version?")


def _lease_id(body: Body) -> int:
    lease_id = body["lease"]
    if type(lease_id) is not int:
        raise TypeError("lease is no whole number")
    return lease_id


def offer(lease: Lease, about: Particulars) -> Body:
    """Ask a site to take a lease in.

    A ready time that has come is left out: the site's clock may be behind, and it would wait for nothing.
    """
    request = lease.request
    return {
        "kind": OFFER,
        "lease": lease.id,
        "consumer": request.consumer,
        "group": about.group,
        "name": about.name,
        "lease_type": request.lease_type.label,
        "vms": request.vms,
        "duration_ms": request.duration_ms,
        "memory_mib": request.memory_mib,
        "ready_ms": request.ready_ms if request.ready_ms > lease.dispatched_ms else None,
        "deadline_ms": request.deadline_ms,
        "command": list(about.command),
    }


def _submit_of(body: Body, gateway: str) -> Submit:
    return Submit(
        consumer=body["consumer"],
        lease_type=LEASE_TYPES[body["lease_type"]],
        vms=body["vms"],
        duration_ms=body["duration_ms"],
        memory_mib=body["memory_mib"],
        ready_ms=body["ready_ms"],
        deadline_ms=body["deadline_ms"],
        name=body["name"],
        group=body["group"],
        command=tuple(body["command"]),
        origin=gateway,
        origin_id=body["lease"],
    )


def recall(lease: Lease) -> Body:
    """Ask a site to give a lease up."""
    return {"kind": RECALL, "lease": lease.id}


def report(lease: Lease, about: Particulars) -> Body:
    """Tell the gateway what has become of a lease that it sent."""
    return {
        "kind": REPORT,
        "lease": about.origin_id,
        "state": lease.state.value,
        "reason": about.reason,
        "planned_ms": lease.reserved_ms,
        "first_start_ms": lease.first_start_ms,
        "preemptions": lease.preemptions,
        "overhead_vm_ms": lease.overhead_vm_ms,
    }


def refusal(lease_id: int, reason: Reason) -> Body:
    """Tell the gateway that an offer makes no sense here."""
    return {
        "kind": REPORT,
        "lease": lease_id,
        "state": LeaseState.REFUSED.value,
        "reason": reason.value,
        "planned_ms": -1,
        "first_start_ms": -1,
        "preemptions": 0,
        "overhead_vm_ms": 0,
    }


def _news_of(body: Body, site: str) -> SiteReported:
    return SiteReported(
        _lease_id(body),
        site,
        LeaseState(body["state"]),
        Reason(body["reason"] or Reason.ROUTED),
        body["planned_ms"],
        body["first_start_ms"],
        body["preemptions"],
        body["overhead_vm_ms"],
    )
