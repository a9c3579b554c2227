"""Sites, peers and tokens: in a line each, and in full; what the other side of a peer has to do."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from leasehold.cli.live.names import ASKS
from leasehold.cli.live.table import Column, cell, columns_of, pick, print_table
from leasehold.cli.live.times import show_distance, show_moment, show_times
from leasehold.client import Caller, Capabilities, LinkStatus, Overhead, Peer, Site, Token
from leasehold.client.access import Access
from leasehold.model.errors import InputError, InvalidField

SITES = pick(
    columns_of(
        Site,
        {
            "state": Column("STATE", lambda site, _: site.status),
            "free": Column("FREE", lambda site, _: str(site.vms.free), is_figure=True),
            "local": Column("LOCAL", lambda site, _: str(site.vms.local), is_figure=True),
            "guests": Column("GUESTS", lambda site, _: str(site.vms.guests), is_figure=True),
            "waiting-local": Column("WAITING_LOCAL", lambda site, _: str(site.waiting.local), is_figure=True),
            "waiting-guests": Column("WAITING_GUESTS", lambda site, _: str(site.waiting.guests), is_figure=True),
            "note": Column("NOTE", lambda site, _: site.problem or site.note),
        },
    ),
    "name,state,slots,free,local,guests,waiting-local,waiting-guests,driver,note",
)
"""Of each site: VMs first, then leases that wait."""


def print_abilities(sites: Iterable[Site]) -> None:
    """Print what the machines of each site can do."""
    shown = [[site.name, *(cell(can) for _, can in site.capabilities)] for site in sites]
    print_table(["NAME", *map(str.upper, Capabilities.model_fields)], shown)


def site_account(site: Site, at: datetime) -> Iterator[str]:
    """Tell all that is known of a site, line by line."""
    yield f"site {site.name} is {site.status}{_by_whom(site)}"
    for name, value in _site_facts(site, at):
        if value:
            yield f"  {name:<10}  {value}"


def _by_whom(site: Site) -> str:
    by = f" by {site.drained_by}" if site.drained_by else ""
    return f"{by}: {site.note}" if site.note else by


def _site_facts(site: Site, at: datetime) -> Iterator[tuple[str, str]]:
    vms, waiting = site.vms, site.waiting
    yield "machines", f"{site.slots} of {site.speed_mips} MIPS each, made by {site.driver}"
    yield "in use", f"{vms.local} by its own users, {vms.guests} by guests, {vms.free} free"
    yield "waiting", f"{waiting.local} of its own, {waiting.guests} guests"
    yield "lends to", site.allows
    yield "can", ", ".join(name for name, can in site.capabilities if can)
    if site.last_seen_at is not None:
        yield "last seen", f"{show_moment(site.last_seen_at)} ({show_distance(site.last_seen_at, at)})"
    for overhead in site.overheads:
        yield overhead.operation, _overhead(overhead)
    yield "problem", site.problem


def _overhead(overhead: Overhead) -> str:
    """Say how long an operation takes, and how that is known; "" where nothing is."""
    learnt, configured = overhead.learnt_s, overhead.configured_s
    if not overhead.count:
        return "" if configured is None else f"{configured:g} s, as configured"
    took = f"{learnt:g} s, measured {show_times(overhead.count)}"
    return took if configured is None else f"{took}; configured {configured:g} s"


# Peers


PEERS = pick(
    columns_of(
        Peer,
        {
            "borrowing": Column("BORROWING", lambda peer, _: peer.borrowing.status),
            "lending": Column("LENDING", lambda peer, _: peer.lending.status),
            "slots": Column("SLOTS", lambda peer, _: cell(peer.has and peer.has.slots), is_figure=True),
            "free": Column("FREE", lambda peer, _: cell(peer.has and peer.has.free), is_figure=True),
            "there": Column("THERE", lambda peer, _: str(peer.borrowing.open), is_figure=True),
            "here": Column("HERE", lambda peer, _: str(peer.lending.open), is_figure=True),
            "max-vms": Column("MAX_VMS", lambda peer, _: cell(peer.max_vms) or "any", is_figure=True),
            "note": Column("NOTE", lambda peer, _: peer.lending.problem or peer.borrowing.problem),
        },
    ),
    "name,borrowing,lending,slots,free,there,here,max-vms,note",
)
"""Of each peer: what it has, and how many leases of ours are there, and of its own here."""


_ASKED = {
    "none-can": "for what none of our sites can take",
    "none-can-now": "for what none of our sites can start now",
    "never": "never",
}
_GROUP_AND_OTHERS = 0o077


def check_ask(ask: str) -> None:
    """Refuse a word that says nothing; raises InvalidField."""
    if ask and ask not in ASKS:
        raise InvalidField("--ask", ask, f"one of {', '.join(ASKS)}")


def read_token(path: Path) -> str:
    """Read a token from a file that only its owner can read; raises InputError."""
    try:
        if path.stat().st_mode & _GROUP_AND_OTHERS:
            raise InputError(path, None, f"can be read by others; if nobody has, say: chmod 600 {path}")
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(path, None, "holds no token") from None
    if not text:
        raise InputError(path, None, "holds no token")
    return text


def peer_account(peer: Peer, at: datetime) -> Iterator[str]:
    """Tell all that is known of a peer, line by line."""
    yield f"peer {peer.name} is asked {_ASKED.get(peer.ask, peer.ask)}"
    for name, value in _peer_facts(peer):
        if value:
            yield f"  {name:<10}  {value}"
    yield from _link("borrowing", peer.borrowing, at)
    yield from _link("lending", peer.lending, at)


def _peer_facts(peer: Peer) -> Iterator[tuple[str, str]]:
    yield "address", peer.url or "none: we do not call it, and lend it nothing"
    if peer.has is not None:
        has = peer.has
        yield "it has", f"{has.slots} VMs, {has.free} free; for one lease {has.widest}, now {has.widest_free}"
    yield (
        "may have",
        "any number of VMs here" if peer.max_vms is None else f"{peer.max_vms} VMs here at a time",
    )


def _link(name: str, way: LinkStatus, at: datetime) -> Iterator[str]:
    yield f"  {name:<10}  {way.status}{f': {way.problem}' if way.problem else ''}"
    yield f"  {'':<10}  {way.offered} offered, {way.taken} taken, {way.refused} refused"
    yield f"  {'':<10}  {way.open} open ({way.open_vms} VMs), {way.rate_per_hour:.1f} offered an hour"
    if way.last_heard_at is not None:
        yield f"  {'':<10}  heard {show_moment(way.last_heard_at)} ({show_distance(way.last_heard_at, at)})"


def advice(peer: Peer, our_url: str, *, is_new: bool) -> Iterator[str]:
    """Say what has come of it, and what the other side has to do."""
    yield f"leasehold: {peer.name} is a peer{'' if is_new else ', on new terms'}"
    if is_new:
        yield "leasehold: the token above is for its gateway, and is shown only now; there, somebody types"
        yield f"leasehold:   leasehold peer add OUR_NAME --url {our_url} --token-file FILE"
    if not peer.url:
        yield (
            f"leasehold: we lend {peer.name} nothing before it has an address here:"
            f" leasehold peer add {peer.name} --url URL --token-file FILE"
        )


# Tokens; their text is no part of it


TOKENS = pick(columns_of(Token, {}), "id,consumer,roles,groups,sites,created,expires,revoked,note")


def token_line(token: Token) -> str:
    """Say in one line whose token it is, and what for."""
    until = "" if token.expires_at is None else f"; until {show_moment(token.expires_at)}"
    return f"token {token.id} is for {_who(token)}{until}"


def introduction(caller: Caller, access: Access) -> Iterator[str]:
    """Say who is who at a gateway, what they may, and how that is known."""
    yield _who(caller)
    for name, value in _caller_facts(caller, access):
        yield f"  {name:<10}  {value}"


def _caller_facts(caller: Caller, access: Access) -> Iterator[tuple[str, str]]:
    yield "gateway", access.url
    yield "token", f"{caller.token_id or 'of another issuer'}, from {access.token.origin}"
    for permission, scopes in (caller.permissions or {}).items():
        yield "may", f"{permission} ({', '.join(scopes)})"


def _who(somebody: Caller | Token) -> str:
    groups = f", groups {', '.join(somebody.groups)}" if somebody.groups else ""
    sites = f", sites {', '.join(somebody.sites)}" if somebody.sites else ""
    return f"{somebody.consumer} as {', '.join(somebody.roles)}{groups}{sites}"
