"""What the messages say, and what a site says of itself whenever it writes.

A message is kept by its writer until it was acknowledged, and told again until then. Its reader takes in those
that follow the last one that he has taken in, in the transaction in which he does what they ask for.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self

from leasehold.gateway.sites import RemoteSite
from leasehold.model.errors import InvalidField
from leasehold.model.event import SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LEASE_TYPES, Request
from leasehold.routing.view import SiteLive
from leasehold.service.commands import Submit
from leasehold.service.messages.names import GATEWAY, asking_peer
from leasehold.service.store.rows import LeaseMetadata
from leasehold.sharing.parties import is_path

__all__ = ["GATEWAY", "About", "Message", "Offer", "Recall", "offer", "read", "recall", "refusal", "report"]

Body = dict[str, Any]
OFFER, RECALL, REPORT = "offer", "recall", "report"
LARGEST = 2**53
"""No whole number in a message is larger: so far any JSON can be trusted."""
MOST_VMS = 1_000_000
"""Nor does any count of VMs, or any speed, go beyond this, as in requests."""
MOST_DURATION_MS, MOST_MEMORY_MIB = 10 * 365 * 86_400_000, 2**31
_MOST_TEXT, _MOST_WORDS, _MOST_CLAIMS = 131_072, 1_024, 64
"""Of characters in a text, of words in a command, and of further resources."""


@dataclass(frozen=True, slots=True)
class About:
    """A site as it is now; ``identity`` is that of its store, the same for as long as that lives.

    A peer tells of all its sites that lend, as if they were one; ``widest_vms`` is then the most that one
    lease can have there, ``widest_free_vms`` the most that one could have now.
    """

    identity: str
    slots: int
    speed_mips: int
    reference_mips: int
    driver: str
    can_suspend: bool
    can_migrate: bool
    lends: bool
    local_vms: int
    guest_vms: int
    waiting_local: int
    waiting_guests: int
    waiting_local_vms: int
    waiting_guest_vms: int
    is_gateway: bool = False
    widest_vms: int = 0
    widest_free_vms: int = 0

    def to_dict(self) -> Body:
        """Give it as JSON would."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """Read it; raises InvalidField for what is missing or is of another kind than it should be."""
        said: Body = {}
        for field in fields(cls):
            value = said[field.name] = told.get(field.name, None if field.default is MISSING else field.default)
            kind = {"int": int, "bool": bool, "str": str}[str(getattr(field.type, "__name__", field.type))]
            if type(value) is not kind:
                raise InvalidField(f"about.{field.name}", value, f"a value of type {kind.__name__}")
            if isinstance(value, int) and not 0 <= value <= MOST_VMS:
                raise InvalidField(f"about.{field.name}", value, f"a whole number from 0 to {MOST_VMS}")
        about = cls(**said)
        about.check()
        return about

    def check(self) -> None:
        """Refuse what cannot be so, as more that is free than there is; raises InvalidField."""
        for name in ("slots", "speed_mips", "reference_mips"):
            if getattr(self, name) < 1:
                raise InvalidField(f"about.{name}", getattr(self, name), "a whole number of at least 1")
        for name, most in (("widest_vms", self.slots), ("widest_free_vms", self.widest_vms)):
            if getattr(self, name) > most:
                raise InvalidField(f"about.{name}", getattr(self, name), f"a whole number from 0 to {most}")

    def as_remote(self, name: str) -> RemoteSite:
        """Give it as the decision core knows it."""
        site = RemoteSite(name, self.most_vms, self.speed_mips, self.can_suspend, self.can_migrate, self.lends)
        site.is_peer = self.is_gateway
        site.live = self.live()
        return site

    @property
    def free_vms(self) -> int:
        """How many VMs nobody has; none where the site has become smaller than what it holds."""
        return max(0, self.slots - self.local_vms - self.guest_vms)

    @property
    def most_vms(self) -> int:
        """How many VMs one lease can have there at most."""
        return max(1, self.widest_vms) if self.is_gateway else self.slots

    def live(self) -> SiteLive:
        """Give how the site is now, for routing."""
        return SiteLive(
            free_vms=self.widest_free_vms if self.is_gateway else self.free_vms,
            local_waiting_vms=self.waiting_local_vms,
            guest_waiting_vms=self.waiting_guest_vms,
            running_guest_vms=self.guest_vms,
        )

    def is_like(self, remote: RemoteSite) -> bool:
        """Whether nothing has changed of what routing takes for granted."""
        return (
            self.most_vms == remote.slots
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


Message = Offer | Recall | SiteReported


def read(body: Body, endpoint: str) -> Message:
    """Understand a message; raises InvalidField for what does not make sense."""
    try:
        kind = body["kind"]
        if kind == OFFER:
            return Offer(_lease_id(body), _submit_of(body, endpoint))
        if kind == RECALL:
            return Recall(_lease_id(body))
        if kind == REPORT:
            return _news_of(body, endpoint)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InvalidField("message", body, f"one that can be read ({problem})") from None
    raise InvalidField("message.kind", kind, "offer, recall or report: is one of the two of another version?")


def _lease_id(body: Body) -> int:
    return _whole(body["lease"])


def offer(lease: Lease, about: LeaseMetadata, *, wait: bool = False) -> Body:
    """Ask a site to take a lease in.

    A ready time that has come is left out: the site's clock may be behind, and it would wait for nothing.
    """
    request = lease.request
    return {
        "kind": OFFER,
        "lease": lease.id,
        "consumer": request.consumer,
        "group": request.group,
        "name": about.name,
        "lease_type": request.lease_type.label,
        "vms": request.vms,
        "duration_ms": request.duration_ms,
        "memory_mib": request.memory_mib,
        "ready_ms": request.ready_ms if request.ready_ms > lease.dispatched_ms else None,
        "deadline_ms": request.deadline_ms,
        "wait": wait,
        "domain": request.domain,
        "claims": [list(claim) for claim in request.claims],
        "command": list(about.command),
    }


def _submit_of(body: Body, gateway: str) -> Submit:
    group = body["group"]
    peer = asking_peer(gateway)
    request = Request(
        id=0,
        lease_type=LEASE_TYPES[body["lease_type"]],
        vms=_whole(body["vms"], -LARGEST),
        duration_ms=_whole(body["duration_ms"], -LARGEST),
        submit_ms=0,
        ready_ms=_whole_or_none(body["ready_ms"]) or 0,
        deadline_ms=_whole_or_none(body["deadline_ms"]),
        consumer=_called_here(gateway, body["consumer"]),
        memory_mib=_whole(body["memory_mib"], -LARGEST),
        from_peer=peer,
        group=_called_here(gateway, group) if group else "",
        domain=_text(body["domain"]),
        claims=_claims(body["claims"]),
        wait=_truth(body["wait"]),
        is_foreign=bool(peer),
    )
    metadata = LeaseMetadata(_text(body["name"]), _words(body["command"]), gateway, _lease_id(body))
    return Submit(request, metadata)


def check_offer(request: Request) -> None:
    """Refuse a request that was understood, and that nobody here could have made; raises InvalidField."""
    for name, most in (("vms", MOST_VMS), ("duration_ms", MOST_DURATION_MS), ("memory_mib", MOST_MEMORY_MIB)):
        if not 1 <= getattr(request, name) <= most:
            raise InvalidField(name, getattr(request, name), f"a whole number from 1 to {most}")
    for name, units in request.claims:
        if units < 1:
            raise InvalidField(f"claims.{name}", units, "a whole number of at least 1")


def _called_here(gateway: str, name: object) -> str:
    """Name somebody: a peer's consumers and groups are not ours, even where they are called alike."""
    if not isinstance(name, str) or not is_path(name):
        raise TypeError(f"{name!r:.40} is not the path of a consumer or group")
    return f"{gateway}/{name}" if asking_peer(gateway) else name


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or len(value) > _MOST_TEXT:
        raise TypeError(f"{value!r:.40} is no text that can be kept")
    value.encode()  # half a character cannot be kept either
    return value


def _claims(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, list) or len(value) > _MOST_CLAIMS:
        raise TypeError(f"{value!r:.40} is no list of further resources")
    return tuple((_text(name), _whole(units, -LARGEST)) for name, units in value)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is neither true nor false")
    return value


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_WORDS:
        raise TypeError(f"{value!r:.40} is no list of words")
    return tuple(_text(word) for word in value)


def _whole(value: object, least: int = 0, most: int = LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise TypeError(f"{value!r:.40} is no whole number from {least} to {most}")
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def recall(lease: Lease) -> Body:
    """Ask a site to give a lease up."""
    return {"kind": RECALL, "lease": lease.id}


def report(lease: Lease, about: LeaseMetadata) -> Body:
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
        _whole(body["planned_ms"], -1),
        _whole(body["first_start_ms"], -1),
        _whole(body["preemptions"]),
        _whole(body["overhead_vm_ms"]),
    )
