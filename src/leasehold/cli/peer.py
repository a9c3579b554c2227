"""``leasehold peer``: the gateways that ours exchanges requests with."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import ASKS, complete_ask, complete_peer
from leasehold.cli.live.table import Column, answer_rows, cell, columns_of, pick
from leasehold.cli.live.times import show_distance, show_moment
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.model.errors import InputError, InvalidField

if TYPE_CHECKING:
    from leasehold.client import Client, LinkStatus, NewToken, Peer

app = typer.Typer(help="Exchange requests with other gateways, by agreement.", no_args_is_help=True)

ANY = -1
MOST_HOPS = 7
"""As `leasehold.gateway.peering.MOST_HOPS`, which takes long to import."""

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_peer, show_default=False)]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the other gateway here.", show_default=False)],
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Its address, so that it can send us requests; without one we only send.",
            show_default=False,
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token it created for us.", show_default=False),
    ] = None,
    max_vms: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=ANY,
            help="VMs it may hold here at once; -1 for any number.",
            show_default="any number",
        ),
    ] = None,
    max_hops: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_HOPS,
            help="Hops that a request exchanged with it may make in all; 1: none is passed on.",
            show_default="1",
        ),
    ] = None,
    ask: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="When to send it requests: if none-can of our sites take them, none-can-now, or never.",
            autocompletion=complete_ask,
            show_default="none-can",
        ),
    ] = "",
    *,
    json: Json = False,
) -> None:
    """Add or change a peer gateway; creates the token for the other side."""
    from leasehold.client import PeerSpec

    _check_ask(ask)
    shown = None if token_file is None else _read_token(token_file)
    with gateway() as client:
        before = _known(client, name)
        spec = PeerSpec.of(
            url=url or (before.url if before else ""),
            token=shown,
            ask=ask or (before.ask if before else "none-can"),
            max_vms=_most(max_vms, before),
            max_hops=max_hops or (before.max_hops if before else 1),
        )
        peer = client.peers.keep(name, spec)
        made = None if before else _token_for(client, name)
        address = client.access.url
    if json:
        answer_json({"peer": peer, "token": None if made is None else made.token})
        return
    if made is not None:
        answer(made.token)
    for line in _advice(peer, address, is_new=made is not None):
        talk(line)


def _known(client: "Client", name: str) -> "Peer | None":
    return next((peer for peer in client.peers.list() if peer.name == name), None)


def _most(wanted: int | None, before: "Peer | None") -> int | None:
    if wanted is None:
        return None if before is None else before.max_vms
    return None if wanted == ANY else wanted


def _token_for(client: "Client", name: str) -> "NewToken":
    """Make what the other gateway has to show us."""
    from leasehold.client import Role, TokenSpec

    note = f"for the gateway of {name}"
    return client.tokens.create(TokenSpec(consumer=f"peer/{name}", roles=[Role.PEER], sites=[name], note=note))


@app.command("list")
def list_peers(json: Json = False) -> None:
    """List peers: connection state and exchanged leases."""
    with gateway() as client:
        peers = client.peers.list()
    answer_rows("peers", peers, _columns(), json=json)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show everything known about a peer: requests offered, accepted and refused in both directions."""
    with gateway() as client:
        peer = client.peers.get(name)
    if json:
        answer_json({"peer": peer})
    else:
        answer("\n".join(_account(peer, times.now())))


@app.command()
def remove(name: Name, json: Json = False) -> None:
    """Remove a peer; refused while leases exist between the two, unless it is unreachable."""
    with gateway() as client:
        client.peers.remove(name)
    if json:
        answer_json({"removed": name})
    else:
        answer(f"{name} is no longer a peer; its tokens are revoked")


def _columns() -> "list[Column[Peer]]":
    """Give the columns of a list of peers: its machines, our leases there, and its leases here."""
    from leasehold.client import Peer

    return pick(
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
                "max-hops": Column("MAX_HOPS", lambda peer, _: str(peer.max_hops), is_figure=True),
                "note": Column("NOTE", lambda peer, _: peer.lending.problem or peer.borrowing.problem),
            },
        ),
        "name,borrowing,lending,slots,free,there,here,max-vms,max-hops,note",
    )


_ASK_POLICIES = {
    "none-can": "for requests that none of our sites can serve",
    "none-can-now": "for requests that none of our sites can start now",
    "never": "never",
}
_GROUP_AND_OTHERS = 0o077


def _check_ask(ask: str) -> None:
    """Refuse a word that says nothing; raises InvalidField."""
    if ask and ask not in ASKS:
        raise InvalidField("--ask", ask, f"one of {', '.join(ASKS)}")


def _read_token(path: Path) -> str:
    """Read a token from a file that only its owner can read; raises InputError."""
    try:
        if path.stat().st_mode & _GROUP_AND_OTHERS:
            raise InputError(path, None, f"can be read by others: chmod 600 {path}")
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(path, None, "holds no token") from None
    if not text:
        raise InputError(path, None, "holds no token")
    return text


def _account(peer: "Peer", at: datetime) -> Iterator[str]:
    """Tell all that is known of a peer, line by line."""
    yield f"peer {peer.name} is asked {_ASK_POLICIES.get(peer.ask, peer.ask)}"
    for name, value in _facts(peer):
        if value:
            yield f"  {name:<10}  {value}"
    yield from _link("borrowing", peer.borrowing, at)
    yield from _link("lending", peer.lending, at)


def _facts(peer: "Peer") -> Iterator[tuple[str, str]]:
    yield "address", peer.url or "none: nothing is lent to it"
    if peer.has is not None:
        has = peer.has
        yield "it has", f"{has.slots} VMs, {has.free} free; for one lease {has.widest}, now {has.widest_free}"
        for hops, place in enumerate(has.beyond, 1):
            beyond = f"{place.widest} VMs for one lease, now {place.widest_free}"
            yield "beyond it", f"{beyond}, {'1 hop' if hops == 1 else f'{hops} hops'} further"
    yield (
        "may have",
        "any number of VMs here" if peer.max_vms is None else f"{peer.max_vms} VMs here at a time",
    )
    limit = "1 hop: none is passed on" if peer.max_hops == 1 else f"{peer.max_hops} hops in all"
    yield "requests", f"make at most {limit}"


def _link(name: str, way: "LinkStatus", at: datetime) -> Iterator[str]:
    yield f"  {name:<10}  {way.status}{f': {way.problem}' if way.problem else ''}"
    yield f"  {'':<10}  {way.offered} offered, {way.taken} taken, {way.refused} refused"
    yield f"  {'':<10}  {way.open} open ({way.open_vms} VMs), {way.rate_per_hour:.1f} offered an hour"
    if way.last_heard_at is not None:
        yield f"  {'':<10}  heard {show_moment(way.last_heard_at)} ({show_distance(way.last_heard_at, at)})"


def _advice(peer: "Peer", our_url: str, *, is_new: bool) -> Iterator[str]:
    """Say what has come of it, and what the other side has to do."""
    yield f"leasehold: {peer.name} is a peer{'' if is_new else ', on new terms'}"
    if is_new:
        yield "leasehold: the token above is for its gateway, and will not be shown again; there, run"
        yield f"leasehold:   leasehold peer add OUR_NAME --url {our_url} --token-file FILE"
    if not peer.url:
        yield (
            f"leasehold: we lend {peer.name} nothing before it has an address here:"
            f" leasehold peer add {peer.name} --url URL --token-file FILE"
        )
