"""How peers look: in a line, and in full; and what the other side has to do."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from leasehold.cli.live.completion import ASKS
from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.client import LinkStatus, Peer
from leasehold.model.errors import InputError, InvalidField

HEADS = ["NAME", "BORROWING", "LENDING", "SLOTS", "FREE", "THERE", "HERE", "MAX_VMS", "NOTE"]

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


def overview(peers: Iterable[Peer]) -> list[list[str]]:
    """Show each peer in a line: what it has, and how many leases of ours are there, and of its own here."""
    return [
        [
            peer.name,
            peer.borrowing.status,
            peer.lending.status,
            "" if peer.has is None else str(peer.has.slots),
            "" if peer.has is None else str(peer.has.free),
            str(peer.borrowing.open),
            str(peer.lending.open),
            "any" if peer.max_vms is None else str(peer.max_vms),
            peer.lending.problem or peer.borrowing.problem,
        ]
        for peer in peers
    ]


def account(peer: Peer, at: datetime) -> Iterator[str]:
    """Tell all that is known of a peer, line by line."""
    yield f"peer {peer.name} is asked {_ASKED.get(peer.ask, peer.ask)}"
    for name, value in _facts(peer):
        if value:
            yield f"  {name:<10}  {value}"
    yield from _way("borrowing", peer.borrowing, at)
    yield from _way("lending", peer.lending, at)


def _facts(peer: Peer) -> Iterator[tuple[str, str]]:
    yield "address", peer.url or "none: we do not call it, and lend it nothing"
    if peer.has is not None:
        has = peer.has
        yield "it has", f"{has.slots} VMs, {has.free} free; for one lease {has.widest}, now {has.widest_free}"
    yield (
        "may have",
        "any number of VMs here" if peer.max_vms is None else f"{peer.max_vms} VMs here at a time",
    )


def _way(name: str, way: LinkStatus, at: datetime) -> Iterator[str]:
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
