"""What can be asked of a gateway: each question as a request, and how its answer is read.

Nothing here talks; `leasehold.client.wire` does, in two ways, with these same questions. Those about
agreements and usage are in `leasehold.client.sharing_calls`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Required, TypedDict
from urllib.parse import quote
from uuid import uuid4

from leasehold.client.answer import Answer
from leasehold.client.coallocation_records import LeaseExplanation
from leasehold.client.question import Call, Page, all_of, nothing, one, paged
from leasehold.client.reading import wire
from leasehold.client.records import Caller, Entry, Lease, NewToken, Peer, Site, Token
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType


class Wish(TypedDict, total=False):
    """A request for a lease.

    ``type``             of the lease; a local request needs none
    ``duration_s``       seconds, on a machine of the reference speed
    ``deadline, ready``  to end by, and not to start before; with their zone
    ``local, site``      a request at one's own site, which is planned before all guests
    ``domain``           the virtual domain or site that it is bound to
    ``claims``           units of further resources that it holds while it runs: licences, services
    ``wait``             False: refuse what cannot start at its ready time; left out, it waits for room
    ``command``          what to run in the machines; without one there are just the machines
    ``idempotency_key``  the same key again means the same request, which is taken in once; made up if absent
    """

    type: LeaseType | str | None
    vms: Required[int]
    duration_s: Required[float]
    memory_mib: int | None
    deadline: datetime | None
    ready: datetime | None
    local: bool
    site: str | None
    name: str
    group: str
    domain: str
    claims: Mapping[str, int]
    wait: bool | None
    command: Sequence[str]
    idempotency_key: str


class Which(TypedDict, total=False):
    """Which leases: all that are visible, without any of these.

    ``since``  submitted at this time or later, with its zone
    ``open``   True for those that are not over, False for those that are
    """

    states: Sequence[LeaseState | str]
    site: str
    consumer: str
    since: datetime | None
    open: bool


class Rights(TypedDict, total=False):
    """What a new token is for."""

    consumer: Required[str]
    roles: Required[Sequence[str]]
    groups: Sequence[str]
    sites: Sequence[str]
    expires_in_s: float | None
    note: str


class Agreement(TypedDict, total=False):
    """What is agreed with a peer; what is left out is as usual.

    ``url``      where it is called, so that it can ask us; left out: we lend it nothing
    ``token``    what it gave us, with the role peer; left out: what it gave before
    ``ask``      when we ask it: none-can (of our sites take a request), none-can-now or never
    ``max_vms``  most VMs that it may have here at a time; left out: any number
    """

    url: str
    token: str | None
    ask: str
    max_vms: int | None


def submit(wish: Wish) -> Call[Lease]:
    """Ask for a lease; raises InvalidField for a time without its zone."""
    insist_on_zones(deadline=wish.get("deadline"), ready=wish.get("ready"))
    said = {key: wire(value) for key, value in wish.items() if value not in (None, "", {})}
    key = said.pop("idempotency_key", None) or str(uuid4())
    return Call("POST", "/v1/leases", one(Lease), body=said, key=key)


def explain(wish: Wish) -> Call[LeaseExplanation]:
    """Ask what would become of a lease; raises InvalidField for a time without its zone."""
    insist_on_zones(deadline=wish.get("deadline"), ready=wish.get("ready"))
    said = {key: wire(value) for key, value in wish.items() if value not in (None, "", {}, (), [])}
    said.pop("idempotency_key", None)
    return Call("POST", "/v1/leases/explain", one(LeaseExplanation), body=said)


def lease(lease_id: int) -> Call[Lease]:
    """Ask for one lease."""
    return Call("GET", f"/v1/leases/{lease_id}", one(Lease))


def leases(which: Which) -> Call[Page[Lease]]:
    """Ask for leases, the newest first; raises InvalidField for a time without its zone."""
    insist_on_zones(since=which.get("since"))
    words = [("state", str(state)) for state in which.get("states", ())]
    words += [(name, wire(which[name])) for name in ("site", "consumer", "since") if which.get(name)]
    if "open" in which:
        words.append(("open", str(which["open"]).lower()))
    return paged("/v1/leases", tuple(words), "leases", Lease)


def cancel(lease_id: int) -> Call[Lease]:
    """Take a lease back; one that is over stays as it is."""
    return Call("DELETE", f"/v1/leases/{lease_id}", one(Lease))


def extend(lease_id: int, by_s: float) -> Call[Lease]:
    """Let a lease last longer; asking twice would make it longer twice."""
    path = f"/v1/leases/{lease_id}/extension"
    return Call("POST", path, one(Lease), body={"by_s": by_s}, repeatable=False)


def journal(lease_id: int) -> Call[Page[Entry]]:
    """Ask what happened to a lease, the oldest first."""
    return paged(f"/v1/leases/{lease_id}/journal", (), "entries", Entry)


def console(lease_id: int) -> Call[str]:
    """Ask for what its machines wrote."""
    return Call("GET", f"/v1/leases/{lease_id}/console", Answer.text)


def sites() -> Call[tuple[Site, ...]]:
    """Ask for all sites."""
    return Call("GET", "/v1/sites", all_of("sites", Site))


def site(name: str) -> Call[Site]:
    """Ask for one site."""
    return Call("GET", _site_path(name), one(Site))


def drain(name: str, note: str) -> Call[Site]:
    """Let a site take no new guests."""
    return Call("POST", f"{_site_path(name)}/drain", one(Site), body={"note": note} if note else {})


def resume(name: str) -> Call[Site]:
    """Let a drained site take guests again."""
    return Call("POST", f"{_site_path(name)}/resume", one(Site))


def forget_site(name: str) -> Call[None]:
    """Let go of a site that will not come back."""
    return Call("DELETE", _site_path(name), nothing)


def peers() -> Call[tuple[Peer, ...]]:
    """Ask for all peers."""
    return Call("GET", "/v1/peers", all_of("peers", Peer))


def peer(name: str) -> Call[Peer]:
    """Ask for one peer."""
    return Call("GET", _peer_path(name), one(Peer))


def keep_peer(name: str, agreement: Agreement) -> Call[Peer]:
    """Exchange requests with a gateway, on these terms from now on."""
    return Call("PUT", _peer_path(name), one(Peer), body=dict(agreement))


def remove_peer(name: str) -> Call[None]:
    """Exchange nothing with it any more."""
    return Call("DELETE", _peer_path(name), nothing)


def create_token(rights: Rights) -> Call[NewToken]:
    """Ask for a token; asking twice would make two."""
    body = {key: wire(value) for key, value in rights.items() if value is not None}
    return Call("POST", "/v1/tokens", one(NewToken), body=body, repeatable=False)


def tokens() -> Call[tuple[Token, ...]]:
    """Ask for all tokens; none of them tells its text again."""
    return Call("GET", "/v1/tokens", all_of("tokens", Token))


def revoke_token(token_id: str) -> Call[None]:
    """Let a token count no more."""
    return Call("DELETE", f"/v1/tokens/{quote(token_id, safe='')}", nothing)


def caller() -> Call[Caller]:
    """Ask who we are."""
    return Call("GET", "/v1/tokens/self", one(Caller))


def alive() -> Call[bool]:
    """Ask whether the gateway lives."""
    return Call("GET", "/healthz", lambda answer: answer.is_yes, repeatable=False)


def why_not_ready() -> Call[str | None]:
    """Ask what keeps the gateway from serving: None where nothing does."""
    return Call("GET", "/readyz", _why_not, repeatable=False)


def _why_not(answer: Answer) -> str | None:
    if answer.is_yes:
        return None
    return answer.problem().detail or f"it answers with status {answer.status}"


def insist_on_zones(**moments: datetime | None) -> None:
    """Refuse times without their zone; raises InvalidField."""
    for name, moment in moments.items():
        if moment is not None and moment.tzinfo is None:
            raise InvalidField(name, moment.isoformat(), "a time with its zone")


def _site_path(name: str) -> str:
    return f"/v1/sites/{quote(name, safe='')}"


def _peer_path(name: str) -> str:
    return f"/v1/peers/{quote(name, safe='')}"
